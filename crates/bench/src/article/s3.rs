//! S3: a thousand clients, small values. Journaled writes are where coroutines are to win, because every waiting commit joins the
//! next group without holding a thread; the other mixes are where they must not lose.

use crate::article::Subject;
use crate::article::arguments::CommonArguments;
use crate::article::chart::Panel;
use crate::article::figures::{GENERATOR, Measurement, P99, RATE};
use crate::article::plan::{Findings, Row};
use crate::article::report::{Report, Section};
use crate::article::table::{Base, Comparison};
use crate::error::BenchError;
use crate::scenario::Scenario;
use clap::{Args, ValueEnum};

const CONNECTIONS: &[usize] = &[1_000];
const DOCUMENT_BYTES: usize = 100;

/// `heddle bench article s3`.
#[derive(Debug, Args)]
pub struct S3Arguments {
    /// What clients do
    #[arg(long, value_enum, value_delimiter = ',', default_value = "journaled,unsynced,reads,half")]
    kinds: Vec<Mix>,
    #[command(flatten)]
    common: CommonArguments,
}

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mix {
    /// Updates with `j: true`.
    Journaled,
    /// Updates acknowledged before they are on disk.
    Unsynced,
    /// Finds by `_id`.
    Reads,
    /// Finds and unsynced updates in equal parts.
    Half,
}

impl Mix {
    const fn scenarios(self) -> &'static [Scenario] {
        match self {
            Mix::Journaled => &[Scenario::UpdateJournaled],
            Mix::Unsynced => &[Scenario::Update],
            Mix::Reads => &[Scenario::Find],
            Mix::Half => &[Scenario::Find, Scenario::Update],
        }
    }

    const fn section(self) -> Section {
        let (kind, title) = match self {
            Mix::Journaled => ("journaled", "Journaled writes"),
            Mix::Unsynced => ("unsynced", "Unsynced writes"),
            Mix::Reads => ("reads", "Reads"),
            Mix::Half => ("half", "Half reads, half unsynced writes"),
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
    let mut rows = Vec::new();
    for section in 0..mixes.len() {
        for connections in settings.connections_or(CONNECTIONS) {
            rows.push(Row { section, connections });
        }
    }
    let mix_of = |row: Row| mixes.get(row.section).copied().unwrap_or(Mix::Journaled);
    let findings = Findings::gather(
        &rows,
        &settings.subjects,
        settings.rounds,
        |row, subject, round| {
            let scenarios = mix_of(row).scenarios();
            let requests = scenarios.iter().map(|&scenario| settings.request(scenario)).collect();
            let mut served = settings.serve(subject, scenarios.first().copied().unwrap_or(Scenario::Find))?;
            // A bare echo has one size of reply.
            let group = settings.closed_requests(requests, row.connections);
            let window = settings.window();
            let run = settings.rig.run(served.address(), &[group], settings.seed + round, &window)?;
            served.check_alive()?;
            let busy = run.busiest();
            let [outcome] = run.split()?;
            Ok(Some(Measurement::of(&outcome).with(GENERATOR, busy * 100.0)))
        },
        |row, subject| format!("{} {} {}", mix_of(row).section().kind, row.connections, subject.name()),
    )?;
    let sections = mixes.iter().map(|mix| mix.section()).collect();
    Report { experiment: "s3", settings: &settings, sections, findings }.finish()
}
