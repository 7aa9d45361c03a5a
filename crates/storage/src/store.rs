//! The store: an engine, its pipeline and its threads behind one cheap handle.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::background::{self, Signal, StoreTasks};
use crate::budget::IoBudget;
use crate::budget::govern::RecoveryFigures;
use crate::budget::latency::ForegroundLatency;
use crate::build_memory::{BuildMemory, BuildPool};
use crate::counters::Counters;
use crate::directory::DataDirectory;
use crate::engine::memory::MemoryEngine;
use crate::engine::rocks::RocksEngine;
use crate::engine::{Engine, EngineFailure, EngineReader, FinishedTable, RangeBytes, TableRows};
use crate::error::{CommitError, OpenError, StorageError};
use crate::gate::GateLimits;
use crate::gate::queue::{Admission, Gate};
use crate::keyspace::{CounterId, KeyRange, Keyspace};
use crate::knobs::StorageKnobs;
use crate::memory::StoreMemory;
use crate::options::StorageOptions;
use crate::pace::BackgroundPace;
use crate::pipeline::group::{GroupCommit, GroupOutcome, GroupWriter, Queue, QueuePlace, Wakers};
use crate::pipeline::journal::{JournalWriter, SyncGroup, SyncOutcome};
use crate::pipeline::proposals::ProposalQueue;
use crate::pipeline::{CommitFuture, JournaledFuture, Receipt, turn};
use crate::read_ahead::ReadAhead;
use crate::reclaim::Reclaim;
use crate::row_cache::{CachedReader, RowCache};
use crate::space::{DataDisk, Disk, Space, SpaceState};
use crate::start;
use crate::statistics::{CommitCounts, StorageStatistics};
use crate::unit::{Growth, WriteUnit};
use crate::view::ReadView;
use crate::views::PublishedView;
use crate::watch::RecentWrites;

/// A loop writes a group in the middle of its turn when so many units wait. Each write costs a few
/// microseconds besides its units, which hardly matters from here on; with 256 units of 1 KB in a group, what
/// they touch no longer fits a core's cache, and a unit costs up to half as much again.
const DEFERRED_GROUP_UNITS: usize = 32;
/// Larger values are not copied out of the commit queue, which is locked meanwhile: reading them waits until
/// they are written.
const ENQUEUED_VALUE_BYTES_MAX: usize = 256 << 10;
/// Who waits for the I/O budget looks so often whether it is told to end.
const BACKGROUND_LOOK: Duration = Duration::from_millis(50);

/// An open store. Clones are the same store; the last one to go closes it.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<OpenStore>,
}

/// What [`Store::enqueued_version`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueuedVersion {
    /// What the unit puts under the key.
    Value(Vec<u8>),
    /// The unit is written or refused: the stored version is the latest.
    Settled,
    /// The unit does not put the key, or its value is too large: the latest version can be read when the unit
    /// is settled.
    OutOfReach,
}

