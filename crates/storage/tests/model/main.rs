//! Model checking of the concurrency core: the very files the library is built from, compiled against
//! shuttle's primitives, run under many schedules. A lost wake-up shows as a deadlock.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "the included files are used in part, and tests stop at the first surprise"
)]

#[path = "../../src/gate/queue.rs"]
mod gate;
#[path = "../../src/pipeline/group.rs"]
mod group;
mod handover;
#[path = "../../src/pipeline/journal.rs"]
mod journal;
#[path = "../../src/pipeline/owned.rs"]
mod owned;
#[path = "../../src/prefetch.rs"]
mod prefetch;
mod proposals;
#[path = "../../src/row_cache/removals.rs"]
mod removals;
#[path = "../../src/row_cache/table.rs"]
mod row_table;
mod rows;
#[path = "../../src/latch/shared.rs"]
mod shared;
#[path = "../../src/latch/table.rs"]
mod table;

/// The name by which the included files know each other.
mod pipeline {
    pub(crate) use crate::group;
}

mod sync {
    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use gate::{Admission, Gate};
use group::{GroupCommit, GroupOutcome, GroupWriter, Lead, Ticket};
use journal::{JournalWriter, SyncGroup, SyncOutcome};
use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;

const SCHEDULES: usize = 3_000;
const PREEMPTIONS: usize = 3;
/// Units from here on fill a group by themselves, so that leaders have to hand over.
const HEAVY: u32 = 1000;
const GROUP_WEIGHT: usize = 8 << 20;
/// With so many units waiting a loop writes before its turn ends.
const GOOD_GROUP: usize = 3;

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
    journal_thread: Doorbell,
}

/// What the journal thread sleeps on.
#[derive(Default)]
struct Doorbell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Doorbell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
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

    fn weight(unit: &u32) -> usize {
        if *unit < HEAVY { 1 } else { GROUP_WEIGHT }
    }

    fn panicked(&self, _words: &str) -> &'static str {
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

    fn request_sync(&self) {
        self.journal_thread.ring();
    }

    fn sync_panicked(&self, _words: &str) -> &'static str {
        "panicked"
    }
}

struct Pipe {
    group: GroupCommit<u32, &'static str>,
    journal: SyncGroup<&'static str>,
    gate: Gate,
    device: Device,
}

impl Pipe {
    fn new() -> Arc<Pipe> {
        Arc::new(Pipe {
            group: GroupCommit::new(GOOD_GROUP),
            journal: SyncGroup::new(0),
            gate: Gate::new(),
            device: Device::default(),
        })
    }

    async fn commit(&self, unit: u32) -> Result<u64, &'static str> {
        self.commit_as(unit, Lead::Now).await
    }

    async fn commit_as(&self, unit: u32, lead: Lead<'_>) -> Result<u64, &'static str> {
        let mut ticket = Ticket::Unsent(unit);
        let sequence =
            poll_fn(|context| self.group.poll(&mut ticket, &self.device, context.waker(), lead)).await?;
        assert!(
            self.device.written.lock().unwrap().contains(&unit),
            "{unit} was acknowledged and not written"
        );
        Ok(sequence)
    }

    async fn sync(&self, sequence: u64, may_sync: bool) -> Result<(), &'static str> {
        let mut ticket = None;
        let poll = |context: &mut Context<'_>| {
            self.journal.poll(sequence, &mut ticket, &self.device, context.waker(), may_sync)
        };
        poll_fn(poll).await?;
        assert!(self.device.synced.load(Ordering::SeqCst) >= sequence, "acknowledged and not synced");
        Ok(())
    }

    /// Polls a commit once and drops it, whatever came of it.
    fn commit_and_leave(&self, unit: u32) {
        let mut ticket = Ticket::Unsent(unit);
        let _ = self.group.poll(&mut ticket, &self.device, Waker::noop(), Lead::Now);
        thread::yield_now();
        self.group.abandon(&mut ticket, &self.device);
    }
}

