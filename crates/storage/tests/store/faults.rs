//! An engine whose writes and syncs can be made to fail, to stall, to panic and to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use storage::{
    Engine, EngineFailure, EngineHooks, HookedEngine, MemoryEngine, MutationLog, Pressure, StorageError,
    StorageOptions, Store, WriteUnit,
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
pub(crate) struct Faults {
    pub(crate) write_fault: Mutex<Fault>,
    pub(crate) sync_fault: Mutex<Fault>,
    /// Writes that are sent back as stalled before one succeeds.
    pub(crate) stalls: AtomicUsize,
    /// Writes that are refused before one succeeds.
    pub(crate) failures: AtomicUsize,
    pub(crate) write_delay: Mutex<Duration>,
    pub(crate) writes_begun: AtomicUsize,
    /// Syncs wait while this is true.
    sync_held: Mutex<bool>,
    sync_released: Condvar,
    pub(crate) syncs_begun: AtomicUsize,
    /// Whoever asks for the engine's debt panics.
    pub(crate) pressure_panics: AtomicBool,
    /// Full memtables that are said to wait for their flush.
    pub(crate) immutable_memtables: AtomicU64,
    /// What memtables are said to hold.
    pub(crate) unflushed_bytes: AtomicU64,
    pub(crate) flushes: AtomicUsize,
    /// The sequence number the last finished sync covered.
    pub(crate) synced: AtomicU64,
}

/// An engine, and what makes its steps fail.
pub(crate) fn faulty_engine() -> (Arc<Faults>, HookedEngine<Faults>) {
    let faults = Arc::new(Faults::default());
    (Arc::clone(&faults), HookedEngine::new(MemoryEngine::new(), faults))
}

/// A store on such an engine.
pub(crate) fn faulty_store() -> (Arc<Faults>, Store) {
    let (faults, engine) = faulty_engine();
    (faults, Store::with_engine(Arc::new(engine), &StorageOptions::small()).expect("a store"))
}

impl Faults {
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

impl EngineHooks for Faults {
    fn write(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        self.writes_begun.fetch_add(1, Ordering::SeqCst);
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
        memory.write(units, counters)
    }

    fn sync_journal(&self, memory: &MemoryEngine, _alone: bool) -> Result<(), EngineFailure> {
        let covered = memory.sequence();
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

    fn flush(&self, memory: &MemoryEngine) -> Result<(), StorageError> {
        self.unflushed_bytes.store(0, Ordering::SeqCst);
        self.flushes.fetch_add(1, Ordering::SeqCst);
        memory.flush()
    }

    fn accepts_writes(&self) -> bool {
        *self.write_fault.lock() != Fault::NoSpace
    }

    fn pressure(&self) -> Pressure {
        assert!(!self.pressure_panics.load(Ordering::SeqCst), "made to panic");
        let unflushed_bytes = self.unflushed_bytes.load(Ordering::SeqCst);
        let immutable_memtables = self.immutable_memtables.load(Ordering::SeqCst);
        Pressure {
            out_of_space: !self.accepts_writes(),
            unflushed_bytes,
            immutable_memtables,
            ..Pressure::default()
        }
    }
}
