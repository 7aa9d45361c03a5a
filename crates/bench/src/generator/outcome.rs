//! What one run saw.

use crate::error::BenchError;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest latency that is recorded; a longer one counts as this long.
const LONGEST_MICROSECONDS: u64 = 120_000_000;
const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;

/// What one group of connections saw.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The measured part of the window.
    pub(crate) elapsed: Duration,
    /// Good replies within the window.
    pub(crate) replies: u64,
    /// Failed requests and connections by what was wrong with them.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Latencies in microseconds.
    pub(crate) latency_us: Histogram<u64>,
    /// Bytes of the last good reply.
    pub(crate) reply_bytes: usize,
    /// Connections that were open when the run began.
    pub(crate) connected: usize,
}

impl Outcome {
    pub(crate) fn new() -> Result<Self, BenchError> {
        let latency_us = Histogram::new_with_max(LONGEST_MICROSECONDS, 3)
            .map_err(|error| BenchError::Usage(format!("cannot make a histogram: {error}")))?;
        let errors = BTreeMap::new();
        Ok(Outcome { elapsed: Duration::ZERO, replies: 0, errors, latency_us, reply_bytes: 0, connected: 0 })
    }

    /// Records a latency given in nanoseconds.
    pub(crate) fn record(&mut self, latency_ns: u64) {
        self.latency_us.saturating_record(latency_ns / NANOSECONDS_PER_MICROSECOND);
    }

    pub(crate) fn count_error(&mut self, what: &str, times: u64) {
        if times > 0 {
            *self.errors.entry(what.to_owned()).or_default() += times;
        }
    }

    /// Good replies a second.
    pub(crate) fn rate(&self) -> f64 {
        self.replies as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// A quantile of the latencies in milliseconds.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latency_us.value_at_quantile(quantile) as f64 / 1_000.0
    }

    /// The longest latency in milliseconds.
    pub(crate) fn longest_ms(&self) -> f64 {
        self.latency_us.max() as f64 / 1_000.0
    }

    /// The mean latency in milliseconds.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.latency_us.mean() / 1_000.0
    }
}

/// What all groups saw.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    /// One per group, in the order of the groups.
    pub(crate) groups: Vec<Outcome>,
    /// Share of one core that the generator's thread used, 0 to 1: near 1 it measures itself.
    pub(crate) busy: f64,
}

impl RunOutcome {
    /// The outcomes of exactly `N` groups.
    ///
    /// # Errors
    /// When there are not as many.
    pub(crate) fn split<const N: usize>(self) -> Result<[Outcome; N], BenchError> {
        <[Outcome; N]>::try_from(self.groups)
            .map_err(|groups| BenchError::Usage(format!("{} groups instead of {N}", groups.len())))
    }
}
