//! What a run yields: one value that every output is drawn from, so that a report can be drawn again from the
//! JSON file.
//!
//! ```text
//!   a run ──▶ RunResult ──▶ terminal table, JSON (docs/bench-report.md), CSV series, HTML page
//!                 ▲ │
//!   JSON file ────┘ └──▶ comparison of several, with confidence intervals from their repetitions
//! ```

mod compare;
mod comparison;
mod comparison_page;
mod csv;
mod describe;
#[cfg(test)]
mod documentation;
mod figures;
mod json;
mod latency;
mod machine;
mod model;
mod number;
mod output;
mod page;
mod run_page;
#[cfg(test)]
pub(crate) mod sample;
mod sampler;
mod server_status;
mod statistics;
mod summary;
mod table;
mod terminal;
mod turns;

pub(crate) use compare::{
    CompareArguments, ComparisonOutput, ReportArguments, compare, run_compare, run_report,
};
pub(crate) use comparison::check_base;
pub(crate) use machine::now;
pub(crate) use model::{
    Client, ExecutorSample, KindResult, Latency, LoadInfo, LoadPhase, Machine, Repetition, RunResult, SCHEMA,
    SecondFigures, SecondKind, SecondResult, ServerInfo, ServerSample, Target, Tool, WorkloadInfo,
};
pub(crate) use number::{amount, bytes, count, plain};
pub(crate) use output::{OutputOptions, finish, save, save_json};
#[cfg(test)]
pub(crate) use page::tests::check_self_contained;
pub(crate) use page::{charts, page, warning};
pub(crate) use sampler::Sampler;
pub(crate) use statistics::median;
pub(crate) use table::{Place, Table};
pub(crate) use turns::in_turns;
