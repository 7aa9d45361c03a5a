//! The engine of one run of a server: in memory, over a [`SimulatedDisk`] that keeps what must outlive it.

use crate::bug::Bug;
use crate::disk::SimulatedDisk;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::{
    Engine, EngineCursor, EngineFailure, EngineHooks, EngineReader, HookedEngine, Keyspace, MemoryEngine,
    Mutation, MutationLog, PinnedBytes, ReadTier, StorageError, WriteUnit,
};

/// What becomes of the steps of an engine whose log is on a disk of the simulation.
pub(crate) struct DiskHooks {
    disk: Arc<SimulatedDisk>,
    /// The server is dead: what is left of it reaches no disk any more.
    dead: AtomicBool,
    /// What a stale read shows.
    stale: Mutex<Arc<dyn EngineReader>>,
    expiry: Mutex<Expiry>,
}

/// Where the TTL monitor is.
#[derive(Default)]
struct Expiry {
    /// It does something now.
    runs: bool,
    /// A step of it has begun.
    is_in_step: bool,
    /// What there was before the first write since then.
    before: Option<Arc<dyn EngineReader>>,
}

/// Opens what the disk has.
pub(crate) fn open(disk: &Arc<SimulatedDisk>) -> (Arc<DiskHooks>, HookedEngine<DiskHooks>) {
    let memory = disk.engine();
    let stale = Mutex::new(memory.pinned_reader());
    let (dead, expiry) = (AtomicBool::new(false), Mutex::default());
    let hooks = Arc::new(DiskHooks { disk: Arc::clone(disk), dead, stale, expiry });
    (Arc::clone(&hooks), HookedEngine::new(memory, hooks))
}

impl DiskHooks {
    /// From now on nothing reaches the disk.
    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Runs what the TTL monitor does now.
    pub(crate) fn expires(&self, run: impl FnOnce()) {
        self.expiry.lock().runs = true;
        run();
        self.expiry.lock().runs = false;
    }

    /// A step of the TTL monitor begins or has ended: what it reads from now on, it has not seen before.
    pub(crate) fn expiry_step(&self, begins: bool) {
        let mut expiry = self.expiry.lock();
        (expiry.is_in_step, expiry.before) = (begins, None);
    }

    /// What the monitor sees if it does not look again at what it has found.
    fn seen_before(&self) -> Option<Arc<dyn EngineReader>> {
        let expiry = self.expiry.lock();
        let looks_away = self.disk.has(Bug::ExpiredWithoutLookingAgain) && expiry.runs;
        expiry.before.clone().filter(|_| looks_away)
    }

    fn check_alive(&self) -> Result<(), EngineFailure> {
        match self.dead.load(Ordering::SeqCst) {
            true => Err(EngineFailure::Failed(Arc::from("dead"))),
            false => Ok(()),
        }
    }

    fn apply(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        if self.disk.has(Bug::StaleRead) && self.disk.chance(100) {
            *self.stale.lock() = memory.pinned_reader();
        }
        if self.disk.has(Bug::ExpiredWithoutLookingAgain) {
            let mut expiry = self.expiry.lock();
            if expiry.is_in_step && expiry.before.is_none() {
                expiry.before = Some(memory.pinned_reader());
            }
        }
        let sequence = memory.write(units, counters)?;
        self.disk.record(units, counters);
        Ok(sequence)
    }

    /// Writes what a planted fault leaves of a group.
    fn apply_wrongly(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        if self.disk.has(Bug::UnitOfGroupLost) && units.len() > 1 && self.disk.chance(200) {
            return self.apply(memory, units.get(..units.len() - 1).unwrap_or_default(), counters);
        }
        if self.disk.has(Bug::CounterNotWritten) && self.disk.chance(20) {
            return self.apply(memory, units, &MutationLog::default());
        }
        if self.disk.has(Bug::IndexEntryLost)
            && let Some(position) = units.iter().position(updates_an_index)
            && let Some(unit) = units.get(position)
            && self.disk.chance(100)
        {
            let crippled = without_an_index_entry(unit);
            self.apply(memory, units.get(..position).unwrap_or_default(), &MutationLog::default())?;
            self.apply(memory, &[crippled], &MutationLog::default())?;
            return self.apply(memory, units.get(position + 1..).unwrap_or_default(), counters);
        }
        self.apply(memory, units, counters)
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

impl EngineHooks for DiskHooks {
    fn write(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        self.check_alive()?;
        let Some(failure) = self.disk.write_failure() else {
            return self.apply_wrongly(memory, units, counters);
        };
        if self.disk.has(Bug::RefusedWriteVisible) && failure != EngineFailure::Stalled {
            self.apply(memory, units, counters)?;
        }
        Err(failure)
    }

    fn sync_journal(&self, _memory: &MemoryEngine, _alone: bool) -> Result<(), EngineFailure> {
        self.check_alive()?;
        self.disk.sync()
    }

    fn accepts_writes(&self) -> bool {
        !self.disk.is_full()
    }

    fn get(
        &self,
        reader: &dyn EngineReader,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        self.disk.read_failure(tier)?;
        if self.disk.has(Bug::StaleRead) && keyspace == Keyspace::Documents && self.disk.chance(30) {
            return self.stale.lock().get(keyspace, key, tier);
        }
        match self.seen_before().filter(|_| keyspace == Keyspace::Documents) {
            Some(before) => before.get(keyspace, key, tier),
            None => reader.get(keyspace, key, tier),
        }
    }

    fn before_next(
        &self,
        cursor: &mut dyn EngineCursor,
        keyspace: Keyspace,
        tier: ReadTier,
    ) -> Result<(), StorageError> {
        self.disk.read_failure(tier)?;
        let passes = self.disk.has(Bug::EntryPassed) && keyspace == Keyspace::Indexes;
        if passes && self.disk.chance(10) {
            cursor.next()?;
        }
        Ok(())
    }
}
