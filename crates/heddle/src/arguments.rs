//! The command line. The flags of `serve` are made from the table of parameters.

use bench::{BenchError, EchoArguments, RawArguments, run_raw, serve_echo};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use commands::parameters::{DEFINITIONS, Definition, Kind};

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("heddle")
        .about("A document database that speaks MongoDB's wire protocol")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve())
        .subcommand(
            Command::new("bench")
                .about("Measures a server")
                .subcommand_required(true)
                .subcommand(RawArguments::augment_args(
                    Command::new("raw")
                        .about("Raw-message load, each scenario beside an echo of the same sizes"),
                ))
                .subcommand(EchoArguments::augment_args(
                    Command::new("echo").about("A bare echo server, the yardstick of bench raw"),
                )),
        )
        .subcommand(Command::new("parameters").about("Prints docs/configuration.md"))
}

fn serve() -> Command {
    let fixed = Command::new("serve")
        .about("Starts the server")
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
    match matches.subcommand() {
        Some(("raw", given)) => run_raw(&parsed::<RawArguments>(given)),
        Some(("echo", given)) => serve_echo(&parsed::<EchoArguments>(given)),
        _ => Ok(()),
    }
}

/// The arguments were declared by the same type, so that a failure is a wrong value, which clap explains itself.
fn parsed<A: FromArgMatches>(matches: &ArgMatches) -> A {
    A::from_arg_matches(matches).unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_consistent() {
        command().debug_assert();
    }
}
