//! `heddle bench raw`: every scenario beside an echo of the same sizes, interleaved and repeated.

use crate::affinity::Pin;
use crate::dataset;
use crate::error::BenchError;
use crate::generator::{GroupSpec, Load, Outcome, Pacing, Requests, Window};
use crate::report::{Sample, Series, table};
use crate::rig::Rig;
use crate::scenario::Scenario;
use crate::server_process::{ChildServer, Launch};
use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::time::Duration;

/// `heddle bench raw`: raw-message load on one server, each scenario beside a bare echo of the same sizes.
#[derive(Debug, Args)]
pub struct RawArguments {
    /// Address of a running server, such as 127.0.0.1:27017; without it one is started on an empty directory
    #[arg(long)]
    target: Option<SocketAddr>,
    /// Scenarios to run; all when none is named
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<Scenario>,
    /// Connections; each scenario has its own default
    #[arg(long)]
    connections: Option<usize>,
    /// Documents to load
    #[arg(long, default_value_t = 100_000)]
    documents: i32,
    /// Size of a document, in bytes
    #[arg(long, default_value_t = 1_024)]
    document_bytes: usize,
    /// Measured seconds of each scenario in each round
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before measuring begins
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Rounds; the table shows medians over them
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Leave the echo out
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
    /// Cores of the generator and the server, such as 0:1
    #[arg(long, value_name = "GENERATOR:SERVER")]
    pin: Option<Pin>,
    /// Further arguments for the server that is started, after `--`
    #[arg(last = true)]
    server: Vec<String>,
}

/// Runs the measurement and prints the table.
///
/// # Errors
/// When a server cannot be started or reached, or data cannot be loaded. Failed requests are counted, not returned.
pub(crate) fn run_raw(arguments: &RawArguments) -> Result<(), BenchError> {
    arguments.validate()?;
    let rig = Rig::set_up(&arguments.pin.clone().unwrap_or_default())?;
    let directory = tempfile::tempdir().map_err(BenchError::io("make a temporary directory"))?;
    let directory = directory.path().join("data");
    let mut server = None;
    let address = match arguments.target {
        Some(address) => address,
        None => {
            let directory = directory.to_string_lossy();
            let mut words = ["serve", "--dbpath", &*directory, "--nounixsocket"].map(str::to_owned).to_vec();
            words.extend_from_slice(&arguments.server);
            server.insert(ChildServer::start(&rig, Launch::new("server", words))?).address
        }
    };
    let took = dataset::load(address, arguments.documents, arguments.document_bytes, &rig.interrupt)?;
    println!(
        "seed {}, {} documents of {} bytes loaded in {:.2} s ({:.0}/s), {} rounds of {} s\n",
        arguments.seed,
        arguments.documents,
        arguments.document_bytes,
        took.as_secs_f64(),
        f64::from(arguments.documents) / took.as_secs_f64(),
        arguments.rounds,
        arguments.seconds,
    );
    let mut all: Vec<Series> =
        arguments.scenarios().iter().map(|&scenario| arguments.series(scenario)).collect();
    let measured = arguments.measure(&rig, address, server.as_mut(), &mut all);
    print!("{}", table(&all));
    measured
}

impl RawArguments {
    fn validate(&self) -> Result<(), BenchError> {
        let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
        if self.documents < 1 || self.rounds < 1 {
            return usage("--documents and --rounds must be at least 1");
        }
        if !(self.seconds > 0.0
            && self.seconds.is_finite()
            && self.warm_up >= 0.0
            && self.warm_up.is_finite())
        {
            return usage("--seconds must be above 0 and --warm-up at least 0");
        }
        if self.connections == Some(0) {
            return usage("--connections must be at least 1");
        }
        Ok(())
    }

    fn scenarios(&self) -> &[Scenario] {
        if self.scenario.is_empty() { Scenario::value_variants() } else { &self.scenario }
    }

    fn series(&self, scenario: Scenario) -> Series {
        let connections = self.connections.unwrap_or(scenario.default_connections());
        Series { scenario, connections, stored: self.documents, samples: Vec::new() }
    }

    /// Every scenario in every round.
    fn measure(
        &self,
        rig: &Rig,
        address: SocketAddr,
        mut server: Option<&mut ChildServer>,
        all: &mut [Series],
    ) -> Result<(), BenchError> {
        for round in 0..self.rounds {
            for series in &mut *all {
                let sample = self.sample(rig, address, series.scenario, series.connections, round)?;
                series.samples.push(sample);
                if let Some(server) = &mut server {
                    server.check_alive()?;
                }
            }
        }
        Ok(())
    }

    /// Measures the server, then an echo that answers with replies of the size the server gave.
    fn sample(
        &self,
        rig: &Rig,
        address: SocketAddr,
        scenario: Scenario,
        connections: usize,
        round: u64,
    ) -> Result<Sample, BenchError> {
        let requests = vec![scenario.request(self.documents, self.document_bytes)];
        let groups = vec![GroupSpec::new(connections, Requests::source(requests), Pacing::Closed)];
        let window =
            Window::lasting(Duration::from_secs_f64(self.warm_up), Duration::from_secs_f64(self.seconds));
        let run = |address| -> Result<Outcome, BenchError> {
            let (groups, seed) = (groups.clone(), self.seed.wrapping_add(round));
            let load = Load { address, groups, threads: self.threads, processes: self.processes, seed };
            let run = rig.fleet(load)?.run(&window, &mut |_| ())?;
            for failure in &run.failures {
                eprintln!("warning: {failure}");
            }
            let [outcome] = run.split()?;
            Ok(outcome)
        };
        let server = run(address)?;
        if self.no_echo || !scenario.compares_with_echo() || server.operations() == 0 {
            return Ok(Sample { server, echo: None });
        }
        let reply_bytes = server.reply_bytes.to_string();
        let words = ["bench", "echo", "--reply-bytes", &reply_bytes].map(str::to_owned).to_vec();
        let echo = ChildServer::start(rig, Launch::new("echo", words))?;
        let echo = run(echo.address)?;
        Ok(Sample { server, echo: Some(echo) })
    }
}