/// What handles and commits under way share. The last one to go waits for the threads, so that the directory
/// is free when it is gone.
pub(crate) struct OpenStore {
    inner: Arc<StoreInner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub(crate) struct StoreInner {
    pub(crate) engine: Arc<dyn Engine>,
    latest: ReadView,
    /// The same for reads before writes.
    latest_for_writes: ReadView,
    /// Before the engine in `latest` and in views in time; `None` when it is switched off.
    pub(crate) rows: Option<Arc<RowCache>>,
    pub(crate) published: PublishedView,
    pub(crate) recent_writes: Arc<RecentWrites>,
    pub(crate) directory: Option<DataDirectory>,
    pub(crate) gate: Gate,
    pub(crate) gate_limits: GateLimits,
    /// Whether commits are slowed before the engine does it.
    pub(crate) has_gate: bool,
    pub(crate) group: GroupCommit<WriteUnit, CommitError>,
    /// Set when somebody owns the units that have entries.
    pub(crate) proposals: OnceLock<ProposalQueue>,
    pub(crate) journal: SyncGroup<CommitError>,
    /// What ended acknowledging, for good: a failed sync, or a broken invariant.
    breakdown: OnceLock<CommitError>,
    counters: Counters,
    /// The sequence number of the last batch; written by whoever writes one.
    applied: AtomicU64,
    counts: CommitCounts,
    pub(crate) signal: Signal,
    pub(crate) space: Space,
    pub(crate) reclaim: Reclaim,
    pub(crate) ahead: Arc<ReadAhead>,
    /// How fast everything in the background may move bytes now.
    pub(crate) budget: IoBudget,
    pub(crate) latency: Arc<ForegroundLatency>,
    pub(crate) recovery: Mutex<RecoveryFigures>,
    /// The options in force that can change, and what they are by default.
    pub(crate) knobs: Mutex<StorageKnobs>,
    pub(crate) default_knobs: OnceLock<StorageKnobs>,
    /// What it may hold in memory, whatever the knobs ask for.
    pub(crate) memory_bound: Mutex<StoreMemory>,
    /// Held by who brings sizes into effect, and taken before both.
    pub(crate) resizing: Mutex<()>,
    pace: BackgroundPace,
    build_threads: usize,
    pub(crate) builds: Arc<BuildPool>,
    pub(crate) closed: AtomicBool,
    /// What waits for room on the disk is to fail.
    pub(crate) is_ending: AtomicBool,
}

impl Store {
    /// Opens the store in a directory, which is created when it does not exist.
    ///
    /// # Errors
    /// See [`OpenError`]; each message says what to do.
    pub fn open(path: impl AsRef<Path>, options: &StorageOptions) -> Result<Store, OpenError> {
        let path = path.as_ref();
        options.validate().map_err(OpenError::Options)?;
        let directory = DataDirectory::open(path, options.master_key.as_ref())?;
        let disk = DataDisk::of(path);
        let unreadable = |source| OpenError::Unreadable { path: path.to_owned(), source };
        let options = options.fitted_to(disk.room().map_err(unreadable)?.total);
        let space = Space::of(Arc::new(disk), &options).map_err(unreadable)?;
        space.before_open().map_err(unreadable)?;
        start::look(&directory)?;
        let open = || {
            let spare_disk = space.state() != SpaceState::Normal;
            let engine = directory.engine_path();
            RocksEngine::open_in(directory.vault(), &engine, &options, directory.is_new(), spare_disk)
        };
        let engine = match open() {
            Err(failure) if failure.is_no_space() && space.give_up_all() => open(),
            opened => opened,
        };
        let engine = engine.map_err(|failure| failure.into_open_error(path))?;
        directory.check_journal_mark(engine.sequence())?;
        directory.mark_ready()?;
        Store::assemble(Arc::new(engine), Some(directory), space, &options, path)?.start_threads(path)
    }

    /// A store that keeps everything in memory and loses it when it is dropped.
    ///
    /// # Errors
    /// When the options contradict each other or no thread can be started.
    pub fn in_memory(options: &StorageOptions) -> Result<Store, OpenError> {
        Store::with_engine(Arc::new(MemoryEngine::new()), options)
    }

    /// A store on an engine of the caller's, for tests and simulation.
    ///
    /// # Errors
    /// As [`Store::in_memory`].
    pub fn with_engine(engine: Arc<dyn Engine>, options: &StorageOptions) -> Result<Store, OpenError> {
        options.validate().map_err(OpenError::Options)?;
        let path = Path::new("");
        Store::assemble(engine, None, Space::unwatched(), options, path)?.start_threads(path)
    }

    /// As [`Store::with_engine`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`Store::in_memory`], and when the room on the disk is not known.
    pub fn with_engine_and_disk(
        engine: Arc<dyn Engine>,
        disk: Arc<dyn Disk>,
        options: &StorageOptions,
    ) -> Result<Store, OpenError> {
        Store::on_disk(engine, disk, options)?.start_threads(Path::new(""))
    }

    /// As [`Store::with_engine_and_disk`], without threads: what they would do is done when it is told to.
    ///
    /// # Errors
    /// As [`Store::with_engine_and_disk`].
    pub fn without_threads(
        engine: Arc<dyn Engine>,
        disk: Arc<dyn Disk>,
        options: &StorageOptions,
    ) -> Result<(Store, StoreTasks), OpenError> {
        let store = Store::on_disk(engine, disk, options)?;
        let background = StoreTasks::new(Arc::clone(&store.inner));
        Ok((store, background))
    }

    fn on_disk(
        engine: Arc<dyn Engine>,
        disk: Arc<dyn Disk>,
        options: &StorageOptions,
    ) -> Result<Store, OpenError> {
        options.validate().map_err(OpenError::Options)?;
        let unreadable = |source| OpenError::Unreadable { path: PathBuf::new(), source };
        let space = Space::of(disk, options).map_err(unreadable)?;
        space.before_open().map_err(unreadable)?;
        Store::assemble(engine, None, space, options, Path::new(""))
    }

