//! Ending an operation from outside: `killOp`, time limits, a client that left, shutdown.

use crate::error::{CommandError, CommandResult, code};
use crate::host::{ClientLink, Detached};
use crate::timers::{Sleep, Timers};
use parking_lot::Mutex;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The reasons an operation is ended for, in the form of an error code. Zero: it goes on.
const RUNNING: i32 = 0;

/// The interrupt switch of one connection's running operation. Executors call [`Interrupt::check`] at the end
/// of each time slice; whoever waits does so with [`Interrupt::wait_for`], or below dispatch with
/// [`query::checkpoint::wait`], and is woken by a kill and at the time limit.
#[derive(Debug)]
pub struct Interrupt {
    /// The error code to end with, or [`RUNNING`].
    reason: AtomicI32,
    /// Microseconds after `epoch` at which the time limit passes; `u64::MAX` when there is none.
    deadline_us: AtomicU64,
    /// Microseconds after `epoch` at which to look next whether the client is still there.
    next_look_us: AtomicU64,
    epoch: Instant,
    link: Arc<dyn ClientLink>,
    /// What wakes who waits at the time limit; there since the first one.
    timers: OnceLock<Timers>,
    /// Who waits and wants to hear of a kill. Innermost in the lock order: nothing is locked while it is
    /// held.
    waiters: Mutex<Vec<Waker>>,
}

impl Default for Interrupt {
    fn default() -> Self {
        Interrupt::new(Arc::new(Detached))
    }
}

/// How often a long operation looks whether its client is still there, in microseconds: a system call each
/// time.
const LOOK_EVERY_US: u64 = 200_000;

impl Interrupt {
    /// The switch of a connection whose client is at the other end of `link`.
    pub(crate) fn new(link: Arc<dyn ClientLink>) -> Self {
        Interrupt {
            reason: AtomicI32::new(RUNNING),
            deadline_us: AtomicU64::new(u64::MAX),
            next_look_us: AtomicU64::new(LOOK_EVERY_US),
            epoch: ambient::now(),
            link,
            timers: OnceLock::new(),
            waiters: Mutex::new(Vec::new()),
        }
    }

    /// A new operation begins on this connection: no kill, no time limit.
    pub(crate) fn reset(&self) {
        self.reason.store(RUNNING, Ordering::Relaxed);
        self.deadline_us.store(u64::MAX, Ordering::Relaxed);
    }

