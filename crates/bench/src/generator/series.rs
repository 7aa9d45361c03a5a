//! Counting and timing the operations of one kind, second by second.

use crate::error::BenchError;
use crate::generator::latencies::Latencies;
use crate::generator::outcome::KindOutcome;
use crate::generator::traffic::{Errors, Failure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency that is recorded; a longer one counts as this long.
const LONGEST_MICROSECONDS: u64 = 120_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;
/// Leading bits of a latency that a second's distribution keeps: within 1 % of the value.
const KEPT_BITS: u32 = 7;

/// What happened within one second of the window; the last one may be shorter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Second {
    /// Good operations that ended in it.
    pub(crate) operations: u64,
    /// Failed operations.
    pub(crate) errors: u64,
    /// The longest latency in microseconds, exact as far as the whole run's histogram is.
    pub(crate) max_us: u64,
    /// Each within 1 %.
    pub(crate) latencies: Latencies,
}

impl Second {
    /// The latency that this share of the operations did not exceed; 0 when there were none.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latencies.quantile_us(quantile).min(self.max_us) as f64 / 1_000.0
    }

    pub(crate) fn merge(&mut self, other: &Second) {
        self.operations += other.operations;
        self.errors += other.errors;
        self.max_us = self.max_us.max(other.max_us);
        self.latencies.merge(&other.latencies);
    }
}

/// The counts of one kind while a run goes on.
#[derive(Debug)]
pub(crate) struct Tally {
    name: String,
    errors: Errors,
    /// Latencies before the present second.
    latency_us: Histogram<u64>,
    seconds: Vec<Second>,
    /// Counts of the present second, without its latencies …
    present: Second,
    /// … which are these.
    present_us: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new(name: String) -> Result<Self, BenchError> {
        let histogram = || {
            Histogram::new_with_max(LONGEST_MICROSECONDS, SIGNIFICANT_DIGITS)
                .map_err(|error| BenchError::Usage(format!("cannot make a histogram: {error}")))
        };
        Ok(Tally {
            name,
            errors: Errors::new(),
            latency_us: histogram()?,
            seconds: Vec::new(),
            present: Second::default(),
            present_us: histogram()?,
        })
    }

    /// A good operation of this latency; it counts for the rate when it ended within the window.
    #[inline]
    pub(crate) fn record(&mut self, latency_ns: u64, within: bool) {
        self.present_us.saturating_record(latency_ns / NANOSECONDS_PER_MICROSECOND);
        self.present.operations += u64::from(within);
    }

    pub(crate) fn count_failure(&mut self, failure: Failure) {
        *self.errors.entry(failure).or_default() += 1;
        self.present.errors += 1;
    }

    /// Ends the present second and adds it to `sum`.
    pub(crate) fn end_second(&mut self, sum: &mut Second) {
        let steps = self.present_us.iter_recorded();
        let coarse = steps.map(|step| (coarsened(step.value_iterated_to()), step.count_at_value()));
        let latencies = Latencies::merged([&Latencies(coarse.collect())]);
        let counts = std::mem::take(&mut self.present);
        let second = Second { latencies, max_us: self.present_us.max(), ..counts };
        self.fold();
        sum.merge(&second);
        self.seconds.push(second);
    }

    /// Adds the present second's latencies to the others.
    fn fold(&mut self) {
        if self.latency_us.add(&self.present_us).is_err() {
            unreachable!("histograms of latencies have one shape");
        }
        self.present_us.reset();
    }

    /// Everything counted; latencies after the last second belong to no second.
    pub(crate) fn finish(mut self) -> KindOutcome {
        self.fold();
        let ended: u64 = self.seconds.iter().map(|second| second.operations).sum();
        KindOutcome {
            name: self.name,
            operations: ended + self.present.operations,
            errors: self.errors,
            latencies: Latencies::from(&self.latency_us),
            seconds: self.seconds,
        }
    }
}

/// The middle of the range of values that share their leading bits with this one.
const fn coarsened(value: u64) -> u64 {
    let bits = u64::BITS - value.leading_zeros();
    let dropped = bits.saturating_sub(KEPT_BITS);
    if dropped == 0 {
        return value;
    }
    ((value >> dropped) << dropped) + (1 << (dropped - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::traffic::FailureKind;

    fn tally() -> Tally {
        Tally::new("read".to_owned()).expect("a tally")
    }

    #[test]
    fn seconds_add_up_to_the_whole() {
        let mut tally = tally();
        for latency in 1..=1_000 {
            tally.record(latency * 1_000, true);
        }
        for _ in 0..2 {
            tally.count_failure(Failure::new(FailureKind::Timeout, "no reply"));
        }
        tally.end_second(&mut Second::default());
        tally.record(5_000_000_000, true);
        tally.end_second(&mut Second::default());
        tally.record(7_000_000_000, false);
        let outcome = tally.finish();
        let counts: Vec<_> =
            outcome.seconds.iter().map(|second| (second.operations, second.errors)).collect();
        assert_eq!(counts, [(1_000, 2), (1, 0)]);
        assert_eq!(
            (outcome.operations, outcome.latencies.count()),
            (1_001, 1_002),
            "the late one is timed only"
        );
        assert!(outcome.latencies.longest_ms() >= 7_000.0, "the late one's latency is kept");
    }

    #[test]
    fn a_seconds_quantiles_are_those_of_the_histogram() {
        let mut tally = tally();
        for latency in 1..=100_000 {
            tally.record(latency * 1_000, true);
        }
        let mut second = Second::default();
        tally.end_second(&mut second);
        assert!(second.latencies.0.len() < 1_000, "{} pairs are not compact", second.latencies.0.len());
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let (found, exact) = (second.quantile_ms(quantile), 100.0 * quantile);
            assert!((found / exact - 1.0).abs() < 0.01, "{quantile}: {found} instead of {exact}");
        }
        assert!(second.max_us >= 100_000);
    }

    #[test]
    fn outcomes_survive_the_way_between_processes() {
        let mut tally = tally();
        for latency in [1, 80, 3_000, 999_999, 60_000_000_000] {
            tally.record(latency * 1_000, true);
        }
        for _ in 0..7 {
            let failure = Failure { kind: FailureKind::Server, code: Some(462), name: "Overloaded".into() };
            tally.count_failure(failure);
        }
        tally.end_second(&mut Second::default());
        let sent = tally.finish();
        let text = serde_json::to_string(&sent).expect("JSON");
        let came: KindOutcome = serde_json::from_str(&text).expect("the same shape");
        assert_eq!((came.latencies, came.operations), (sent.latencies, 5));
        assert_eq!((&came.errors, &came.seconds), (&sent.errors, &sent.seconds));
        assert_eq!(came.errors.values().sum::<u64>(), 7);
    }
}
