//! The queue at a gate: lets commits through at the rate of the moment or while there is room behind it, and
//! keeps the others' wakers. Who brings the most bytes waits the longest: a commit has its turn when every
//! other connection that waits has brought as much as its own has with it (fair queueing; the time is that of
//! start-time fair queueing: Goyal, Vin, Cheng 1996).
//!
//! ```text
//!  turns:   0 ── 1 KB ── 2 KB ─────────────────── 4 MB ─────▶
//!                a1 b1    a2                       h1           h1 has 4 MB, the others 1 KB each
//! ```

use std::collections::BTreeMap;
use std::task::{Poll, Waker};
use std::time::Duration;

use slab::Slab;

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// Every commit costs at least this many bytes.
const COMMIT_BYTES_MIN: u64 = 128;
/// A commit that has no more bytes is small.
pub const SMALL_UNIT_BYTES: u64 = 64 << 10;
/// What a pause saves up at most, so that a quiet moment does not become a burst.
const SAVED_UP_MAX: Duration = Duration::from_millis(100);
/// Connections that are remembered before those that nobody need remember are forgotten.
const REMEMBERED_MIN: usize = 64;

/// What the gate lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Open,
    Paced {
        bytes_per_second: u64,
    },
    /// Commits while fewer than `room` bytes have passed that are not `taken` from behind the gate, small
    /// ones up to another bound, and all of them within a budget.
    Window {
        taken: u64,
        room: u64,
        room_for_small: u64,
        budget: Option<GateBudget>,
    },
    Closed,
}

/// Bytes that are paid for before a commit passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateBudget {
    /// What is there for the next ones.
    pub bytes: u64,
    /// A larger commit passes for so many.
    pub enough: u64,
}

/// When it is a waiting commit's turn; the number makes it its own.
type GateKey = (u64, u64);

struct GateWaiter {
    cost: u64,
    connection: u64,
    turn: GateKey,
    admitted: bool,
    waker: Waker,
}

/// What a connection has brought.
#[derive(Default)]
struct Brought {
    /// The turn of its last commit.
    next: u64,
    waiting_bytes: u64,
}

struct GateState {
    admission: Admission,
    /// Bytes that may pass while paced; one commit may overdraw it.
    tokens: i64,
    /// Bytes that have passed since there is a window.
    passed: u64,
    waiters: Slab<GateWaiter>,
    /// Waiters not admitted yet.
    queue: BTreeMap<GateKey, usize>,
    /// Where the bytes of who was admitted last begin.
    turn: u64,
    arrivals: u64,
    connections: BTreeMap<u64, Brought>,
    remembered_max: usize,
}

/// Lets commits through, or keeps their wakers.
pub(crate) struct Gate {
    /// Whether the admission is `Open`: for passing without the lock. Written under the lock.
    open: AtomicBool,
    state: Mutex<GateState>,
    /// Commits that had to wait here.
    held: AtomicU64,
}

/// What a commit of so many bytes counts.
pub(crate) fn cost(bytes: usize) -> u64 {
    (bytes as u64).max(COMMIT_BYTES_MIN)
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            open: AtomicBool::new(true),
            state: Mutex::new(GateState {
                admission: Admission::Open,
                tokens: 0,
                passed: 0,
                waiters: Slab::new(),
                queue: BTreeMap::new(),
                turn: 0,
                arrivals: 0,
                connections: BTreeMap::new(),
                remembered_max: REMEMBERED_MIN,
            }),
            held: AtomicU64::new(0),
        }
    }

    /// Passes a commit of `bytes` bytes, of this connection, or keeps its waker.
    pub(crate) fn poll_admit(
        &self,
        bytes: usize,
        connection: u64,
        ticket: &mut Option<usize>,
        waker: &Waker,
    ) -> Poll<()> {
        let Some(known) = *ticket else {
            if self.is_open() {
                return Poll::Ready(());
            }
            return self.arrive(cost(bytes), connection, ticket, waker);
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

    fn arrive(&self, cost: u64, connection: u64, ticket: &mut Option<usize>, waker: &Waker) -> Poll<()> {
        let mut state = self.state.lock();
        if state.admission == Admission::Open {
            return Poll::Ready(());
        }
        let turn = state.turn_of(connection, cost);
        let is_next = state.queue.first_key_value().is_none_or(|(first, _)| turn < *first);
        if is_next && state.pass(cost) {
            state.turn = state.turn.max(turn.0 - cost);
            return Poll::Ready(());
        }
        state.connections.entry(connection).or_default().waiting_bytes += cost;
        let waiter = GateWaiter { cost, connection, turn, admitted: false, waker: waker.clone() };
        let waiter = state.waiters.insert(waiter);
        state.queue.insert(turn, waiter);
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
            state.queue.remove(&waiter.turn);
            let brought = state.connections.entry(waiter.connection).or_default();
            brought.waiting_bytes -= waiter.cost;
            brought.next = brought.next.saturating_sub(waiter.cost);
        }
    }

    /// Sets what passes from now on; `elapsed` is the time since the last call, for the refill.
    pub(crate) fn set(&self, admission: Admission, elapsed: Duration) {
        let mut state = self.state.lock();
        match (admission, state.admission) {
            (Admission::Paced { bytes_per_second }, _) => state.refill(bytes_per_second, elapsed),
            // What was enqueued while the gate was open, or passes it by, is taken as well.
            (Admission::Window { taken, .. }, Admission::Window { .. }) => {
                state.passed = state.passed.max(taken);
            }
            (Admission::Window { taken, .. }, _) => state.passed = taken,
            _ => {}
        }
        state.admission = admission;
        self.open.store(admission == Admission::Open, Ordering::Release);
        let wakers = state.admit();
        state.forget();
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
            Admission::Paced { .. } | Admission::Window { .. } => "paced",
            Admission::Closed => "closed",
        }
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Connections whose commits wait, and the bytes of these.
    pub(crate) fn waiting_bytes(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let waiting = state.connections.iter().filter(|(_, brought)| brought.waiting_bytes > 0);
        waiting.map(|(connection, brought)| (*connection, brought.waiting_bytes)).collect()
    }
}

