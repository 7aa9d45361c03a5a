//! What all experiments can be told, and the settings that follow.

use super::findings::Row;
use super::measure::What;
use super::subject::Target;
use super::{Experiment, Kind, Subject};
use crate::affinity::Pin;
use crate::error::BenchError;
use crate::process::raise_descriptor_limit;
use crate::result::{self, Sampler, ServerInfo};
use crate::rig::Rig;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

// Defaults before `--scale`.
const SECONDS: f64 = 5.0;
const WARM_UP: f64 = 1.0;
const DOCUMENTS: f64 = 100_000.0;
const SLOW_CONNECTIONS: usize = 64;
const IDLE_SECONDS: f64 = 10.0;

/// Options of every experiment.
#[derive(Debug, Args)]
pub struct ExperimentArguments {
    /// What to measure
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Size of the experiment, from 0.001 to 100: a factor on the defaults of documents, connections and all
    /// times, within what the limit on open files allows; below 0.1 one round is the default. 0.02 is over in
    /// a minute or so. What is given by an option of its own is not scaled
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    scale: Scale,
    /// Measure servers that run already, host:port or name=host:port, instead of starting them. Their
    /// collections numbered and usertable in the database heddle_bench are dropped and loaded anew for every
    /// cell
    #[arg(long = "target", value_name = "[NAME=]HOST:PORT", value_delimiter = ',', conflicts_with_all = ["models", "server"])]
    targets: Vec<Target>,
    /// Thread models to compare, and `epoll-echo` and `thread-echo`, bare echoes as ceilings
    #[arg(long, value_enum, value_delimiter = ',')]
    models: Vec<Subject>,
    /// Numbers of connections; each kind has its own defaults
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    /// Rounds; tables show medians over them [default: 3]
    #[arg(long)]
    rounds: Option<u64>,
    /// Measured seconds of each cell in each round; slow requests get longer when there are many connections
    /// [default: 5]
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds of load before measuring begins [default: 1]
    #[arg(long)]
    warm_up: Option<f64>,
    /// Documents to load [default: 100000]
    #[arg(long)]
    documents: Option<u64>,
    /// Size of a document, in bytes; each experiment has its own default
    #[arg(long)]
    document_bytes: Option<usize>,
    /// mixed and lane: connections with slow requests [default: 64]
    #[arg(long)]
    slow_connections: Option<usize>,
    /// mixed: fast requests a second for the comparison with and without slow ones; 80 % of what was reached
    /// beside them by default
    #[arg(long)]
    fast_rate: Option<f64>,
    /// idle: seconds over which the idle server's processor time is measured [default: 10]
    #[arg(long)]
    idle_seconds: Option<f64>,
    /// echo: size of the replies, in bytes; that of a find's reply by default
    #[arg(long)]
    reply_bytes: Option<usize>,
    /// echo: leave the finds out
    #[arg(long)]
    no_find: bool,
    /// raw: leave the echo out
    #[arg(long)]
    no_echo: bool,
    /// Generator threads in each process
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Generator processes, for more connections than one may have
    #[arg(long, default_value_t = 1)]
    processes: u32,
    /// Seed of the choice of documents
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the table, the figures as JSON and the charts
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Cores of the generator and the servers, such as 0:1
    #[arg(long, value_name = "GENERATOR:SERVER")]
    pin: Option<Pin>,
    /// Where the servers' directories are made; the system's temporary directory by default
    #[arg(long, value_name = "DIR")]
    data_directory: Option<PathBuf>,
    /// Further arguments for the servers, after `--`
    #[arg(last = true)]
    server: Vec<String>,
}

/// Checked [`ExperimentArguments`].
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) rig: Rig,
    pub(crate) scale: Scale,
    /// When it began, RFC 3339.
    pub(crate) begun: String,
    pub(crate) kinds: Vec<&'static Kind>,
    /// Whether rows of as many connections are one.
    merges_rows: bool,
    pub(crate) subjects: Vec<Subject>,
    /// Empty: each kind's default.
    pub(crate) connections: Vec<usize>,
    pub(crate) rounds: u64,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    pub(crate) stored: u64,
    pub(crate) document_bytes: usize,
    pub(crate) slow_connections: usize,
    pub(crate) fast_rate: Option<f64>,
    pub(crate) idle: Duration,
    pub(crate) reply_bytes: Option<usize>,
    pub(crate) no_find: bool,
    pub(crate) no_echo: bool,
    pub(crate) threads: u32,
    pub(crate) processes: u32,
    pub(crate) seed: u64,
    pub(crate) out: Option<PathBuf>,
    pub(crate) data_directory: PathBuf,
    pub(crate) server_arguments: Vec<String>,
}

