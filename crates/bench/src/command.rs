//! The subcommands of `heddle bench`.

use crate::echo::{EchoArguments, serve_echo};
use crate::error::BenchError;
use crate::experiment::{self, ArticleCommand, CACHEGRIND, ExperimentArguments, RAW};
use crate::generator::serve_worker;
use crate::result::{self, CompareArguments, ReportArguments};
use crate::run::{self, RunArguments};
use crate::servers::{ServerArguments, run_servers};
use clap::Subcommand;

/// `heddle bench …`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// A workload on any server that speaks the MongoDB wire protocol
    Run(Box<RunArguments>),
    /// The same workload on several running servers in turns, and one comparison of them
    Server(Box<ServerArguments>),
    /// Kinds of requests one after the other, each beside an echo of the same sizes
    #[command(mut_arg("kinds", |argument| RAW.kinds(argument).visible_alias("scenario")))]
    Raw(ExperimentArguments),
    /// The published experiments, every thread model in turns
    #[command(subcommand)]
    Article(ArticleCommand),
    /// Instructions and simulated cache misses per request, by valgrind
    #[command(mut_arg("kinds", |argument| CACHEGRIND.kinds(argument)),
        mut_arg("repetitions", |argument| argument.default_value("1")))]
    Cachegrind(ExperimentArguments),
    /// A further generator process, directed by another one
    #[command(hide = true)]
    Worker,
    /// Several runs against one of them, with ratios and confidence intervals
    Compare(CompareArguments),
    /// The page of a run, drawn again from its JSON file
    Report(ReportArguments),
    /// A bare echo server, the yardstick of the other measurements
    Echo(EchoArguments),
}

/// Runs a measurement; tables go to standard output, progress to standard error.
///
/// # Errors
/// When it could not be made. Failed requests are counted, not returned.
pub fn run(command: &BenchCommand) -> Result<(), BenchError> {
    match command {
        BenchCommand::Run(arguments) => run::run(arguments),
        BenchCommand::Server(arguments) => run_servers(arguments),
        BenchCommand::Raw(arguments) => RAW.run(arguments),
        BenchCommand::Article(command) => experiment::run(command),
        BenchCommand::Cachegrind(arguments) => CACHEGRIND.run(arguments),
        BenchCommand::Worker => serve_worker(),
        BenchCommand::Compare(arguments) => result::run_compare(arguments),
        BenchCommand::Report(arguments) => result::run_report(arguments),
        BenchCommand::Echo(arguments) => serve_echo(arguments),
    }
}

/// What is wrong with a command line, in one line.
pub fn complaint(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let said = said.collect::<Vec<_>>().join(" ");
    said.strip_prefix("error: ").map_or(said.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(words: &str) -> Result<BenchCommand, clap::Error> {
        let command = BenchCommand::augment_subcommands(Command::new("bench"));
        let matches = command.try_get_matches_from(words.split(' '))?;
        BenchCommand::from_arg_matches(&matches)
    }

    #[test]
    fn the_command_line_is_consistent() {
        BenchCommand::augment_subcommands(Command::new("bench")).debug_assert();
    }

    #[test]
    fn comparisons_are_repeated_unless_told_otherwise() {
        let check = |words: &str, expect: &str| {
            let parsed = format!("{:?}", parse(words).expect("a command line"));
            assert!(parsed.contains(expect), "'{expect}' is missing in {parsed}");
        };
        check("bench server mongodb://a x=mongodb://b", "repetitions: Some(3)");
        check("bench server mongodb://a x=mongodb://b --repetitions 5", "repetitions: Some(5)");
        check("bench run mongodb://a", "repetitions: None");
    }

    #[test]
    fn a_comparison_needs_two() {
        assert!(parse("bench server mongodb://a").is_err());
        assert!(parse("bench server mongodb://a localhost").is_err());
        assert!(parse("bench compare a.json").is_err());
        assert!(parse("bench compare a.json b.json --base 2").is_ok());
    }
}
