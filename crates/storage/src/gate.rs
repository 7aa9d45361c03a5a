//! The gate: where commits wait while flush and compaction catch up.
//!
//! RocksDB answers too many memtables, too many level-0 files or too much compaction debt by slowing
//! writers inside its write call and then by stopping them, sometimes for minutes. The governor thread
//! looks at the same figures every few milliseconds and acts earlier and more smoothly:
//!
//! ```text
//!  debt:      0 ─────────── paced ─────────────────── closed ───── engine's own limits (never reached)
//!  commits:   pass          pass at a falling rate    wait
//! ```

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;

use crate::engine::Pressure;

/// Below `paced` a figure does not matter; from there to `closed` commits are slowed; beyond they wait.
#[derive(Clone, Copy, Debug)]
pub struct Band {
    /// The first value at which commits are slowed.
    pub paced: u64,
    /// The first value at which they wait.
    pub closed: u64,
}

/// The gate's thresholds, all well below the engine's own.
#[derive(Clone, Copy, Debug)]
pub struct GateLimits {
    /// Full memtables of one keyspace waiting for their flush.
    pub immutable_memtables: Band,
    /// Table files on level 0 of one keyspace.
    pub level0_files: Band,
    /// Bytes of one keyspace that compaction should have rewritten already.
    pub pending_compaction_bytes: Band,
    /// What passes in bytes per second when pacing begins.
    pub pace_fastest: u64,
    /// What passes in bytes per second just before the gate closes.
    pub pace_slowest: u64,
}

impl Default for GateLimits {
    fn default() -> GateLimits {
        GateLimits {
            immutable_memtables: Band { paced: 3, closed: 6 },
            level0_files: Band { paced: 14, closed: 32 },
            pending_compaction_bytes: Band { paced: 16 << 30, closed: 64 << 30 },
            pace_fastest: 128 << 20,
            pace_slowest: 1 << 20,
        }
    }
}

/// What the gate lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Open,
    Paced { bytes_per_second: u64 },
    Closed,
}

impl Band {
    /// 0 at `paced`, 1 at `closed`.
    fn severity(self, value: u64) -> f64 {
        if value < self.paced {
            return 0.0;
        }
        // One step above zero: reaching `paced` already counts.
        (value - self.paced + 1) as f64 / (self.closed - self.paced + 1) as f64
    }
}

/// Decides from the engine's debt.
pub(crate) fn assess(pressure: &Pressure, limits: &GateLimits) -> Admission {
    let severity = limits
        .immutable_memtables
        .severity(pressure.immutable_memtables)
        .max(limits.level0_files.severity(pressure.level0_files))
        .max(limits.pending_compaction_bytes.severity(pressure.pending_compaction_bytes));
    if pressure.engine_stalled || severity >= 1.0 {
        return Admission::Closed;
    }
    if severity <= 0.0 {
        return Admission::Open;
    }
    // Geometric between the two rates: each further step of debt takes away the same share.
    let (fastest, slowest) = (limits.pace_fastest as f64, limits.pace_slowest as f64);
    Admission::Paced { bytes_per_second: (fastest * (slowest / fastest).powf(severity)) as u64 }
}

const OPEN: u8 = 0;
const PACED: u8 = 1;
const CLOSED: u8 = 2;
/// Every commit costs at least this many bytes of a paced second.
const COMMIT_BYTES_MIN: i64 = 128;

