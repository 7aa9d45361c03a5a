//! `heddle bench server`: the same load on several running servers, in turns, and one comparison of them.

use crate::error::BenchError;
use crate::result::{self, ComparisonOutput, RunResult, in_turns};
use crate::rig::Rig;
use crate::run::{PlanArguments, ProgressLine, Session};
use crate::target::Target;
use clap::Args;
use std::path::{Path, PathBuf};

/// `heddle bench server`: the same workload on several running servers in turns, each round beginning with
/// another one.
#[derive(Debug, Args)]
#[command(mut_arg("repetitions", |argument| argument.default_value("3")))]
pub struct ServerArguments {
    /// Servers, at least two; a name before the connection string is what reports call it
    #[arg(required = true, num_args = 2.., value_name = "[NAME=]HOST:PORT")]
    targets: Vec<Target>,
    /// Name or number of the server that the others are compared with; the first one by default
    #[arg(long)]
    base: Option<String>,
    #[command(flatten)]
    plan: PlanArguments,
    #[command(flatten)]
    output: ComparisonOutput,
    /// Write each server's run into this directory, as heddle bench run --json does
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
}

/// Measures the servers and compares them.
///
/// # Errors
/// When a server cannot be reached at the beginning or less than two could be measured; and
/// [`BenchError::Interrupted`] after everything was written.
pub(crate) fn run_servers(arguments: &ServerArguments) -> Result<(), BenchError> {
    let plan = &arguments.plan;
    plan.check()?;
    if plan.load.load_only {
        return Err(BenchError::Usage("--load-only measures nothing that could be compared".to_owned()));
    }
    let labels: Vec<String> = arguments.targets.iter().map(|target| target.label.clone()).collect();
    result::check_base(&labels, arguments.base.as_deref())?;
    arguments.output.check()?;
    let rig = Rig::set_up(&plan.measure)?;
    let mut line = ProgressLine::new();
    let mut sessions = Vec::new();
    for Target { label, connection_string } in &arguments.targets {
        sessions.push(Session::prepare(plan, connection_string, Some(label), &rig, &mut line)?);
    }
    let rounds = plan.repetitions();
    let measured = in_turns(sessions.len(), rounds, |server, round| {
        rig.interrupt.check()?;
        let missing = || BenchError::Usage(format!("there is no server {server}"));
        let session = sessions.get_mut(server).ok_or_else(missing)?;
        session.measure(round, rounds, &mut line)?;
        Ok(session.take_repetitions())
    })?;
    drop(line);
    let interrupted = measured.iter().any(|result| result.interrupted);
    if !interrupted {
        sessions.iter().try_for_each(Session::clean_up)?;
    }
    if let Some(directory) = &arguments.runs {
        keep(&measured, directory)?;
    }
    result::compare(&measured, arguments.base.as_deref(), &arguments.output)?;
    if interrupted { Err(BenchError::Interrupted) } else { Ok(()) }
}

/// Each run in a file of its own, by the order of the servers and their names.
fn keep(results: &[RunResult], directory: &Path) -> Result<(), BenchError> {
    let unusable = |error: std::io::Error| BenchError::Output {
        path: directory.display().to_string(),
        problem: error.to_string(),
    };
    std::fs::create_dir_all(directory).map_err(unusable)?;
    for (number, result) in (1..).zip(results) {
        result::save_json(&directory.join(file_name(number, &result.label)), result)?;
    }
    Ok(())
}

/// Letters and digits of the name survive.
fn file_name(number: usize, label: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    format!("{number}-{}.json", label.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample;

    #[test]
    fn every_run_has_a_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let inside = directory.path().join("runs");
        keep(&[sample::with_rates("a/../b", &[1.0]), sample::full()], &inside).expect("writes");
        let found = RunResult::read(&inside.join("1-a----b.json")).expect("a run");
        assert_eq!(found.label, "a/../b");
        assert!(inside.join("2-reactor.json").exists());
    }
}
