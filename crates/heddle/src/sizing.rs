//! How the memory that the process may use is shared out, as far as the options do not say it.
//!
//! ```text
//!  memory │ caches: half beyond 1 GiB, or a third beyond 256 MiB │ memtables │ requests, replies, threads
//! ```
//! Memtables are what grows fastest under inserts: two keyspaces have one that is filled and some that wait
//! for their flush, each larger than its size by one group of commits. In small memory they are small, and
//! commits are slowed sooner ([`GateLimits`]).

use crate::knobs;
use crate::machine::Machine;
use dispatch::parameters::{Parameter, Parameters};
use std::time::Duration;
use storage::{Band, GateLimits, StorageOptions};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What is taken for the memory of a machine that does not tell it.
const UNKNOWN_MEMORY: u64 = GIB;
const CACHE_MIN: u64 = 32 * MIB;
/// With less memory than this everything is set for small memory.
const SMALL: u64 = 4 * GIB;
const MEMTABLE_MIN: u64 = 4 * MIB;
const MEMTABLES_PER_MEMORY: u64 = 64;
/// Threads of flush and compaction.
const BACKGROUND_JOBS: std::ops::RangeInclusive<usize> = 2..=16;
/// How long free memory is kept for what comes next before it goes back to the kernel.
pub(crate) const KEEP_FREE: Duration = Duration::from_secs(60);
const KEEP_FREE_SMALL: Duration = Duration::from_secs(1);

/// An index build may hold this share of the memory, …
const BUILD_MEMORY_SHARE: u64 = 32;
/// … and no more than MongoDB's `maxIndexBuildMemoryUsageMegabytes` says unless it is set.
const BUILD_MEMORY_MAX: usize = 200 << 20;

/// See the module. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// What the process may use.
    pub(crate) memory: u64,
    pub(crate) processors: usize,
    /// Blocks and rows together.
    pub(crate) cache: u64,
    pub(crate) row_cache: u64,
    pub(crate) memtable: u64,
    pub(crate) background_jobs: u32,
    /// How long the allocator keeps free memory.
    pub(crate) keep_free: Duration,
}

impl Sizes {
    /// What the options say, and for the rest what suits the machine.
    pub(crate) fn choose(machine: &Machine, parameters: &Parameters) -> Self {
        let memory = match machine.usable_memory() {
            0 => UNKNOWN_MEMORY,
            memory => memory,
        };
        let processors = machine.usable_processors();
        let chosen = |parameter| Some(parameters.unsigned(parameter) * MIB).filter(|bytes| *bytes > 0);
        let by_another_name = || Some(knobs::wired_tiger_cache(parameters)).filter(|bytes| *bytes > 0);
        let cache = chosen(Parameter::CacheSizeMb).or_else(by_another_name);
        let cache = cache.unwrap_or_else(|| default_cache(memory));
        let jobs = processors.clamp(*BACKGROUND_JOBS.start(), *BACKGROUND_JOBS.end());
        Sizes {
            memory,
            processors,
            cache,
            row_cache: cache / 100 * parameters.unsigned(Parameter::RowCachePercent),
            memtable: chosen(Parameter::MemtableSizeMb).unwrap_or_else(|| default_memtable(memory, cache)),
            background_jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
            keep_free: if memory < SMALL { KEEP_FREE_SMALL } else { KEEP_FREE },
        }
    }

    /// The store's options.
    pub(crate) fn storage(&self) -> StorageOptions {
        let mut options = StorageOptions {
            memtable_bytes: self.memtable,
            cache_bytes: (self.cache - self.row_cache).max(MIB),
            row_cache_bytes: self.row_cache,
            background_jobs: self.background_jobs,
            build_threads: self.processors,
            build_memory_bytes: usize::try_from(self.memory / BUILD_MEMORY_SHARE)
                .map_or(BUILD_MEMORY_MAX, |share| share.min(BUILD_MEMORY_MAX)),
            ..StorageOptions::default()
        };
        if self.memory < SMALL {
            options.gate = GateLimits { immutable_memtables: Band { paced: 2, closed: 4 }, ..options.gate };
            options.compaction_readahead_bytes = MIB / 4;
        }
        options
    }

    /// Says once what was found and what was made of it.
    pub(crate) fn log(&self, machine: &Machine) {
        let memory_limit = machine.memory_limit.as_ref();
        let quota = machine.processor_quota.as_ref();
        tracing::info!(target: "control", id = 20_698,
            memory_mb = machine.memory / MIB,
            memory_limit_mb = memory_limit.map(|limit| limit.value / MIB),
            memory_limit_file = memory_limit.map(|limit| limit.file.display().to_string()),
            processors = machine.processors,
            allowed_processors = machine.allowed_processors,
            processor_quota = quota.map(|limit| limit.value),
            processor_quota_file = quota.map(|limit| limit.file.display().to_string()),
            cache_mb = self.cache / MIB,
            row_cache_mb = self.row_cache / MIB,
            memtable_mb = self.memtable / MIB,
            threads_at_a_time = self.processors,
            background_jobs = self.background_jobs,
            "Memory and processors of this machine, what control groups allow of them, and the sizes in \
            force");
    }
}

