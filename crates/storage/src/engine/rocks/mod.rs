//! RocksDB behind the [`Engine`] trait. No other module names a RocksDB type.

mod compressor;
mod deletions;
mod errors;
pub(crate) mod examine;
mod key_order;
mod limiter;
mod log_file;
mod options;
mod partial;
mod raw;
mod reader;
pub(crate) mod salvage;
mod seal;
mod sealed;
mod statistics;
mod table_files;
mod tables;
pub(crate) mod text_files;
mod version_log;
mod warming;

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{Cache, ColumnFamily, DB, Options, WriteBatch, WriteBufferManager, WriteOptions};

use super::{
    Engine, EngineFailure, EngineMemory, EngineReader, EngineShape, EngineStatistics, FinishedTable,
    Memtables, Pressure, RangeBytes, TableFile, TableRows,
};
use crate::budget::latency::ForegroundLatency;
use crate::error::StorageError;
use crate::keyspace::{KeyRange, Keyspace};
use crate::options::StorageOptions;
use crate::unit::{Mutation, MutationLog, WriteUnit};
use crate::vault::Vault;
pub use errors::RocksOpenFailure;
use errors::{storage_error, write_failure};
use key_order::in_key_order;
use limiter::RateLimiter;
use reader::RocksReader;
use sealed::EngineFiles;

pub(crate) use partial::{DamagedKeys, link as link_table};
pub(crate) use reader::PinnedSlice;
use warming::Warming;

/// RocksDB's bytes of a batch around the mutations' own: its header, and per mutation lengths and a tag.
const BATCH_HEADER_BYTES: usize = 12;

/// The log tells of so many damaged blocks.
const TOLD_DAMAGE_MAX: usize = 1000;

/// From so many mutations on a unit's are written in the order of their keys: neighbours then find their
/// places in the memtable on the same way through it, which they otherwise wait for memory on.
const IN_KEY_ORDER_FROM: usize = 32;

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The open database and what must live as long.
struct Database {
    rocks: DB,
    files: EngineFiles,
    warming: Warming,
    /// Holds the statistics object.
    options: Options,
    events: Arc<raw::Events>,
    counts_tickers: bool,
    cache: Cache,
    cache_bytes: AtomicU64,
    /// `None`: [`StorageOptions::engine_defaults`].
    limiter: Option<RateLimiter>,
    seals: seal::Seals,
    /// Told of reads that may go to the disk, once there is one.
    latency: OnceLock<Arc<ForegroundLatency>>,
    memtables: WriteBufferManager,
    /// As the store was opened with, but for the shape.
    storage_options: StorageOptions,
    /// The sizes in force. A leaf in the lock order.
    shape: Mutex<EngineShape>,
    /// Log in the kernel when the write returns; no delay inside RocksDB, whatever its state, unless it is to
    /// do as it comes.
    write_options: WriteOptions,
    /// Set by a write that found the disk full, cleared by the next one that succeeds. In between the log
    /// accepts nothing and must not be synced; recovery writes the memtables to tables and starts a new log.
    out_of_space: AtomicBool,
    /// Damage that the log has told of, in RocksDB's words. A leaf in the lock order.
    told_damage: Mutex<HashSet<Arc<str>>>,
    /// Shared by writes until what came of them is noted; a sync where room is scarce has it alone. The log
    /// of a write that has just found the disk full must not be synced.
    log_access: RwLock<()>,
}

impl Database {
    fn review_warming(&self) {
        let families = Keyspace::ALL.iter().map(|keyspace| self.family(*keyspace));
        if self.warming.review(&self.rocks, families, self.cache_bytes.load(Ordering::Relaxed)) {
            self.note_text_files();
        }
    }

    /// To be called when RocksDB has written its options.
    fn note_text_files(&self) {
        if let Err(error) = text_files::note(self.rocks.path(), self.files.vault()) {
            tracing::warn!(%error, "the checksums of the engine's options could not be written");
        }
    }

    /// The options that a keyspace has now.
    fn current_options(&self) -> StorageOptions {
        let EngineShape { memtable_bytes, filters_in_parts } = *self.shape.lock();
        StorageOptions { memtable_bytes, filters_in_parts, ..self.storage_options.clone() }
    }

