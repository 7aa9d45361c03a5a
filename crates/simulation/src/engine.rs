//! The engine of one run of a server: in memory, over a [`SimulatedDisk`] that keeps what must outlive it.

use crate::bug::Bug;
use crate::disk::SimulatedDisk;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::{
    CursorOptions, Direction, Engine, EngineCursor, EngineFailure, EngineReader, EngineStatistics, KeyRange,
    KeyValue, Keyspace, MemoryEngine, Mutation, MutationLog, PinnedBytes, Pressure, RangeBytes, ReadTier,
    StorageError, WriteUnit,
};

/// An engine whose log is on a disk of the simulation.
pub(crate) struct SimulatedEngine {
    memory: MemoryEngine,
    disk: Arc<SimulatedDisk>,
    /// The server is dead: what is left of it reaches no disk any more.
    dead: AtomicBool,
    /// What a stale read shows.
    stale: Arc<Mutex<Arc<dyn EngineReader>>>,
}

struct Reader {
    inner: Arc<dyn EngineReader>,
    disk: Arc<SimulatedDisk>,
    stale: Arc<Mutex<Arc<dyn EngineReader>>>,
}

struct Cursor {
    inner: Box<dyn EngineCursor>,
    disk: Arc<SimulatedDisk>,
    tier: ReadTier,
    keyspace: Keyspace,
}

impl SimulatedEngine {
    /// Opens what the disk has.
    pub(crate) fn open(disk: &Arc<SimulatedDisk>) -> Arc<SimulatedEngine> {
        let memory = disk.engine();
        let stale = Arc::new(Mutex::new(memory.pinned_reader()));
        Arc::new(SimulatedEngine { memory, disk: Arc::clone(disk), dead: AtomicBool::new(false), stale })
    }

    /// From now on nothing reaches the disk.
    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    fn check_alive(&self) -> Result<(), EngineFailure> {
        match self.dead.load(Ordering::SeqCst) {
            true => Err(EngineFailure::Failed(Arc::from("dead"))),
            false => Ok(()),
        }
    }

    fn reader_of(&self, inner: Arc<dyn EngineReader>) -> Arc<dyn EngineReader> {
        Arc::new(Reader { inner, disk: Arc::clone(&self.disk), stale: Arc::clone(&self.stale) })
    }

    fn apply(&self, units: &[WriteUnit], counters: &MutationLog) -> Result<u64, EngineFailure> {
        if self.disk.has(Bug::StaleRead) && self.disk.chance(100) {
            *self.stale.lock() = self.memory.pinned_reader();
        }
        let sequence = self.memory.write(units, counters)?;
        self.disk.record(units, counters);
        Ok(sequence)
    }

    /// Writes what a planted fault leaves of a group.
    fn apply_wrongly(&self, units: &[WriteUnit], counters: &MutationLog) -> Result<u64, EngineFailure> {
        if self.disk.has(Bug::UnitOfGroupLost) && units.len() > 1 && self.disk.chance(200) {
            return self.apply(units.get(..units.len() - 1).unwrap_or_default(), counters);
        }
        if self.disk.has(Bug::CounterNotWritten) && self.disk.chance(20) {
            return self.apply(units, &MutationLog::default());
        }
        if self.disk.has(Bug::IndexEntryLost)
            && let Some(position) = units.iter().position(updates_an_index)
            && let Some(unit) = units.get(position)
            && self.disk.chance(100)
        {
            let crippled = without_an_index_entry(unit);
            self.apply(units.get(..position).unwrap_or_default(), &MutationLog::default())?;
            self.apply(&[crippled], &MutationLog::default())?;
            return self.apply(units.get(position + 1..).unwrap_or_default(), counters);
        }
        self.apply(units, counters)
    }
}

