//! The task queues: each with its own lock and its own *marker*, and the workers that rest because all are
//! empty.
//!
//! ```text
//!   queue 0   task task MARKER task ...      a worker takes from its own queue first, then from the others
//!   queue 1   MARKER                         whoever takes a marker looks at that queue's sockets, without
//!   queue 2   (marker being polled)          waiting, and puts it behind the tasks that are queued by then
//!
//!   no queue has work:  the first worker watches the sockets of all queues, the others sleep
//! ```
//! The marker is the article's (S0): as it moves through the queue like a task, network events never starve
//! behind tasks, and tasks never behind polling. A queue that holds nothing but its marker has no work until
//! the watcher says that its sockets are ready; every so often a worker looks at the next queue by force, so
//! that a busy queue does not starve the quiet ones. And a worker takes from another queue when that is far
//! longer than its own, so that clients wait about equally in all.
//!
//! # Invariants
//! - A marker is in its queue or in the hands of one worker, which puts it back and then looks at the queue
//!   once more.
//! - A worker announces that it rests *before* it looks at the queues for the last time; who pushes looks for
//!   resting workers *after* the push. The queue's lock orders the two, so that one of them sees the other.
//! - While workers sleep, somebody watches, or has been called and will watch or find a task.
//! - Order of locks: `idle`, then a queue's. Nobody waits for the network under either.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering};
use std::collections::VecDeque;
use std::time::Duration;

/// A worker looks at the next queue by force each time it has taken this often.
const TAKES_BETWEEN_VISITS: usize = 16;
/// A worker prefers another queue that is more than this many times as long as its own.
const FAR_LONGER: usize = 2;
/// Queues up to this length are short, however much shorter the worker's own.
const SHORT: usize = 8;

/// The sockets behind the queues.
pub(crate) trait SocketPoller {
    /// Wakes the tasks of a queue whose sockets are ready, without waiting. True when there may be more than
    /// it took.
    fn poll(&self, queue: usize) -> bool;
    /// Waits until sockets of some queues are ready, [`SocketPoller::notify`] or the end of the time, and
    /// names the queues. A queue is named again only after it was polled. Called by one thread at a time.
    fn wait(&self, timeout: Duration, ready: &mut Vec<usize>);
    /// Ends the wait that is under way, or the next one.
    fn notify(&self);
    /// Tasks wait, and no worker rests.
    fn nobody_is_free(&self);
}

/// See the module.
pub(crate) struct Queues<T> {
    queues: Box<[Queue<T>]>,
    idle: Mutex<Idle>,
    called: Condvar,
    /// What `idle` says, for those who only want to know whether to lock it: [`Idle::summary`].
    summary: AtomicUsize,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Queue<T> {
    entries: Mutex<Entries<T>>,
    /// What `entries` says of its tasks, for those who only compare.
    length: AtomicUsize,
}

struct Entries<T> {
    order: VecDeque<Entry<T>>,
    /// How many entries are tasks.
    tasks: usize,
    /// The watcher saw that sockets are ready, and nobody has polled since.
    ready: bool,
}

enum Entry<T> {
    Task(T),
    Marker,
}

enum Next<T> {
    Task(T),
    Poll,
    Nothing,
}

impl<T> Entries<T> {
    /// Takes what is in front. A marker alone is worth polling when the sockets are ready, or by force.
    fn next(&mut self, by_force: bool) -> Next<T> {
        let lonely = self.tasks == 0 && !self.ready && !by_force;
        match self.order.pop_front() {
            Some(Entry::Task(task)) => {
                self.tasks -= 1;
                Next::Task(task)
            }
            Some(Entry::Marker) if lonely => {
                self.order.push_front(Entry::Marker);
                Next::Nothing
            }
            Some(Entry::Marker) => {
                self.ready = false;
                Next::Poll
            }
            None => Next::Nothing,
        }
    }

