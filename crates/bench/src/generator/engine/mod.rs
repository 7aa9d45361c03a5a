//! The loop that drives every connection of one generator thread.
//!
//! ```text
//!   Unmade ──dial──▶ Connecting ──▶ Greeting ──▶ Idle ──send──▶ Waiting ──reply──▶ Idle | Thinking | Unmade
//!      ▲                 └──────────────┴──────────┴─────lose──────┤
//!      └───────── Resting (reconnects) ◀───────────────────────────┴──▶ Dead
//! ```

#![expect(clippy::indexing_slicing, reason = "connections and groups keep their places")]

mod clocks;
mod dial;
mod exchange;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod traffic_tests;

use crate::error::BenchError;
use crate::generator::clock::monotonic;
use crate::generator::connection::{Connection, Parts, Phase, check_descriptors};
use crate::generator::group::Group;
use crate::generator::outcome::RunOutcome;
use crate::generator::progress::Gauge;
use crate::generator::secured::SecuredSocket;
use crate::generator::series::Second;
use crate::generator::spec::{GroupSpec, Opening, Pacing, Span, Window};
use crate::generator::timer::Timer;
use crate::generator::traffic::{Failure, FailureKind, Share};
use crate::interrupt::Interrupt;
use access::LoginSteps;
use mio::{Events, Poll, Token};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Compressor;

const READ_BYTES: usize = 256 * 1024;
/// Events taken at once: few, so that an open loop's intended starts are looked after often.
const EVENTS: usize = 128;
/// How often the loop looks at the time and the interrupt when nothing happens.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// A run whose server answers nothing any more ends this long after its time …
const DRAIN: Duration = Duration::from_secs(20);
/// … and this much later for each connection: slow requests of ten thousand clients take their time.
const DRAIN_PER_CONNECTION: Duration = Duration::from_millis(2);
/// What is under way at Ctrl-C is waited for this long.
const INTERRUPTED_DRAIN: Duration = Duration::from_millis(500);
const SECOND: u64 = 1_000_000_000;
const TIMER: Token = Token(usize::MAX);

/// Connections and what they do.
#[derive(Debug)]
pub(crate) struct Generator {
    poll: Poll,
    timer: Timer,
    interrupt: Interrupt,
    gauge: Arc<Gauge>,
    groups: Vec<Group>,
    connections: Vec<Connection>,
    /// When connections that think or rest are to go on, the earliest first.
    waking: BinaryHeap<Reverse<(u64, u32)>>,
    #[expect(clippy::vec_box, reason = "the boxes go in and out of connections as they are")]
    spare_parts: Vec<Box<Parts>>,
    /// Of connections that speak TLS, by their places; empty where none does.
    secured: Vec<Option<Box<SecuredSocket>>>,
    /// Logins under way, by their connections.
    logins: HashMap<usize, Login>,
    /// The request that is being written.
    outgoing: Vec<u8>,
    /// The other side of compression: a compressed request or a decompressed reply.
    converted: Vec<u8>,
    last_request_id: i32,
    /// What the clock showed when it was made.
    origin: u64,
    span: Span,
    running: bool,
    interrupted: bool,
    /// Connections with a phase that ends by itself: [`Connection::is_busy`].
    in_flight: usize,
    /// Operations that may still be sent in this run.
    allowance: u64,
    /// Good and failed operations since the beginning.
    done: u64,
    failed: u64,
    next_second: u64,
    next_sweep: u64,
}

/// A login that is under way.
#[derive(Debug)]
struct Login {
    steps: LoginSteps,
    /// What is spoken when it is done.
    compressor: Option<Compressor>,
}

