//! How the memory that the process may use is shared out, as far as the options do not say it.
//!
//! ```text
//!  memory │ caches: half beyond 1 GiB, or a third beyond 256 MiB │ memtables │ sorts, groups │ requests, …
//! ```
//! The memory is what the machine and its control groups allow, or less where `memoryLimitMB` says so.
//! Memtables are what grows fastest under inserts: two keyspaces have one that is filled and some that wait
//! for their flush, each larger than its size by one group of commits. In small memory they are small, and
//! commits are slowed sooner ([`GateLimits`]).

use crate::knobs;
use crate::machine::Machine;
use dispatch::parameters::{Parameter, Parameters};
use std::time::Duration;
use storage::{Band, EngineMemory, GateLimits, StorageOptions, StoreMemory};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What is taken for the memory of a machine that does not tell it.
const UNKNOWN_MEMORY: u64 = GIB;
const CACHE_MIN: u64 = 32 * MIB;
/// With less memory than this everything is set for small memory.
const SMALL: u64 = 4 * GIB;
const MEMTABLE_MIN: u64 = 4 * MIB;
const MEMTABLES_PER_MEMORY: u64 = 64;
/// Filters that all threads of flush and compaction make at a time may take this share of the memory; where
/// it would be more they are made in parts.
const FILTERS_SHARE: u64 = 8;
/// How long free memory is kept for what comes next before it goes back to the kernel.
pub(crate) const KEEP_FREE: Duration = Duration::from_secs(60);
const KEEP_FREE_SMALL: Duration = Duration::from_secs(1);

/// The least that `memoryLimitMB` counts as.
const LIMIT_MIN: u64 = 256 * MIB;
/// Sorts, groups and joins of all operations may hold this share of the memory.
const QUERIES_SHARE: u64 = 8;
/// Keyspaces whose memtables are full now and then; those of the others are small.
const KEYSPACES: u64 = 2;
/// All memtables that the gate lets come together may take this share of a limit that is set while the server
/// runs.
const MEMTABLES_SHARE: u64 = 2;

/// An index build may hold this share of the memory, all of them together twice as much, …
const BUILD_MEMORY_SHARE: u64 = 32;
const BUILDS_MEMORY_SHARE: u64 = 16;
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
    /// Memtables together.
    pub(crate) memtables: u64,
    /// When commits are slowed.
    gate: GateLimits,
    /// Sorts, groups and joins of all operations together.
    pub(crate) queries: u64,
    pub(crate) background_jobs: u32,
    /// How long the allocator keeps free memory.
    pub(crate) keep_free: Duration,
}

impl Sizes {
    /// What the options say, and for the rest what suits the machine.
    pub(crate) fn choose(machine: &Machine, parameters: &Parameters) -> Self {
        Self::within(parameters.unsigned(Parameter::MemoryLimitMb), machine, parameters)
    }

    /// The same with another `memoryLimitMB`.
    pub(crate) fn within(limit_mb: u64, machine: &Machine, parameters: &Parameters) -> Self {
        let memory = match (machine.usable_memory(), (limit_mb * MIB).max(LIMIT_MIN)) {
            (0, _) if limit_mb == 0 => UNKNOWN_MEMORY,
            (0, limit) => limit,
            (memory, _) if limit_mb == 0 => memory,
            (memory, limit) => memory.min(limit),
        };
        let processors = machine.usable_processors();
        let chosen = |parameter| Some(parameters.unsigned(parameter) * MIB).filter(|bytes| *bytes > 0);
        let by_another_name = || Some(knobs::wired_tiger_cache(parameters)).filter(|bytes| *bytes > 0);
        let cache = chosen(Parameter::CacheSizeMb).or_else(by_another_name);
        let cache = cache.unwrap_or_else(|| default_cache(memory));
        let memtable = chosen(Parameter::MemtableSizeMb).unwrap_or_else(|| default_memtable(memory, cache));
        let gate = gate(memory);
        Sizes {
            memory,
            processors,
            cache,
            row_cache: cache / 100 * parameters.unsigned(Parameter::RowCachePercent),
            memtable,
            memtables: memtables(&gate, memtable),
            gate,
            queries: memory / QUERIES_SHARE,
            background_jobs: StorageOptions::background_jobs_on(processors),
            keep_free: if memory < SMALL { KEEP_FREE_SMALL } else { KEEP_FREE },
        }
    }

