//! S1: the transport. An echo behind each thread model says what the model itself can do, a bare epoll echo in the same round
//! what the machine can do, and finds by `_id` under the same model what the database makes of it. YCSB A by number of
//! connections says what becomes of the rate, and of updates, as clients grow.

mod ycsb;

use crate::article::Subject;
use crate::article::arguments::{CommonArguments, Settings};
use crate::article::chart::Panel;
use crate::article::figures::{Column, GENERATOR, Measurement, P99, RATE};
use crate::article::plan::{Findings, Row};
use crate::article::report::{Article, Report, Section};
use crate::article::statement::{At, Evidence, Statement, times};
use crate::article::table::{Base, Comparison};
use crate::error::BenchError;
use crate::generator::{Outcome, Request};
use crate::result::{amount, plain};
use crate::scenario::Scenario;
use clap::{Args, ValueEnum};
use std::net::SocketAddr;

const CONNECTIONS: &[usize] = &[8, 64, 1_000, 5_000, 10_000];
const SUBJECTS: &[Subject] = &[
    Subject::EpollEcho,
    Subject::Synchronous,
    Subject::Adaptive,
    Subject::AdaptiveOneQueue,
    Subject::Reactor,
    Subject::Coroutine,
    Subject::Auto,
];
const DOCUMENT_BYTES: usize = 1_024;

