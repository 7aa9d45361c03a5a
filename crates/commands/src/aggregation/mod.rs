//! Running aggregation pipelines: sources, foreign collections, views, `$out` and `$merge`.
//!
//! ```text
//!  request ─▶ views::resolve ─▶ Pipeline (query) ─▶ Reader::open ─▶ RunningPipeline ─▶ batches of a cursor
//!             (stages of views                       │                    │
//!              come first)                           ▼                    ├▶ out: temporary collection
//!                                     executor, $documents, reports       └▶ merge: document by document
//!                                                    ▲
//!                                     foreign reads of $lookup and $unionWith
//! ```
//!
//! # Invariants
//! - Between two batches no read holds an iterator or a view of the store: `save` reaches every read of a
//!   pipeline, the foreign ones included.
//! - Whoever runs a pipeline checks for kills and time limits at the end of every slice, also while a stage
//!   collects its input.
//!
//! Source: MongoDB manual, "aggregate", "$out", "$merge", "Views".

mod cursor;
mod destination;
mod explain;
mod merge;
mod out;
mod reader;
mod reports;
mod request;
mod strict;
#[cfg(test)]
mod tests;
pub(crate) mod views;

pub(crate) use cursor::{RunningPipeline, give_first_batch, pipeline_failed};
pub(crate) use explain::explain_aggregate;
pub(crate) use merge::merge;
pub(crate) use out::out;
pub use out::remove_unfinished_outputs;
pub(crate) use reader::{Origin, Reader, refuse_database};
pub(crate) use reports::documents as report_documents;
pub(crate) use request::{AggregateRequest, AggregateTarget};
pub(crate) use strict::check_strictly;
