//! The run queue of one event loop: filled by its own thread without a lock, by others under one.
//!
//! ```text
//!   own thread ──▶ thread-local queue ─────┐
//!                                          ├─▶ run_batch
//!   other threads ──▶ remote queue (lock) ─┤
//!        │            newcomers (lock) ────┘ some of them
//!        └── wakes the owner if it sleeps or is about to
//! ```
//! Newcomers are connections that are polled for the first time. Of those that come at once a batch takes
//! some: who is there already does not wait for all of them.
//!
//! Invariant: when tasks lie in the remote queue and the owner sleeps, somebody is about to wake it. The
//! owner says that it will sleep *before* it looks at the remote queue for the last time; who pushes looks
//! whether it sleeps *after* the push.

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, thread_local};
use crate::task::{Task, TaskQueue};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// One of so many tasks of a full batch may be a newcomer.
const NEWCOMERS_SHARE: usize = 16;

/// Ends the owner's sleep; may be called when it does not sleep.
type Unpark = Box<dyn Fn() + Send + Sync>;

/// See the module.
pub(crate) struct RunQueue {
    /// Tasks from other threads; `None` after the owner has ended. A leaf in the order of locks, held for a
    /// push or a swap.
    remote: Mutex<Option<Remote>>,
    sleeping: AtomicBool,
    unpark: Unpark,
    executed: AtomicU64,
    remote_pushes: AtomicU64,
    unparks: AtomicU64,
}

#[derive(Default)]
struct Remote {
    /// Those that other threads woke.
    woken: VecDeque<Task>,
    newcomers: VecDeque<Task>,
}

/// The queue of the thread that owns one.
struct Local {
    /// Address of the queue that this thread owns; only compared.
    owner: *const RunQueue,
    tasks: VecDeque<Task>,
}

thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local { owner: std::ptr::null(),
        tasks: VecDeque::new() }) };
}

/// What a queue counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunQueueStatistics {
    pub(crate) executed: u64,
    pub(crate) remote_pushes: u64,
    pub(crate) unparks: u64,
}

/// Makes the thread the owner until it is dropped; what is queued then is dropped as well.
pub(crate) struct Ownership {
    queue: Arc<RunQueue>,
}

impl RunQueue {
    pub(crate) fn new(unpark: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            remote: Mutex::new(Some(Remote::default())),
            sleeping: AtomicBool::new(false),
            unpark: Box::new(unpark),
            executed: AtomicU64::new(0),
            remote_pushes: AtomicU64::new(0),
            unparks: AtomicU64::new(0),
        })
    }

    /// Makes the calling thread the owner.
    pub(crate) fn own(self: &Arc<Self>) -> Ownership {
        LOCAL.with_borrow_mut(|local| local.owner = Arc::as_ptr(self));
        Ownership { queue: Arc::clone(self) }
    }

    /// Whether the calling thread is the owner.
    pub(crate) fn is_here(&self) -> bool {
        LOCAL.with_borrow(|local| std::ptr::eq(local.owner, self))
    }

    pub(crate) fn statistics(&self) -> RunQueueStatistics {
        RunQueueStatistics {
            executed: self.executed.load(Ordering::Relaxed),
            remote_pushes: self.remote_pushes.load(Ordering::Relaxed),
            unparks: self.unparks.load(Ordering::Relaxed),
        }
    }

    fn push_remote(&self, task: Task, queue: impl FnOnce(&mut Remote) -> &mut VecDeque<Task>) {
        let refused = match &mut *self.remote.lock() {
            Some(remote) => {
                queue(remote).push_back(task);
                None
            }
            None => Some(task),
        };
        if refused.is_some() {
            // Nobody drives this loop any more. Dropped here, the task ends what it stands for; the lock is
            // free.
            return;
        }
        self.remote_pushes.fetch_add(1, Ordering::Relaxed);
        self.wake_owner();
    }

    /// Ends the owner's sleep if it sleeps.
    pub(crate) fn wake_owner(&self) {
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.unparks.fetch_add(1, Ordering::Relaxed);
            (self.unpark)();
        }
    }
}

impl TaskQueue for RunQueue {
    fn push(&self, task: Task) {
        let foreign = LOCAL.with_borrow_mut(|local| {
            if std::ptr::eq(local.owner, self) {
                local.tasks.push_back(task);
                return None;
            }
            Some(task)
        });
        if let Some(task) = foreign {
            self.push_remote(task, |remote| &mut remote.woken);
        }
    }

    fn push_newcomer(&self, task: Task) {
        self.push_remote(task, |remote| &mut remote.newcomers);
    }
}

impl Ownership {
    /// Runs what is queued now, at most `most` tasks, and of newcomers a few; what these wake runs in the
    /// next batch. Answers with the number run.
    pub(crate) fn run_batch(&self, most: usize) -> usize {
        self.take_remote((most / NEWCOMERS_SHARE).max(1));
        let queued = LOCAL.with_borrow(|local| local.tasks.len()).min(most);
        for _ in 0..queued {
            let Some(task) = LOCAL.with_borrow_mut(|local| local.tasks.pop_front()) else { break };
            // The connection loop catches the panics of services; one that comes this far has ended its task.
            if catch_unwind(AssertUnwindSafe(|| task.run())).is_err() {
                tracing::error!(target: "network", "a connection's task panicked");
            }
        }
        self.queue.executed.fetch_add(queued as u64, Ordering::Relaxed);
        queued
    }

    /// Whether tasks of the own thread wait.
    pub(crate) fn has_tasks(&self) -> bool {
        LOCAL.with_borrow(|local| !local.tasks.is_empty())
    }

    /// Announces a sleep. False when there is something to run: then there is none.
    pub(crate) fn prepare_sleep(&self) -> bool {
        self.queue.sleeping.store(true, Ordering::SeqCst);
        let waits = |remote: &Remote| !(remote.woken.is_empty() && remote.newcomers.is_empty());
        let remote_waits = self.queue.remote.lock().as_ref().is_some_and(waits);
        if self.has_tasks() || remote_waits {
            self.awake();
            return false;
        }
        true
    }

    /// Whether somebody ended the sleep that was announced.
    pub(crate) fn is_woken(&self) -> bool {
        !self.queue.sleeping.load(Ordering::SeqCst)
    }

    /// The sleep is over.
    pub(crate) fn awake(&self) {
        self.queue.sleeping.store(false, Ordering::SeqCst);
    }

    fn take_remote(&self, newcomers_max: usize) {
        let Some(remote) = &mut *self.queue.remote.lock() else { return };
        if remote.woken.is_empty() && remote.newcomers.is_empty() {
            return;
        }
        let count = remote.newcomers.len().min(newcomers_max);
        LOCAL.with_borrow_mut(|local| {
            local.tasks.append(&mut remote.woken);
            local.tasks.extend(remote.newcomers.drain(..count));
        });
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        let remote = self.queue.remote.lock().take();
        let tasks = LOCAL.with_borrow_mut(|local| {
            local.owner = std::ptr::null();
            std::mem::take(&mut local.tasks)
        });
        // Dropping a task may wake others, which are dropped in turn.
        drop((tasks, remote));
    }
}
