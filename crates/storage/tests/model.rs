//! Model checking of the concurrency core: the very files the library is built from, compiled against
//! shuttle's primitives, run under many schedules. A lost wake-up shows as a deadlock.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "the included files are used in part")]

#[path = "../src/pipeline/group.rs"]
mod group;
#[path = "../src/pipeline/journal.rs"]
mod journal;
#[path = "../src/latch/shared.rs"]
mod shared;
#[path = "../src/latch/table.rs"]
mod table;

mod sync {
    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("no panic under the lock")
        }
    }
}

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use group::{GroupCommit, GroupOutcome, GroupWriter, Ticket};
use journal::{JournalWriter, SyncGroup, SyncOutcome};
use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

const SCHEDULES: usize = 3_000;
const PREEMPTIONS: usize = 3;

/// Runs `body` under random schedules and under schedules with few preemptions at bad places.
fn check(body: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(body.clone(), SCHEDULES);
    shuttle::check_pct(body, SCHEDULES, PREEMPTIONS);
}

fn once(context_waker: &Waker) -> Context<'_> {
    Context::from_waker(context_waker)
}

/// A device that notices two leaders and remembers what was written and synced.
#[derive(Default)]
struct Device {
    busy: AtomicBool,
    written: Mutex<Vec<u32>>,
    /// Groups to send back as stalled.
    stalls: AtomicUsize,
    applied: AtomicU64,
    syncing: AtomicBool,
    synced: AtomicU64,
    sync_fails: AtomicBool,
}

impl GroupWriter for Device {
    type Unit = u32;
    type Failure = &'static str;

    fn write(&self, units: &[u32]) -> GroupOutcome<&'static str> {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "two leaders at once");
        assert!(!units.is_empty(), "a leader without work");
        thread::yield_now();
        let outcome = if self.stalls.load(Ordering::SeqCst) > 0 {
            self.stalls.fetch_sub(1, Ordering::SeqCst);
            GroupOutcome::Stalled
        } else {
            self.written.lock().unwrap().extend_from_slice(units);
            GroupOutcome::Applied(
                self.applied.fetch_add(units.len() as u64, Ordering::SeqCst) + units.len() as u64,
            )
        };
        self.busy.store(false, Ordering::SeqCst);
        outcome
    }

    fn weight(_unit: &u32) -> usize {
        1
    }

    fn panicked(&self) -> &'static str {
        "panicked"
    }
}

impl JournalWriter for Device {
    type Failure = &'static str;

    fn applied(&self) -> u64 {
        self.applied.load(Ordering::SeqCst)
    }

    fn sync(&self) -> SyncOutcome<&'static str> {
        assert!(!self.syncing.swap(true, Ordering::SeqCst), "two syncs at once");
        let covered = self.applied.load(Ordering::SeqCst);
        thread::yield_now();
        self.syncing.store(false, Ordering::SeqCst);
        if self.sync_fails.load(Ordering::SeqCst) {
            return SyncOutcome::Failed("disk gone");
        }
        self.synced.store(covered, Ordering::SeqCst);
        SyncOutcome::Synced
    }

    fn sync_panicked(&self) -> &'static str {
        "panicked"
    }
}

struct Pipe {
    group: GroupCommit<u32, &'static str>,
    journal: SyncGroup<&'static str>,
    device: Device,
}

impl Pipe {
    fn new() -> Arc<Pipe> {
        Arc::new(Pipe { group: GroupCommit::new(), journal: SyncGroup::new(0), device: Device::default() })
    }

    async fn commit(&self, unit: u32) -> Result<u64, &'static str> {
        let mut ticket = Ticket::Unsent(unit);
        let sequence = poll_fn(|context| self.group.poll(&mut ticket, &self.device, context.waker())).await?;
        assert!(
            self.device.written.lock().unwrap().contains(&unit),
            "{unit} was acknowledged and not written"
        );
        Ok(sequence)
    }

    async fn sync(&self, sequence: u64) -> Result<(), &'static str> {
        let mut ticket = None;
        poll_fn(|context| self.journal.poll(sequence, &mut ticket, &self.device, context.waker())).await
    }

    /// Polls a commit once and drops it, whatever came of it.
    fn commit_and_leave(&self, unit: u32) {
        let mut ticket = Ticket::Unsent(unit);
        let _ = self.group.poll(&mut ticket, &self.device, Waker::noop());
        thread::yield_now();
        self.group.abandon(&mut ticket, &self.device);
    }
}