/// Which tasks of a loop are to be polled, and what it sleeps on.
#[derive(Default)]
struct RunQueue {
    ready: Mutex<Vec<usize>>,
    changed: Condvar,
}

impl RunQueue {
    fn next(&self) -> Vec<usize> {
        let mut ready = self.ready.lock().unwrap();
        while ready.is_empty() {
            ready = self.changed.wait(ready).unwrap();
        }
        std::mem::take(&mut ready)
    }
}

struct TaskWaker {
    queue: std::sync::Arc<RunQueue>,
    task: usize,
}

impl Wake for TaskWaker {
    fn wake(self: std::sync::Arc<Self>) {
        self.queue.ready.lock().unwrap().push(self.task);
        self.queue.changed.notify_one();
    }
}

/// Serves tasks in turns until all of them are through: polls what is ready, ends the turn, sleeps.
/// Tasks from `leaving` on are dropped after their first poll, before the turn ends or after it.
fn run_loop(
    turn_ended: &dyn Fn(),
    owes: &Cell<bool>,
    tasks: Vec<Task<'_>>,
    leaving: usize,
    before_turn_end: bool,
) {
    let queue = std::sync::Arc::new(RunQueue::default());
    *queue.ready.lock().unwrap() = (0..tasks.len()).collect();
    let mut tasks: Vec<Option<Task<'_>>> = tasks.into_iter().map(Some).collect();
    let leave =
        |tasks: &mut Vec<Option<Task<'_>>>| tasks.iter_mut().skip(leaving).for_each(|task| *task = None);
    while tasks.iter().any(Option::is_some) {
        for task in queue.next() {
            let waker = Waker::from(std::sync::Arc::new(TaskWaker { queue: queue.clone(), task }));
            let Some(place) = tasks.get_mut(task) else { continue };
            let polled = place.as_mut().map(|task| task.as_mut().poll(&mut once(&waker)));
            if polled.is_some_and(|polled| polled.is_ready()) {
                *place = None;
            }
        }
        if before_turn_end {
            leave(&mut tasks);
        }
        if owes.replace(false) {
            turn_ended();
        }
        leave(&mut tasks);
    }
    if owes.replace(false) {
        turn_ended();
    }
}

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A commit under way on a loop; dropping it does what dropping a commit future does.
struct LoopCommit<'a> {
    pipe: &'a Pipe,
    ticket: Ticket<u32>,
    unit: u32,
    owes: &'a Cell<bool>,
}

impl<'a> LoopCommit<'a> {
    fn new(pipe: &'a Pipe, unit: u32, owes: &'a Cell<bool>) -> LoopCommit<'a> {
        LoopCommit { pipe, ticket: Ticket::Unsent(unit), unit, owes }
    }
}

impl Future for LoopCommit<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let lead = Lead::AtTurnEnd(this.owes);
        let polled = this.pipe.group.poll(&mut this.ticket, &this.pipe.device, context.waker(), lead);
        polled.map(|result| {
            result.unwrap();
            let written = this.pipe.device.written.lock().unwrap().contains(&this.unit);
            assert!(written, "{} was acknowledged and not written", this.unit);
        })
    }
}

impl Drop for LoopCommit<'_> {
    fn drop(&mut self) {
        self.pipe.group.abandon(&mut self.ticket, &self.pipe.device);
    }
}

/// A loop thread that commits `units` side by side.
fn spawn_loop(pipe: &Arc<Pipe>, units: Vec<u32>) -> thread::JoinHandle<()> {
    let staying = units.len();
    spawn_loop_with(pipe, units, staying, false)
}

