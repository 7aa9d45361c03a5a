//! The tunables of the store.

use std::time::Duration;

use crate::engine::EngineShape;
use crate::gate::GateLimits;
use crate::space::default_reserve;
use crate::vault::MasterKey;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// How a store is opened. `Default` suits a machine of its own with a few gigabytes of memory.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// Block cache in bytes, shared by all keyspaces. Default 1 GiB; a server should give it about half
    /// of the memory it may use.
    pub cache_bytes: u64,
    /// Cache of hot documents above the engine, in bytes; 0 switches it off. Default 256 MiB; a server should
    /// give it a quarter of what it gives both caches.
    pub row_cache_bytes: u64,
    /// Size of one memtable of the `documents` keyspace in bytes. Default 64 MiB: a flush then writes
    /// files of a size that compaction likes, and recovery replays at most a few of them.
    pub memtable_bytes: u64,
    /// All memtables of all keyspaces together, in bytes: with more of them, the largest are flushed before
    /// they are full. Default 1 GiB, which the gate comes before.
    pub memtables_bytes: u64,
    /// Size of one table file below level 0. Default 64 MiB.
    pub table_bytes: u64,
    /// Whether filter and index of a table are made, read and cached in pieces of some KiB, of which a read
    /// needs one more. Default false: whole. A whole filter takes up to
    /// [`StorageOptions::WHOLE_FILTER_BYTES`] while it is made.
    pub filters_in_parts: bool,
    /// Memtables a keyspace may have before the engine itself stops writes. Default 8; the gate acts far
    /// earlier, see [`StorageOptions::validate`].
    pub memtable_count_max: u32,
    /// Flush and compaction together may write this many bytes each second at most. Default 512 MiB; 0 means
    /// no limit. How much of it they may at a moment, and what else moves bytes in the background
    /// (`pace.rs`), is decided by `budget/`: reads and the journal are not held to it.
    pub io_budget_bytes_per_second: u64,
    /// How often the journal is brought to stable storage without being asked. Default 100 ms, like
    /// `storage.journal.commitIntervalMs` of MongoDB; range 1 to 500 ms.
    pub journal_interval: Duration,
    /// The oldest memtables are flushed when recovery would have to replay more than this many bytes of the
    /// log. Default 1 GiB: the time recovery takes is bounded by it.
    pub journal_bytes_max: u64,
    /// Table files kept open; further ones are opened when they are read and push others out. Default 512: 32
    /// GiB of files of 64 MiB. A server that holds many connections takes its descriptor limit, subtracts its
    /// connections, its own files and [`StorageOptions::DESCRIPTORS_BESIDE_TABLES`], and passes what is left,
    /// 512 at least where it can. -1 means all of them, however many there are.
    pub open_files_max: i32,
    /// Foreground work that takes longer is late; too much that is late squeezes the I/O budget
    /// (`budget/`). Default 5 ms.
    pub latency_target: Duration,
    /// From so many unflushed bytes on memtables are sealed before they are full. Default: none.
    pub dirty_target_bytes: Option<u64>,
    /// From so many unflushed bytes on commits are slowed, beside the limits of the gate. Default: none.
    pub dirty_trigger_bytes: Option<u64>,
    /// A write that is older than this is flushed, and need not be replayed. Default 60 s, like
    /// `storage.syncPeriodSecs` of MongoDB; zero is no bound but the bytes.
    pub flush_interval: Duration,
    /// Threads for flush and compaction at most. Default 0: chosen by the number of processors.
    pub background_jobs: u32,
    /// The same while nothing is owed. Default 0: always as many as at most.
    pub background_jobs_min: u32,
    /// Threads that one index build may use at a time. Default 0: none of its own, it computes where it was
    /// asked for. A server gives it as many as it has processors; they are as nice as the thread that begins
    /// it.
    pub build_threads: usize,
    /// Memory for the entries of one index build, in bytes; what is more goes to the disk in sorted runs.
    /// Default 64 MiB.
    pub build_memory_bytes: usize,
    /// What a compaction reads ahead of each of its files, in bytes. Default 2 MiB: few large reads, also
    /// where each is slow.
    pub compaction_readahead_bytes: u64,
    /// Whether the engine counts cache hits and the like. Default true; costs about one per cent.
    pub engine_statistics: bool,
    /// Bytes set aside on the disk, and kept free beside them before writes that grow are refused. Default: a
    /// hundredth of the file system within bounds. 0 means none: nothing is refused before the disk is full.
    pub disk_reserve_bytes: Option<u64>,
    /// The key with which the keys of the data directory are encrypted. Default none: nothing is encrypted.
    pub master_key: Option<MasterKey>,
    /// When commits are slowed and held back so that the engine never stops them itself.
    pub gate: GateLimits,
    /// For comparisons: the engine keeps the memtables, triggers, threads and rates that it comes with, and
    /// slows and stops writes itself; no gate is before it. Default false.
    pub engine_defaults: bool,
}