    fn reshape(&self, shape: EngineShape) -> Result<(), StorageError> {
        let before = std::mem::replace(&mut *self.shape.lock(), shape);
        if before == shape || self.storage_options.engine_defaults {
            return Ok(());
        }
        // Otherwise RocksDB would find one that is too large in the next write, and seal it there.
        if shape.memtable_bytes < before.memtable_bytes {
            self.seals.set_memtable_bytes(shape.memtable_bytes);
            self.seal(&Keyspace::ALL)?;
        }
        let storage_options = self.current_options();
        for keyspace in Keyspace::ALL {
            for (name, value) in options::reshaped(keyspace, &storage_options) {
                self.rocks.set_options_cf(self.family(keyspace), &[(name, &value)]).map_err(storage_error)?;
            }
        }
        self.seals.set_memtable_bytes(shape.memtable_bytes);
        self.note_text_files();
        Ok(())
    }

    fn family(&self, keyspace: Keyspace) -> &ColumnFamily {
        self.rocks.cf_handle(keyspace.name()).expect("the store is opened with all column families")
    }

    /// Tells the log, once, of damage that a read has come upon.
    fn tell_damage(&self, keyspace: Keyspace, key: Option<&[u8]>, error: StorageError) -> StorageError {
        if let StorageError::Corrupt(detail) = &error {
            let mut told = self.told_damage.lock();
            if told.len() < TOLD_DAMAGE_MAX && told.insert(Arc::clone(detail)) {
                let key = key.map(|key| format!("{key:02x?}"));
                tracing::error!(
                    keyspace = keyspace.name(),
                    key,
                    detail = &**detail,
                    "stored data are damaged: what is in this block is not served; see `heddle check`"
                );
            }
        }
        error
    }

    /// Whether a write would find the disk full. An entry without content tells whether the engine has
    /// recovered.
    fn is_out_of_space(&self) -> bool {
        if !self.out_of_space.load(Ordering::Acquire) && !self.events.take_halted() {
            return false;
        }
        let mut probe = WriteBatch::default();
        probe.put_log_data([]);
        let _access = self.log_access.read();
        matches!(self.write_to_log(probe), Err(EngineFailure::NoSpace(_)))
    }

    /// Nobody waits for a sync or a seal here: that may be an event loop.
    fn write(&self, batch: WriteBatch) -> Result<(), EngineFailure> {
        let access = self.log_access.try_read().filter(|_| self.seals.lets_write());
        let _access = access.ok_or_else(|| self.seals.turn_back())?;
        let bytes = batch.size_in_bytes() as u64;
        let written = self.write_to_log(batch);
        if written.is_ok() {
            self.seals.written(bytes);
        }
        written
    }

    fn write_to_log(&self, batch: WriteBatch) -> Result<(), EngineFailure> {
        let written = self.rocks.write_opt(batch, &self.write_options).map_err(write_failure);
        self.note_space(&written);
        written
    }

    fn note_space(&self, written: &Result<(), EngineFailure>) {
        match written {
            Ok(()) if self.out_of_space.load(Ordering::Relaxed) => {
                self.out_of_space.store(false, Ordering::Release)
            }
            Err(EngineFailure::NoSpace(_)) => self.out_of_space.store(true, Ordering::Release),
            _ => {}
        }
    }

    fn append(&self, batch: &mut WriteBatch, log: &MutationLog) {
        match log.len() {
            IN_KEY_ORDER_FROM.. => in_key_order(log).into_iter().for_each(|next| self.add(batch, next)),
            _ => log.iter().for_each(|next| self.add(batch, next)),
        }
    }

    fn add(&self, batch: &mut WriteBatch, mutation: Mutation<'_>) {
        match mutation {
            Mutation::Put { keyspace, key, value } => batch.put_cf(self.family(keyspace), key, value),
            Mutation::Delete { keyspace, key } => batch.delete_cf(self.family(keyspace), key),
            Mutation::DeleteRange { keyspace, from, to } => {
                batch.delete_range_cf(self.family(keyspace), from, to);
            }
        }
    }
}

/// The engine of real stores.
pub struct RocksEngine {
    latest: Arc<RocksReader>,
    database: Arc<Database>,
}

impl RocksEngine {
    /// Opens RocksDB in `path`; with `create`, a database that does not exist is created. With `spare_disk`,
    /// what the log holds stays in memory, as far as it fits, instead of being written to table files at
    /// once, and files grow as they are written.
    ///
    /// # Errors
    /// What RocksDB reports, in its words.
    pub fn open(
        path: &Path,
        options: &StorageOptions,
        create: bool,
        spare_disk: bool,
    ) -> Result<RocksEngine, RocksOpenFailure> {
        Self::open_in(&Vault::default(), path, options, create, spare_disk)
    }

