//! The subcommands of `heddle bench`.

use crate::echo::{EchoArguments, serve_echo};
use crate::error::BenchError;
use crate::raw::{RawArguments, run_raw};
use clap::Subcommand;

/// `heddle bench …`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Raw-message load on one server, each scenario beside an echo of the same sizes
    Raw(RawArguments),
    /// A bare echo server, the yardstick of the other measurements
    Echo(EchoArguments),
}

/// Runs a measurement; tables go to standard output, progress to standard error.
///
/// # Errors
/// When it could not be made. Failed requests are counted, not returned.
pub fn run(command: &BenchCommand) -> Result<(), BenchError> {
    match command {
        BenchCommand::Raw(arguments) => run_raw(arguments),
        BenchCommand::Echo(arguments) => serve_echo(arguments),
    }
}
