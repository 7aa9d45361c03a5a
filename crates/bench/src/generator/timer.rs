//! An alarm finer than epoll's milliseconds.

use crate::error::BenchError;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::os::fd::{AsRawFd, OwnedFd};

const NANOSECONDS: u64 = 1_000_000_000;

/// A timer descriptor in an epoll instance.
#[derive(Debug)]
pub(crate) struct Timer {
    descriptor: OwnedFd,
    set_for: Option<u64>,
}

impl Timer {
    pub(crate) fn register(registry: &Registry, token: Token) -> Result<Self, BenchError> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|error| BenchError::io("create a timer")(error.into()))?;
        registry
            .register(&mut SourceFd(&descriptor.as_raw_fd()), token, Interest::READABLE)
            .map_err(BenchError::io("register a timer"))?;
        Ok(Timer { descriptor, set_for: None })
    }

    /// Sets the alarm for `at`, both in nanoseconds since any origin. Setting it again also ends the last
    /// alarm, so that the descriptor is never read.
    pub(crate) fn set(&mut self, at: u64, now: u64) -> Result<(), BenchError> {
        if self.set_for == Some(at) && at > now {
            return Ok(());
        }
        self.set_for = Some(at);
        // Zero would switch the timer off.
        let wait = at.saturating_sub(now).max(1);
        let value = Timespec { tv_sec: (wait / NANOSECONDS) as i64, tv_nsec: (wait % NANOSECONDS) as i64 };
        let alarm = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        rustix::time::timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &alarm)
            .map(drop)
            .map_err(|error| BenchError::io("set a timer")(error.into()))
    }
}