    /// Sets the time limit (`maxTimeMS`), which these timers tell.
    pub(crate) fn set_deadline(&self, deadline: Instant, timers: &Timers) {
        self.timers.get_or_init(|| timers.clone());
        let after = deadline.saturating_duration_since(self.epoch).as_micros();
        self.deadline_us.store(u64::try_from(after).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Takes the time limit away.
    pub(crate) fn clear_deadline(&self) {
        self.deadline_us.store(u64::MAX, Ordering::Relaxed);
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

    /// Waits for `awaited`, or until the operation is to end.
    ///
    /// # Errors
    /// As [`Interrupt::check`].
    pub async fn wait_for<F: Future>(&self, awaited: F) -> CommandResult<F::Output> {
        let (mut awaited, mut end) = (pin!(awaited), None);
        poll_fn(|task| match awaited.as_mut().poll(task) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => end.get_or_insert_with(|| End::of(self)).poll(task).map(Err),
        })
        .await
    }

    /// Resolves with the reason when the operation is to end.
    pub(crate) async fn ended(&self) -> CommandError {
        let mut end = End::of(self);
        poll_fn(|task| end.poll(task)).await
    }

    /// Wakes `waker` at the next kill.
    fn register(&self, waker: &Waker) {
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
        let now_us = ambient::elapsed(self.epoch).as_micros() as u64;
        if now_us >= self.deadline_us.load(Ordering::Relaxed) {
            return Err(interrupted(code::MAX_TIME_EXPIRED));
        }
        if now_us >= self.next_look_us.load(Ordering::Relaxed) {
            self.next_look_us.store(now_us + LOOK_EVERY_US, Ordering::Relaxed);
            if self.link.is_gone() {
                return Err(interrupted(wire::ErrorCode::ClientDisconnect as i32));
            }
        }
        Ok(())
    }
}

/// The end of an operation that waits. Afterwards the switch holds nobody: a waker holds its connection,
/// which holds the switch.
struct End<'i> {
    interrupt: &'i Interrupt,
    limit: Option<Sleep>,
}

impl<'i> End<'i> {
    const fn of(interrupt: &'i Interrupt) -> Self {
        End { interrupt, limit: None }
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<CommandError> {
        self.interrupt.register(task.waker());
        if let Err(error) = self.interrupt.check() {
            return Poll::Ready(error);
        }
        if self.limit.is_none() {
            let Some(deadline) = self.interrupt.deadline() else { return Poll::Pending };
            let timers = self.interrupt.timers.get().expect("a time limit comes with timers");
            self.limit = Some(timers.sleep_until(deadline));
        }
        let Some(Poll::Ready(())) = self.limit.as_mut().map(|limit| Pin::new(limit).poll(task)) else {
            return Poll::Pending;
        };
        // Timers that were stopped are over before the time limit is.
        let stopped = || interrupted(code::INTERRUPTED_AT_SHUTDOWN);
        Poll::Ready(self.interrupt.check().err().unwrap_or_else(stopped))
    }
}

/// A connection runs one operation at a time, and that waits for one thing.
impl Drop for End<'_> {
    fn drop(&mut self) {
        let waiters = std::mem::take(&mut *self.interrupt.waiters.lock());
        // Not under the lock.
        drop(waiters);
    }
}

fn interrupted(reason: i32) -> CommandError {
    let message = match reason {
        code::MAX_TIME_EXPIRED => "operation exceeded time limit",
        code::INTERRUPTED_AT_SHUTDOWN => "interrupted at shutdown",
        gone if gone == wire::ErrorCode::ClientDisconnect as i32 => "the client has closed its connection",
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
        let limit = |interrupt: &Interrupt, after: u64| {
            let timers = Timers::without_thread();
            interrupt.set_deadline(ambient::now() + Duration::from_secs(after), &timers);
        };
        check(|interrupt| limit(interrupt, 0), Some(50));
        check(|interrupt| limit(interrupt, 60), None);
        let twice = |interrupt: &Interrupt| {
            interrupt.kill(code::INTERRUPTED_AT_SHUTDOWN);
            interrupt.kill(code::INTERRUPTED);
        };
        check(twice, Some(11600));
    }

    #[test]
    fn holds_nobody_after_a_wait() {
        struct Counted;
        impl std::task::Wake for Counted {
            fn wake(self: Arc<Self>) {}
        }
        let counted = Arc::new(Counted);
        let waker = Waker::from(Arc::clone(&counted));
        let interrupt = Interrupt::default();
        let wait = |ready: bool| {
            let awaited = poll_fn(|_| if ready { Poll::Ready(()) } else { Poll::Pending });
            let waits = pin!(interrupt.wait_for(awaited));
            waits.poll(&mut std::task::Context::from_waker(&waker)).is_ready()
        };
        assert!(wait(true), "what was awaited is there");
        assert!(!wait(false), "dropped while it waits");
        interrupt.kill(code::INTERRUPTED);
        assert!(wait(false), "an operation that is to end waits for nothing");
        assert_eq!(Arc::strong_count(&counted), 2, "the switch holds the task that waited");
    }

    #[test]
    fn ends_when_the_client_has_left() {
        #[derive(Debug)]
        struct Gone;
        impl ClientLink for Gone {
            fn close(&self) {}
            fn is_gone(&self) -> bool {
                true
            }
        }
        let interrupt = Interrupt::new(Arc::new(Gone));
        assert!(interrupt.check().is_ok(), "a short operation does not look");
        interrupt.next_look_us.store(0, Ordering::Relaxed);
        assert_eq!(interrupt.check().expect_err("the client is gone").code, 279);
    }
}