impl ExperimentArguments {
    /// Checks the options, watches for Ctrl-C and moves to the generator's cores.
    pub(crate) fn settings(&self, experiment: &'static Experiment) -> Result<Settings, BenchError> {
        self.validate()?;
        let kinds: Vec<&Kind> = self
            .kinds
            .iter()
            .filter_map(|name| experiment.kinds.iter().find(|kind| kind.name == name))
            .collect();
        self.check_relevance(&kinds)?;
        let subjects = match (self.targets.as_slice(), self.models.as_slice()) {
            ([], []) => experiment.subjects.to_vec(),
            ([], models) => models.to_vec(),
            (targets, _) if !kinds.iter().any(|kind| kind.what == What::Idle) => Target::subjects(targets)?,
            _ => {
                return usage(
                    "idle looks at the server's memory and processor time, which a --target does not show",
                );
            }
        };
        if let Some(directory) = &self.out {
            std::fs::create_dir_all(directory).map_err(BenchError::io("make the directory of --out"))?;
        }
        let rig = Rig::set_up(&self.pin.clone().unwrap_or_default())?;
        Ok(self.of(experiment, kinds, subjects, rig))
    }

    fn of(
        &self,
        experiment: &Experiment,
        kinds: Vec<&'static Kind>,
        subjects: Vec<Subject>,
        rig: Rig,
    ) -> Settings {
        let scale = self.scale;
        let scaled =
            |given: Option<f64>, usual| Duration::from_secs_f64(given.unwrap_or(scale.seconds(usual)));
        let slow_connections = self.slow_connections.unwrap_or_else(|| scale.connections(SLOW_CONNECTIONS));
        let warm_up = self.warm_up.unwrap_or(WARM_UP * scale.0);
        Settings {
            rig,
            scale,
            begun: result::now(),
            kinds,
            merges_rows: experiment.published.is_none(),
            subjects,
            connections: self.connections.clone(),
            rounds: self.rounds.unwrap_or_else(|| scale.rounds()),
            warm_up: Duration::from_secs_f64(warm_up),
            duration: scaled(self.seconds, SECONDS),
            stored: self.documents.unwrap_or((DOCUMENTS * scale.0).round().max(1.0) as u64),
            document_bytes: self.document_bytes.unwrap_or(experiment.document_bytes),
            slow_connections,
            fast_rate: self.fast_rate,
            idle: scaled(self.idle_seconds, IDLE_SECONDS),
            reply_bytes: self.reply_bytes,
            no_find: self.no_find,
            no_echo: self.no_echo,
            threads: self.threads,
            processes: self.processes,
            seed: self.seed,
            out: self.out.clone(),
            data_directory: self.data_directory.clone().unwrap_or_else(std::env::temp_dir),
            server_arguments: self.server.clone(),
        }
    }

