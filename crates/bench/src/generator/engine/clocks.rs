//! What happens because its time has come.

use super::dial::PATIENCE;
use super::{Generator, SECOND, pair};
use crate::error::BenchError;
use crate::generator::clock::monotonic;
use crate::generator::connection::Phase;
use crate::generator::traffic::{Failure, FailureKind};
use std::cmp::Reverse;

/// How often connections are looked through for those that have waited too long.
const SWEEP_EVERY: u64 = SECOND / 4;
/// Connections that are woken or sent on before events are looked at again: replies must not wait for a storm
/// to end.
const AT_ONCE: usize = 64;

impl Generator {
    /// Lets a connection go on at `due`.
    pub(super) fn wake_at(&mut self, index: usize, phase: Phase, due: u64) {
        let connection = &mut self.connections[index];
        connection.phase = phase;
        connection.started = due;
        self.waking.push(Reverse((due, index as u32)));
    }

    /// Seconds that have ended, open loops whose intended starts have come, connections that go on,
    /// time-outs, and the alarm for the next of them. The clock is not looked at again where nothing is due.
    pub(super) fn look_after_clocks(&mut self, now: u64) -> Result<(), BenchError> {
        while self.next_second <= now && self.next_second <= self.span.sending_until {
            self.end_second();
        }
        let mut alarm = None;
        for number in 0..self.groups.len() {
            alarm = earlier(alarm, self.send_due(number));
        }
        alarm = earlier(alarm, self.wake_due());
        self.sweep(now);
        self.publish();
        match alarm {
            Some(at) => {
                let now = self.now();
                self.timer.set(at, now)
            }
            None => Ok(()),
        }
    }

    /// Connections that have thought or rested; when the next one has.
    fn wake_due(&mut self) -> Option<u64> {
        for _ in 0..AT_ONCE {
            let &Reverse((due, index)) = self.waking.peek()?;
            let now = self.now();
            if due > now {
                return Some(due);
            }
            self.waking.pop();
            self.wake(index as usize, due, now);
        }
        self.waking.peek().map(|&Reverse((due, _))| due)
    }

    fn wake(&mut self, index: usize, due: u64, now: u64) {
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        // It may have been lost meanwhile, and wait for another time.
        if connection.started != due {
            return;
        }
        let over = now >= self.span.sending_until || self.allowance == 0;
        match connection.phase {
            Phase::Thinking => {
                connection.phase = Phase::Idle;
                self.start_closed(index, now);
            }
            Phase::Resting => {
                connection.phase = Phase::Unmade;
                if group.is_short() {
                    self.set_off(index, now, false);
                } else if !over {
                    self.dial(index, now);
                }
            }
            _ => {}
        }
    }

    /// Sends what is due in an open loop; the next intended start when a connection is free for it.
    fn send_due(&mut self, number: usize) -> Option<u64> {
        for _ in 0..AT_ONCE {
            let group = &mut self.groups[number];
            let schedule = group.schedule.as_mut()?;
            let &index = group.idle.front()?;
            let short = group.options.operations_per_connection.is_some();
            let is_free = |phase| phase == Phase::Idle || (short && phase == Phase::Unmade);
            if !is_free(self.connections[index as usize].phase) {
                group.idle.pop_front();
                continue;
            }
            if self.allowance == 0 {
                return None;
            }
            let now = monotonic().saturating_sub(self.origin);
            let Some(started) = schedule.take_due(now) else { return schedule.next() };
            group.idle.pop_front();
            self.allowance -= 1;
            self.start(index as usize, started, now);
        }
        self.groups[number].schedule.as_ref()?.next()
    }

    /// Loses connections that have waited too long, looked through now and then.
    pub(super) fn sweep(&mut self, now: u64) {
        if now < self.next_sweep || self.in_flight == 0 {
            return;
        }
        self.next_sweep = now + SWEEP_EVERY;
        for index in 0..self.connections.len() {
            let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
            if !connection.is_busy() {
                continue;
            }
            let patience = match connection.phase {
                Phase::Waiting => group.options.timeout,
                _ => Some(group.options.timeout.unwrap_or(PATIENCE)),
            };
            let waited = now.saturating_sub(connection.since);
            if patience.is_some_and(|patience| u128::from(waited) >= patience.as_nanos()) {
                let kind = match connection.phase {
                    Phase::Waiting => FailureKind::Timeout,
                    _ => FailureKind::Connect,
                };
                self.lose(index, Failure::new(kind, "no answer in time"));
            }
        }
    }
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
