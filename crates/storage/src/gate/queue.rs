//! The queue at the gate: lets commits through at the rate of the moment, keeps the others' wakers, first
//! come, first served.

use std::collections::VecDeque;
use std::task::{Poll, Waker};
use std::time::Duration;

use slab::Slab;

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// Every commit costs at least this many bytes of a paced second.
const COMMIT_BYTES_MIN: i64 = 128;
/// What a pause saves up at most, so that a quiet moment does not become a burst.
const SAVED_UP_MAX: Duration = Duration::from_millis(100);

/// What the gate lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Open,
    Paced { bytes_per_second: u64 },
    Closed,
}

struct Waiter {
    cost: i64,
    admitted: bool,
    waker: Waker,
}

struct State {
    admission: Admission,
    /// Bytes that may pass while paced; one commit may overdraw it.
    tokens: i64,
    waiters: Slab<Waiter>,
    /// Waiters not admitted yet, oldest first.
    queue: VecDeque<usize>,
}

/// Lets commits through, or keeps their wakers.
pub(crate) struct Gate {
    /// Whether the admission is `Open`: for passing without the lock. Written under the lock.
    open: AtomicBool,
    state: Mutex<State>,
    /// Commits that had to wait here.
    held: AtomicU64,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            open: AtomicBool::new(true),
            state: Mutex::new(State {
                admission: Admission::Open,
                tokens: 0,
                waiters: Slab::new(),
                queue: VecDeque::new(),
            }),
            held: AtomicU64::new(0),
        }
    }

    /// Passes a commit of `bytes` bytes or keeps its waker.
    pub(crate) fn poll_admit(&self, bytes: usize, ticket: &mut Option<usize>, waker: &Waker) -> Poll<()> {
        let Some(known) = *ticket else {
            if self.is_open() {
                return Poll::Ready(());
            }
            return self.arrive(bytes, ticket, waker);
        };
        let mut state = self.state.lock();
        let waiter = state.waiters.get_mut(known).expect("a commit keeps its place while it waits");
        if !waiter.admitted {
            waiter.waker.clone_from(waker);
            return Poll::Pending;
        }
        state.waiters.remove(known);
        *ticket = None;
        Poll::Ready(())
    }

    fn arrive(&self, bytes: usize, ticket: &mut Option<usize>, waker: &Waker) -> Poll<()> {
        let cost = i64::try_from(bytes).unwrap_or(i64::MAX / 4).max(COMMIT_BYTES_MIN);
        let mut state = self.state.lock();
        if state.queue.is_empty() && state.pass(cost) {
            return Poll::Ready(());
        }
        let waiter = state.waiters.insert(Waiter { cost, admitted: false, waker: waker.clone() });
        state.queue.push_back(waiter);
        *ticket = Some(waiter);
        self.held.fetch_add(1, Ordering::Relaxed);
        Poll::Pending
    }

    /// A waiting commit goes away.
    pub(crate) fn abandon(&self, ticket: &mut Option<usize>) {
        let Some(known) = ticket.take() else { return };
        let mut state = self.state.lock();
        let waiter = state.waiters.remove(known);
        if waiter.admitted {
            // What it did not use is there for the next ones, at the next call of `set`.
            state.give_back(waiter.cost);
        } else {
            state.queue.retain(|queued| *queued != known);
        }
    }

    /// Sets what passes from now on; `elapsed` is the time since the last call, for the refill.
    pub(crate) fn set(&self, admission: Admission, elapsed: Duration) {
        let mut state = self.state.lock();
        state.admission = admission;
        if let Admission::Paced { bytes_per_second } = admission {
            state.refill(bytes_per_second, elapsed);
        }
        self.open.store(admission == Admission::Open, Ordering::Release);
        let wakers = state.admit();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// `open`, `paced` or `closed`.
    pub(crate) fn mode_name(&self) -> &'static str {
        match self.state.lock().admission {
            Admission::Open => "open",
            Admission::Paced { .. } => "paced",
            Admission::Closed => "closed",
        }
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().queue.len()
    }
}

impl State {
    /// Takes a commit's cost from the bucket, if it may pass.
    fn pass(&mut self, cost: i64) -> bool {
        match self.admission {
            Admission::Open => true,
            Admission::Closed => false,
            Admission::Paced { .. } => {
                let passes = self.tokens > 0;
                if passes {
                    self.tokens = self.tokens.saturating_sub(cost);
                }
                passes
            }
        }
    }

    fn give_back(&mut self, cost: i64) {
        if matches!(self.admission, Admission::Paced { .. }) {
            self.tokens = self.tokens.saturating_add(cost);
        }
    }

    /// Admits the oldest waiters as far as they may pass; returns whom to wake.
    fn admit(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(oldest) = self.queue.front().copied() {
            let waiter = self.waiters.get(oldest).expect("what is in the queue waits");
            if !self.pass(waiter.cost) {
                break;
            }
            self.queue.pop_front();
            let waiter = self.waiters.get_mut(oldest).expect("as above");
            assert!(!waiter.admitted, "a commit passes the gate twice");
            waiter.admitted = true;
            wakers.push(waiter.waker.clone());
        }
        wakers
    }

    fn refill(&mut self, bytes_per_second: u64, elapsed: Duration) {
        let full = |time: Duration| (bytes_per_second as f64 * time.as_secs_f64()) as i64;
        let (refill, ceiling) = (full(elapsed.min(SAVED_UP_MAX)), full(SAVED_UP_MAX));
        self.tokens += refill.min(ceiling.saturating_sub(self.tokens)).max(0);
    }
}
