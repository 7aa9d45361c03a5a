//! RocksDB's figures: properties of column families and tickers.

use std::sync::atomic::Ordering;

use rocksdb::properties as property;
use rocksdb::statistics::Ticker;

use super::Database;
use super::limiter::RateLimiter;
use super::options;
use crate::engine::{EngineStatistics, MemtableState, Memtables, Pressure};
use crate::keyspace::Keyspace;

impl Database {
    fn property(&self, keyspace: Keyspace, name: &property::PropName) -> u64 {
        self.rocks.property_int_value_cf(self.family(keyspace), name).ok().flatten().unwrap_or(0)
    }

    fn sum(&self, name: &property::PropName) -> u64 {
        Keyspace::ALL.iter().map(|keyspace| self.property(*keyspace, name)).sum()
    }

    fn worst(&self, name: &property::PropName) -> u64 {
        Keyspace::ALL.iter().map(|keyspace| self.property(*keyspace, name)).max().unwrap_or(0)
    }

    pub(super) fn pressure(&self) -> Pressure {
        let level0 = property::num_files_at_level(0);
        let level0_files = |keyspace: &Keyspace| {
            let files = self.rocks.property_value_cf(self.family(*keyspace), &level0).ok()??;
            files.trim().parse::<u64>().ok()
        };
        let internal = Keyspace::Internal;
        Pressure {
            immutable_memtables: self.worst(property::NUM_IMMUTABLE_MEM_TABLE),
            level0_files: Keyspace::ALL.iter().filter_map(level0_files).max().unwrap_or(0),
            unflushed_bytes: self.sum(property::CUR_SIZE_ALL_MEM_TABLES),
            out_of_space: false,
            pending_compaction_bytes: self.worst(property::ESTIMATE_PENDING_COMPACTION_BYTES),
            engine_stalled: self.property(internal, property::IS_WRITE_STOPPED) != 0
                || self.property(internal, property::ACTUAL_DELAYED_WRITE_RATE) != 0,
        }
    }

    pub(super) fn memtables(&self) -> Memtables {
        let (seals, shape) = (self.events.seals(), *self.shape.lock());
        let mut memtables = Memtables { journal_bytes: self.seals.journal_bytes(), ..Memtables::default() };
        for ((keyspace, memtable), sealed) in Keyspace::ALL.into_iter().zip(&mut memtables.of).zip(seals) {
            *memtable = MemtableState {
                active_bytes: self.property(keyspace, property::CUR_SIZE_ACTIVE_MEM_TABLE),
                active_entries: self.property(keyspace, property::NUM_ENTRIES_ACTIVE_MEM_TABLE),
                full_bytes: options::memtable_bytes(keyspace, &shape) as u64,
                immutables: self.property(keyspace, property::NUM_IMMUTABLE_MEM_TABLE),
                sealed,
            };
        }
        self.seals.looked();
        memtables
    }

    pub(super) fn statistics(&self) -> EngineStatistics {
        let ticker =
            |ticker: Ticker| if self.counts_tickers { self.options.get_ticker_count(ticker) } else { 0 };
        EngineStatistics {
            engine: "rocksdb",
            cache_capacity_bytes: self.cache_bytes.load(Ordering::Relaxed),
            cache_usage_bytes: self.cache.get_usage() as u64,
            cache_pinned_bytes: self.cache.get_pinned_usage() as u64,
            cache_hits: ticker(Ticker::BlockCacheHit),
            cache_misses: ticker(Ticker::BlockCacheMiss),
            cache_read_into_bytes: ticker(Ticker::BlockCacheBytesWrite),
            filter_useful: ticker(Ticker::BloomFilterUseful),
            memtable_bytes: self.sum(property::SIZE_ALL_MEM_TABLES),
            memtable_unflushed_bytes: self.sum(property::CUR_SIZE_ALL_MEM_TABLES),
            table_reader_bytes: self.sum(property::ESTIMATE_TABLE_READERS_MEM),
            table_bytes: self.sum(property::LIVE_SST_FILES_SIZE),
            live_data_bytes: self.sum(property::ESTIMATE_LIVE_DATA_SIZE),
            table_total_bytes: self.sum(property::TOTAL_SST_FILES_SIZE),
            table_files: self.rocks.live_files().map_or(0, |files| files.len() as u64),
            keys_estimate: self.sum(property::ESTIMATE_NUM_KEYS),
            pressure: self.pressure(),
            background_jobs_running: self.property(Keyspace::Internal, property::NUM_RUNNING_FLUSHES)
                + self.property(Keyspace::Internal, property::NUM_RUNNING_COMPACTIONS),
            background_errors: self.worst(property::BACKGROUND_ERRORS),
            snapshots: self.property(Keyspace::Internal, property::NUM_SNAPSHOTS),
            oldest_snapshot_at: self.property(Keyspace::Internal, property::OLDEST_SNAPSHOT_TIME),
            journal_syncs: ticker(Ticker::WalFileSynced),
            journal_bytes: ticker(Ticker::WalFileBytes),
            flushes: self.events.flushes(),
            flush_bytes: ticker(Ticker::FlushWriteBytes),
            compaction_write_bytes: ticker(Ticker::CompactWriteBytes),
            compaction_read_bytes: ticker(Ticker::CompactReadBytes),
            keys_read: ticker(Ticker::NumberKeysRead),
            keys_written: ticker(Ticker::NumberKeysWritten),
            bytes_written: ticker(Ticker::BytesWritten),
            bytes_read: ticker(Ticker::BytesRead),
            stall_us: ticker(Ticker::StallMicros),
            seals: self.events.seals().iter().sum(),
            seals_on_loops: self.events.seals_on_loops(),
            seal_us_max: self.seals.us_max(),
            turned_back: self.seals.turned_back(),
            io_rate: self.limiter.as_ref().map_or(0, RateLimiter::bytes_per_second),
        }
    }
}