    fn validate(&self) -> Result<(), BenchError> {
        let is_time =
            |seconds: Option<f64>| seconds.is_none_or(|time| Duration::try_from_secs_f64(time).is_ok());
        let above_zero = |seconds: Option<f64>| seconds.is_none_or(|time| time > 0.0);
        let twice = |(index, model)| self.models.iter().take(index).any(|other: &Subject| other == model);
        let problems = [
            (
                self.documents == Some(0) || self.rounds == Some(0),
                "--documents and --rounds must be at least 1",
            ),
            (
                !is_time(self.seconds) || !above_zero(self.seconds) || !is_time(self.warm_up),
                "--seconds must be above 0 and --warm-up at least 0",
            ),
            (self.connections.contains(&0), "--connections must be at least 1"),
            (self.models.iter().enumerate().any(twice), "--models names a model twice"),
            (!is_time(self.idle_seconds), "--idle-seconds must be at least 0"),
            (
                self.fast_rate.is_some_and(|rate| !(rate >= 1.0 && rate.is_finite())),
                "--fast-rate must be at least 1 request a second",
            ),
            (self.slow_connections == Some(0), "--slow-connections must be at least 1"),
        ];
        problems.into_iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, problem)| usage(problem))
    }

    /// An option of a kind that is not measured is a mistake.
    fn check_relevance(&self, kinds: &[&Kind]) -> Result<(), BenchError> {
        let options: [(bool, &str, &[What]); 6] = [
            (self.slow_connections.is_some(), "--slow-connections", &[What::Mixed, What::Lane]),
            (self.fast_rate.is_some(), "--fast-rate", &[What::Mixed]),
            (self.idle_seconds.is_some(), "--idle-seconds", &[What::Idle]),
            (self.reply_bytes.is_some(), "--reply-bytes", &[What::Transport]),
            (self.no_find, "--no-find", &[What::Transport]),
            (self.no_echo, "--no-echo", &[]),
        ];
        for (_, option, wanted) in options.into_iter().filter(|(given, ..)| *given) {
            let concerns = |kind: &&Kind| match kind.what {
                What::BesideEcho(_) => option == "--no-echo",
                what => wanted.contains(&what),
            };
            if !kinds.iter().any(concerns) {
                return usage(&format!("{option} concerns none of the kinds that are measured"));
            }
        }
        Ok(())
    }
}

fn usage<T>(problem: &str) -> Result<T, BenchError> {
    Err(BenchError::Usage(problem.to_owned()))
}

impl Settings {
    /// The rows of all kinds: a number of connections each, those of the command line or the scaled defaults.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for &kind in &self.kinds {
            let given = self.connections.iter().map(|&given| (given, given));
            let usual = kind.clients.iter().map(|&clients| (self.scale.connections(clients), clients));
            let usual = usual.filter(|_| self.connections.is_empty());
            rows.extend(given.chain(usual).map(|(connections, clients)| Row { kind, connections, clients }));
        }
        if self.merges_rows {
            // On a small scale several numbers of clients become one.
            rows.dedup_by_key(|row| (row.kind.name, row.connections));
        }
        rows
    }

    /// What is known of the servers that are given.
    pub(crate) fn given(&self) -> Vec<String> {
        let describe = |subject: &Subject| {
            let Subject::Given(server) = subject else { return None };
            let ServerInfo { version, storage_engine, service_executor, .. } =
                Sampler::describe(server.address);
            let known = [
                ("version", version),
                ("storage engine", storage_engine),
                ("thread model", service_executor),
            ];
            let known = known.into_iter().filter_map(|(name, value)| Some(format!(", {name} {}", value?)));
            Some(format!("{} at {}{}", server.name, server.address, known.collect::<String>()))
        };
        self.subjects.iter().filter_map(describe).collect()
    }

    /// What a reader of the figures needs to know.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "scale": self.scale.0, "rounds": self.rounds, "seconds": self.duration.as_secs_f64(),
            "warmUpSeconds": self.warm_up.as_secs_f64(), "documents": self.stored,
            "documentBytes": self.document_bytes, "seed": self.seed, "serverArguments": self.server_arguments,
        })
    }

    /// The same as a line of text.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} documents of {} bytes, {} round(s) of {} s after {} s of warm-up, seed {}",
            self.stored,
            self.document_bytes,
            self.rounds,
            self.duration.as_secs_f64(),
            self.warm_up.as_secs_f64(),
            self.seed
        )
    }
}

/// `--scale`: a factor on every default of documents, connections and times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale(pub(crate) f64);

impl Scale {
    const LEAST: f64 = 0.001;
    const MOST: f64 = 100.0;

    /// Connections, at least one and no more than this machine can have.
    fn connections(self, whole: usize) -> usize {
        self.connections_within(whole, raise_descriptor_limit())
    }

    fn connections_within(self, whole: usize, descriptors: u64) -> usize {
        ((whole as f64 * self.0).round() as usize).clamp(1, most_connections(descriptors))
    }

    /// A measured time; nothing shorter is worth measuring.
    fn seconds(self, whole: f64) -> f64 {
        const LEAST: f64 = 0.05;
        (whole * self.0).max(LEAST)
    }

