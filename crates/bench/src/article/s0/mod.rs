//! S0: thread models by number of clients.
//!
//! Fast requests find one document by `_id`, slow ones return 2,000. Beside these two, the article's pair, there are the
//! situations in which servers with many clients fail: updates, journaled updates, fast beside slow, idle connections,
//! monitors of an overloaded server, and connection storms.

mod idle;
mod lane;
mod mixed;

use crate::article::Subject;
use crate::article::arguments::{CommonArguments, Settings};
use crate::article::chart::Panel;
use crate::article::figures::{CONNECTED, GENERATOR, Measurement, P99, RATE};
use crate::article::plan::{Cell, Findings, Row};
use crate::article::published;
use crate::article::report::{Article, Report, Section};
use crate::article::statement::{At, Evidence, Statement, times};
use crate::article::table::{Base, Comparison};
use crate::error::BenchError;
use crate::result::plain;
use crate::scenario::Scenario;
use clap::{Args, ValueEnum};
use std::time::Duration;

const DOCUMENT_BYTES: usize = 1_024;
/// Of `mixed` and `lane`, before `--scale`.
const SLOW_CONNECTIONS: usize = 64;
/// Of `idle`, before `--scale`.
const IDLE_SECONDS: f64 = 10.0;

const ARTICLE: Article = Article {
    experiment: "s0",
    title: "thread models by number of clients",
    about: "The article set MongoDB 3.6 with a thread per connection (synchronous) against its elastic pool over one task queue             (adaptive), on a machine of 32 processors and 64 GB, with sysbench on the same network: fast requests are reads of             one document, slow ones of 2,000.",
    has_table: true,
    statements: &[
        Statement {
            claim: "Few clients are served best by a thread each: adaptive over synchronous, 70 fast clients",
            theirs: "0.91 times",
            ours: |evidence| adaptive_over_synchronous(evidence, "fast", 70),
        },
        Statement {
            claim: "Many are served best by a pool: adaptive over synchronous, 10,000 slow clients",
            theirs: "1.88 times",
            ours: |evidence| adaptive_over_synchronous(evidence, "slow", 10_000),
        },
        Statement {
            claim: "At the top most requests fail: of all requests of 20,000 slow clients",
            theirs: "synchronous 94 %, adaptive 92 %",
            ours: |evidence| failed(evidence, "slow", 20_000),
        },
        Statement {
            claim: "A thread per connection does not take 30,000 clients",
            theirs: "synchronous 24,000 of 30,000, adaptive all",
            ours: |evidence| connected(evidence, "fast", 30_000),
        },
    ],
};

/// `heddle bench article s0`.
#[derive(Debug, Args)]
pub struct S0Arguments {
    /// What to measure; fast and slow are the article's eleven scenarios
    #[arg(long, value_enum, value_delimiter = ',', default_value = "fast,slow")]
    kinds: Vec<Kind>,
    /// mixed and lane: connections with slow requests [default: 64]
    #[arg(long)]
    slow_connections: Option<usize>,
    /// mixed: fast requests a second for the comparison with and without slow ones; 80 % of what was reached beside them by
    /// default
    #[arg(long)]
    fast_rate: Option<f64>,
    /// idle: seconds over which the idle server's processor time is measured [default: 10]
    #[arg(long)]
    idle_seconds: Option<f64>,
    #[command(flatten)]
    common: CommonArguments,
}

/// One table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Find by `_id`.
    Fast,
    /// A range of 2,000 documents, projected.
    Slow,
    /// Update of one field by `_id`.
    Updates,
    /// The same with `j: true`.
    Journaled,
    /// Fast requests beside slow ones.
    Mixed,
    /// Idle connections: memory, processor time, and work among them.
    Idle,
    /// Monitoring requests while every worker is busy.
    Lane,
    /// Connect, one find, close.
    Storm,
}