fn updates_an_index(unit: &WriteUnit) -> bool {
    let has = |matches: fn(&Mutation<'_>) -> bool| unit.log().iter().any(|mutation| matches(&mutation));
    has(|mutation| matches!(mutation, Mutation::Put { keyspace: Keyspace::Indexes, .. }))
        && has(|mutation| matches!(mutation, Mutation::Delete { keyspace: Keyspace::Indexes, .. }))
}

fn without_an_index_entry(unit: &WriteUnit) -> WriteUnit {
    let (mut rest, mut lost) = (WriteUnit::new(), false);
    for mutation in unit.log().iter() {
        match mutation {
            Mutation::Put { keyspace: Keyspace::Indexes, .. } if !lost => lost = true,
            Mutation::Put { keyspace, key, value } => rest.put(keyspace, key, value),
            Mutation::Delete { keyspace, key } => rest.delete(keyspace, key),
            Mutation::DeleteRange { keyspace, from, to } => rest.delete_range(keyspace, from, to),
        }
    }
    rest
}

impl Engine for SimulatedEngine {
    fn reader(&self) -> Arc<dyn EngineReader> {
        self.reader_of(self.memory.reader())
    }

    fn pinned_reader(&self) -> Arc<dyn EngineReader> {
        self.reader_of(self.memory.pinned_reader())
    }

    fn write(&self, units: &[WriteUnit], counters: &MutationLog) -> Result<u64, EngineFailure> {
        self.check_alive()?;
        let Some(failure) = self.disk.write_failure() else {
            return self.apply_wrongly(units, counters);
        };
        if self.disk.has(Bug::RefusedWriteVisible) && failure != EngineFailure::Stalled {
            self.apply(units, counters)?;
        }
        Err(failure)
    }

    fn sync_journal(&self, _alone: bool) -> Result<(), EngineFailure> {
        self.check_alive()?;
        self.disk.sync()
    }

    fn sequence(&self) -> u64 {
        self.memory.sequence()
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.memory.flush()
    }

    fn compact(&self, keyspace: Keyspace, range: &KeyRange) -> Result<(), StorageError> {
        self.memory.compact(keyspace, range)
    }

    fn checkpoint(&self, directory: &Path) -> Result<(), StorageError> {
        self.memory.checkpoint(directory)
    }

    fn range_bytes(&self, keyspace: Keyspace, range: &KeyRange) -> RangeBytes {
        self.memory.range_bytes(keyspace, range)
    }

    fn pressure(&self) -> Pressure {
        Pressure { out_of_space: !self.accepts_writes(), ..self.memory.pressure() }
    }

    fn statistics(&self) -> EngineStatistics {
        self.memory.statistics()
    }

    fn accepts_writes(&self) -> bool {
        !self.disk.is_full()
    }

    fn drop_files(&self, keyspace: Keyspace, range: &KeyRange) -> Result<(), StorageError> {
        self.memory.drop_files(keyspace, range)
    }

    fn stop_compacting(&self) {}

    fn close(&self) {
        self.memory.close();
    }
}

impl EngineReader for Reader {
    fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        self.disk.read_failure(tier)?;
        if self.disk.has(Bug::StaleRead) && keyspace == Keyspace::Documents && self.disk.chance(30) {
            return self.stale.lock().get(keyspace, key, tier);
        }
        self.inner.get(keyspace, key, tier)
    }

    fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<Box<dyn EngineCursor>, StorageError> {
        let inner = self.inner.cursor(keyspace, range, direction, options)?;
        Ok(Box::new(Cursor { inner, disk: Arc::clone(&self.disk), tier: options.tier, keyspace }))
    }

    fn sequence(&self) -> u64 {
        self.inner.sequence()
    }
}

impl EngineCursor for Cursor {
    fn seek(&mut self, key: &[u8]) {
        self.inner.seek(key);
    }

    fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError> {
        self.disk.read_failure(self.tier)?;
        let passes = self.disk.has(Bug::EntryPassed) && self.keyspace == Keyspace::Indexes;
        if passes && self.disk.chance(10) {
            self.inner.next()?;
        }
        self.inner.next()
    }
}
