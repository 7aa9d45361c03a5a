//! S1: the transport alone. An echo behind each thread model says what the model itself can do, a bare epoll echo in the same
//! round what the machine can do, and finds by `_id` under the same model what the database makes of it.

use crate::article::Subject;
use crate::article::arguments::{CommonArguments, Settings};
use crate::article::chart::Panel;
use crate::article::figures::{Column, GENERATOR, Measurement, P99, RATE};
use crate::article::plan::{Findings, Row};
use crate::article::report::{Report, Section};
use crate::article::table::{Base, Comparison};
use crate::error::BenchError;
use crate::generator::{Outcome, Request};
use crate::scenario::Scenario;
use clap::Args;
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

const FINDS: Column = Column::median("finds/s", 0);
const FINDS_P99: Column = Column::median("find p99 ms", 2);
const OF_OWN_ECHO: Column = Column::median("find of own echo", 2);

/// `heddle bench article s1`.
#[derive(Debug, Args)]
pub struct S1Arguments {
    /// Size of the echo's replies, in bytes; that of a find's reply by default
    #[arg(long)]
    reply_bytes: Option<usize>,
    /// Leave the finds out
    #[arg(long)]
    no_find: bool,
    #[command(flatten)]
    common: CommonArguments,
}

const SECTION: Section = Section {
    kind: "echo",
    title: "Echo",
    comparisons: &[
        Comparison { heading: "of the epoll echo", base: Base::Subject(Subject::EpollEcho), inverse: false },
        Comparison {
            heading: "times adaptive with one queue",
            base: Base::Subject(Subject::AdaptiveOneQueue),
            inverse: false,
        },
    ],
    panels: &[
        Panel { column: RATE, logarithmic: false },
        Panel { column: P99, logarithmic: true },
        Panel { column: FINDS, logarithmic: false },
    ],
};

/// Runs the experiment.
pub(crate) fn run(arguments: &S1Arguments) -> Result<(), BenchError> {
    let settings = arguments.common.settings(SUBJECTS, DOCUMENT_BYTES)?;
    let reply_bytes = arguments
        .reply_bytes
        .unwrap_or_else(|| Scenario::Find.reply_bytes(settings.stored, settings.document_bytes));
    let connections = settings.connections_or(CONNECTIONS);
    let rows: Vec<Row> = connections.iter().map(|&connections| Row { section: 0, connections }).collect();
    let findings = Findings::gather(
        &rows,
        &settings.subjects,
        settings.rounds,
        |row, subject, round| {
            let seed = settings.seed + round;
            let echo = echo(&settings, subject, row.connections, reply_bytes, seed)?;
            if arguments.no_find || !subject.is_model() {
                return Ok(Some(echo));
            }
            find(&settings, subject, row.connections, seed, echo).map(Some)
        },
        |row, subject| format!("echo {} {}", row.connections, subject.name()),
    )?;
    Report { experiment: "s1", settings: &settings, sections: vec![SECTION], findings }.finish()
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
    let own_echo = echo.figure(RATE).unwrap_or_default();
    Ok(echo
        .with(FINDS, found.rate())
        .with(FINDS_P99, found.quantile_ms(0.99))
        .with(OF_OWN_ECHO, found.rate() / own_echo.max(f64::MIN_POSITIVE))
        .counting(&found))
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
