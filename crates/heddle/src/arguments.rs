//! The command line. The flags of `serve` are made from the table of parameters; without a subcommand they
//! start the server as well, so that what calls `mongod` can call `heddle`.

use crate::echo_server::{NO_IO_URING, REPLY_BYTES};
use bench::{BenchCommand, BenchError};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};
use dispatch::parameters::{DEFINITIONS, Definition, Kind};

/// The whole command line.
pub(crate) fn command() -> Command {
    // Shown by `heddle serve --help` only.
    server_options(Command::new("heddle"))
        .mut_args(|option| option.hide(true))
        .about("A document database that speaks MongoDB's wire protocol")
        .override_usage("heddle <COMMAND>\n       heddle [OPTIONS OF serve]")
        .after_help("`heddle --dbpath DIRECTORY` is `heddle serve --dbpath DIRECTORY`, as with mongod.")
        .version(env!("CARGO_PKG_VERSION"))
        .args_conflicts_with_subcommands(true)
        .arg_required_else_help(true)
        .subcommand(server_options(Command::new("serve").about("Starts the server")))
        .subcommand(crate::calendar::command())
        .subcommand(crate::cluster::command())
        .subcommands(crate::backup::commands())
        .subcommands(crate::encryption::commands())
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
            Arg::new("auth")
                .long("auth")
                .action(ArgAction::SetTrue)
                .help("Holds every request to the privileges of who is logged in (security.authorization)"),
        )
        .arg(
            Arg::new("nounixsocket")
                .long("nounixsocket")
                .action(ArgAction::SetTrue)
                .help("Does not listen on a Unix socket"),
        );
    let ends_with = Arg::new(crate::cluster::ENDS_WITH).long(crate::cluster::ENDS_WITH).hide(true);
    let fixed = fixed.arg(ends_with.value_name("PID").value_parser(clap::value_parser!(i32)));
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
    // The arguments were declared by the same type, so that a failure is a wrong value, which clap explains
    // itself.
    bench::run(&BenchCommand::from_arg_matches(matches).unwrap_or_else(|error| error.exit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_consistent() {
        command().debug_assert();
    }

    /// The subcommand, and the value of `--port` that reaches the server.
    fn check(line: &str, expect: Result<(Option<&str>, &str), clap::error::ErrorKind>) {
        let parsed = command().try_get_matches_from(line.split(' ')).map_err(|error| error.kind());
        let found = parsed.as_ref().map(|matches| {
            let (name, given) =
                matches.subcommand().map_or((None, matches), |(name, given)| (Some(name), given));
            let port = given.try_get_one::<String>("net.port").ok().flatten();
            (name, port.map_or("", String::as_str))
        });
        assert_eq!(found, expect.as_ref().map(|expect| *expect), "{line}");
    }

    #[test]
    fn serve_is_what_it_does_without_a_subcommand() {
        use clap::error::ErrorKind;
        check("heddle serve --port 1", Ok((Some("serve"), "1")));
        check("heddle --dbpath /data --port 1", Ok((None, "1")));
        check("heddle -f mongod.conf", Ok((None, "")));
        check("heddle --config mongod.conf --port 1 -v", Ok((None, "1")));
        check("heddle parameters", Ok((Some("parameters"), "")));
        check("heddle", Err(ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand));
        check("heddle --help", Err(ErrorKind::DisplayHelp));
        check("heddle --version", Err(ErrorKind::DisplayVersion));
        check("heddle --port 1 serve", Err(ErrorKind::ArgumentConflict));
        check("heddle nonsense", Err(ErrorKind::InvalidSubcommand));
        check("heddle --nonsense 1", Err(ErrorKind::UnknownArgument));
    }

    #[test]
    fn the_first_help_names_the_commands_and_not_every_option() {
        let help = command().render_help().to_string();
        for wanted in ["serve", "bench", "heddle --dbpath DIRECTORY", "--version"] {
            assert!(help.contains(wanted), "{wanted} in {help}");
        }
        assert!(!help.contains("--wiredTiger") && help.lines().count() < 30, "{help}");
    }
}
