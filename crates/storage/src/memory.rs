//! What a store holds in memory, and may hold.

use crate::engine::EngineMemory;
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
