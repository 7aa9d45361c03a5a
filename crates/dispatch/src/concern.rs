//! Read concerns, write concerns and read preferences: what a client asks of a set, and what a server that is
//! in none answers.
//!
//! Source: MongoDB manual, "Read Concern", "Write Concern", "Read Preference"; driver specifications of the
//! same names.

use crate::error::{CommandError, CommandResult, code};
use crate::fields::{Fields, integer, unknown_field, wrong_type};
use document::{Document, RawDocument, RawValue, Timestamp, doc};
use std::time::Duration;

/// `readConcern`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReadConcern {
    /// `level`.
    pub level: ReadConcernLevel,
    /// `afterClusterTime`: what was done until then is seen.
    pub after: Option<Timestamp>,
    /// `atClusterTime`: nothing later is seen.
    pub at: Option<Timestamp>,
}

/// `readConcern.level`. What is there is on a majority of members: the first three read the same.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum ReadConcernLevel {
    /// What is there.
    #[default]
    Local,
    /// The same, without a wait.
    Available,
    /// What a majority has.
    Majority,
    /// Everything that was acknowledged to anybody before.
    Linearizable,
    /// One moment for all of it.
    Snapshot,
}

/// `writeConcern`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct WriteConcern {
    /// `w`.
    pub w: Option<W>,
    /// `j`.
    pub journal: Option<bool>,
    /// `wtimeout`; none for as long as it takes.
    pub timeout: Option<Duration>,
    /// Who asked for it.
    pub provenance: Provenance,
}

/// `w` of a write concern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum W {
    /// So many members; with 0 nobody wants to know the result.
    Members(u32),
    /// A majority of those that vote.
    Majority,
    /// What the set's configuration means by this name.
    Mode(String),
}

/// Who asked for a write concern.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// The command.
    #[default]
    Client,
    /// `setDefaultRWConcern`.
    CustomDefault,
    /// Nobody.
    ImplicitDefault,
}

/// The greatest number of members that `w` may ask for.
const W_MAX: i64 = 50;

impl ReadConcern {
    pub(crate) fn parse(document: RawDocument<'_>) -> CommandResult<Self> {
        let mut concern = ReadConcern::default();
        for element in document {
            let (name, value) = (element.name(), element.value());
            match name {
                "level" => {
                    let RawValue::String(level) = value else {
                        return Err(wrong_type("readConcern", name, value.kind(), &["string"]));
                    };
                    concern.level = ReadConcernLevel::parse(level)?;
                }
                "afterClusterTime" => concern.after = Some(timestamp(name, value)?),
                "atClusterTime" => concern.at = Some(timestamp(name, value)?),
                "afterOpTime"
                | "provenance"
                | "allowTransactionTableSnapshot"
                | "waitLastStableRecoveryTimestamp" => {}
                _ => return Err(unknown_field("readConcern", name)),
            }
        }
        Ok(concern)
    }

    /// Checks what several of its fields say together, and that this server can do it.
    pub(crate) fn check(&self, is_member: bool) -> CommandResult {
        if !is_member {
            return self.check_alone();
        }
        if self.after.is_some() && self.at.is_some() {
            return Err(CommandError::invalid_options(
                "Specifying a timestamp for readConcern snapshot in a causally consistent session is not \
                 allowed. See \
                 https://docs.mongodb.com/manual/core/read-isolation-consistency-recency/#causal-consistency",
            ));
        }
        let is_timed = !matches!(self.level, ReadConcernLevel::Available | ReadConcernLevel::Linearizable);
        if self.after.is_some() && !is_timed {
            return Err(CommandError::invalid_options(
                "afterClusterTime field can be set only if level is equal to majority, local, or snapshot",
            ));
        }
        if self.at.is_some() && self.level != ReadConcernLevel::Snapshot {
            let message = "atClusterTime field can be set only if level is equal to snapshot";
            return Err(CommandError::invalid_options(message));
        }
        Ok(())
    }

    fn check_alone(&self) -> CommandResult {
        let times = [(self.after, "afterClusterTime"), (self.at, "atClusterTime")];
        if let Some((_, name)) = times.iter().find(|(time, _)| time.is_some()) {
            let message = format!("Cannot specify {name} readConcern without replication enabled");
            return Err(CommandError::new(code::ILLEGAL_OPERATION, message));
        }
        if !matches!(self.level, ReadConcernLevel::Linearizable | ReadConcernLevel::Snapshot) {
            return Ok(());
        }
        let level = self.level.name();
        Err(CommandError::new(
            wire::ErrorCode::NotAReplicaSet as i32,
            format!("node needs to be a replica set member to use readConcern: {level}"),
        ))
    }

    /// Whether there is something to wait for before the command.
    pub(crate) fn waits(&self) -> bool {
        self.after.is_some() || self.at.is_some() || self.level == ReadConcernLevel::Linearizable
    }
}

