//! The Heddle server: configuration, wiring and the command line.
//!
//! ```text
//!   arguments ─▶ options ─┬─▶ logging (tracing ─▶ ring and writer thread)
//!   (flags, YAML)         ├─▶ storage ─▶ catalog ─▶ ServiceContext ◀── service ◀── transport::Server
//!                         └─▶ serve: signals, monitors, the orderly end
//! ```
//!
//! # Invariants
//! - Every failure to start is one line on standard error that says what to do, and an exit status other than
//!   0.
//! - Every option is defined in `dispatch::parameters`; nothing here knows a default.
//! - Logging never blocks a request: lines that the writer cannot take are counted and dropped.
//!
//! # Not here
//! What commands do (`commands`), how connections are driven (`transport`), how data is kept (`storage`,
//! `catalog`).

mod accountant;
mod allocator;
mod arguments;
mod audit;
mod background;
mod backup;
mod calendar;
mod cluster;
mod descriptors;
mod echo_server;
mod encryption;
mod figures;
mod key_file;
mod knobs;
mod logging;
mod machine;
mod member_login;
mod network;
mod options;
mod password_prompt;
mod pid_file;
mod processor;
mod replica_set;
mod serve;
mod server_uri;
mod service;
mod sizing;
mod ttl;
mod yaml;

use clap::ArgMatches;
use std::io::Write;
use std::process::ExitCode;

/// Exit status on a machine that the program was not built for.
const EXIT_MACHINE: u8 = 1;
/// Exit status after wrong options.
pub(crate) const EXIT_OPTIONS: u8 = 2;

fn main() -> ExitCode {
    if let Err(error) = processor::check() {
        return fail(&error, EXIT_MACHINE);
    }
    allocator::keep_free_memory(sizing::KEEP_FREE);
    let matches = match arguments::command().try_get_matches() {
        Ok(matches) => matches,
        // Help and versions are no mistakes; those of a measurement are told in one line.
        Err(error)
            if error.use_stderr() && std::env::args_os().nth(1).is_some_and(|word| word == "bench") =>
        {
            return fail(&bench::BenchError::Usage(bench::complaint(&error)), EXIT_OPTIONS);
        }
        Err(error) => error.exit(),
    };
    match matches.subcommand() {
        Some(("serve", given)) => start(given),
        None => start(&matches),
        Some(("calendar", given)) => calendar::run(given),
        Some(("cluster", given)) => cluster::run(given),
        Some(("backup", given)) => backup::run_backup(given),
        Some(("restore", given)) => backup::run_restore(given),
        Some(("check", given)) => backup::run_check(given),
        Some(("repair", given)) => backup::run_repair(given),
        Some(("rotate-key", given)) => encryption::run_rotate(given),
        Some(("engine-log", given)) => encryption::run_engine_log(given),
        Some(("echo-server", given)) => match options::read(given) {
            Ok(options) => echo_server::run(&options, given),
            Err(error) => fail(&error, EXIT_OPTIONS),
        },
        Some(("bench", given)) => match arguments::run_bench(given) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error, error.exit_status()),
        },
        Some(("parameters", _)) => {
            let _ = std::io::stdout().write_all(dispatch::parameters::markdown().as_bytes());
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(EXIT_OPTIONS),
    }
}

fn start(given: &ArgMatches) -> ExitCode {
    if let Some(parent) = given.get_one::<i32>(cluster::ENDS_WITH)
        && let Err(error) = cluster::end_with(*parent)
    {
        return fail(&error, EXIT_MACHINE);
    }
    match options::read(given) {
        Ok(options) => serve::run(options),
        Err(error) => fail(&error, EXIT_OPTIONS),
    }
}

/// Tells on standard error why it ends.
pub(crate) fn fail(error: &dyn std::error::Error, status: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "heddle: {error}");
    ExitCode::from(status)
}
