//! What the store counts, for `serverStatus`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::budget::BudgetReason;
use crate::engine::EngineStatistics;
use crate::knobs::StorageKnobs;
use crate::space::SpaceStatistics;

/// Figures of the commit pipeline since the store was opened. Times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitStatistics {
    /// Units committed.
    pub commits: u64,
    /// Units refused.
    pub commits_failed: u64,
    /// Groups written; `commits / groups` is the mean group size.
    pub groups: u64,
    /// The largest group.
    pub group_units_max: u64,
    /// Groups of 1, 2, 3–4, 5–8, 9–16, 17–32, 33–64 and more units.
    pub group_units_histogram: [u64; 8],
    /// Bytes of keys and values committed.
    pub bytes: u64,
    /// Time spent writing groups.
    pub write_us: u64,
    /// The slowest group.
    pub write_us_max: u64,
    /// Syncs of the journal by this store.
    pub journal_syncs: u64,
    /// Time spent in them.
    pub journal_sync_us: u64,
    /// The slowest one.
    pub journal_sync_us_max: u64,
    /// Applied but not yet synced: sequence numbers.
    pub journal_lag: u64,
    /// Why nothing is acknowledged any more: a sync has failed, or the store is broken.
    pub breakdown: Option<String>,
    /// `open`, `paced` or `closed`.
    pub gate: &'static str,
    /// Commits that have had to wait at the gate.
    pub gate_held: u64,
    /// Commits waiting there now.
    pub gate_waiting: u64,
    /// Groups the engine sent back because it was behind.
    pub engine_stalls: u64,
}

/// Figures of the cache of hot rows since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCacheStatistics {
    /// Bytes it may take; zero when it is switched off.
    pub capacity_bytes: u64,
    /// Bytes it takes.
    pub bytes: u64,
    /// Reads of a key that it answered.
    pub hits: u64,
    /// Reads of an existing key that went to the engine.
    pub misses: u64,
}

/// Figures of reading ahead since the store was opened, in keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAheadStatistics {
    /// That were read, or are about to be.
    pub asked: u64,
    /// Of these, that came from the disk.
    pub slow: u64,
    /// That were too many at once: who wanted them read them without it.
    pub dropped: u64,
}

/// The I/O budget, and what recovery would have to do.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetStatistics {
    /// What everything in the background may move now; 0 is no limit.
    pub bytes_per_second: u64,
    /// What flush and compaction may write of it.
    pub engine_bytes_per_second: u64,
    /// What compaction alone may write of it, by a rate of its own; 0 is no limit.
    pub compaction_bytes_per_second: u64,
    /// What compaction may take of the processors; 0 is no limit.
    pub compaction_processors: f64,
    /// How far these are behind: from 0 to 1, where everything is theirs.
    pub debt: f64,
    /// What late clients leave of the budget: from an eighth to 1.
    pub squeeze: f64,
    /// Why the budget is what it is.
    pub reason: BudgetReason,
    /// Groups of commits, syncs and sampled reads that took longer than the target.
    pub late: u64,
    /// How often that was too much of them.
    pub squeezed: u64,
    /// Bytes of the log that recovery would read.
    pub replay_bytes: u64,
    /// How old the oldest write is that is in no table file.
    pub oldest_unflushed: Option<Duration>,
    /// The options in force that can change.
    pub knobs: StorageKnobs,
    /// The same by default, where that was noted.
    pub default_knobs: StorageKnobs,
}

/// Everything the store knows about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageStatistics {
    /// The pipeline.
    pub commit: CommitStatistics,
    /// The cache of hot rows.
    pub row_cache: RowCacheStatistics,
    /// What was read ahead of walks.
    pub read_ahead: ReadAheadStatistics,
    /// The data disk.
    pub space: SpaceStatistics,
    /// The engine.
    pub engine: EngineStatistics,
    /// The I/O budget.
    pub budget: BudgetStatistics,
}

#[derive(Default)]
pub(crate) struct CommitCounts {
    pub(crate) commits: AtomicU64,
    pub(crate) commits_failed: AtomicU64,
    groups: AtomicU64,
    group_units_max: AtomicU64,
    group_units_histogram: [AtomicU64; 8],
    bytes: AtomicU64,
    write_us: AtomicU64,
    write_us_max: AtomicU64,
    journal_syncs: AtomicU64,
    journal_sync_us: AtomicU64,
    journal_sync_us_max: AtomicU64,
    pub(crate) engine_stalls: AtomicU64,
}

impl CommitCounts {
    pub(crate) fn group_written(&self, units: u64, bytes: u64, elapsed_us: u64) {
        let bucket = (u64::BITS - units.saturating_sub(1).leading_zeros()).min(7) as usize;
        if let Some(count) = self.group_units_histogram.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.commits.fetch_add(units, Ordering::Relaxed);
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.group_units_max.fetch_max(units, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.write_us.fetch_add(elapsed_us, Ordering::Relaxed);
        self.write_us_max.fetch_max(elapsed_us, Ordering::Relaxed);
    }

    pub(crate) fn journal_synced(&self, elapsed_us: u64) {
        self.journal_syncs.fetch_add(1, Ordering::Relaxed);
        self.journal_sync_us.fetch_add(elapsed_us, Ordering::Relaxed);
        self.journal_sync_us_max.fetch_max(elapsed_us, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> CommitStatistics {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CommitStatistics {
            commits: read(&self.commits),
            commits_failed: read(&self.commits_failed),
            groups: read(&self.groups),
            group_units_max: read(&self.group_units_max),
            group_units_histogram: self.group_units_histogram.each_ref().map(read),
            bytes: read(&self.bytes),
            write_us: read(&self.write_us),
            write_us_max: read(&self.write_us_max),
            journal_syncs: read(&self.journal_syncs),
            journal_sync_us: read(&self.journal_sync_us),
            journal_sync_us_max: read(&self.journal_sync_us_max),
            engine_stalls: read(&self.engine_stalls),
            ..CommitStatistics::default()
        }
    }
}
