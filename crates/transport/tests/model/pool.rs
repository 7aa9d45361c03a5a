//! The elastic pool's rules with threads of the model: every task runs, whatever grows, shrinks, fails or
//! stops meanwhile.

use crate::check;
use crate::placement::Placement;
use crate::queue::{PoolOptions, PoolQueue, Stopped, TaskLength, Worker};
use crate::sync::Mutex;
use crate::task::Task;
use shuttle::rand::Rng;
use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use shuttle::sync::mpsc::{self, Receiver, Sender};
use shuttle::thread::{self, JoinHandle};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pool as `task.rs` knows it, over the library's own rules.
pub(crate) struct Pool {
    name: Placement,
    queue: PoolQueue<Task>,
}

impl Pool {
    pub(crate) fn new(name: Placement, options: PoolOptions) -> Self {
        let length = if name == Placement::Brief { TaskLength::Short } else { TaskLength::Any };
        Self { name, queue: PoolQueue::new(options, 1, length) }
    }

    pub(crate) fn push(&self, task: Task) {
        drop(self.queue.push(task, Instant::now()));
    }

    pub(crate) fn push_again(&self, task: Task) {
        if crate::offload::works_for() == Some(self.name) {
            drop(self.queue.push_before_next(task, Instant::now()))
        } else {
            self.push(task)
        }
    }

    pub(crate) fn next(&self, worker: &mut Worker) -> Option<Task> {
        self.queue.next(worker, &Instant::now)
    }

    pub(crate) fn watch(&self) -> bool {
        self.queue.watch(&Instant::now, &|| Some(0))
    }

    pub(crate) fn stop(&self) {
        self.queue.stop();
    }
}

/// The pools of `task.rs`.
pub(crate) struct Pools {
    pub(crate) brief: Pool,
    pub(crate) long: Pool,
}

impl Pools {
    pub(crate) fn of(&self, placement: Placement) -> Option<&Pool> {
        match placement {
            Placement::Brief => Some(&self.brief),
            Placement::Long => Some(&self.long),
            Placement::Home | Placement::Anywhere => None,
        }
    }
}

pub(crate) fn options(min_threads: usize, max_threads: usize) -> PoolOptions {
    PoolOptions { min_threads, max_threads, idle: Duration::ZERO }
}

/// A task of the model: its number, and how often it still yields.
type Numbered = (usize, usize);

/// A pool, its threads and what they have run.
struct Modelled {
    queue: PoolQueue<Numbered>,
    start: Instant,
    /// Time passes whenever somebody looks: half a millisecond.
    ticks: AtomicU64,
    finished: Sender<usize>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    /// The first start fails.
    start_fails: AtomicBool,
}

impl Modelled {
    fn start(options: PoolOptions, cores: usize) -> (Arc<Self>, JoinHandle<()>, Receiver<usize>) {
        let (finished, receiver) = mpsc::channel();
        let pool = Arc::new(Self {
            queue: PoolQueue::new(options, cores, TaskLength::Any),
            start: Instant::now(),
            ticks: AtomicU64::new(0),
            finished,
            workers: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            start_fails: AtomicBool::new(false),
        });
        let controlled = Arc::clone(&pool);
        let controller = thread::spawn(move || controlled.control());
        (pool, controller, receiver)
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_micros(500 * self.ticks.fetch_add(1, Ordering::Relaxed))
    }

    fn control(self: &Arc<Self>) {
        let runnable = || match shuttle::rand::thread_rng().gen_range(0..3) {
            0 => None,
            1 => Some(0),
            _ => Some(usize::MAX),
        };
        while self.queue.watch(&|| self.now(), &runnable) {
            if self.start_fails.swap(false, Ordering::SeqCst) {
                self.queue.not_started(self.now());
                continue;
            }
            let pool = Arc::clone(self);
            let worker = thread::spawn(move || pool.work());
            self.workers.lock().push(worker);
        }
    }