    /// As [`RocksEngine::open`], with the files of a vault.
    pub(crate) fn open_in(
        vault: &Vault,
        path: &Path,
        options: &StorageOptions,
        create: bool,
        spare_disk: bool,
    ) -> Result<RocksEngine, RocksOpenFailure> {
        let cache = Cache::new_hyper_clock_cache(size(options.cache_bytes), 0);
        let mut database_options = options::database_options(options, create);
        let limiter = (!options.engine_defaults)
            .then(|| RateLimiter::install(&mut database_options, options.io_budget_bytes_per_second));
        let memtables = WriteBufferManager::new_write_buffer_manager(size(options.memtables_bytes), false);
        database_options.set_write_buffer_manager(&memtables);
        raw::checksum_tables(&mut database_options);
        let events = raw::Events::listen(&mut database_options);
        if spare_disk {
            raw::spare_disk(&mut database_options);
        }
        let files = EngineFiles::of(vault);
        files.install(&mut database_options);
        let families = match spare_disk {
            true => options::column_families(&options::replaying_in_memory(options), &cache),
            false => options::column_families(options, &cache),
        };
        let rocks = DB::open_cf_descriptors(&database_options, path, families)?;
        files.check_opened(path);
        let mut write_options = WriteOptions::default();
        write_options.set_sync(false);
        write_options.set_no_slowdown(!options.engine_defaults);
        let database = Arc::new(Database {
            rocks,
            files,
            warming: Warming::default(),
            events,
            counts_tickers: options.engine_statistics,
            options: database_options,
            cache,
            cache_bytes: AtomicU64::new(options.cache_bytes),
            limiter,
            // RocksDB as it comes seals in writes: nobody looks ahead.
            seals: seal::Seals::new(if options.engine_defaults { u64::MAX } else { options.memtable_bytes }),
            latency: OnceLock::new(),
            memtables,
            storage_options: options.clone(),
            shape: Mutex::new(options.shape()),
            write_options,
            out_of_space: AtomicBool::new(false),
            told_damage: Mutex::default(),
            log_access: RwLock::new(()),
        });
        database.review_warming();
        database.note_text_files();
        Ok(RocksEngine { latest: Arc::new(RocksReader::latest(Arc::clone(&database))), database })
    }
}

impl Engine for RocksEngine {
    fn reader(&self) -> Arc<dyn EngineReader> {
        Arc::clone(&self.latest) as Arc<dyn EngineReader>
    }

    fn pinned_reader(&self) -> Arc<dyn EngineReader> {
        Arc::new(RocksReader::pinned(Arc::clone(&self.database)))
    }

    fn write(&self, units: &[WriteUnit], counters: &MutationLog) -> Result<u64, EngineFailure> {
        let bytes = units.iter().map(WriteUnit::byte_len).sum::<usize>() + counters.byte_len();
        let mut batch = WriteBatch::with_capacity_bytes(BATCH_HEADER_BYTES + bytes);
        for log in units.iter().map(WriteUnit::log).chain([counters]) {
            self.database.append(&mut batch, log);
        }
        self.database.write(batch)?;
        Ok(self.sequence())
    }

    fn sync_journal(&self, alone: bool) -> Result<(), EngineFailure> {
        // A sync of the broken log would turn the full disk into an error RocksDB does not recover from.
        let full = self.database.is_out_of_space();
        let _alone = alone.then(|| self.database.log_access.write());
        if full || self.database.out_of_space.load(Ordering::Acquire) {
            return Err(EngineFailure::NoSpace(Arc::from(
                "the log is not synced before the engine has recovered",
            )));
        }
        let synced = self.database.rocks.flush_wal(true).map_err(write_failure);
        if synced.is_err() {
            self.database.note_space(&synced);
        }
        synced
    }

    fn sequence(&self) -> u64 {
        self.database.rocks.latest_sequence_number()
    }

