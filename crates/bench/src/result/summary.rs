//! One figure of several repetitions.

use crate::result::median;
use crate::result::{ErrorCount, KindResult, Latency, RunResult};

/// The name of all kinds together.
pub(crate) const TOTAL: &str = "total";

/// One kind of operation over all repetitions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    pub(crate) name: String,
    /// Sum.
    pub(crate) operations: u64,
    /// Median, as the latencies but the longest.
    pub(crate) rate: f64,
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    /// The longest of all.
    pub(crate) max_ms: f64,
    /// Sum.
    pub(crate) errors: u64,
}

impl KindResult {
    pub(crate) fn error_count(&self) -> u64 {
        self.errors.iter().map(|error| error.count).sum()
    }
}

impl RunResult {
    /// Each kind of operation in the order of its first appearance, then all together.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        self.names().into_iter().map(|name| summary(&name, &self.all_of(&name))).collect()
    }

    /// All kinds together.
    pub(crate) fn total(&self) -> Summary {
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

    /// Latencies of one kind, all repetitions together.
    pub(crate) fn latency_of(&self, name: &str) -> Latency {
        Latency::merged(self.all_of(name).into_iter().map(|kind| &kind.latency))
    }

    /// Errors over all repetitions, the most frequent first, each with the kind of operation; those that
    /// belong to none, such as refused connections, have [`TOTAL`].
    pub(crate) fn errors(&self) -> Vec<(String, ErrorCount)> {
        let mut all: Vec<(String, ErrorCount)> = Vec::new();
        for repetition in &self.repetitions {
            let mut rest = repetition.total.errors.clone();
            for kind in &repetition.kinds {
                for error in &kind.errors {
                    if let Some(total) = rest.iter_mut().find(|total| same(total, error)) {
                        total.count = total.count.saturating_sub(error.count);
                    }
                    add(&mut all, &kind.name, error);
                }
            }
            for error in rest.iter().filter(|error| error.count > 0) {
                add(&mut all, TOTAL, error);
            }
        }
        all.sort_by_key(|(_, error)| std::cmp::Reverse(error.count));
        all
    }
}

fn same(one: &ErrorCount, other: &ErrorCount) -> bool {
    (&one.kind, one.code, &one.name) == (&other.kind, other.code, &other.name)
}

fn add(all: &mut Vec<(String, ErrorCount)>, kind: &str, error: &ErrorCount) {
    match all.iter_mut().find(|(name, known)| name == kind && same(known, error)) {
        Some((_, known)) => known.count += error.count,
        None => all.push((kind.to_owned(), error.clone())),
    }
}

fn summary(name: &str, all: &[&KindResult]) -> Summary {
    let middle = |figure: fn(&KindResult) -> f64| median(all.iter().map(|kind| figure(kind)).collect());
    Summary {
        name: name.to_owned(),
        operations: all.iter().map(|kind| kind.operations).sum(),
        rate: middle(|kind| kind.rate),
        mean_ms: middle(|kind| kind.latency.mean_ms),
        p50_ms: middle(|kind| kind.latency.p50_ms),
        p95_ms: middle(|kind| kind.latency.p95_ms),
        p99_ms: middle(|kind| kind.latency.p99_ms),
        p999_ms: middle(|kind| kind.latency.p999_ms),
        max_ms: all.iter().map(|kind| kind.latency.max_ms).fold(0.0, f64::max),
        errors: all.iter().map(|kind| kind.error_count()).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample;

    #[test]
    fn repetitions_become_medians_and_sums() {
        let result = sample::with_rates("three", &[50_000.0, 70_000.0, 40_000.0]);
        let total = result.total();
        assert_eq!((total.rate, total.operations), (50_000.0, 160_000 * 30));
        assert_eq!(total.errors, 45);
        assert_eq!(total.max_ms, 192.0, "the longest is that of the slowest repetition");
        assert_eq!(result.names(), ["read", "update", "total"]);
        assert!(result.latency_of("read").operations() >= 80_000 * 30);
    }

    #[test]
    fn errors_that_belong_to_no_operation_are_kept() {
        let mut result = sample::with_rates("two", &[50_000.0, 70_000.0]);
        let refused = ErrorCount { kind: "connect".into(), name: "refused".into(), count: 7, code: None };
        for repetition in &mut result.repetitions {
            repetition.total.errors.push(refused.clone());
        }
        let errors: Vec<(String, String, u64)> = result
            .errors()
            .into_iter()
            .map(|(operation, error)| (operation, error.kind, error.count))
            .collect();
        let expect = [("read", "server", 24), ("total", "connect", 14), ("read", "timeout", 6)]
            .map(|(operation, kind, count)| (operation.to_owned(), kind.to_owned(), count));
        assert_eq!(errors, expect);
    }
}
