//! Replies in memory that their clients have not taken: a bound over all connections.
//!
//! ```text
//!  a large reply is made ──▶ its socket does not take it at once ──▶ taken, or its connection is ended
//!   counts as the largest         counts as it is
//! ```
//! A reply that its socket takes at once is not counted, nor is a small one while it is made: usual requests
//! look at two words that hardly ever change, and write nothing.
//!
//! When there is no room for another reply of the largest size, requests wait before they begin, and those
//! that have begun when their reply becomes large. Who got room makes its reply to the end. Meanwhile the
//! sweeper ends the connections whose clients have taken nothing for longest, until half of the bound is
//! free. One reply always has room.
//!
//! The process says when it is [near the end of its memory](UnreadReplies::set_memory_is_short). Requests of
//! all kinds but diagnostic ones then wait before they begin, for a second at most.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What a large reply counts with while it is made: the most that a reply has.
pub(crate) const RESERVED: u64 = 16 * 1024 * 1024;

/// See the module.
#[derive(Default)]
pub(crate) struct UnreadReplies {
    bytes: AtomicU64,
    /// The bound in bytes; 0: there is none.
    limit: AtomicU64,
    /// Who waits for room. A leaf in the order of locks.
    waiting: Mutex<Vec<Waker>>,
    waits: AtomicU64,
    ended: AtomicU64,
    /// The process is near the end of its memory: whatever it is, a request waits a while before it begins.
    memory_is_short: AtomicBool,
    paced: AtomicU64,
}

/// So long a request waits at most while memory is short. Then it begins, or is refused by who runs it.
pub(crate) const PACED_MAX: Duration = Duration::from_secs(1);

/// What is to be freed by ending connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    /// Bytes until half of the bound is free.
    pub(crate) bytes: u64,
    /// It is far beyond the bound: there is no time to be patient.
    pub(crate) urgent: bool,
}

