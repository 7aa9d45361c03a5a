//! Model checking of the `adaptive` model's task queues and roster: the very files the library is built from,
//! compiled against shuttle's primitives, run under many schedules. A lost wake-up or a lost task shows as a
//! deadlock.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "the included files are used in part")]
#![expect(clippy::indexing_slicing, reason = "a test that reads out of bounds shall fail")]

#[path = "../src/adaptive/roster.rs"]
mod roster;
#[path = "../src/adaptive/task_queues.rs"]
mod task_queues;

mod sync {
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    pub(crate) use shuttle::sync::atomic::{AtomicUsize, Ordering};

    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    /// Gives the lock to a condition variable and gets it back, behind a reference.
    pub(crate) struct MutexGuard<'m, T> {
        mutex: &'m shuttle::sync::Mutex<T>,
        held: Option<shuttle::sync::MutexGuard<'m, T>>,
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard { mutex: &self.0, held: Some(self.0.lock().expect("no panic under the lock")) }
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.held.as_deref().expect("locked")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.held.as_deref_mut().expect("locked")
        }
    }

    pub(crate) struct Condvar(shuttle::sync::Condvar);

    pub(crate) struct WaitResult(bool);

    impl WaitResult {
        pub(crate) fn timed_out(&self) -> bool {
            self.0
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(shuttle::sync::Condvar::new())
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        /// A wait of no time ends at some time by itself, called or not, and any other only when called.
        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> WaitResult {
            let held = guard.held.take().expect("locked");
            let times_out = timeout.is_zero();
            let held = if times_out {
                drop(held);
                shuttle::thread::yield_now();
                guard.mutex.lock()
            } else {
                self.0.wait(held)
            };
            guard.held = Some(held.expect("no panic under the lock"));
            WaitResult(times_out)
        }
    }
}

use roster::{Cause, Roster};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;
use std::time::Duration;
use task_queues::{QueueCursor, Queues, SocketPoller, WaitEnd};

const SCHEDULES: usize = 3_000;
const PREEMPTIONS: usize = 3;
const FOR_EVER: Duration = Duration::MAX;
const NOT_AT_ALL: Duration = Duration::ZERO;

