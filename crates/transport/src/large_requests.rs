//! Large requests in memory: a bound over all connections.
//!
//! A message is in memory from its first byte until it is answered. Small ones are not counted; what is small
//! follows from the bound. One that is large, by its header, is admitted before the rest of it is received:
//! as many at a time as fit into the bound, one always, first come, first served. The others wait in their
//! sockets. Who was admitted and does not send holds up those that wait: the sweeper ends such connections,
//! but only while somebody waits.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Messages longer than this are always counted.
pub(crate) const LARGE: usize = 1024 * 1024;
/// Shorter ones never are: what they take is small beside what their connection takes.
const SMALL: usize = 16 * 1024;
/// So many messages just below what is counted take as much as those that are counted.
const SMALL_ONES: u64 = 1024;

/// See the module.
pub(crate) struct LargeRequests {
    /// The bound in bytes; 0: there is none.
    limit: AtomicU64,
    /// A leaf in the order of locks.
    admitted: Mutex<Admitted>,
    waiting: AtomicUsize,
    waits: AtomicU64,
    ended: AtomicU64,
}

#[derive(Default)]
struct Admitted {
    /// Bytes of the messages that were admitted.
    held: u64,
    queue: VecDeque<Waiter>,
}

struct Waiter {
    session: u64,
    waker: Waker,
}

impl LargeRequests {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            admitted: Mutex::default(),
            waiting: AtomicUsize::new(0),
            waits: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    /// Changes the bound. Who was admitted stays so.
    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.wake_all();
    }

    /// Messages longer than this are counted.
    pub(crate) fn large(&self) -> usize {
        match self.limit.load(Ordering::Relaxed) {
            0 => LARGE,
            limit => usize::try_from(limit / SMALL_ONES).map_or(LARGE, |share| share.clamp(SMALL, LARGE)),
        }
    }

    /// Bytes of the messages that were admitted.
    pub(crate) fn held(&self) -> u64 {
        self.admitted.lock().held
    }

    /// Ready when the session's message of this length is admitted; it is to be [released](Self::release)
    /// then, and otherwise [abandoned](Self::abandon) if the session ends before.
    pub(crate) fn poll_admit(&self, session: u64, bytes: u64, context: &Context<'_>) -> Poll<()> {
        let mut admitted = self.admitted.lock();
        let place = admitted.queue.iter().position(|waiter| waiter.session == session);
        let is_next = place.map_or(admitted.queue.is_empty(), |place| place == 0);
        let limit = self.limit.load(Ordering::Relaxed);
        if is_next && (limit == 0 || admitted.held == 0 || admitted.held + bytes <= limit) {
            admitted.held += bytes;
            if place.is_some() {
                admitted.queue.pop_front();
            }
            self.call_next(&admitted);
            return Poll::Ready(());
        }
        match place.and_then(|place| admitted.queue.get_mut(place)) {
            Some(waiter) => waiter.waker.clone_from(context.waker()),
            None => {
                admitted.queue.push_back(Waiter { session, waker: context.waker().clone() });
                self.waits.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.waiting.store(admitted.queue.len(), Ordering::SeqCst);
        Poll::Pending
    }

    /// A message that was admitted is answered, or its connection has ended.
    pub(crate) fn release(&self, bytes: u64) {
        let mut admitted = self.admitted.lock();
        assert!(
            bytes <= admitted.held,
            "{bytes} bytes of large requests are given back of {}",
            admitted.held
        );
        admitted.held -= bytes;
        self.call_next(&admitted);
    }

    /// The session waits no more, should it have done so.
    pub(crate) fn abandon(&self, session: u64) {
        if self.has_waiters() {
            let mut admitted = self.admitted.lock();
            admitted.queue.retain(|waiter| waiter.session != session);
            self.call_next(&admitted);
        }
    }

    /// Has the next one look whether it fits.
    fn call_next(&self, admitted: &Admitted) {
        self.waiting.store(admitted.queue.len(), Ordering::SeqCst);
        if let Some(next) = admitted.queue.front() {
            next.waker.wake_by_ref();
        }
    }

    /// Has everybody who waits look anew.
    pub(crate) fn wake_all(&self) {
        self.admitted.lock().queue.iter().for_each(|waiter| waiter.waker.wake_by_ref());
    }

    /// Whether anybody waits for those that were admitted.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn count_ended(&self, connections: u64) {
        self.ended.fetch_add(connections, Ordering::Relaxed);
    }

    /// Bytes, bound, how often somebody had to wait, connections ended.
    pub(crate) fn figures(&self) -> [(&'static str, u64); 4] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("bytes", self.held()),
            ("maxBytes", load(&self.limit)),
            ("waits", load(&self.waits)),
            ("connectionsEnded", load(&self.ended)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn first_come_first_served_within_the_bound() {
        let requests = LargeRequests::new(100);
        let wakes = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&wakes));
        let admit =
            |session, bytes| requests.poll_admit(session, bytes, &Context::from_waker(&waker)).is_ready();
        assert!(admit(1, 60) && admit(2, 40));
        assert!(!admit(3, 60) && !admit(3, 60), "there is no room");
        assert!(!admit(4, 1), "who comes later waits behind the others");
        requests.release(40);
        assert!(!admit(4, 1) && !admit(3, 60), "60 and 60 are too many");
        requests.release(60);
        assert!(!admit(4, 1), "it is not its turn");
        assert!(admit(3, 60) && admit(4, 1));
        assert!(!requests.has_waiters());
        assert!(wakes.0.load(Ordering::SeqCst) >= 3, "who is next is told");
        assert_eq!(requests.figures().map(|(_, figure)| figure), [61, 100, 2, 0]);
    }

    #[test]
    fn one_is_always_admitted_and_none_waits_without_a_bound() {
        let context = Context::from_waker(Waker::noop());
        let small = LargeRequests::new(10);
        assert!(small.poll_admit(1, 1_000, &context).is_ready());
        assert!(small.poll_admit(2, 1, &context).is_pending());
        let free = LargeRequests::new(0);
        assert!((1..100).all(|session| free.poll_admit(session, 1_000, &context).is_ready()));
    }

    #[test]
    fn what_is_large_follows_from_the_bound() {
        let check = |limit: u64, expect| assert_eq!(LargeRequests::new(limit).large(), expect, "{limit}");
        check(0, 1 << 20);
        check(16 << 20, 16 << 10);
        check(64 << 20, 64 << 10);
        check(4 << 30, 1 << 20);
        let requests = LargeRequests::new(0);
        requests.set_limit(64 << 20);
        assert_eq!(requests.large(), 64 << 10);
    }

    #[test]
    fn who_goes_away_holds_up_nobody() {
        let requests = LargeRequests::new(10);
        let context = Context::from_waker(Waker::noop());
        assert!(requests.poll_admit(1, 10, &context).is_ready());
        assert!(
            requests.poll_admit(2, 10, &context).is_pending()
                && requests.poll_admit(3, 5, &context).is_pending()
        );
        requests.abandon(2);
        requests.release(10);
        assert!(requests.poll_admit(3, 5, &context).is_ready());
        requests.abandon(3);
        assert_eq!(requests.figures()[0], ("bytes", 5));
    }
}
