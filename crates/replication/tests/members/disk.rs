//! The disk of a member: all of it is one journal; a crash loses what was not synced, from its end.

use crate::client::{PAIR, last};
use catalog::Catalog;
use fastrand::Rng;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use storage::{
    Disk, Engine, EngineFailure, EngineHooks, HookedEngine, MemoryEngine, MutationLog, Room, StableImage,
    WriteUnit,
};

const DISK_BYTES: u64 = 1 << 40;

#[derive(Debug, Default)]
struct Journal {
    stable: StableImage,
    /// How many batches are in it.
    synced: u64,
    tail: VecDeque<Vec<MutationLog>>,
    reserve: u64,
    /// There is no room.
    is_full: bool,
    /// Whether something was written since.
    waits_for_room: bool,
}

impl Journal {
    fn make_stable(&mut self, batches: usize) {
        self.synced += batches as u64;
        for log in self.tail.drain(..batches).flatten() {
            log.iter().for_each(|mutation| self.stable.apply(mutation));
        }
    }
}

/// It outlives the processes on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemberDisk(Arc<Mutex<Journal>>);

impl MemberDisk {
    /// An engine with what is stable. It writes to the disk until `dead`; `reader` looks while it does.
    pub(crate) fn engine(&self, dead: Arc<AtomicBool>, reader: Arc<Reader>) -> Arc<dyn Engine> {
        let memory = self.0.lock().unwrap().stable.engine();
        Arc::new(HookedEngine::new(memory, Arc::new(Recorder { journal: Arc::clone(&self.0), dead, reader })))
    }

    /// Up to where a sync that begins now makes it stable.
    pub(crate) fn begin_sync(&self) -> u64 {
        let journal = self.0.lock().unwrap();
        journal.synced + journal.tail.len() as u64
    }

    pub(crate) fn end_sync(&self, through: u64) {
        let mut journal = self.0.lock().unwrap();
        let batches = through.saturating_sub(journal.synced) as usize;
        journal.make_stable(batches);
    }

    pub(crate) fn fill(&self, is_full: bool) {
        let mut journal = self.0.lock().unwrap();
        (journal.is_full, journal.waits_for_room) = (is_full, false);
    }

    /// Whether a write is under way that only ends when there is room. What it writes may be there after a crash
    /// or not.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.0.lock().unwrap().waits_for_room
    }

    pub(crate) fn room(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Some first part of what was not synced is there by chance.
    pub(crate) fn crash(&self, random: &mut Rng) {
        let mut journal = self.0.lock().unwrap();
        let survivors = random.usize(..=journal.tail.len());
        journal.make_stable(survivors);
        journal.tail.clear();
        journal.waits_for_room = false;
    }
}

impl Disk for MemberDisk {
    fn room(&self) -> std::io::Result<Room> {
        let journal = self.0.lock().unwrap();
        let free = if journal.is_full { 0 } else { DISK_BYTES - journal.reserve };
        Ok(Room { total: DISK_BYTES, free })
    }

    fn set_reserve(&self, bytes: u64) -> std::io::Result<()> {
        let mut journal = self.0.lock().unwrap();
        if journal.is_full && bytes > journal.reserve {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        journal.reserve = bytes;
        Ok(())
    }

    fn reserve(&self) -> u64 {
        self.0.lock().unwrap().reserve
    }
}

/// Who reads published views while batches are written.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) catalog: OnceLock<Arc<Catalog>>,
    /// Planted: each batch is published at once.
    pub(crate) publishes: bool,
    /// A part of a unit was seen.
    pub(crate) is_torn: AtomicBool,
}

impl Reader {
    fn look(&self) {
        let Some(catalog) = self.catalog.get() else { return };
        if self.publishes {
            catalog.store().publish_view();
        }
        let Some(view) = catalog.store().published_view() else { return };
        let [one, other] = PAIR.map(|id| last(catalog, &view, id));
        if one != other {
            self.is_torn.store(true, Ordering::Relaxed);
        }
    }
}

struct Recorder {
    journal: Arc<Mutex<Journal>>,
    dead: Arc<AtomicBool>,
    reader: Arc<Reader>,
}

impl EngineHooks for Recorder {
    fn write(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        if !self.dead.load(Ordering::Relaxed) {
            let batch = units.iter().map(WriteUnit::log).chain([counters]).cloned().collect();
            let mut journal = self.journal.lock().unwrap();
            journal.tail.push_back(batch);
            journal.waits_for_room |= journal.is_full;
        }
        let sequence = memory.write(units, counters)?;
        if !self.dead.load(Ordering::Relaxed) {
            self.reader.look();
        }
        Ok(sequence)
    }
}
