//! The rules of the elastic pool: who runs which task, and when a thread is started or ends.
//!
//! ```text
//!   push ──▶ tasks (first in, first out) ──▶ next: a thread of the pool
//!     │ a thread is idle: call the one that ran last
//!     │ none is: call the controller ──▶ watch: fewer threads than cores, or too many blocked? start one
//!                                           more than cores compute, and for long? the next that finishes
//!                                           its task ends
//! ```
//! Invariants: a task that lies in the queue is seen by a thread that has been called for it, by a thread
//! that runs (it looks before it sleeps), or by the controller. A push calls at most one sleeper. Everything
//! is decided under one lock and held for a few instructions; threads sleep each on a condition of its own,
//! so that the lower ones of the stack time out while there is little work.
//!
//! This file names no thread and no clock: `tests/model.rs` compiles it against a model checker's primitives.

use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a task waits before more threads than cores may run, and the time between two such starts. Longer
/// than most slices of computing work, shorter than anybody notices.
const GROWTH_INTERVAL: Duration = Duration::from_millis(1);
/// Where the kernel does not say which threads are blocked, they count as blocked when none took a task for
/// so long.
const STANDSTILL: Duration = Duration::from_millis(10);
/// The kernel had no thread left: when to ask again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// How many threads the pool has, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// Threads that are kept although they have nothing to do.
    pub min_threads: usize,
    /// The most threads; at least one.
    pub max_threads: usize,
    /// How long a thread beyond the minimum stays without work.
    pub idle: Duration,
}

impl PoolOptions {
    /// More threads than cores serve tasks that wait for the disk: four times as many keep a queue of reads
    /// at the device.
    #[must_use]
    pub fn for_cores(cores: usize) -> Self {
        Self { min_threads: 1, max_threads: (4 * cores).max(16), idle: Duration::from_secs(30) }
    }

    fn bounded(self) -> Self {
        let max_threads = self.max_threads.max(1);
        Self { min_threads: self.min_threads.min(max_threads), max_threads, ..self }
    }
}

/// What the tasks of a pool are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskLength {
    /// They wait for the disk and compute for moments in between: who is seen computing is about to wait.
    Short,
    /// Some compute for long: more of them at a time than there are cores only take turns.
    Any,
}

/// Why a thread was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// There were fewer than the minimum.
    Minimum,
    /// A task waited, and there were fewer than cores.
    Waiting,
    /// A task waited, and too many threads were blocked to use all cores.
    Blocked,
}

/// What the pool has counted, and its state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolCounts {
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    pub(crate) queued: usize,
    pub(crate) started_for_minimum: u64,
    pub(crate) started_for_waiting: u64,
    pub(crate) started_for_blocked: u64,
    pub(crate) not_started: u64,
    pub(crate) ended: u64,
    pub(crate) executed: u64,
    pub(crate) executing: Duration,
    pub(crate) waited: Duration,
    pub(crate) longest_wait: Duration,
}

/// A thread of the pool, as the queue knows it.
pub(crate) struct Worker {
    sleeper: Arc<Sleeper>,
    /// When the task that it runs was taken.
    began: Option<Instant>,
}

struct Sleeper {
    condition: Condvar,
    /// Taken off the idle stack in order to run something. Written under the queue's lock.
    called: AtomicBool,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self {
            sleeper: Arc::new(Sleeper { condition: Condvar::new(), called: AtomicBool::new(false) }),
            began: None,
        }
    }
}

/// The task could not be queued: the pool has stopped.
pub(crate) struct Stopped<T>(pub(crate) T);

/// See the module.
pub(crate) struct PoolQueue<T> {
    /// A leaf in the order of locks.
    state: Mutex<PoolState<T>>,
    /// The controller sleeps here.
    controller: Condvar,
    /// Signalled when the last thread and the controller have ended.
    ended: Condvar,
    cores: usize,
    length: TaskLength,
}