impl Kind {
    const fn section(self) -> Section {
        const SWEEP: &[Panel] =
            &[Panel { column: RATE, logarithmic: false }, Panel { column: P99, logarithmic: true }];
        const OF_THE_BEST: &[Comparison] =
            &[Comparison { heading: "of the best model", base: Base::BestModel, inverse: false }];
        let (kind, title) = match self {
            Kind::Fast => ("fast", "Fast: find by _id"),
            Kind::Slow => ("slow", "Slow: range of 2,000 documents"),
            Kind::Updates => ("updates", "Updates of one field"),
            Kind::Journaled => ("journaled", "Updates, j: true"),
            Kind::Mixed => ("mixed", "Fast beside slow"),
            Kind::Idle => ("idle", "Idle connections"),
            Kind::Lane => ("lane", "Monitoring under overload"),
            Kind::Storm => ("storm", "Connect, find, close"),
        };
        let (comparisons, panels): (&[Comparison], &[Panel]) = match self {
            Kind::Fast | Kind::Slow | Kind::Updates | Kind::Journaled | Kind::Storm => (OF_THE_BEST, SWEEP),
            Kind::Mixed | Kind::Idle | Kind::Lane => (&[], &[]),
        };
        Section { kind, title, comparisons, panels }
    }

    const fn default_connections(self) -> &'static [usize] {
        match self {
            Kind::Fast => published::FAST_CLIENTS,
            Kind::Slow => published::SLOW_CLIENTS,
            Kind::Updates | Kind::Journaled | Kind::Mixed => &[1_000],
            Kind::Idle => &[10_000, 19_000],
            Kind::Lane => &[10_000],
            Kind::Storm => &[64, 1_000],
        }
    }
}

/// What some kinds need beyond the settings.
#[derive(Debug)]
struct Situation<'s> {
    settings: &'s Settings,
    slow_connections: usize,
    fast_rate: Option<f64>,
    idle: Duration,
}

/// Runs the experiment.
pub(crate) fn run(arguments: &S0Arguments) -> Result<(), BenchError> {
    let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
    let scale = arguments.common.scale();
    let idle = arguments.idle_seconds.unwrap_or_else(|| scale.seconds(IDLE_SECONDS));
    let Ok(idle) = Duration::try_from_secs_f64(idle) else {
        return usage("--idle-seconds must be at least 0");
    };
    if arguments.fast_rate.is_some_and(|rate| !(rate >= 1.0 && rate.is_finite())) {
        return usage("--fast-rate must be at least 1 request a second");
    }
    let slow_connections = arguments.slow_connections.unwrap_or_else(|| scale.connections(SLOW_CONNECTIONS));
    if slow_connections < 1 {
        return usage("--slow-connections must be at least 1");
    }
    let settings = arguments.common.settings(&Subject::MODELS, DOCUMENT_BYTES)?;
    if arguments.kinds.contains(&Kind::Idle) && !settings.given.is_empty() {
        return usage("idle looks at the server's memory and processor time, which a --target does not show");
    }
    let fast_rate = arguments.fast_rate;
    let situation = Situation { settings: &settings, slow_connections, fast_rate, idle };
    let kinds = &arguments.kinds;
    let rows = kinds.iter().enumerate();
    let rows: Vec<Row> =
        rows.flat_map(|(section, kind)| settings.rows(section, kind.default_connections())).collect();
    let kind_of = |row: Row| kinds.get(row.section).copied().unwrap_or(Kind::Fast);
    let findings = Findings::gather(
        &rows,
        &settings.subjects,
        settings.rounds,
        |row, subject, round| {
            situation.measure(kind_of(row), subject, row.connections, settings.seed + round)
        },
        |row, subject| format!("{} {} {}", kind_of(row).section().kind, row.connections, subject.name()),
    )?;
    let sections = kinds.iter().map(|kind| kind.section()).collect();
    Report { article: &ARTICLE, settings: &settings, sections, findings }.finish()
}

const PAIR: [Subject; 2] = [Subject::Synchronous, Subject::Adaptive];