fn spawn_loop_with(
    pipe: &Arc<Pipe>,
    units: Vec<u32>,
    leaving: usize,
    before_turn_end: bool,
) -> thread::JoinHandle<()> {
    let pipe = Arc::clone(pipe);
    thread::spawn(move || {
        let owes = Cell::new(false);
        let tasks = units.into_iter().map(|unit| Box::pin(LoopCommit::new(&pipe, unit, &owes)) as Task<'_>);
        let turn_ended = || pipe.group.turn_ended(&pipe.device);
        run_loop(&turn_ended, &owes, tasks.collect(), leaving, before_turn_end);
    })
}

fn spawn_inline(
    pipe: &Arc<Pipe>,
    units: impl IntoIterator<Item = u32> + Send + 'static,
) -> thread::JoinHandle<()> {
    let pipe = Arc::clone(pipe);
    thread::spawn(move || {
        units.into_iter().for_each(|unit| {
            block_on(pipe.commit(unit)).unwrap();
        })
    })
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
                    let _ = pipe.journal.poll(sequence, &mut ticket, &pipe.device, Waker::noop(), true);
                    pipe.journal.abandon(&mut ticket, &pipe.device);
                    return;
                }
                block_on(pipe.sync(sequence, true)).unwrap();
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
                assert_eq!(block_on(pipe.sync(sequence, true)), Err("disk gone"));
            })
        });
        join_all(threads.collect());
    });
}

#[test]
fn loops_and_blocking_threads_lose_no_unit_and_no_wake_up() {
    check(|| {
        let pipe = Pipe::new();
        join_all(vec![
            spawn_loop(&pipe, vec![0, 1]),
            spawn_loop(&pipe, vec![2, 3]),
            spawn_inline(&pipe, [4, 5]),
        ]);
        assert_written(&pipe, 0..6);
    });
}

#[test]
fn leaders_hand_over_between_loops_and_blocking_threads() {
    check(|| {
        let pipe = Pipe::new();
        join_all(vec![
            spawn_loop(&pipe, (HEAVY..HEAVY + 4).collect()),
            spawn_loop(&pipe, vec![HEAVY + 4]),
            spawn_inline(&pipe, [HEAVY + 5]),
            spawn_inline(&pipe, [HEAVY + 6]),
        ]);
        assert_written(&pipe, HEAVY..HEAVY + 7);
    });
}

#[test]
fn commits_dropped_on_loops_are_written_and_wedge_nobody() {
    for before_turn_end in [true, false] {
        check(move || {
            let pipe = Pipe::new();
            join_all(vec![
                spawn_loop_with(&pipe, vec![HEAVY, HEAVY + 1, HEAVY + 2, HEAVY + 3], 1, before_turn_end),
                spawn_loop_with(&pipe, vec![HEAVY + 4], 0, before_turn_end),
                spawn_inline(&pipe, [HEAVY + 5]),
            ]);
            assert_written(&pipe, HEAVY..HEAVY + 6);
        });
    }
}

#[test]
fn a_stalled_engine_delays_loops_and_loses_nothing() {
    check(|| {
        let pipe = Pipe::new();
        pipe.device.stalls.store(2, Ordering::SeqCst);
        let threads = vec![
            spawn_loop(&pipe, vec![0, HEAVY]),
            spawn_loop_with(&pipe, vec![1, 2], 1, true),
            spawn_inline(&pipe, [3]),
        ];
        let all = [0, 1, 2, 3, HEAVY];
        while pipe.device.written.lock().unwrap().len() < all.len() {
            pipe.group.resume(&pipe.device);
            thread::yield_now();
        }
        join_all(threads);
        assert_written(&pipe, all);
    });
}

#[test]
fn closing_settles_what_was_enqueued_and_refuses_the_rest() {
    check(|| {
        let pipe = Pipe::new();
        let (owes, mut ticket) = (Cell::new(false), Ticket::Unsent(0));
        let polled = pipe.group.poll(&mut ticket, &pipe.device, Waker::noop(), Lead::AtTurnEnd(&owes));
        assert!(polled.is_pending() && owes.get(), "a loop only enqueues");
        let inline = {
            let pipe = Arc::clone(&pipe);
            thread::spawn(move || {
                let _ = block_on(pipe.commit(1));
            })
        };
        while !pipe.group.close("closed", &pipe.device) {
            thread::yield_now();
        }
        assert!(pipe.device.written.lock().unwrap().contains(&0), "enqueued before, so written");
        pipe.group.turn_ended(&pipe.device);
        inline.join().unwrap();
        let refused = pipe.group.poll(&mut Ticket::Unsent(2), &pipe.device, Waker::noop(), Lead::Now);
        assert_eq!(refused, Poll::Ready(Err("closed")));
    });
}