    fn assemble(
        engine: Arc<dyn Engine>,
        directory: Option<DataDirectory>,
        space: Space,
        options: &StorageOptions,
        path: &Path,
    ) -> Result<Store, OpenError> {
        let applied = engine.sequence();
        let row_bytes = options.row_cache_bytes;
        let rows = (row_bytes > 0).then(|| Arc::new(RowCache::new(row_bytes, applied)));
        let latest = |fills: bool| -> Arc<dyn EngineReader> {
            match &rows {
                Some(rows) => Arc::new(CachedReader::latest(Arc::clone(rows), engine.reader(), fills)),
                None => engine.reader(),
            }
        };
        let counters = Counters::load(&*engine.reader())
            .map_err(|error| OpenError::Corrupt { path: path.to_owned(), detail: error.to_string() })?;
        let inner = Arc::new(StoreInner {
            latest: ReadView::new(latest(true)),
            latest_for_writes: ReadView::new(latest(false)),
            rows,
            published: PublishedView::default(),
            recent_writes: Arc::default(),
            directory,
            gate: Gate::new(),
            gate_limits: options.gate,
            has_gate: !options.engine_defaults,
            group: GroupCommit::new(DEFERRED_GROUP_UNITS),
            proposals: OnceLock::new(),
            journal: SyncGroup::new(applied),
            breakdown: OnceLock::new(),
            counters,
            applied: AtomicU64::new(applied),
            counts: CommitCounts::default(),
            signal: Signal::new(options.journal_interval),
            space,
            reclaim: Reclaim::default(),
            ahead: Arc::default(),
            budget: IoBudget::new(options.io_budget_bytes_per_second),
            latency: Arc::new(ForegroundLatency::new(options.latency_target)),
            recovery: Mutex::default(),
            knobs: Mutex::new(options.knobs()),
            default_knobs: OnceLock::new(),
            memory_bound: Mutex::new(StoreMemory::unbounded(options)),
            resizing: Mutex::default(),
            pace: BackgroundPace::default(),
            build_threads: options.build_threads,
            builds: Arc::new(BuildPool::new(options.build_memory_bytes)),
            closed: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            engine,
        });
        inner.engine.time_reads(Arc::clone(&inner.latency));
        background::look_at_room(&inner, &inner.engine.pressure());
        Ok(Store { inner: Arc::new(OpenStore { inner, threads: Mutex::default() }) })
    }

    fn start_threads(self, path: &Path) -> Result<Store, OpenError> {
        let threads = background::start(&self.inner)
            .map_err(|source| OpenError::Unreadable { path: path.to_owned(), source })?;
        *self.inner.threads.lock() = threads;
        Ok(self)
    }

    /// The latest view: each read sees every write acknowledged before it.
    pub fn read_view(&self) -> ReadView {
        self.latest().clone()
    }

    pub(crate) fn latest(&self) -> &ReadView {
        &self.inner.latest
    }

    /// As [`Store::read_view`] and lent, for reads of what is to be written over: what only writers read does
    /// not enter the cache of hot rows.
    #[inline]
    pub fn write_view(&self) -> &ReadView {
        &self.inner.latest_for_writes
    }

    /// A view of this moment, for reads that must agree with each other. Takes a snapshot in the engine;
    /// old versions are kept while it lives.
    pub fn pinned_view(&self) -> ReadView {
        let pin = || self.inner.engine.pinned_reader();
        ReadView::new(match &self.inner.rows {
            Some(rows) => Arc::new(CachedReader::pinned(Arc::clone(rows), pin)),
            None => pin(),
        })
    }

    /// Commits a unit. See [`CommitFuture`] for what a poll and a drop do.
    pub fn commit(&self, unit: WriteUnit) -> CommitFuture {
        CommitFuture::new(Arc::clone(&self.inner), unit)
    }

