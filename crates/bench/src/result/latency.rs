//! The figures of latencies that are kept.

use crate::generator::Latencies;
use crate::result::Latency;

impl From<Latencies> for Latency {
    fn from(histogram: Latencies) -> Self {
        Latency {
            mean_ms: histogram.mean_ms(),
            p50_ms: histogram.quantile_ms(0.5),
            p90_ms: histogram.quantile_ms(0.9),
            p95_ms: histogram.quantile_ms(0.95),
            p99_ms: histogram.quantile_ms(0.99),
            p999_ms: histogram.quantile_ms(0.999),
            p9999_ms: histogram.quantile_ms(0.9999),
            max_ms: histogram.longest_ms(),
            histogram,
        }
    }
}

impl Latency {
    pub(crate) fn merged<'l>(all: impl IntoIterator<Item = &'l Latency>) -> Self {
        Latencies::merged(all.into_iter().map(|latency| &latency.histogram)).into()
    }

    /// How many operations it tells of.
    pub(crate) fn operations(&self) -> u64 {
        self.histogram.count()
    }
}
