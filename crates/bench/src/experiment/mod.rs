//! Experiments: `heddle bench article s0 | s1 | s3`, published ones, `heddle bench raw` and `heddle bench
//! cachegrind`. Each is a table of kinds of measurements, of what is compared, and of what an article says;
//! everything else is the same for all.
//!
//! ```text
//!   Experiment (a constant) + arguments ─▶ Settings ─▶ rows (kind × connections) × subjects (thread models, bare echoes)
//!                                │  Findings::gather: rounds, subjects in turns, the first one rotating
//!                                ▼
//!                 measure one cell on a fresh server ─▶ Measurement (figures, errors)
//!                                ▼
//!                 Report ─▶ table (Markdown), JSON, SVG, and a page with the article's figures beside ours
//! ```
//!
//! S2 (secondaries that read while they replay) needs replication, and S4 (steady latency on slow disks) the
//! storage work; each becomes an [`Experiment`] beside the others. Until then the command line says what they
//! wait for.

mod arguments;
mod cachegrind;
mod findings;
mod load;
mod measure;
mod page;
mod raw;
mod report;
mod s0;
mod s1;
mod s3;
mod subject;

pub(crate) use arguments::ExperimentArguments;
pub(crate) use cachegrind::EXPERIMENT as CACHEGRIND;
pub(crate) use raw::EXPERIMENT as RAW;

use crate::chart::Scale;
use crate::error::BenchError;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Subcommand};
use findings::{Cell, Column, Findings, P99, RATE, Side};
use load::Load;
use measure::What;
use report::Report;
use subject::Subject;

/// What is known of an experiment without measuring.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// `s0`, `s1`, `s3`, `raw`: as files are called.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What was measured by the article, and on what.
    pub(crate) about: &'static str,
    pub(crate) subjects: &'static [Subject],
    pub(crate) document_bytes: usize,
    pub(crate) kinds: &'static [Kind],
    /// The kinds that are measured when the command line names none, separated by commas.
    pub(crate) usual: &'static str,
    /// The article's figure beside one of ours, where it has one.
    pub(crate) published: Option<fn(&Cell, Column) -> Option<f64>>,
    pub(crate) statements: &'static [Statement],
}

/// One table of an experiment.
#[derive(Debug)]
pub(crate) struct Kind {
    /// On the command line, in the JSON file and in names of files.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Numbers of connections when the command line names none.
    pub(crate) clients: &'static [usize],
    pub(crate) what: What,
    pub(crate) comparisons: &'static [Comparison],
    /// The charts by number of connections, when there are several numbers.
    pub(crate) panels: &'static [(Column, Scale)],
}

/// A column of ratios of rates.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) heading: &'static str,
    /// What a rate is compared with: the same row under this subject, or under the best thread model.
    pub(crate) base: Option<Subject>,
    /// Base over this instead of this over base.
    pub(crate) inverse: bool,
}

/// The rate and the 99th percentile; latencies differ by powers of ten.
const SWEEP: &[(Column, Scale)] = &[(RATE, Scale::Linear), (P99, Scale::Logarithmic)];

/// One claim of an article.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) claim: &'static str,
    /// The article's figure.
    pub(crate) theirs: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) column: Column,
    /// Whose figures answer it, or, with another side, how many times as much as that one's they are.
    pub(crate) ours: Side,
    pub(crate) over: Option<Side>,
}

/// `heddle bench article …`.
#[derive(Debug, Subcommand)]
pub enum ArticleCommand {
    /// Thread models by number of clients: fast and slow requests, and the situations around them
    #[command(alias = "S0", mut_arg("kinds", |argument| s0::EXPERIMENT.kinds(argument)))]
    S0(ExperimentArguments),
    /// The transport: echo per thread model beside a bare epoll echo, finds beside that, and YCSB A by number
    /// of clients
    #[command(alias = "S1", mut_arg("kinds", |argument| s1::EXPERIMENT.kinds(argument)))]
    S1(ExperimentArguments),
    /// Small values: journaled writes of a thousand clients, and db_bench's patterns, per thread model
    #[command(alias = "S3", mut_arg("kinds", |argument| s3::EXPERIMENT.kinds(argument)))]
    S3(ExperimentArguments),
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// Runs a published experiment.
///
/// # Errors
/// When it could not be carried out, or not wholly.
pub(crate) fn run(command: &ArticleCommand) -> Result<(), BenchError> {
    match command {
        ArticleCommand::S0(arguments) => s0::EXPERIMENT.run(arguments),
        ArticleCommand::S1(arguments) => s1::EXPERIMENT.run(arguments),
        ArticleCommand::S3(arguments) => s3::EXPERIMENT.run(arguments),
        ArticleCommand::Other(words) => {
            let name = words.first().map_or("", String::as_str);
            Err(BenchError::Usage(match name.to_lowercase().as_str() {
                "s2" => "s2, secondaries that read while they replay, comes with replication".to_owned(),
                "s4" => "s4, steady latency on slow disks, comes with the storage work".to_owned(),
                _ => format!("there is no article '{name}'; there are s0, s1 and s3"),
            }))
        }
    }
}

impl Experiment {
    /// The option `--kinds` with the names of this experiment's.
    pub(crate) fn kinds(&self, argument: Arg) -> Arg {
        let values = self.kinds.iter().map(|kind| PossibleValue::new(kind.name).help(kind.title));
        argument.value_parser(PossibleValuesParser::new(values)).default_value(self.usual)
    }

    /// # Errors
    /// When it could not be carried out, or not wholly.
    pub(crate) fn run(&'static self, arguments: &ExperimentArguments) -> Result<(), BenchError> {
        let settings = arguments.settings(self)?;
        let findings = Findings::gather(
            &settings.rows(),
            &settings.subjects,
            settings.rounds,
            &mut |row, subject, round| settings.measure(row, subject, round),
        )?;
        Report { experiment: self, settings: &settings, findings }.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_usually_measured_or_claimed_exists() {
        for experiment in [&s0::EXPERIMENT, &s1::EXPERIMENT, &s3::EXPERIMENT, &RAW, &CACHEGRIND] {
            let of_statements = experiment.statements.iter().map(|statement| statement.kind);
            for wanted in experiment.usual.split(',').chain(of_statements) {
                let is_there = experiment.kinds.iter().any(|kind| kind.name == wanted);
                assert!(is_there, "{} has no kind {wanted}", experiment.name);
            }
        }
    }
}
