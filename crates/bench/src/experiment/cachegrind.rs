//! `heddle bench cachegrind`: instructions and simulated cache misses per request.
//!
//! Where hardware counters do not work, `valgrind --tool=cachegrind` still counts. The echo server runs under
//! it twice with different numbers of requests, and the difference is divided by the difference of the
//! numbers: starting and ending cancel out. Only the server's own code is counted, not the kernel's. Valgrind
//! stops every thread while one waits in io_uring, so that `coroutine` is measured on epoll.

use super::Subject;
use super::arguments::Requests;
use super::column::{Column, MISSES};
use super::findings::Measurement;
use super::measure::Visit;
use super::subject::Served;
use crate::error::BenchError;
use crate::generator::{Outcome, Window};
use crate::server_process::ChildServer;
use std::path::Path;
use std::time::Duration;

const INSTRUCTIONS: Column = Column::other("instructions", 0);
const REFERENCES: Column = Column::other("data references", 0);
const INSTRUCTION_MISSES: Column = Column::other("I1 misses", 2);
const DATA_MISSES: Column = Column::other("D1 misses", 2);
const LAST_LEVEL_MISSES: Column = Column::other("LL misses", 3);

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
const REQUESTS: Requests = Requests(2_000, 12_000);

/// Totals of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counts {
    instructions: f64,
    data_references: f64,
    instruction_misses: f64,
    data_misses: f64,
    last_level_misses: f64,
}

impl Visit<'_> {
    pub(super) fn cachegrind(&self) -> Result<Measurement, BenchError> {
        let Requests(fewer, more) = self.settings.asked.requests.unwrap_or(REQUESTS);
        let (few, many) = (self.count(fewer)?, self.count(more)?);
        Ok(Measurement::default().with(figures(few, many, (more - fewer) as f64)))
    }

    /// One run of so many requests.
    fn count(&self, requests: u64) -> Result<Counts, BenchError> {
        let rig = &self.settings.rig;
        let directory = tempfile::tempdir().map_err(BenchError::io("make a temporary directory"))?;
        let file = directory.path().join("counts");
        let mut launch = self.settings.echo_launch(self.subject, self.settings.echo_bytes()?);
        if matches!(self.subject, Subject::Coroutine | Subject::Auto) {
            launch.arguments.push("--no-io-uring".to_owned());
        }
        launch.patience = PATIENCE;
        launch.wrapper = VALGRIND.map(str::to_owned).to_vec();
        launch.wrapper.push(format!("--cachegrind-out-file={}", file.display()));
        let mut served = Served::started(ChildServer::start(rig, launch).map_err(explain)?, None);
        let window = Window { warm_up: Duration::ZERO, duration: LONGEST, operations: Some(requests) };
        let outcome = self.run_one(&mut served, self.echoed()?, &window)?;
        check(&outcome, requests)?;
        served.process.map_or(Ok(()), |process| process.terminate(rig, PATIENCE))?;
        read(&file)
    }
}

/// The difference of two runs, per request.
fn figures(few: Counts, many: Counts, requests: f64) -> [(Column, f64); 6] {
    let each = |figure: fn(&Counts) -> f64| (figure(&many) - figure(&few)) / requests;
    let (references, misses) = (each(|counts| counts.data_references), each(|counts| counts.data_misses));
    [
        (INSTRUCTIONS, each(|counts| counts.instructions)),
        (REFERENCES, references),
        (INSTRUCTION_MISSES, each(|counts| counts.instruction_misses)),
        (DATA_MISSES, misses),
        (LAST_LEVEL_MISSES, each(|counts| counts.last_level_misses)),
        (MISSES, 100.0 * misses / references.max(1.0)),
    ]
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

    const FILE: &str = "desc: I1 cache: 32768 B\ncmd: ./heddle\n\
        events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\n\
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
        let found = figures(few, Counts { data_references: 1_100.0, ..many }, 10.0).map(|(_, figure)| figure);
        assert_eq!(found, [500.0, 50.0, 0.0, 2.5, 0.0, 5.0]);
    }
}
