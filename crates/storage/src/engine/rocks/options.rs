//! How RocksDB is set up, and why.

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamilyDescriptor,
    CompactOptions, DBCompressionType, DBRecoveryMode, LogLevel, Options, statistics::StatsLevel,
};

use super::{compressor, raw};
use crate::engine::EngineShape;
use crate::keyspace::Keyspace;
use crate::options::StorageOptions;

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
/// Small enough that a point read decompresses little, large enough for useful compression.
const BLOCK_BYTES: usize = 8 << 10;
const FILTER_BITS_PER_KEY: f64 = 10.0;
/// From this level on the slower-built, smaller ribbon filter replaces the bloom filter.
const RIBBON_FROM_LEVEL: i32 = 1;
/// Share of a memtable given to a filter for keys that are not there (inserts look for duplicates).
const MEMTABLE_FILTER_RATIO: f64 = 0.02;
/// RocksDB's own limits. The gate acts on the same figures long before (see `gate.rs`).
pub(super) const LEVEL0_COMPACTION: i32 = 4;
const LEVEL0_SLOWDOWN: i32 = 48;
const LEVEL0_STOP: i32 = 64;
const PENDING_SLOWDOWN_BYTES: usize = 128 * GIB;
const PENDING_STOP_BYTES: usize = 256 * GIB;
/// A file with so many deletions among so many neighbouring entries, or with this share of them in all, is
/// compacted soon: what was deleted gives its room back. More than half, because each update of an indexed
/// field is a deletion and a put.
const DELETION_WINDOW: usize = 4096;
const DELETION_TRIGGER: usize = 3584;
const DELETION_SHARE: f64 = 0.75;
/// Bounds the room that a compaction below level 0 takes: RocksDB stops adding tables at so many, and has
/// up to twice as many then. The reserve is as large as that; RocksDB's own 25 would be more.
const TABLES_PER_COMPACTION: u64 = StorageOptions::TABLES_IN_RESERVE / 2;
/// The dictionary of a table at the bottom, and how many times as much zstd makes it of. Blocks wait for it
/// in memory, these bytes of each table that is written.
const DICTIONARY_BYTES: i32 = 16 << 10;
const DICTIONARY_SAMPLES: i32 = 100;
const DICTIONARY_BUFFER_BYTES: u64 = 4 * MIB as u64;
/// RocksDB's own default, which its interface wants to be told.
const ZSTD_WINDOW_BITS: i32 = -14;
/// With a dictionary the third level, which is the usual one, makes tables 1 to 2 % smaller and takes half of
/// what a processor does for compaction.
const ZSTD_LEVEL: i32 = 1;
const INFO_LOG_BYTES: usize = 8 * MIB;
const INFO_LOG_FILES: usize = 4;
/// Files are handed to the disk in pieces of this size, so that a sync never finds a mountain.
const BYTES_PER_SYNC: u64 = MIB as u64;
/// RocksDB seals a memtable by itself, in a leader's write, only so far beyond the size at which the governor
/// seals it. In hundredths; what a loop may write meanwhile is in `Database::write`.
const HEADROOM_PERCENT: usize = 150;
/// The same of the log.
const JOURNAL_HEADROOM: u64 = 2;

pub(super) fn database_options(options: &StorageOptions, create: bool) -> Options {
    let mut database = Options::default();
    database.create_if_missing(create);
    database.create_missing_column_families(create);
    database.set_paranoid_checks(true);
    // Consistent up to the first gap: what was synced is always before it, and a torn tail is no error.
    // That nothing synced is missing is checked against the journal mark.
    database.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    database.set_track_and_verify_wals_in_manifest(true);
    database.set_max_total_wal_size(journal_limit(options.journal_bytes_max));
    database.set_max_open_files(options.open_files_max);
    let jobs = match options.engine_defaults {
        true => as_it_comes::BACKGROUND_JOBS,
        false => options.background_jobs_or_default(),
    };
    database.set_max_background_jobs(i32::try_from(jobs).unwrap_or(i32::MAX));
    // One leader writes at a time: machinery for concurrent writers would only cost.
    database.set_allow_concurrent_memtable_write(false);
    database.set_enable_write_thread_adaptive_yield(false);
    database.set_avoid_unnecessary_blocking_io(true);
    if !options.engine_defaults {
        database.set_bytes_per_sync(BYTES_PER_SYNC);
    }
    database.set_compaction_readahead_size(
        usize::try_from(options.compaction_readahead_bytes).unwrap_or(2 * MIB),
    );
    database.set_max_log_file_size(
        INFO_LOG_BYTES.min(usize::try_from(options.table_bytes).unwrap_or(INFO_LOG_BYTES)),
    );
    database.set_keep_log_file_num(INFO_LOG_FILES);
    database.set_log_level(LogLevel::Info);
    database.set_stats_dump_period_sec(600);
    database.set_stats_persist_period_sec(0);
    if options.engine_statistics {
        database.enable_statistics();
        database.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    }
    database
}