/// Half of the memory beyond 1 GiB, or a third beyond 256 MiB where that is more.
fn default_cache(memory: u64) -> u64 {
    let half = memory.saturating_sub(GIB) / 2;
    let third = memory.saturating_sub(256 * MIB) / 3;
    half.max(third).max(CACHE_MIN)
}

/// A thirty-second of the cache, within bounds: where there is memory, versions that are replaced soon are
/// never written to a table.
fn default_memtable(memory: u64, cache: u64) -> u64 {
    let largest = (memory / MEMTABLES_PER_MEMORY).max(MEMTABLE_MIN);
    (cache / 32).clamp(64 * MIB, 256 * MIB).min(largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Limit;
    use dispatch::parameters::Setting;

    fn machine(memory_mb: u64, limit_mb: Option<u64>) -> Machine {
        let memory_limit = limit_mb.map(|mb| Limit { value: mb * MIB, file: "memory.max".into() });
        let memory = memory_mb * MIB;
        Machine { memory, memory_limit, processors: 8, allowed_processors: 8, processor_quota: None }
    }

    fn check(memory_mb: u64, limit_mb: Option<u64>, cache_mb: u64, memtable_mb: u64) {
        let sizes = Sizes::choose(&machine(memory_mb, limit_mb), &Parameters::default());
        let found = (sizes.cache / MIB, sizes.memtable / MIB);
        assert_eq!(found, (cache_mb, memtable_mb), "{memory_mb} MiB of memory, limited to {limit_mb:?}");
        sizes.storage().validate().expect("the store takes these sizes");
    }

    #[test]
    fn sizes_follow_the_memory_that_may_be_used() {
        check(24_000, None, 11_488, 256);
        check(131_072, None, 65_024, 256);
        check(24_000, Some(100_000), 11_488, 256);
        check(24_000, Some(16_384), 7_680, 240);
        check(24_000, Some(4_096), 1_536, 64);
        check(24_000, Some(2_048), 597, 32);
        check(24_000, Some(1_024), 256, 16);
        check(24_000, Some(512), 85, 8);
        check(24_000, Some(64), 32, 4);
        check(0, None, 256, 16);
    }

    /// Caches, and all memtables that the gate lets come together, each larger than its size by one group of
    /// commits.
    #[test]
    fn in_small_memory_caches_and_memtables_leave_a_third() {
        const GROUP: u64 = 8 * MIB;
        const KEYSPACES: u64 = 2;
        for limit_mb in [512, 768, 1_024, 1_536, 2_048, 3_072, 4_095] {
            let sizes = Sizes::choose(&machine(24_000, Some(limit_mb)), &Parameters::default());
            let waiting = sizes.storage().gate.immutable_memtables.closed;
            let memtables = KEYSPACES * (1 + waiting) * (sizes.memtable + GROUP);
            let left = sizes.memory.saturating_sub(sizes.cache + memtables);
            assert!(left * 3 >= sizes.memory, "{limit_mb} MiB leave {} MiB: {sizes:?}", left / MIB);
        }
    }

    #[test]
    fn memtables_grow_with_the_cache_within_bounds() {
        let memory = 128 * GIB;
        assert_eq!(default_memtable(memory, 256 * MIB), 64 * MIB);
        assert_eq!(default_memtable(memory, 4096 * MIB), 128 * MIB);
        assert_eq!(default_memtable(memory, 65_536 * MIB), 256 * MIB);
    }

    #[test]
    fn options_come_first() {
        let parameters = Parameters::default();
        for (parameter, mib) in [(Parameter::CacheSizeMb, 100), (Parameter::MemtableSizeMb, 7)] {
            parameters.set(parameter, Setting::Integer(mib)).expect("allowed");
        }
        let sizes = Sizes::choose(&machine(24_000, Some(1_024)), &parameters);
        assert_eq!((sizes.cache, sizes.row_cache, sizes.memtable), (100 * MIB, 25 * MIB, 7 * MIB));
    }

    #[test]
    fn threads_follow_the_processors_that_may_be_used() {
        let mut few = machine(24_000, None);
        few.processor_quota = Some(Limit { value: 1.5, file: "cpu.max".into() });
        let sizes = Sizes::choose(&few, &Parameters::default());
        assert_eq!((sizes.processors, sizes.background_jobs), (2, 2));
        let many = Machine { allowed_processors: 64, processors: 64, ..machine(24_000, None) };
        assert_eq!(Sizes::choose(&many, &Parameters::default()).background_jobs, 16);
    }
}
