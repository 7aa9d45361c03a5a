//! S0: thread models by number of clients.
//!
//! Fast requests find one document by `_id`, slow ones return 2,000. Beside these two, the article's pair,
//! there are the situations in which servers with many clients fail: updates, journaled updates, fast beside
//! slow, idle connections, monitors of an overloaded server, and connection storms.

use super::findings::{
    At, CONNECTED, CONNECTIONS, Cell, Column, ERRORS, FAILED, LONGEST, MEAN, P95, RATE, Side,
};
use super::{Comparison, Experiment, Kind, Load, Statement, Subject, What};

/// Numbers of clients of the fast requests …
const FAST_CLIENTS: &[usize] = &[70, 500, 1_000, 5_000, 30_000];
/// … and of the slow ones.
const SLOW_CLIENTS: &[usize] = &[30, 500, 1_000, 5_000, 10_000, 20_000];

const fn sweep(name: &'static str, title: &'static str, clients: &'static [usize], what: What) -> Kind {
    const COMPARISONS: &[Comparison] =
        &[Comparison { heading: "of the best model", base: None, inverse: false }];
    Kind { name, title, clients, what, comparisons: COMPARISONS, panels: super::SWEEP }
}

const fn situation(name: &'static str, title: &'static str, clients: &'static [usize], what: What) -> Kind {
    Kind { name, title, clients, what, comparisons: &[], panels: &[] }
}

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "s0",
    title: "thread models by number of clients",
    about: "The article set MongoDB 3.6 with a thread per connection (synchronous) against its elastic pool over one task queue \
            (adaptive), on a machine of 32 processors and 64 GB, with sysbench on the same network: fast requests are reads of \
            one document, slow ones of 2,000.",
    subjects: &Subject::MODELS,
    document_bytes: 1_024,
    kinds: &[
        sweep("fast", "Fast: find by _id", FAST_CLIENTS, What::Closed(Load::Read)),
        sweep("slow", "Slow: range of 2,000 documents", SLOW_CLIENTS, What::Closed(Load::Range)),
        sweep("updates", "Updates of one field", &[1_000], What::Closed(Load::Update)),
        sweep("journaled", "Updates, j: true", &[1_000], What::Closed(Load::Journaled)),
        situation("mixed", "Fast beside slow", &[1_000], What::Mixed),
        situation("idle", "Idle connections", &[10_000, 19_000], What::Idle),
        situation("lane", "Monitoring under overload", &[10_000], What::Lane),
        sweep("storm", "Connect, find, close", &[64, 1_000], What::Storm),
    ],
    usual: "fast,slow",
    published: Some(beside),
    statements: &[
        Statement {
            claim: "Few clients are served best by a thread each: adaptive over synchronous, 70 fast clients",
            theirs: "0.91 times",
            kind: "fast",
            column: RATE,
            ours: Side(At::Clients(70), &[Subject::Adaptive]),
            over: Some(Side(At::Clients(70), &[Subject::Synchronous])),
        },
        Statement {
            claim: "Many are served best by a pool: adaptive over synchronous, 10,000 slow clients",
            theirs: "1.88 times",
            kind: "slow",
            column: RATE,
            ours: Side(At::Clients(10_000), &[Subject::Adaptive]),
            over: Some(Side(At::Clients(10_000), &[Subject::Synchronous])),
        },
        Statement {
            claim: "At the top most requests fail: of all requests of 20,000 slow clients",
            theirs: "synchronous 94 %, adaptive 92 %",
            kind: "slow",
            column: FAILED,
            ours: Side(At::Clients(20_000), &PAIR),
            over: None,
        },
        Statement {
            claim: "A thread per connection does not take 30,000 clients",
            theirs: "synchronous 24,000 of 30,000, adaptive all",
            kind: "fast",
            column: CONNECTED,
            ours: Side(At::Clients(30_000), &PAIR),
            over: None,
        },
    ],
};

const PAIR: [Subject; 2] = [Subject::Synchronous, Subject::Adaptive];

