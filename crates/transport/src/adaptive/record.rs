//! What one worker counts. The worker is the only writer; the controller and the statistics read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kinds of tasks, counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kind {
    /// The first poll of a connection.
    Start = 0,
    /// The connection's socket became ready: a deferred task.
    Ready = 1,
    /// It yielded, or what it waited for other than the network has come.
    Resumed = 2,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Start, Kind::Ready, Kind::Resumed];

/// Counts of one kind of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindTotals {
    /// Tasks taken from a queue.
    pub(crate) begun: u64,
    /// Tasks that have returned.
    pub(crate) executed: u64,
    pub(crate) executing: Duration,
    /// Time that the begun ones waited in a queue.
    pub(crate) queued: Duration,
}

impl KindTotals {
    pub(crate) fn add(&mut self, other: Self) {
        self.begun += other.begun;
        self.executed += other.executed;
        self.executing += other.executing;
        self.queued += other.queued;
    }
}

/// Counts of a worker, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) kinds: [KindTotals; 3],
    /// Time in the worker's loop.
    pub(crate) running: Duration,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Self) {
        self.kinds.iter_mut().zip(other.kinds).for_each(|(kind, other)| kind.add(other));
        self.running += other.running;
    }

    pub(crate) fn all_kinds(&self) -> KindTotals {
        let mut sum = KindTotals::default();
        self.kinds.into_iter().for_each(|kind| sum.add(kind));
        sum
    }
}

#[derive(Debug, Default)]
struct KindCounters {
    begun: AtomicU64,
    executed: AtomicU64,
    executing_ns: AtomicU64,
    queued_ns: AtomicU64,
}

/// See the module. Times are counted from the model's start.
#[derive(Debug)]
pub(crate) struct WorkerRecord {
    /// Unique among the model's workers.
    pub(crate) number: u64,
    /// The kernel's name for the thread.
    pub(crate) thread_id: u32,
    started: Duration,
    kinds: [KindCounters; 3],
    executing_ns: AtomicU64,
    /// When the task in work began, in nanoseconds plus one; 0: none is in work.
    begun_ns: AtomicU64,
}

/// Adds to a counter that nobody else writes.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

const fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl WorkerRecord {
    pub(crate) fn new(number: u64, thread_id: u32, started: Duration) -> Self {
        Self {
            number,
            thread_id,
            started,
            kinds: Default::default(),
            executing_ns: AtomicU64::new(0),
            begun_ns: AtomicU64::new(0),
        }
    }

    /// A task that was queued at `queued` begins.
    pub(crate) fn begin(&self, kind: Kind, queued: Duration, now: Duration) {
        if let Some(counters) = self.kinds.get(kind as usize) {
            add(&counters.begun, 1);
            add(&counters.queued_ns, nanos(now.saturating_sub(queued)));
        }
        self.begun_ns.store(nanos(now) + 1, Ordering::Relaxed);
    }

    /// The task has returned.
    pub(crate) fn end(&self, kind: Kind, now: Duration) {
        let executed = nanos(now).saturating_sub(self.begun_ns.load(Ordering::Relaxed).saturating_sub(1));
        self.begun_ns.store(0, Ordering::Relaxed);
        add(&self.executing_ns, executed);
        if let Some(counters) = self.kinds.get(kind as usize) {
            add(&counters.executed, 1);
            add(&counters.executing_ns, executed);
        }
    }

    /// When the task in work began.
    pub(crate) fn executing_since(&self) -> Option<Duration> {
        self.begun_ns.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_nanos)
    }

    /// Time executing, with the task in work up to now.
    pub(crate) fn executing(&self, now: Duration) -> Duration {
        let done = Duration::from_nanos(self.executing_ns.load(Ordering::Relaxed));
        let current = self.executing_since().map_or(Duration::ZERO, |since| now.saturating_sub(since));
        done + current
    }

    /// Everything up to now.
    pub(crate) fn totals(&self, now: Duration) -> Totals {
        let mut totals = Totals { running: now.saturating_sub(self.started), ..Totals::default() };
        for (kind, counters) in totals.kinds.iter_mut().zip(&self.kinds) {
            *kind = KindTotals {
                begun: counters.begun.load(Ordering::Relaxed),
                executed: counters.executed.load(Ordering::Relaxed),
                executing: Duration::from_nanos(counters.executing_ns.load(Ordering::Relaxed)),
                queued: Duration::from_nanos(counters.queued_ns.load(Ordering::Relaxed)),
            };
        }
        totals
    }
}
