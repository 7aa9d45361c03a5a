//! The disk below a server: what is on stable storage, what the kernel has of the log, and what fails.
//!
//! ```text
//!  write ─▶ tail: batches in the order of the log ──sync──▶ stable image
//!            │                                                   │
//!            └─ kill: all of it   power cut: its first batches ──┴─▶ what the next start finds
//! ```

use crate::bug::Bug;
use crate::random::SeededRandom;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use storage::{
    Disk, EngineFailure, Keyspace, MemoryEngine, Mutation, MutationLog, ReadTier, Room, StableImage,
    StorageError, WriteUnit,
};

const TOTAL_BYTES: u64 = 1 << 30;
/// What the server is told to set aside.
pub(crate) const RESERVE_BYTES: u64 = 32 << 20;

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies: what was written is in the kernel.
    Kill,
    /// The machine dies: what was not synced may be lost, from its end.
    PowerCut,
}

/// What fails, in thousandths of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Writes that are refused.
    pub writes: u64,
    /// Writes that the engine asks for later again.
    pub stalls: u64,
    /// Reads that fail.
    pub reads: u64,
    /// Reads from memory that would need the disk.
    pub cold_reads: u64,
    /// The disk is full.
    pub full: bool,
    /// The next sync fails.
    pub sync: bool,
}

struct State {
    stable: StableImage,
    tail: VecDeque<Vec<MutationLog>>,
    /// Mutations of the catalog that a sync has left out.
    left_out: Vec<MutationLog>,
    faults: Faults,
    reserve: u64,
    random: SeededRandom,
}

/// A disk. It outlives the servers on it.
pub struct SimulatedDisk {
    state: Mutex<State>,
    bug: Option<Bug>,
}

impl SimulatedDisk {
    /// An empty one.
    pub fn new(seed: u64, bug: Option<Bug>) -> Arc<SimulatedDisk> {
        let state = State {
            stable: StableImage::default(),
            tail: VecDeque::new(),
            left_out: Vec::new(),
            faults: Faults::default(),
            reserve: 0,
            random: SeededRandom::new(seed),
        };
        Arc::new(SimulatedDisk { state: Mutex::new(state), bug })
    }

    /// From now on this fails.
    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// With this chance in a thousand.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        self.state.lock().random.chance(per_mille)
    }

    /// Whether the next write is refused.
    pub(crate) fn write_failure(&self) -> Option<EngineFailure> {
        let mut state = self.state.lock();
        let faults = state.faults;
        if faults.full {
            return Some(EngineFailure::NoSpace(Arc::from("simulated")));
        }
        if state.random.chance(faults.stalls) {
            return Some(EngineFailure::Stalled);
        }
        state.random.chance(faults.writes).then(|| EngineFailure::Failed(Arc::from("simulated")))
    }

    /// Whether a read fails that may go so far.
    pub(crate) fn read_failure(&self, tier: ReadTier) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        let faults = state.faults;
        if tier == ReadTier::BlockCache && state.random.chance(faults.cold_reads) {
            return Err(StorageError::WouldBlock);
        }
        match tier == ReadTier::Any && state.random.chance(faults.reads) {
            true => Err(StorageError::Engine(Arc::from("simulated"))),
            false => Ok(()),
        }
    }

    /// A batch is in the log.
    pub(crate) fn record(&self, units: &[WriteUnit], counters: &MutationLog) {
        let logs = units.iter().map(WriteUnit::log).chain([counters]);
        let batch = logs.filter(|log| !log.is_empty()).cloned().collect();
        self.state.lock().tail.push_back(batch);
    }

    /// Brings the log to stable storage.
    pub(crate) fn sync(&self) -> Result<(), EngineFailure> {
        let mut state = self.state.lock();
        if state.faults.sync {
            return Err(EngineFailure::Failed(Arc::from("simulated")));
        }
        if state.faults.full {
            return Err(EngineFailure::NoSpace(Arc::from("simulated")));
        }
        if self.has(Bug::SyncReportedEarly) {
            return Ok(());
        }
        state.make_stable(usize::MAX, self.bug);
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.state.lock().faults.full
    }

    /// The server on it has ended like this; answers with how many batches are lost.
    pub fn crash(&self, crash: Crash) -> usize {
        let mut state = self.state.lock();
        state.faults = Faults::default();
        let written = state.tail.len();
        if crash == Crash::Kill && self.has(Bug::RecoveryDropsLastBatch) {
            state.tail.pop_back();
        }
        let kept = match crash {
            Crash::Kill => written,
            // What the kernel has written of its own accord.
            Crash::PowerCut => state.random.below(written as u64 + 1) as usize,
        };
        if crash == Crash::PowerCut {
            if self.has(Bug::LogHasHoles) && kept > 1 {
                state.tail.pop_front();
            }
            if self.has(Bug::TornBatch)
                && let Some(log) = kept.checked_sub(1).and_then(|last| state.tail.get_mut(last))
                && log.len() > 1
            {
                log.pop();
            }
            state.left_out.clear();
        }
        state.make_stable(kept, None);
        state.tail.clear();
        written - kept
    }

    /// An engine that has what is stable.
    pub(crate) fn engine(&self) -> MemoryEngine {
        self.state.lock().stable.engine()
    }
}

impl State {
    fn make_stable(&mut self, batches: usize, bug: Option<Bug>) {
        for log in std::mem::take(&mut self.left_out) {
            self.apply(&log, |_| true);
        }
        for _ in 0..batches.min(self.tail.len()) {
            for log in self.tail.pop_front().unwrap_or_default() {
                let skips_catalog = bug == Some(Bug::CatalogIsNotSynced);
                self.apply(&log, |mutation| !skips_catalog || mutation.keyspace() != Keyspace::Meta);
                if skips_catalog {
                    self.left_out.push(catalog_of(&log));
                }
            }
        }
    }

    fn apply(&mut self, log: &MutationLog, takes: impl Fn(&Mutation<'_>) -> bool) {
        for mutation in log.iter().filter(takes) {
            self.stable.apply(mutation);
        }
    }
}

/// The mutations on the catalog's keyspace.
fn catalog_of(log: &MutationLog) -> MutationLog {
    let mut kept = MutationLog::default();
    for mutation in log.iter() {
        match mutation {
            Mutation::Put { keyspace: Keyspace::Meta, key, value } => kept.put(Keyspace::Meta, key, value),
            Mutation::Delete { keyspace: Keyspace::Meta, key } => kept.delete(Keyspace::Meta, key),
            _ => {}
        }
    }
    kept
}

impl Disk for SimulatedDisk {
    fn room(&self) -> std::io::Result<Room> {
        let state = self.state.lock();
        let free = if state.faults.full { 0 } else { TOTAL_BYTES / 2 - state.reserve };
        Ok(Room { total: TOTAL_BYTES, free })
    }

    fn set_reserve(&self, bytes: u64) -> std::io::Result<()> {
        let mut state = self.state.lock();
        if state.faults.full && bytes > state.reserve {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        state.reserve = bytes;
        Ok(())
    }

    fn reserve(&self) -> u64 {
        self.state.lock().reserve
    }
}
