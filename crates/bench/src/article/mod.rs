//! The published experiments as commands: `heddle bench article s0 | s1 | s3`.
//!
//! ```text
//!   arguments ─▶ Settings ─▶ rows (kind × connections) × subjects (thread models, bare echoes)
//!                                │  plan: rounds, models interleaved, the first one rotating
//!                                ▼
//!                 measure one cell on a fresh server ─▶ Measurement (figures, errors)
//!                                ▼
//!                 Findings ─▶ table (Markdown), JSON, SVG, and a page with the article's figures beside ours
//! ```
//!
//! What an article published is here in two forms: S0's table (`published`), which stands beside our figures row by row, and
//! what else the articles say (`statement`), each with a function that takes our figure from the findings.
//!
//! S2 (secondaries that read while they replay) needs replication, and S4 (steady latency on slow disks) the storage work; each
//! becomes a module beside [`s0`], with an `Article` of its own and a variant of [`ArticleCommand`]. Until then the command line
//! says what they wait for.

mod arguments;
mod chart;
mod figures;
mod page;
mod plan;
mod published;
mod report;
mod s0;
mod s1;
mod s3;
mod scale;
mod servers;
mod statement;
mod subject;
mod table;
mod target;

pub(crate) use arguments::Settings;
pub(crate) use servers::{Served, echo_launch};
pub(crate) use subject::Subject;

use crate::error::BenchError;
use clap::Subcommand;

/// `heddle bench article …`.
#[derive(Debug, Subcommand)]
pub enum ArticleCommand {
    /// Thread models by number of clients: fast and slow requests, and the situations around them
    #[command(alias = "S0")]
    S0(s0::S0Arguments),
    /// The transport: echo per thread model beside a bare epoll echo, finds beside that, and YCSB A by number of clients
    #[command(alias = "S1")]
    S1(s1::S1Arguments),
    /// Small values: journaled writes of a thousand clients, and db_bench's patterns, per thread model
    #[command(alias = "S3")]
    S3(s3::S3Arguments),
    #[command(external_subcommand)]
    Other(Vec<String>),
}

/// Runs an experiment.
///
/// # Errors
/// When it could not be carried out, or not wholly.
pub(crate) fn run(command: &ArticleCommand) -> Result<(), BenchError> {
    match command {
        ArticleCommand::S0(arguments) => s0::run(arguments),
        ArticleCommand::S1(arguments) => s1::run(arguments),
        ArticleCommand::S3(arguments) => s3::run(arguments),
        ArticleCommand::Other(words) => {
            Err(BenchError::Usage(unknown(words.first().map_or("", String::as_str))))
        }
    }
}

fn unknown(name: &str) -> String {
    match name.to_lowercase().as_str() {
        "s2" => "s2, secondaries that read while they replay, comes with replication".to_owned(),
        "s4" => "s4, steady latency on slow disks, comes with the storage work".to_owned(),
        _ => format!("there is no article '{name}'; there are s0, s1 and s3"),
    }
}