    /// What the enqueued unit at a place puts under a key. Who builds a unit from it, or answers anybody with
    /// it, must do so by a unit that [follows](WriteUnit::follow) that place. The place comes from
    /// [`LatchTable::lock_latest`](crate::LatchTable::lock_latest), and the latch is still held.
    pub fn enqueued_version(&self, place: QueuePlace, keyspace: Keyspace, key: &[u8]) -> EnqueuedVersion {
        let copy = |unit: &WriteUnit| match unit.log().value_put(keyspace, key) {
            Some(value) if value.len() <= ENQUEUED_VALUE_BYTES_MAX => EnqueuedVersion::Value(value.to_vec()),
            _ => EnqueuedVersion::OutOfReach,
        };
        let looked = self.inner.queue(place.queue).look(place, copy);
        match looked {
            None => EnqueuedVersion::Settled,
            // What goes on from it may have entries, and must not follow it into the other queue.
            Some(_) if place.queue == Queue::Commits && self.inner.proposals.get().is_some() => {
                EnqueuedVersion::OutOfReach
            }
            Some(version) => version,
        }
    }

    /// The sequence number of the newest write of a document's key, or a later one. Never reads the disk. A
    /// write under way may be missed: who is about to write the key holds its latch.
    pub fn written_at_most(&self, row_key: &[u8]) -> u64 {
        let written = self.inner.rows.as_ref().and_then(|rows| rows.written(row_key));
        written.unwrap_or_else(|| self.inner.engine.sequence())
    }

    /// A receipt for whatever could be read so far.
    pub fn receipt_of_all(&self) -> Receipt {
        Receipt { sequence: self.inner.engine.sequence() }
    }

    /// Waits until the unit of a receipt is on stable storage. One sync serves all who wait at the same time,
    /// and an operation of many units waits once, for the newest of them.
    pub fn journaled(&self, receipt: Receipt) -> JournaledFuture {
        JournaledFuture::new(Arc::clone(&self.inner), receipt)
    }

    /// Tells that this thread's turn ends: everything ready was polled, next it waits for events. Writes what
    /// was committed on it since, as one group or two, unless another thread is about to. Only threads with
    /// [deferred commits](crate::defer_commits) need to call it; when nothing is owed it costs next to
    /// nothing.
    #[inline]
    pub fn turn_ended(&self) {
        if turn::take_debt(&self.inner.inner) {
            self.inner.group.turn_ended(&***self.inner);
        }
    }

    /// The value of a counter after the last applied batch; zero when it does not exist.
    pub fn counter(&self, counter: CounterId) -> i64 {
        self.inner.counters.get(counter)
    }

    /// The sequence number of the last applied batch.
    pub fn sequence(&self) -> u64 {
        self.inner.applied()
    }

    /// The sequence number up to which everything is on stable storage.
    pub fn synced_sequence(&self) -> u64 {
        self.inner.journal.synced()
    }

    /// How often the journal is synced without being asked.
    pub fn journal_interval(&self) -> Duration {
        self.inner.signal.journal_interval()
    }

    /// Changes it at once; values outside [`StorageOptions::JOURNAL_INTERVAL_RANGE`] are moved to its ends.
    pub fn set_journal_interval(&self, interval: Duration) {
        let range = StorageOptions::JOURNAL_INTERVAL_RANGE;
        self.inner.signal.set_journal_interval(interval.clamp(*range.start(), *range.end()));
    }

    /// Syncs the journal on this thread.
    ///
    /// # Errors
    /// When the journal has failed, now or before.
    pub fn sync_journal(&self) -> Result<(), CommitError> {
        self.journaled(Receipt { sequence: self.inner.applied() }).wait().map(drop)
    }

    /// Writes the memtables to table files and waits for it.
    ///
    /// # Errors
    /// What the engine reports.
    pub fn flush(&self) -> Result<(), StorageError> {
        let inner = self.inner.open()?;
        let _hurry = inner.hurry();
        inner.engine.flush()
    }

    /// Compacts a range, which gives back the room of deleted keys. Blocks for as long as it takes, or as
    /// `goes_on` says, which is asked after each table.
    ///
    /// # Errors
    /// What the engine reports.
    pub fn compact(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), StorageError> {
        let inner = self.inner.open()?;
        let _hurry = inner.hurry_compaction();
        inner.engine.compact(keyspace, range, goes_on)
    }

    /// Threads of its own that one index build may use; without one it computes where it is polled.
    pub fn build_threads(&self) -> usize {
        self.inner.build_threads
    }

    /// Memory for the entries of an index build that begins.
    pub fn build_memory(&self) -> Arc<BuildMemory> {
        Arc::new(BuildMemory::of(&self.inner.builds))
    }

