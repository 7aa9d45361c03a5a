//! What workers, controller and connections of one `adaptive` model share.

use super::controller::Snapshot;
use super::options::AdaptiveOptions;
use super::pressure::processors_are_the_limit;
use super::record::{Kind, Totals, WorkerRecord};
use super::roster::{Counts, Roster};
use super::sockets::{Pushing, Sockets};
use super::task_queues::Queues;
use crate::event_loop::LoopHooks;
use crate::task::{Task, TaskQueue};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A task in a queue.
pub(super) struct Queued {
    pub(super) task: Task,
    pub(super) kind: Kind,
    /// When it was queued, from the model's start.
    pub(super) since: Duration,
}

/// On a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct WaitingConnections(AtomicUsize);

/// What the controller sleeps on.
#[derive(Default)]
pub(super) struct Attention {
    /// Set by whoever finds nobody free, cleared when the controller is ready to listen again.
    wanted: AtomicBool,
    stopping: Mutex<bool>,
    changed: Condvar,
}

/// See the module.
pub(super) struct Core {
    started: Instant,
    pub(super) queues: Queues<Queued>,
    pub(super) sockets: Sockets,
    pub(super) roster: Roster<WorkerRecord, Totals>,
    pub(super) attention: Attention,
    closing: AtomicBool,
    /// A leaf in the order of locks.
    options: Mutex<AdaptiveOptions>,
    recursion_limit: AtomicU32,
    /// Per queue: connections that wait for bytes, or whose bytes have come and nobody has looked.
    waiting: Vec<WaitingConnections>,
    workers_numbered: AtomicU64,
    pub(super) thread_stack_bytes: usize,
    pub(super) hooks: Arc<dyn LoopHooks>,
}

impl Core {
    /// # Errors
    /// The kernel has no descriptor left.
    pub(super) fn new(
        options: AdaptiveOptions,
        thread_stack_bytes: usize,
        hooks: Arc<dyn LoopHooks>,
    ) -> io::Result<Arc<Self>> {
        let count = options.queue_count();
        let mut waiting = Vec::new();
        waiting.resize_with(count, WaitingConnections::default);
        Ok(Arc::new(Self {
            started: Instant::now(),
            queues: Queues::new(count),
            sockets: Sockets::new(count)?,
            roster: Roster::new(),
            attention: Attention::default(),
            closing: AtomicBool::new(false),
            options: Mutex::new(options),
            recursion_limit: AtomicU32::new(options.recursion_limit),
            waiting,
            workers_numbered: AtomicU64::new(0),
            thread_stack_bytes,
            hooks,
        }))
    }

    /// The time from the model's start.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn options(&self) -> AdaptiveOptions {
        *self.options.lock()
    }

    pub(super) fn set_options(&self, options: AdaptiveOptions) {
        *self.options.lock() = options;
        self.recursion_limit.store(options.recursion_limit, Ordering::Relaxed);
        self.queues.wake_all(self);
        self.attention.draw();
    }

    pub(super) fn recursion_limit(&self) -> u32 {
        self.recursion_limit.load(Ordering::Relaxed)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Ends the controller and all workers, once each has finished its task.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.attention.stop();
        self.roster.close();
        self.queues.close(self);
    }

    pub(super) fn next_worker(&self) -> u64 {
        self.workers_numbered.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn waiting(&self, queue: usize) -> Option<&AtomicUsize> {
        self.waiting.get(queue).map(|waiting| &waiting.0)
    }

    /// Connections that wait for bytes; those whose task is queued because bytes came are not counted.
    pub(super) fn deferred(&self) -> u64 {
        let mut woken = 0;
        self.queues.for_each(|queued| woken += usize::from(queued.kind == Kind::Ready));
        let waiting: usize = self.waiting.iter().map(|waiting| waiting.0.load(Ordering::Relaxed)).sum();
        waiting.saturating_sub(woken) as u64
    }

    /// Connections that live here.
    pub(super) fn connections(&self) -> usize {
        self.sockets.pollers.iter().map(|poller| poller.registered()).sum()
    }

    fn push(&self, queue: usize, task: Task) {
        let (kind, since, polled) = match Pushing::current() {
            Pushing::Polls { queue, at } => (Kind::Ready, at.duration_since(self.started), Some(queue)),
            Pushing::Starts => (Kind::Start, self.now(), None),
            Pushing::Wakes => (Kind::Resumed, self.now(), None),
        };
        let queued = Queued { task, kind, since };
        if polled == Some(queue) {
            self.queues.push_quietly(queue, queued);
        } else {
            self.queues.push(self, queue, queued);
        }
    }

    /// What the controller decides by. `measure_pressure`: whether the next step may depend on the
    /// processors.
    pub(super) fn snapshot(&self, measure_pressure: bool) -> Snapshot {
        let now = self.now();
        let processors = self.options().processors;
        let (counts, mut snapshot) = self.roster.observe(|workers, ended| {
            let mut snapshot = Snapshot { now, ..Snapshot::default() };
            snapshot.running_time = ended.running;
            snapshot.executing_time = ended.all_kinds().executing;
            for worker in workers {
                snapshot.running_time += worker.totals(now).running;
                snapshot.executing_time += worker.executing(now);
                if let Some(since) = worker.executing_since() {
                    snapshot.in_use += 1;
                    snapshot.latest_begin = snapshot.latest_begin.max(since);
                }
            }
            snapshot.processors_are_the_limit =
                measure_pressure && processors_are_the_limit(workers, processors);
            snapshot
        });
        let Counts { running, pending, crashed, .. } = counts;
        snapshot.running = running;
        snapshot.pending = pending;
        snapshot.crashed = crashed;
        snapshot.queued = self.queues.queued();
        snapshot
    }
}

/// One queue as its connections see it.
pub(super) struct QueueHandle {
    pub(super) core: Arc<Core>,
    pub(super) queue: usize,
}

impl TaskQueue for QueueHandle {
    fn push(&self, task: Task) {
        self.core.push(self.queue, task);
    }
}

impl Attention {
    /// Wakes the controller unless it was woken already or does not listen at the moment.
    pub(super) fn draw(&self) {
        if self.wanted.load(Ordering::Relaxed) || self.wanted.swap(true, Ordering::SeqCst) {
            return;
        }
        // The controller looks under the lock, so that it is either seen here or has seen the flag.
        drop(self.stopping.lock());
        self.changed.notify_one();
    }

    pub(super) fn stop(&self) {
        *self.stopping.lock() = true;
        self.changed.notify_all();
    }

    /// Sleeps. False when the model ends.
    pub(super) fn sleep(&self, duration: Duration) -> bool {
        let deadline = Instant::now() + duration;
        let mut stopping = self.stopping.lock();
        while !*stopping {
            if self.changed.wait_until(&mut stopping, deadline).timed_out() {
                break;
            }
        }
        !*stopping
    }

    /// Sleeps until somebody draws attention. False when the model ends.
    pub(super) fn listen(&self, most: Duration) -> bool {
        let deadline = Instant::now() + most;
        let mut stopping = self.stopping.lock();
        self.wanted.store(false, Ordering::SeqCst);
        while !*stopping && !self.wanted.load(Ordering::SeqCst) {
            if self.changed.wait_until(&mut stopping, deadline).timed_out() {
                break;
            }
        }
        self.wanted.store(true, Ordering::SeqCst);
        !*stopping
    }
}
