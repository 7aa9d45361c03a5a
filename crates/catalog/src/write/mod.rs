//! Writing documents: each document with its index entries and counters is part of one write unit.
//!
//! ```text
//!  collection latch (shared) ─▶ document latches ─▶ generate keys ─▶ unique latches ─▶ look up ─▶ commit
//!                                                                                     └ latches go ┘
//! ```
//! The latches are given up when the unit is applied; waiting for the journal comes after.

mod capped;
pub(crate) mod insert;
mod rules;
pub(crate) mod unique;
mod update;

pub use insert::InsertReport;
pub use update::{Change, UpdateReport};

use crate::WriteError;
use storage::{Acknowledge, Receipt, Store};

/// How a write is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// What to wait for.
    pub acknowledge: Acknowledge,
    /// Skips the collection's validator.
    pub bypass_validation: bool,
}

/// Waits for what the caller asked for, after the unit was applied and the latches were given up.
async fn acknowledge(store: &Store, receipt: Receipt, level: Acknowledge) -> Result<(), WriteError> {
    if level == Acknowledge::Journaled {
        store.journaled(receipt).await?;
    }
    Ok(())
}