fn join_all(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

fn assert_written(pipe: &Pipe, units: impl IntoIterator<Item = u32>) {
    let mut written = pipe.device.written.lock().unwrap().clone();
    written.sort_unstable();
    assert!(written.into_iter().eq(units), "each unit is written exactly once");
}

#[test]
fn every_commit_is_written_once_and_answered() {
    check(|| {
        let pipe = Pipe::new();
        let threads = (0..3).map(|thread| {
            let pipe = Arc::clone(&pipe);
            thread::spawn(move || {
                block_on(pipe.commit(2 * thread)).unwrap();
                block_on(pipe.commit(2 * thread + 1)).unwrap();
            })
        });
        join_all(threads.collect());
        assert_written(&pipe, 0..6);
    });
}

#[test]
fn dropped_commits_are_written_and_wedge_nobody() {
    check(|| {
        let pipe = Pipe::new();
        let threads = (0..4).map(|thread| {
            let pipe = Arc::clone(&pipe);
            thread::spawn(move || {
                if thread % 2 == 0 {
                    pipe.commit_and_leave(thread);
                } else {
                    block_on(pipe.commit(thread)).unwrap();
                }
            })
        });
        join_all(threads.collect());
        assert_written(&pipe, 0..4);
    });
}

#[test]
fn a_stalled_engine_delays_and_loses_nothing() {
    check(|| {
        let pipe = Pipe::new();
        pipe.device.stalls.store(2, Ordering::SeqCst);
        let finished = Arc::new(AtomicUsize::new(0));
        let threads = (0..3).map(|thread| {
            let (pipe, finished) = (Arc::clone(&pipe), Arc::clone(&finished));
            thread::spawn(move || {
                if thread == 2 {
                    pipe.commit_and_leave(thread);
                } else {
                    block_on(pipe.commit(thread)).unwrap();
                }
                finished.fetch_add(1, Ordering::SeqCst);
            })
        });
        let threads: Vec<_> = threads.collect();
        // The governor: it looks again and again until everybody is through.
        while finished.load(Ordering::SeqCst) < 3 || pipe.group.is_paused() {
            pipe.group.resume(&pipe.device);
            thread::yield_now();
        }
        join_all(threads);
        assert_written(&pipe, 0..3);
    });
}

#[test]
fn a_journaled_answer_means_synced() {
    check(|| {
        let pipe = Pipe::new();
        let threads = (0..3).map(|thread| {
            let pipe = Arc::clone(&pipe);
            thread::spawn(move || {
                let sequence = block_on(pipe.commit(thread)).unwrap();
                if thread == 2 {
                    let mut ticket = None;
                    let _ = pipe.journal.poll(sequence, &mut ticket, &pipe.device, Waker::noop());
                    pipe.journal.abandon(&mut ticket);
                    return;
                }
                block_on(pipe.sync(sequence)).unwrap();
                assert!(pipe.device.synced.load(Ordering::SeqCst) >= sequence, "acknowledged and not synced");
            })
        });
        join_all(threads.collect());
    });
}

#[test]
fn a_failed_sync_is_told_to_everyone() {
    check(|| {
        let pipe = Pipe::new();
        pipe.device.sync_fails.store(true, Ordering::SeqCst);
        let threads = (0..3).map(|thread| {
            let pipe = Arc::clone(&pipe);
            thread::spawn(move || {
                let sequence = block_on(pipe.commit(thread)).unwrap();
                assert_eq!(block_on(pipe.sync(sequence)), Err("disk gone"));
            })
        });
        join_all(threads.collect());
    });
}

#[test]
fn a_latch_is_exclusive_and_survives_dropped_waiters() {
    check(|| {
        let table = Arc::new(table::LatchTable::new());
        let inside = Arc::new(AtomicUsize::new(0));
        let threads = (0..4).map(|thread| {
            let (table, inside) = (Arc::clone(&table), Arc::clone(&inside));
            thread::spawn(move || {
                if thread == 3 {
                    let mut waiting = std::pin::pin!(table.lock(b"key"));
                    if let Poll::Ready(guard) =
                        std::future::Future::poll(waiting.as_mut(), &mut once(Waker::noop()))
                    {
                        drop(guard);
                    }
                    return;
                }
                let guard = block_on(table.lock(b"key"));
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders of one latch");
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
            })
        });
        join_all(threads.collect());
        assert!(table.try_lock(b"key").is_some(), "the latch is free in the end");
    });
}

#[test]
fn many_latches_are_taken_without_deadlock() {
    check(|| {
        let table = Arc::new(table::LatchTable::new());
        let threads = [[1, 2, 3], [3, 1, 3], [2, 3, 1]].map(|hashes| {
            let table = Arc::clone(&table);
            thread::spawn(move || drop(block_on(table.lock_many(&hashes))))
        });
        join_all(threads.into());
    });
}

#[test]
fn an_exclusive_hold_excludes_everyone() {
    const EXCLUSIVE: usize = 100;
    check(|| {
        let latch = shared::SharedLatch::new();
        let inside = Arc::new(AtomicUsize::new(0));
        let threads = (0..5).map(|thread| {
            let (latch, inside) = (latch.clone(), Arc::clone(&inside));
            thread::spawn(move || match thread {
                0 | 1 => {
                    let guard = block_on(latch.shared());
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < EXCLUSIVE, "shared beside exclusive");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(guard);
                }
                2 | 3 => {
                    let guard = block_on(latch.exclusive());
                    assert_eq!(inside.fetch_add(EXCLUSIVE, Ordering::SeqCst), 0, "exclusive beside another");
                    thread::yield_now();
                    inside.fetch_sub(EXCLUSIVE, Ordering::SeqCst);
                    drop(guard);
                }
                _ => {
                    let mut waiting = std::pin::pin!(latch.exclusive());
                    let _ = std::future::Future::poll(waiting.as_mut(), &mut once(Waker::noop()));
                }
            })
        });
        join_all(threads.collect());
        assert!(latch.try_exclusive().is_some(), "the latch is free in the end");
    });
}
