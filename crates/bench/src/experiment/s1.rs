//! S1: the transport. An echo behind each thread model says what the model itself can do, a bare epoll echo
//! in the same round what the machine can do, and finds by `_id` under the same model what the database makes
//! of it. YCSB A by number of connections says what becomes of the rate, and of updates, as clients grow.

use super::findings::{At, Column, Findings, P99, RATE, times};
use super::{Comparison, Experiment, Kind, Statement, Subject, What};
use crate::chart::Scale;
use crate::result::{amount, plain};

pub(super) const FINDS: Column = Column::median("finds/s", 0);
pub(super) const FINDS_P99: Column = Column::median("find p99 ms", 2);
pub(super) const OF_OWN_ECHO: Column = Column::median("find of own echo", 2);
pub(super) const READ_P99: Column = Column::median("read p99 ms", 2);
pub(super) const UPDATE_P99: Column = Column::median("update p99 ms", 2);
pub(super) const UPDATE_LONGEST: Column = Column::most("update max ms", 1);

const CLIENTS: &[usize] = &[8, 64, 1_000, 5_000, 10_000];
const ECHO: &str = "echo";
const YCSB: &str = "ycsb-a";

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
    ],
    usual: "echo,ycsb-a",
    published: None,
    statements: &[
        Statement {
            claim: "Echo: several loops without a shared lock over one queue",
            theirs: "350k → 900k+ requests/s, 2.6 times",
            ours: loops_over_one_queue,
        },
        Statement {
            claim: "YCSB A, most clients: asynchronous over synchronous",
            theirs: "1.6 times",
            ours: |findings| {
                let others = [Subject::Synchronous];
                let ratio = findings.ratio(YCSB, At::Most, Subject::Reactor, &others, RATE)?;
                Some(times(ratio, "synchronous"))
            },
        },
        Statement {
            claim: "YCSB A: the asynchronous rate as clients grow",
            theirs: "kept",
            ours: |findings| {
                let most = findings.cell(YCSB, At::Most, Subject::Reactor)?;
                let best = findings.best(YCSB, Subject::Reactor, RATE)?;
                let share = 100.0 * most.figure(RATE)? / best;
                Some(format!("{share:.0} % of the best with {} clients", plain(most.row.connections as f64)))
            },
        },
        Statement {
            claim: "YCSB A, most clients: the longest updates of synchronous",
            theirs: "over 1 s",
            ours: longest_updates,
        },
        Statement {
            claim: "Cache misses of all references: synchronous → asynchronous",
            theirs: "4.765 % → 3.787 % (perf stat)",
            ours: |_| {
                Some("not counted by this experiment; heddle bench cachegrind simulates them".to_owned())
            },
        },
    ],
};

fn loops_over_one_queue(findings: &Findings) -> Option<String> {
    let one = findings.best(ECHO, Subject::AdaptiveOneQueue, RATE)?;
    let several = findings.best(ECHO, Subject::Reactor, RATE)?;
    Some(format!("{} → {} requests/s, {} times", amount(one), amount(several), amount(several / one)))
}

fn longest_updates(findings: &Findings) -> Option<String> {
    let longest = |subject| findings.cell(YCSB, At::Most, subject)?.figure(UPDATE_LONGEST);
    let own = format!("{} ms", amount(longest(Subject::Synchronous)?));
    let beside = longest(Subject::Reactor).map(|reactor| format!(", {} ms of reactor", amount(reactor)));
    Some(own + &beside.unwrap_or_default())
}
