//! The seam between the store and what keeps the bytes.
//!
//! Two engines implement it: [`rocks`] for real, [`memory`] for tests and simulation; one suite
//! (`tests/store/conformance.rs`) holds both to the same behaviour, and [`hooked`], by which tests make
//! single steps go wrong.

pub(crate) mod hooked;
pub(crate) mod image;
pub(crate) mod memory;
pub(crate) mod rocks;
pub(crate) mod table;

use std::path::Path;
use std::sync::Arc;

use crate::budget::latency::ForegroundLatency;
use crate::error::StorageError;
use crate::keyspace::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier};
use crate::unit::{MutationLog, WriteUnit};
use crate::view::{KeyValue, PinnedBytes};
pub use table::{FinishedTable, TableRows};

/// A table on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFile {
    /// Within the engine's directory.
    pub name: String,
    /// Where its rows are.
    pub keyspace: Keyspace,
    /// Its first key, and behind its last one.
    pub range: KeyRange,
    /// Its length.
    pub bytes: u64,
}

/// An ordered key-value engine with snapshots and a write-ahead log.
///
/// The store calls [`Engine::write`] from one thread at a time; everything else may be called from any
/// thread at any time.
pub trait Engine: Send + Sync + 'static {
    /// A reader that sees every applied write.
    fn reader(&self) -> Arc<dyn EngineReader>;

    /// A reader that sees exactly the writes applied before this call.
    fn pinned_reader(&self) -> Arc<dyn EngineReader>;

    /// Writes all units and then the counters as one atomic batch; when it returns, the batch is visible
    /// and in the kernel's copy of the log. Returns the sequence number of its last mutation.
    ///
    /// # Errors
    /// Nothing of the batch is visible then. [`EngineFailure::Stalled`] asks for the same call later.
    fn write(&self, units: &[WriteUnit], counters: &MutationLog) -> Result<u64, EngineFailure>;

    /// Brings the log to stable storage: every batch whose `write` returned before this call. With `alone`,
    /// writes that come meanwhile are [`EngineFailure::Stalled`]: where one of them may find the disk full.
    ///
    /// # Errors
    /// After [`EngineFailure::Failed`] it is unknown what reached stable storage. After the other two
    /// nothing is lost, and a later call that succeeds covers what this one should have covered.
    fn sync_journal(&self, alone: bool) -> Result<(), EngineFailure>;

    /// The sequence number of the last applied mutation.
    fn sequence(&self) -> u64;

    /// Writes the memtables to table files and waits for it.
    ///
    /// # Errors
    /// What the engine reports.
    fn flush(&self) -> Result<(), StorageError>;

    /// Compacts a range of keys, which gives back the room of deleted ones. Blocks for as long as it takes,
    /// or as `goes_on` says, which is asked after each table.
    ///
    /// # Errors
    /// What the engine reports.
    fn compact(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), StorageError>;

    /// The files of its tables. One without files has none.
    ///
    /// # Errors
    /// What the engine reports.
    fn table_files(&self) -> Result<Vec<TableFile>, StorageError> {
        Ok(Vec::new())
    }

    /// Makes a consistent copy of everything in a new directory (table files are linked, not copied).
    ///
    /// # Errors
    /// What the engine reports; an engine without files always fails.
    fn checkpoint(&self, directory: &Path) -> Result<(), StorageError>;

    /// An estimate of the bytes a range occupies.
    fn range_bytes(&self, keyspace: Keyspace, range: &KeyRange) -> RangeBytes;

    /// How far flush and compaction are behind. Cheap enough for a call every few milliseconds.
    fn pressure(&self) -> Pressure;

    /// Counts and sizes.
    fn statistics(&self) -> EngineStatistics;

    /// What it holds in memory, where it does not hold everything there. Cheap enough for a call every few
    /// milliseconds.
    fn memory(&self) -> EngineMemory {
        EngineMemory::default()
    }

    /// Changes what it may hold. What is too much goes with what comes next: blocks that enter the cache,
    /// writes.
    fn bound_memory(&self, _most: EngineMemory) {}

    /// Whether writes succeed. False after one has found the disk full, until the engine has recovered.
    fn accepts_writes(&self) -> bool;

    /// Removes table files that hold nothing but keys of a range. Only for ranges whose keys are all deleted,
    /// and once that is on stable storage.
    ///
    /// # Errors
    /// What the engine reports.
    fn drop_files(&self, keyspace: Keyspace, range: &KeyRange) -> Result<(), StorageError>;

    /// Writes rows into tables that are no part of the engine yet, in files of this directory whose names
    /// begin so; an engine without files keeps them in memory.
    ///
    /// # Errors
    /// What the rows or the engine report; nothing is left then.
    fn write_tables(
        &self,
        keyspace: Keyspace,
        rows: &mut dyn TableRows,
        path: &Path,
    ) -> Result<Vec<FinishedTable>, StorageError>;

    /// Makes tables part of the engine, all at once and on stable storage; readers of older states do not see
    /// them. No two of them have a key in common, and nobody else writes between their keys meanwhile.
    ///
    /// # Errors
    /// What the engine reports; none of them is part of it then.
    fn ingest(&self, keyspace: Keyspace, tables: &[FinishedTable]) -> Result<(), StorageError>;

    /// Compacts keyspaces whose tables above the lowest level hold many deletions, which ends what they
    /// delete. Blocks for as long as it takes, or as `goes_on` says, which is asked after each table. An
    /// engine that keeps nothing of what was deleted has nothing to do.
    ///
    /// # Errors
    /// What the engine reports.
    fn compact_deletions(&self, _goes_on: &mut dyn FnMut() -> bool) -> Result<(), StorageError> {
        Ok(())
    }

    /// Has compaction put off what need not be done yet, or do it again as it comes. An engine that does not
    /// compact has nothing to put off.
    ///
    /// # Errors
    /// What the engine reports.
    fn defer_compaction(&self, _is_deferred: bool) -> Result<(), StorageError> {
        Ok(())
    }

    /// Makes [`Engine::compact`] end early from now on.
    fn stop_compacting(&self);

    /// The memtables as they are; nothing in an engine that has none. Cheap enough for a call every few
    /// milliseconds.
    fn memtables(&self) -> Memtables {
        Memtables::default()
    }

    /// Has the memtables of some keyspaces flushed in the background, as they are now. Writes that come while
    /// they are set aside are [`EngineFailure::Stalled`], so that nobody waits for it but the caller.
    ///
    /// # Errors
    /// What the engine reports.
    fn seal(&self, _keyspaces: &[Keyspace]) -> Result<(), StorageError> {
        Ok(())
    }

    /// How many bytes per second flush and compaction may write from now on; 0 is no limit.
    fn set_io_rate(&self, _bytes_per_second: u64) {}

    /// How many bytes flush and compaction have written since the start; 0 where nobody counts them.
    fn io_bytes(&self) -> u64 {
        0
    }

    /// How many bytes per second compaction may write of it from now on; 0 is no limit of its own. Flushes do
    /// not wait for it.
    fn set_compaction_rate(&self, _bytes_per_second: u64) {}

    /// Has compaction take no more of the processors' time than that, in microseconds per second; 0 is no
    /// limit.
    fn set_compaction_processors(&self, _us_per_second: u64) {}

    /// The processor time that compaction has spent since the start, in microseconds.
    fn compaction_us(&self) -> u64 {
        0
    }

    /// How many threads flush and compaction may have. May write files.
    ///
    /// # Errors
    /// What the engine reports.
    fn set_background_jobs(&self, _jobs: u32) -> Result<(), StorageError> {
        Ok(())
    }

    /// What memtables and tables are like from now on. May write files and takes its time; a memtable that is
    /// larger already is due to be sealed.
    ///
    /// # Errors
    /// What the engine reports.
    fn reshape(&self, _shape: EngineShape) -> Result<(), StorageError> {
        Ok(())
    }

    /// How many bytes the log may have. May write files and takes its time.
    ///
    /// # Errors
    /// What the engine reports.
    fn bound_journal(&self, _journal_bytes_max: u64) -> Result<(), StorageError> {
        Ok(())
    }

    /// Reads that may go to the disk are timed from now on, some of them.
    fn time_reads(&self, _latency: Arc<ForegroundLatency>) {}

    /// Stops background work; the files are released when the last reader and cursor is gone.
    fn close(&self);
}

