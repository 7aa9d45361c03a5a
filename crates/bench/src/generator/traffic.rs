//! What the generator and the workloads say to each other about operations.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// What is to be remembered of an operation while it is under way. Small, because every connection has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Index into the kinds of operations.
    pub(crate) kind: u8,
    /// Which request of the operation is under way.
    pub(crate) step: u8,
    /// The document that the operation is about.
    pub(crate) key: u64,
}

/// What a reply means for its operation.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It is over, and its latency counts.
    Done,
    /// It goes on with another request.
    Again,
    /// It is over, counts as an error and is not timed.
    Failed(Failure),
}

/// One failed operation or connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// The server's error code, where one came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<i32>,
    /// The server's name for the code, or what was wrong in a few words: few different ones, since they are
    /// counted by it.
    pub(crate) name: String,
}

/// Failures, counted by what they are. In JSON it is a list.
pub(crate) type Errors = BTreeMap<Failure, u64>;

/// Adds what somebody else counted.
pub(crate) fn add_errors(sum: &mut Errors, errors: &Errors) {
    for (failure, times) in errors {
        *sum.entry(failure.clone()).or_default() += times;
    }
}

#[derive(Serialize, Deserialize)]
struct Counted<F> {
    #[serde(flatten)]
    failure: F,
    count: u64,
}

/// For `#[serde(with = …)]`.
pub(crate) mod counted {
    use super::{Counted, Deserialize, Deserializer, Errors, Serializer};

    pub(crate) fn serialize<S: Serializer>(errors: &Errors, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(errors.iter().map(|(failure, &count)| Counted { failure, count }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Errors, D::Error> {
        let all = Vec::<Counted<_>>::deserialize(deserializer)?;
        Ok(all.into_iter().map(|counted| (counted.failure, counted.count)).collect())
    }
}

/// Where a failure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FailureKind {
    /// A reply with `ok: 0`.
    Server,
    /// A reply with `writeErrors`.
    Write,
    /// A reply with `writeConcernError`.
    WriteConcern,
    /// A good reply without what was asked for.
    Unexpected,
    /// Bytes that are no reply to the request under way.
    Protocol,
    /// A connection that could not be made.
    Connect,
    /// A connection that ended, with an operation under way or not.
    Lost,
    /// No reply in time.
    Timeout,
    /// An intended start of an open loop for which no connection was free before the end.
    Unsent,
}

impl FailureKind {
    /// As JSON has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            FailureKind::Server => "server",
            FailureKind::Write => "write",
            FailureKind::WriteConcern => "writeConcern",
            FailureKind::Unexpected => "unexpected",
            FailureKind::Protocol => "protocol",
            FailureKind::Connect => "connect",
            FailureKind::Lost => "lost",
            FailureKind::Timeout => "timeout",
            FailureKind::Unsent => "unsent",
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, name: impl Into<String>) -> Self {
        Failure { kind, code: None, name: name.into() }
    }

    pub(crate) fn unexpected(name: impl Into<String>) -> Self {
        Failure::new(FailureKind::Unexpected, name)
    }

    pub(crate) fn protocol(name: impl Into<String>) -> Self {
        Failure::new(FailureKind::Protocol, name)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(formatter, "{} {}: {}", self.kind.name(), code, self.name),
            None => write!(formatter, "{}: {}", self.kind.name(), self.name),
        }
    }
}

/// Which part of a group's load one thread has: generator threads of all processes are numbered through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// This thread's number, from 0.
    pub(crate) index: u32,
    /// Generator threads in all.
    pub(crate) of: u32,
    /// Seed of this group and thread.
    pub(crate) seed: u64,
}

impl Share {
    /// The only thread.
    #[cfg(test)]
    pub(crate) const fn whole(seed: u64) -> Self {
        Share { index: 0, of: 1, seed }
    }

    /// This share when there are no more than so many things to be shared: threads beyond them get nothing.
    pub(crate) const fn among(self, things: usize) -> Self {
        if (things as u64) < self.of as u64 && things > 0 {
            Share { of: things as u32, ..self }
        } else {
            self
        }
    }

    /// This share of a number of things: parts differ by one at most and add up to the whole.
    pub(crate) const fn part_of(self, whole: u64) -> u64 {
        let (index, of) = (self.index as u64, self.of as u64);
        if index >= of {
            return 0;
        }
        whole / of + (index < whole % of) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (whole, of) in [(10, 3), (2, 5), (0, 2), (7, 1)] {
            let parts: Vec<u64> = (0..of).map(|index| Share { index, of, seed: 0 }.part_of(whole)).collect();
            assert_eq!(parts.iter().sum::<u64>(), whole, "{parts:?}");
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1, "{parts:?}");
        }
    }

    #[test]
    fn failures_tell_kind_code_and_name() {
        let failure = Failure { kind: FailureKind::Write, code: Some(11_000), name: "DuplicateKey".into() };
        assert_eq!(failure.to_string(), "write 11000: DuplicateKey");
        assert_eq!(Failure::protocol("garbage").to_string(), "protocol: garbage");
        let json = serde_json::to_value(FailureKind::WriteConcern).unwrap();
        assert_eq!(json, FailureKind::WriteConcern.name());
    }
}