impl Generator {
    /// Opens this share of the connections that are to be open before a run. One that is refused counts as an
    /// error of its group.
    pub(crate) fn connect(
        address: SocketAddr,
        specs: &[GroupSpec],
        share: Share,
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        let part = |spec: &GroupSpec| share.among(spec.connections).part_of(spec.connections as u64) as usize;
        let total = specs.iter().map(part).sum();
        check_descriptors(total)?;
        let poll = Poll::new().map_err(BenchError::io("create an epoll instance"))?;
        let timer = Timer::register(poll.registry(), TIMER)?;
        let mut generator = Generator {
            poll,
            timer,
            interrupt: interrupt.clone(),
            gauge: Arc::default(),
            groups: Vec::with_capacity(specs.len()),
            connections: Vec::with_capacity(total),
            waking: BinaryHeap::new(),
            spare_parts: Vec::new(),
            secured: Vec::new(),
            logins: HashMap::new(),
            outgoing: Vec::new(),
            converted: Vec::new(),
            last_request_id: 0,
            origin: monotonic(),
            span: Span::default(),
            running: false,
            interrupted: false,
            in_flight: 0,
            allowance: 0,
            done: 0,
            failed: 0,
            next_second: 0,
            next_sweep: 0,
        };
        let mut first = VecDeque::new();
        for (number, spec) in (0_u16..).zip(specs) {
            let share = Share { seed: share.seed.wrapping_add(number.into()), ..share };
            let share = share.among(spec.connections);
            let connections = part(spec);
            let mut group = Group::new(spec, address, share)?;
            group.alive = connections;
            group.counts.asked = connections as u64;
            if spec.options.opening == Opening::Before && !group.is_short() {
                first.extend(generator.connections.len()..generator.connections.len() + connections);
            }
            generator.groups.push(group);
            generator.connections.extend((0..connections).map(|_| Connection::new(number)));
        }
        if generator.groups.iter().any(|group| group.access.tls.is_some()) {
            generator.secured.resize_with(generator.connections.len(), || None);
        }
        generator.open_first(first)?;
        Ok(generator)
    }

    /// Where this generator tells how far it is.
    pub(crate) fn gauge(&self) -> Arc<Gauge> {
        Arc::clone(&self.gauge)
    }

    /// Sends for the window's time, then waits for what is under way. May be called again; connections stay
    /// open. Ctrl-C ends it with what was seen until then.
    pub(crate) fn run(&mut self, window: &Window) -> Result<RunOutcome, BenchError> {
        let used_before = thread_time();
        let begun = self.now();
        self.begin(begun, window);
        self.drive()?;
        let ended = self.now();
        let elapsed = self.measured(ended);
        self.end_seconds(self.span.measuring_from + elapsed.as_nanos() as u64);
        let used = thread_time().saturating_sub(used_before);
        let groups =
            self.groups.iter_mut().map(|group| group.finish(elapsed)).collect::<Result<Vec<_>, _>>()?;
        let took = Duration::from_nanos(ended.saturating_sub(begun).max(1));
        Ok(RunOutcome {
            groups,
            busy: vec![used.as_secs_f64() / took.as_secs_f64()],
            interrupted: self.interrupted,
            resident_bytes: 0,
            connections_bytes: 0,
            failures: Vec::new(),
        })
    }

    fn begin(&mut self, begun: u64, window: &Window) {
        let measuring_from = begun + window.warm_up.as_nanos() as u64;
        let sending_until = measuring_from.saturating_add(window.duration.as_nanos() as u64);
        self.span = Span { measuring_from, sending_until };
        self.allowance = window.operations.unwrap_or(u64::MAX);
        self.next_second = measuring_from + SECOND;
        self.next_sweep = begun;
        (self.running, self.interrupted) = (true, false);
        for group in &mut self.groups {
            group.begin(begun, self.span);
        }
        let mut numbers = vec![0_u64; self.groups.len()];
        for index in 0..self.connections.len() {
            let number = &mut numbers[usize::from(self.connections[index].group)];
            *number += 1;
            let number = *number - 1;
            self.set_out(index, number, begun);
        }
    }

    /// What a connection, the so-manieth of its group, does when a run begins.
    fn set_out(&mut self, index: usize, number: u64, begun: u64) {
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        let delay = match (group.options.opening, connection.phase) {
            (Opening::PerSecond(rate), Phase::Unmade) => {
                let turn = number * u64::from(group.share.of) + u64::from(group.share.index);
                (turn as f64 / rate * SECOND as f64) as u64
            }
            _ => 0,
        };
        match connection.phase {
            Phase::Idle => self.set_off(index, begun, false),
            Phase::Unmade if group.is_short() && delay == 0 => self.set_off(index, begun, false),
            Phase::Unmade => self.wake_at(index, Phase::Resting, begun + delay),
            Phase::Dead if group.options.reconnect => {
                group.alive += 1;
                self.wake_at(index, Phase::Resting, begun);
            }
            // One that rested at the end of the last run still does.
            Phase::Connecting
            | Phase::Greeting
            | Phase::Waiting
            | Phase::Thinking
            | Phase::Resting
            | Phase::Dead => {}
        }
    }

