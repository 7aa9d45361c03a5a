//! What all experiments can be told, and the settings that follow.

use crate::affinity::Pin;
use crate::article::Subject;
use crate::error::BenchError;
use crate::generator::{GroupSpec, Pacing, Request, Requests, Window};
use crate::rig::Rig;
use crate::scenario::Scenario;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Options of every experiment.
#[derive(Debug, Args)]
pub(crate) struct CommonArguments {
    /// Thread models to compare, and `epoll-echo` and `thread-echo`, bare echoes as ceilings
    #[arg(long, value_enum, value_delimiter = ',')]
    models: Vec<Subject>,
    /// Numbers of connections; each kind has its own defaults
    #[arg(long, value_delimiter = ',')]
    connections: Vec<usize>,
    /// Rounds; tables show medians over them
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Measured seconds of each cell in each round; slow requests get longer when there are many connections
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before measuring begins
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Documents to load
    #[arg(long, default_value_t = 100_000)]
    documents: i32,
    /// Size of a document, in bytes; each experiment has its own default
    #[arg(long)]
    document_bytes: Option<usize>,
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

/// A checked [`CommonArguments`].
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) rig: Rig,
    pub(crate) subjects: Vec<Subject>,
    /// Empty: each kind's default.
    pub(crate) connections: Vec<usize>,
    pub(crate) rounds: u64,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    pub(crate) stored: i32,
    pub(crate) document_bytes: usize,
    pub(crate) seed: u64,
    pub(crate) out: Option<PathBuf>,
    pub(crate) data_directory: PathBuf,
    pub(crate) server_arguments: Vec<String>,
}

impl CommonArguments {
    /// Checks the options, watches for Ctrl-C and moves to the generator's cores.
    pub(crate) fn settings(
        &self,
        subjects: &[Subject],
        document_bytes: usize,
    ) -> Result<Settings, BenchError> {
        self.validate()?;
        let out = self.out.clone();
        if let Some(directory) = &out {
            std::fs::create_dir_all(directory).map_err(BenchError::io("make the directory of --out"))?;
        }
        Ok(Settings {
            rig: Rig::set_up(&self.pin.clone().unwrap_or_default())?,
            subjects: if self.models.is_empty() { subjects.to_vec() } else { self.models.clone() },
            connections: self.connections.clone(),
            rounds: self.rounds,
            warm_up: Duration::from_secs_f64(self.warm_up),
            duration: Duration::from_secs_f64(self.seconds),
            stored: self.documents,
            document_bytes: self.document_bytes.unwrap_or(document_bytes),
            seed: self.seed,
            out,
            data_directory: self.data_directory.clone().unwrap_or_else(std::env::temp_dir),
            server_arguments: self.server.clone(),
        })
    }

    fn validate(&self) -> Result<(), BenchError> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if self.documents < 1 || self.rounds < 1 {
            return usage("--documents and --rounds must be at least 1");
        }
        if Duration::try_from_secs_f64(self.seconds).is_ok_and(|time| time.is_zero())
            || Duration::try_from_secs_f64(self.seconds).is_err()
            || Duration::try_from_secs_f64(self.warm_up).is_err()
        {
            return usage("--seconds must be above 0 and --warm-up at least 0");
        }
        if self.connections.contains(&0) {
            return usage("--connections must be at least 1");
        }
        if self
            .models
            .iter()
            .enumerate()
            .any(|(index, model)| self.models.iter().take(index).any(|other| other == model))
        {
            return usage("--models names a model twice");
        }
        Ok(())
    }
}

impl Settings {
    /// The numbers of connections to measure.
    pub(crate) fn connections_or(&self, default: &[usize]) -> Vec<usize> {
        if self.connections.is_empty() { default.to_vec() } else { self.connections.clone() }
    }

    /// The window of quick requests.
    pub(crate) const fn window(&self) -> Window {
        Window::lasting(self.warm_up, self.duration)
    }

    /// The window of requests that take a millisecond of a core: long enough for every connection to get several replies.
    pub(crate) fn slow_window(&self, connections: usize) -> Window {
        /// Of one connection's share of the warm-up and of the measured time.
        const WARM_UP: Duration = Duration::from_micros(300);
        const MEASURED: Duration = Duration::from_millis(1);
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        Window::lasting(
            self.warm_up.max(if self.warm_up.is_zero() { Duration::ZERO } else { WARM_UP * connections }),
            self.duration.max(MEASURED * connections),
        )
    }

    /// A closed loop of one scenario.
    pub(crate) fn closed(&self, scenario: Scenario, connections: usize) -> GroupSpec {
        self.closed_requests(vec![self.request(scenario)], connections)
    }

    /// A closed loop of these requests.
    pub(crate) fn closed_requests(&self, requests: Vec<Request>, connections: usize) -> GroupSpec {
        GroupSpec::new(connections, Requests::source(requests), Pacing::Closed)
    }

    /// One scenario's request.
    pub(crate) fn request(&self, scenario: Scenario) -> Request {
        scenario.request(self.stored, self.document_bytes)
    }

    /// What a reader of the figures needs to know.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "rounds": self.rounds, "seconds": self.duration.as_secs_f64(), "warmUpSeconds": self.warm_up.as_secs_f64(),
            "documents": self.stored, "documentBytes": self.document_bytes, "seed": self.seed,
            "serverArguments": self.server_arguments,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn check(line: &[&str], expect: Result<(), &str>) {
        let words = std::iter::once("x").chain(line.iter().copied());
        let matches = CommonArguments::augment_args(Command::new("x")).get_matches_from(words);
        let arguments = CommonArguments::from_arg_matches(&matches).expect("values of the right kind");
        let found = arguments.validate().map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "for {line:?}");
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
    }
}