    fn defer_compaction(&self, is_deferred: bool) -> Result<(), StorageError> {
        let files = if is_deferred { crate::gate::DEFERRED_LEVEL0_FILES } else { options::LEVEL0_COMPACTION };
        let setting = files.to_string();
        for keyspace in Keyspace::ALL {
            let changes = [("level0_file_num_compaction_trigger", &*setting)];
            self.database
                .rocks
                .set_options_cf(self.database.family(keyspace), &changes)
                .map_err(storage_error)?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StorageError> {
        // Ahead, so that hardly anything is left to seal where writers would wait for it.
        self.database.seal(&Keyspace::ALL)?;
        for keyspace in Keyspace::ALL {
            self.database.rocks.flush_cf(self.database.family(keyspace)).map_err(storage_error)?;
        }
        Ok(())
    }

    fn compact(
        &self,
        keyspace: Keyspace,
        range: &KeyRange,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), StorageError> {
        let family = self.database.family(keyspace);
        let compact = |lower: Option<&[u8]>, upper: Option<&[u8]>| {
            self.database.rocks.compact_range_cf_opt(family, lower, upper, &options::full_compaction());
        };
        let mut lower = range.lower.clone();
        for end in self.database.table_ends(keyspace, range)? {
            compact(lower.as_deref(), Some(&end));
            if !goes_on() {
                return Ok(());
            }
            // Bounds are inclusive, and what one call has written the next one is not to write again.
            lower = Some([&end[..], &[0]].concat());
        }
        compact(lower.as_deref(), range.upper.as_deref());
        Ok(())
    }

    fn table_files(&self) -> Result<Vec<TableFile>, StorageError> {
        self.database.table_files()
    }

    fn compact_deletions(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<(), StorageError> {
        for (keyspace, range) in self.database.many_deletions()? {
            if goes_on() {
                self.compact(keyspace, &range, goes_on)?;
            }
        }
        Ok(())
    }

    fn checkpoint(&self, directory: &Path) -> Result<(), StorageError> {
        let checkpoint = Checkpoint::new(&self.database.rocks).map_err(storage_error)?;
        checkpoint.create_checkpoint(directory).map_err(storage_error)
    }

    fn range_bytes(&self, keyspace: Keyspace, range: &KeyRange) -> RangeBytes {
        // A bound RocksDB can compare: no key of ours is longer than this and full of 0xff.
        const ABOVE_ALL: [u8; 64] = [u8::MAX; 64];
        let family = self.database.family(keyspace);
        let (lower, upper) =
            (range.lower.as_deref().unwrap_or_default(), range.upper.as_deref().unwrap_or(&ABOVE_ALL));
        raw::range_bytes(&self.database.rocks, family, lower, upper)
    }

    fn pressure(&self) -> Pressure {
        self.database.review_warming();
        let (database, events) = (&self.database, &self.database.events);
        let out_of_space = events.take_starved() | database.is_out_of_space();
        Pressure { out_of_space, ..database.pressure() }
    }

    fn accepts_writes(&self) -> bool {
        !self.database.is_out_of_space()
    }

    fn drop_files(&self, keyspace: Keyspace, range: &KeyRange) -> Result<(), StorageError> {
        let (Some(lower), Some(upper)) = (&range.lower, &range.upper) else { return Ok(()) };
        let family = self.database.family(keyspace);
        self.database.rocks.delete_file_in_range_cf(family, lower, upper).map_err(storage_error)
    }

    fn write_tables(
        &self,
        keyspace: Keyspace,
        rows: &mut dyn TableRows,
        path: &Path,
    ) -> Result<Vec<FinishedTable>, StorageError> {
        self.database.write_tables(keyspace, rows, path)
    }

    fn ingest(&self, keyspace: Keyspace, tables: &[FinishedTable]) -> Result<(), StorageError> {
        self.database.ingest(keyspace, tables)
    }

    fn memtables(&self) -> Memtables {
        self.database.memtables()
    }

    fn seal(&self, keyspaces: &[Keyspace]) -> Result<(), StorageError> {
        self.database.seal(keyspaces)
    }

    fn set_io_rate(&self, bytes_per_second: u64) {
        if let Some(limiter) = &self.database.limiter {
            limiter.set(bytes_per_second);
        }
    }

    fn io_bytes(&self) -> u64 {
        self.database.limiter.as_ref().map_or(0, RateLimiter::passed)
    }

    fn set_compaction_processors(&self, us_per_second: u64) {
        if let Some(limiter) = &self.database.limiter {
            limiter.set_compaction_processors(us_per_second);
        }
    }

    fn compaction_us(&self) -> u64 {
        self.database.limiter.as_ref().map_or(0, RateLimiter::compaction_us)
    }

    fn set_compaction_rate(&self, bytes_per_second: u64) {
        if let Some(limiter) = &self.database.limiter {
            limiter.set_for_compaction(bytes_per_second);
        }
    }

    fn set_background_jobs(&self, jobs: u32) -> Result<(), StorageError> {
        self.database.set_options(&[("max_background_jobs", &jobs.to_string())])
    }

    fn reshape(&self, shape: EngineShape) -> Result<(), StorageError> {
        self.database.reshape(shape)
    }

    fn bound_journal(&self, journal_bytes_max: u64) -> Result<(), StorageError> {
        let journal = options::journal_limit(journal_bytes_max).to_string();
        self.database.set_options(&[("max_total_wal_size", &journal)])
    }

    fn time_reads(&self, latency: Arc<ForegroundLatency>) {
        // A second store on the same engine would be told nothing, and there is none.
        let _ = self.database.latency.set(latency);
    }

    fn stop_compacting(&self) {
        raw::disable_manual_compaction(&self.database.rocks);
    }

    fn statistics(&self) -> EngineStatistics {
        self.database.statistics()
    }

    fn memory(&self) -> EngineMemory {
        let (cache, memtables) = (self.database.cache.get_usage(), self.database.memtables.get_usage());
        EngineMemory { cache: cache as u64, memtables: memtables as u64 }
    }

    fn bound_memory(&self, most: EngineMemory) {
        if self.database.cache_bytes.swap(most.cache, Ordering::Relaxed) != most.cache {
            // One that is cloned is the same cache.
            self.database.cache.clone().set_capacity(size(most.cache));
        }
        self.database.memtables.set_buffer_size(size(most.memtables));
    }

    fn close(&self) {
        self.database.rocks.cancel_all_background_work(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::ReadTier;

    /// Flushes so often, with keys that overlap.
    fn flush_often(engine: &RocksEngine, times: u8) {
        for time in 0..times {
            let mut unit = WriteUnit::new();
            (0..=u8::MAX).for_each(|key| unit.put(Keyspace::Documents, &[key], &[time; 100]));
            engine.write(&[unit], &MutationLog::default()).unwrap();
            engine.flush().unwrap();
        }
    }

    /// Files of level 0 when compaction has had time to begin.
    fn comes_to(engine: &RocksEngine, is_enough: impl Fn(u64) -> bool) -> bool {
        let ends = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while std::time::Instant::now() < ends {
            if is_enough(engine.pressure().level0_files) {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        false
    }

    #[test]
    fn compaction_that_was_put_off_is_done_when_it_may() {
        let directory = tempfile::tempdir().unwrap();
        let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap();
        engine.defer_compaction(true).unwrap();
        flush_often(&engine, 9);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(engine.pressure().level0_files, 9, "it is put off");
        engine.defer_compaction(false).unwrap();
        assert!(comes_to(&engine, |files| files < 4), "{:?}", engine.pressure());
        engine.defer_compaction(true).unwrap();
        flush_often(&engine, 14);
        assert!(comes_to(&engine, |files| files < 12), "what is too much is compacted all the same");
    }

    fn written_options(directory: &std::path::Path) -> String {
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: &std::path::PathBuf| path.to_string_lossy().contains("OPTIONS-");
        std::fs::read_to_string(files.filter(named).max().expect("options")).unwrap()
    }

    #[test]
    fn memtables_and_tables_change_their_sizes_while_the_engine_is_open() {
        const KIB: u64 = 1 << 10;
        let directory = tempfile::tempdir().unwrap();
        let options = StorageOptions { filters_in_parts: true, ..StorageOptions::small() };
        let engine = RocksEngine::open(directory.path(), &options, true, false).unwrap();
        let full = |engine: &RocksEngine| engine.memtables().of[Keyspace::Documents as usize].full_bytes;
        assert_eq!(full(&engine), 4096 * KIB);
        let mut random = fastrand::Rng::with_seed(1);
        let mut write = |key: u32| {
            let mut unit = WriteUnit::new();
            let value: Vec<u8> = (0..1024).map(|_| random.u8(..)).collect();
            unit.put(Keyspace::Documents, &key.to_be_bytes(), &value);
            engine.write(&[unit], &MutationLog::default()).unwrap();
        };
        (0..2000).for_each(&mut write);
        assert_eq!(engine.statistics().flushes, 0);
        engine.reshape(EngineShape { memtable_bytes: 256 * KIB, filters_in_parts: false }).unwrap();
        assert_eq!(full(&engine), 256 * KIB);
        let seals = engine.database.events.seals()[Keyspace::Documents as usize];
        assert_eq!(seals, 1, "a memtable that is too large now is set aside");
        // Half as large as one was before, and many of these: RocksDB seals them where no governor does.
        (2000..4000).for_each(&mut write);
        assert!(engine.database.events.seals()[Keyspace::Documents as usize] >= seals + 4);
        let written = written_options(directory.path());
        for setting in [
            "write_buffer_size=393150",
            "arena_block_size=45056",
            "partition_filters=false",
            "index_type=kBinarySearch",
        ] {
            assert!(written.contains(&format!(" {setting}\n")), "{setting} is missing in\n{written}");
        }
        engine.flush().unwrap();
        engine.reshape(options.shape()).unwrap();
        engine.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
        assert!(written_options(directory.path()).contains(" partition_filters=true\n"));
        let reader = engine.reader();
        let found = |key: u32| reader.get(Keyspace::Documents, &key.to_be_bytes(), ReadTier::Any).unwrap();
        assert!((0..4000).all(|key| found(key).is_some()), "by filters in parts");
        assert!((4000..8000).all(|key| found(key).is_none()));
    }

    #[test]
    fn options_are_ours_or_for_comparisons_as_the_engine_comes() {
        let written = |engine_defaults: bool| {
            let directory = tempfile::tempdir().unwrap();
            let options = StorageOptions { engine_defaults, ..StorageOptions::default() };
            let engine = RocksEngine::open(directory.path(), &options, true, false).unwrap();
            assert_eq!(engine.statistics().io_rate == 0, engine_defaults, "there is a limiter, or none");
            drop(engine);
            written_options(directory.path())
        };
        let (ours, theirs) = (written(false), written(true));
        for setting in [
            "max_background_jobs=2",
            "bytes_per_sync=0",
            "max_write_buffer_number=2",
            "level0_slowdown_writes_trigger=20",
            "level0_stop_writes_trigger=36",
        ] {
            assert!(theirs.contains(&format!(" {setting}\n")), "{setting} is missing in\n{theirs}");
        }
        for setting in ["max_write_buffer_number=8", "level0_slowdown_writes_trigger=48"] {
            assert!(ours.contains(&format!(" {setting}\n")), "{setting} is missing in\n{ours}");
        }
        let bottom = ours.lines().find(|line| line.contains("bottommost_compression_opts="));
        for setting in
            ["max_dict_bytes=16384", "zstd_max_train_bytes=1638400", "max_dict_buffer_bytes=4194304"]
        {
            assert!(bottom.is_some_and(|line| line.contains(setting)), "{setting} is missing in {bottom:?}");
        }
    }

    #[test]
    fn a_large_unit_takes_effect_in_its_order() {
        let directory = tempfile::tempdir().unwrap();
        let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap();
        let documents = Keyspace::Documents;
        let written = |unit: WriteUnit| {
            engine.write(&[unit], &MutationLog::default()).unwrap();
            let found = |key: &u8| engine.reader().get(documents, &[*key], ReadTier::Any).unwrap();
            (0..=u8::MAX).map(|key| found(&key).map(|value| value.to_vec())).collect::<Vec<_>>()
        };
        let mut unit = WriteUnit::new();
        (0..=u8::MAX).rev().for_each(|key| unit.put(documents, &[key], b"first"));
        (0..=u8::MAX).step_by(2).for_each(|key| unit.delete(documents, &[key]));
        (0..=u8::MAX).step_by(4).for_each(|key| unit.put(documents, &[key], b"second"));
        let expect = |key: u8| match key % 4 {
            0 => Some(b"second".to_vec()),
            2 => None,
            _ => Some(b"first".to_vec()),
        };
        assert_eq!(written(unit), (0..=u8::MAX).map(expect).collect::<Vec<_>>());
        let mut unit = WriteUnit::new();
        (0..=u8::MAX).rev().for_each(|key| unit.put(documents, &[key], b"third"));
        unit.delete_range(documents, &[10], &[20]);
        unit.put(documents, &[15], b"fourth");
        let expect = |key: u8| match key {
            15 => Some(b"fourth".to_vec()),
            10..20 => None,
            _ => Some(b"third".to_vec()),
        };
        assert_eq!(written(unit), (0..=u8::MAX).map(expect).collect::<Vec<_>>());
    }

    #[test]
    fn memory_is_told_and_bounded() {
        const MIB: u64 = 1 << 20;
        let directory = tempfile::tempdir().unwrap();
        let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap();
        let write = |key: u16| {
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Documents, &key.to_be_bytes(), &[7; 1 << 14]);
            engine.write(&[unit], &MutationLog::default()).unwrap();
        };
        (0..128).for_each(write);
        assert!(engine.memory().memtables >= 2 * MIB, "{:?}", engine.memory());
        assert_eq!(engine.statistics().flushes, 0);
        // The next writes flush what is too much, though the memtable is not full.
        engine.bound_memory(EngineMemory { cache: MIB, memtables: 2 * MIB });
        let mut key = 128;
        while engine.statistics().flushes == 0 {
            write(key);
            std::thread::sleep(std::time::Duration::from_millis(10));
            key += 1;
            assert!(key < 140, "nothing was flushed: {:?}", engine.memory());
        }
        engine.flush().unwrap();
        for key in 0_u16..128 {
            assert!(
                engine
                    .reader()
                    .get(Keyspace::Documents, &key.to_be_bytes(), ReadTier::Any)
                    .unwrap()
                    .is_some()
            );
        }
        assert!(engine.memory().cache <= MIB + MIB / 4, "{:?}", engine.memory());
        assert_eq!(engine.statistics().cache_capacity_bytes, MIB);
    }

    #[test]
    fn a_write_does_not_wait_for_a_sync_that_is_alone() {
        let directory = tempfile::tempdir().unwrap();
        let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap();
        let write = || {
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Documents, b"a", b"1");
            engine.write(&[unit], &MutationLog::default())
        };
        let syncing = engine.database.log_access.write();
        assert!(matches!(write(), Err(EngineFailure::Stalled)));
        drop(syncing);
        write().unwrap();
        engine.sync_journal(true).unwrap();
    }

    #[test]
    fn the_log_of_a_write_that_found_the_disk_full_is_not_synced() {
        let directory = tempfile::tempdir().unwrap();
        let engine = RocksEngine::open(directory.path(), &StorageOptions::small(), true, false).unwrap();
        let database = Arc::clone(&engine.database);
        let writing = database.log_access.read();
        std::thread::scope(|threads| {
            let sync = threads.spawn(|| engine.sync_journal(true));
            while database.log_access.try_read().is_some() {
                std::thread::yield_now();
            }
            // As a write does whose error has come from the log but not from RocksDB yet.
            database.out_of_space.store(true, Ordering::Release);
            drop(writing);
            assert!(matches!(sync.join().unwrap(), Err(EngineFailure::NoSpace(_))));
        });
    }

    struct OneRow(Option<[u8; 1]>, [u8; 1]);

    impl TableRows for OneRow {
        fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StorageError> {
            let Some(key) = self.0.take() else { return Ok(None) };
            self.1 = key;
            Ok(Some((&self.1, b"table")))
        }
    }

    #[test]
    fn the_log_is_replayed_around_tables_that_were_taken_in() {
        let directory = tempfile::tempdir().unwrap();
        let open = || {
            RocksEngine::open(&directory.path().join("engine"), &StorageOptions::small(), true, false)
                .unwrap()
        };
        let write = |engine: &RocksEngine, key: u8| {
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Indexes, &[key], b"log");
            engine.write(&[unit], &MutationLog::default()).unwrap();
        };
        let engine = open();
        for key in [2, 5, 8] {
            write(&engine, key - 1);
            // A view that is open has the table take a sequence number of its own.
            let view = engine.pinned_reader();
            let path = directory.path().join("table");
            let tables =
                engine.write_tables(Keyspace::Indexes, &mut OneRow(Some([key]), [0]), &path).unwrap();
            engine.ingest(Keyspace::Indexes, &tables).unwrap();
            drop(view);
            write(&engine, key + 1);
        }
        let sequence = engine.sequence();
        // Nothing was flushed by us: all but the tables is in the log.
        drop(engine);
        let engine = open();
        assert!(engine.sequence() >= sequence);
        for key in 1..=9 {
            let found = engine.reader().get(Keyspace::Indexes, &[key], ReadTier::Any).unwrap();
            let expect: &[u8] = if key % 3 == 2 { b"table" } else { b"log" };
            assert_eq!(found.as_deref(), Some(expect), "key {key}");
        }
    }
}
