//! When a thread of a pool offers the processor to others.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread computes before it offers the processor. A thread that wakes does not interrupt another
/// one, also a nicer one, before the end of its slice, which the kernel notices at its next tick, as late as
/// 4 ms. An offer takes 0.3 µs where nobody wants the processor.
pub(super) const OFFER_EVERY: Duration = Duration::from_micros(100);

thread_local! {
    /// When this thread last offered the processor; `None`: it never does.
    static LAST_OFFER: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// From now on the calling thread offers the processor.
pub(super) fn begin() {
    LAST_OFFER.set(Some(Instant::now()));
}

/// To be called in long computations, with the time: on a pool thread, event loops and whoever else waits for
/// the processor get it now and then. Does nothing on other threads.
pub fn let_others_run(now: Instant) {
    let due = |last: Instant| now.saturating_duration_since(last) >= OFFER_EVERY;
    if LAST_OFFER.get().is_some_and(due) {
        thread::yield_now();
        LAST_OFFER.set(Some(Instant::now()));
    }
}

/// When the calling thread last offered the processor.
#[cfg(test)]
pub(super) fn last() -> Option<Instant> {
    LAST_OFFER.get()
}
