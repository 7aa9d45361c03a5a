//! The disk of a member: the data are one journal, of which a crash loses what was not synced, from its end;
//! beside them are the files of initial syncs.

use crate::client::{PAIR, last};
use crate::files;
use catalog::Catalog;
use fastrand::Rng;
use replication::initial_sync::{CopyError, adopt_copy};
use std::cell::Cell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use storage::{
    Disk, Engine, EngineFailure, EngineHooks, HookedEngine, MemoryEngine, MutationLog, OpenError, Room,
    StableImage, StorageError, StorageOptions, Store, WriteUnit,
};
use tempfile::TempDir;

const DISK_BYTES: u64 = 1 << 40;
/// Where the engine's files are in a data directory; they tell that there is one where the journal has the
/// data.
const ENGINE: &str = "engine";

/// Of every store.
pub(crate) fn options() -> StorageOptions {
    // Copies take a while, so that much happens meanwhile.
    StorageOptions { row_cache_bytes: 0, io_budget_bytes_per_second: 512 << 10, ..StorageOptions::small() }
}

#[derive(Debug, Default)]
struct Journal {
    stable: StableImage,
    /// How many batches are in it.
    synced: u64,
    tail: VecDeque<Vec<MutationLog>>,
    reserve: u64,
    /// There is no room.
    is_full: bool,
    /// Who applies does not look for room first: it meets the full disk.
    is_met: bool,
    /// So many writes more fail before one waits for room, …
    refusals: u32,
    /// … unless the process is told to stop when the last one has.
    ends: bool,
    has_ended: bool,
    /// Who applies writes now.
    applies: bool,
    /// Writes of who applies that have failed.
    refused: usize,
    /// Whether something was written since.
    waits_for_room: bool,
}

/// How a disk without room goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fullness {
    /// So many writes fail, whoever makes them; `None`: who applies waits before it writes.
    pub(crate) refusals: Option<u32>,
    /// The process is told to stop while the last of them waits.
    pub(crate) ends: bool,
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
#[derive(Debug, Clone)]
pub(crate) struct MemberDisk {
    journal: Arc<Mutex<Journal>>,
    directory: Arc<TempDir>,
}

impl MemberDisk {
    /// An empty one.
    pub(crate) fn new() -> Self {
        // Syncs cost nothing there.
        let memory = Path::new("/dev/shm");
        let directory = if memory.exists() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let directory = directory.expect("a directory");
        std::fs::create_dir(directory.path().join(ENGINE)).expect("a directory");
        MemberDisk { journal: Arc::default(), directory: Arc::new(directory) }
    }

    /// The data directory.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// An engine with what is stable. It writes to the disk until `dead`; `reader` looks while it does.
    pub(crate) fn engine(&self, dead: Arc<AtomicBool>, reader: Arc<Reader>) -> Arc<dyn Engine> {
        let mut journal = self.journal.lock().unwrap();
        // Who starts finds no room, and waits for some.
        (journal.refusals, journal.ends) = (0, false);
        let memory = journal.stable.engine();
        drop(journal);
        let recorder = Recorder { journal: Arc::clone(&self.journal), dead, reader };
        Arc::new(HookedEngine::new(memory, Arc::new(recorder)))
    }

    /// The store in a directory: that of the data, or of a copy.
    pub(crate) fn open(&self, path: &Path) -> Result<Store, OpenError> {
        let engine = match path == self.path() {
            true => self.engine(Arc::default(), Arc::default()),
            false => files::open(path.join(ENGINE)),
        };
        Ok(Store::without_threads(engine, self.room(), &options())?.0)
    }

    /// A copy that is whole takes the place of the data; whether there was one. The store that is opened as
    /// this one cannot be.
    pub(crate) fn adopt_copy(&self, fails: Option<usize>) -> Result<bool, CopyError> {
        let opened = Cell::new(0);
        let open = |path: &Path| {
            opened.set(opened.get() + 1);
            if fails == Some(opened.get()) {
                let source = std::io::Error::other("simulated");
                return Err(OpenError::Unreadable { path: path.to_owned(), source });
            }
            self.open(path)
        };
        let is_adopted = adopt_copy(self.path(), &open)?;
        if is_adopted {
            self.load_files().expect("a directory");
        }
        Ok(is_adopted)
    }

    /// What is in files becomes the data.
    fn load_files(&self) -> std::io::Result<()> {
        let engine = self.path().join(ENGINE);
        let mut stable = StableImage::default();
        files::load(&engine).iter().for_each(|mutation| stable.apply(mutation));
        let mut journal = self.journal.lock().unwrap();
        let Journal { reserve, is_full, is_met, .. } = *journal;
        *journal = Journal { stable, reserve, is_full, is_met, ..Journal::default() };
        std::fs::remove_dir_all(&engine)?;
        std::fs::create_dir(engine)
    }

    /// Up to where a sync that begins now makes it stable.
    pub(crate) fn begin_sync(&self) -> u64 {
        let journal = self.journal.lock().unwrap();
        journal.synced + journal.tail.len() as u64
    }