/// What one flush or one table may take of a file system of so many bytes.
fn step_of(disk_bytes: u64) -> u64 {
    (disk_bytes / 128).max(256 << 10)
}

impl Default for StorageOptions {
    fn default() -> StorageOptions {
        StorageOptions {
            cache_bytes: GIB,
            row_cache_bytes: 256 * MIB,
            memtable_bytes: 64 * MIB,
            memtables_bytes: GIB,
            table_bytes: Self::TABLE_BYTES_USUAL,
            filters_in_parts: false,
            memtable_count_max: 8,
            io_budget_bytes_per_second: 512 * MIB,
            journal_interval: Duration::from_millis(100),
            journal_bytes_max: GIB,
            open_files_max: 512,
            latency_target: Duration::from_millis(5),
            dirty_target_bytes: None,
            dirty_trigger_bytes: None,
            flush_interval: Duration::from_secs(60),
            background_jobs: 0,
            background_jobs_min: 0,
            build_threads: 0,
            build_memory_bytes: 64 << 20,
            compaction_readahead_bytes: 2 * MIB,
            engine_statistics: true,
            disk_reserve_bytes: None,
            master_key: None,
            gate: GateLimits::default(),
            engine_defaults: false,
        }
    }
}

impl StorageOptions {
    /// The shortest and longest journal interval, as MongoDB's `journalCommitInterval` has them.
    pub const JOURNAL_INTERVAL_RANGE: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_millis(500);

    /// Descriptors a store uses besides table files kept open: log files that are not flushed yet, manifest,
    /// informational log, lock, and what flush and compaction are writing. Generous; usual are about twenty.
    pub const DESCRIPTORS_BESIDE_TABLES: u32 = 64;

    /// Size of one table file where the disk is not small.
    pub(crate) const TABLE_BYTES_USUAL: u64 = 64 * MIB;

    /// The reserve has room for so many tables: as many as a compaction reads at most, but of level 0.
    pub(crate) const TABLES_IN_RESERVE: u64 = 16;
    /// Tables are not made smaller than this for the sake of a reserve that is smaller than by default.
    const TABLE_BYTES_FOR_RESERVE_MIN: u64 = 8 * MIB;

    /// What the filter of a table of the usual size may take while it is made: of five million keys at a
    /// dozen bytes 8 bytes each for their hashes, and 17 for the equations that make a ribbon filter of them.
    pub const WHOLE_FILTER_BYTES: u64 = 128 * MIB;

