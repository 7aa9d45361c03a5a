//! Which workers there are: who is on the way, who works, why each was started and how it ended.

use crate::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// Why a thread is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// All threads had been in use for a whole stuck time-out.
    StuckDetection,
    /// More tasks waited than threads were free.
    Starvation,
    /// There were fewer than reserved.
    BelowReserve,
    /// A thread had ended by a panic.
    Replacement,
}

/// Started threads by cause; in the order of [`Cause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Creations {
    pub(crate) stuck_detection: u64,
    pub(crate) starvation: u64,
    pub(crate) below_reserve: u64,
    pub(crate) replacement: u64,
}

impl Creations {
    const fn of(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::StuckDetection => &mut self.stuck_detection,
            Cause::Starvation => &mut self.starvation,
            Cause::BelowReserve => &mut self.below_reserve,
            Cause::Replacement => &mut self.replacement,
        }
    }
}

/// What a roster counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Threads in their loop.
    pub(crate) running: usize,
    /// Threads started and not yet in their loop.
    pub(crate) pending: usize,
    /// Threads that a panic ended and nobody replaced yet.
    pub(crate) crashed: usize,
    pub(crate) creations: Creations,
    /// Threads that ended because there was little to do.
    pub(crate) ended_idle: u64,
    /// Threads the system refused.
    pub(crate) start_failures: u64,
}

/// See the module. `W` is what is known of one worker, `E` the sum of those that ended.
pub(crate) struct Roster<W, E> {
    /// No other lock is taken inside.
    membership: Mutex<Membership<W, E>>,
    left: Condvar,
}

struct Membership<W, E> {
    workers: Vec<Arc<W>>,
    ended: E,
    counts: Counts,
    closed: bool,
}

impl<W, E: Default> Roster<W, E> {
    pub(crate) fn new() -> Self {
        let counts = Counts::default();
        let membership = Membership { workers: Vec::new(), ended: E::default(), counts, closed: false };
        Self { membership: Mutex::new(membership), left: Condvar::new() }
    }

    /// A thread is about to be started. False when nobody shall start any more.
    pub(crate) fn expect(&self, cause: Cause) -> bool {
        let mut membership = self.membership.lock();
        if membership.closed {
            return false;
        }
        membership.counts.pending += 1;
        *membership.counts.creations.of(cause) += 1;
        if cause == Cause::Replacement {
            membership.counts.crashed = membership.counts.crashed.saturating_sub(1);
        }
        true
    }

    /// The thread that was expected could not be started. Answers with the failures so far.
    pub(crate) fn start_failed(&self, cause: Cause) -> u64 {
        let mut membership = self.membership.lock();
        membership.counts.pending -= 1;
        *membership.counts.creations.of(cause) -= 1;
        if cause == Cause::Replacement {
            membership.counts.crashed += 1;
        }
        membership.counts.start_failures += 1;
        self.left.notify_all();
        membership.counts.start_failures
    }

    /// An expected thread has begun.
    pub(crate) fn arrive(&self, worker: Arc<W>) {
        let mut membership = self.membership.lock();
        membership.counts.pending -= 1;
        membership.workers.push(worker);
        membership.counts.running = membership.workers.len();
    }

    /// Lets a worker end that has little to do, unless there would be fewer than `reserved` then.
    pub(crate) fn leave_idle(&self, worker: &Arc<W>, reserved: usize, add: impl FnOnce(&mut E, &W)) -> bool {
        let mut membership = self.membership.lock();
        if membership.workers.len() <= reserved {
            return false;
        }
        membership.counts.ended_idle += 1;
        self.remove(&mut membership, worker, add);
        true
    }

    /// A worker ends because the model does.
    pub(crate) fn leave(&self, worker: &Arc<W>, add: impl FnOnce(&mut E, &W)) {
        self.remove(&mut self.membership.lock(), worker, add);
    }

    /// A panic ended a worker.
    pub(crate) fn leave_crashed(&self, worker: &Arc<W>, add: impl FnOnce(&mut E, &W)) {
        let mut membership = self.membership.lock();
        membership.counts.crashed += 1;
        self.remove(&mut membership, worker, add);
    }

    fn remove(&self, membership: &mut Membership<W, E>, worker: &Arc<W>, add: impl FnOnce(&mut E, &W)) {
        membership.workers.retain(|known| !Arc::ptr_eq(known, worker));
        membership.counts.running = membership.workers.len();
        add(&mut membership.ended, worker);
        self.left.notify_all();
    }

    /// The counts, and what `look` makes of the workers and the sum of the ended ones, at one moment.
    pub(crate) fn observe<A>(&self, look: impl FnOnce(&[Arc<W>], &E) -> A) -> (Counts, A) {
        let membership = self.membership.lock();
        (membership.counts, look(&membership.workers, &membership.ended))
    }

    /// Starts nobody any more.
    pub(crate) fn close(&self) {
        self.membership.lock().closed = true;
    }

    /// Waits until all have left, or until nobody did so for `patience`. Answers with the number that has
    /// not.
    pub(crate) fn wait_left(&self, patience: Duration) -> usize {
        let mut membership = self.membership.lock();
        loop {
            let here = membership.counts.running + membership.counts.pending;
            if here == 0 || self.left.wait_for(&mut membership, patience).timed_out() {
                return here;
            }
        }
    }
}
