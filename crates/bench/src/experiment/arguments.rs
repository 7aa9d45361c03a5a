//! What all experiments can be told, and the settings that follow.

use super::Subject;
use super::definition::{ConnectionNumber, Experiment, Kind, On, Pace, Special};
use super::findings::Row;
use crate::arguments::{MeasureArguments, Time, rate};
use crate::error::BenchError;
use crate::process::raise_descriptor_limit;
use crate::result::{self, Sampler, ServerInfo};
use crate::rig::Rig;
use crate::target::Target;
use clap::{Args, value_parser};
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
const LONG_SECONDS: f64 = 600.0;
/// Of a load that is told second by second, at any scale.
const SHORTEST_LONG: Duration = Duration::from_secs(2);
const EXPIRING: f64 = 2_000_000.0;
/// Not scaled: it is the server's, not the experiment's.
const TTL_RATE: u32 = 10_000;

/// Options of every experiment.
#[derive(Debug, Clone, Args)]
pub struct ExperimentArguments {
    /// What to measure
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Size of the experiment, from 0.001 to 100: a factor on the defaults of documents, connections and all
    /// times, within what the limit on open files allows; below 0.1 one round is the default. 0.02 is over in
    /// a minute or so. What is given by an option of its own is not scaled
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub(crate) scale: Scale,
    /// Measure servers that run already, instead of starting them. Their collections numbered and usertable
    /// in the database heddle_bench are dropped and loaded anew for every cell. A connection string of one
    /// server says who logs in, and how TLS is spoken
    #[arg(long = "target", value_name = "[NAME=]HOST:PORT | [NAME=]URI", value_delimiter = ',',
        conflicts_with_all = ["models", "server"])]
    targets: Vec<Target>,
    /// Thread models to compare, and `epoll-echo` and `thread-echo`, bare echoes as ceilings
    #[arg(long, value_enum, value_delimiter = ',')]
    models: Vec<Subject>,
    /// Numbers of connections; each kind has its own defaults
    #[arg(long, value_delimiter = ',', value_parser = value_parser!(u32).range(1..))]
    connections: Vec<u32>,
    /// mixed and lane: connections with slow requests [default: 64]
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    slow_connections: Option<u32>,
    /// mixed: fast requests a second for the comparison with and without slow ones; 80 % of what was reached
    /// beside them by default. s4: writes a second; by default 70 % of the most that was reached, of ttl 50 %
    #[arg(long, value_parser = rate)]
    pub(crate) fast_rate: Option<f64>,
    /// idle: time over which the idle server's processor time is measured [default: 10]
    #[arg(long)]
    idle_seconds: Option<Time>,
    /// echo and cachegrind: size of the replies, in bytes; that of a find's reply by default
    #[arg(long)]
    pub(crate) reply_bytes: Option<usize>,
    /// echo: leave the finds out
    #[arg(long)]
    pub(crate) no_find: bool,
    /// raw: leave the echo out
    #[arg(long)]
    pub(crate) no_echo: bool,
    /// s4: minutes of load, a tenth of it for each part of what is turned or expires [default: 10]
    #[arg(long, value_name = "MINUTES", value_parser = above_zero)]
    minutes: Option<f64>,
    /// ttl: documents that expire [default: 2000000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    expiring: Option<u64>,
    /// ttl: documents a second that their window lets the server delete [default: 10000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    ttl_rate: Option<u32>,
    /// cachegrind: requests of the shorter and of the longer run [default: 2000,12000]
    #[arg(long, value_name = "FEWER,MORE")]
    pub(crate) requests: Option<Requests>,
    /// Directory for the table, the figures as JSON and the charts
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Where the servers' directories are made; the system's temporary directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) data_directory: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) measure: MeasureArguments,
    /// Further arguments for the servers, after `--`
    #[arg(last = true)]
    pub(crate) server: Vec<String>,
}

/// What follows from [`ExperimentArguments`].
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) asked: ExperimentArguments,
    pub(crate) rig: Rig,
    /// When it began, RFC 3339.
    pub(crate) begun: String,
    pub(crate) kinds: Vec<&'static Kind>,
    /// Whether rows of as many connections are one.
    merges_rows: bool,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) rounds: u32,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    pub(crate) stored: u64,
    pub(crate) document_bytes: usize,
    pub(crate) slow_connections: usize,
    pub(crate) idle: Duration,
    /// Of S4's load.
    pub(crate) long: Duration,
    pub(crate) expiring: u64,
    pub(crate) ttl_rate: u32,
}

