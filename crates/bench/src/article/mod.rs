//! The published experiments as commands: `heddle bench article s0 | s1 | s3`.
//!
//! ```text
//!   arguments ─▶ Settings ─▶ rows (kind × connections) × subjects (thread models, bare echoes)
//!                                │  plan: rounds, models interleaved, the first one rotating
//!                                ▼
//!                 measure one cell on a fresh server ─▶ Measurement (figures, errors)
//!                                ▼
//!                 Findings ─▶ table (Markdown), JSON, SVG
//! ```
//!
//! S2 (secondaries) and S4 (storage) find their place beside these modules.

mod arguments;
mod chart;
mod figures;
mod plan;
mod published;
mod report;
mod s0;
mod s1;
mod s3;
mod servers;
mod subject;
mod table;

pub(crate) use arguments::Settings;
pub(crate) use servers::{Served, echo_launch};
pub(crate) use subject::Subject;

use crate::error::BenchError;
use clap::Subcommand;

/// `heddle bench article …`.
#[derive(Debug, Subcommand)]
pub enum ArticleCommand {
    /// Thread models by number of clients: fast and slow requests, and the situations around them
    S0(s0::S0Arguments),
    /// The transport alone: echo per thread model beside a bare epoll echo, and finds beside that
    S1(s1::S1Arguments),
    /// A thousand clients and small values: journaled writes and other mixes per thread model
    S3(s3::S3Arguments),
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
    }
}
