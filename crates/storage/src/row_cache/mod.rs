//! The cache of hot rows above the engine: values of single keys as they are, without the engine's way to them through
//! memtables, filters, indexes and blocks. See `docs/design/row-cache.md`.
//!
//! Only [`Keyspace::Documents`] is read through it, by the latest view, and by a pinned one until something is written; cursors
//! never do.

mod table;
#[cfg(test)]
mod tests;

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustc_hash::FxHasher;

use crate::engine::{EngineCursor, EngineReader};
use crate::error::StorageError;
use crate::keyspace::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier};
use crate::statistics::RowCacheStatistics;
use crate::unit::{Operation, WriteUnit};
use crate::view::PinnedBytes;
pub(crate) use table::Row;
use table::{Lookup, RowTable};

/// Threads that count at the same time mostly do so on cache lines of their own.
const COUNT_STRIPES: usize = 16;

#[repr(align(64))]
#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Hot rows of the keyspace `documents`.
pub(crate) struct RowCache {
    rows: RowTable,
    counts: [Counts; COUNT_STRIPES],
}

impl RowCache {
    pub(crate) fn new(bytes: u64) -> RowCache {
        RowCache { rows: RowTable::new(bytes), counts: Default::default() }
    }

    /// Carries out the leader's write of `units`; nobody finds a row that it changes while it is under way.
    pub(crate) fn write_with<T, E>(
        &self,
        units: &[WriteUnit],
        write: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let change = Change::begin(&self.rows, units);
        let written = write();
        change.end(written.is_ok());
        written
    }

    pub(crate) fn statistics(&self) -> RowCacheStatistics {
        let (bytes, capacity_bytes) = self.rows.usage();
        let sum = |count: fn(&Counts) -> &AtomicU64| {
            self.counts.iter().map(|counts| count(counts).load(Ordering::Relaxed)).sum()
        };
        RowCacheStatistics {
            capacity_bytes,
            bytes,
            hits: sum(|counts| &counts.hits),
            misses: sum(|counts| &counts.misses),
        }
    }

    fn count(&self, hit: bool) {
        if let Some(counts) = self.counts.get(own_stripe()) {
            let count = if hit { &counts.hits } else { &counts.misses };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn own_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT_STRIPES;
    }
    OWN.with(|own| *own)
}

/// A write under way. Ends also when the engine panics: then its rows are forgotten.
struct Change<'a> {
    rows: &'a RowTable,
    units: &'a [WriteUnit],
    removes_range: bool,
    written: bool,
}

impl<'a> Change<'a> {
    fn begin(rows: &'a RowTable, units: &'a [WriteUnit]) -> Change<'a> {
        let mut removes_range = false;
        for operation in operations(units) {
            match operation {
                Operation::Put { key, .. } | Operation::Delete { key, .. } => {
                    rows.begin_write(hash(key));
                }
                Operation::DeleteRange { .. } => removes_range = true,
            }
        }
        if removes_range {
            rows.begin_removal();
        }
        Change { rows, units, removes_range, written: false }
    }

    fn end(mut self, written: bool) {
        self.written = written;
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // A group may write below a range that it removes: rows only stay where nothing was removed.
        let keeps = self.written && !self.removes_range;
        for operation in operations(self.units) {
            let (key, value) = match operation {
                Operation::Put { key, value, .. } => (key, Some(value)),
                Operation::Delete { key, .. } => (key, None),
                Operation::DeleteRange { .. } => continue,
            };
            self.rows.end_write(hash(key), key, value.filter(|_| keeps));
        }
        if self.removes_range {
            self.rows.end_removal();
        }
    }
}

/// What concerns the cache, in order.
fn operations(units: &[WriteUnit]) -> impl Iterator<Item = Operation<'_>> {
    let all = units.iter().flat_map(|unit| unit.log().iter());
    all.filter(|operation| operation.keyspace() == Keyspace::Documents)
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    hasher.finish()
}

/// The engine's latest reader with the cache before it.
pub(crate) struct CachedReader {
    rows: Arc<RowCache>,
    engine: Arc<dyn EngineReader>,
    /// Whether what it finds in the engine enters the cache at once. Otherwise it is about to be written over, which brings it in
    /// while there is room, and it enters when it is asked for again.
    fills: bool,
}

impl CachedReader {
    pub(crate) fn new(rows: Arc<RowCache>, engine: Arc<dyn EngineReader>, fills: bool) -> CachedReader {
        CachedReader { rows, engine, fills }
    }
}

impl EngineReader for CachedReader {
    fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        if keyspace != Keyspace::Documents {
            return self.engine.get(keyspace, key, tier);
        }
        let hash = hash(key);
        let ticket = match self.rows.rows.lookup(hash, key) {
            Lookup::Hit(row) => {
                self.rows.count(true);
                return Ok(Some(PinnedBytes::row(row)));
            }
            Lookup::Miss(ticket) => Some(ticket),
            Lookup::Bypass => None,
        };
        let found = self.engine.get(keyspace, key, tier)?;
        if let Some(value) = &found {
            self.rows.count(false);
            if let Some(ticket) = ticket {
                self.rows.rows.fill(hash, key, value, ticket, self.fills);
            }
        }
        Ok(found)
    }

    fn multi_get(
        &self,
        keyspace: Keyspace,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<PinnedBytes>>, StorageError> {
        self.engine.multi_get(keyspace, keys)
    }

    fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<Box<dyn EngineCursor>, StorageError> {
        self.engine.cursor(keyspace, range, direction, options)
    }

    fn sequence(&self) -> u64 {
        self.engine.sequence()
    }
}

/// A reader of one moment: what the cache has is of that moment too until something is written.
pub(crate) struct PinnedReader {
    pinned: Arc<dyn EngineReader>,
    latest: Arc<dyn EngineReader>,
    sequence: u64,
}

impl PinnedReader {
    pub(crate) fn new(pinned: Arc<dyn EngineReader>, latest: Arc<dyn EngineReader>) -> PinnedReader {
        let sequence = pinned.sequence();
        PinnedReader { pinned, latest, sequence }
    }

    fn is_latest(&self) -> bool {
        self.latest.sequence() == self.sequence
    }
}

impl EngineReader for PinnedReader {
    fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        if self.is_latest() {
            let found = self.latest.get(keyspace, key, tier)?;
            // Asked again: a write may have come in between. It is applied before its rows are in the cache.
            if self.is_latest() {
                return Ok(found);
            }
        }
        self.pinned.get(keyspace, key, tier)
    }

    fn multi_get(
        &self,
        keyspace: Keyspace,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<PinnedBytes>>, StorageError> {
        self.pinned.multi_get(keyspace, keys)
    }

    fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<Box<dyn EngineCursor>, StorageError> {
        self.pinned.cursor(keyspace, range, direction, options)
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }
}
