//! One build as others see it: how far it is, whose it is, what stops it, what is written down of it.

use super::saved::{SavedBuild, SavedStage, directory_of, remove, remove_unnamed};
use crate::CatalogError;
use crate::collection::Collection;
use crate::index_keys::IndexEntryBuf;
use crate::keys::{CollectionId, IndexId};
use crate::waiters::Waiters;
use parking_lot::Mutex;
use query::checkpoint;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use storage::Store;
use uuid::Uuid;

/// Suspected duplicates kept in memory; a build that meets more reads its unique indexes once more at the
/// end.
const SUSPECTS_MAX: usize = 10_000;
/// What is done between two looks of `currentOp` at it.
const SHOWN_EACH: u64 = 1 << 15;
/// How often a build that stands still looks whether it is to end, …
const PAUSE_LOOK: Duration = Duration::from_millis(50);
/// … and, in so many of these times once, whether it may go on.
const LOOKS_PER_QUESTION: u32 = 10;

/// The steps of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BuildPhase {
    /// Documents are read.
    Scan = 0,
    /// Sorted entries become the index.
    Load = 1,
    /// What writers did meanwhile becomes part of it.
    Settle = 2,
}

/// What the scans of index builds keep to beside the I/O budget.
pub trait BuildPace: std::fmt::Debug + Send + Sync {
    /// How long to rest after so many documents, and bytes of them, were read.
    fn rest_after(&self, documents: u64, bytes: u64) -> Duration;

    /// Whether a build that nobody waits for may go on now.
    fn may_go_on(&self) -> bool;
}

/// What is being built, and for whom.
#[derive(Debug)]
pub(crate) struct BuildOrder {
    pub(crate) indexes: Vec<(IndexId, String)>,
    /// Indexes that go when the new ones are ready.
    pub(crate) replaced: Vec<IndexId>,
    /// Whether the log of a set asks for it, and will again after a crash.
    pub(crate) is_of_log: bool,
}

/// One index build, for `currentOp` and for stopping it.
#[derive(Debug)]
pub struct BuildProgress {
    collection: (CollectionId, Uuid),
    index_ids: Vec<IndexId>,
    names: Vec<String>,
    pub(super) replaced: Vec<IndexId>,
    is_of_log: bool,
    /// Where its files are; `None` where all stays in memory.
    directory: Option<PathBuf>,
    /// What a process before this one has written down, until the build goes on.
    left: Mutex<Option<SavedStage>>,
    /// Documents whose entries that process had in runs on the disk; `u64::MAX` where there was none.
    resumed_at: AtomicU64,
    /// Somebody works on it, or has.
    claimed: AtomicBool,
    phase: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
    /// Its threads are to end, whyever.
    stopped: AtomicBool,
    /// It has gone on by a part, or a thread of it has ended.
    pub(super) moved: Waiters,
    /// Entries of unique indexes whose fields another document had when they were written. A leaf in the
    /// lock order.
    pub(super) suspects: Mutex<Vec<(IndexId, IndexEntryBuf)>>,
    /// Not every suspect could be kept.
    pub(super) overflowed: AtomicBool,
    finished: Waiters,
    pace: Mutex<Option<Arc<dyn BuildPace>>>,
    /// It goes on after a restart, and nobody has asked for its indexes since.
    serves_nobody: AtomicBool,
    /// Threads of it that stand still until it may go on.
    standing: AtomicUsize,
}

impl BuildProgress {
    /// One that begins, and is worked on by who begins it.
    pub(super) fn new(collection: &Collection, order: BuildOrder) -> Arc<Self> {
        let build = Self::with(collection, order, None);
        build.claimed.store(true, Ordering::Release);
        Arc::new(build)
    }

    /// One that a process before this one has begun. It waits for somebody to claim it.
    pub(super) fn of_saved(collection: &Collection, order: BuildOrder, stage: SavedStage) -> Arc<Self> {
        let scanned = match &stage {
            SavedStage::Scan(scan) => scan.documents,
            SavedStage::Settle => collection.document_count(),
        };
        let build = Self::with(collection, order, Some(stage));
        build.resumed_at.store(scanned, Ordering::Relaxed);
        build.done.store(scanned, Ordering::Relaxed);
        Arc::new(build)
    }

    fn with(collection: &Collection, order: BuildOrder, left: Option<SavedStage>) -> Self {
        let BuildOrder { indexes, replaced, is_of_log } = order;
        let (index_ids, names): (Vec<IndexId>, Vec<String>) = indexes.into_iter().unzip();
        BuildProgress {
            collection: (collection.id(), collection.uuid()),
            directory: directory_of(&collection.store, collection.id(), index_ids.first().copied()),
            index_ids,
            names,
            replaced,
            is_of_log,
            left: Mutex::new(left),
            resumed_at: AtomicU64::new(u64::MAX),
            claimed: AtomicBool::new(false),
            phase: AtomicU8::new(BuildPhase::Scan as u8),
            done: AtomicU64::new(0),
            total: AtomicU64::new(collection.document_count()),
            cancelled: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            moved: Waiters::default(),
            suspects: Mutex::default(),
            pace: Mutex::default(),
            serves_nobody: AtomicBool::new(false),
            standing: AtomicUsize::new(0),
            overflowed: AtomicBool::new(false),
            finished: Waiters::default(),
        }
    }

    /// The names of the indexes being built.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What it is at.
    pub fn phase(&self) -> BuildPhase {
        match self.phase.load(Ordering::Relaxed) {
            0 => BuildPhase::Scan,
            1 => BuildPhase::Load,
            _ => BuildPhase::Settle,
        }
    }

