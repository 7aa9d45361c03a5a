//! Ending an operation from outside: `killOp`, time limits, a client that left, shutdown.

use crate::error::{CommandError, CommandResult, code};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// The reasons an operation is ended for, in the form of an error code. Zero: it goes on.
const RUNNING: i32 = 0;

/// The interrupt switch of one connection's running operation. Executors call [`Interrupt::check`] at the end of each time slice;
/// whoever waits registers a waker and is woken by a kill.
#[derive(Debug)]
pub struct Interrupt {
    /// The error code to end with, or [`RUNNING`].
    reason: AtomicI32,
    /// Microseconds after `epoch` at which the time limit passes; `u64::MAX` when there is none.
    deadline_us: AtomicU64,
    epoch: Instant,
    /// Who waits and wants to hear of a kill. Innermost in the lock order: nothing is locked while it is held.
    waiters: Mutex<Vec<Waker>>,
}

impl Default for Interrupt {
    fn default() -> Self {
        Interrupt {
            reason: AtomicI32::new(RUNNING),
            deadline_us: AtomicU64::new(u64::MAX),
            epoch: Instant::now(),
            waiters: Mutex::new(Vec::new()),
        }
    }
}

impl Interrupt {
    /// A new operation begins on this connection: no kill, no time limit.
    pub(crate) fn reset(&self) {
        self.reason.store(RUNNING, Ordering::Relaxed);
        self.deadline_us.store(u64::MAX, Ordering::Relaxed);
    }

    /// Sets the time limit (`maxTimeMS`).
    pub fn set_deadline(&self, deadline: Instant) {
        let after = deadline.saturating_duration_since(self.epoch).as_micros();
        self.deadline_us.store(u64::try_from(after).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When the time limit passes.
    pub fn deadline(&self) -> Option<Instant> {
        match self.deadline_us.load(Ordering::Relaxed) {
            u64::MAX => None,
            after => self.epoch.checked_add(Duration::from_micros(after)),
        }
    }

    /// Ends the operation with this error code at its next check.
    pub fn kill(&self, code: i32) {
        let _ = self.reason.compare_exchange(RUNNING, code, Ordering::Relaxed, Ordering::Relaxed);
        for waiter in std::mem::take(&mut *self.waiters.lock()) {
            waiter.wake();
        }
    }

    /// Whether somebody asked for the end.
    pub fn is_killed(&self) -> bool {
        self.reason.load(Ordering::Relaxed) != RUNNING
    }

    /// Wakes `waker` at the next kill.
    pub fn register(&self, waker: &Waker) {
        let mut waiters = self.waiters.lock();
        if !waiters.iter().any(|known| known.will_wake(waker)) {
            waiters.push(waker.clone());
        }
    }

    /// To be called between slices of work.
    ///
    /// # Errors
    /// `Interrupted`, `MaxTimeMSExpired`, `InterruptedAtShutdown`, … when the operation must end.
    #[inline]
    pub fn check(&self) -> CommandResult {
        match self.reason.load(Ordering::Relaxed) {
            RUNNING => {}
            reason => return Err(interrupted(reason)),
        }
        let deadline = self.deadline_us.load(Ordering::Relaxed);
        if deadline != u64::MAX && self.epoch.elapsed().as_micros() as u64 >= deadline {
            return Err(interrupted(code::MAX_TIME_EXPIRED));
        }
        Ok(())
    }
}

fn interrupted(reason: i32) -> CommandError {
    let message = match reason {
        code::MAX_TIME_EXPIRED => "operation exceeded time limit",
        code::INTERRUPTED_AT_SHUTDOWN => "interrupted at shutdown",
        code::CURSOR_KILLED => "cursor was killed while it was in use",
        _ => "operation was interrupted",
    };
    CommandError::new(reason, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prepare: impl FnOnce(&Interrupt), expect: Option<i32>) {
        let interrupt = Interrupt::default();
        prepare(&interrupt);
        assert_eq!(interrupt.check().err().map(|error| error.code), expect);
        interrupt.reset();
        assert!(interrupt.check().is_ok(), "the next operation starts afresh");
    }

    #[test]
    fn ends_for_the_first_reason() {
        check(|_| {}, None);
        check(|interrupt| interrupt.kill(code::INTERRUPTED), Some(11601));
        check(|interrupt| interrupt.set_deadline(Instant::now()), Some(50));
        check(|interrupt| interrupt.set_deadline(Instant::now() + Duration::from_secs(60)), None);
        let twice = |interrupt: &Interrupt| {
            interrupt.kill(code::INTERRUPTED_AT_SHUTDOWN);
            interrupt.kill(code::INTERRUPTED);
        };
        check(twice, Some(11600));
    }
}