    fn work(&self) {
        let mut worker = Worker::new();
        while let Some((number, yields)) = self.queue.next(&mut worker, &|| self.now()) {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_running.fetch_max(running, Ordering::SeqCst);
            thread::yield_now();
            self.running.fetch_sub(1, Ordering::SeqCst);
            if yields > 0 {
                if let Err(Stopped((number, _))) =
                    self.queue.push_before_next((number, yields - 1), self.now())
                {
                    self.finished.send(number).expect("the model waits");
                }
            } else {
                self.finished.send(number).expect("the model waits");
            }
        }
    }

    fn push(&self, number: usize, yields: usize) -> bool {
        self.queue.push((number, yields), self.now()).is_ok()
    }

    fn end(&self, controller: JoinHandle<()>) {
        self.queue.stop();
        controller.join().expect("the controller does not panic");
        for worker in std::mem::take(&mut *self.workers.lock()) {
            worker.join().expect("threads do not panic");
        }
        let (counts, _) = self.queue.counts();
        assert_eq!(
            (counts.threads, counts.idle, counts.queued),
            (0, 0, 0),
            "something is left after the end"
        );
    }
}

/// Receives so many tasks, each once.
fn receive_all(receiver: &Receiver<usize>, count: usize) {
    let mut seen: Vec<_> = (0..count).map(|_| receiver.recv().expect("the pool lives")).collect();
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..count), "each task runs to its end once, not {seen:?}");
}

/// Two threads push two tasks each; nobody but the pool itself sees to it that they run.
fn push_from_two_threads(pool: &Arc<Modelled>) -> Vec<JoinHandle<()>> {
    let pushers = (0..2).map(|pusher| {
        let pool = Arc::clone(pool);
        thread::spawn(move || {
            for number in 0..2 {
                assert!(pool.push(2 * pusher + number, number), "the pool has not stopped");
            }
        })
    });
    pushers.collect()
}

fn join(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("threads do not panic"));
}

#[test]
fn every_task_runs_while_the_pool_grows_and_shrinks() {
    for (min_threads, max_threads, cores) in [(0, 1, 1), (0, 2, 2), (1, 3, 1)] {
        check(move || {
            let (pool, controller, receiver) = Modelled::start(options(min_threads, max_threads), cores);
            let pushers = push_from_two_threads(&pool);
            receive_all(&receiver, 4);
            join(pushers);
            let most = pool.most_running.load(Ordering::SeqCst);
            assert!(most <= max_threads, "{most} threads run tasks, {max_threads} may");
            pool.end(controller);
        });
    }
}

#[test]
fn limits_that_change_lose_no_task() {
    check(|| {
        let (pool, controller, receiver) = Modelled::start(options(1, 3), 2);
        let pushers = push_from_two_threads(&pool);
        for max_threads in [1, 2] {
            pool.queue.set_options(options(0, max_threads));
            thread::yield_now();
        }
        receive_all(&receiver, 4);
        join(pushers);
        pool.end(controller);
    });
}

#[test]
fn a_thread_that_cannot_be_started_delays_only() {
    check(|| {
        let (pool, controller, receiver) = Modelled::start(options(0, 2), 2);
        pool.start_fails.store(true, Ordering::SeqCst);
        let pushers = push_from_two_threads(&pool);
        receive_all(&receiver, 4);
        join(pushers);
        pool.end(controller);
    });
}

#[test]
fn what_is_pushed_before_the_stop_runs_and_the_rest_is_refused() {
    check(|| {
        let (pool, controller, receiver) = Modelled::start(options(0, 2), 1);
        let pushed = Arc::clone(&pool);
        let pusher = thread::spawn(move || (0..4).filter(|number| pushed.push(*number, 0)).count());
        thread::yield_now();
        pool.end(controller);
        let accepted = pusher.join().expect("pushing does not panic");
        drop(pool);
        let mut ran: Vec<_> = receiver.iter().collect();
        ran.sort_unstable();
        assert!(ran.iter().copied().eq(0..accepted), "{accepted} tasks were accepted, and {ran:?} ran");
    });
}
