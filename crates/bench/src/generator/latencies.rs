//! Latencies once they are recorded: what histograms become between threads, processes and reports.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Microseconds and how often something took that long, ascending, without empty places; values are as exact
/// as the histogram's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Latencies(pub(crate) Vec<(u64, u64)>);

impl From<&Histogram<u64>> for Latencies {
    fn from(histogram: &Histogram<u64>) -> Self {
        let steps = histogram.iter_recorded();
        Latencies(steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
    }
}

impl Latencies {
    pub(crate) fn merged<'l>(all: impl IntoIterator<Item = &'l Latencies>) -> Self {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for &(microseconds, count) in all.into_iter().flat_map(|latencies| &latencies.0) {
            *counts.entry(microseconds).or_default() += count;
        }
        Latencies(counts.into_iter().collect())
    }

    pub(crate) fn merge(&mut self, other: &Latencies) {
        *self = Latencies::merged([&*self, other]);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|&(_, count)| count).sum()
    }

    /// The smallest recorded latency that this share did not exceed; 0 when there was none.
    pub(crate) fn quantile_us(&self, quantile: f64) -> u64 {
        let wanted = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.0.iter().find(|&&(_, count)| {
            seen += count;
            seen >= wanted
        });
        reached.or(self.0.last()).map_or(0, |&(microseconds, _)| microseconds)
    }

    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        self.quantile_us(quantile) as f64 / 1_000.0
    }

    pub(crate) fn longest_ms(&self) -> f64 {
        self.quantile_ms(1.0)
    }

    /// 0 when there was none.
    pub(crate) fn mean_ms(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|&(microseconds, count)| microseconds as f64 * count as f64).sum();
        sum / (self.count().max(1)) as f64 / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(latencies_us: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_max(120_000_000, 3).expect("sensible bounds");
        for latency in latencies_us {
            histogram.record(latency).expect("within the bounds");
        }
        histogram
    }

    #[test]
    fn quantiles_are_those_of_the_histogram() {
        // Squares spread over all magnitudes.
        let histogram = histogram((1..=10_000).map(|number: u64| number * number));
        let latencies = Latencies::from(&histogram);
        assert_eq!(latencies.count(), 10_000);
        for quantile in [0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0] {
            assert_eq!(
                latencies.quantile_us(quantile),
                histogram.value_at_quantile(quantile),
                "at {quantile}"
            );
        }
        assert!((latencies.mean_ms() * 1_000.0 / histogram.mean() - 1.0).abs() < 0.001, "{latencies:?}");
    }

    #[test]
    fn small_sets_by_hand() {
        let latencies = Latencies::from(&histogram([1_000, 2_000, 2_000, 4_000]));
        // Buckets above 2,047 µs are two wide and told by their upper end.
        assert_eq!(latencies.0, [(1_000, 1), (2_000, 2), (4_001, 1)]);
        assert_eq!([0.5, 0.9].map(|quantile| latencies.quantile_ms(quantile)), [2.0, 4.001]);
        let none = Latencies::from(&histogram([]));
        assert_eq!((none.count(), none.quantile_us(0.5), none.mean_ms()), (0, 0, 0.0));
    }

    #[test]
    fn merging_adds_counts() {
        let mut sum = Latencies(vec![(100, 1), (200, 1)]);
        sum.merge(&Latencies(vec![(200, 1), (300, 2)]));
        assert_eq!(sum.0, [(100, 1), (200, 2), (300, 2)]);
    }
}