    /// Writes rows into tables that are no part of the store yet; `path` is what the names of their files
    /// begin with. Blocks.
    ///
    /// # Errors
    /// What the rows or the engine report; nothing is left then.
    pub fn write_tables(
        &self,
        keyspace: Keyspace,
        rows: &mut dyn TableRows,
        path: &Path,
    ) -> Result<Vec<FinishedTable>, StorageError> {
        self.inner.open()?.engine.write_tables(keyspace, rows, path)
    }

    /// Makes tables part of the store, all at once and on stable storage. Views that are open already do not
    /// see them. Nobody else may have written between their keys, nor write there meanwhile. Blocks for as
    /// long as the engine takes to note them.
    ///
    /// # Errors
    /// What the engine reports; none of them is part of it then.
    pub fn ingest(&self, keyspace: Keyspace, tables: &[FinishedTable]) -> Result<(), StorageError> {
        let inner = self.inner.open()?;
        if let Some(failure) = inner.breakdown() {
            return Err(StorageError::Engine(failure.to_string().into()));
        }
        inner.engine.ingest(keyspace, tables)
    }

    /// Gives back the room of a range whose keys are all deleted and never come again, in the background.
    pub fn reclaim(&self, keyspace: Keyspace, range: KeyRange) {
        self.inner.reclaim.add((keyspace, range));
    }

    /// Whether the data disk has room for something large beside the data. Has the disk looked at again, too.
    ///
    /// # Errors
    /// [`StorageError::NoSpace`].
    pub fn check_room(&self) -> Result<(), StorageError> {
        self.inner.signal.changed();
        match self.inner.space.refusal(Growth::Grows) {
            Some(CommitError::NoSpace(detail)) => Err(StorageError::NoSpace(detail)),
            _ => Ok(()),
        }
    }

    /// How long whoever has moved so many bytes in the background, beside flush and compaction, is to wait
    /// before the next ones: all of them together stay within the I/O budget.
    pub fn background_pause(&self, bytes: u64) -> Duration {
        let written = || {
            let engine = self.inner.engine.statistics();
            engine.flush_bytes + engine.compaction_write_bytes
        };
        let budget = self.inner.budget.rates().total;
        self.inner.pace.pause_after(budget, bytes, written, ambient::now())
    }

    /// Waits on this thread for so long. `look` is asked now and then, and ends it with an error.
    ///
    /// # Errors
    /// What `look` says.
    pub fn await_background<E>(&self, bytes: u64, mut look: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let mut pause = self.background_pause(bytes);
        loop {
            look()?;
            if pause.is_zero() {
                return Ok(());
            }
            std::thread::sleep(pause.min(BACKGROUND_LOOK));
            pause = pause.saturating_sub(BACKGROUND_LOOK);
        }
    }

    /// Bytes that files beside the data may still take, with the reserve kept; all there are without a disk.
    pub fn room_beside_data(&self) -> u64 {
        self.inner.space.room_beside_data()
    }

    /// The data directory; `None` for a store in memory.
    pub fn path(&self) -> Option<&Path> {
        self.inner.directory.as_ref().map(DataDirectory::path)
    }

    /// Makes a consistent copy in a new directory that [`Store::open`] accepts. Table files are linked.
    ///
    /// # Errors
    /// What the engine or the file system reports.
    pub fn checkpoint(&self, directory: &Path) -> Result<(), StorageError> {
        let inner = self.inner.open()?;
        let _hurry = inner.hurry();
        DataDirectory::create_copy(directory, self.path(), |engine| inner.engine.checkpoint(engine))
    }

    /// An estimate of the bytes a range occupies.
    pub fn range_bytes(&self, keyspace: Keyspace, range: &KeyRange) -> RangeBytes {
        self.inner.engine.range_bytes(keyspace, range)
    }

    /// Counts and sizes of the pipeline and the engine.
    pub fn statistics(&self) -> StorageStatistics {
        let inner = &self.inner;
        let mut commit = inner.counts.read();
        commit.journal_lag = inner.applied().saturating_sub(inner.journal.synced());
        commit.breakdown = inner.breakdown.get().map(ToString::to_string);
        commit.gate = inner.gate.mode_name();
        commit.gate_held = inner.gate.held();
        commit.gate_waiting = inner.gate.waiting() as u64;
        let row_cache = inner.rows.as_ref().map(|rows| rows.statistics()).unwrap_or_default();
        let (space, engine) = (inner.space.statistics(), inner.engine.statistics());
        commit.engine_stalls = commit.engine_stalls.saturating_sub(engine.turned_back);
        let (budget, read_ahead) = (inner.budget_statistics(), inner.ahead.statistics());
        StorageStatistics { commit, row_cache, read_ahead, space, engine, budget }
    }