impl ExperimentArguments {
    /// Checks the options, watches for Ctrl-C and moves to the generator's cores.
    pub(crate) fn settings(&self, experiment: &'static Experiment) -> Result<Settings, BenchError> {
        let named = |name: &String| experiment.kinds.iter().find(|kind| kind.name == *name);
        let kinds: Vec<&Kind> = self.kinds.iter().filter_map(named).collect();
        self.check(&kinds)?;
        let subjects = match (self.targets.as_slice(), self.models.as_slice()) {
            ([], []) => experiment.subjects.clone(),
            ([], models) => models.to_vec(),
            (targets, _) => Subject::given(targets)?,
        };
        if let Some(directory) = &self.out {
            std::fs::create_dir_all(directory).map_err(BenchError::io("make the directory of --out"))?;
        }
        Ok(self.of(experiment, kinds, subjects, Rig::set_up(&self.measure)?))
    }

    fn of(
        &self,
        experiment: &Experiment,
        kinds: Vec<&'static Kind>,
        subjects: Vec<Subject>,
        rig: Rig,
    ) -> Settings {
        let (scale, measure) = (self.scale, &self.measure);
        let time = |given: Option<Time>, usual| given.map_or_else(|| scale.time(usual), |time| time.0);
        let slow = self.slow_connections.map(|given| given as usize);
        Settings {
            rig,
            begun: result::now(),
            kinds,
            merges_rows: experiment.published.rows.is_empty(),
            subjects,
            rounds: measure.repetitions.or(experiment.rounds).unwrap_or_else(|| scale.rounds()),
            warm_up: time(measure.warm_up, WARM_UP),
            duration: time(measure.duration.map(Time), SECONDS),
            stored: measure
                .records
                .unwrap_or_else(|| scale.documents(experiment.documents.map_or(DOCUMENTS, f64::from))),
            document_bytes: measure.document_bytes.unwrap_or(experiment.document_bytes),
            slow_connections: slow.unwrap_or_else(|| scale.connections(SLOW_CONNECTIONS)),
            idle: time(self.idle_seconds, IDLE_SECONDS),
            long: self.minutes.map_or_else(
                || scale.time(LONG_SECONDS).max(SHORTEST_LONG),
                |minutes| Duration::from_secs_f64(60.0 * minutes),
            ),
            expiring: self.expiring.unwrap_or_else(|| scale.documents(EXPIRING)),
            ttl_rate: self.ttl_rate.unwrap_or(TTL_RATE),
            asked: self.clone(),
        }
    }

    /// What no single option shows: a contradiction, or an option of a kind that is not measured.
    fn check(&self, kinds: &[&Kind]) -> Result<(), BenchError> {
        let twice = |(index, model)| self.models.iter().take(index).any(|other: &Subject| other == model);
        if self.models.iter().enumerate().any(twice) {
            return usage("--models names a model twice");
        }
        if self.measure.records == Some(0) {
            return usage("--records must be at least 1");
        }
        let any = |holds: &dyn Fn(&Kind) -> bool| kinds.iter().any(|kind| holds(kind));
        let is = |special| any(&|kind| kind.is(special));
        let goes = |on| any(&|kind| kind.goes(on));
        if !self.targets.is_empty() && (is(Special::Idle) || is(Special::Cachegrind)) {
            return usage("idle and cachegrind look at the server's process, which a --target does not show");
        }
        if !self.targets.is_empty() && (is(Special::Expiry) || is(Special::Knobs)) {
            return usage("ttl and knobs change the settings of a server: they start their own ones");
        }
        let slow = any(&|kind| kind.groups().any(|group| group.connections == ConnectionNumber::Slow));
        let long = any(&Kind::is_long);
        let paced = long || any(&|kind| kind.groups().any(|group| group.pace == Pace::Paced));
        let options = [
            (self.slow_connections.is_some(), "--slow-connections", slow),
            (self.fast_rate.is_some(), "--fast-rate", paced),
            (self.idle_seconds.is_some(), "--idle-seconds", is(Special::Idle)),
            (self.reply_bytes.is_some(), "--reply-bytes", goes(On::Echo) || is(Special::Cachegrind)),
            (self.no_find, "--no-find", goes(On::Echo)),
            (self.no_echo, "--no-echo", goes(On::BareEcho)),
            (self.minutes.is_some(), "--minutes", long),
            (self.expiring.is_some(), "--expiring", is(Special::Expiry)),
            (self.ttl_rate.is_some(), "--ttl-rate", is(Special::Expiry)),
            (self.requests.is_some(), "--requests", is(Special::Cachegrind)),
        ];
        match options.into_iter().find(|(given, _, concerns)| *given && !concerns) {
            Some((_, option, _)) => usage(&format!("{option} concerns none of the kinds that are measured")),
            None => Ok(()),
        }
    }
}

