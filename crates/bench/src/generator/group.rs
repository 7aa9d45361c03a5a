//! A group of connections while it runs: what it sends next, and how what becomes of it is counted.

use crate::error::BenchError;
use crate::generator::arrivals::Schedule;
use crate::generator::handshake::hello;
use crate::generator::outcome::{ConnectionCounts, Outcome};
use crate::generator::series::{Second, Tally};
use crate::generator::spec::{ConnectionOptions, GroupSpec, Pacing, Span};
use crate::generator::traffic::{Errors, Failure, Share, Ticket};
use crate::security::ServerAccess;
use crate::workload::WorkloadTraffic;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use wire::Compressor;

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) traffic: WorkloadTraffic,
    pub(crate) pacing: Pacing,
    pub(crate) options: ConnectionOptions,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) compressors: Vec<Compressor>,
    pub(crate) access: ServerAccess,
    /// The prepared `hello`, where connections begin with one.
    pub(crate) hello: Option<Vec<u8>>,
    pub(crate) share: Share,
    pub(crate) schedule: Option<Schedule>,
    /// Connections of an open loop that wait for something to send, the longest waiting first.
    pub(crate) idle: VecDeque<u32>,
    pub(crate) alive: usize,
    /// Connections that the server has accepted.
    pub(crate) open: u64,
    pub(crate) counts: ConnectionCounts,
    begun: u64,
    connected: usize,
    tallies: Vec<Tally>,
    connection_errors: Errors,
    open_by_second: Vec<u64>,
    reply_bytes: usize,
}

impl Group {
    pub(crate) fn new(spec: &GroupSpec, address: SocketAddr, share: Share) -> Result<Self, BenchError> {
        let traffic = spec.traffic.traffic(share);
        let compressors = spec.options.known_compressors();
        let access = spec.options.security.access()?;
        let addresses = match spec.options.addresses.as_slice() {
            [] => vec![address],
            several => several.to_vec(),
        };
        Ok(Group {
            tallies: tallies(&traffic)?,
            traffic,
            pacing: spec.pacing.clone(),
            hello: spec.options.greets().then(|| hello(&compressors, access.identity.as_ref())),
            access,
            options: spec.options.clone(),
            addresses,
            compressors,
            share,
            schedule: None,
            idle: VecDeque::new(),
            alive: 0,
            open: 0,
            counts: ConnectionCounts::default(),
            begun: 0,
            connected: 0,
            connection_errors: Errors::new(),
            open_by_second: Vec::new(),
            reply_bytes: 0,
        })
    }

    /// Prepares for a run; errors of connecting stay counted.
    pub(crate) fn begin(&mut self, begun: u64, span: Span) {
        self.begun = begun;
        self.connected = self.open as usize;
        self.idle.clear();
        self.schedule = match &self.pacing {
            // A thread without a connection has no part of the starts either.
            Pacing::Open(arrivals) if self.counts.asked > 0 => {
                Some(Schedule::new(arrivals, begun, span.sending_until, self.share.index, self.share.of))
            }
            Pacing::Open(_) | Pacing::Closed | Pacing::Once => None,
        };
    }

    #[inline]
    pub(crate) fn has_served(&self, operations: u32) -> bool {
        self.options.operations_per_connection.is_some_and(|most| operations >= most)
    }

    pub(crate) const fn is_short(&self) -> bool {
        self.options.operations_per_connection.is_some()
    }

    /// When a closed loop's next operation starts that could start at `now`.
    #[inline]
    pub(crate) fn next_start(&self, now: u64, after_another: bool) -> u64 {
        let think = if after_another { self.options.think.as_nanos() as u64 } else { 0 };
        match self.options.phases {
            None => now + think,
            Some(phases) => {
                let (on, off) = (phases.on.as_nanos() as u64, phases.off.as_nanos() as u64);
                let into = (now + think).saturating_sub(self.begun) % (on + off).max(1);
                now + think + if into < on { 0 } else { on + off - into }
            }
        }
    }

    /// Whether something that started and ended at these times belongs to the window. An open loop knows
    /// which operations do; in a closed one the end decides.
    #[inline]
    pub(crate) fn counts(&self, started: u64, ended: u64, span: Span) -> bool {
        let decisive = match self.pacing {
            Pacing::Open(_) => started,
            Pacing::Closed | Pacing::Once => ended,
        };
        decisive >= span.measuring_from
    }

    #[inline]
    pub(crate) fn count_done(
        &mut self,
        ticket: Ticket,
        reply_bytes: usize,
        started: u64,
        now: u64,
        span: Span,
    ) {
        if !self.counts(started, now, span) {
            return;
        }
        self.reply_bytes = reply_bytes;
        if let Some(tally) = self.tallies.get_mut(usize::from(ticket.kind)) {
            tally.record(now.saturating_sub(started), now < span.sending_until);
        }
    }

