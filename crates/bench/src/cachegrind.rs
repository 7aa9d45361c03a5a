//! `heddle bench cachegrind`: instructions and simulated cache misses per request.
//!
//! Where hardware counters do not work, `valgrind --tool=cachegrind` still counts. The echo server runs under
//! it twice with different numbers of requests, and the difference is divided by the difference of the
//! numbers: starting and ending cancel out. Only the server's own code is counted, not the kernel's. Valgrind
//! stops every thread while one waits in io_uring, so that `coroutine` is measured on epoll.

use crate::error::BenchError;
use crate::experiment::{Load, Subject, echo_launch};
use crate::generator::{GroupSpec, Outcome, Pacing, Window};
use crate::rig::Rig;
use crate::server_process::ChildServer;
use crate::workload::WorkloadSource;
use clap::Args;
use std::path::Path;
use std::time::Duration;

/// The caches are simulated with sizes that are usual today and the same everywhere.
const VALGRIND: [&str; 7] = [
    "valgrind",
    "--quiet",
    "--tool=cachegrind",
    "--cache-sim=yes",
    "--I1=32768,8,64",
    "--D1=32768,8,64",
    "--LL=33554432,16,64",
];
/// Valgrind runs a program some fifty times slower.
const PATIENCE: Duration = Duration::from_secs(120);
/// The requests have been answered long before.
const LONGEST: Duration = Duration::from_secs(600);

/// `heddle bench cachegrind`.
#[derive(Debug, Args)]
pub struct CachegrindArguments {
    /// Thread models, and `epoll-echo` and `thread-echo`
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "epoll-echo,synchronous,adaptive,reactor,coroutine,auto"
    )]
    models: Vec<Subject>,
    /// Connections
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Requests of the shorter and of the longer run
    #[arg(long, value_delimiter = ',', num_args = 1, default_value = "2000,12000")]
    requests: Vec<u64>,
    /// Size of every reply, in bytes
    #[arg(long, default_value_t = 1_100)]
    reply_bytes: usize,
    /// Further arguments for the servers, after `--`
    #[arg(last = true)]
    server: Vec<String>,
}

/// Totals of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counts {
    instructions: f64,
    data_references: f64,
    instruction_misses: f64,
    data_misses: f64,
    last_level_misses: f64,
}

/// Measures and prints the table.
///
/// # Errors
/// When valgrind is missing or a server cannot be run under it.
pub(crate) fn run(arguments: &CachegrindArguments) -> Result<(), BenchError> {
    let &[fewer, more] = arguments.requests.as_slice() else {
        return Err(BenchError::Usage("--requests needs two numbers, such as 2000,12000".to_owned()));
    };
    if fewer < 1 || more <= fewer || arguments.connections < 1 {
        return Err(BenchError::Usage(
            "--requests needs a smaller and a larger number, and --connections at least 1".to_owned(),
        ));
    }
    let rig = Rig::set_up(&crate::affinity::Pin::default())?;
    println!(
        "| model | instructions | data references | I1 misses | D1 misses | LL misses |\n|---|---|---|---|---|---|"
    );
    for &subject in &arguments.models {
        let few = arguments.count(&rig, subject, fewer)?;
        let many = arguments.count(&rig, subject, more)?;
        println!("{}", row(subject, few, many, (more - fewer) as f64));
    }
    println!(
        "\nper request, {} connections, replies of {} bytes, coroutine and auto on epoll",
        arguments.connections, arguments.reply_bytes
    );
    Ok(())
}

/// The difference of two runs, per request.
fn row(subject: Subject, few: Counts, many: Counts, requests: f64) -> String {
    let each = |figure: fn(&Counts) -> f64| (figure(&many) - figure(&few)) / requests;
    format!(
        "| {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.3} |",
        subject.name(),
        each(|counts| counts.instructions),
        each(|counts| counts.data_references),
        each(|counts| counts.instruction_misses),
        each(|counts| counts.data_misses),
        each(|counts| counts.last_level_misses),
    )
}