struct PoolState<T> {
    tasks: VecDeque<(T, Instant)>,
    /// Threads without work; the last is the one that ran last.
    idle: Vec<Arc<Sleeper>>,
    options: PoolOptions,
    /// Running, idle, and being started.
    threads: usize,
    controller_asleep: bool,
    controller_ended: bool,
    stopping: bool,
    last_taken: Option<Instant>,
    /// No start beyond the number of cores before this.
    growth_after: Option<Instant>,
    /// More threads compute than there are cores: the next one that has finished its task ends.
    surplus: bool,
    /// No start at all before this.
    start_after: Option<Instant>,
    counts: PoolCounts,
}

/// What the controller does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Start(Reason),
    /// Start one if the kernel says that threads are blocked.
    AskWhoRuns,
    Sleep(Option<Duration>),
    Stop,
}

impl<T> PoolQueue<T> {
    pub(crate) fn new(options: PoolOptions, cores: usize, length: TaskLength) -> Self {
        let state = PoolState {
            tasks: VecDeque::new(),
            idle: Vec::new(),
            options: options.bounded(),
            threads: 0,
            controller_asleep: false,
            controller_ended: false,
            stopping: false,
            last_taken: None,
            growth_after: None,
            surplus: false,
            start_after: None,
            counts: PoolCounts::default(),
        };
        Self {
            state: Mutex::new(state),
            controller: Condvar::new(),
            ended: Condvar::new(),
            cores: cores.max(1),
            length,
        }
    }

    /// Queues a task and sees to it that somebody runs it.
    ///
    /// # Errors
    /// The pool has stopped; the task comes back.
    pub(crate) fn push(&self, task: T, now: Instant) -> Result<(), Stopped<T>> {
        let mut state = self.state.lock();
        if state.stopping {
            return Err(Stopped(task));
        }
        state.tasks.push_back((task, now));
        if let Some(sleeper) = state.idle.pop() {
            sleeper.called.store(true, Ordering::Relaxed);
            drop(state);
            sleeper.condition.notify_one();
        } else if state.controller_asleep && state.may_change(self.cores, self.length) {
            state.controller_asleep = false;
            drop(state);
            self.controller.notify_one();
        }
        Ok(())
    }

    /// Queues a task from a thread of this pool that is about to call [`PoolQueue::next`]: nobody has to be
    /// called for it.
    ///
    /// # Errors
    /// The pool has stopped; the task comes back.
    pub(crate) fn push_before_next(&self, task: T, now: Instant) -> Result<(), Stopped<T>> {
        let mut state = self.state.lock();
        if state.stopping {
            return Err(Stopped(task));
        }
        state.tasks.push_back((task, now));
        Ok(())
    }

    /// The next task for a thread that has finished its last one; sleeps while there is none. `None`: the
    /// thread shall end.
    pub(crate) fn next(&self, worker: &mut Worker, clock: &impl Fn() -> Instant) -> Option<T> {
        let mut now = clock();
        let mut state = self.state.lock();
        if let Some(began) = worker.began.take() {
            state.counts.executed += 1;
            state.counts.executing += now.saturating_duration_since(began);
        }
        loop {
            let kept = self.cores.max(state.options.min_threads);
            let is_surplus = std::mem::take(&mut state.surplus) && state.threads > kept;
            if is_surplus || state.threads > state.options.max_threads {
                self.leave(state);
                return None;
            }
            if let Some((task, since)) = state.tasks.pop_front() {
                let waited = now.saturating_duration_since(since);
                state.counts.waited += waited;
                state.counts.longest_wait = state.counts.longest_wait.max(waited);
                state.last_taken = Some(now);
                worker.began = Some(now);
                return Some(task);
            }
            if state.stopping || !sleep(&mut state, &worker.sleeper) {
                self.leave(state);
                return None;
            }
            // A thread that slept has to know how late it is.
            now = clock();
        }
    }

