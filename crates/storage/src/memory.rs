//! What a store holds in memory, and may hold.

use crate::engine::EngineMemory;
use crate::gate::Band;
use crate::keyspace::Keyspace;
use crate::options::StorageOptions;
use crate::store::{Store, StoreInner};

/// Memory of a store in bytes: what it holds, or what it may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMemory {
    /// The cache of hot rows.
    pub rows: u64,
    /// Entries of index builds, and what they read to merge them.
    pub builds: u64,
    /// The engine's part.
    pub engine: EngineMemory,
}

impl StoreMemory {
    /// Nothing but what the options say.
    pub(crate) fn unbounded(options: &StorageOptions) -> StoreMemory {
        let engine = EngineMemory { cache: u64::MAX, memtables: options.memtables_bytes };
        StoreMemory { rows: u64::MAX, builds: u64::MAX, engine }
    }

    /// Unflushed bytes from which on commits are slowed, and wait: memtables have what is lent to them, or
    /// more than that. Flushing them takes time, and nothing else keeps them from growing meanwhile.
    pub(crate) fn memtables_band(&self, memtable_bytes: u64) -> Band {
        // So much can be in memtables none of which is full: it is flushed with the writes that come next,
        // and these must be able to come.
        let without_full_ones = memtable_bytes.saturating_mul(Keyspace::ALL.len() as u64);
        let paced = self.engine.memtables.max(without_full_ones / 2);
        Band { paced, closed: paced.saturating_mul(2).max(paced.saturating_add(1)) }
    }
}

impl Store {
    /// What the store holds. Cheap enough for a call every few milliseconds.
    pub fn memory(&self) -> StoreMemory {
        let rows = self.inner.rows.as_ref().map_or(0, |rows| rows.bytes());
        StoreMemory { rows, builds: self.inner.builds.held() as u64, engine: self.inner.engine.memory() }
    }

    /// Changes what it may hold, whatever the knobs ask for. Rows that are too much go at once, blocks when
    /// others enter the cache, memtables are flushed with the writes that come next, entries of builds go to
    /// the disk with the next documents. A cache of rows that is switched off stays so.
    pub fn bound_memory(&self, most: StoreMemory) {
        *self.inner.memory_bound.lock() = most;
        self.inner.builds.set_most(usize::try_from(most.builds).unwrap_or(usize::MAX));
        self.inner.apply_memory();
        // The gate may open or close with it.
        self.inner.signal.changed();
    }
}

impl StoreInner {
    /// Brings the caches into effect that the knobs ask for, as far as memory allows them.
    pub(crate) fn apply_memory(&self) {
        let _one_at_a_time = self.resizing.lock();
        let (knobs, most) = (self.knobs(), *self.memory_bound.lock());
        if let Some(rows) = &self.rows {
            rows.set_capacity(knobs.row_cache_bytes.min(most.rows));
        }
        let cache = knobs.cache_bytes.min(most.engine.cache);
        self.engine.bound_memory(EngineMemory { cache, memtables: most.engine.memtables });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_wait_for_memtables_that_have_more_than_is_lent() {
        let band = |memtables, memtable| {
            let engine = EngineMemory { cache: 0, memtables };
            let band = StoreMemory { engine, ..StoreMemory::default() }.memtables_band(memtable);
            (band.paced, band.closed)
        };
        assert_eq!(band(80, 8), (80, 160));
        assert_eq!(band(8, 8), (16, 32), "memtables that are nearly full must be able to become so");
        assert_eq!(band(u64::MAX, 8), (u64::MAX, u64::MAX), "without a bound they never do");
    }
}