/// Runs `body` under random schedules and under schedules with few preemptions at bad places.
fn check(body: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(body.clone(), SCHEDULES);
    shuttle::check_pct(body, SCHEDULES, PREEMPTIONS);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Task {
    Count,
    /// Occupies its worker until a `Release` has run.
    Block,
    Release,
}

/// Sockets that threads of a test make ready; watched by edge, as the kernel does it.
#[derive(Default)]
struct Network {
    ready: [Vec<Task>; 2],
    edges: [bool; 2],
    notified: bool,
}

struct World {
    queues: Queues<Task>,
    network: Mutex<Network>,
    network_changed: Condvar,
    watching: AtomicUsize,
    left_to_run: AtomicUsize,
    released: Mutex<bool>,
    release: Condvar,
    roster: Roster<usize, usize>,
}

impl SocketPoller for World {
    /// Takes the events of two sockets; the rest are left for the next time.
    fn poll(&self, queue: usize) -> bool {
        let mut network = self.network.lock().unwrap();
        let ready = &mut network.ready[queue];
        let taken = ready.drain(..ready.len().min(2)).collect::<Vec<_>>();
        let more = !ready.is_empty();
        drop(network);
        taken.into_iter().for_each(|task| self.queues.push_quietly(queue, task));
        more
    }

    fn wait(&self, timeout: Duration, ready: &mut Vec<usize>) {
        assert_eq!(self.watching.fetch_add(1, Ordering::SeqCst), 0, "two workers watch");
        let mut network = self.network.lock().unwrap();
        while !timeout.is_zero() && !network.notified && network.edges == [false; 2] {
            network = self.network_changed.wait(network).unwrap();
        }
        network.notified = false;
        for (queue, edge) in network.edges.iter_mut().enumerate() {
            if std::mem::take(edge) {
                ready.push(queue);
            }
        }
        drop(network);
        self.watching.fetch_sub(1, Ordering::SeqCst);
    }

    fn notify(&self) {
        self.network.lock().unwrap().notified = true;
        self.network_changed.notify_all();
    }

    fn nobody_is_free(&self) {}
}

impl World {
    /// Closes itself when so many tasks have run.
    fn new(queues: usize, tasks: usize) -> Arc<Self> {
        Arc::new(Self {
            queues: Queues::new(queues),
            network: Mutex::default(),
            network_changed: Condvar::new(),
            watching: AtomicUsize::new(0),
            left_to_run: AtomicUsize::new(tasks),
            released: Mutex::new(false),
            release: Condvar::new(),
            roster: Roster::new(),
        })
    }

    fn push(&self, queue: usize, task: Task) {
        self.queues.push(self, queue, task);
    }

    fn socket_is_ready(&self, queue: usize, task: Task) {
        let mut network = self.network.lock().unwrap();
        network.ready[queue].push(task);
        network.edges[queue] = true;
        drop(network);
        self.network_changed.notify_all();
    }

    fn run(&self, task: Task) {
        match task {
            Task::Count => thread::yield_now(),
            Task::Release => {
                *self.released.lock().unwrap() = true;
                self.release.notify_all();
            }
            Task::Block => {
                let mut released = self.released.lock().unwrap();
                while !*released {
                    released = self.release.wait(released).unwrap();
                }
            }
        }
        let left = self.left_to_run.fetch_sub(1, Ordering::SeqCst);
        assert_ne!(left, 0, "a task ran twice");
        if left == 1 {
            self.queues.close(self);
        }
    }

    /// A worker's loop. After so many rests of no time, it rests for ever. True when it left because it was
    /// idle.
    fn work(&self, own: usize, short_rests: usize, leave: impl Fn() -> bool) -> bool {
        let mut cursor = QueueCursor::new(own);
        let mut rests = 0;
        loop {
            while let Some(task) = self.queues.take(self, &mut cursor) {
                self.run(task);
            }
            rests += 1;
            let timeout = if rests <= short_rests { NOT_AT_ALL } else { FOR_EVER };
            match self.queues.wait_for_work(self, &mut cursor, timeout) {
                WaitEnd::Closed => return false,
                WaitEnd::TimedOut if leave() => return true,
                WaitEnd::TimedOut | WaitEnd::Woken => {}
            }
        }
    }
}

fn stays() -> bool {
    false
}

fn workers(world: &Arc<World>, count: usize) -> Vec<thread::JoinHandle<()>> {
    let spawn = |own| {
        let world = Arc::clone(world);
        thread::spawn(move || assert!(!world.work(own, 0, stays), "nobody may leave"))
    };
    (0..count).map(spawn).collect()
}

fn join_all(threads: Vec<thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn every_task_runs_once(queues: usize, threads: usize) {
    check(move || {
        let world = World::new(queues, 6);
        let mut all = workers(&world, threads);
        let pusher = Arc::clone(&world);
        all.push(thread::spawn(move || {
            for task in 0..3 {
                pusher.push(task % queues, Task::Count);
            }
        }));
        for task in 0..3 {
            world.socket_is_ready(task % queues, Task::Count);
        }
        join_all(all);
        assert_eq!(world.left_to_run.load(Ordering::SeqCst), 0, "tasks were lost");
        assert_eq!(world.queues.queued(), 0);
    });
}

#[test]
fn every_task_runs_once_with_one_queue() {
    every_task_runs_once(1, 3);
}

#[test]
fn every_task_runs_once_with_fewer_workers_than_queues() {
    every_task_runs_once(2, 1);
}

#[test]
fn every_task_runs_once_with_stealing() {
    every_task_runs_once(2, 3);
}

/// A worker in a long task leaves its queue and the sockets to the others.
fn blocked_workers_hide_nothing(by_network: bool) {
    check(move || {
        let world = World::new(2, 4);
        let all = workers(&world, 3);
        world.socket_is_ready(0, Task::Block);
        world.push(1, Task::Block);
        if by_network {
            world.socket_is_ready(0, Task::Release);
            world.socket_is_ready(1, Task::Count);
        } else {
            world.push(0, Task::Count);
            world.push(1, Task::Release);
        }
        join_all(all);
    });
}

#[test]
fn blocked_workers_hide_no_network_events() {
    blocked_workers_hide_nothing(true);
}

#[test]
fn blocked_workers_hide_no_tasks() {
    blocked_workers_hide_nothing(false);
}

#[test]
fn shrinking_and_growing_loses_nothing() {
    check(|| {
        let world = World::new(2, 4);
        let spawn = |own: usize, cause| {
            assert!(world.roster.expect(cause), "the model does not end yet");
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let number = std::sync::Arc::new(own);
                world.roster.arrive(std::sync::Arc::clone(&number));
                let leave = || {
                    let leaves = world.roster.leave_idle(&number, 1, |sum, one| *sum += one);
                    let (counts, ()) = world.roster.observe(|_, _| ());
                    let ends = world.left_to_run.load(Ordering::SeqCst) == 0;
                    assert!(counts.running >= 1 || ends, "fewer workers than reserved");
                    leaves
                };
                if !world.work(own, 2, leave) {
                    world.roster.leave(&number, |sum, one| *sum += one);
                }
            })
        };
        let mut all = vec![spawn(1, Cause::BelowReserve), spawn(2, Cause::StuckDetection)];
        world.socket_is_ready(1, Task::Count);
        world.push(0, Task::Count);
        all.push(spawn(4, Cause::Starvation));
        world.push(1, Task::Count);
        world.socket_is_ready(0, Task::Count);
        world.roster.wait_left(FOR_EVER);
        join_all(all);
        let (counts, sum) = world.roster.observe(|_, ended| *ended);
        assert_eq!(sum, 7, "each worker is added up once");
        assert_eq!((counts.running, counts.pending), (0, 0));
        assert_eq!(world.left_to_run.load(Ordering::SeqCst), 0, "tasks were lost");
    });
}

#[test]
fn nobody_rests_on_after_a_broadcast() {
    check(|| {
        let world = World::new(2, usize::MAX);
        let changed = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(AtomicUsize::new(0));
        let rests = |own| {
            let (world, changed, seen) = (Arc::clone(&world), Arc::clone(&changed), Arc::clone(&seen));
            thread::spawn(move || {
                let mut cursor = QueueCursor::new(own);
                while changed.load(Ordering::SeqCst) == 0 {
                    world.queues.wait_for_work(&*world, &mut cursor, FOR_EVER);
                }
                if seen.fetch_add(1, Ordering::SeqCst) == 2 {
                    world.queues.close(&*world);
                }
                while world.queues.wait_for_work(&*world, &mut cursor, FOR_EVER) != WaitEnd::Closed {}
            })
        };
        let all = (0..3).map(rests).collect();
        changed.store(1, Ordering::SeqCst);
        world.queues.wake_all(&*world);
        join_all(all);
    });
}

#[test]
fn everybody_comes_back_when_called_and_ends_when_closed() {
    check(|| {
        let world = World::new(2, usize::MAX);
        let all = workers(&world, 3);
        world.queues.wake_all(&*world);
        world.push(1, Task::Count);
        world.queues.wake_all(&*world);
        world.queues.close(&*world);
        join_all(all);
    });
}