/// Reads of one state of the engine.
pub trait EngineReader: Send + Sync {
    /// The value of `key`.
    ///
    /// # Errors
    /// Damage, or [`StorageError::WouldBlock`] under [`ReadTier::BlockCache`].
    fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError>;

    /// A cursor over a range; it sees one state even when the reader is not pinned.
    ///
    /// # Errors
    /// What the engine reports.
    fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<Box<dyn EngineCursor>, StorageError>;

    /// The sequence number up to which the reader sees.
    fn sequence(&self) -> u64;
}

/// A position in a range of keys.
pub trait EngineCursor: Send {
    /// Makes `next` continue at `key`, inclusive, or at the nearest key behind it in the cursor's direction.
    fn seek(&mut self, key: &[u8]);

    /// Moves to the next entry and lends it.
    ///
    /// # Errors
    /// Damage, or [`StorageError::WouldBlock`]; the cursor must be sought again before it goes on.
    fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError>;
}

/// Why a batch or a sync failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineFailure {
    /// The engine is behind with flush or compaction and would have blocked; nothing was written.
    Stalled,
    /// The disk is full; nothing was written.
    NoSpace(Arc<str>),
    /// Anything else, in the engine's words; nothing was written.
    Failed(Arc<str>),
}

impl EngineFailure {
    pub(crate) fn into_error(self) -> StorageError {
        match self {
            EngineFailure::Stalled => StorageError::Engine(Arc::from("the engine is behind with its writes")),
            EngineFailure::NoSpace(detail) => StorageError::NoSpace(detail),
            EngineFailure::Failed(detail) => StorageError::Engine(detail),
        }
    }
}

