//! `heddle bench run`: a workload on any server that speaks the MongoDB wire protocol.
//!
//! ```text
//!   arguments ────────────┐
//!   connection string ────┴─▶ Session: topology (who is primary?) ─▶ load phase (what is missing?)
//!                                │ measure, once for each repetition:
//!                                │   workload ─▶ generator::Fleet ─▶ RunOutcome   Sampler: serverStatus
//!                                ▼                    └─▶ assemble ◀┘
//!                             RunResult ─▶ terminal, JSON, CSV, page
//! ```
//!
//! # Invariants
//! - What is wrong with the command line is said in one line before anything is sent.
//! - Ctrl-C ends with the results so far, in every output that was asked for.
//! - The load phase keeps no record of its own: what is there is found by the documents' keys.

mod arguments;
mod assemble;
mod connection_string;
#[cfg(test)]
mod document_server;
mod load_phase;
mod loader;
mod named_server;
mod plan;
mod progress;
mod session;
#[cfg(test)]
mod tests;
mod topology;

pub(crate) use arguments::{PlanArguments, RunArguments};
pub(crate) use connection_string::ConnectionString;
pub(crate) use load_phase::{LoadMode, load};
pub use named_server::NamedServer;
pub(crate) use progress::ProgressLine;
pub(crate) use session::Session;
pub(crate) use topology::resolve;

use crate::error::BenchError;
use crate::result::{self, RunResult};
use crate::rig::Rig;

/// Runs the measurement, prints the result and writes the files that are wanted.
///
/// # Errors
/// When it could not be made, and [`BenchError::Interrupted`] after everything was written. Failed requests
/// are counted, not returned.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), BenchError> {
    let plan = &arguments.plan;
    plan.check()?;
    arguments.output.check()?;
    ConnectionString::parse(&arguments.target)?;
    let rig = Rig::set_up(&plan.measure)?;
    let mut line = ProgressLine::new();
    let measured = execute(plan, &arguments.target, arguments.label.as_deref(), &rig, &mut line)?;
    drop(line);
    if !plan.load.load_only {
        result::finish(&measured, &arguments.output)?;
    }
    if measured.interrupted { Err(BenchError::Interrupted) } else { Ok(()) }
}

/// The whole plan on one target.
///
/// # Errors
/// As [`Session::prepare`] and [`Session::measure`].
pub(crate) fn execute(
    plan: &PlanArguments,
    target: &str,
    label: Option<&str>,
    rig: &Rig,
    line: &mut ProgressLine,
) -> Result<RunResult, BenchError> {
    let mut session = Session::prepare(plan, target, label, rig, line)?;
    let repetitions = if plan.load.load_only { 0 } else { plan.repetitions() };
    for number in 0..repetitions {
        match session.measure(number, repetitions, line) {
            // What earlier repetitions saw is a result.
            Err(BenchError::Interrupted) if number > 0 => break,
            other => other?,
        }
        if session.result().interrupted {
            break;
        }
    }
    let interrupted = rig.interrupt.check().is_err();
    if !interrupted {
        session.clean_up()?;
    }
    let mut measured = session.into_result();
    measured.interrupted |= interrupted;
    Ok(measured)
}