/// Which read concerns a command takes outside of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadConcerns {
    /// `local`, with or without a time to wait for.
    Local,
    /// All but `snapshot`.
    OfTheSet,
    /// All.
    All,
}

impl ReadConcerns {
    /// Refuses a read concern that the command does not take.
    pub(crate) fn check(self, concern: &ReadConcern, command: &str) -> CommandResult {
        let reason = match (self, concern.level) {
            (ReadConcerns::All, _) | (_, ReadConcernLevel::Local) => return Ok(()),
            (ReadConcerns::OfTheSet, ReadConcernLevel::Snapshot) => "read concern snapshot not supported",
            (ReadConcerns::OfTheSet, _) => return Ok(()),
            (ReadConcerns::Local, _) => "read concern not supported",
        };
        Err(CommandError::invalid_options(format!(
            "Command {command} does not support {{ readConcern: {{ level: \"{}\", \
             provenance: \"clientSupplied\" }} }} \
             :: caused by :: {reason}",
            concern.level.name()
        )))
    }
}

impl ReadConcernLevel {
    const fn name(self) -> &'static str {
        match self {
            ReadConcernLevel::Local => "local",
            ReadConcernLevel::Available => "available",
            ReadConcernLevel::Majority => "majority",
            ReadConcernLevel::Linearizable => "linearizable",
            ReadConcernLevel::Snapshot => "snapshot",
        }
    }

    fn parse(level: &str) -> CommandResult<Self> {
        Ok(match level {
            "local" => ReadConcernLevel::Local,
            "available" => ReadConcernLevel::Available,
            "majority" => ReadConcernLevel::Majority,
            "linearizable" => ReadConcernLevel::Linearizable,
            "snapshot" => ReadConcernLevel::Snapshot,
            other => {
                return Err(CommandError::bad_value(format!(
                    "Enumeration value '{other}' for field 'readConcern.level' is not a valid value."
                )));
            }
        })
    }
}

fn timestamp(name: &str, value: RawValue<'_>) -> CommandResult<Timestamp> {
    match value {
        RawValue::Timestamp(time) if time != Timestamp::default() => Ok(time),
        RawValue::Timestamp(_) => {
            Err(CommandError::invalid_options(format!("{name} cannot be a null timestamp")))
        }
        other => Err(wrong_type("readConcern", name, other.kind(), &["timestamp"])),
    }
}

impl WriteConcern {
    /// Reads a write concern; one that a server alone does not know as well.
    ///
    /// # Errors
    /// Values of a wrong type or out of bounds, unknown fields.
    pub fn parse(document: RawDocument<'_>) -> CommandResult<Self> {
        let mut concern = WriteConcern::default();
        for element in document {
            let value = element.value();
            let truth = || match value {
                RawValue::Boolean(flag) => Ok(flag),
                number => integer(number).map(|number| number != 0).ok_or_else(|| {
                    CommandError::failed_to_parse(format!(
                        "{} must be numeric or a boolean value",
                        element.name()
                    ))
                }),
            };
            match element.name() {
                "w" => concern.w = Some(W::parse(value)?),
                "j" => concern.journal = Some(truth()?),
                "fsync" => concern.journal = Some(concern.journal.unwrap_or(false) || truth()?),
                "wtimeout" => {
                    let number = integer(value)
                        .ok_or_else(|| CommandError::failed_to_parse("wtimeout must be a number"))?;
                    let limit = u64::try_from(number).ok().filter(|limit| *limit > 0);
                    concern.timeout = limit.map(Duration::from_millis);
                }
                "provenance" | "getLastError" | "wElectionId" | "wOpTime" => {}
                name => return Err(unknown_field("WriteConcern", name)),
            }
        }
        Ok(concern)
    }

