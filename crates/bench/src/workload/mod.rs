//! What is asked of a server: documents, operations, and which documents the operations are about.
//!
//! ```text
//!   Settings (command line, workload file) ──build──▶ Workload: documents, operations as templates with generators
//!                                                        │ compile, once for each thread
//!        KeySpace: which documents are there             ▼
//!        KeyChooser: which of them is next ──▶ WorkloadTraffic: writes requests, judges replies (generator::Traffic)
//! ```
//!
//! # Invariants
//! - A document's content follows from the seed and its number, its key from its number alone: whoever loads it, it is the same.
//! - An operation chooses among documents that are known to be there: loaded, or inserted and acknowledged.
//! - No two inserts of a run have the same key, whichever thread or process sends them.

mod builtin;
#[cfg(test)]
mod chi_square;
mod concerns;
mod distribution;
mod documents;
mod file;
mod file_generator;
mod file_reader;
mod keys;
mod model;
mod plan;
mod random;
mod settings;
mod template;
#[cfg(test)]
mod tests;
mod traffic;
mod zipf;

pub(crate) use concerns::{Concerns, W, WriteConcern};
pub(crate) use documents::Documents;
pub(crate) use keys::number_of_birth;
pub(crate) use model::Workload;
pub(crate) use settings::{Settings, WorkloadFile};
pub(crate) use traffic::{Part, WorkloadSource, unix_milliseconds};