    /// What the store may hold.
    pub(crate) fn store_memory(&self) -> StoreMemory {
        let engine =
            EngineMemory { cache: (self.cache - self.row_cache).max(MIB), memtables: self.memtables };
        StoreMemory { rows: self.row_cache, builds: self.memory / BUILDS_MEMORY_SHARE, engine }
    }

    /// With memtables of another size.
    pub(crate) fn with_memtable(self, memtable: u64) -> Sizes {
        Sizes { memtable, memtables: memtables(&self.gate, memtable), ..self }
    }

    /// Other sizes in the place of these, while the server runs: its gate stays.
    ///
    /// # Errors
    /// The memtables would take too much of the memory, and more of it than now.
    pub(crate) fn followed_by(&self, later: Sizes) -> Result<Sizes, String> {
        let memtable = later.memtable;
        let later = Sizes { gate: self.gate, ..later }.with_memtable(memtable);
        let least = MEMTABLES_SHARE * later.memtables;
        let takes_more = later.memory < self.memory || memtable > self.memtable;
        if takes_more && later.memory < least {
            return Err(format!(
                "memtables of {} MiB need at least {} MiB, and the process may use {}",
                memtable / MIB,
                least.div_ceil(MIB),
                later.memory / MIB
            ));
        }
        Ok(later)
    }

    /// The store's options.
    pub(crate) fn storage(&self) -> StorageOptions {
        let memory = self.store_memory();
        let mut options = StorageOptions {
            memtable_bytes: self.memtable,
            memtables_bytes: self.memtables,
            cache_bytes: memory.engine.cache,
            row_cache_bytes: memory.rows,
            gate: self.gate,
            background_jobs: self.background_jobs,
            build_threads: self.processors,
            build_memory_bytes: usize::try_from(self.memory / BUILD_MEMORY_SHARE)
                .map_or(BUILD_MEMORY_MAX, |share| share.min(BUILD_MEMORY_MAX)),
            filters_in_parts: self.makes_filters_in_parts(),
            ..StorageOptions::default()
        };
        if self.memory < SMALL {
            options.compaction_readahead_bytes = MIB / 4;
        }
        options
    }

    /// Where whole ones take too much while they are made, or would push all else out of a small cache.
    fn makes_filters_in_parts(&self) -> bool {
        let whole = u64::from(self.background_jobs) * StorageOptions::WHOLE_FILTER_BYTES;
        self.memory < SMALL || whole > self.memory / FILTERS_SHARE
    }

    /// Says once what was found and what was made of it.
    pub(crate) fn log(&self, machine: &Machine) {
        let memory_limit = machine.memory_limit.as_ref();
        let quota = machine.processor_quota.as_ref();
        tracing::info!(target: "control", id = 20_698,
            memory_mb = machine.memory / MIB,
            used_memory_mb = self.memory / MIB,
            memory_limit_mb = memory_limit.map(|limit| limit.value / MIB),
            memory_limit_file = memory_limit.map(|limit| limit.file.display().to_string()),
            processors = machine.processors,
            allowed_processors = machine.allowed_processors,
            processor_quota = quota.map(|limit| limit.value),
            processor_quota_file = quota.map(|limit| limit.file.display().to_string()),
            cache_mb = self.cache / MIB,
            row_cache_mb = self.row_cache / MIB,
            memtable_mb = self.memtable / MIB,
            queries_mb = self.queries / MIB,
            threads_at_a_time = self.processors,
            background_jobs = self.background_jobs,
            "Memory and processors of this machine, what control groups allow of them, and the sizes in \
            force");
    }
}

