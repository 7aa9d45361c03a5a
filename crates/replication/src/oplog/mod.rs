//! What an operation of the log says: the documents of `local.oplog.rs`, in MongoDB 7.0's shape.
//!
//! ```text
//!  Changes of one write unit ─▶ OplogObserver ─▶ entries of the unit ─place─▶ log ─▶ OplogEntry ─▶ Applier
//!                               (delta of an update)                 (ts, t)
//! ```
//! Entries are idempotent: each says what comes out, not what is done to it. `docs/design/oplog.md`.
//!
//! Source: MongoDB manual, "Replica Set Oplog"; the entries that a server of version 7.0 writes.

mod apply;
mod command;
pub mod delta;
mod entry;
mod frame;
mod observer;
mod operation;
#[cfg(test)]
mod replay_tests;
#[cfg(test)]
mod tests;
mod unit;

pub use apply::{Applier, ApplyError};
pub use command::{BuildStep, OplogCommand};
pub(crate) use entry::optime;
pub use entry::{Image, OplogEntry, Statement, StatementOrigin};
pub use frame::place;
pub(crate) use frame::{changes_names, placed};
pub use observer::OplogObserver;
pub(crate) use observer::{end_unit, is_logged, wall};
pub use operation::{Operation, OplogUpdate, Target};
pub(crate) use unit::append_parts;

/// What is wrong with an entry's bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed oplog entry: {0}")]
pub struct MalformedEntry(String);

impl MalformedEntry {
    fn new(defect: impl Into<String>) -> Self {
        MalformedEntry(defect.into())
    }
}
