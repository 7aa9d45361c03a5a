//! S3: small values. Journaled writes of a thousand clients are where coroutines are to win, because every waiting commit joins
//! the next group without holding a thread; db_bench's patterns, 64 at a time, are where the article found them equal or worse.

use crate::article::Subject;
use crate::article::arguments::{CommonArguments, Settings};
use crate::article::chart::Panel;
use crate::article::figures::{Column, GENERATOR, Measurement, P99, RATE};
use crate::article::plan::{Findings, Row};
use crate::article::report::{Article, Report, Section};
use crate::article::statement::{At, Evidence, Statement, times};
use crate::article::table::{Base, Comparison};
use crate::error::BenchError;
use crate::generator::GroupSpec;
use crate::scenario::Scenario;
use clap::{Args, ValueEnum};

const THOUSAND: &[usize] = &[1_000];
/// Concurrent requests of db_bench in the article.
const CONCURRENT: &[usize] = &[64];
/// db_bench's `readwhilewriting` has one writer.
const WRITERS: usize = 1;
/// db_bench's default size of a value.
const DOCUMENT_BYTES: usize = 100;

const WRITTEN: Column = Column::median("written/s", 0);
const WRITE_P99: Column = Column::median("write p99 ms", 2);

const ARTICLE: Article = Article {
    experiment: "s3",
    title: "a storage engine on coroutines",
    about: "The article ran RocksDB with a coroutine per request: behind an RPC server with small values and 1,000 clients on 8 \
            operating-system threads, against a thread pool that could use 64 cores; and under db_bench with 10 million keys and \
            64 concurrent requests. Here documents take the place of keys, and the thread models of one server that of the two \
            programs: coroutine stands for coroutines, the better of synchronous and adaptive for threads.",
    has_table: false,
    statements: &[
        Statement {
            claim: "1,000 clients, small values: coroutines over a thread pool",
            theirs: "2 times",
            ours: |evidence| coroutines_over_threads(evidence, Mix::Journaled),
        },
        Statement {
            claim: "Random reads",
            theirs: "equal",
            ours: |evidence| coroutines_over_threads(evidence, Mix::RandomRead),
        },
        Statement {
            claim: "Random writes, each on disk before its reply",
            theirs: "equal",
            ours: |evidence| coroutines_over_threads(evidence, Mix::RandomWriteSynced),
        },
        Statement {
            claim: "Random writes that wait for no disk",
            theirs: "coroutines lose, as the processor is the limit",
            ours: |evidence| coroutines_over_threads(evidence, Mix::RandomWriteUnsynced),
        },
        Statement {
            claim: "Reads while one client writes",
            theirs: "equal",
            ours: |evidence| coroutines_over_threads(evidence, Mix::ReadWhileWriting),
        },
    ],
};

fn coroutines_over_threads(evidence: &Evidence<'_>, mix: Mix) -> Option<String> {
    const THREADS: [Subject; 2] = [Subject::Synchronous, Subject::Adaptive];
    let kind = mix.section().kind;
    let ratio = evidence.ratio(kind, At::Most, Subject::Coroutine, &THREADS, RATE)?;
    Some(times(ratio, "threads"))
}

/// `heddle bench article s3`.
#[derive(Debug, Args)]
pub struct S3Arguments {
    /// What clients do
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "journaled,random-read,random-write-synced,random-write-unsynced,read-while-writing"
    )]
    kinds: Vec<Mix>,
    #[command(flatten)]
    common: CommonArguments,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mix {
    /// A thousand clients: updates with `j: true`.
    Journaled,
    /// A thousand clients: updates acknowledged before they are on disk.
    Unsynced,
    /// A thousand clients: finds by `_id`.
    Reads,
    /// A thousand clients: finds and unsynced updates in equal parts.
    Half,
    /// 64 at a time: finds by `_id`.
    RandomRead,
    /// 64 at a time: updates with `j: true`.
    RandomWriteSynced,
    /// 64 at a time: updates acknowledged before they are on disk.
    RandomWriteUnsynced,
    /// 64 at a time: finds by `_id`, and one more connection with unsynced updates.
    ReadWhileWriting,
}