    /// Refuses what only a set can do.
    pub(crate) fn check_alone(&self) -> CommandResult {
        match &self.w {
            Some(W::Mode(mode)) => Err(CommandError::bad_value(format!(
                "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica set"
            ))),
            Some(W::Members(2..)) => {
                Err(CommandError::bad_value("cannot use 'w' > 1 when a host is not replicated"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the write must be on this disk before it is acknowledged: `j: true`, or a majority, whose
    /// journal default is on.
    pub fn is_journaled(&self) -> bool {
        self.journal.unwrap_or(self.w == Some(W::Majority))
    }

    /// As replies show it.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        match &self.w {
            None => {}
            Some(W::Members(count)) => document.push("w", *count as i32),
            Some(W::Majority) => document.push("w", "majority"),
            Some(W::Mode(mode)) => document.push("w", mode.as_str()),
        }
        if let Some(journal) = self.journal {
            document.push("j", journal);
        }
        let timeout = self.timeout.map_or(0, |limit| limit.as_millis() as i64);
        document.push("wtimeout", i32::try_from(timeout).unwrap_or(i32::MAX));
        let provenance = match self.provenance {
            Provenance::Client => "clientSupplied",
            Provenance::CustomDefault => "customDefault",
            Provenance::ImplicitDefault => "implicitDefault",
        };
        document.extend(doc! { "provenance": provenance });
        document
    }
}

impl W {
    fn parse(value: RawValue<'_>) -> CommandResult<Self> {
        match (value, integer(value)) {
            (RawValue::String("majority"), _) => Ok(W::Majority),
            (RawValue::String(mode), _) => Ok(W::Mode(mode.to_owned())),
            (_, Some(count @ 0..=W_MAX)) => Ok(W::Members(count as u32)),
            (_, Some(other)) => Err(CommandError::failed_to_parse(format!(
                "w has to be a non-negative number and not greater than {W_MAX}; found: {other}"
            ))),
            (other, None) => Err(CommandError::failed_to_parse(
                "w has to be a number, string, or object; found: ".to_owned() + other.kind().alias(),
            )),
        }
    }
}

/// Whether `$readPreference` allows a secondary to answer.
pub(crate) fn allows_secondary(preference: RawValue<'_>) -> CommandResult<bool> {
    let Some(document) = preference.as_document() else {
        return Err(wrong_type("$readPreference", "mode", preference.kind(), &["object"]));
    };
    let mut fields = Fields::nested("readPreference", document)?;
    match fields.string("mode")? {
        None | Some("primary") => Ok(false),
        Some("primaryPreferred" | "secondary" | "secondaryPreferred" | "nearest") => Ok(true),
        Some(other) => Err(CommandError::failed_to_parse(format!(
            "Could not parse $readPreference mode '{other}'. Only the modes 'primary', 'primaryPreferred', \
            'secondary', 'secondaryPreferred', and 'nearest' are supported."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_concerns_are_shown_as_they_were_asked_for() {
        let check = |given: Document, expected: Document| {
            let concern = WriteConcern::parse(given.to_buf().as_raw()).expect("a good write concern");
            assert_eq!(concern.to_document(), expected);
        };
        let provenance = "clientSupplied";
        check(doc! { "w": 3, "wtimeout": 100 }, doc! { "w": 3, "wtimeout": 100, "provenance": provenance });
        check(
            doc! { "j": true, "w": "east" },
            doc! { "w": "east", "j": true, "wtimeout": 0, "provenance": provenance },
        );
    }

    #[test]
    fn commands_take_the_read_concerns_that_they_can_keep() {
        let refused = |taken: ReadConcerns, level: &str| {
            let concern = ReadConcern::parse(doc! { "level": level }.to_buf().as_raw()).expect("a level");
            taken.check(&concern, "count").err().map(|error| error.message.into_owned())
        };
        let all = ["local", "available", "majority", "linearizable", "snapshot"];
        let taken = |taken| all.map(|level| refused(taken, level).is_none());
        assert_eq!(taken(ReadConcerns::All), [true; 5]);
        assert_eq!(taken(ReadConcerns::OfTheSet), [true, true, true, true, false]);
        assert_eq!(taken(ReadConcerns::Local), [true, false, false, false, false]);
        let message = "Command count does not support { readConcern: { level: \"snapshot\", provenance: \
                       \"clientSupplied\" } } :: caused by :: read concern snapshot not supported";
        assert_eq!(refused(ReadConcerns::OfTheSet, "snapshot").as_deref(), Some(message));
    }

    #[test]
    fn read_concerns_of_a_set() {
        let check = |given: Document, expected: Result<bool, i32>| {
            let parsed = ReadConcern::parse(given.to_buf().as_raw());
            let result = parsed.and_then(|concern| concern.check(true).map(|()| concern.waits()));
            assert_eq!(result.map_err(|error| error.code), expected, "{given:?}");
        };
        let time = Timestamp { time: 5, increment: 1 };
        check(doc! { "level": "majority" }, Ok(false));
        check(doc! { "level": "linearizable" }, Ok(true));
        check(doc! { "afterClusterTime": time }, Ok(true));
        check(doc! { "afterClusterTime": 5 }, Err(14));
        check(doc! { "afterClusterTime": (Timestamp::default()) }, Err(72));
        check(doc! { "level": "available", "afterClusterTime": time }, Err(72));
        check(doc! { "level": "linearizable", "afterClusterTime": time }, Err(72));
        check(doc! { "level": "snapshot" }, Ok(false));
        check(doc! { "level": "snapshot", "atClusterTime": time }, Ok(true));
        check(doc! { "level": "snapshot", "afterClusterTime": time }, Ok(true));
        check(doc! { "level": "snapshot", "atClusterTime": time, "afterClusterTime": time }, Err(72));
        check(doc! { "level": "majority", "atClusterTime": time }, Err(72));
        check(doc! { "atClusterTime": time }, Err(72));
    }
}