    /// Closes the store: settles what is enqueued, refuses what comes later, syncs, flushes, stops the
    /// threads. Reads still work afterwards; the files are released with the last handle, view and cursor.
    ///
    /// # Errors
    /// When the last sync or flush failed. The store is closed all the same.
    pub fn close(&self) -> Result<(), StorageError> {
        if !self.inner.begin_close() {
            return Ok(());
        }
        self.inner.stop_threads();
        self.inner.finish_close()
    }
}

impl OpenStore {
    fn stop_threads(&self) {
        self.signal.stop();
        self.reclaim.stop();
        self.ahead.stop();
        self.engine.stop_compacting();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A waker that one of the threads calls may drop the last handle.
            let own = thread.thread().id() == std::thread::current().id();
            if !own && thread.join().is_err() {
                tracing::error!("a storage thread had panicked");
            }
        }
    }
}

impl std::ops::Deref for OpenStore {
    type Target = Arc<StoreInner>;

    fn deref(&self) -> &Arc<StoreInner> {
        &self.inner
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Store").field("sequence", &self.sequence()).finish_non_exhaustive()
    }
}

impl StoreInner {
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    pub(crate) fn open(&self) -> Result<&StoreInner, StorageError> {
        if self.closed.load(Ordering::Acquire) { Err(StorageError::Closed) } else { Ok(self) }
    }