pub(super) fn column_families(options: &StorageOptions, cache: &Cache) -> Vec<ColumnFamilyDescriptor> {
    Keyspace::ALL
        .iter()
        .map(|keyspace| {
            ColumnFamilyDescriptor::new(keyspace.name(), keyspace_options(*keyspace, options, cache))
        })
        .collect()
}

/// What RocksDB seals a memtable at where nobody has, in bytes.
fn write_buffer(keyspace: Keyspace, shape: &EngineShape) -> usize {
    memtable_bytes(keyspace, shape) / 100 * HEADROOM_PERCENT
}

/// What the first level below level 0 holds, in bytes: its part in a compaction of level 0 is no more than
/// half of the disk's reserve.
fn level_base(keyspace: Keyspace, shape: &EngineShape, options: &StorageOptions) -> u64 {
    let least = (memtable_bytes(keyspace, shape) as u64).max(options.table_bytes.min(16 * MIB as u64));
    let reserve = options.disk_reserve_bytes.filter(|reserve| *reserve > 0);
    let most = reserve.map_or(u64::MAX, |reserve| (reserve / 2).max(least));
    (4 * least).min(most)
}

/// As RocksDB chooses it when it is opened: an eighth of a memtable, 1 MiB at most, in whole pages.
fn arena_block(write_buffer: usize) -> usize {
    const PAGE: usize = 4 << 10;
    (write_buffer / 8).clamp(PAGE, MIB) / PAGE * PAGE
}

/// With memtables that take all that a log may hold: RocksDB writes those that are full to tables while it
/// replays, whatever it is told of room. The governor seals what is written later at the usual size.
pub(super) fn replaying_in_memory(options: &StorageOptions) -> StorageOptions {
    let log_bytes = journal_limit(options.journal_bytes_max);
    StorageOptions { memtable_bytes: options.memtable_bytes.max(log_bytes), ..options.clone() }
}

/// What changes the shape of an open keyspace, in RocksDB's words, one after the other. Tables that are begun
/// meanwhile may see any of it: a filter in parts needs an index in parts at every moment.
pub(super) fn reshaped(keyspace: Keyspace, options: &StorageOptions) -> Vec<(&'static str, String)> {
    const TABLES: &str = "block_based_table_factory";
    let shape = options.shape();
    let write_buffer = write_buffer(keyspace, &shape);
    let (first, second) = match shape.filters_in_parts {
        true => ("{index_type=kTwoLevelIndexSearch;}", "{partition_filters=true;}"),
        false => ("{partition_filters=false;}", "{index_type=kBinarySearch;}"),
    };
    vec![
        ("write_buffer_size", write_buffer.to_string()),
        ("arena_block_size", arena_block(write_buffer).to_string()),
        ("max_bytes_for_level_base", level_base(keyspace, &shape, options).to_string()),
        (TABLES, first.to_owned()),
        (TABLES, second.to_owned()),
    ]
}