/// The eleven scenarios of the article's table, from its own machine, by sysbench. Each model's requests a
/// second (failed ones included), failed ones a second, mean, 95th percentile and longest latency in ms:
/// first `synchronous`, then `adaptive`.
#[rustfmt::skip]
const TABLE: [(&str, usize, [[f64; 5]; 2]); 11] = [
    ("fast", 70, [[198e3, 0.0, 0.35, 0.57, 51.0], [181e3, 0.0, 0.38, 0.6, 41.0]]),
    ("fast", 500, [[195e3, 0.0, 2.53, 5.39, 4_033.0], [182e3, 0.0, 2.7, 3.77, 1_049.0]]),
    ("fast", 1_000, [[184e3, 4_448.0, 5.41, 20.6, 16_595.0], [188e3, 5_000.0, 5.28, 17.6, 4_087.0]]),
    ("fast", 5_000, [[182e3, 7_000.0, 27.3, 44.1, 5_043.0], [182e3, 37_000.0, 27.4, 108.0, 22_226.0]]),
    ("fast", 30_000, [[210e3, 140e3, 139.0, 805.0, 53_775.0], [100e3, 80.0, 195.0, 985.0, 17_030.0]]),
    ("slow", 30, [[850.0, 0.0, 35.0, 45.0, 92.0], [674.0, 0.0, 44.0, 52.0, 132.0]]),
    ("slow", 500, [[765.0, 0.0, 652.0, 853.0, 2_334.0], [783.0, 0.0, 637.0, 696.0, 1_847.0]]),
    ("slow", 1_000, [[2_840.0, 2_140.0, 351.0, 1_602.0, 6_977.0], [3_604.0, 2_839.0, 277.0, 1_335.0, 6_615.0]]),
    ("slow", 5_000, [[4_535.0, 4_000.0, 1_092.0, 8_878.0, 25_279.0], [4_952.0, 4_236.0, 998.0, 7_025.0, 16_923.0]]),
    ("slow", 10_000, [[4_720.0, 4_240.0, 2_075.0, 19_539.0, 63_247.0], [8_890.0, 8_230.0, 1_101.0, 14_226.0, 40_895.0]]),
    ("slow", 20_000, [[7_950.0, 7_500.0, 2_413.0, 17_812.0, 142_752.0], [8_800.0, 8_130.0, 2_173.0, 27_675.0, 57_886.0]]),
];
/// Of the most fast clients `synchronous` connected only so many.
const SYNCHRONOUS_CONNECTED: (usize, f64) = (30_000, 24e3);

/// The article's figure. Models go by their names, so that a given server that is called after one has its
/// figures.
fn beside(cell: &Cell, column: Column) -> Option<f64> {
    const COLUMNS: [Column; 5] = [RATE, ERRORS, MEAN, P95, LONGEST];
    let clients = cell.row.clients;
    let (.., models) = TABLE.iter().find(|(kind, of, _)| (*kind, *of) == (cell.row.kind.name, clients))?;
    if column == CONNECTIONS {
        return (clients != cell.row.connections).then_some(clients as f64);
    }
    let model = PAIR.iter().position(|model| model.name() == cell.subject.name())?;
    if (column, model, clients) == (CONNECTED, 0, SYNCHRONOUS_CONNECTED.0) {
        return Some(SYNCHRONOUS_CONNECTED.1);
    }
    let place = COLUMNS.iter().position(|known| *known == column)?;
    models.get(model)?.get(place).copied()
}

#[cfg(test)]
mod tests {
    use super::super::findings::{P99, Row};
    use super::*;

    #[test]
    fn figures_are_found_by_row_model_and_column() {
        let check = |kind: &str, clients, subject, column, expect: Option<f64>| {
            let kind = EXPERIMENT.kinds.iter().find(|known| known.name == kind).expect("a kind");
            let cell = Cell { row: Row { kind, connections: 19, clients }, subject, rounds: Vec::new() };
            let found = beside(&cell, column);
            assert_eq!(found, expect, "{} {clients} {subject:?} {column:?}", kind.name);
        };
        check("slow", 10_000, Subject::Adaptive, RATE, Some(8_890.0));
        check("slow", 10_000, Subject::Synchronous, LONGEST, Some(63_247.0));
        check("slow", 10_000, Subject::Synchronous, P99, None);
        check("slow", 10_000, Subject::Reactor, RATE, None);
        check("slow", 10_000, Subject::Reactor, CONNECTIONS, Some(10_000.0));
        check("slow", 19_000, Subject::Adaptive, RATE, None);
        check("fast", 500, Subject::Adaptive, P95, Some(3.77));
        check("fast", 30_000, Subject::Synchronous, CONNECTED, Some(24_000.0));
        check("fast", 30_000, Subject::Adaptive, CONNECTED, None);
        check("fast", 1_000, Subject::Synchronous, ERRORS, Some(4_448.0));
        check("storm", 1_000, Subject::Adaptive, RATE, None);
    }

    #[test]
    fn the_eleven_scenarios_are_those_of_the_table() {
        let clients = |kind: &str| -> Vec<usize> {
            TABLE.iter().filter(|row| row.0 == kind).map(|row| row.1).collect()
        };
        assert_eq!((clients("fast"), clients("slow")), (FAST_CLIENTS.to_vec(), SLOW_CLIENTS.to_vec()));
        for (kind, clients, models) in TABLE {
            for [rate, errors, mean, p95, longest] in models {
                assert!(errors < rate && mean < p95 && p95 < longest, "{kind} {clients}");
            }
        }
    }
}