impl UnreadReplies {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), ..Self::default() }
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::SeqCst);
        self.wake_all();
    }

    /// Whether there is no room for another reply beside so many bytes.
    fn is_full_with(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        bytes > 0 && limit != 0 && bytes + RESERVED > limit
    }

    /// Whether there is no room for another reply.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full_with(self.bytes.load(Ordering::SeqCst))
    }

    /// What the sweeper is to free.
    pub(crate) fn excess(&self) -> Option<Excess> {
        let (bytes, limit) = (self.bytes.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        let excess =
            || Excess { bytes: bytes.saturating_sub(limit / 2), urgent: bytes >= limit.saturating_mul(2) };
        self.is_full_with(bytes).then(excess)
    }

    /// A reply was counted with so many bytes and is now. True when there is no more room from now on.
    #[must_use]
    pub(crate) fn change(&self, before: u64, now: u64) -> bool {
        if now >= before {
            let was = self.bytes.fetch_add(now - before, Ordering::SeqCst);
            return !self.is_full_with(was) && self.is_full_with(was + (now - before));
        }
        let less = |bytes: u64| bytes.checked_sub(before - now);
        let was = self.bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        // Taken away all the same it would be beyond any bound, and every request would wait for ever.
        let was = was.unwrap_or_else(|held| panic!("{} unread bytes are given back of {held}", before - now));
        // Nobody waits where there was room.
        let is_last = self.memory_is_short() && was == before - now;
        if self.is_full_with(was) && !self.is_full() || is_last {
            self.wake_all();
        }
        false
    }

    /// Ready when a request may begin.
    pub(crate) fn poll_begin(&self, context: &Context<'_>) -> Poll<()> {
        self.poll(|| !self.is_full(), context)
    }

    /// Whether the process is near the end of its memory.
    #[inline]
    pub(crate) fn memory_is_short(&self) -> bool {
        self.memory_is_short.load(Ordering::Relaxed)
    }

    /// The process is near the end of its memory, or no longer. Called again while it is: those that wait see
    /// how long they have waited.
    pub(crate) fn set_memory_is_short(&self, short: bool) {
        if self.memory_is_short.swap(short, Ordering::Relaxed) || short {
            self.wake_all();
        }
    }

    /// Ready when a request that waits since then may begin although memory was short.
    pub(crate) fn poll_paced(&self, since: Instant, context: &Context<'_>) -> Poll<()> {
        self.poll(|| !self.memory_is_short() || since.elapsed() >= PACED_MAX, context)
    }

    /// A request waits because memory is short.
    pub(crate) fn count_paced(&self) {
        self.paced.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes, and how many requests have waited because memory was short.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.paced.load(Ordering::Relaxed))
    }

    /// Ready when there was room for a reply that has become large: it counts with [`RESERVED`] from now on.
    /// While memory is short one at a time has.
    pub(crate) fn poll_reserve(&self, context: &Context<'_>) -> Poll<()> {
        let is_full = |bytes| self.is_full_with(bytes) || bytes > 0 && self.memory_is_short();
        let reserve = |bytes: u64| (!is_full(bytes)).then_some(bytes + RESERVED);
        let has_room = || self.bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, reserve).is_ok();
        self.poll(has_room, context)
    }

    fn poll(&self, has_room: impl Fn() -> bool, context: &Context<'_>) -> Poll<()> {
        if has_room() {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.lock();
        // Looked at again under the lock: who makes room wakes those who are in the list by then.
        if has_room() {
            return Poll::Ready(());
        }
        waiting.push(context.waker().clone());
        self.waits.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }

    /// Has everybody who waits look anew.
    pub(crate) fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn count_ended(&self, connections: u64) {
        self.ended.fetch_add(connections, Ordering::Relaxed);
    }

    /// Bytes, bound, how often somebody had to wait, connections ended.
    pub(crate) fn figures(&self) -> [(&'static str, u64); 4] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("bytes", load(&self.bytes)),
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
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    const LIMIT: u64 = 3 * RESERVED;
    /// So many bytes leave just enough room for another reply.
    const ROOM: u64 = LIMIT - RESERVED;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// So many bytes under a bound, and a waker that counts.
    fn holding(bytes: u64) -> (UnreadReplies, Arc<Wakes>, Waker) {
        let unread = UnreadReplies::new(LIMIT);
        let _ = unread.change(0, bytes);
        let wakes = Arc::<Wakes>::default();
        (unread, Arc::clone(&wakes), Waker::from(wakes))
    }

    #[test]
    fn requests_wait_until_there_is_room() {
        let (unread, wakes, waker) = holding(ROOM);
        let context = Context::from_waker(&waker);
        assert!(unread.poll_begin(&context).is_ready());
        assert!(unread.change(10, 11), "there is no more room");
        assert!(!unread.change(0, 5), "there was none before");
        assert!(unread.poll_begin(&context).is_pending());
        assert!(!unread.change(5, 1), "that is not enough");
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "woken without room");
        assert!(!unread.change(1_000, 990));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "not woken though there is room");
        assert!(unread.poll_begin(&context).is_ready());
        assert_eq!(unread.figures().map(|(_, figure)| figure), [ROOM - 8, LIMIT, 1, 0]);
    }

    #[test]
    fn as_many_replies_are_made_as_there_is_room_for() {
        let (unread, wakes, waker) = holding(0);
        let context = Context::from_waker(&waker);
        assert!((0..3).all(|_| unread.poll_reserve(&context).is_ready()));
        assert!(unread.poll_reserve(&context).is_pending() && unread.poll_begin(&context).is_pending());
        assert!(!unread.change(RESERVED, 1_000), "it was smaller in the end");
        assert_eq!(wakes.0.load(Ordering::SeqCst), 0, "woken without room");
        assert!(!unread.change(1_000, 0));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2, "not woken though there is room");
        assert!(unread.poll_reserve(&context).is_ready() && unread.poll_reserve(&context).is_pending());
    }

    #[test]
    fn one_reply_has_room_under_any_bound() {
        let unread = UnreadReplies::new(1);
        let context = Context::from_waker(Waker::noop());
        assert!(unread.poll_begin(&context).is_ready() && unread.poll_reserve(&context).is_ready());
        assert!(unread.poll_reserve(&context).is_pending());
    }

    #[test]
    fn what_is_to_be_freed() {
        let check = |bytes, expect| assert_eq!(holding(bytes).0.excess(), expect, "{bytes} bytes");
        check(ROOM, None);
        check(ROOM + 1, Some(Excess { bytes: ROOM + 1 - LIMIT / 2, urgent: false }));
        check(2 * LIMIT, Some(Excess { bytes: 2 * LIMIT - LIMIT / 2, urgent: true }));
        let (unread, _, waker) = holding(10 * LIMIT);
        unread.set_limit(0);
        let context = Context::from_waker(&waker);
        assert!(unread.excess().is_none() && unread.poll_begin(&context).is_ready());
        assert!(unread.poll_reserve(&context).is_ready());
    }

    #[test]
    fn requests_wait_a_while_when_memory_is_short() {
        let (unread, wakes, waker) = holding(0);
        let context = Context::from_waker(&waker);
        let now = Instant::now();
        assert!(unread.poll_paced(now, &context).is_ready());
        unread.set_memory_is_short(true);
        assert!(unread.memory_is_short() && unread.poll_paced(now, &context).is_pending());
        unread.set_memory_is_short(true);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "who waits looks how long it has waited");
        let earlier = now.checked_sub(PACED_MAX).expect("the machine runs for longer");
        assert!(unread.poll_paced(earlier, &context).is_ready(), "it has waited for long enough");
        assert!(unread.poll_reserve(&context).is_ready(), "one large reply has room");
        assert!(unread.poll_reserve(&context).is_pending(), "a second one has none");
        assert!(unread.poll_paced(now, &context).is_pending());
        unread.set_memory_is_short(false);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 3);
        assert!(unread.poll_paced(now, &context).is_ready() && unread.poll_reserve(&context).is_ready());
    }

    #[test]
    fn another_bound_counts_at_once() {
        let (unread, wakes, waker) = holding(LIMIT);
        let context = Context::from_waker(&waker);
        assert!(unread.poll_begin(&context).is_pending());
        unread.set_limit(2 * LIMIT);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert!(unread.poll_begin(&context).is_ready());
    }
}
