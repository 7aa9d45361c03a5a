//! What one run saw.

use crate::error::BenchError;
use crate::generator::series::Second;
use crate::generator::traffic::ErrorKey;
use crate::generator::transfer;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What one kind of operations of a group saw.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindOutcome {
    pub(crate) name: String,
    /// Good operations that ended within the window.
    pub(crate) operations: u64,
    /// Failed operations by what was wrong with them.
    #[serde(with = "transfer::pairs")]
    pub(crate) errors: BTreeMap<ErrorKey, u64>,
    /// Latencies in microseconds, also of operations that were sent within the window and ended after it.
    #[serde(with = "transfer::latencies")]
    pub(crate) latency_us: Histogram<u64>,
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
    #[serde(with = "transfer::pairs")]
    pub(crate) connection_errors: BTreeMap<ErrorKey, u64>,
    pub(crate) connections: ConnectionCounts,
    /// Times in microseconds from dialling until a connection was ready, handshake included.
    #[serde(with = "transfer::latencies")]
    pub(crate) connecting_us: Histogram<u64>,
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

    /// Good operations a second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// All failures, of operations and of connections.
    pub(crate) fn errors(&self) -> BTreeMap<ErrorKey, u64> {
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

    /// Latencies of all kinds in microseconds.
    pub(crate) fn latency_us(&self) -> Histogram<u64> {
        let mut kinds = self.kinds.iter().map(|kind| &kind.latency_us);
        let mut all = kinds.next().unwrap_or(&self.connecting_us).clone();
        if self.kinds.is_empty() {
            all.reset();
        }
        for latency_us in kinds {
            add_latencies(&mut all, latency_us);
        }
        all
    }

    /// Latencies recorded.
    pub(crate) fn timed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.latency_us.len()).sum()
    }

    /// A quantile of the latencies in milliseconds.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latency_us().value_at_quantile(quantile) as f64 / 1_000.0
    }

    /// The longest latency in milliseconds.
    pub(crate) fn longest_ms(&self) -> f64 {
        let longest = self.kinds.iter().map(|kind| kind.latency_us.max()).max();
        longest.unwrap_or_default() as f64 / 1_000.0
    }

    /// The mean latency in milliseconds.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.latency_us().mean() / 1_000.0
    }

    /// Adds what another thread's connections of the same group saw.
    pub(crate) fn merge(&mut self, other: &Outcome) {
        self.elapsed = self.elapsed.max(other.elapsed);
        self.connected += other.connected;
        for (index, theirs) in other.kinds.iter().enumerate() {
            match self.kinds.get_mut(index) {
                Some(kind) => kind.merge(theirs),
                None => self.kinds.push(theirs.clone()),
            }
        }
        add_errors(&mut self.connection_errors, &other.connection_errors);
        self.connections.add(other.connections);
        add_latencies(&mut self.connecting_us, &other.connecting_us);
        for (second, open) in other.open_by_second.iter().enumerate() {
            match self.open_by_second.get_mut(second) {
                Some(sum) => *sum += open,
                None => self.open_by_second.push(*open),
            }
        }
        self.reply_bytes = self.reply_bytes.max(other.reply_bytes);
    }
}

impl KindOutcome {
    fn merge(&mut self, other: &KindOutcome) {
        self.operations += other.operations;
        add_errors(&mut self.errors, &other.errors);
        add_latencies(&mut self.latency_us, &other.latency_us);
        for (number, theirs) in other.seconds.iter().enumerate() {
            match self.seconds.get_mut(number) {
                Some(second) => second.merge(theirs),
                None => self.seconds.push(theirs.clone()),
            }
        }
    }
}

impl ConnectionCounts {
    fn add(&mut self, other: ConnectionCounts) {
        self.asked += other.asked;
        self.opened += other.opened;
        self.refused += other.refused;
        self.lost += other.lost;
        self.reconnected += other.reconnected;
    }
}

fn add_errors(sum: &mut BTreeMap<ErrorKey, u64>, errors: &BTreeMap<ErrorKey, u64>) {
    for (key, times) in errors {
        *sum.entry(key.clone()).or_default() += times;
    }
}

fn add_latencies(sum: &mut Histogram<u64>, latencies: &Histogram<u64>) {
    for step in latencies.iter_recorded() {
        sum.saturating_record_n(step.value_iterated_to(), step.count_at_value());
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

    /// Adds what other threads or another process saw of the same groups.
    pub(crate) fn merge(&mut self, other: RunOutcome) {
        for (index, theirs) in other.groups.iter().enumerate() {
            match self.groups.get_mut(index) {
                Some(group) => group.merge(theirs),
                None => self.groups.push(theirs.clone()),
            }
        }
        self.busy.extend(other.busy);
        self.interrupted |= other.interrupted;
        self.resident_bytes += other.resident_bytes;
        self.connections_bytes += other.connections_bytes;
        self.failures.extend(other.failures);
    }
}