    /// Whether a worker finds something here. Without its marker, who has it looks again.
    fn has_work(&self) -> bool {
        self.tasks > 0 || (self.ready && !self.order.is_empty())
    }
}

#[derive(Default)]
struct Idle {
    /// A worker is in [`SocketPoller::wait`], or about to be.
    watching: bool,
    /// The watcher was told to come back.
    notified: bool,
    /// Workers that wait for `called`.
    sleeping: usize,
    /// How many of them were called and have not got up.
    called_up: usize,
    /// How often everybody was called.
    broadcasts: u64,
    closed: bool,
}

const NEEDS_WATCHER: usize = 1;
const WATCHER: usize = 2;
const SLEEPER: usize = 4;

impl Idle {
    /// Bit 0: nobody watches and nobody was called; bit 1: a watcher can be notified; above: sleepers that
    /// can be called.
    const fn summary(&self) -> usize {
        let needs_watcher = !self.watching && self.called_up == 0;
        let watcher = self.watching && !self.notified;
        (self.sleeping - self.called_up) * SLEEPER
            + if needs_watcher { NEEDS_WATCHER } else { 0 }
            + if watcher { WATCHER } else { 0 }
    }

    /// Calls a sleeper if there is one; the caller signals the condition variable then.
    const fn call_sleeper(&mut self) -> bool {
        let calls = self.sleeping > self.called_up;
        if calls {
            self.called_up += 1;
        }
        calls
    }

    const fn notify_watcher(&mut self) -> bool {
        let notifies = self.watching && !self.notified;
        self.notified |= notifies;
        notifies
    }
}

/// How a rest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// There may be work.
    Woken,
    /// The time is over; nobody counts on the worker.
    TimedOut,
    /// The queues were closed.
    Closed,
}

/// Where one worker looks next.
#[derive(Debug)]
pub(crate) struct QueueCursor {
    own: usize,
    count: usize,
    ready: Vec<usize>,
    /// Those of [`Queues::wake_all`] that the worker has heard.
    broadcasts: u64,
}

impl QueueCursor {
    /// `own`: any number; workers with different ones prefer different queues.
    pub(crate) const fn new(own: usize) -> Self {
        Self { own, count: own, ready: Vec::new(), broadcasts: 0 }
    }

    /// The queue to visit by force, if it is time for that: one after the other.
    const fn visit(&mut self, queues: usize) -> Option<usize> {
        self.count = self.count.wrapping_add(1);
        if queues < 2 || !self.count.is_multiple_of(TAKES_BETWEEN_VISITS) {
            return None;
        }
        Some((self.count / TAKES_BETWEEN_VISITS + self.own) % queues)
    }

    /// Another queue to compare one's own with.
    const fn neighbour(&self, queues: usize) -> usize {
        (self.own + 1 + self.count % (queues - 1)) % queues
    }
}

impl<T> Queues<T> {
    /// At least one queue.
    pub(crate) fn new(queues: usize) -> Self {
        let queue = |_| {
            let order = VecDeque::from([Entry::Marker]);
            Queue {
                entries: Mutex::new(Entries { order, tasks: 0, ready: false }),
                length: AtomicUsize::new(0),
            }
        };
        let idle = Idle::default();
        let summary = AtomicUsize::new(idle.summary());
        let queues = (0..queues.max(1)).map(queue).collect();
        Self { queues, idle: Mutex::new(idle), called: Condvar::new(), summary }
    }

    pub(crate) fn count(&self) -> usize {
        self.queues.len()
    }

    /// Queues a task and calls a worker for it.
    pub(crate) fn push<R: SocketPoller>(&self, poller: &R, queue: usize, task: T) {
        self.push_quietly(queue, task);
        self.call(poller);
    }

    /// Queues a task of the queue that the calling worker polls at the moment; the worker takes it next.
    pub(crate) fn push_quietly(&self, queue: usize, task: T) {
        if let Some(queue) = self.queues.get(queue % self.queues.len()) {
            let mut entries = queue.entries.lock();
            entries.tasks += 1;
            entries.order.push_back(Entry::Task(task));
            queue.length.store(entries.tasks, Ordering::Relaxed);
        }
    }