impl CachegrindArguments {
    /// One run of so many requests.
    fn count(&self, rig: &Rig, subject: Subject, requests: u64) -> Result<Counts, BenchError> {
        let directory = tempfile::tempdir().map_err(BenchError::io("make a temporary directory"))?;
        let file = directory.path().join("counts");
        let mut further = self.server.clone();
        if matches!(subject, Subject::Coroutine | Subject::Auto) {
            further.push("--no-io-uring".to_owned());
        }
        let mut launch = echo_launch(subject, self.reply_bytes, &further);
        launch.patience = PATIENCE;
        launch.wrapper = VALGRIND.map(str::to_owned).to_vec();
        launch.wrapper.push(format!("--cachegrind-out-file={}", file.display()));
        let server = ChildServer::start(rig, launch).map_err(explain)?;
        const DOCUMENT_BYTES: usize = 1_024;
        let source = WorkloadSource::new(&Load::Read.workload(1, DOCUMENT_BYTES), &Load::Read.concerns())?;
        let group = GroupSpec::new(self.connections, source.expecting_nothing(), Pacing::Closed);
        let window = Window { warm_up: Duration::ZERO, duration: LONGEST, operations: Some(requests) };
        let [outcome] =
            rig.fleet(server.address, vec![group], (1, 1), 1)?.run(&window, &mut |_| ())?.split()?;
        check(&outcome, requests)?;
        server.terminate(rig, PATIENCE)?;
        read(&file)
    }
}

/// A missing valgrind is the one failure that is worth a hint.
fn explain(error: BenchError) -> BenchError {
    match error {
        BenchError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            BenchError::Program { program: "valgrind", problem: "not found; please install it".to_owned() }
        }
        other => other,
    }
}

/// A run with failed requests would count something else.
fn check(outcome: &Outcome, requests: u64) -> Result<(), BenchError> {
    if outcome.error_count() == 0 && outcome.operations() == requests {
        return Ok(());
    }
    let problem =
        format!("{} of {requests} requests were answered: {:?}", outcome.operations(), outcome.errors());
    Err(BenchError::Program { program: "the server under valgrind", problem })
}

fn read(file: &Path) -> Result<Counts, BenchError> {
    let text = std::fs::read_to_string(file).map_err(BenchError::io("read valgrind's counts"))?;
    parse(&text).ok_or_else(|| BenchError::Program {
        program: "valgrind",
        problem: "its file has no events and summary as expected".to_owned(),
    })
}

/// The lines `events:` (names) and `summary:` (totals) of a cachegrind file.
fn parse(text: &str) -> Option<Counts> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let names: Vec<&str> = line("events:")?.split_whitespace().collect();
    let totals: Vec<f64> =
        line("summary:")?.split_whitespace().map(|total| total.parse().ok()).collect::<Option<_>>()?;
    let total = |name: &str| totals.get(names.iter().position(|event| *event == name)?).copied();
    Some(Counts {
        instructions: total("Ir")?,
        data_references: total("Dr")? + total("Dw")?,
        instruction_misses: total("I1mr")?,
        data_misses: total("D1mr")? + total("D1mw")?,
        last_level_misses: total("ILmr")? + total("DLmr")? + total("DLmw")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "desc: I1 cache: 32768 B\ncmd: ./heddle\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\n\
                        fl=x.rs\nfn=main\n1 5 1 1 2 1 1 1 1 1\nsummary: 1000 30 3 400 40 4 200 20 2\n";

    #[test]
    fn totals_are_found_by_name() {
        let expect = Counts {
            instructions: 1_000.0,
            data_references: 600.0,
            instruction_misses: 30.0,
            data_misses: 60.0,
            last_level_misses: 9.0,
        };
        assert_eq!(parse(FILE), Some(expect));
        assert_eq!(parse("events: Ir\nsummary: 5\n"), None, "a run without the cache simulation");
        assert_eq!(parse(""), None);
    }

    #[test]
    fn starting_and_ending_cancel_out() {
        let few = parse(FILE).expect("counts");
        let many = Counts { instructions: 6_000.0, data_misses: 85.0, ..few };
        assert_eq!(row(Subject::Reactor, few, many, 10.0), "| reactor | 500 | 0 | 0.00 | 2.50 | 0.000 |");
    }
}
