//! The cache of hot rows above the engine: values of single keys as they are, without the engine's way to
//! them through memtables, filters, indexes and blocks. See `docs/design/row-cache.md`.
//!
//! Only [`Keyspace::Documents`] is read through it, by the latest view and by views in time; cursors never
//! do.

mod removals;
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
use crate::unit::{Mutation, WriteUnit};
use crate::view::PinnedBytes;
pub(crate) use table::Row;
use table::{AsOf, Lookup, RowTable};

/// Threads that count at the same time mostly do so on cache lines of their own.
const COUNT_STRIPES: usize = 16;
/// Buckets of a large group are on their way from memory while so many in front of them are dealt with.
const PREFETCHED_AHEAD: usize = 16;

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
    /// A cache for so many bytes, before an engine at a sequence number.
    pub(crate) fn new(bytes: u64, sequence: u64) -> RowCache {
        RowCache { rows: RowTable::new(bytes, sequence), counts: Default::default() }
    }

    /// Carries out the leader's write of `units`, which returns the sequence number of the batch; nobody
    /// finds a row that it changes while it is under way. Should the engine panic, it stays so: nobody knows
    /// what was written.
    pub(crate) fn write_with<E>(
        &self,
        units: &[WriteUnit],
        write: impl FnOnce() -> Result<u64, E>,
    ) -> Result<u64, E> {
        let removes_range = self.begin(units);
        let written = write();
        self.end(units, written.as_ref().ok().copied(), removes_range);
        written
    }

    /// Returns whether a range is removed.
    fn begin(&self, units: &[WriteUnit]) -> bool {
        let mut removes_range = false;
        for mutation in self.fetched_ahead(units) {
            match mutation {
                Mutation::Put { key, .. } | Mutation::Delete { key, .. } => {
                    self.rows.begin_write(hash(key));
                }
                Mutation::DeleteRange { from, to, .. } => {
                    removes_range = true;
                    self.rows.removals().begin(from, to);
                }
            }
        }
        removes_range
    }

    /// What concerns the cache, in order, while the buckets of what comes next are on their way.
    fn fetched_ahead<'u>(&self, units: &'u [WriteUnit]) -> impl Iterator<Item = Mutation<'u>> {
        let mut ahead = mutations(units).skip(PREFETCHED_AHEAD);
        mutations(units).inspect(move |_| {
            if let Some(Mutation::Put { key, .. } | Mutation::Delete { key, .. }) = ahead.next() {
                self.rows.prefetch(hash(key));
            }
        })
    }

    /// With the batch's sequence number, or without one when nothing was written.
    fn end(&self, units: &[WriteUnit], sequence: Option<u64>, removes_range: bool) {
        if let Some(sequence) = sequence {
            self.rows.applied(sequence);
        }
        for mutation in self.fetched_ahead(units) {
            let (key, value) = match mutation {
                Mutation::Put { key, value, .. } => (key, Some(value)),
                Mutation::Delete { key, .. } => (key, None),
                Mutation::DeleteRange { .. } => continue,
            };
            // A group may write below a range that it removes: its rows only stay where nothing was removed.
            self.rows.end_write(hash(key), key, value.filter(|_| !removes_range), sequence);
        }
        if removes_range {
            self.rows.removals().end();
        }
    }

    /// The sequence number of the newest write of a key, or a later one; `None` while one is under way.
    pub(crate) fn written(&self, key: &[u8]) -> Option<u64> {
        self.rows.newest_write(hash(key))
    }

    /// Changes what rows may take in bytes; what is too much goes at once.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        self.rows.set_budget(bytes);
    }

    /// Bytes that rows take.
    pub(crate) fn bytes(&self) -> u64 {
        self.rows.usage().0
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

/// What concerns the cache, in order.
fn mutations(units: &[WriteUnit]) -> impl Iterator<Item = Mutation<'_>> {
    let all = units.iter().flat_map(|unit| unit.log().iter());
    all.filter(|mutation| mutation.keyspace() == Keyspace::Documents)
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    hasher.finish()
}

/// What a reader with the cache before it sees.
pub(crate) trait Sees: Send + Sync {
    fn lookup(&self, rows: &RowTable, hash: u64, key: &[u8]) -> Lookup;
}

/// Every acknowledged write.
pub(crate) struct Latest;

impl Sees for Latest {
    #[inline]
    fn lookup(&self, rows: &RowTable, hash: u64, key: &[u8]) -> Lookup {
        rows.lookup(hash, key)
    }
}

impl Sees for AsOf {
    #[inline]
    fn lookup(&self, rows: &RowTable, hash: u64, key: &[u8]) -> Lookup {
        rows.lookup_at(hash, key, *self)
    }
}

/// A reader of the engine's with the cache before it.
pub(crate) struct CachedReader<S> {
    rows: Arc<RowCache>,
    engine: Arc<dyn EngineReader>,
    sees: S,
    /// Whether what it finds in the engine enters the cache at once. Otherwise it is about to be written
    /// over, which brings it in while there is room, and it enters when it is asked for again.
    fills: bool,
}

impl CachedReader<Latest> {
    pub(crate) fn latest(
        rows: Arc<RowCache>,
        engine: Arc<dyn EngineReader>,
        fills: bool,
    ) -> CachedReader<Latest> {
        CachedReader { rows, engine, sees: Latest, fills }
    }
}

impl CachedReader<AsOf> {
    /// A reader of what `pin` pins.
    pub(crate) fn pinned(
        rows: Arc<RowCache>,
        pin: impl FnOnce() -> Arc<dyn EngineReader>,
    ) -> CachedReader<AsOf> {
        // Before it is pinned: one that ends in between is compared with once more, and harms nothing.
        let removals = rows.rows.removals().ended();
        let engine = pin();
        let sees = AsOf { sequence: engine.sequence(), removals };
        CachedReader { rows, engine, sees, fills: true }
    }
}

impl<S: Sees> EngineReader for CachedReader<S> {
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
        let as_of = match self.sees.lookup(&self.rows.rows, hash, key) {
            Lookup::Hit(row) => {
                self.rows.count(true);
                return Ok(Some(PinnedBytes::row(row)));
            }
            Lookup::Miss(as_of) => Some(as_of),
            Lookup::Bypass => None,
        };
        let found = self.engine.get(keyspace, key, tier)?;
        if let Some(value) = &found {
            self.rows.count(false);
            if let Some(as_of) = as_of {
                self.rows.rows.fill(hash, key, value, as_of, self.fills);
            }
        }
        Ok(found)
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