    /// Calls a sleeper, or the watcher when none sleeps, unless all were called.
    fn call<R: SocketPoller>(&self, poller: &R) {
        if self.summary.load(Ordering::SeqCst) < WATCHER {
            return poller.nobody_is_free();
        }
        let mut idle = self.idle.lock();
        let calls = idle.call_sleeper();
        let notifies = !calls && idle.notify_watcher();
        self.publish(&idle);
        drop(idle);
        if calls {
            self.called.notify_one();
        } else if notifies {
            poller.notify();
        }
    }

    /// Takes a task, polling sockets on the way. `None`: no queue has work.
    pub(crate) fn take<R: SocketPoller>(&self, poller: &R, cursor: &mut QueueCursor) -> Option<T> {
        let queues = self.queues.len();
        if let Some(queue) = cursor.visit(queues)
            && let Some(task) = self.take_from(poller, queue, true)
        {
            return Some(task);
        }
        if let Some(queue) = self.far_longer(cursor)
            && let Some(task) = self.take_from(poller, queue, false)
        {
            return Some(task);
        }
        (0..queues).find_map(|offset| self.take_from(poller, (cursor.own + offset) % queues, false))
    }

    /// A queue that has more than its share of tasks: its workers are slow, or there are too few.
    fn far_longer(&self, cursor: &QueueCursor) -> Option<usize> {
        let queues = self.queues.len();
        if queues < 2 {
            return None;
        }
        let neighbour = cursor.neighbour(queues);
        let length = |index: usize| Some(self.queues.get(index)?.length.load(Ordering::Relaxed));
        let enough = length(cursor.own % queues)?.saturating_mul(FAR_LONGER).max(SHORT);
        (length(neighbour)? > enough).then_some(neighbour)
    }

    fn take_from<R: SocketPoller>(&self, poller: &R, index: usize, mut by_force: bool) -> Option<T> {
        let queue = self.queues.get(index)?;
        let mut entries = queue.entries.lock();
        loop {
            match entries.next(by_force) {
                Next::Task(task) => {
                    queue.length.store(entries.tasks, Ordering::Relaxed);
                    let more = entries.has_work();
                    drop(entries);
                    self.leave_to_others(poller, more);
                    return Some(task);
                }
                Next::Poll => {
                    drop(entries);
                    let more = poller.poll(index);
                    entries = queue.entries.lock();
                    entries.order.push_back(Entry::Marker);
                    entries.ready |= more;
                    by_force = false;
                }
                Next::Nothing => return None,
            }
        }
    }

    /// The calling worker is busy from now on: another shall take what else there is, or watch.
    fn leave_to_others<R: SocketPoller>(&self, poller: &R, more: bool) {
        if more {
            return self.call(poller);
        }
        let summary = self.summary.load(Ordering::SeqCst);
        if summary >= SLEEPER && summary & NEEDS_WATCHER != 0 {
            self.call_successor();
        }
    }

    /// Calls a sleeper unless somebody watches or is about to.
    fn call_successor(&self) {
        let mut idle = self.idle.lock();
        let calls = !idle.watching && idle.called_up == 0 && idle.call_sleeper();
        self.publish(&idle);
        drop(idle);
        if calls {
            self.called.notify_one();
        }
    }