    /// Documents, entries or notes that the phase has done with.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// How many there were at the beginning of the phase; of notes nobody knows.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Of a build that goes on after a crash: documents that needed not be scanned again.
    pub fn resumed_at(&self) -> Option<u64> {
        Some(self.resumed_at.load(Ordering::Relaxed)).filter(|&documents| documents != u64::MAX)
    }

    /// Whether the log of a set asks for it, and for nobody else's index than all members'.
    pub const fn is_of_log(&self) -> bool {
        self.is_of_log
    }

    /// Whether nobody works on it yet: a crash has ended who did.
    pub fn waits(&self) -> bool {
        !self.claimed.load(Ordering::Acquire)
    }

    /// Takes over a build that nobody works on; false when somebody does, or has.
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Nothing was done: it waits as before.
    pub(crate) fn give_back(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    pub(super) fn begin(&self, phase: BuildPhase, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The scan begins behind so many documents.
    pub(super) fn begin_scan(&self, behind: u64) {
        self.done.store(behind, Ordering::Relaxed);
        if self.resumed_at().is_some() {
            self.resumed_at.store(behind, Ordering::Relaxed);
        }
    }

    pub(super) fn advance(&self, count: u64) {
        let before = self.done.fetch_add(count, Ordering::Relaxed);
        if before / SHOWN_EACH != (before + count) / SHOWN_EACH {
            self.moved.notify();
        }
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire) || self.cancelled.load(Ordering::Acquire)
    }

    /// Asks the build to stop; it removes what it has made.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// From now on its scan keeps to this.
    pub(crate) fn keep_to(&self, pace: Option<Arc<dyn BuildPace>>) {
        *self.pace.lock() = pace;
    }

    /// How long to rest after so much was read.
    pub(super) fn rest_after(&self, documents: u64, bytes: u64) -> Duration {
        let pace = self.pace.lock().clone();
        pace.map_or(Duration::ZERO, |pace| pace.rest_after(documents, bytes))
    }

    /// Nobody waits for it, so that it may be told to stand still.
    pub(crate) fn serve_nobody(&self) {
        self.serves_nobody.store(true, Ordering::Release);
    }

    /// Somebody waits for it: it stands still no more.
    pub(crate) fn serve(&self) {
        self.serves_nobody.store(false, Ordering::Release);
    }

    /// Whether it stands still until its pace lets it go on.
    pub fn is_paused(&self) -> bool {
        self.standing.load(Ordering::Relaxed) > 0
    }

    /// Whether it is to stand still now.
    pub(super) fn is_to_pause(&self) -> bool {
        if !self.serves_nobody.load(Ordering::Acquire) || self.is_stopped() {
            return false;
        }
        let pace = self.pace.lock().clone();
        pace.is_some_and(|pace| !pace.may_go_on())
    }

    /// Stands still until it may go on, somebody waits for it, or it is to end. Blocks; who calls holds
    /// nothing of the store.
    pub(super) fn pause(&self) {
        self.standing.fetch_add(1, Ordering::Relaxed);
        while self.is_to_pause() {
            for _ in 0..LOOKS_PER_QUESTION {
                let serves_somebody = !self.serves_nobody.load(Ordering::Acquire);
                if serves_somebody || self.is_stopped() || checkpoint::look().is_err() {
                    break;
                }
                std::thread::sleep(PAUSE_LOOK);
            }
            if checkpoint::look().is_err() {
                break;
            }
        }
        self.standing.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn index_ids(&self) -> &[IndexId] {
        &self.index_ids
    }

    pub(crate) const fn finished(&self) -> &Waiters {
        &self.finished
    }

    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// What is left of the process before this one, once.
    pub(super) fn take_left(&self) -> Option<SavedStage> {
        self.left.lock().take()
    }

    /// Writes down how far it is, where there are files. `synced`: on stable storage, and not before what it
    /// has read of the store is.
    pub(super) fn save(&self, store: &Store, stage: SavedStage, synced: bool) -> Result<(), CatalogError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let (collection, uuid) = self.collection;
        let saved = SavedBuild {
            collection,
            uuid,
            indexes: self.index_ids.clone(),
            replaced: self.replaced.clone(),
            is_of_log: self.is_of_log,
            sequence: store.sequence(),
            stage,
        };
        if synced {
            store.sync_journal()?;
        }
        saved.write(directory, &store.vault(), synced).map_err(|error| super::run::unusable(&error))
    }

    /// Removes its files: it is over, or given up.
    pub(crate) fn remove_files(&self) {
        self.directory.iter().for_each(|directory| remove(directory));
    }

    /// Removes what the state does not name: it is in the store.
    pub(super) fn remove_files_but_state(&self) {
        self.directory.iter().for_each(|directory| remove_unnamed(directory, &[]));
    }

    /// Whether it can go on in another process.
    pub(crate) fn is_kept(&self) -> bool {
        self.directory.as_ref().is_some_and(|directory| directory.exists())
            && !self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn suspect(&self, index: IndexId, entry: &IndexEntryBuf) {
        let mut suspects = self.suspects.lock();
        if suspects.len() < SUSPECTS_MAX {
            suspects.push((index, entry.clone()));
        } else {
            self.overflowed.store(true, Ordering::Release);
        }
    }

    pub(super) fn check_going_on(&self) -> Result<(), CatalogError> {
        if self.cancelled.load(Ordering::Acquire) { Err(self.aborted()) } else { Ok(()) }
    }

    pub(super) fn aborted(&self) -> CatalogError {
        CatalogError::IndexBuildAborted(format!("Index build aborted: {}", self.names.join(", ")))
    }
}
