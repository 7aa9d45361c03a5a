//! Groups of connections: what they send, and how their replies are counted.

use crate::error::BenchError;
use crate::generator::outcome::Outcome;
use crate::generator::random::Random;
use crate::generator::reply::failure;
use crate::generator::schedule::Schedule;
use crate::template::Template;
use std::collections::VecDeque;
use std::time::Duration;

/// One kind of request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The message.
    pub(crate) template: Template,
    /// Ids are chosen from `0..ids`.
    pub(crate) ids: i32,
    /// A good reply has at least this many bytes.
    pub(crate) least_reply_bytes: usize,
}

/// When a connection sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pacing {
    /// The next request when the reply to the last one is there.
    Closed,
    /// One request, then silence on an open connection.
    Once,
    /// Requests of the whole group at this rate a second, on whichever connections are idle.
    Rate(f64),
    /// As `Closed`, with a connection of its own for each request; the latency includes connecting.
    Reconnect,
}

/// A group of connections that do the same.
#[derive(Debug, Clone)]
pub(crate) struct GroupSpec {
    pub(crate) connections: usize,
    /// Each request is one of these, chosen at random.
    pub(crate) requests: Vec<Request>,
    pub(crate) pacing: Pacing,
}

/// How long a run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Load before measuring begins.
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// Ends the run after this many requests in all, even if the duration has not passed.
    pub(crate) requests: Option<u64>,
}

impl Window {
    pub(crate) const fn lasting(warm_up: Duration, duration: Duration) -> Self {
        Window { warm_up, duration, requests: None }
    }
}

/// The window in nanoseconds of the generator's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) measuring_from: u64,
    pub(crate) sending_until: u64,
}

/// A group while it runs.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) requests: Vec<Request>,
    pub(crate) pacing: Pacing,
    pub(crate) schedule: Option<Schedule>,
    /// Connections of an open loop that wait for something to send, the longest waiting first.
    pub(crate) idle: VecDeque<usize>,
    /// Connections that are not dead.
    pub(crate) alive: usize,
    pub(crate) random: Random,
    pub(crate) outcome: Outcome,
}

impl Group {
    pub(crate) fn new(spec: &GroupSpec, seed: u64) -> Result<Self, BenchError> {
        Ok(Group {
            requests: spec.requests.clone(),
            pacing: spec.pacing,
            schedule: None,
            idle: VecDeque::new(),
            alive: 0,
            random: Random::new(seed),
            outcome: Outcome::new()?,
        })
    }

    /// Prepares for a run; errors of connecting stay in the outcome.
    pub(crate) fn begin(&mut self, begun: u64, span: Span) {
        self.outcome.elapsed = Duration::from_nanos(span.sending_until - span.measuring_from);
        self.outcome.connected = self.alive;
        self.schedule = match self.pacing {
            Pacing::Rate(rate) => Some(Schedule::new(rate, begun, span.sending_until)),
            Pacing::Closed | Pacing::Once | Pacing::Reconnect => None,
        };
    }

    /// The next message to send and the least size of its reply.
    #[inline]
    pub(crate) fn next_message(&mut self) -> (&[u8], usize) {
        let choice = match self.requests.len() {
            0 | 1 => 0,
            several => self.random.below(several as i32) as usize,
        };
        let Some(request) = self.requests.get_mut(choice) else { return (&[], 0) };
        let id = self.random.below(request.ids);
        let number = self.random.below(i32::MAX);
        (request.template.patched(id, number), request.least_reply_bytes)
    }

    /// Counts a whole reply that came at `now` to a request that started at `started`.
    #[inline]
    pub(crate) fn count_reply(
        &mut self,
        reply: &[u8],
        least_bytes: usize,
        started: u64,
        now: u64,
        span: Span,
    ) {
        // An open loop knows which requests belong to the window; in a closed one the reply's time decides.
        let counts = match self.pacing {
            Pacing::Rate(_) => started,
            Pacing::Closed | Pacing::Once | Pacing::Reconnect => now,
        } >= span.measuring_from;
        if !counts {
            return;
        }
        match failure(reply, least_bytes) {
            None => {
                self.outcome.reply_bytes = reply.len();
                self.outcome.record(now.saturating_sub(started));
                self.outcome.replies += u64::from(now < span.sending_until);
            }
            Some(what) => self.outcome.count_error(&what, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::encode;
    use document::doc;

    const SPAN: Span = Span { measuring_from: 1_000_000, sending_until: 3_000_000 };

    fn group(pacing: Pacing) -> Group {
        let request = Request { template: Template::new(&doc! { "ping": 1 }), ids: 1, least_reply_bytes: 0 };
        Group::new(&GroupSpec { connections: 1, requests: vec![request], pacing }, 1).expect("a group")
    }

    /// Replies in the rate, latencies recorded, and the longest in microseconds.
    fn check(pacing: Pacing, started: u64, now: u64, expect: (u64, u64, u64)) {
        let mut group = group(pacing);
        group.count_reply(&encode(&doc! { "ok": 1.0 }), 0, started, now, SPAN);
        let outcome = &group.outcome;
        let found = (outcome.replies, outcome.latency_us.len(), outcome.latency_us.max());
        assert_eq!(found, expect, "{pacing:?} started {started}, answered {now}");
    }

    #[test]
    fn closed_loops_count_what_is_answered_in_the_window_and_wait_for_the_rest() {
        check(Pacing::Closed, 100_000, 900_000, (0, 0, 0));
        check(Pacing::Closed, 900_000, 1_000_000, (1, 1, 100));
        check(Pacing::Closed, 2_900_000, 3_900_000, (0, 1, 1_000));
    }

    #[test]
    fn open_loops_count_what_was_to_start_in_the_window() {
        check(Pacing::Rate(1.0), 999_000, 2_000_000, (0, 0, 0));
        check(Pacing::Rate(1.0), 1_000_000, 2_000_000, (1, 1, 1_000));
    }

    #[test]
    fn failures_are_counted_by_name_and_not_timed() {
        let mut group = group(Pacing::Closed);
        let reply = encode(&doc! { "ok": 0.0, "codeName": "Overloaded" });
        group.count_reply(&reply, 0, 0, 500, SPAN);
        assert_eq!(group.outcome.error_count(), 0, "the warm-up is not measured");
        group.count_reply(&reply, 0, 0, 2_000_000, SPAN);
        assert_eq!(group.outcome.errors.get("Overloaded"), Some(&1));
        assert_eq!(group.outcome.latency_us.len(), 0);
    }
}
