//! From histograms to the figures that are kept.

use crate::result::Latency;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

const MICROSECONDS_PER_MILLISECOND: f64 = 1_000.0;

impl Latency {
    /// The figures of latencies in microseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let steps = histogram.iter_recorded();
        Latency::of_counts(steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
    }

    /// The figures of counts by microseconds, ascending.
    pub(crate) fn of_counts(histogram: Vec<(u64, u64)>) -> Self {
        let mut latency = Latency { histogram, ..Latency::default() };
        let operations = latency.operations();
        if operations == 0 {
            return latency;
        }
        let sum: f64 =
            latency.histogram.iter().map(|&(microseconds, count)| microseconds as f64 * count as f64).sum();
        latency.mean_ms = sum / operations as f64 / MICROSECONDS_PER_MILLISECOND;
        latency.p50_ms = latency.quantile_ms(0.5);
        latency.p90_ms = latency.quantile_ms(0.9);
        latency.p95_ms = latency.quantile_ms(0.95);
        latency.p99_ms = latency.quantile_ms(0.99);
        latency.p999_ms = latency.quantile_ms(0.999);
        latency.p9999_ms = latency.quantile_ms(0.9999);
        latency.max_ms = latency.quantile_ms(1.0);
        latency
    }

    /// All of them as one.
    pub(crate) fn merged<'l>(all: impl IntoIterator<Item = &'l Latency>) -> Self {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for &(microseconds, count) in all.into_iter().flat_map(|latency| &latency.histogram) {
            *counts.entry(microseconds).or_default() += count;
        }
        Latency::of_counts(counts.into_iter().collect())
    }

    /// How many operations it tells of.
    pub(crate) fn operations(&self) -> u64 {
        self.histogram.iter().map(|&(_, count)| count).sum()
    }

    /// The smallest recorded latency that this share of operations did not exceed; 0 when there was none.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        let wanted = (self.operations() as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reached = self.histogram.iter().find(|&&(_, count)| {
            seen += count;
            seen >= wanted
        });
        let slowest = self.histogram.last();
        reached
            .or(slowest)
            .map_or(0.0, |&(microseconds, _)| microseconds as f64 / MICROSECONDS_PER_MILLISECOND)
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
        let latency = Latency::of(&histogram);
        assert_eq!(latency.operations(), 10_000);
        for (found, quantile) in [
            (latency.p50_ms, 0.5),
            (latency.p90_ms, 0.9),
            (latency.p95_ms, 0.95),
            (latency.p99_ms, 0.99),
            (latency.p999_ms, 0.999),
            (latency.p9999_ms, 0.9999),
            (latency.max_ms, 1.0),
        ] {
            assert_eq!(found, histogram.value_at_quantile(quantile) as f64 / 1_000.0, "at {quantile}");
        }
        assert!((latency.mean_ms * 1_000.0 / histogram.mean() - 1.0).abs() < 0.001, "{}", latency.mean_ms);
    }

    #[test]
    fn small_sets_by_hand() {
        let latency = Latency::of(&histogram([1_000, 2_000, 2_000, 4_000]));
        let figures = (latency.p50_ms, latency.p90_ms, latency.histogram.len());
        // Buckets above 2,047 µs are two wide and told by their upper end.
        assert_eq!(figures, (2.0, 4.001, 3), "{latency:?}");
        assert_eq!(Latency::of(&histogram([])), Latency::default());
    }

    #[test]
    fn merging_adds_counts() {
        let (one, other) = (Latency::of(&histogram([100, 200])), Latency::of(&histogram([200, 300, 300])));
        let merged = Latency::merged([&one, &other]);
        assert_eq!(merged.histogram, [(100, 1), (200, 2), (300, 2)]);
        assert_eq!((merged.p50_ms, merged.max_ms), (0.2, 0.3));
    }
}
