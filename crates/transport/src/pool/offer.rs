//! When a thread of a pool offers the processor to others.
//!
//! An offer takes 0.3 µs where nobody wants the processor. Where somebody does, the scan pays for two changes of threads and for what its
//! caches lose. That is worth it for who answers requests within microseconds, and is not where everybody waits for scans anyway.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread computes before it offers the processor while short requests are about. A thread that wakes does not interrupt another
/// one, also a nicer one, before the end of its slice, which the kernel notices at its next tick, as late as 4 ms.
pub(super) const OFFER_EVERY: Duration = Duration::from_micros(25);
/// The same while there are none: what loops hand over and send can wait for as long as a scan lasts.
pub(super) const OFFER_SELDOM: Duration = Duration::from_micros(400);
/// How long after one short request others are expected.
const EXPECTED_MS: u64 = 5;

/// When a request was last answered without the pool.
#[derive(Debug)]
pub(crate) struct ShortRequests {
    since: Instant,
    /// Milliseconds from `since`, plus one; written once a millisecond at most, so that readers keep the line in their caches.
    last_ms: AtomicU64,
}

impl ShortRequests {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { since: Instant::now(), last_ms: AtomicU64::new(0) })
    }

    /// One was answered just now.
    pub(crate) fn answered(&self, now: Instant) {
        let now = self.milliseconds(now);
        if self.last_ms.load(Ordering::Relaxed) < now {
            self.last_ms.store(now, Ordering::Relaxed);
        }
    }

    /// Whether one was answered within the last milliseconds.
    pub(crate) fn are_about(&self, now: Instant) -> bool {
        let last = self.last_ms.load(Ordering::Relaxed);
        last > 0 && self.milliseconds(now) <= last + EXPECTED_MS
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.since).as_millis() as u64 + 1
    }
}

/// What a thread of a pool knows of its offers.
struct Offers {
    last: Instant,
    short: Arc<ShortRequests>,
}

thread_local! {
    static OFFERS: RefCell<Option<Offers>> = const { RefCell::new(None) };
}

/// From now on the calling thread offers the processor.
pub(super) fn begin(short: Arc<ShortRequests>) {
    OFFERS.set(Some(Offers { last: Instant::now(), short }));
}

/// To be called in long computations, with the time: on a pool thread, event loops and whoever else waits for the processor get it now and
/// then. Does nothing on other threads.
pub fn let_others_run(now: Instant) {
    OFFERS.with_borrow_mut(|offers| {
        let Some(offers) = offers else { return };
        let computed = now.saturating_duration_since(offers.last);
        if computed < OFFER_EVERY || (computed < OFFER_SELDOM && !offers.short.are_about(now)) {
            return;
        }
        thread::yield_now();
        offers.last = Instant::now();
    });
}

/// When the calling thread last offered the processor.
#[cfg(test)]
pub(super) fn last() -> Option<Instant> {
    OFFERS.with_borrow(|offers| offers.as_ref().map(|offers| offers.last))
}