    /// As these, fitted to a file system of so many bytes: on a small one no flush and no compaction takes
    /// more than a few hundredths of it, and neither does the log; and no more than the reserve has.
    pub(crate) fn fitted_to(&self, disk_bytes: u64) -> StorageOptions {
        let step = step_of(disk_bytes);
        let memtable_bytes = Self::shape_fitting(disk_bytes, self.shape()).memtable_bytes;
        let by_default = default_reserve(disk_bytes, memtable_bytes);
        let reserve = self.disk_reserve_bytes.unwrap_or(by_default);
        let table_bytes_max = match reserve {
            0 => step,
            reserve => {
                let least = (by_default / Self::TABLES_IN_RESERVE).min(Self::TABLE_BYTES_FOR_RESERVE_MIN);
                (reserve / Self::TABLES_IN_RESERVE).max(least).min(step)
            }
        };
        StorageOptions {
            memtable_bytes,
            table_bytes: self.table_bytes.min(table_bytes_max),
            disk_reserve_bytes: Some(reserve),
            journal_bytes_max: self
                .journal_bytes_max
                .min(Self::journal_bytes_fitting(disk_bytes, memtable_bytes)),
            ..self.clone()
        }
    }

    /// What of the shape suits a file system of so many bytes.
    pub(crate) fn shape_fitting(disk_bytes: u64, shape: EngineShape) -> EngineShape {
        EngineShape { memtable_bytes: shape.memtable_bytes.min(step_of(disk_bytes)), ..shape }
    }

    /// What of the log suits a file system of so many bytes.
    pub(crate) fn journal_bytes_fitting(disk_bytes: u64, memtable_bytes: u64) -> u64 {
        (disk_bytes / 16).max(4 * memtable_bytes)
    }

    /// Small caches and memtables, for tests that open many stores.
    pub fn small() -> StorageOptions {
        StorageOptions {
            cache_bytes: 8 * MIB,
            row_cache_bytes: MIB,
            memtable_bytes: 4 * MIB,
            journal_bytes_max: 64 * MIB,
            disk_reserve_bytes: Some(0),
            ..Default::default()
        }
    }

    /// Threads for flush and compaction on so many processors. Of three RocksDB leaves two to compaction:
    /// level 0 does not wait for what goes on below it.
    pub fn background_jobs_on(processors: usize) -> u32 {
        processors.clamp(3, 16) as u32
    }

    pub(crate) fn background_jobs_or_default(&self) -> u32 {
        let processors = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        if self.background_jobs == 0 { Self::background_jobs_on(processors) } else { self.background_jobs }
    }

    /// Checks the rules across fields.
    ///
    /// # Errors
    /// A sentence that names the field, its value and what is allowed.
    pub fn validate(&self) -> Result<(), String> {
        self.knobs().validate()?;
        if self.memtables_bytes < self.memtable_bytes {
            return Err(format!(
                "memtables_bytes is {}, expected at least memtable_bytes, which is {}",
                self.memtables_bytes, self.memtable_bytes
            ));
        }
        if !Self::JOURNAL_INTERVAL_RANGE.contains(&self.journal_interval) {
            return Err(format!("journal_interval is {:?}, expected 1 ms to 500 ms", self.journal_interval));
        }
        if self.open_files_max != -1 && self.open_files_max < 64 {
            return Err(format!("open_files_max is {}, expected -1 or at least 64", self.open_files_max));
        }
        let gate = &self.gate;
        for (name, band) in [
            ("immutable_memtables", gate.immutable_memtables),
            ("level0_files", gate.level0_files),
            ("pending_compaction_bytes", gate.pending_compaction_bytes),
            ("unflushed_bytes", gate.unflushed_bytes),
        ] {
            if band.paced == 0 || band.closed <= band.paced {
                return Err(format!("gate.{name} is {band:?}, expected 0 < paced < closed"));
            }
        }
        if gate.pace_slowest == 0 || gate.pace_fastest < gate.pace_slowest {
            return Err(format!(
                "gate.pace_slowest is {} and gate.pace_fastest is {}, expected 0 < slowest <= fastest",
                gate.pace_slowest, gate.pace_fastest
            ));
        }
        let closes_at = self.gate.immutable_memtables.closed;
        if u64::from(self.memtable_count_max) < closes_at + 2 {
            return Err(format!(
                "memtable_count_max is {}, expected at least {} so that the gate closes before the engine \
                stops",
                self.memtable_count_max,
                closes_at + 2
            ));
        }
        Ok(())
    }
}
