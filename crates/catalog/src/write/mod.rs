//! Writing documents: each document with its index entries and counters is part of one write unit.
//!
//! ```text
//!  collection latch (shared) ─▶ document latches ─▶ generate keys ─▶ unique latches ─▶ look up ─▶ commit
//!                                                                                     └ latches go ┘
//! ```
//! The unit owns the latches from the commit on: they are given up when it is applied, also when the
//! operation is dropped meanwhile. Waiting for the journal is the caller's, once for all its writes. The
//! latch of a document that is replaced is passed on earlier: the next update goes on from the enqueued unit
//! (`latest.rs`).
//!
//! Every read of a write is made from its [context](crate::OperationContext)'s view and goes as far as its
//! tier.

mod beside;
mod capped;
mod found;
mod hidden;
pub(crate) mod insert;
mod latest;
pub(crate) mod rules;
pub(crate) mod unique;
mod update;

pub use found::FoundDocuments;
pub use insert::InsertReport;
pub(crate) use update::index_changes;
pub use update::{Decision, UpdateReport};

use storage::{CursorOptions, ReadTier};

/// Cursors of a write's reads.
fn cursor_options(tier: ReadTier) -> CursorOptions {
    CursorOptions { tier, ..CursorOptions::default() }
}
