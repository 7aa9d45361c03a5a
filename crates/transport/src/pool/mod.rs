//! The elastic pools: threads that may block, for what an event loop must not do itself.
//!
//! What is short there (a read that is not in memory) has a pool of its own, whose threads compete with event
//! loops as equals; what computes for long has another one, whose threads lower their own priority, so that
//! all that is short and keeps clients waiting goes first. Threads of both offer the processor now and then
//! ([`let_others_run`]).
//!
//! Tasks either compute or wait for the disk. More threads than cores help only the latter, so beyond the
//! number of cores a thread is started only when a task has waited and the kernel says that the others are
//! blocked, and one ends when more than cores compute ([`runnable`]). [`queue`] has the rules; here are the
//! threads.

mod offer;
mod queue;
mod runnable;
#[cfg(test)]
mod tests;

pub use offer::let_others_run;
pub use queue::PoolOptions;
pub(crate) use queue::TaskLength;

use crate::event_loop::LoopHooks;
use crate::idle::{IdleWatch, give_back};
use crate::options::usable_processors;
use crate::placement::Placement;
use crate::statistics::Figure;
use crate::task::Task;
use crate::vital;
use ambient::niceness;
use queue::{PoolQueue, Stopped, Worker};
use runnable::Census;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How much a thread that computes for long yields to others (setpriority(2)): a tenth of the processor
/// time when both want all of it.
pub(crate) const NICENESS: i32 = 10;
/// A thread that offers the processor loses the rest of its slice, and with the usual ones of some
/// milliseconds, which count ten times for a nicer thread, that is a hundred times what it has used: where
/// the processors are full, it would wait for tenths of a second. So it has the shortest slice there is.
const SLICE: Duration = Duration::from_micros(100);

/// Lets the calling thread, which works for nobody in particular, yield to others as those do that compute
/// for long.
pub fn yield_to_requests() {
    niceness::shift(NICENESS);
    niceness::set_slice(SLICE);
}
/// Scans and aggregations recurse no deeper than requests do elsewhere.
pub(crate) const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Where the tasks of event loops go that must not run there.
pub(crate) struct Pools {
    /// For what is short.
    pub(crate) brief: Arc<Pool>,
    /// For what computes for long.
    pub(crate) long: Arc<Pool>,
}

impl Pools {
    /// # Errors
    /// The kernel has no thread left.
    pub(crate) fn start(options: PoolOptions, cores: usize) -> io::Result<Arc<Self>> {
        let brief = Pool::start("pool", options, cores, 0, TaskLength::Short)?;
        let long = Pool::start("longpool", options, cores, NICENESS, TaskLength::Any)?;
        Ok(Arc::new(Self { brief, long }))
    }

    /// The pool that has the tasks of this placement run; `None`: their home has.
    pub(crate) fn of(&self, placement: Placement) -> Option<&Pool> {
        match placement {
            Placement::Brief => Some(&self.brief),
            Placement::Long => Some(&self.long),
            Placement::Home | Placement::Anywhere => None,
        }
    }

    /// Changes the limits of each.
    pub(crate) fn set_options(&self, options: PoolOptions) {
        [&self.brief, &self.long].into_iter().for_each(|pool| pool.set_options(options));
    }

    /// Whether any thread runs a task.
    pub(crate) fn are_working(&self) -> bool {
        self.brief.is_working() || self.long.is_working()
    }

    /// What each counts, under its name in statistics.
    pub(crate) fn statistics(&self) -> [(&'static str, Figure); 2] {
        [("pool", &self.brief), ("longPool", &self.long)]
            .map(|(name, pool)| (name, Figure::Group(pool.statistics())))
    }
}

/// See the module. Dropping it stops it.
pub(crate) struct Pool {
    core: Arc<Core>,
}

struct Core {
    /// What its threads are called, with a number.
    name: &'static str,
    queue: PoolQueue<Task>,
    census: Census,
    cores: usize,
    /// How much nicer its threads are than event loops.
    niceness: i32,
    /// Threads that were started and are not in the census yet.
    starting: AtomicUsize,
    panicked: AtomicU64,
    /// Threads that run a task.
    working: AtomicUsize,
    idle: IdleWatch,
}

thread_local! {
    /// Address of the pool that this thread works for; only compared.
    static WORKS_FOR: Cell<*const Core> = const { Cell::new(std::ptr::null()) };
}

impl Pool {
    /// Starts the controller, which starts the threads. `cores`: threads that can run at the same time.
    ///
    /// # Errors
    /// The kernel has no thread left.
    pub(crate) fn start(
        name: &'static str,
        options: PoolOptions,
        cores: usize,
        niceness: i32,
        length: TaskLength,
    ) -> io::Result<Arc<Self>> {
        let cores = cores.max(1);
        let core = Arc::new(Core {
            name,
            queue: PoolQueue::new(options, cores, length),
            census: Census::default(),
            cores,
            niceness,
            starting: AtomicUsize::new(0),
            panicked: AtomicU64::new(0),
            working: AtomicUsize::new(0),
            idle: IdleWatch::default(),
        });
        let controlled = Arc::clone(&core);
        vital::spawn(format!("{name}control"), move || control(&controlled))?;
        Ok(Arc::new(Self { core }))
    }

    /// Has the task run on a pool thread. After [`Pool::stop`] it is dropped instead, which ends what it
    /// stands for.
    pub(crate) fn push(&self, task: Task) {
        refuse(self.core.queue.push(task, Instant::now()));
    }

