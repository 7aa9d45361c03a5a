//! The command line. The flags of `serve` are made from the table of parameters.

use crate::echo_server::{NO_IO_URING, REPLY_BYTES};
use bench::{BenchCommand, BenchError};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};
use commands::parameters::{DEFINITIONS, Definition, Kind};

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("heddle")
        .about("A document database that speaks MongoDB's wire protocol")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(server_options(Command::new("serve").about("Starts the server")))
        .subcommand(echo_server())
        .subcommand(BenchCommand::augment_subcommands(
            Command::new("bench").about("Measures a server").subcommand_required(true),
        ))
        .subcommand(Command::new("parameters").about("Prints docs/configuration.md"))
}

/// The yardstick of the thread models; for measurements, not for users.
fn echo_server() -> Command {
    let about = "Answers every request with one reply, under a thread model and without a database";
    server_options(Command::new("echo-server").about(about).hide(true))
        .arg(
            Arg::new(REPLY_BYTES)
                .long(REPLY_BYTES)
                .value_name("BYTES")
                .value_parser(clap::value_parser!(usize))
                .default_value("1100")
                .help("Size of every reply"),
        )
        .arg(
            Arg::new(NO_IO_URING)
                .long(NO_IO_URING)
                .action(ArgAction::SetTrue)
                .help("`coroutine` runs on epoll, as where the kernel refuses io_uring"),
        )
}

/// Everything that `serve` can be told.
fn server_options(command: Command) -> Command {
    let fixed = command
        .arg(
            Arg::new("config")
                .short('f')
                .long("config")
                .value_name("FILE")
                .help("YAML file with options; flags win over it"),
        )
        .arg(
            Arg::new("setParameter")
                .long("setParameter")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("Sets a server parameter; may be repeated"),
        )
        .arg(
            Arg::new("verbose")
                .short('v')
                .long("verbose")
                .action(ArgAction::Count)
                .help("More log lines; up to -vvvvv"),
        )
        .arg(
            Arg::new("nounixsocket")
                .long("nounixsocket")
                .action(ArgAction::SetTrue)
                .help("Does not listen on a Unix socket"),
        );
    fixed.args(DEFINITIONS.iter().filter_map(flag))
}

/// The flag of a tunable. Its identifier is the tunable's name.
fn flag(definition: &'static Definition) -> Option<Arg> {
    let arg = Arg::new(definition.name).long(definition.flag?).help(help(definition));
    Some(match definition.kind {
        Kind::Boolean { .. } => arg.action(ArgAction::SetTrue),
        _ => arg.value_name("VALUE").allow_hyphen_values(true),
    })
}

fn help(definition: &Definition) -> String {
    let default = definition.default_setting().to_string();
    match definition.kind {
        Kind::Boolean { .. } => definition.meaning.to_owned(),
        _ if default.is_empty() => definition.meaning.to_owned(),
        _ => format!("{} [default: {default}]", definition.meaning),
    }
}

/// Runs a subcommand of `bench`.
///
/// # Errors
/// What the measurement ended with.
pub(crate) fn run_bench(matches: &ArgMatches) -> Result<(), BenchError> {
    // The arguments were declared by the same type, so that a failure is a wrong value, which clap explains itself.
    bench::run(&BenchCommand::from_arg_matches(matches).unwrap_or_else(|error| error.exit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_consistent() {
        command().debug_assert();
    }
}
