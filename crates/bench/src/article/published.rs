//! The figures of S0's table as the article has them, from its own machine of 32 processors and 64 GB, by sysbench.

use crate::article::Subject;
use crate::article::figures::{CONNECTED, Column, LONGEST, MEAN, P95, RATE};

/// A row: each model's requests a second (failed ones included), failed ones a second, and its mean, 95th percentile and longest
/// latency in ms.
struct Published {
    kind: &'static str,
    clients: usize,
    synchronous: [f64; 5],
    adaptive: [f64; 5],
}

const fn row(kind: &'static str, clients: usize, synchronous: [f64; 5], adaptive: [f64; 5]) -> Published {
    Published { kind, clients, synchronous, adaptive }
}

/// Of 30,000 fast clients `synchronous` connected only so many.
const SYNCHRONOUS_CONNECTED: f64 = 24e3;
const MOST_FAST: usize = 30_000;

/// The eleven scenarios.
const TABLE: [Published; 11] = [
    row("fast", 70, [198e3, 0.0, 0.35, 0.57, 51.0], [181e3, 0.0, 0.38, 0.6, 41.0]),
    row("fast", 500, [195e3, 0.0, 2.53, 5.39, 4_033.0], [182e3, 0.0, 2.7, 3.77, 1_049.0]),
    row("fast", 1_000, [184e3, 4_448.0, 5.41, 20.6, 16_595.0], [188e3, 5_000.0, 5.28, 17.6, 4_087.0]),
    row("fast", 5_000, [182e3, 7_000.0, 27.3, 44.1, 5_043.0], [182e3, 37_000.0, 27.4, 108.0, 22_226.0]),
    row("fast", MOST_FAST, [210e3, 140e3, 139.0, 805.0, 53_775.0], [100e3, 80.0, 195.0, 985.0, 17_030.0]),
    row("slow", 30, [850.0, 0.0, 35.0, 45.0, 92.0], [674.0, 0.0, 44.0, 52.0, 132.0]),
    row("slow", 500, [765.0, 0.0, 652.0, 853.0, 2_334.0], [783.0, 0.0, 637.0, 696.0, 1_847.0]),
    row(
        "slow",
        1_000,
        [2_840.0, 2_140.0, 351.0, 1_602.0, 6_977.0],
        [3_604.0, 2_839.0, 277.0, 1_335.0, 6_615.0],
    ),
    row(
        "slow",
        5_000,
        [4_535.0, 4_000.0, 1_092.0, 8_878.0, 25_279.0],
        [4_952.0, 4_236.0, 998.0, 7_025.0, 16_923.0],
    ),
    row(
        "slow",
        10_000,
        [4_720.0, 4_240.0, 2_075.0, 19_539.0, 63_247.0],
        [8_890.0, 8_230.0, 1_101.0, 14_226.0, 40_895.0],
    ),
    row(
        "slow",
        20_000,
        [7_950.0, 7_500.0, 2_413.0, 17_812.0, 142_752.0],
        [8_800.0, 8_130.0, 2_173.0, 27_675.0, 57_886.0],
    ),
];

/// Numbers of clients of the fast requests …
pub(crate) const FAST_CLIENTS: &[usize] = &[70, 500, 1_000, 5_000, MOST_FAST];
/// … and of the slow ones.
pub(crate) const SLOW_CLIENTS: &[usize] = &[30, 500, 1_000, 5_000, 10_000, 20_000];

/// The article's figure for a kind of requests, a number of clients and a model; `None` where it has none.
pub(crate) fn figure(kind: &str, clients: usize, subject: Subject, column: Column) -> Option<f64> {
    let row = row_of(kind, clients)?;
    let [rate, _, mean, p95, longest] = row.of(subject)?;
    match column {
        RATE => Some(rate),
        MEAN => Some(mean),
        P95 => Some(p95),
        LONGEST => Some(longest),
        CONNECTED if row.clients == MOST_FAST && subject.name() == Subject::Synchronous.name() => {
            Some(SYNCHRONOUS_CONNECTED)
        }
        _ => None,
    }
}

/// Its failed requests a second.
pub(crate) fn errors(kind: &str, clients: usize, subject: Subject) -> Option<f64> {
    row_of(kind, clients)?.of(subject).map(|[_, errors, ..]| errors)
}

/// Whether the article has this row, under whichever model.
pub(crate) fn has_row(kind: &str, clients: usize) -> bool {
    row_of(kind, clients).is_some()
}

fn row_of(kind: &str, clients: usize) -> Option<&'static Published> {
    TABLE.iter().find(|row| row.kind == kind && row.clients == clients)
}

impl Published {
    /// By the name, so that a given server that is called after a model has that model's figures beside its own.
    fn of(&self, subject: Subject) -> Option<[f64; 5]> {
        match subject.name() {
            "synchronous" => Some(self.synchronous),
            "adaptive" => Some(self.adaptive),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::article::figures::P99;

    #[test]
    fn figures_are_found_by_row_model_and_column() {
        let check = |kind, clients, subject, column: Column, expect| {
            let found = figure(kind, clients, subject, column);
            assert_eq!(found, expect, "{kind} {clients} {subject:?} {}", column.name);
        };
        check("slow", 10_000, Subject::Adaptive, RATE, Some(8_890.0));
        check("slow", 10_000, Subject::Synchronous, LONGEST, Some(63_247.0));
        check("slow", 10_000, Subject::Synchronous, P99, None);
        check("slow", 10_000, Subject::Reactor, RATE, None);
        check("slow", 19_000, Subject::Adaptive, RATE, None);
        check("fast", 500, Subject::Adaptive, P95, Some(3.77));
        check("fast", 30_000, Subject::Synchronous, CONNECTED, Some(24_000.0));
        check("fast", 30_000, Subject::Adaptive, CONNECTED, None);
        check("storm", 1_000, Subject::Adaptive, RATE, None);
        assert_eq!(errors("fast", 1_000, Subject::Synchronous), Some(4_448.0));
    }

    #[test]
    fn the_eleven_scenarios_are_those_of_the_table() {
        let clients = |kind: &str| -> Vec<usize> {
            TABLE.iter().filter(|row| row.kind == kind).map(|row| row.clients).collect()
        };
        assert_eq!((clients("fast"), clients("slow")), (FAST_CLIENTS.to_vec(), SLOW_CLIENTS.to_vec()));
        assert_eq!(FAST_CLIENTS.len() + SLOW_CLIENTS.len(), 11);
        assert!(has_row("fast", 70) && !has_row("fast", 30) && !has_row("mixed", 70));
    }

    #[test]
    fn failed_requests_are_a_part_of_all() {
        for row in &TABLE {
            for [rate, errors, mean, p95, longest] in [row.synchronous, row.adaptive] {
                assert!(errors < rate && mean < p95 && p95 < longest, "{} {}", row.kind, row.clients);
            }
        }
    }
}