    pub(crate) fn count_failed(
        &mut self,
        ticket: Ticket,
        failure: Failure,
        started: u64,
        now: u64,
        span: Span,
    ) {
        if !self.counts(started, now, span) {
            return;
        }
        match self.tallies.get_mut(usize::from(ticket.kind)) {
            Some(tally) => tally.count_failure(failure),
            None => self.count_connection_error(failure, 1),
        }
    }

    /// Counts what belongs to no operation.
    pub(crate) fn count_connection_error(&mut self, failure: Failure, times: u64) {
        if times > 0 {
            *self.connection_errors.entry(failure).or_default() += times;
        }
    }

    /// Ends a second of the window; adds what it saw to `sum`.
    pub(crate) fn end_second(&mut self, sum: &mut Second) {
        for tally in &mut self.tallies {
            tally.end_second(sum);
        }
        self.open_by_second.push(self.open);
    }

    /// What was counted since the last time; `elapsed` is the measured part.
    pub(crate) fn finish(&mut self, elapsed: Duration) -> Result<Outcome, BenchError> {
        let tallies = std::mem::replace(&mut self.tallies, tallies(&self.traffic)?);
        let none_yet = ConnectionCounts { asked: self.counts.asked, ..ConnectionCounts::default() };
        Ok(Outcome {
            elapsed,
            connected: self.connected,
            kinds: tallies.into_iter().map(Tally::finish).collect(),
            connection_errors: std::mem::take(&mut self.connection_errors),
            connections: std::mem::replace(&mut self.counts, none_yet),
            open_by_second: std::mem::take(&mut self.open_by_second),
            reply_bytes: std::mem::take(&mut self.reply_bytes),
        })
    }
}

fn tallies(traffic: &WorkloadTraffic) -> Result<Vec<Tally>, BenchError> {
    traffic.kinds().into_iter().map(Tally::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::spec::Phases;
    use crate::generator::traffic::FailureKind;
    use crate::workload::pings;

    const SPAN: Span = Span { measuring_from: 1_000_000, sending_until: 3_000_000 };

    fn group(pacing: Pacing, options: ConnectionOptions) -> Group {
        let spec = GroupSpec { options, ..GroupSpec::new(1, pings(), pacing) };
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        Group::new(&spec, address, Share::whole(1)).expect("a group")
    }

    fn open() -> Pacing {
        Pacing::Open("1".parse().expect("arrivals"))
    }

    /// Operations in the rate, latencies recorded, and the longest in microseconds.
    fn check(pacing: Pacing, started: u64, now: u64, expect: (u64, u64, u64)) {
        let mut group = group(pacing.clone(), ConnectionOptions::default());
        group.count_done(Ticket::default(), 50, started, now, SPAN);
        let outcome = group.finish(Duration::from_secs(1)).expect("an outcome");
        let longest_us = outcome.latencies().quantile_us(1.0);
        let found = (outcome.operations(), outcome.timed(), longest_us);
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
        check(open(), 999_000, 2_000_000, (0, 0, 0));
        check(open(), 1_000_000, 2_000_000, (1, 1, 1_000));
    }

    #[test]
    fn failures_are_counted_by_name_and_not_timed() {
        let mut group = group(Pacing::Closed, ConnectionOptions::default());
        let failure = Failure { kind: FailureKind::Server, code: Some(462), name: "Overloaded".into() };
        group.count_failed(Ticket::default(), failure.clone(), 0, 500, SPAN);
        group.count_failed(Ticket::default(), failure.clone(), 0, 2_000_000, SPAN);
        let outcome = group.finish(Duration::from_secs(1)).expect("an outcome");
        assert_eq!(outcome.errors().get(&failure), Some(&1), "the warm-up is not measured");
        assert_eq!(outcome.timed(), 0);
    }

    #[test]
    fn pauses_and_phases_put_off_the_next_start() {
        let nanoseconds = Duration::from_nanos;
        let check = |think, phases: Option<(u64, u64)>, now, expect| {
            let phases = phases.map(|(on, off)| Phases { on: nanoseconds(on), off: nanoseconds(off) });
            let options =
                ConnectionOptions { think: nanoseconds(think), phases, ..ConnectionOptions::default() };
            let mut group = group(Pacing::Closed, options);
            group.begin(1_000, SPAN);
            let found = (group.next_start(now, false), group.next_start(now, true));
            assert_eq!(found, expect, "think {think}, phases {phases:?}, at {now}");
        };
        check(0, None, 1_500, (1_500, 1_500));
        check(70, None, 1_500, (1_500, 1_570));
        check(0, Some((100, 900)), 1_099, (1_099, 1_099));
        check(0, Some((100, 900)), 1_100, (2_000, 2_000));
        check(0, Some((100, 900)), 2_050, (2_050, 2_050));
        check(60, Some((100, 900)), 2_050, (2_050, 3_000));
    }
}