    /// Sleeps until a thread is to be started, which the caller does then (or reports
    /// [`PoolQueue::not_started`]). `unblocked` says how many threads of the pool run or could, `None` when
    /// that cannot be known. False: the pool stops.
    pub(crate) fn watch(&self, clock: &impl Fn() -> Instant, unblocked: &impl Fn() -> Option<usize>) -> bool {
        let mut state = self.state.lock();
        loop {
            match state.decide(clock(), self.cores, self.length) {
                Decision::Start(reason) => {
                    state.count_start(reason);
                    return true;
                }
                Decision::AskWhoRuns => {
                    drop(state);
                    let unblocked = unblocked();
                    if self.after_asking(unblocked, clock()) {
                        return true;
                    }
                    state = self.state.lock();
                }
                Decision::Sleep(None) => {
                    state.controller_asleep = true;
                    self.controller.wait(&mut state);
                    state.controller_asleep = false;
                }
                Decision::Sleep(Some(pause)) => {
                    self.controller.wait_for(&mut state, pause);
                }
                Decision::Stop => {
                    state.controller_ended = true;
                    self.clear_when_ended(state);
                    return false;
                }
            }
        }
    }

    /// Whether a thread is to be started now that it is known who runs.
    pub(crate) fn after_asking(&self, unblocked: Option<usize>, now: Instant) -> bool {
        self.state.lock().after_asking(unblocked, now, self.cores, self.length)
    }

    /// What the controller would do.
    #[cfg(test)]
    pub(crate) fn decision(&self, now: Instant) -> Decision {
        self.state.lock().decide(now, self.cores, self.length)
    }

    /// The thread that [`PoolQueue::watch`] asked for could not be started.
    pub(crate) fn not_started(&self, now: Instant) {
        let mut state = self.state.lock();
        state.threads -= 1;
        state.counts.not_started += 1;
        state.start_after = now.checked_add(RETRY_AFTER);
        self.clear_when_ended(state);
    }

    pub(crate) fn set_options(&self, options: PoolOptions) {
        let mut state = self.state.lock();
        state.options = options.bounded();
        self.call_everybody(state);
    }

    /// Takes no further tasks; what is queued is still run, then the threads end. May be called again.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        self.call_everybody(state);
    }

    /// Waits until the pool has stopped; answers with the number of threads that still run at the deadline.
    pub(crate) fn wait_stopped(&self, deadline: Instant, clock: &impl Fn() -> Instant) -> usize {
        let mut state = self.state.lock();
        while !state.is_over() {
            let left = deadline.saturating_duration_since(clock());
            if left.is_zero() {
                break;
            }
            self.ended.wait_for(&mut state, left);
        }
        state.threads
    }

    pub(crate) fn counts(&self) -> (PoolCounts, PoolOptions) {
        let state = self.state.lock();
        let counts = PoolCounts {
            threads: state.threads,
            idle: state.idle.len(),
            queued: state.tasks.len(),
            ..state.counts
        };
        (counts, state.options)
    }

    /// A thread ends.
    fn leave(&self, mut state: MutexGuard<'_, PoolState<T>>) {
        state.threads -= 1;
        state.counts.ended += 1;
        self.clear_when_ended(state);
    }

    /// Whoever ends last drops what nobody ran, outside the lock: dropping a task may wake others, which are
    /// pushed.
    fn clear_when_ended(&self, mut state: MutexGuard<'_, PoolState<T>>) {
        if !state.is_over() {
            return;
        }
        let left = std::mem::take(&mut state.tasks);
        self.ended.notify_all();
        drop(state);
        drop(left);
    }

    /// Has everybody look at the state anew.
    fn call_everybody(&self, mut state: MutexGuard<'_, PoolState<T>>) {
        let idle = std::mem::take(&mut state.idle);
        for sleeper in &idle {
            sleeper.called.store(true, Ordering::Relaxed);
        }
        state.controller_asleep = false;
        drop(state);
        self.controller.notify_one();
        for sleeper in idle {
            sleeper.condition.notify_one();
        }
    }
}