    /// Below this scale nobody wants exact figures, and one round is enough.
    fn rounds(self) -> u64 {
        const REPEATED_FROM: f64 = 0.1;
        if self.0 < REPEATED_FROM { 1 } else { 3 }
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<f64>() {
            Ok(factor) if (Self::LEAST..=Self::MOST).contains(&factor) => Ok(Scale(factor)),
            _ => Err(format!("expected a number from {} to {}, found '{text}'", Self::LEAST, Self::MOST)),
        }
    }
}

/// Connections that a server with so many descriptors takes: as Heddle has it, a twentieth is kept back for
/// its files.
fn most_connections(descriptors: u64) -> usize {
    const RESERVED_PART: u64 = 20;
    const RESERVE_MIN: u64 = 256;
    const RESERVE_MAX: u64 = 4_352;
    let reserve = (descriptors / RESERVED_PART).clamp(RESERVE_MIN, RESERVE_MAX).min(descriptors / 2);
    usize::try_from(descriptors - reserve).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::{s0, s1};
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(line: &[&str]) -> ExperimentArguments {
        let words = std::iter::once("x").chain(line.iter().copied());
        let matches = ExperimentArguments::augment_args(Command::new("x")).get_matches_from(words);
        ExperimentArguments::from_arg_matches(&matches).expect("values of the right kind")
    }

    /// The settings of S0 with these options.
    pub(crate) fn settings(line: &[&str]) -> Settings {
        let kinds = s0::EXPERIMENT.kinds.iter().collect();
        parse(line).of(&s0::EXPERIMENT, kinds, vec![Subject::Synchronous, Subject::Reactor], Rig::default())
    }

    fn check(line: &[&str], expect: Result<(), &str>) {
        let (arguments, kinds) = (parse(line), [&s0::EXPERIMENT.kinds[0], &s1::EXPERIMENT.kinds[0]]);
        let found = arguments.validate().and_then(|()| arguments.check_relevance(&kinds));
        assert_eq!(found.map_err(|error| error.to_string()), expect.map_err(str::to_owned), "for {line:?}");
    }

    #[test]
    fn impossible_settings_are_refused() {
        check(&[], Ok(()));
        check(&["--models", "auto,epoll-echo", "--connections", "1,2", "--warm-up", "0"], Ok(()));
        check(&["--rounds", "0"], Err("--documents and --rounds must be at least 1"));
        check(&["--seconds", "0"], Err("--seconds must be above 0 and --warm-up at least 0"));
        check(&["--seconds", "inf"], Err("--seconds must be above 0 and --warm-up at least 0"));
        check(&["--warm-up=-1"], Err("--seconds must be above 0 and --warm-up at least 0"));
        check(&["--connections", "5,0"], Err("--connections must be at least 1"));
        check(&["--models", "auto,reactor,auto"], Err("--models names a model twice"));
        check(&["--no-find"], Ok(()));
        for option in [&["--idle-seconds", "1"][..], &["--slow-connections", "1"], &["--no-echo"]] {
            check(option, Err(&format!("{} concerns none of the kinds that are measured", option[0])));
        }
    }

    #[test]
    fn a_scale_is_a_factor_within_bounds() {
        let check = |scale: &str, expect: (u64, usize, f64, u64)| {
            let settings = settings(&["--scale", scale]);
            let connections = settings.scale.connections_within(5_000, 20_000);
            let found = (settings.stored, connections, settings.duration.as_secs_f64(), settings.rounds);
            assert_eq!(found, expect, "scale {scale}");
        };
        check("1", (100_000, 5_000, 5.0, 3));
        check("0.1", (10_000, 500, 0.5, 3));
        check("0.02", (2_000, 100, 0.1, 1));
        check("0.001", (100, 5, 0.05, 1));
        check("100", (10_000_000, 19_000, 500.0, 3));
        for wrong in ["0", "101", "NaN", "half"] {
            let expect = format!("expected a number from 0.001 to 100, found '{wrong}'");
            assert_eq!(wrong.parse::<Scale>(), Err(expect));
        }
        assert_eq!(settings(&["--scale", "0.001"]).rows()[0].connections, 1, "nothing is scaled to nothing");
    }

    #[test]
    fn connections_fit_the_descriptors() {
        assert_eq!([20_000, 1_024, 1].map(most_connections), [19_000, 768, 1]);
    }
}