fn adaptive_over_synchronous(evidence: &Evidence<'_>, kind: &str, clients: usize) -> Option<String> {
    let [synchronous, adaptive] = PAIR;
    let ratio = evidence.ratio(kind, At::Clients(clients), adaptive, &[synchronous], RATE)?;
    Some(times(ratio, "synchronous"))
}

/// What each of the pair has to say in one row; `None` when neither was measured.
fn of_the_pair(
    evidence: &Evidence<'_>,
    kind: &str,
    clients: usize,
    say: impl Fn(&Cell) -> Option<String>,
) -> Option<String> {
    let cells = PAIR.into_iter().filter_map(|model| evidence.cell(kind, At::Clients(clients), model));
    let said: Vec<String> =
        cells.filter_map(|cell| Some(format!("{} {}", cell.subject.name(), say(cell)?))).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

fn failed(evidence: &Evidence<'_>, kind: &str, clients: usize) -> Option<String> {
    of_the_pair(evidence, kind, clients, |cell| Some(format!("{:.1} %", 100.0 * cell.share_of_errors()?)))
}

fn connected(evidence: &Evidence<'_>, kind: &str, clients: usize) -> Option<String> {
    of_the_pair(evidence, kind, clients, |cell| {
        let connected = plain(cell.figure(CONNECTED)?);
        Some(format!("{connected} of {}", plain(cell.row.connections as f64)))
    })
}

impl Situation<'_> {
    /// One cell in one round; `None` where a bare echo has nothing to say.
    fn measure(
        &self,
        kind: Kind,
        subject: Subject,
        connections: usize,
        seed: u64,
    ) -> Result<Option<Measurement>, BenchError> {
        let closed = |scenario| self.closed_loop(scenario, subject, connections, seed).map(Some);
        match kind {
            Kind::Fast => closed(Scenario::Find),
            Kind::Slow => closed(Scenario::Range),
            Kind::Updates => closed(Scenario::Update),
            Kind::Journaled => closed(Scenario::UpdateJournaled),
            Kind::Storm => self.storm(subject, connections, seed).map(Some),
            Kind::Idle => self.idle(subject, connections, seed).map(Some),
            Kind::Mixed | Kind::Lane if !subject.is_database() => Ok(None),
            Kind::Mixed => self.mixed(subject, connections, seed).map(Some),
            Kind::Lane => self.lane(subject, connections, seed).map(Some),
        }
    }

    /// Every connection sends its next request when the reply to the last one is there.
    fn closed_loop(
        &self,
        scenario: Scenario,
        subject: Subject,
        connections: usize,
        seed: u64,
    ) -> Result<Measurement, BenchError> {
        let settings = self.settings;
        let mut served = settings.serve(subject, scenario)?;
        let window = match scenario {
            Scenario::Range | Scenario::Scan => settings.slow_window(connections),
            Scenario::Find | Scenario::Update | Scenario::UpdateJournaled => settings.window(),
        };
        let groups = [settings.closed(scenario, connections)];
        let run = settings.rig.run(served.address(), &groups, seed, &window)?;
        served.check_alive()?;
        let busy = run.busiest();
        let [outcome] = run.split()?;
        Ok(Measurement::of(&outcome).with(GENERATOR, busy * 100.0))
    }

    /// A connection for each request: how many a second, and how long from the first packet to the reply.
    fn storm(&self, subject: Subject, connections: usize, seed: u64) -> Result<Measurement, BenchError> {
        let settings = self.settings;
        let mut served = settings.serve(subject, Scenario::Find)?;
        let mut group = settings.closed(Scenario::Find, connections);
        group.options.operations_per_connection = Some(1);
        let run = settings.rig.run(served.address(), &[group], seed, &settings.window())?;
        served.check_alive()?;
        let busy = run.busiest();
        let [outcome] = run.split()?;
        // How many are open at one moment is chance.
        Ok(Measurement::of(&outcome).without(CONNECTED).with(GENERATOR, busy * 100.0))
    }
}
