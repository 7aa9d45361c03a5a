//! The I/O budget and its knobs on a real store: what is sealed where, what recovery would replay, and what
//! changes while the store is open.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use storage::{
    Band, BudgetReason, EngineMemory, GateLimits, Keyspace, StorageKnobs, StorageOptions, StorageStatistics,
    Store, StoreMemory, WriteUnit,
};

use crate::commit;
use crate::turns::deferred;

const MIB: u64 = 1 << 20;
/// Whatever is waited for comes far sooner.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(options: &StorageOptions) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), options).unwrap();
    (directory, store)
}

/// Bytes that do not compress.
fn unit(number: u64, bytes: usize) -> WriteUnit {
    unit_of(Keyspace::Documents, number, bytes)
}

fn unit_of(keyspace: Keyspace, number: u64, bytes: usize) -> WriteUnit {
    let mut random = fastrand::Rng::with_seed(number);
    let mut unit = WriteUnit::new();
    let value: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(bytes).collect();
    unit.put(keyspace, &number.to_be_bytes(), &value);
    unit
}

#[track_caller]
fn until(store: &Store, what: &str, holds: impl Fn(&StorageStatistics) -> bool) -> StorageStatistics {
    let began = Instant::now();
    loop {
        let statistics = store.statistics();
        if holds(&statistics) {
            return statistics;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {statistics:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Commits as an event loop does: everything ready is polled, then the turn ends.
fn commit_in_turns(store: &Store, units: impl Iterator<Item = WriteUnit>) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    for unit in units {
        let mut commit = store.commit(unit);
        let mut is_done = || {
            let polled = Pin::new(&mut commit).poll(&mut Context::from_waker(&waker));
            polled.map(Result::unwrap).is_ready()
        };
        while !is_done() {
            store.turn_ended();
            if is_done() {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

#[test]
fn no_loop_seals_a_memtable_or_begins_a_file_of_the_log() {
    // However slow the disk is, nobody is paced here.
    let gate = GateLimits {
        immutable_memtables: Band { paced: 28, closed: 30 },
        level0_files: Band { paced: 40, closed: 46 },
        ..GateLimits::default()
    };
    let (_directory, store) =
        open(&StorageOptions { gate, memtable_count_max: 32, ..StorageOptions::small() });
    deferred(|| {
        // Faster than the governor looks, in units that are small and in some that fill a memtable at once.
        commit_in_turns(&store, (0..400).map(|number| unit(number, 100_000)));
        commit_in_turns(&store, (400..403).map(|number| unit(number, 5 << 20)));
        commit_in_turns(&store, (403..3_000).map(|number| unit(number, 10)));
        let written = store.statistics().engine.journal_bytes;
        assert!(written > 50 * MIB, "{written} bytes were written");
    });
    let engine = store.statistics().engine;
    assert!(engine.seals >= 8, "{} memtables of 4 MiB were sealed", engine.seals);
    assert_eq!(engine.seals_on_loops, 0, "of {}", engine.seals);
    assert_eq!(store.statistics().commit.engine_stalls, 0, "nothing was behind");
}

#[test]
fn recovery_replays_no_more_than_the_knobs_say() {
    let journal_bytes_max = 8 * MIB;
    let options = StorageOptions { memtable_bytes: 64 * MIB, journal_bytes_max, ..StorageOptions::small() };
    let (_directory, store) = open(&options);
    for number in 0..400 {
        store.commit(unit(number, 100_000)).wait().unwrap();
    }
    let bounded = until(&store, "the log is not cut", |found| found.budget.replay_bytes <= journal_bytes_max);
    assert!(bounded.engine.journal_bytes > 4 * journal_bytes_max);
    commit(&store, "a").unwrap();
    until(&store, "the write is not seen", |found| found.budget.oldest_unflushed.is_some());
    let knobs = StorageKnobs { flush_interval: Duration::from_millis(50), ..store.knobs() };
    store.set_knobs(knobs).unwrap();
    until(&store, "what is old is not flushed", |found| {
        found.budget.oldest_unflushed.is_none() && found.budget.replay_bytes == 0
    });
    // Nothing is written any more: the governor wakes for it all the same.
    commit(&store, "b").unwrap();
    until(&store, "a last write is not flushed", |found| found.budget.oldest_unflushed.is_none());
}

#[test]
fn the_limiter_follows_latency_and_who_waits() {
    let (_directory, store) = open(&StorageOptions::small());
    commit(&store, "a").unwrap();
    let most = store.knobs().io_budget_bytes_per_second;
    let is_calm = |rate: u64| (16 * MIB..=most / 8).contains(&rate);
    let calm = until(&store, "the rate stays at its start", |found| is_calm(found.engine.io_rate));
    assert_eq!((calm.budget.reason, calm.budget.bytes_per_second), (BudgetReason::Calm, most));
    // Every group of commits is late.
    store.set_knobs(StorageKnobs { latency_target: Duration::from_nanos(1), ..store.knobs() }).unwrap();
    let squeezed = until(&store, "latency squeezes nothing", |found| {
        for next in 0..100 {
            store.commit(unit(next, 4_000)).wait().unwrap();
        }
        found.engine.io_rate < most / 32
    });
    assert_eq!(squeezed.budget.reason, BudgetReason::Latency);
    assert!(squeezed.budget.bytes_per_second < most / 2 && squeezed.budget.squeezed > 0, "copies as well");
    store.set_knobs(StorageKnobs { latency_target: Duration::from_secs(1), ..store.knobs() }).unwrap();
    commit(&store, "b").unwrap();
    until(&store, "the squeeze does not end", |found| {
        found.budget.reason == BudgetReason::Calm && is_calm(found.engine.io_rate)
    });
    store.set_knobs(StorageKnobs { io_budget_bytes_per_second: 80 * MIB, ..store.knobs() }).unwrap();
    until(&store, "the most does not change", |found| found.budget.bytes_per_second == 80 * MIB);
    assert!(store.statistics().engine.io_rate <= 32 * MIB);
}

#[test]
fn caches_threads_and_the_dirty_trigger_change_while_the_store_is_open() {
    let (_directory, store) = open(&StorageOptions::small());
    let before = store.statistics();
    assert_eq!(before.engine.cache_capacity_bytes, 8 * MIB);
    for number in 0..2_000 {
        store.commit(unit(number, 400)).wait().unwrap();
    }
    let knobs = StorageKnobs {
        cache_bytes: 16 * MIB,
        row_cache_bytes: 64 << 10,
        background_jobs_min: 1,
        background_jobs_max: 3,
        ..store.knobs()
    };
    store.set_knobs(knobs).unwrap();
    until(&store, "the caches keep their sizes", |found| {
        found.engine.cache_capacity_bytes == 16 * MIB
            && found.row_cache.capacity_bytes == 64 << 10
            && found.row_cache.bytes <= 64 << 10
    });
    store.note_default_knobs(before.budget.knobs);
    let found = store.statistics().budget;
    assert_eq!((found.knobs, found.default_knobs), (knobs, before.budget.knobs));
    let refused = store.set_knobs(StorageKnobs { background_jobs_min: 4, ..knobs }).unwrap_err();
    assert!(refused.contains("4 at least and 3 at most"), "{refused}");
    assert_eq!(store.knobs(), knobs, "what is refused changes nothing");
    store.set_knobs(StorageKnobs { dirty_trigger_bytes: Some(100_000), ..knobs }).unwrap();
    until(&store, "commits are not held", |found| found.commit.gate != "open");
    store.set_knobs(knobs).unwrap();
    until(&store, "commits are held for ever", |found| found.commit.gate == "open");
    // A target flushes ahead.
    let flushes = store.statistics().engine.flushes;
    store.set_knobs(StorageKnobs { dirty_target_bytes: Some(200_000), ..knobs }).unwrap();
    until(&store, "nothing is flushed for the target", |found| found.engine.flushes > flushes);
}

#[test]
fn compaction_keeps_to_its_own_rate_and_flushes_do_not() {
    const RATE: u64 = 512 << 10;
    const FILES: u64 = 6;
    const UNITS: u64 = 20;
    const ROWS: u64 = 1_000;
    let (_directory, store) = open(&StorageOptions::small());
    store.set_compaction_rate(RATE);
    commit(&store, "a").unwrap();
    until(&store, "the rate is not in force", |found| found.budget.compaction_bytes_per_second == RATE);
    let (began, mut random) = (Instant::now(), fastrand::Rng::with_seed(7));
    // Enough files for a compaction, and not so many that it is behind; each has keys between others'.
    for file in 0..FILES {
        for number in 0..UNITS {
            let mut unit = WriteUnit::new();
            for row in 0..ROWS {
                let key = (number * ROWS + row) * FILES + file;
                let value: [u8; 100] = std::array::from_fn(|_| random.u8(..));
                unit.put(Keyspace::Documents, &key.to_be_bytes(), &value);
            }
            store.commit(unit).wait().unwrap();
        }
        store.flush().unwrap();
    }
    let flushed = store.statistics().engine.flush_bytes;
    assert!(flushed > 10 * MIB, "{flushed} bytes were flushed");
    until(&store, "no compaction has begun", |found| found.engine.compaction_write_bytes > 0);
    let written = store.statistics().engine.compaction_write_bytes;
    // Something is handed out ahead.
    let most = (began.elapsed().as_secs_f64() * RATE as f64) as u64 + RATE;
    assert!(written <= most, "{written} bytes were written where {most} are the most");
    store.set_compaction_rate(0);
    until(&store, "the rate is kept", |found| found.engine.compaction_write_bytes > 6 * MIB);
}

#[test]
fn commits_are_held_while_memtables_have_more_than_is_lent_to_them() {
    let (_directory, store) = open(&StorageOptions::small());
    // Each memtable nearly full, and none of them: nothing is flushed.
    for keyspace in [Keyspace::Documents, Keyspace::Indexes, Keyspace::Meta] {
        for number in 0..300 {
            store.commit(unit_of(keyspace, number, 10_000)).wait().unwrap();
        }
    }
    let lent = |memtables| StoreMemory {
        rows: u64::MAX,
        builds: u64::MAX,
        engine: EngineMemory { cache: u64::MAX, memtables },
    };
    let found = until(&store, "the writes are not seen", |found| found.engine.memtable_bytes > 8 * MIB);
    assert_eq!((found.engine.flushes, found.commit.gate), (0, "open"));
    store.bound_memory(lent(MIB));
    until(&store, "commits are not held", |found| found.commit.gate != "open");
    store.bound_memory(lent(u64::MAX));
    until(&store, "commits are held for ever", |found| found.commit.gate == "open");
    store.bound_memory(lent(MIB));
    // What is written flushes what is too much, and comes through.
    for number in 0..100 {
        store.commit(unit_of(Keyspace::Internal, number, 10_000)).wait().unwrap();
    }
    until(&store, "nothing is flushed", |found| found.engine.flushes > 0 && found.commit.gate == "open");
}