    /// Settles what is enqueued; returns whether that is still to be done.
    fn begin_close(&self) -> bool {
        if self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        while !self.group.close(CommitError::Closed, self) {
            self.group.resume(self);
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(proposals) = self.proposals.get() {
            while !proposals.group.close_owned(&CommitError::Closed, self) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        true
    }

    fn finish_close(&self) -> Result<(), StorageError> {
        // Nobody sets the rate any more, and somebody waits.
        self.engine.set_io_rate(self.knobs().io_budget_bytes_per_second);
        self.engine.set_compaction_rate(0);
        self.engine.set_compaction_processors(0);
        // The governor is gone: whoever waits at the gate goes on and is refused.
        self.open_gates();
        // Whoever is still polling a journaled commit may be syncing; this one covers everything.
        let (covered, outcome) = (self.applied(), self.sync());
        self.journal.close(matches!(outcome, SyncOutcome::Synced).then_some(covered), CommitError::Closed);
        let synced = match (self.breakdown(), outcome) {
            (Some(failure), _) => Err(StorageError::Engine(failure.to_string().into())),
            (None, SyncOutcome::Synced) => Ok(()),
            (None, SyncOutcome::NotNow) => {
                Err(StorageError::NoSpace(Arc::from("the journal could not be synced")))
            }
            (None, SyncOutcome::Failed(failure)) => Err(StorageError::Engine(failure.to_string().into())),
        };
        let flushed = self.engine.flush();
        self.engine.close();
        synced.and(flushed)
    }

    /// Why nothing is acknowledged any more, for good.
    #[inline]
    pub(crate) fn breakdown(&self) -> Option<&CommitError> {
        self.breakdown.get()
    }

    /// From now on no write is taken, and those that wait are refused. The first reason counts.
    pub(crate) fn break_down(&self, reason: &str) {
        let failure = self.note_breakdown(CommitError::Broken(reason.into()));
        self.journal.fail(failure);
        self.open_gates();
        self.group.resume(self);
    }

    /// Whoever waits goes on, and hears what has become of the store.
    fn open_gates(&self) {
        self.gate.set(Admission::Open, Duration::ZERO);
        if let Some(proposals) = self.proposals.get() {
            proposals.gate.set(Admission::Open, Duration::ZERO);
        }
    }

    fn note_breakdown(&self, failure: CommitError) -> CommitError {
        if self.breakdown.set(failure.clone()).is_ok() {
            tracing::error!(%failure, "no write is acknowledged any more");
        }
        self.breakdown.get().cloned().expect("the breakdown was noted")
    }

    pub(crate) fn queue(&self, queue: Queue) -> &GroupCommit<WriteUnit, CommitError> {
        match queue {
            Queue::Commits => &self.group,
            Queue::Proposals => &self.proposal_queue().group,
        }
    }

    pub(crate) fn write_group(&self, units: &[WriteUnit]) -> Result<u64, EngineFailure> {
        if units.iter().all(WriteUnit::is_empty) {
            return Ok(self.applied());
        }
        let started = ambient::now();
        let mut draft = self.counters.begin_batch();
        let sequence = self.counters.write_with(&mut draft, units, |counters| {
            let write = || self.engine.write(units, counters);
            match &self.rows {
                Some(rows) => rows.write_with(units, write),
                None => write(),
            }
        })?;
        let before = self.applied();
        assert!(before <= sequence, "the sequence number fell from {before} to {sequence}");
        self.recent_writes.note(units, sequence);
        self.applied.store(sequence, Ordering::Release);
        drop(draft);
        self.signal.written();
        let bytes = units.iter().map(WriteUnit::byte_len).sum::<usize>() as u64;
        let elapsed_us = ambient::elapsed(started).as_micros() as u64;
        self.latency.note(elapsed_us);
        self.counts.group_written(units.len() as u64, bytes, elapsed_us);
        Ok(sequence)
    }

    /// The engine is behind: new commits wait at the gate from here on; the governor opens it.
    pub(crate) fn stalled(&self) {
        self.counts.engine_stalls.fetch_add(1, Ordering::Relaxed);
        self.gate.set(Admission::Closed, Duration::ZERO);
    }
}

impl GroupWriter for StoreInner {
    type Unit = WriteUnit;
    type Failure = CommitError;

    fn write(&self, units: &[WriteUnit]) -> GroupOutcome<CommitError> {
        let failure = match self.breakdown() {
            Some(failure) => failure.clone(),
            None => match self.write_group(units) {
                Ok(sequence) => return GroupOutcome::Applied(sequence),
                Err(EngineFailure::Stalled) => {
                    self.stalled();
                    return GroupOutcome::Stalled;
                }
                Err(EngineFailure::NoSpace(_)) if self.space.make_way(ambient::now()) => {
                    return GroupOutcome::Stalled;
                }
                Err(EngineFailure::NoSpace(detail)) => CommitError::NoSpace(detail),
                Err(EngineFailure::Failed(detail)) => CommitError::Engine(detail),
            },
        };
        GroupOutcome::Failed(failure)
    }

    fn weight(unit: &WriteUnit) -> usize {
        unit.byte_len() + unit.entries().iter().map(Vec::len).sum::<usize>()
    }

    fn panicked(&self, words: &str) -> CommitError {
        self.note_breakdown(CommitError::Broken(
            format!("writing a group of commits panicked: {words}").into(),
        ))
    }

    fn sent_back(&self) {
        self.signal.written();
        self.signal.hasten();
    }

    fn refused(&self, units: usize) {
        self.counts.commits_failed.fetch_add(units as u64, Ordering::Relaxed);
    }

    fn followed(unit: &WriteUnit) -> Option<QueuePlace> {
        unit.followed()
    }

    fn enqueued(unit: &mut WriteUnit, place: QueuePlace) -> Wakers {
        unit.enqueued(place)
    }
}

impl JournalWriter for StoreInner {
    type Failure = CommitError;

    fn applied(&self) -> u64 {
        StoreInner::applied(self)
    }

    fn sync(&self) -> SyncOutcome<CommitError> {
        let covered = self.applied();
        let started = ambient::now();
        match self.engine.sync_journal(self.space.is_scarce()) {
            Ok(()) => {}
            Err(EngineFailure::Stalled | EngineFailure::NoSpace(_)) => return SyncOutcome::NotNow,
            Err(EngineFailure::Failed(detail)) => {
                return SyncOutcome::Failed(self.note_breakdown(CommitError::JournalFailed(detail)));
            }
        }
        self.counts.journal_synced(ambient::elapsed(started).as_micros() as u64);
        if let Some(directory) = &self.directory {
            directory.write_journal_mark(covered);
        }
        SyncOutcome::Synced
    }

    fn request_sync(&self) {
        self.signal.request_sync();
    }

    fn sync_panicked(&self, words: &str) -> CommitError {
        self.note_breakdown(CommitError::JournalFailed(format!("syncing panicked: {words}").into()))
    }
}
