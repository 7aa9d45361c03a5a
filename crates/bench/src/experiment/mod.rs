//! Experiments: `heddle bench article s0 | s1 | s2 | s3 | s4`, published ones, `heddle bench raw` and `heddle
//! bench cachegrind`. Each is a file of kinds of measurements, of what is compared, and of what an article
//! says; everything else is the same for all.
//!
//! ```text
//!   Experiment (s0.toml, …) + arguments ─▶ Settings ─▶ rows (kind × connections) × subjects (models, echoes)
//!                                │  Findings::gather: rounds, subjects in turns, the first one rotating
//!                                ▼
//!                 measure one cell on a fresh server: steps of groups ─▶ Measurement (figures, errors)
//!                                ▼
//!                 Report ─▶ table (Markdown), JSON, SVG, and a page with the article's figures beside ours
//! ```
//!
//! What is no load of some seconds has a file of its own: idle connections in `measure.rs`, `cachegrind.rs`,
//! and of S4 `steady.rs`, `expiry.rs` and `knobs.rs`, which tell of each second ([`trace::Trace`]).

mod arguments;
mod cachegrind;
mod column;
mod definition;
mod expiry;
mod findings;
mod knobs;
mod load;
mod measure;
mod page;
mod report;
mod set;
mod steady;
mod subject;
mod sync_probe;
mod trace;

pub(crate) use arguments::ExperimentArguments;
pub(crate) use definition::{CACHEGRIND, RAW};

use crate::error::BenchError;
use clap::Subcommand;
use definition::{Experiment, S0, S1, S2, S3, S4};
use findings::Findings;
use report::Report;
use subject::Subject;

/// `heddle bench article …`.
#[derive(Debug, Subcommand)]
pub enum ArticleCommand {
    /// Thread models by number of clients: fast and slow requests, and the situations around them
    #[command(alias = "S0", mut_arg("kinds", |argument| S0.kinds(argument)))]
    S0(ExperimentArguments),
    /// The transport: echo per thread model beside a bare epoll echo, finds beside that, and YCSB A by number
    /// of clients
    #[command(alias = "S1", mut_arg("kinds", |argument| S1.kinds(argument)))]
    S1(ExperimentArguments),
    /// Replica sets: reads of a secondary while it replays heavy writes, beside the same with reads held
    /// during each batch
    #[command(alias = "S2", mut_arg("kinds", |argument| S2.kinds(argument)))]
    S2(ExperimentArguments),
    /// Small values: journaled writes of a thousand clients, and db_bench's patterns, per thread model
    #[command(alias = "S3", mut_arg("kinds", |argument| S3.kinds(argument)))]
    S3(ExperimentArguments),
    /// Storage that never stalls: writes for minutes beside the same store as its engine comes, documents
    /// that expire outside of their window and within it, and the knobs that were turned
    #[command(alias = "S4", mut_arg("kinds", |argument| S4.kinds(argument)))]
    S4(ExperimentArguments),
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// Runs a published experiment.
///
/// # Errors
/// When it could not be carried out, or not wholly.
pub(crate) fn run(command: &ArticleCommand) -> Result<(), BenchError> {
    match command {
        ArticleCommand::S0(arguments) => S0.run(arguments),
        ArticleCommand::S1(arguments) => S1.run(arguments),
        ArticleCommand::S2(arguments) => S2.run(arguments),
        ArticleCommand::S3(arguments) => S3.run(arguments),
        ArticleCommand::S4(arguments) => S4.run(arguments),
        ArticleCommand::Other(words) => {
            let name = words.first().map_or("", String::as_str);
            Err(BenchError::Usage(format!("there is no article '{name}'; there are s0, s1, s2, s3 and s4")))
        }
    }
}

impl Experiment {
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