pub(super) fn keyspace_options(keyspace: Keyspace, options: &StorageOptions, cache: &Cache) -> Options {
    let shape = options.shape();
    let mut family = Options::default();
    family.set_block_based_table_factory(&table_options(options, cache));
    family.set_write_buffer_size(write_buffer(keyspace, &shape));
    family.set_max_write_buffer_number(i32::try_from(options.memtable_count_max).unwrap_or(8));
    family.set_min_write_buffer_number_to_merge(1);
    family.set_memtable_prefix_bloom_ratio(MEMTABLE_FILTER_RATIO * 100.0 / HEADROOM_PERCENT as f64);
    family.set_memtable_whole_key_filtering(true);
    family.set_level_compaction_dynamic_level_bytes(true);
    family.set_level_zero_file_num_compaction_trigger(LEVEL0_COMPACTION);
    family.set_level_zero_slowdown_writes_trigger(LEVEL0_SLOWDOWN);
    family.set_level_zero_stop_writes_trigger(LEVEL0_STOP);
    family.set_soft_pending_compaction_bytes_limit(PENDING_SLOWDOWN_BYTES);
    family.set_hard_pending_compaction_bytes_limit(PENDING_STOP_BYTES);
    family.set_target_file_size_base(options.table_bytes);
    family.set_max_bytes_for_level_base(level_base(keyspace, &shape, options));
    family.set_max_compaction_bytes(TABLES_PER_COMPACTION * options.table_bytes);
    if matches!(keyspace, Keyspace::Documents | Keyspace::Indexes) {
        family.add_compact_on_deletion_collector_factory(DELETION_WINDOW, DELETION_TRIGGER, DELETION_SHARE);
    }
    // Young data is read and rewritten often: cheap compression. Most data lies at the bottom: dense.
    family.set_compression_type(DBCompressionType::Lz4);
    family.set_bottommost_compression_type(DBCompressionType::Zstd);
    // A block is too small to hold the names of fields that its neighbours have, too: a dictionary does.
    family.set_bottommost_compression_options(ZSTD_WINDOW_BITS, ZSTD_LEVEL, 0, DICTIONARY_BYTES, true);
    family.set_bottommost_zstd_max_train_bytes(DICTIONARY_SAMPLES * DICTIONARY_BYTES, true);
    raw::bound_dictionary_buffer(&mut family, DICTIONARY_BUFFER_BYTES);
    compressor::keep_contexts(&mut family);
    if options.engine_defaults {
        as_it_comes::set(&mut family);
    }
    family
}

/// The size at which a memtable of the keyspace is sealed.
pub(super) fn memtable_bytes(keyspace: Keyspace, shape: &EngineShape) -> usize {
    let memtable = usize::try_from(shape.memtable_bytes).unwrap_or(64 * MIB);
    match keyspace {
        Keyspace::Documents | Keyspace::Indexes => memtable,
        // Small and rarely written, or the same few keys over and over.
        Keyspace::Meta | Keyspace::Internal => memtable.min(16 * MIB),
    }
}

/// What RocksDB bounds its log to, where the governor keeps it to `journal_bytes_max`.
pub(super) fn journal_limit(journal_bytes_max: u64) -> u64 {
    JOURNAL_HEADROOM * journal_bytes_max
}

/// What RocksDB has when nobody tells it anything, for [`StorageOptions::engine_defaults`].
mod as_it_comes {
    use super::{GIB, MIB, Options};

    pub(super) const BACKGROUND_JOBS: u32 = 2;

    pub(super) fn set(family: &mut Options) {
        family.set_write_buffer_size(64 * MIB);
        family.set_max_write_buffer_number(2);
        family.set_level_zero_slowdown_writes_trigger(20);
        family.set_level_zero_stop_writes_trigger(36);
        family.set_soft_pending_compaction_bytes_limit(64 * GIB);
        family.set_hard_pending_compaction_bytes_limit(256 * GIB);
        family.set_target_file_size_base(64 * MIB as u64);
        family.set_max_bytes_for_level_base(256 * MIB as u64);
    }
}

fn table_options(options: &StorageOptions, cache: &Cache) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(cache);
    table.set_block_size(BLOCK_BYTES);
    table.set_format_version(6);
    table.set_hybrid_ribbon_filter(FILTER_BITS_PER_KEY, RIBBON_FROM_LEVEL);
    table.set_whole_key_filtering(true);
    table.set_optimize_filters_for_memory(true);
    // Indexes and filters compete in the cache: memory stays bounded whatever the size of the data.
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    table.set_pin_top_level_index_and_filter(true);
    if options.filters_in_parts {
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(true);
    }
    table
}

/// For compactions asked for: down to the bottom, or deleted keys keep their room.
pub(super) fn full_compaction() -> CompactOptions {
    let mut compaction = CompactOptions::default();
    compaction.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
    compaction.set_exclusive_manual_compaction(false);
    compaction
}