impl GateState {
    /// When it is the turn of a connection's next commit: behind all that brings less.
    fn turn_of(&mut self, connection: u64, cost: u64) -> GateKey {
        self.arrivals += 1;
        let brought = self.connections.entry(connection).or_default();
        brought.next = brought.next.max(self.turn) + cost;
        (brought.next, self.arrivals)
    }

    /// Takes a commit's cost from what may pass, if that is enough.
    fn pass(&mut self, cost: u64) -> bool {
        match self.admission {
            Admission::Open => true,
            Admission::Closed => false,
            Admission::Paced { .. } => {
                let passes = self.tokens > 0;
                if passes {
                    self.tokens = self.tokens.saturating_sub_unsigned(cost);
                }
                passes
            }
            Admission::Window { taken, room, room_for_small, budget } => {
                let enqueued = self.passed.saturating_sub(taken);
                let is_small = cost <= SMALL_UNIT_BYTES && enqueued + cost <= room_for_small;
                let is_paid = |of: GateBudget| enqueued + cost.min(of.enough) <= of.bytes;
                let passes = (enqueued < room || is_small) && budget.is_none_or(is_paid);
                if passes {
                    self.passed += cost;
                }
                passes
            }
        }
    }

    fn give_back(&mut self, cost: u64) {
        match self.admission {
            Admission::Paced { .. } => self.tokens = self.tokens.saturating_add_unsigned(cost),
            Admission::Window { .. } => self.passed = self.passed.saturating_sub(cost),
            Admission::Open | Admission::Closed => {}
        }
    }

    /// Admits waiters, each in its turn, as far as they may pass; returns whom to wake.
    fn admit(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some((&turn, &next)) = self.queue.first_key_value() {
            let cost = self.waiters.get(next).expect("what is in the queue waits").cost;
            if !self.pass(cost) {
                break;
            }
            self.queue.remove(&turn);
            self.turn = self.turn.max(turn.0 - cost);
            let waiter = self.waiters.get_mut(next).expect("as above");
            assert!(!waiter.admitted, "a commit passes the gate twice");
            waiter.admitted = true;
            wakers.push(waiter.waker.clone());
            let brought = self.connections.entry(waiter.connection).or_default();
            brought.waiting_bytes -= waiter.cost;
        }
        wakers
    }

    /// Forgets the connections whose turn has come all the same.
    fn forget(&mut self) {
        if self.admission != Admission::Open && self.connections.len() <= self.remembered_max {
            return;
        }
        let turn = self.turn;
        let is_open = self.admission == Admission::Open;
        self.connections.retain(|_, brought| brought.waiting_bytes > 0 || (!is_open && brought.next > turn));
        self.remembered_max = REMEMBERED_MIN.max(2 * self.connections.len());
    }

    fn refill(&mut self, bytes_per_second: u64, elapsed: Duration) {
        let full = |time: Duration| (bytes_per_second as f64 * time.as_secs_f64()) as i64;
        let (refill, ceiling) = (full(elapsed.min(SAVED_UP_MAX)), full(SAVED_UP_MAX));
        self.tokens += refill.min(ceiling.saturating_sub(self.tokens)).max(0);
    }
}