impl Mix {
    const fn scenarios(self) -> &'static [Scenario] {
        match self {
            Mix::Journaled | Mix::RandomWriteSynced => &[Scenario::UpdateJournaled],
            Mix::Unsynced | Mix::RandomWriteUnsynced => &[Scenario::Update],
            Mix::Reads | Mix::RandomRead | Mix::ReadWhileWriting => &[Scenario::Find],
            Mix::Half => &[Scenario::Find, Scenario::Update],
        }
    }

    const fn default_connections(self) -> &'static [usize] {
        match self {
            Mix::Journaled | Mix::Unsynced | Mix::Reads | Mix::Half => THOUSAND,
            Mix::RandomRead | Mix::RandomWriteSynced | Mix::RandomWriteUnsynced | Mix::ReadWhileWriting => {
                CONCURRENT
            }
        }
    }

    const fn section(self) -> Section {
        let (kind, title) = match self {
            Mix::Journaled => ("journaled", "Journaled writes"),
            Mix::Unsynced => ("unsynced", "Unsynced writes"),
            Mix::Reads => ("reads", "Reads"),
            Mix::Half => ("half", "Half reads, half unsynced writes"),
            Mix::RandomRead => ("random-read", "Random read"),
            Mix::RandomWriteSynced => ("random-write-synced", "Random write, synced"),
            Mix::RandomWriteUnsynced => ("random-write-unsynced", "Random write, unsynced"),
            Mix::ReadWhileWriting => ("read-while-writing", "Read while writing"),
        };
        Section {
            kind,
            title,
            comparisons: &[Comparison {
                heading: "coroutine is times this",
                base: Base::Subject(Subject::Coroutine),
                inverse: true,
            }],
            panels: &[Panel { column: RATE, logarithmic: false }, Panel { column: P99, logarithmic: true }],
        }
    }
}

/// Runs the experiment.
pub(crate) fn run(arguments: &S3Arguments) -> Result<(), BenchError> {
    let settings = arguments.common.settings(&Subject::MODELS, DOCUMENT_BYTES)?;
    let mixes = &arguments.kinds;
    let rows = mixes.iter().enumerate();
    let rows: Vec<Row> =
        rows.flat_map(|(section, mix)| settings.rows(section, mix.default_connections())).collect();
    let mix_of = |row: Row| mixes.get(row.section).copied().unwrap_or(Mix::Journaled);
    let findings = Findings::gather(
        &rows,
        &settings.subjects,
        settings.rounds,
        |row, subject, round| {
            measure(&settings, mix_of(row), subject, row.connections, settings.seed + round)
        },
        |row, subject| format!("{} {} {}", mix_of(row).section().kind, row.connections, subject.name()),
    )?;
    let sections = mixes.iter().map(|mix| mix.section()).collect();
    Report { article: &ARTICLE, settings: &settings, sections, findings }.finish()
}

/// One cell in one round; `None` for a bare echo that would have replies of two sizes to give.
fn measure(
    settings: &Settings,
    mix: Mix,
    subject: Subject,
    connections: usize,
    seed: u64,
) -> Result<Option<Measurement>, BenchError> {
    if mix == Mix::ReadWhileWriting && !subject.is_database() {
        return Ok(None);
    }
    let scenarios = mix.scenarios();
    let requests = scenarios.iter().map(|&scenario| settings.request(scenario)).collect();
    // A bare echo has one size of reply.
    let mut served = settings.serve(subject, scenarios.first().copied().unwrap_or(Scenario::Find))?;
    let mut groups: Vec<GroupSpec> = vec![settings.closed_requests(requests, connections)];
    if mix == Mix::ReadWhileWriting {
        groups.push(settings.closed(Scenario::Update, WRITERS));
    }
    let run = settings.rig.run(served.address(), &groups, seed, &settings.window())?;
    served.check_alive()?;
    let busy = run.busiest();
    let measurement = if mix == Mix::ReadWhileWriting {
        let [read, written] = run.split()?;
        Measurement::of(&read)
            .with(WRITTEN, written.rate())
            .with(WRITE_P99, written.quantile_ms(0.99))
            .counting(&written)
    } else {
        let [outcome] = run.split()?;
        Measurement::of(&outcome)
    };
    Ok(Some(measurement.with(GENERATOR, busy * 100.0)))
}
