//! A cheap view of a run while it goes on: generator threads write, whoever shows progress reads.

use crate::generator::series::Second;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What one generator thread, or one further process, has done so far.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    operations: AtomicU64,
    errors: AtomicU64,
    open: AtomicU64,
    in_flight: AtomicU64,
    /// The last whole second of the measured window. Locked once a second.
    second: Mutex<Second>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    /// Good operations since the beginning, the warm-up included.
    pub(crate) operations: u64,
    /// Failed operations and connections since the beginning, the warm-up included.
    pub(crate) errors: u64,
    pub(crate) open: u64,
    /// Operations and attempts to connect that are under way.
    pub(crate) in_flight: u64,
    /// The last whole second of the measured window, empty before.
    pub(crate) second: Second,
}

impl Gauge {
    pub(crate) fn set(&self, operations: u64, errors: u64, open: u64, in_flight: u64) {
        self.operations.store(operations, Ordering::Relaxed);
        self.errors.store(errors, Ordering::Relaxed);
        self.open.store(open, Ordering::Relaxed);
        self.in_flight.store(in_flight, Ordering::Relaxed);
    }

    pub(crate) fn set_second(&self, second: Second) {
        *self.second.lock().unwrap_or_else(PoisonError::into_inner) = second;
    }

    pub(crate) fn set_all(&self, snapshot: Snapshot) {
        self.set(snapshot.operations, snapshot.errors, snapshot.open, snapshot.in_flight);
        self.set_second(snapshot.second);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            operations: self.operations.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            open: self.open.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            second: self.second.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// What several threads or processes did together.
pub(crate) fn snapshot_of(gauges: &[Arc<Gauge>]) -> Snapshot {
    let mut sum = Snapshot::default();
    for one in gauges.iter().map(|gauge| gauge.snapshot()) {
        sum.operations += one.operations;
        sum.errors += one.errors;
        sum.open += one.open;
        sum.in_flight += one.in_flight;
        sum.second.merge(&one.second);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_adds_up_all_gauges() {
        let mut gauges = Vec::new();
        for number in 1..=2 {
            let gauge = Arc::new(Gauge::default());
            gauge.set(number, 10 * number, 100, 3);
            gauge.set_second(Second { operations: number, ..Second::default() });
            gauges.push(gauge);
        }
        let expect = Snapshot {
            operations: 3,
            errors: 30,
            open: 200,
            in_flight: 6,
            second: Second { operations: 3, ..Second::default() },
        };
        assert_eq!(snapshot_of(&gauges), expect);
    }
}