/// When commits are slowed.
fn gate(memory: u64) -> GateLimits {
    let usual = GateLimits::default();
    if memory >= SMALL {
        return usual;
    }
    GateLimits { immutable_memtables: Band { paced: 2, closed: 4 }, ..usual }
}

/// All memtables that the gate lets come together.
fn memtables(gate: &GateLimits, memtable: u64) -> u64 {
    KEYSPACES * (1 + gate.immutable_memtables.closed) * memtable
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

    #[test]
    fn a_limit_of_ones_own_counts_where_it_is_smaller() {
        let check = |limit: i64, allowed_mb, expect_mb: u64| {
            let parameters = Parameters::default();
            parameters.set(Parameter::MemoryLimitMb, Setting::Integer(limit)).expect("allowed");
            let sizes = Sizes::choose(&machine(24_000, allowed_mb), &parameters);
            assert_eq!(sizes.memory, expect_mb * MIB, "{limit} of {allowed_mb:?}");
            assert_eq!((sizes.queries, sizes.cache), (expect_mb * MIB / 8, default_cache(expect_mb * MIB)));
        };
        check(0, None, 24_000);
        check(512, None, 512);
        check(512, Some(1_024), 512);
        check(2_048, Some(1_024), 1_024);
        check(100_000, None, 24_000);
        check(1, None, 256);
        let unknown = Sizes::within(2_048, &machine(0, None), &Parameters::default());
        assert_eq!(unknown.memory, 2_048 * MIB);
    }

    #[test]
    fn another_limit_brings_other_memtables_within_what_fits() {
        let (machine, parameters) = (machine(24_000, None), Parameters::default());
        let of = |limit| Sizes::within(limit, &machine, &parameters);
        let larger = of(512).followed_by(of(2_048)).expect("more is always possible");
        assert_eq!(larger, of(2_048));
        let smaller = of(0).followed_by(of(512)).expect("memtables follow");
        assert_eq!((smaller.memtable, smaller.memtables), (8 * MIB, 112 * MIB), "seven of each, as before");
        assert_eq!((smaller.cache, smaller.queries), (of(512).cache, 64 * MIB));
        parameters.set(Parameter::MemtableSizeMb, Setting::Integer(64)).expect("allowed");
        let of = |limit| Sizes::within(limit, &machine, &parameters);
        let refusal = of(2_048).followed_by(of(1_024)).expect_err("ten of them are 640 MiB");
        assert_eq!(refusal, "memtables of 64 MiB need at least 1280 MiB, and the process may use 1024");
        assert!(of(2_048).followed_by(of(1_280)).is_ok());
        assert!(of(512).followed_by(of(600)).is_ok(), "they were so from the start");
    }

    /// Whole filters of small documents take several times the table's size while they are made.
    #[test]
    fn filters_are_made_in_parts_where_whole_ones_take_too_much() {
        let check = |limit_mb, processors, in_parts| {
            let machine = Machine { allowed_processors: processors, processors, ..machine(limit_mb, None) };
            let options = Sizes::choose(&machine, &Parameters::default()).storage();
            assert_eq!(options.filters_in_parts, in_parts, "{limit_mb} MiB, {processors} processors");
        };
        check(256, 2, true);
        check(512, 2, true);
        check(2_048, 2, true);
        check(4_096, 2, false);
        check(4_096, 8, true);
        check(24_000, 16, false);
        check(131_072, 64, false);
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
        assert_eq!((sizes.processors, sizes.background_jobs), (2, 3));
        let many = Machine { allowed_processors: 64, processors: 64, ..machine(24_000, None) };
        assert_eq!(Sizes::choose(&many, &Parameters::default()).background_jobs, 16);
    }
}