/// An estimate of the bytes a range occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeBytes {
    /// In table files, compressed.
    pub tables: u64,
    /// In memtables, every version that is still there included.
    pub memtables: u64,
}

impl RangeBytes {
    /// Both together.
    pub const fn total(self) -> u64 {
        self.tables.saturating_add(self.memtables)
    }
}

/// The memtables of one keyspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtableState {
    /// Bytes of the one that is written to.
    pub active_bytes: u64,
    /// Its entries.
    pub active_entries: u64,
    /// It is to be sealed from so many bytes on.
    pub full_bytes: u64,
    /// Sealed and not flushed.
    pub immutables: u64,
    /// Sealed since the engine was opened.
    pub sealed: u64,
}

/// The memtables of all keyspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memtables {
    /// In the order of [`Keyspace::ALL`].
    pub of: [MemtableState; Keyspace::ALL.len()],
    /// Bytes written to the log since the engine was opened.
    pub journal_bytes: u64,
}

/// How far flush and compaction are behind: the worst keyspace counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Full memtables waiting for their flush.
    pub immutable_memtables: u64,
    /// Table files on level 0.
    pub level0_files: u64,
    /// Bytes compaction should have rewritten already.
    pub pending_compaction_bytes: u64,
    /// Bytes in memtables that are not in table files yet.
    pub unflushed_bytes: u64,
    /// Whether a write, a flush or a compaction has found the disk full since the last call, or writes still
    /// do.
    pub out_of_space: bool,
    /// Whether the engine itself delays or stops writes at this moment.
    pub engine_stalled: bool,
}

/// What of an engine's memtables and tables can change while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineShape {
    /// See [`StorageOptions::memtable_bytes`](crate::StorageOptions::memtable_bytes).
    pub memtable_bytes: u64,
    /// See [`StorageOptions::filters_in_parts`](crate::StorageOptions::filters_in_parts).
    pub filters_in_parts: bool,
}

/// Memory of an engine in bytes: what it holds, or what it may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineMemory {
    /// The block cache, with the filters and indexes of table files.
    pub cache: u64,
    /// Memtables, flushed or not.
    pub memtables: u64,
}

/// What an engine counts about itself. Sizes in bytes; zero where an engine has no such thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStatistics {
    /// The name of the engine.
    pub engine: &'static str,
    /// Capacity of the block cache.
    pub cache_capacity_bytes: u64,
    /// Bytes in the block cache.
    pub cache_usage_bytes: u64,
    /// Bytes of the cache that readers hold.
    pub cache_pinned_bytes: u64,
    /// Block reads the cache answered.
    pub cache_hits: u64,
    /// Block reads that went to the files.
    pub cache_misses: u64,
    /// Bytes read from table files into the cache.
    pub cache_read_into_bytes: u64,
    /// Reads a filter answered without looking at data.
    pub filter_useful: u64,
    /// Memtables, flushed or not, still in memory.
    pub memtable_bytes: u64,
    /// Memtables not flushed yet.
    pub memtable_unflushed_bytes: u64,
    /// Memory of table readers outside the cache.
    pub table_reader_bytes: u64,
    /// Live table files.
    pub table_bytes: u64,
    /// Live data in table files, as far as it is known.
    pub live_data_bytes: u64,
    /// All table files, those still in use by old readers included.
    pub table_total_bytes: u64,
    /// Number of live table files.
    pub table_files: u64,
    /// An estimate of the number of keys.
    pub keys_estimate: u64,
    /// See [`Pressure`].
    pub pressure: Pressure,
    /// Flushes and compactions running now.
    pub background_jobs_running: u64,
    /// Background errors so far (a full disk counts here).
    pub background_errors: u64,
    /// Snapshots alive.
    pub snapshots: u64,
    /// When the oldest of them was taken, in seconds since 1970; zero without one.
    pub oldest_snapshot_at: u64,
    /// Syncs of the log, by the engine's own count.
    pub journal_syncs: u64,
    /// Bytes written to the log.
    pub journal_bytes: u64,
    /// Memtables written to table files.
    pub flushes: u64,
    /// Bytes written by flushes.
    pub flush_bytes: u64,
    /// Bytes written by compactions.
    pub compaction_write_bytes: u64,
    /// Bytes read by compactions.
    pub compaction_read_bytes: u64,
    /// Keys read.
    pub keys_read: u64,
    /// Keys written.
    pub keys_written: u64,
    /// Bytes of keys and values written by users.
    pub bytes_written: u64,
    /// Bytes of values read by users.
    pub bytes_read: u64,
    /// Microseconds writers were held up inside the engine.
    pub stall_us: u64,
    /// Memtables sealed.
    pub seals: u64,
    /// Those that an event loop sealed in a write of its own.
    pub seals_on_loops: u64,
    /// The longest that writers were sent back for it, in microseconds.
    pub seal_us_max: u64,
    /// Groups of commits sent back meanwhile: nothing was behind.
    pub turned_back: u64,
    /// Bytes per second that flush and compaction may write; 0 is no limit.
    pub io_rate: u64,
}
