//! One figure of several repetitions.

use crate::generator::{Errors, Failure, add_errors};
use crate::result::median;
use crate::result::{KindResult, Latency, RunResult};
use std::collections::BTreeMap;

/// The name of all kinds together.
pub(crate) const TOTAL: &str = "total";

impl KindResult {
    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl RunResult {
    /// Each kind of operation in the order of its first appearance, then all together.
    pub(crate) fn summaries(&self) -> Vec<KindResult> {
        self.names().into_iter().map(|name| summary(&name, &self.all_of(&name))).collect()
    }

    /// All kinds together.
    pub(crate) fn total(&self) -> KindResult {
        summary(TOTAL, &self.all_of(TOTAL))
    }

    /// Names of the kinds of operations, then [`TOTAL`].
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for kind in self.repetitions.iter().flat_map(|repetition| &repetition.kinds) {
            if !names.contains(&kind.name) {
                names.push(kind.name.clone());
            }
        }
        names.push(TOTAL.to_owned());
        names
    }

    /// One kind in each repetition that has it.
    pub(crate) fn all_of(&self, name: &str) -> Vec<&KindResult> {
        let find = |kinds: &'_ [KindResult]| kinds.iter().position(|kind| kind.name == name);
        self.repetitions
            .iter()
            .filter_map(|repetition| match name {
                TOTAL => Some(&repetition.total),
                _ => find(&repetition.kinds).and_then(|place| repetition.kinds.get(place)),
            })
            .collect()
    }

    /// Errors over all repetitions, the most frequent first, each with the kind of operation; those that
    /// belong to none, such as refused connections, have [`TOTAL`].
    pub(crate) fn errors(&self) -> Vec<(&str, &Failure, u64)> {
        let mut all: BTreeMap<(&str, &Failure), u64> = BTreeMap::new();
        for repetition in &self.repetitions {
            for (failure, &count) in &repetition.total.errors {
                let mut rest = count;
                for kind in &repetition.kinds {
                    let own = kind.errors.get(failure).copied().unwrap_or_default();
                    rest = rest.saturating_sub(own);
                    *all.entry((&kind.name, failure)).or_default() += own;
                }
                *all.entry((TOTAL, failure)).or_default() += rest;
            }
        }
        let counted = all.into_iter().filter(|(_, count)| *count > 0);
        let mut errors: Vec<_> = counted.map(|((kind, failure), count)| (kind, failure, count)).collect();
        errors.sort_by_key(|&(.., count)| std::cmp::Reverse(count));
        errors
    }
}

/// Medians of rates and latencies; the longest latency is the longest of all, everything else a sum.
fn summary(name: &str, all: &[&KindResult]) -> KindResult {
    let middle = |figure: fn(&KindResult) -> f64| median(all.iter().map(|kind| figure(kind)).collect());
    let mut errors = Errors::new();
    all.iter().for_each(|kind| add_errors(&mut errors, &kind.errors));
    KindResult {
        name: name.to_owned(),
        operations: all.iter().map(|kind| kind.operations).sum(),
        rate: middle(|kind| kind.rate),
        errors,
        latency: Latency {
            mean_ms: middle(|kind| kind.latency.mean_ms),
            p50_ms: middle(|kind| kind.latency.p50_ms),
            p90_ms: middle(|kind| kind.latency.p90_ms),
            p95_ms: middle(|kind| kind.latency.p95_ms),
            p99_ms: middle(|kind| kind.latency.p99_ms),
            p999_ms: middle(|kind| kind.latency.p999_ms),
            p9999_ms: middle(|kind| kind.latency.p9999_ms),
            ..Latency::merged(all.iter().map(|kind| &kind.latency))
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::FailureKind;
    use crate::result::sample;

    #[test]
    fn repetitions_become_medians_and_sums() {
        let result = sample::with_rates("three", &[50_000.0, 70_000.0, 40_000.0]);
        let total = result.total();
        assert_eq!((total.rate, total.operations), (50_000.0, 160_000 * 30));
        assert_eq!(total.error_count(), 45);
        assert_eq!(total.latency.max_ms, 192.0, "the longest is that of the slowest repetition");
        assert_eq!(result.names(), ["read", "update", "total"]);
        assert!(result.summaries()[0].latency.operations() >= 80_000 * 30);
    }

    #[test]
    fn errors_that_belong_to_no_operation_are_kept() {
        let mut result = sample::with_rates("two", &[50_000.0, 70_000.0]);
        let refused = Failure::new(FailureKind::Connect, "refused");
        for repetition in &mut result.repetitions {
            repetition.total.errors.insert(refused.clone(), 7);
        }
        let errors: Vec<(&str, &str, u64)> = result
            .errors()
            .into_iter()
            .map(|(kind, error, count)| (kind, error.kind.name(), count))
            .collect();
        let expect = [("read", "server", 24), ("total", "connect", 14), ("read", "timeout", 6)];
        assert_eq!(errors, expect);
    }
}
