//! What the articles published, on their machines.

use crate::article::Subject;
use crate::article::figures::{Column, LONGEST, MEAN, P95, RATE};

/// A row of S0's table: each model's requests a second (failed ones included), failed ones a second, and its mean, 95th percentile
/// and longest latency in ms.
struct Row {
    kind: &'static str,
    clients: usize,
    synchronous: [f64; 5],
    adaptive: [f64; 5],
}

const fn row(kind: &'static str, clients: usize, synchronous: [f64; 5], adaptive: [f64; 5]) -> Row {
    Row { kind, clients, synchronous, adaptive }
}

/// S0, on 32 processors and 64 GB, by sysbench. The row of 24,000 to 30,000 clients is left out: its two models did not have the
/// same number.
const S0: [Row; 10] = [
    row("fast", 70, [198e3, 0.0, 0.35, 0.57, 51.0], [181e3, 0.0, 0.38, 0.6, 41.0]),
    row("fast", 500, [195e3, 0.0, 2.53, 5.39, 4_033.0], [182e3, 0.0, 2.7, 3.77, 1_049.0]),
    row("fast", 1_000, [184e3, 4_448.0, 5.41, 20.6, 16_595.0], [188e3, 5_000.0, 5.28, 17.6, 4_087.0]),
    row("fast", 5_000, [182e3, 7_000.0, 27.3, 44.1, 5_043.0], [182e3, 37_000.0, 27.4, 108.0, 22_226.0]),
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

/// An experiment's published figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published {
    experiment: &'static str,
}

impl Published {
    pub(crate) const fn of(experiment: &'static str) -> Self {
        Published { experiment }
    }

    /// What stands beside our figures, for the reader; `None` when nothing does.
    pub(crate) fn explanation(self) -> Option<&'static str> {
        (self.experiment == "s0").then_some(
            "Below ours, where there is one: the article's figure, from its own machine of 32 processors and 64 GB. Its requests a \
             second include the failed ones; ours do not.",
        )
    }

    /// The article's figure for a cell.
    pub(crate) fn figure(
        self,
        kind: &str,
        connections: usize,
        subject: Subject,
        column: Column,
    ) -> Option<f64> {
        let place = [RATE, MEAN, P95, LONGEST].iter().position(|known| *known == column)?;
        let [rate, _, mean, p95, longest] = self.row(kind, connections, subject)?;
        [rate, mean, p95, longest].get(place).copied()
    }

    /// Its failed requests a second.
    pub(crate) fn errors(self, kind: &str, connections: usize, subject: Subject) -> Option<f64> {
        self.row(kind, connections, subject).map(|[_, errors, ..]| errors)
    }

    fn row(self, kind: &str, connections: usize, subject: Subject) -> Option<[f64; 5]> {
        let rows: &[Row] = if self.experiment == "s0" { &S0 } else { &[] };
        let row = rows.iter().find(|row| row.kind == kind && row.clients == connections)?;
        match subject {
            Subject::Synchronous => Some(row.synchronous),
            Subject::Adaptive => Some(row.adaptive),
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
        let s0 = Published::of("s0");
        let check = |connections, subject, column, expect| {
            assert_eq!(s0.figure("slow", connections, subject, column), expect, "{connections} {subject:?}");
        };
        check(10_000, Subject::Adaptive, RATE, Some(8_890.0));
        check(10_000, Subject::Synchronous, LONGEST, Some(63_247.0));
        check(10_000, Subject::Synchronous, P99, None);
        check(10_000, Subject::Reactor, RATE, None);
        check(19_000, Subject::Adaptive, RATE, None);
        assert_eq!(s0.errors("fast", 1_000, Subject::Synchronous), Some(4_448.0));
        assert_eq!(Published::of("s1").figure("fast", 70, Subject::Adaptive, RATE), None);
        assert!(s0.explanation().is_some() && Published::of("s3").explanation().is_none());
    }

    #[test]
    fn failed_requests_are_a_part_of_all() {
        for row in &S0 {
            for [rate, errors, mean, p95, longest] in [row.synchronous, row.adaptive] {
                assert!(errors < rate && mean < p95 && p95 < longest, "{} {}", row.kind, row.clients);
            }
        }
    }
}