    /// Has a task run again that was woken while it ran, and that has just returned. On a thread of the pool,
    /// which looks for its next task right after this, it goes to the end of the queue without anybody being
    /// called.
    pub(crate) fn push_again(&self, task: Task) {
        if WORKS_FOR.get() == Arc::as_ptr(&self.core) {
            refuse(self.core.queue.push_before_next(task, Instant::now()));
        } else {
            self.push(task);
        }
    }

    /// Whether any of its threads runs a task.
    pub(crate) fn is_working(&self) -> bool {
        self.core.working.load(Ordering::Relaxed) > 0
    }

    /// Has the threads give back memory if all have come to rest.
    pub(crate) fn tidy(&self, hooks: &Arc<dyn LoopHooks>) {
        let (counts, _) = self.core.queue.counts();
        if counts.idle == counts.threads && self.core.idle.rests(counts.executed, counts.idle as u64) {
            for _ in 0..counts.idle {
                let core = Arc::clone(&self.core);
                // Each task calls another thread that sleeps.
                give_back(hooks, move |task| refuse(core.queue.push(task, Instant::now())));
            }
        }
    }

    /// Changes the limits; threads beyond a smaller maximum end after the task that they run.
    pub(crate) fn set_options(&self, options: PoolOptions) {
        self.core.queue.set_options(options);
    }

    /// Takes no further tasks; what is queued is still run, then the threads end.
    pub(crate) fn stop(&self) {
        self.core.queue.stop();
    }

    /// Waits until all threads have ended after [`Pool::stop`]; answers with the number that still run at the
    /// deadline.
    pub(crate) fn wait_stopped(&self, deadline: Instant) -> usize {
        self.core.queue.wait_stopped(deadline, &Instant::now)
    }

    /// What the pool counts.
    pub(crate) fn statistics(&self) -> Vec<(&'static str, Figure)> {
        let (counts, options) = self.core.queue.counts();
        let started = [
            ("belowMinimum", counts.started_for_minimum),
            ("taskWaiting", counts.started_for_waiting),
            ("threadsBlocked", counts.started_for_blocked),
        ];
        vec![
            ("threadsRunning", Figure::Count(counts.threads as u64)),
            ("threadsIdle", Figure::Count(counts.idle as u64)),
            ("threadsStarted", Figure::Count(started.iter().map(|(_, count)| count).sum())),
            (
                "threadsStartedBecause",
                Figure::Group(started.map(|(reason, count)| (reason, Figure::Count(count))).to_vec()),
            ),
            ("threadsNotStarted", Figure::Count(counts.not_started)),
            ("threadsEnded", Figure::Count(counts.ended)),
            ("queued", Figure::Count(counts.queued as u64)),
            ("executed", Figure::Count(counts.executed)),
            ("panicked", Figure::Count(self.core.panicked.load(Ordering::Relaxed))),
            ("totalTimeExecutingMicros", Figure::Count(micros(counts.executing))),
            ("totalTimeQueuedMicros", Figure::Count(micros(counts.waited))),
            ("maxTimeQueuedMicros", Figure::Count(micros(counts.longest_wait))),
            ("minThreads", Figure::Count(options.min_threads as u64)),
            ("maxThreads", Figure::Count(options.max_threads as u64)),
            ("idleMillis", Figure::Count(options.idle.as_millis() as u64)),
        ]
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self::for_cores(usable_processors())
    }
}

fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

fn refuse(result: Result<(), Stopped<Task>>) {
    if let Err(Stopped(task)) = result {
        drop(task);
    }
}

/// Starts a thread whenever the rules ask for one.
fn control(core: &Arc<Core>) {
    let unblocked = || {
        let starting = core.starting.load(Ordering::Relaxed);
        // One more than cores is too many, and how many more does not matter.
        let counted = core.census.unblocked((core.cores + 1).saturating_sub(starting))?;
        Some(starting + counted)
    };
    let mut number = 0_u64;
    while core.queue.watch(&Instant::now, &unblocked) {
        number += 1;
        let worked_for = Arc::clone(core);
        core.starting.fetch_add(1, Ordering::Relaxed);
        let builder = thread::Builder::new().name(format!("{}{number}", core.name)).stack_size(STACK_BYTES);
        if let Err(error) = builder.spawn(move || work(&worked_for)) {
            tracing::warn!(target: "network", %error,
                "cannot start a pool thread; tasks wait for the others");
            core.starting.fetch_sub(1, Ordering::Relaxed);
            core.queue.not_started(Instant::now());
        }
    }
}

/// The life of one thread.
fn work(core: &Arc<Core>) {
    let counted = core.census.count();
    core.starting.fetch_sub(1, Ordering::Relaxed);
    niceness::shift(core.niceness);
    niceness::set_slice(SLICE);
    WORKS_FOR.set(Arc::as_ptr(core));
    offer::begin();
    let mut worker = Worker::new();
    while let Some(task) = core.queue.next(&mut worker, &Instant::now) {
        counted.begins_task();
        core.working.fetch_add(1, Ordering::Relaxed);
        // The connection loop catches the panics of services; one that comes this far has ended its task.
        if catch_unwind(AssertUnwindSafe(|| task.run())).is_err() {
            core.panicked.fetch_add(1, Ordering::Relaxed);
            tracing::error!(target: "network", "a task panicked on the pool");
        }
        core.working.fetch_sub(1, Ordering::Relaxed);
        let_others_run(Instant::now());
    }
}