    /// Waits for work: watches the sockets when nobody does, sleeps otherwise.
    pub(crate) fn wait_for_work<R: SocketPoller>(
        &self,
        poller: &R,
        cursor: &mut QueueCursor,
        timeout: Duration,
    ) -> WaitEnd {
        let mut idle = self.idle.lock();
        if idle.closed {
            return WaitEnd::Closed;
        }
        if idle.broadcasts != cursor.broadcasts {
            cursor.broadcasts = idle.broadcasts;
            return WaitEnd::Woken;
        }
        let watches = !idle.watching;
        if watches {
            idle.watching = true;
            idle.notified = false;
        } else {
            idle.sleeping += 1;
        }
        self.publish(&idle);
        if self.queues.iter().any(|queue| queue.entries.lock().has_work()) {
            // Nobody can have called in the meantime: the lock is held.
            if watches {
                idle.watching = false;
            } else {
                idle.sleeping -= 1;
            }
            self.publish(&idle);
            return WaitEnd::Woken;
        }
        if watches {
            drop(idle);
            return self.watch(poller, cursor, timeout);
        }
        let mut timed_out = false;
        // Another may rest again and answer the call that was meant for this one, but a broadcast is for
        // everyone.
        while idle.called_up == 0 && idle.broadcasts == cursor.broadcasts && !timed_out {
            timed_out = self.called.wait_for(&mut idle, timeout).timed_out();
        }
        let was_called = idle.called_up > 0 || idle.broadcasts != cursor.broadcasts;
        idle.called_up = idle.called_up.saturating_sub(1);
        idle.sleeping -= 1;
        cursor.broadcasts = idle.broadcasts;
        self.publish(&idle);
        ended(&idle, was_called)
    }

    fn watch<R: SocketPoller>(&self, poller: &R, cursor: &mut QueueCursor, timeout: Duration) -> WaitEnd {
        poller.wait(timeout, &mut cursor.ready);
        let saw_events = !cursor.ready.is_empty();
        for index in cursor.ready.drain(..) {
            if let Some(queue) = self.queues.get(index) {
                queue.entries.lock().ready = true;
            }
        }
        let mut idle = self.idle.lock();
        let woken = saw_events || idle.notified;
        idle.watching = false;
        idle.notified = false;
        // A watcher that returns with work calls a successor when it takes a task; one that may end does so
        // here.
        let calls = !woken && idle.call_sleeper();
        self.publish(&idle);
        let rest = ended(&idle, woken);
        drop(idle);
        if calls {
            self.called.notify_one();
        }
        rest
    }

    /// Every worker comes back from its rest, or from the next one if it does not rest, and so sees what was
    /// changed before.
    pub(crate) fn wake_all<R: SocketPoller>(&self, poller: &R) {
        self.call_everybody(poller, false);
    }

    /// Every worker is told to end when it next rests.
    pub(crate) fn close<R: SocketPoller>(&self, poller: &R) {
        self.call_everybody(poller, true);
    }

    fn call_everybody<R: SocketPoller>(&self, poller: &R, close: bool) {
        let mut idle = self.idle.lock();
        idle.closed |= close;
        idle.broadcasts += 1;
        idle.called_up = idle.sleeping;
        let notifies = idle.notify_watcher();
        self.publish(&idle);
        drop(idle);
        self.called.notify_all();
        if notifies {
            poller.notify();
        }
    }

    /// Takes all tasks out, for a model that ends.
    pub(crate) fn drain(&self) -> Vec<T> {
        let mut tasks = Vec::new();
        for queue in &self.queues {
            let mut entries = queue.entries.lock();
            entries.tasks = 0;
            queue.length.store(0, Ordering::Relaxed);
            for entry in std::mem::take(&mut entries.order) {
                match entry {
                    Entry::Task(task) => tasks.push(task),
                    Entry::Marker => entries.order.push_back(Entry::Marker),
                }
            }
        }
        tasks
    }

    /// Looks at each task that is queued.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&T)) {
        for queue in &self.queues {
            for entry in &queue.entries.lock().order {
                if let Entry::Task(task) = entry {
                    look(task);
                }
            }
        }
    }

    /// Tasks that are queued.
    pub(crate) fn queued(&self) -> usize {
        self.queues.iter().map(|queue| queue.entries.lock().tasks).sum()
    }

    /// `idle` is locked.
    fn publish(&self, idle: &Idle) {
        self.summary.store(idle.summary(), Ordering::SeqCst);
    }
}

const fn ended(idle: &Idle, woken: bool) -> WaitEnd {
    if idle.closed {
        WaitEnd::Closed
    } else if woken {
        WaitEnd::Woken
    } else {
        WaitEnd::TimedOut
    }
}