/// Lets commits through, or keeps their wakers.
pub(crate) struct Gate {
    mode: AtomicU8,
    /// Bytes that may pass in mode `PACED`; a commit may overdraw it once.
    tokens: AtomicI64,
    /// Commits waiting; woken together, each tries again.
    waiters: Mutex<Slab<Waker>>,
    /// Commits that had to wait here.
    held: AtomicU64,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            mode: AtomicU8::new(OPEN),
            tokens: AtomicI64::new(0),
            waiters: Mutex::default(),
            held: AtomicU64::new(0),
        }
    }

    /// Passes a commit of `bytes` bytes or keeps its waker.
    pub(crate) fn poll_admit(&self, bytes: usize, ticket: &mut Option<usize>, waker: &Waker) -> Poll<()> {
        if ticket.is_none() && self.try_pass(bytes) {
            return Poll::Ready(());
        }
        let mut waiters = self.waiters.lock();
        // Again under the lock: the governor changes the mode first and then takes the lock to wake.
        if self.try_pass(bytes) {
            if let Some(waiter) = ticket.take() {
                waiters.try_remove(waiter);
            }
            return Poll::Ready(());
        }
        match ticket.and_then(|waiter| waiters.get_mut(waiter)) {
            Some(known) => known.clone_from(waker),
            None => {
                *ticket = Some(waiters.insert(waker.clone()));
                self.held.fetch_add(1, Ordering::Relaxed);
            }
        }
        Poll::Pending
    }

    fn try_pass(&self, bytes: usize) -> bool {
        match self.mode.load(Ordering::Acquire) {
            OPEN => true,
            PACED => {
                let cost = i64::try_from(bytes).unwrap_or(i64::MAX / 4).max(COMMIT_BYTES_MIN);
                let before = self.tokens.fetch_sub(cost, Ordering::AcqRel);
                if before <= 0 {
                    self.tokens.fetch_add(cost, Ordering::AcqRel);
                }
                before > 0
            }
            _ => false,
        }
    }

    /// A waiting commit goes away.
    pub(crate) fn abandon(&self, ticket: &mut Option<usize>) {
        if let Some(waiter) = ticket.take() {
            self.waiters.lock().try_remove(waiter);
        }
    }

    /// Sets what passes from now on; `elapsed` is the time since the last call, for the refill.
    pub(crate) fn set(&self, admission: Admission, elapsed: Duration) {
        let mode = match admission {
            Admission::Open => OPEN,
            Admission::Closed => CLOSED,
            Admission::Paced { bytes_per_second } => {
                self.refill(bytes_per_second, elapsed);
                PACED
            }
        };
        self.mode.store(mode, Ordering::Release);
        if mode != CLOSED {
            self.wake_all();
        }
    }

    fn refill(&self, bytes_per_second: u64, elapsed: Duration) {
        // At most a tenth of a second is saved up, so that a quiet moment does not become a burst.
        let seconds = elapsed.min(Duration::from_millis(100)).as_secs_f64();
        let refill = (bytes_per_second as f64 * seconds) as i64;
        let ceiling = (bytes_per_second / 10) as i64;
        let tokens = self.tokens.load(Ordering::Acquire);
        let missing = refill.min(ceiling.saturating_sub(tokens)).max(0);
        self.tokens.fetch_add(missing, Ordering::AcqRel);
    }

    fn wake_all(&self) {
        let wakers: Vec<Waker> = self.waiters.lock().iter().map(|(_, waker)| waker.clone()).collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.mode.load(Ordering::Acquire) == OPEN
    }

    /// `open`, `paced` or `closed`.
    pub(crate) fn mode_name(&self) -> &'static str {
        match self.mode.load(Ordering::Acquire) {
            OPEN => "open",
            PACED => "paced",
            _ => "closed",
        }
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiters.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pressure: Pressure, expect: impl Fn(Admission) -> bool) {
        let admission = assess(&pressure, &GateLimits::default());
        assert!(expect(admission), "{pressure:?} led to {admission:?}");
    }

    #[test]
    fn debt_slows_and_then_closes() {
        check(Pressure::default(), |admission| admission == Admission::Open);
        check(Pressure { level0_files: 13, ..Pressure::default() }, |admission| admission == Admission::Open);
        let pace = |files| match assess(
            &Pressure { level0_files: files, ..Pressure::default() },
            &GateLimits::default(),
        ) {
            Admission::Paced { bytes_per_second } => bytes_per_second,
            other => panic!("{files} level-0 files led to {other:?}"),
        };
        assert!(pace(14) > 2 * pace(24) && pace(24) > 2 * pace(31), "more debt, less rate");
        check(Pressure { level0_files: 32, ..Pressure::default() }, |admission| {
            admission == Admission::Closed
        });
        check(Pressure { immutable_memtables: 6, ..Pressure::default() }, |admission| {
            admission == Admission::Closed
        });
        check(Pressure { engine_stalled: true, ..Pressure::default() }, |admission| {
            admission == Admission::Closed
        });
    }

    #[test]
    fn a_paced_gate_passes_what_was_refilled_and_wakes_the_rest() {
        let gate = Gate::new();
        let mut tickets = [None, None, None];
        gate.set(Admission::Paced { bytes_per_second: 10_000 }, Duration::from_millis(100));
        assert!(gate.poll_admit(900, &mut tickets[0], Waker::noop()).is_ready());
        assert!(gate.poll_admit(900, &mut tickets[1], Waker::noop()).is_ready(), "100 bytes were left");
        assert!(gate.poll_admit(900, &mut tickets[2], Waker::noop()).is_pending(), "overdrawn");
        assert_eq!((gate.waiting(), gate.held()), (1, 1));
        gate.set(Admission::Open, Duration::ZERO);
        assert!(gate.poll_admit(900, &mut tickets[2], Waker::noop()).is_ready());
        assert_eq!(gate.waiting(), 0);
    }

    #[test]
    fn an_abandoned_place_is_freed() {
        let gate = Gate::new();
        gate.set(Admission::Closed, Duration::ZERO);
        let mut ticket = None;
        assert!(gate.poll_admit(1, &mut ticket, Waker::noop()).is_pending());
        gate.abandon(&mut ticket);
        assert_eq!(gate.waiting(), 0);
    }
}