/// Sleeps on the idle stack until called. False when the thread was idle for so long that it shall end.
fn sleep<T>(state: &mut MutexGuard<'_, PoolState<T>>, sleeper: &Arc<Sleeper>) -> bool {
    sleeper.called.store(false, Ordering::Relaxed);
    state.idle.push(Arc::clone(sleeper));
    loop {
        let timed_out = if state.threads > state.options.min_threads {
            let idle = state.options.idle;
            sleeper.condition.wait_for(state, idle).timed_out()
        } else {
            sleeper.condition.wait(state);
            false
        };
        // Called in the moment of the time-out: there is something to run.
        if sleeper.called.load(Ordering::Relaxed) {
            return true;
        }
        if timed_out && state.threads > state.options.min_threads {
            state.idle.retain(|other| !Arc::ptr_eq(other, sleeper));
            return false;
        }
    }
}

impl<T> PoolState<T> {
    fn is_over(&self) -> bool {
        self.stopping && self.controller_ended && self.threads == 0
    }

    /// Whether a thread could be started, or one be found to be too many.
    fn may_change(&self, cores: usize, length: TaskLength) -> bool {
        let sheds = length == TaskLength::Any && self.threads > cores;
        self.threads < self.options.max_threads || sheds
    }

    fn decide(&self, now: Instant, cores: usize, length: TaskLength) -> Decision {
        let until = |instant: Option<Instant>| {
            instant.and_then(|instant| instant.checked_duration_since(now)).filter(|left| !left.is_zero())
        };
        if self.stopping {
            // Somebody has to run what is queued, if the kernel has a thread.
            let deserted = self.threads == 0 && !self.tasks.is_empty() && self.start_after.is_none();
            return if deserted { Decision::Start(Reason::Waiting) } else { Decision::Stop };
        }
        let below_minimum = self.threads < self.options.min_threads;
        let wanted = below_minimum || (!self.tasks.is_empty() && self.idle.is_empty());
        if !wanted || !self.may_change(cores, length) {
            return Decision::Sleep(None);
        }
        if let Some(left) = until(self.start_after) {
            return Decision::Sleep(Some(left));
        }
        if below_minimum {
            return Decision::Start(Reason::Minimum);
        }
        if self.threads < cores {
            return Decision::Start(Reason::Waiting);
        }
        let oldest = self.tasks.front().and_then(|(_, since)| since.checked_add(GROWTH_INTERVAL));
        match until(oldest.max(self.growth_after)) {
            Some(left) => Decision::Sleep(Some(left)),
            None => Decision::AskWhoRuns,
        }
    }

    /// Whether a thread is to be started now that it is known who runs.
    fn after_asking(
        &mut self,
        unblocked: Option<usize>,
        now: Instant,
        cores: usize,
        length: TaskLength,
    ) -> bool {
        let blocked = match unblocked {
            Some(unblocked) => unblocked < cores,
            None => self.last_taken.is_none_or(|taken| now.saturating_duration_since(taken) >= STANDSTILL),
        };
        // Much may have happened while the lock was free.
        let asks = matches!(self.decide(now, cores, length), Decision::AskWhoRuns);
        let starts = asks && blocked && self.threads < self.options.max_threads;
        let computing = unblocked.is_some_and(|unblocked| unblocked > cores);
        self.surplus = asks && computing && length == TaskLength::Any;
        if starts {
            self.count_start(Reason::Blocked);
        }
        self.growth_after = now.checked_add(GROWTH_INTERVAL);
        starts
    }

    fn count_start(&mut self, reason: Reason) {
        self.threads += 1;
        match reason {
            Reason::Minimum => self.counts.started_for_minimum += 1,
            Reason::Waiting => self.counts.started_for_waiting += 1,
            Reason::Blocked => self.counts.started_for_blocked += 1,
        }
    }
}