    pub(crate) fn end_sync(&self, through: u64) {
        let mut journal = self.journal.lock().unwrap();
        let batches = through.saturating_sub(journal.synced) as usize;
        journal.make_stable(batches);
    }

    /// There is no room from now on, or there is again.
    pub(crate) fn fill(&self, fullness: Option<Fullness>) {
        let mut journal = self.journal.lock().unwrap();
        let refusals = fullness.and_then(|fullness| fullness.refusals);
        (journal.is_full, journal.waits_for_room) = (fullness.is_some(), false);
        (journal.is_met, journal.refusals) = (refusals.is_some(), refusals.unwrap_or(0));
        journal.ends = fullness.is_some_and(|fullness| fullness.ends);
    }

    /// Whether who applies meets what room there is not.
    pub(crate) fn is_met(&self) -> bool {
        self.journal.lock().unwrap().is_met
    }

    /// Who applies begins to write, or has; how many of its writes have failed.
    pub(crate) fn apply(&self, applies: bool) -> usize {
        let mut journal = self.journal.lock().unwrap();
        journal.applies = applies;
        std::mem::take(&mut journal.refused)
    }

    /// Whether the process was told to stop while it waited for room.
    pub(crate) fn has_ended(&self) -> bool {
        self.journal.lock().unwrap().has_ended
    }

    /// Whether a write is under way that only ends when there is room. What it writes may be there after a
    /// crash or not.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.journal.lock().unwrap().waits_for_room
    }

    pub(crate) fn room(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Some first part of what was not synced is there by chance.
    pub(crate) fn crash(&self, random: &mut Rng) {
        let mut journal = self.journal.lock().unwrap();
        let survivors = random.usize(..=journal.tail.len());
        journal.make_stable(survivors);
        journal.tail.clear();
        (journal.waits_for_room, journal.has_ended) = (false, false);
    }
}

impl Disk for MemberDisk {
    fn room(&self) -> std::io::Result<Room> {
        let journal = self.journal.lock().unwrap();
        let free = if journal.is_full { 0 } else { DISK_BYTES - journal.reserve };
        Ok(Room { total: DISK_BYTES, free })
    }

    fn set_reserve(&self, bytes: u64) -> std::io::Result<()> {
        let mut journal = self.journal.lock().unwrap();
        if journal.is_full && bytes > journal.reserve {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        journal.reserve = bytes;
        Ok(())
    }

    fn reserve(&self) -> u64 {
        self.journal.lock().unwrap().reserve
    }
}

/// Who reads published views while batches are written.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) catalog: OnceLock<Weak<Catalog>>,
    /// Planted: each batch is published at once.
    pub(crate) publishes: bool,
    /// Planted: what a full disk refuses of who applies is taken for written.
    pub(crate) believes_full_disk: bool,
    /// Readers are let in.
    pub(crate) is_let_in: AtomicBool,
    /// A part of a unit was seen.
    pub(crate) is_torn: AtomicBool,
}

impl Reader {
    fn look(&self) {
        if !self.is_let_in.load(Ordering::Relaxed) {
            return;
        }
        let Some(catalog) = self.catalog.get().and_then(Weak::upgrade) else { return };
        if self.publishes {
            catalog.store().publish_view();
        }
        let Some(view) = catalog.store().published_view() else { return };
        let [one, other] = PAIR.map(|id| last(&catalog, &view, id));
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

impl Recorder {
    /// Whether a write finds no room; whether it is that of who applies.
    fn refuses(&self) -> Option<bool> {
        let mut journal = self.journal.lock().unwrap();
        if !journal.is_full || (journal.refusals == 0 && !journal.has_ended) {
            return None;
        }
        journal.refused += usize::from(journal.applies);
        journal.refusals = journal.refusals.saturating_sub(1);
        if let Some(catalog) = self.reader.catalog.get().and_then(Weak::upgrade)
            && journal.ends
            && journal.refusals == 0
        {
            journal.has_ended = true;
            catalog.store().end_waits();
        }
        Some(journal.applies)
    }
}

impl EngineHooks for Recorder {
    fn write(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        if !self.dead.load(Ordering::Relaxed) {
            match self.refuses() {
                Some(true) if self.reader.believes_full_disk => return Ok(memory.sequence()),
                Some(_) => return Err(EngineFailure::NoSpace("simulated".into())),
                None => {}
            }
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

    fn sync_journal(&self, _: &MemoryEngine, _: bool) -> Result<(), EngineFailure> {
        if !self.dead.load(Ordering::Relaxed) {
            let mut journal = self.journal.lock().unwrap();
            let all = journal.tail.len();
            journal.make_stable(all);
        }
        Ok(())
    }

    fn checkpoint(&self, memory: &MemoryEngine, directory: &Path) -> Result<(), StorageError> {
        if self.journal.lock().unwrap().is_full {
            return Err(StorageError::NoSpace("simulated".into()));
        }
        files::store(memory, directory).map_err(|error| StorageError::Engine(error.to_string().into()))
    }
}
