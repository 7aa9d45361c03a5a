//! What is asked of a server: documents, operations, and which documents the operations are about.
//!
//! ```text
//!   Settings (command line, workload file) ──build──▶ Workload: documents, operations as templates
//!                                                        │ compile, once for each thread
//!        KeySpace: which documents are there             ▼
//!        KeyChooser: which of them is next ──▶ WorkloadTraffic: writes requests, judges replies
//! ```
//!
//! # Invariants
//! - A document's content follows from the seed and its number, its key from its number alone: whoever loads
//!   it, it is the same.
//! - An operation chooses among documents that are known to be there: loaded, or inserted and acknowledged.
//! - No two inserts of a run have the same key, whichever thread or process sends them.

mod builtin;
#[cfg(test)]
mod chi_square;
mod concerns;
mod distribution;
mod documents;
mod keys;
mod model;
mod pattern;
mod plan;
mod settings;
mod template;
#[cfg(test)]
mod tests;
mod traffic;
mod zipf;

pub(crate) use concerns::{Concerns, W, WriteConcern};
pub(crate) use documents::Documents;
pub(crate) use model::{DATABASE, Workload};
pub(crate) use settings::{Settings, WorkloadFile};
pub(crate) use traffic::{Part, WorkloadSource, WorkloadTraffic, unix_milliseconds};

/// The workload of a file, for tests.
#[cfg(test)]
pub(crate) fn written(text: &str) -> WorkloadSource {
    let file = WorkloadFile { path: "w.toml".to_owned(), text: text.to_owned() };
    let settings = Settings { file: Some(file), ..Settings::default() };
    WorkloadSource::new(&settings, &Concerns::default()).expect("a workload")
}

/// Requests that any server answers, for tests of the generator.
#[cfg(test)]
pub(crate) fn pings() -> WorkloadSource {
    written("[[operations]]\nname = \"ping\"\ncommand = { ping = 1 }\n")
}