    fn drive(&mut self) -> Result<(), BenchError> {
        let mut scratch = vec![0; READ_BYTES];
        let mut events = Events::with_capacity(EVENTS);
        let drain = DRAIN + DRAIN_PER_CONNECTION * u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let mut given_up_at = self.span.sending_until.saturating_add(drain.as_nanos() as u64);
        // What is due at once is sent before the first wait.
        let mut now = self.now();
        self.look_after_clocks(now)?;
        while !self.is_over() {
            if !self.interrupted && self.interrupt.check().is_err() {
                given_up_at = self.stop() + INTERRUPTED_DRAIN.as_nanos() as u64;
            }
            if now > given_up_at {
                break;
            }
            self.take_events(&mut events, &mut scratch)?;
            now = self.now();
            self.look_after_clocks(now)?;
        }
        self.running = false;
        self.give_up();
        self.publish();
        Ok(())
    }

    /// Waits for events and handles them.
    fn take_events(&mut self, events: &mut Events, scratch: &mut [u8]) -> Result<(), BenchError> {
        match self.poll.poll(events, Some(LONGEST_SLEEP)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other.map_err(BenchError::io("wait for events"))?,
        }
        for event in &*events {
            let Token(index) = event.token();
            if event.token() == TIMER {
                continue;
            }
            if event.is_writable() {
                self.writable(index);
            }
            if event.is_readable() || event.is_read_closed() {
                self.receive(index, scratch, event.is_read_closed());
            }
        }
        Ok(())
    }

    /// Sends nothing more. Returns the time.
    fn stop(&mut self) -> u64 {
        let now = self.now();
        self.interrupted = true;
        self.allowance = 0;
        self.span.sending_until = self.span.sending_until.min(now);
        now
    }

    #[inline]
    fn now(&self) -> u64 {
        monotonic().saturating_sub(self.origin)
    }

    /// How much of the window was measured.
    fn measured(&self, ended: u64) -> Duration {
        let counted_out = self.allowance == 0;
        let until = if counted_out { ended.min(self.span.sending_until) } else { self.span.sending_until };
        Duration::from_nanos(until.saturating_sub(self.span.measuring_from))
    }

    /// Nothing is under way, and nothing more will be.
    fn is_over(&self) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        let past = self.now() >= self.span.sending_until;
        self.allowance == 0
            || self.groups.iter().all(|group| match (&group.pacing, &group.schedule) {
                (Pacing::Open(_), Some(schedule)) => {
                    schedule.next().is_none() || group.alive == 0 || (past && group.open == 0)
                }
                (Pacing::Once, _) => past || self.waking.is_empty(),
                (Pacing::Closed | Pacing::Open(_), _) => past || group.alive == 0,
            })
    }

    /// What was not answered or not even sent in time.
    fn give_up(&mut self) {
        for index in 0..self.connections.len() {
            if self.connections[index].is_busy() {
                self.lose(index, Failure::new(FailureKind::Timeout, "no reply before the end"));
            }
        }
        let counted_out = self.allowance == 0;
        for group in &mut self.groups {
            let left = group.schedule.take().map_or(0, |schedule| schedule.left());
            if !counted_out {
                let unsent = Failure::new(FailureKind::Unsent, "no connection was free before the end");
                group.count_connection_error(unsent, left);
            }
        }
        self.waking.clear();
        for connection in &mut self.connections {
            match connection.phase {
                Phase::Thinking => connection.phase = Phase::Idle,
                Phase::Resting => connection.phase = Phase::Unmade,
                _ => {}
            }
        }
    }

    /// Ends the seconds that are over at `now`, the last one even if it is not whole.
    fn end_seconds(&mut self, now: u64) {
        while self.next_second.saturating_sub(SECOND) < now {
            self.end_second();
        }
    }

    fn end_second(&mut self) {
        let mut sum = Second::default();
        for group in &mut self.groups {
            group.end_second(&mut sum);
        }
        self.gauge.set_second(sum);
        self.next_second = self.next_second.saturating_add(SECOND);
    }

    fn publish(&self) {
        let open = self.groups.iter().map(|group| group.open).sum();
        self.gauge.set(self.done, self.failed, open, self.in_flight as u64);
    }
}

/// The connection at this place and its group.
#[inline]
fn pair<'g>(
    connections: &'g mut [Connection],
    groups: &'g mut [Group],
    index: usize,
) -> (&'g mut Connection, &'g mut Group) {
    let connection = &mut connections[index];
    let group = &mut groups[usize::from(connection.group)];
    (connection, group)
}

/// Processor time of this thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
