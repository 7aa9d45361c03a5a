//! What a store holds in memory, and may hold.

use crate::engine::EngineMemory;
use crate::store::Store;

/// Memory of a store in bytes: what it holds, or what it may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMemory {
    /// The cache of hot rows.
    pub rows: u64,
    /// The engine's part.
    pub engine: EngineMemory,
}

impl Store {
    /// What the store holds. Cheap enough for a call every few milliseconds.
    pub fn memory(&self) -> StoreMemory {
        let rows = self.inner.rows.as_ref().map_or(0, |rows| rows.bytes());
        StoreMemory { rows, engine: self.inner.engine.memory() }
    }

    /// Changes what it may hold. Rows that are too much go at once, blocks when others enter the cache,
    /// memtables are flushed with the writes that come next. A cache of rows that is switched off stays so.
    pub fn bound_memory(&self, most: StoreMemory) {
        if let Some(rows) = &self.inner.rows {
            rows.set_capacity(most.rows);
        }
        self.inner.engine.bound_memory(most.engine);
    }
}
