//! An engine whose writes and syncs can be made to fail, to stall, to panic and to wait.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use storage::{
    Engine, EngineFailure, EngineReader, EngineStatistics, KeyRange, Keyspace, MemoryEngine, MutationLog,
    Pressure, RangeBytes, StorageError, WriteUnit,
};

/// What the next calls do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    Fail,
    NoSpace,
    Panic,
}

#[derive(Default)]
pub(crate) struct FaultyEngine {
    memory: MemoryEngine,
    pub(crate) write_fault: Mutex<Fault>,
    pub(crate) sync_fault: Mutex<Fault>,
    /// Writes that are sent back as stalled before one succeeds.
    pub(crate) stalls: AtomicUsize,
    /// Writes that are refused before one succeeds.
    pub(crate) failures: AtomicUsize,
    pub(crate) write_delay: Mutex<Duration>,
    /// Syncs wait while this is true.
    sync_held: Mutex<bool>,
    sync_released: Condvar,
    pub(crate) syncs_begun: AtomicUsize,
    /// Whoever asks for the engine's debt panics.
    pub(crate) pressure_panics: AtomicBool,
    /// What memtables are said to hold.
    pub(crate) unflushed_bytes: AtomicU64,
    pub(crate) flushes: AtomicUsize,
    /// The sequence number the last finished sync covered.
    pub(crate) synced: AtomicU64,
}

impl FaultyEngine {
    pub(crate) fn hold_syncs(&self, held: bool) {
        *self.sync_held.lock() = held;
        self.sync_released.notify_all();
    }
}

fn act(fault: Fault) -> Result<(), EngineFailure> {
    match fault {
        Fault::None => Ok(()),
        Fault::Fail => Err(EngineFailure::Failed(Arc::from("made to fail"))),
        Fault::NoSpace => Err(EngineFailure::NoSpace(Arc::from("made to be full"))),
        Fault::Panic => panic!("made to panic"),
    }
}

impl Engine for FaultyEngine {
    fn reader(&self) -> Arc<dyn EngineReader> {
        self.memory.reader()
    }

    fn pinned_reader(&self) -> Arc<dyn EngineReader> {
        self.memory.pinned_reader()
    }

    fn write(&self, units: &[WriteUnit], counters: &MutationLog) -> Result<u64, EngineFailure> {
        let delay = *self.write_delay.lock();
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        if self.stalls.load(Ordering::SeqCst) > 0 {
            self.stalls.fetch_sub(1, Ordering::SeqCst);
            return Err(EngineFailure::Stalled);
        }
        if self.failures.load(Ordering::SeqCst) > 0 {
            self.failures.fetch_sub(1, Ordering::SeqCst);
            act(Fault::Fail)?;
        }
        let fault = *self.write_fault.lock();
        act(fault)?;
        self.memory.write(units, counters)
    }

    fn sync_journal(&self, _alone: bool) -> Result<(), EngineFailure> {
        let covered = self.memory.sequence();
        self.syncs_begun.fetch_add(1, Ordering::SeqCst);
        let mut held = self.sync_held.lock();
        while *held {
            self.sync_released.wait(&mut held);
        }
        drop(held);
        let fault = *self.sync_fault.lock();
        act(fault)?;
        self.synced.store(covered, Ordering::SeqCst);
        Ok(())
    }

    fn sequence(&self) -> u64 {
        self.memory.sequence()
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.unflushed_bytes.store(0, Ordering::SeqCst);
        self.flushes.fetch_add(1, Ordering::SeqCst);
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
        assert!(!self.pressure_panics.load(Ordering::SeqCst), "made to panic");
        let out_of_space = !self.accepts_writes();
        let unflushed_bytes = self.unflushed_bytes.load(Ordering::SeqCst);
        Pressure { out_of_space, unflushed_bytes, ..self.memory.pressure() }
    }

    fn statistics(&self) -> EngineStatistics {
        self.memory.statistics()
    }

    fn accepts_writes(&self) -> bool {
        *self.write_fault.lock() != Fault::NoSpace
    }

    fn drop_files(&self, keyspace: Keyspace, range: &KeyRange) -> Result<(), StorageError> {
        self.memory.drop_files(keyspace, range)
    }

    fn stop_compacting(&self) {}

    fn close(&self) {
        self.memory.close();
    }
}