fn above_zero(text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or("expected a number above 0".to_owned())
}

fn usage<T>(problem: &str) -> Result<T, BenchError> {
    Err(BenchError::Usage(problem.to_owned()))
}

/// `--requests`: how many requests two runs are made of whose difference is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests(pub(crate) u64, pub(crate) u64);

impl FromStr for Requests {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<(u64, u64)> =
            text.split_once(',').and_then(|(few, many)| Some((few.parse().ok()?, many.parse().ok()?)));
        match numbers {
            Some((fewer, more)) if 0 < fewer && fewer < more => Ok(Requests(fewer, more)),
            _ => Err("expected a smaller and a larger number, such as 2000,12000".to_owned()),
        }
    }
}

impl Settings {
    /// The rows of all kinds: a number of connections each, those of the command line or the scaled defaults.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for &kind in &self.kinds {
            let given = self.asked.connections.iter().map(|&given| (given as usize, given as usize));
            let usual = kind.clients.iter().map(|&clients| (self.asked.scale.connections(clients), clients));
            let usual = usual.filter(|_| self.asked.connections.is_empty());
            rows.extend(given.chain(usual).map(|(connections, clients)| Row { kind, connections, clients }));
        }
        if self.merges_rows {
            // On a small scale several numbers of clients become one.
            rows.dedup_by_key(|row| (&row.kind.name, row.connections));
        }
        rows
    }

    /// What is known of the servers that are given.
    pub(crate) fn given(&self) -> Vec<String> {
        let describe = |subject: &Subject| {
            let Subject::Given(server) = subject else { return None };
            // What cannot be used was told before.
            let place = server.security.access().ok()?.at(server.address);
            let ServerInfo { version, storage_engine, service_executor, .. } = Sampler::describe(place);
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
        let mut settings = json!({
            "scale": self.asked.scale.0, "rounds": self.rounds, "seconds": self.duration.as_secs_f64(),
            "warmUpSeconds": self.warm_up.as_secs_f64(), "documents": self.stored,
            "documentBytes": self.document_bytes, "seed": self.asked.measure.seed,
            "serverArguments": self.asked.server,
        });
        if let Value::Object(settings) = &mut settings
            && self.is_long()
        {
            settings.insert("longSeconds".to_owned(), json!(self.long.as_secs_f64()));
            settings.insert("expiring".to_owned(), json!(self.expiring));
            settings.insert("ttlRate".to_owned(), json!(self.ttl_rate));
        }
        settings
    }

    /// Where servers have their directories.
    pub(crate) fn data_directory(&self) -> PathBuf {
        self.asked.data_directory.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// How long a part of S4's load is: what is turned, or a state of a window.
    pub(crate) fn part_of_long(&self) -> Duration {
        const PARTS: u32 = 10;
        const SHORTEST: Duration = Duration::from_secs(1);
        (self.long / PARTS).max(SHORTEST)
    }

    /// How long the most that a server takes is looked for, and as long before that: memtables take more for
    /// some minutes than flush and compaction behind them do, and what is asked for must be sustainable.
    pub(crate) fn long_enough_for_most(&self) -> Duration {
        const PARTS: u32 = 4;
        const SHORTEST: Duration = Duration::from_secs(1);
        (self.long / PARTS).max(SHORTEST)
    }

    /// What so many writes of whole documents a second bring to the journal between two of its syncs, within
    /// bounds.
    pub(crate) fn journaled_bytes(&self, rate: f64) -> usize {
        const SYNCS_PER_SECOND: f64 = 10.0;
        ((rate * self.document_bytes as f64 / SYNCS_PER_SECOND) as usize).clamp(4 << 10, 1 << 20)
    }

    fn is_long(&self) -> bool {
        self.kinds.iter().any(|kind| kind.is_long())
    }

    /// The same as a line of text.
    pub(crate) fn line(&self) -> String {
        if self.is_long() {
            return format!(
                "{} documents of {} bytes, a cache of {} MiB, {} round(s) of {} s of load, seed {}",
                self.stored,
                self.document_bytes,
                self.tenth_of_data_mib(),
                self.rounds,
                self.long.as_secs_f64(),
                self.asked.measure.seed
            );
        }
        format!(
            "{} documents of {} bytes, {} round(s) of {} s after {} s of warm-up, seed {}",
            self.stored,
            self.document_bytes,
            self.rounds,
            self.duration.as_secs_f64(),
            self.warm_up.as_secs_f64(),
            self.asked.measure.seed
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
    pub(crate) fn connections(self, whole: usize) -> usize {
        self.connections_within(whole, raise_descriptor_limit())
    }

    fn connections_within(self, whole: usize, descriptors: u64) -> usize {
        ((whole as f64 * self.0).round() as usize).clamp(1, most_connections(descriptors))
    }

    /// Of so many documents, at least one.
    fn documents(self, whole: f64) -> u64 {
        (whole * self.0).round().max(1.0) as u64
    }

    /// Of so many seconds; nothing shorter is worth measuring.
    fn time(self, seconds: f64) -> Duration {
        const LEAST: f64 = 0.05;
        Duration::from_secs_f64((seconds * self.0).max(LEAST))
    }

    /// Below this scale nobody wants exact figures, and one round is enough.
    fn rounds(self) -> u32 {
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
    use super::super::definition::{S0, S1};
    use super::*;
    use clap::{Command, FromArgMatches};

    fn try_parse(line: &[&str]) -> Result<ExperimentArguments, clap::Error> {
        let words = std::iter::once("x").chain(line.iter().copied());
        let command = ExperimentArguments::augment_args(Command::new("x"));
        ExperimentArguments::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    fn parse(line: &[&str]) -> ExperimentArguments {
        try_parse(line).expect("options")
    }

    /// The settings of S0 with these options.
    pub(crate) fn settings(line: &[&str]) -> Settings {
        let kinds = S0.kinds.iter().collect();
        parse(line).of(&S0, kinds, vec![Subject::Synchronous, Subject::Reactor], Rig::default())
    }

    fn check(line: &[&str], expect: Result<(), &str>) {
        let found = parse(line).check(&[&S0.kinds[0], &S1.kinds[0]]);
        assert_eq!(found.map_err(|error| error.to_string()), expect.map_err(str::to_owned), "for {line:?}");
    }

    #[test]
    fn impossible_settings_are_refused() {
        check(&[], Ok(()));
        check(&["--models", "auto,epoll-echo", "--connections", "1,2", "--warm-up", "0"], Ok(()));
        let refused = |line: &[&str]| try_parse(line).map(drop).expect_err("it is refused").to_string();
        for (line, expect) in [
            (&["--rounds", "0"][..], "0 is not in 1.."),
            (&["--seconds", "0"], "it must be above 0"),
            (&["--seconds", "inf"], "no time"),
            (&["--warm-up=-1"], "no time"),
            (&["--connections", "5,0"], "0 is not in 1.."),
            (&["--requests", "5,5"], "expected a smaller and a larger number"),
        ] {
            let found = refused(line);
            assert!(found.contains(expect), "{line:?}: {found}");
        }
        check(&["--documents", "0"], Err("--records must be at least 1"));
        check(&["--models", "auto,reactor,auto"], Err("--models names a model twice"));
        check(&["--no-find"], Ok(()));
        for option in [&["--idle-seconds", "1"][..], &["--slow-connections", "1"], &["--no-echo"]] {
            check(option, Err(&format!("{} concerns none of the kinds that are measured", option[0])));
        }
    }

    #[test]
    fn a_scale_is_a_factor_within_bounds() {
        let check = |scale: &str, expect: (u64, usize, f64, u32)| {
            let settings = settings(&["--scale", scale]);
            let connections = settings.asked.scale.connections_within(5_000, 20_000);
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
