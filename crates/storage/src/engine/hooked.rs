//! An engine in memory of which tests and simulations change single steps.

use std::path::Path;
use std::sync::Arc;

use super::memory::MemoryEngine;
use super::{
    Engine, EngineCursor, EngineFailure, EngineReader, EngineStatistics, FinishedTable, Pressure, RangeBytes,
    TableRows,
};
use crate::error::StorageError;
use crate::keyspace::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier};
use crate::unit::{MutationLog, WriteUnit};
use crate::view::{KeyValue, PinnedBytes};

/// Steps of an engine that can go another way than in memory; each does by itself what it does there.
#[expect(
    missing_docs,
    reason = "each is the method of the same name of the engine, its reader or its cursor"
)]
#[expect(clippy::missing_errors_doc, reason = "as above")]
pub trait EngineHooks: Send + Sync + 'static {
    fn write(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        memory.write(units, counters)
    }

    fn sync_journal(&self, memory: &MemoryEngine, alone: bool) -> Result<(), EngineFailure> {
        memory.sync_journal(alone)
    }

    fn flush(&self, memory: &MemoryEngine) -> Result<(), StorageError> {
        memory.flush()
    }

    fn checkpoint(&self, memory: &MemoryEngine, directory: &Path) -> Result<(), StorageError> {
        memory.checkpoint(directory)
    }

    fn accepts_writes(&self) -> bool {
        true
    }

    fn pressure(&self) -> Pressure {
        Pressure { out_of_space: !self.accepts_writes(), ..Pressure::default() }
    }

    fn get(
        &self,
        reader: &dyn EngineReader,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        reader.get(keyspace, key, tier)
    }

    /// Called in front of each leap of a cursor.
    fn before_seek(&self, _keyspace: Keyspace) {}

    /// Called in front of each step of a cursor, which it may move further.
    fn before_next(
        &self,
        _cursor: &mut dyn EngineCursor,
        _keyspace: Keyspace,
        _tier: ReadTier,
    ) -> Result<(), StorageError> {
        Ok(())
    }
}

/// A [`MemoryEngine`] with [`EngineHooks`].
pub struct HookedEngine<H> {
    memory: MemoryEngine,
    hooks: Arc<H>,
}

struct HookedReader<H> {
    inner: Arc<dyn EngineReader>,
    hooks: Arc<H>,
}

struct HookedCursor<H> {
    inner: Box<dyn EngineCursor>,
    keyspace: Keyspace,
    tier: ReadTier,
    hooks: Arc<H>,
    /// What follows a failed read is not defined.
    failed: bool,
}

impl<H: EngineHooks> HookedEngine<H> {
    /// Adds the hooks to an engine.
    pub fn new(memory: MemoryEngine, hooks: Arc<H>) -> HookedEngine<H> {
        HookedEngine { memory, hooks }
    }

    fn hooked(&self, inner: Arc<dyn EngineReader>) -> Arc<dyn EngineReader> {
        Arc::new(HookedReader { inner, hooks: Arc::clone(&self.hooks) })
    }
}

impl<H: EngineHooks> Engine for HookedEngine<H> {
    fn reader(&self) -> Arc<dyn EngineReader> {
        self.hooked(self.memory.reader())
    }

    fn pinned_reader(&self) -> Arc<dyn EngineReader> {
        self.hooked(self.memory.pinned_reader())
    }

    fn write(&self, units: &[WriteUnit], counters: &MutationLog) -> Result<u64, EngineFailure> {
        self.hooks.write(&self.memory, units, counters)
    }

    fn sync_journal(&self, alone: bool) -> Result<(), EngineFailure> {
        self.hooks.sync_journal(&self.memory, alone)
    }

    fn sequence(&self) -> u64 {
        self.memory.sequence()
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.hooks.flush(&self.memory)
    }

    fn compact(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), StorageError> {
        self.memory.compact(keyspace, range, goes_on)
    }

    fn checkpoint(&self, directory: &Path) -> Result<(), StorageError> {
        self.hooks.checkpoint(&self.memory, directory)
    }

    fn range_bytes(&self, keyspace: Keyspace, range: &KeyRange) -> RangeBytes {
        self.memory.range_bytes(keyspace, range)
    }

    fn pressure(&self) -> Pressure {
        self.hooks.pressure()
    }

    fn statistics(&self) -> EngineStatistics {
        self.memory.statistics()
    }

    fn accepts_writes(&self) -> bool {
        self.hooks.accepts_writes()
    }

    fn drop_files(&self, keyspace: Keyspace, range: &KeyRange) -> Result<(), StorageError> {
        self.memory.drop_files(keyspace, range)
    }

    fn write_tables(
        &self,
        keyspace: Keyspace,
        rows: &mut dyn TableRows,
        path: &Path,
    ) -> Result<Vec<FinishedTable>, StorageError> {
        self.memory.write_tables(keyspace, rows, path)
    }

    fn ingest(&self, keyspace: Keyspace, tables: &[FinishedTable]) -> Result<(), StorageError> {
        let unit = FinishedTable::units(tables, keyspace);
        // What can go wrong with a write can with this, and what keeps an image of the disk hears of it.
        let written = self.hooks.write(&self.memory, &[unit], &MutationLog::default());
        written.map(drop).map_err(EngineFailure::into_error)
    }

    fn stop_compacting(&self) {
        self.memory.stop_compacting();
    }

    fn close(&self) {
        self.memory.close();
    }
}

impl<H: EngineHooks> EngineReader for HookedReader<H> {
    fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        self.hooks.get(&*self.inner, keyspace, key, tier)
    }

    fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<Box<dyn EngineCursor>, StorageError> {
        let inner = self.inner.cursor(keyspace, range, direction, options)?;
        let hooks = Arc::clone(&self.hooks);
        Ok(Box::new(HookedCursor { inner, keyspace, tier: options.tier, hooks, failed: false }))
    }

    fn sequence(&self) -> u64 {
        self.inner.sequence()
    }
}

impl<H: EngineHooks> EngineCursor for HookedCursor<H> {
    fn seek(&mut self, key: &[u8]) {
        self.hooks.before_seek(self.keyspace);
        self.failed = false;
        self.inner.seek(key);
    }

    fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError> {
        assert!(!self.failed, "a cursor is sought again after it failed");
        if let Err(error) = self.hooks.before_next(&mut *self.inner, self.keyspace, self.tier) {
            self.failed = true;
            return Err(error);
        }
        self.inner.next()
    }
}
