//! What one run saw.

use crate::error::BenchError;
use crate::generator::latencies::Latencies;
use crate::generator::series::Second;
use crate::generator::traffic::{Errors, add_errors, counted};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one kind of operations of a group saw.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindOutcome {
    pub(crate) name: String,
    /// Good operations that ended within the window.
    pub(crate) operations: u64,
    /// Failed operations by what was wrong with them.
    #[serde(with = "counted")]
    pub(crate) errors: Errors,
    /// Also of operations that were sent within the window and ended after it.
    pub(crate) latencies: Latencies,
    /// The window second by second.
    pub(crate) seconds: Vec<Second>,
}

/// What became of a group's connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConnectionCounts {
    /// How many there were to be.
    pub(crate) asked: u64,
    /// Made, reconnections and short connections included.
    pub(crate) opened: u64,
    /// Attempts that failed: refused, timed out, or ended before the handshake did.
    pub(crate) refused: u64,
    /// Ended by the server, by an error or by a time-out.
    pub(crate) lost: u64,
    /// Made in the place of a lost or refused one.
    pub(crate) reconnected: u64,
}

/// What one group of connections saw.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    /// The measured part of the window: shorter than was asked for when the run ended early.
    pub(crate) elapsed: Duration,
    /// Connections that were open when the run began.
    pub(crate) connected: usize,
    /// One per kind of operation, in the traffic's order.
    pub(crate) kinds: Vec<KindOutcome>,
    /// Failures that belong to no operation: connections refused, or lost while nothing was under way.
    #[serde(with = "counted")]
    pub(crate) connection_errors: Errors,
    pub(crate) connections: ConnectionCounts,
    /// Connections open at the end of each second of the window.
    pub(crate) open_by_second: Vec<u64>,
    /// Bytes of the last good reply.
    pub(crate) reply_bytes: usize,
}

impl Outcome {
    /// Good operations within the window, of all kinds.
    pub(crate) fn operations(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.operations).sum()
    }

    pub(crate) fn rate(&self) -> f64 {
        self.operations() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// All failures, of operations and of connections.
    pub(crate) fn errors(&self) -> Errors {
        let mut all = self.connection_errors.clone();
        for kind in &self.kinds {
            add_errors(&mut all, &kind.errors);
        }
        all
    }

    pub(crate) fn error_count(&self) -> u64 {
        let of_kinds: u64 = self.kinds.iter().flat_map(|kind| kind.errors.values()).sum();
        of_kinds + self.connection_errors.values().sum::<u64>()
    }

    pub(crate) fn latencies(&self) -> Latencies {
        Latencies::merged(self.kinds.iter().map(|kind| &kind.latencies))
    }

    pub(crate) fn timed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.latencies.count()).sum()
    }

    /// Adds what another thread's connections of the same group saw.
    pub(crate) fn merge(&mut self, other: &Outcome) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.connected += other.connected;
        merge_each(&mut self.kinds, &other.kinds, KindOutcome::merge);
        add_errors(&mut self.connection_errors, &other.connection_errors);
        self.connections.add(other.connections);
        merge_each(&mut self.open_by_second, &other.open_by_second, |sum, open| *sum += open);
        self.reply_bytes = self.reply_bytes.max(other.reply_bytes);
    }
}

impl KindOutcome {
    fn merge(&mut self, other: &KindOutcome) {
        self.operations += other.operations;
        add_errors(&mut self.errors, &other.errors);
        self.latencies.merge(&other.latencies);
        merge_each(&mut self.seconds, &other.seconds, Second::merge);
    }
}

impl ConnectionCounts {
    pub(crate) fn add(&mut self, other: ConnectionCounts) {
        self.asked += other.asked;
        self.opened += other.opened;
        self.refused += other.refused;
        self.lost += other.lost;
        self.reconnected += other.reconnected;
    }
}

/// Merges place by place.
fn merge_each<T: Clone>(ours: &mut Vec<T>, theirs: &[T], merge: impl Fn(&mut T, &T)) {
    for (index, their) in theirs.iter().enumerate() {
        match ours.get_mut(index) {
            Some(our) => merge(our, their),
            None => ours.push(their.clone()),
        }
    }
}

/// What all groups saw.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunOutcome {
    /// One per group, in the order of the groups, all threads and processes together.
    pub(crate) groups: Vec<Outcome>,
    /// Share of one core that each generator thread used, 0 to 1: near 1 it measures itself.
    pub(crate) busy: Vec<f64>,
    /// Whether Ctrl-C ended it early.
    pub(crate) interrupted: bool,
    /// Memory of the generator's processes with all connections open, in bytes.
    pub(crate) resident_bytes: u64,
    /// What of it the connections brought, in bytes.
    pub(crate) connections_bytes: u64,
    /// Generator processes that failed, each in a sentence; what they saw is missing.
    pub(crate) failures: Vec<String>,
}

impl RunOutcome {
    /// The outcomes of exactly `N` groups, each over the whole window.
    ///
    /// # Errors
    /// When there are not as many, and when Ctrl-C ended the run early.
    pub(crate) fn split<const N: usize>(self) -> Result<[Outcome; N], BenchError> {
        if self.interrupted {
            return Err(BenchError::Interrupted);
        }
        <[Outcome; N]>::try_from(self.groups)
            .map_err(|groups| BenchError::Usage(format!("{} groups instead of {N}", groups.len())))
    }

    /// The share of its core that the busiest generator thread used.
    pub(crate) fn busiest(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }

    /// With what other threads or another process saw of the same groups.
    pub(crate) fn merged(mut self, other: RunOutcome) -> Self {
        merge_each(&mut self.groups, &other.groups, Outcome::merge);
        self.busy.extend(other.busy);
        self.interrupted |= other.interrupted;
        self.resident_bytes += other.resident_bytes;
        self.connections_bytes += other.connections_bytes;
        self.failures.extend(other.failures);
        self
    }
}
