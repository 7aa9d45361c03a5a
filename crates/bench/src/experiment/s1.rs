//! S1: the transport. An echo behind each thread model says what the model itself can do, a bare epoll echo
//! in the same round what the machine can do, and finds by `_id` under the same model what the database makes
//! of it. YCSB A by number of connections says what becomes of the rate, and of updates, as clients grow.

use super::findings::{At, Column, P99, RATE, Side};
use super::{Comparison, Experiment, Kind, Statement, Subject, What, cachegrind};
use crate::chart::Scale;

pub(super) const FINDS: Column = Column::rate("finds/s");
pub(super) const FINDS_P99: Column = Column::p99("find p99 ms");
pub(super) const OF_OWN_ECHO: Column = Column::other("find of own echo", 2);
const READ_P99: Column = Column::p99("read p99 ms");
const UPDATE_P99: Column = Column::p99("update p99 ms");
const UPDATE_LONGEST: Column = Column::longest("update max ms");

pub(super) const OF_READS: &[Column] = &[READ_P99];
pub(super) const OF_UPDATES: &[Column] = &[UPDATE_P99, UPDATE_LONGEST];

const CLIENTS: &[usize] = &[8, 64, 1_000, 5_000, 10_000];
const ECHO: &str = "echo";
const YCSB: &str = "ycsb-a";
/// Asynchronous, as the article has it.
const REACTOR: &[Subject] = &[Subject::Reactor];
const PAIR: &[Subject] = &[Subject::Synchronous, Subject::Reactor];

const fn over(heading: &'static str, base: Subject) -> Comparison {
    Comparison { heading, base: Some(base), inverse: false }
}

pub(super) static EXPERIMENT: Experiment = Experiment {
    name: "s1",
    title: "one loop per thread, and a pool",
    about: "The article hands connections round-robin to event loops, one per thread, and runs commands that may block in an \
            elastic pool. It set an echo behind one loop against one behind several, and a database on this transport \
            (asynchronous) against the same with a thread per connection (synchronous) under YCSB's workload A. Here reactor is \
            its design, adaptive-one-queue the shared queue that it replaces.",
    subjects: &[
        Subject::EpollEcho,
        Subject::Synchronous,
        Subject::Adaptive,
        Subject::AdaptiveOneQueue,
        Subject::Reactor,
        Subject::Coroutine,
        Subject::Auto,
    ],
    document_bytes: 1_024,
    kinds: &[
        Kind {
            name: ECHO,
            title: "Echo",
            clients: CLIENTS,
            what: What::Transport,
            comparisons: &[
                over("of the epoll echo", Subject::EpollEcho),
                over("times adaptive with one queue", Subject::AdaptiveOneQueue),
            ],
            panels: &[(RATE, Scale::Linear), (P99, Scale::Logarithmic), (FINDS, Scale::Linear)],
        },
        Kind {
            name: YCSB,
            title: "YCSB A",
            clients: CLIENTS,
            what: What::Ycsb,
            comparisons: &[over("times synchronous", Subject::Synchronous)],
            panels: &[
                (RATE, Scale::Linear),
                (READ_P99, Scale::Logarithmic),
                (UPDATE_P99, Scale::Logarithmic),
            ],
        },
        cachegrind::KIND,
    ],
    usual: "echo,ycsb-a",
    published: None,
    statements: &[
        Statement {
            claim: "Echo: several loops without a shared lock over one queue",
            theirs: "350k → 900k+ requests/s, 2.6 times",
            kind: ECHO,
            column: RATE,
            ours: Side(At::Best, REACTOR),
            over: Some(Side(At::Best, &[Subject::AdaptiveOneQueue])),
        },
        Statement {
            claim: "YCSB A, most clients: asynchronous over synchronous",
            theirs: "1.6 times",
            kind: YCSB,
            column: RATE,
            ours: Side(At::Most, REACTOR),
            over: Some(Side(At::Most, &[Subject::Synchronous])),
        },
        Statement {
            claim: "YCSB A: the asynchronous rate as clients grow",
            theirs: "kept",
            kind: YCSB,
            column: RATE,
            ours: Side(At::Most, REACTOR),
            over: Some(Side(At::Best, REACTOR)),
        },
        Statement {
            claim: "YCSB A, most clients: the longest updates of synchronous",
            theirs: "over 1 s",
            kind: YCSB,
            column: UPDATE_LONGEST,
            ours: Side(At::Most, PAIR),
            over: None,
        },
        Statement {
            claim: "Cache misses of all references: synchronous → asynchronous",
            theirs: "4.765 % → 3.787 % (perf stat)",
            kind: cachegrind::KIND.name,
            column: cachegrind::MISSES,
            ours: Side(At::Most, PAIR),
            over: None,
        },
    ],
};