/// Runs the journal thread beside `body`'s threads.
fn with_journal_thread(pipe: &Arc<Pipe>, threads: Vec<thread::JoinHandle<()>>) {
    let stop = Arc::new(AtomicBool::new(false));
    let journal = {
        let (pipe, stop) = (Arc::clone(pipe), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                pipe.device.journal_thread.wait();
                pipe.journal.sync_now(&pipe.device);
            }
        })
    };
    join_all(threads);
    stop.store(true, Ordering::SeqCst);
    pipe.device.journal_thread.ring();
    journal.join().unwrap();
}

fn spawn_journaled(pipe: &Arc<Pipe>, unit: u32, may_sync: bool, stays: bool) -> thread::JoinHandle<()> {
    let pipe = Arc::clone(pipe);
    thread::spawn(move || {
        let sequence = block_on(pipe.commit(unit)).unwrap();
        if stays {
            block_on(pipe.sync(sequence, may_sync)).unwrap();
        } else {
            let mut ticket = None;
            let _ = pipe.journal.poll(sequence, &mut ticket, &pipe.device, Waker::noop(), may_sync);
            thread::yield_now();
            pipe.journal.abandon(&mut ticket, &pipe.device);
        }
    })
}

#[test]
fn the_journal_thread_syncs_for_those_that_may_not() {
    check(|| {
        let pipe = Pipe::new();
        let threads = (0..3).map(|unit| spawn_journaled(&pipe, unit, false, true)).collect();
        with_journal_thread(&pipe, threads);
    });
}

#[test]
fn syncs_by_waiters_and_by_the_journal_thread_go_together() {
    check(|| {
        let pipe = Pipe::new();
        let threads = vec![
            spawn_journaled(&pipe, 0, false, true),
            spawn_journaled(&pipe, 1, true, true),
            spawn_journaled(&pipe, 2, true, false),
            spawn_journaled(&pipe, 3, false, false),
        ];
        with_journal_thread(&pipe, threads);
    });
}

#[test]
fn the_gate_admits_everyone_in_the_end() {
    check(|| {
        let pipe = Pipe::new();
        pipe.gate.set(Admission::Closed, Duration::ZERO);
        let through = Arc::new(AtomicUsize::new(0));
        let threads = (0..4).map(|thread| {
            let (pipe, through) = (Arc::clone(&pipe), Arc::clone(&through));
            thread::spawn(move || {
                let mut ticket = None;
                if thread == 3 {
                    let _ = pipe.gate.poll_admit(1, thread, &mut ticket, Waker::noop());
                    pipe.gate.abandon(&mut ticket);
                } else {
                    block_on(poll_fn(|context| {
                        pipe.gate.poll_admit(1, thread, &mut ticket, context.waker())
                    }));
                }
                through.fetch_add(1, Ordering::SeqCst);
            })
        });
        let threads: Vec<_> = threads.collect();
        // Each tick of this governor has room for one commit.
        while through.load(Ordering::SeqCst) < 4 {
            pipe.gate.set(Admission::Paced { bytes_per_second: 10 }, Duration::from_millis(100));
            thread::yield_now();
        }
        join_all(threads);
        assert_eq!(pipe.gate.waiting(), 0);
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
                    if let Poll::Ready(guard) = Future::poll(waiting.as_mut(), &mut once(Waker::noop())) {
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
        let threads = [vec![1, 2, 3], vec![3, 1, 3], vec![2, 3, 1]].map(|hashes| {
            let table = Arc::clone(&table);
            thread::spawn(move || drop(block_on(table.lock_many(hashes))))
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
                    let _ = Future::poll(waiting.as_mut(), &mut once(Waker::noop()));
                }
            })
        });
        join_all(threads.collect());
        assert!(latch.try_exclusive().is_some(), "the latch is free in the end");
    });
}