const ARTICLE: Article = Article {
    experiment: "s1",
    title: "one loop per thread, and a pool",
    about: "The article hands connections round-robin to event loops, one per thread, and runs commands that may block in an \
            elastic pool. It set an echo behind one loop against one behind several, and a database on this transport \
            (asynchronous) against the same with a thread per connection (synchronous) under YCSB's workload A. Here reactor is \
            its design, adaptive-one-queue the shared queue that it replaces.",
    has_table: false,
    statements: &[
        Statement {
            claim: "Echo: several loops without a shared lock over one queue",
            theirs: "350k → 900k+ requests/s, 2.6 times",
            ours: loops_over_one_queue,
        },
        Statement {
            claim: "YCSB A, most clients: asynchronous over synchronous",
            theirs: "1.6 times",
            ours: |evidence| {
                let others = [Subject::Synchronous];
                let ratio = evidence.ratio(YCSB, At::Most, Subject::Reactor, &others, RATE)?;
                Some(times(ratio, "synchronous"))
            },
        },
        Statement {
            claim: "YCSB A: the asynchronous rate as clients grow",
            theirs: "kept",
            ours: |evidence| {
                let most = evidence.cell(YCSB, At::Most, Subject::Reactor)?;
                let best = evidence.best(YCSB, Subject::Reactor, RATE)?;
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

fn loops_over_one_queue(evidence: &Evidence<'_>) -> Option<String> {
    let one = evidence.best(ECHO, Subject::AdaptiveOneQueue, RATE)?;
    let several = evidence.best(ECHO, Subject::Reactor, RATE)?;
    Some(format!("{} → {} requests/s, {} times", amount(one), amount(several), amount(several / one)))
}

fn longest_updates(evidence: &Evidence<'_>) -> Option<String> {
    let longest = |subject| evidence.cell(YCSB, At::Most, subject)?.figure(ycsb::UPDATE_LONGEST);
    let own = format!("{} ms", amount(longest(Subject::Synchronous)?));
    let beside = longest(Subject::Reactor).map(|reactor| format!(", {} ms of reactor", amount(reactor)));
    Some(own + &beside.unwrap_or_default())
}

const FINDS: Column = Column::median("finds/s", 0);
const FINDS_P99: Column = Column::median("find p99 ms", 2);
const OF_OWN_ECHO: Column = Column::median("find of own echo", 2);

/// `heddle bench article s1`.
#[derive(Debug, Args)]
pub struct S1Arguments {
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "echo,ycsb-a")]
    kinds: Vec<Kind>,
    /// Size of the echo's replies, in bytes; that of a find's reply by default
    #[arg(long)]
    reply_bytes: Option<usize>,
    /// Leave the finds out
    #[arg(long)]
    no_find: bool,
    #[command(flatten)]
    common: CommonArguments,
}

/// One table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The transport alone, and finds beside it.
    Echo,
    /// YCSB A.
    YcsbA,
}

const ECHO: &str = "echo";
const YCSB: &str = "ycsb-a";

impl Kind {
    const fn section(self) -> Section {
        const RATE_PANEL: Panel = Panel { column: RATE, logarithmic: false };
        match self {
            Kind::Echo => Section {
                kind: ECHO,
                title: "Echo",
                comparisons: &[
                    Comparison {
                        heading: "of the epoll echo",
                        base: Base::Subject(Subject::EpollEcho),
                        inverse: false,
                    },
                    Comparison {
                        heading: "times adaptive with one queue",
                        base: Base::Subject(Subject::AdaptiveOneQueue),
                        inverse: false,
                    },
                ],
                panels: &[
                    RATE_PANEL,
                    Panel { column: P99, logarithmic: true },
                    Panel { column: FINDS, logarithmic: false },
                ],
            },
            Kind::YcsbA => Section {
                kind: YCSB,
                title: "YCSB A",
                comparisons: &[Comparison {
                    heading: "times synchronous",
                    base: Base::Subject(Subject::Synchronous),
                    inverse: false,
                }],
                panels: &[
                    RATE_PANEL,
                    Panel { column: ycsb::READ_P99, logarithmic: true },
                    Panel { column: ycsb::UPDATE_P99, logarithmic: true },
                ],
            },
        }
    }
}

/// Runs the experiment.
pub(crate) fn run(arguments: &S1Arguments) -> Result<(), BenchError> {
    let settings = arguments.common.settings(SUBJECTS, DOCUMENT_BYTES)?;
    let kinds = &arguments.kinds;
    let mut rows: Vec<Row> =
        (0..kinds.len()).flat_map(|section| settings.rows(section, CONNECTIONS)).collect();
    // On a small scale several numbers of clients become one.
    rows.dedup_by_key(|row| (row.section, row.connections));
    let kind_of = |row: Row| kinds.get(row.section).copied().unwrap_or(Kind::Echo);
    let findings = Findings::gather(
        &rows,
        &settings.subjects,
        settings.rounds,
        |row, subject, round| {
            let seed = settings.seed + round;
            match kind_of(row) {
                Kind::Echo => arguments.transport(&settings, subject, row.connections, seed),
                Kind::YcsbA if !subject.is_database() => Ok(None),
                Kind::YcsbA => ycsb::measure(&settings, subject, row.connections, seed).map(Some),
            }
        },
        |row, subject| format!("{} {} {}", kind_of(row).section().kind, row.connections, subject.name()),
    )?;
    let sections = kinds.iter().map(|kind| kind.section()).collect();
    Report { article: &ARTICLE, settings: &settings, sections, findings }.finish()
}

impl S1Arguments {
    /// Echo and finds, as far as the subject has them: a given server has no echo.
    fn transport(
        &self,
        settings: &Settings,
        subject: Subject,
        connections: usize,
        seed: u64,
    ) -> Result<Option<Measurement>, BenchError> {
        let reply_bytes = || Scenario::Find.reply_bytes(settings.stored, settings.document_bytes);
        let echo = match subject {
            Subject::Given(_) if self.no_find => return Ok(None),
            Subject::Given(_) => Measurement::default(),
            _ => echo(settings, subject, connections, self.reply_bytes.unwrap_or_else(reply_bytes), seed)?,
        };
        if self.no_find || !subject.is_database() {
            return Ok(Some(echo));
        }
        find(settings, subject, connections, seed, echo).map(Some)
    }
}

fn echo(
    settings: &Settings,
    subject: Subject,
    connections: usize,
    reply_bytes: usize,
    seed: u64,
) -> Result<Measurement, BenchError> {
    let mut served = settings.serve_echo(subject, reply_bytes)?;
    // The echo's reply is as long as it was told, whatever a find's would be.
    let request = Request { least_reply_bytes: 0, ..settings.request(Scenario::Find) };
    let group = settings.closed_requests(vec![request], connections);
    let run = settings.rig.run(served.address(), &[group], seed, &settings.window())?;
    served.check_alive()?;
    let busy = run.busiest();
    let [outcome] = run.split()?;
    Ok(Measurement::of(&outcome).with(GENERATOR, busy * 100.0))
}

fn find(
    settings: &Settings,
    subject: Subject,
    connections: usize,
    seed: u64,
    echo: Measurement,
) -> Result<Measurement, BenchError> {
    let mut served = settings.serve(subject, Scenario::Find)?;
    let found = closed(settings, served.address(), connections, seed)?;
    served.check_alive()?;
    let own_echo = echo.figure(RATE).filter(|rate| *rate > 0.0);
    let measurement =
        echo.with(FINDS, found.rate()).with(FINDS_P99, found.quantile_ms(0.99)).counting(&found);
    Ok(match own_echo {
        Some(own_echo) => measurement.with(OF_OWN_ECHO, found.rate() / own_echo),
        None => measurement,
    })
}

fn closed(
    settings: &Settings,
    address: SocketAddr,
    connections: usize,
    seed: u64,
) -> Result<Outcome, BenchError> {
    let groups = [settings.closed(Scenario::Find, connections)];
    let [outcome] = settings.rig.run(address, &groups, seed, &settings.window())?.split()?;
    Ok(outcome)
}
