//! Writing documents: each document with its index entries and counters is part of one write unit.
//!
//! ```text
//!  collection latch (shared) ─▶ document latches ─▶ generate keys ─▶ unique latches ─▶ look up ─▶ commit
//!                                                                                     └ latches go ┘
//! ```
//! The unit owns the latches from the commit on: they are given up when it is applied, also when the operation is
//! dropped meanwhile. Waiting for the journal comes after. The latch of a document that is replaced is passed on earlier: the
//! next update goes on from the enqueued unit (`latest.rs`).
//!
//! Every read of a write goes as far as [`WriteOptions::tier`]. Where that is not enough the write ends with
//! [`storage::StorageError::WouldBlock`] before anything of it was written: the caller does it again where it may block.

mod capped;
pub(crate) mod insert;
mod latest;
mod rules;
pub(crate) mod unique;
mod update;

pub use insert::InsertReport;
pub use update::{Change, UpdateReport};

use crate::WriteError;
use crate::collection::Writing;
use std::time::Duration;
use storage::{Acknowledge, CursorOptions, ReadTier, Receipt, Store, WriteUnit};

/// How a write is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteOptions {
    /// What to wait for.
    pub acknowledge: Acknowledge,
    /// Skips the collection's validator.
    pub bypass_validation: bool,
    /// How far the reads go that the write needs: the document that is changed, unique keys, a capped collection's head.
    pub tier: ReadTier,
}

/// A unit that is applied, and how long that took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committed {
    receipt: Receipt,
    wait: Duration,
}

/// Commits a unit, which gives up the writer's latches when it is applied, and waits for that.
async fn commit(store: &Store, mut unit: WriteUnit, writing: &mut Writing) -> Result<Committed, WriteError> {
    unit.hold(std::mem::take(&mut writing.latches));
    let began = ambient::now();
    let receipt = store.commit(unit, Acknowledge::Applied).await?;
    Ok(Committed { receipt, wait: ambient::elapsed(began) })
}

/// Waits for what the caller asked for, after the unit was applied and the latches were given up. Answers with the time it
/// took.
async fn acknowledge(store: &Store, receipt: Receipt, level: Acknowledge) -> Result<Duration, WriteError> {
    if level != Acknowledge::Journaled {
        return Ok(Duration::ZERO);
    }
    let began = ambient::now();
    store.journaled(receipt).await?;
    Ok(ambient::elapsed(began))
}

/// Cursors of a write's reads.
fn cursor_options(tier: ReadTier) -> CursorOptions {
    CursorOptions { tier, ..CursorOptions::default() }
}
