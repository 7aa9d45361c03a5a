//! The loop that drives every connection.

use crate::error::BenchError;
use crate::generator::connection::{Connection, Parts, Phase, check_descriptors, connect, describe};
use crate::generator::group::{Group, GroupSpec, Pacing, Span, Window};
use crate::generator::outcome::{Outcome, RunOutcome};
use crate::generator::timer::Timer;
use crate::interrupt::Interrupt;
use crate::template::announced_length;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const READ_BYTES: usize = 256 * 1024;
/// Events taken at once: few, so that an open loop's intended starts are looked after often.
const EVENTS: usize = 128;
/// How often the loop looks at the time and the interrupt when nothing happens.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// A run whose server answers nothing any more ends this long after its time …
const DRAIN: Duration = Duration::from_secs(20);
/// … and this much later for each connection: slow requests of ten thousand clients take their time.
const DRAIN_PER_CONNECTION: Duration = Duration::from_millis(2);
/// A connection that could not be made is tried again after this many nanoseconds.
const REST: u64 = 10_000_000;
/// Buffers of partial replies kept for the next one.
const SPARE_PARTS: usize = 64;
const TIMER: Token = Token(usize::MAX);

/// Connections to one server and what they do.
#[derive(Debug)]
pub(crate) struct Generator {
    address: SocketAddr,
    poll: Poll,
    timer: Timer,
    interrupt: Interrupt,
    groups: Vec<Group>,
    connections: Vec<Connection>,
    /// Connections that try again, the earliest first.
    resting: VecDeque<(u64, usize)>,
    #[expect(clippy::vec_box, reason = "the boxes go in and out of connections as they are")]
    spare_parts: Vec<Box<Parts>>,
    origin: Instant,
    span: Span,
    in_flight: usize,
    /// Requests that may still be sent in this run.
    allowance: u64,
}

impl Generator {
    /// Opens every connection. One that is refused counts as an error of its group and is dead.
    pub(crate) fn connect(
        address: SocketAddr,
        specs: &[GroupSpec],
        seed: u64,
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        let total = specs.iter().map(|spec| spec.connections).sum();
        check_descriptors(total)?;
        let poll = Poll::new().map_err(BenchError::io("create an epoll instance"))?;
        let timer = Timer::register(poll.registry(), TIMER)?;
        let mut generator = Generator {
            address,
            poll,
            timer,
            interrupt: interrupt.clone(),
            groups: Vec::with_capacity(specs.len()),
            connections: Vec::with_capacity(total),
            resting: VecDeque::new(),
            spare_parts: Vec::new(),
            origin: Instant::now(),
            span: Span::default(),
            in_flight: 0,
            allowance: 0,
        };
        for (number, spec) in (0_u16..).zip(specs) {
            generator.groups.push(Group::new(spec, seed.wrapping_add(number.into()))?);
            for _ in 0..spec.connections {
                generator.interrupt.check()?;
                generator.open(number, spec.pacing)?;
            }
        }
        Ok(generator)
    }

    fn open(&mut self, number: u16, pacing: Pacing) -> Result<(), BenchError> {
        let token = Token(self.connections.len());
        let Some(group) = self.groups.get_mut(usize::from(number)) else { return Ok(()) };
        if pacing == Pacing::Reconnect {
            group.alive += 1;
            self.connections.push(Connection::new(number, None, Phase::Idle));
            return Ok(());
        }
        let connection = match connect(self.address) {
            Ok(mut socket) => {
                self.poll
                    .registry()
                    .register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)
                    .map_err(BenchError::io("register a socket"))?;
                group.alive += 1;
                Connection::new(number, Some(socket), Phase::Idle)
            }
            Err(error) => {
                group.outcome.count_error(&format!("cannot connect: {}", describe(&error)), 1);
                Connection::new(number, None, Phase::Dead)
            }
        };
        self.connections.push(connection);
        Ok(())
    }

    /// Sends for the window's time, then waits for what is under way. May be called again; connections stay open.
    pub(crate) fn run(&mut self, window: &Window) -> Result<RunOutcome, BenchError> {
        let used_before = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        self.begin(window);
        let begun = self.span.measuring_from.saturating_sub(window.warm_up.as_nanos() as u64);
        self.drive()?;
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let took = self.now().saturating_sub(begun) as f64 / 1e9;
        let used =
            (used.tv_sec - used_before.tv_sec) as f64 + (used.tv_nsec - used_before.tv_nsec) as f64 / 1e9;
        let mut groups = Vec::with_capacity(self.groups.len());
        for group in &mut self.groups {
            groups.push(std::mem::replace(&mut group.outcome, Outcome::new()?));
        }
        Ok(RunOutcome { groups, busy: used / took })
    }

    fn begin(&mut self, window: &Window) {
        let begun = self.now();
        let measuring_from = begun + window.warm_up.as_nanos() as u64;
        self.span =
            Span { measuring_from, sending_until: measuring_from + window.duration.as_nanos() as u64 };
        self.allowance = window.requests.unwrap_or(u64::MAX);
        for group in &mut self.groups {
            group.begin(begun, self.span);
        }
        for index in 0..self.connections.len() {
            self.set_off(index);
        }
    }

    fn drive(&mut self) -> Result<(), BenchError> {
        let mut scratch = vec![0; READ_BYTES];
        let mut events = Events::with_capacity(EVENTS);
        let drain = DRAIN + DRAIN_PER_CONNECTION * u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let given_up_at = self.span.sending_until + drain.as_nanos() as u64;
        while !self.is_over() {
            self.interrupt.check()?;
            if self.now() > given_up_at {
                self.give_up();
                break;
            }
            match self.poll.poll(&mut events, Some(LONGEST_SLEEP)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(BenchError::io("wait for events"))?,
            }
            for event in &events {
                let Token(index) = event.token();
                if event.is_writable() {
                    self.writable(index);
                }
                if event.is_readable() || event.is_read_closed() {
                    self.receive(index, &mut scratch);
                }
            }
            self.look_after_clocks()?;
        }
        Ok(())
    }

    #[inline]
    fn now(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Nothing is under way, and nothing more will be.
    fn is_over(&self) -> bool {
        self.in_flight == 0
            && self.resting.is_empty()
            && self.groups.iter().all(|group| match &group.schedule {
                Some(schedule) => schedule.next().is_none() || group.alive == 0 || self.allowance == 0,
                None => true,
            })
    }

    /// What was not answered or not even sent in time.
    fn give_up(&mut self) {
        for connection in &mut self.connections {
            let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { continue };
            if matches!(connection.phase, Phase::Waiting | Phase::Connecting) {
                group.outcome.count_error("no reply", 1);
                group.alive -= 1;
                connection.phase = Phase::Dead;
                connection.socket = None;
            }
        }
        for group in &mut self.groups {
            let left = group.schedule.as_ref().map_or(0, |schedule| schedule.left());
            group.outcome.count_error("not sent in time", left);
        }
        self.in_flight = 0;
        self.resting.clear();
    }

    /// Starts whatever a free connection is to do first or next.
    fn set_off(&mut self, index: usize) {
        let now = self.now();
        let Some(connection) =
            self.connections.get(index).filter(|connection| connection.phase == Phase::Idle)
        else {
            return;
        };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        match group.pacing {
            Pacing::Closed | Pacing::Once => self.send_closed(index, now),
            Pacing::Rate(_) => group.idle.push_back(index),
            Pacing::Reconnect => self.reconnect(index, now),
        }
    }

    /// The next request of a closed loop, unless the run's time or its number of requests has been reached.
    #[inline]
    fn send_closed(&mut self, index: usize, now: u64) {
        if now < self.span.sending_until && self.allowance > 0 {
            self.allowance -= 1;
            self.send(index, now);
        }
    }

    /// Sends a request that started or was to start at `started`.
    #[inline]
    fn send(&mut self, index: usize, started: u64) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        let Some(socket) = &mut connection.socket else { return };
        let (message, least_reply_bytes) = group.next_message();
        connection.started = started;
        connection.least_reply_bytes = least_reply_bytes as u32;
        connection.phase = Phase::Waiting;
        self.in_flight += 1;
        let taken = match socket.write(message) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return self.fail(index, &describe(&error)),
        };
        if let Some(rest) = message.get(taken..).filter(|rest| !rest.is_empty()) {
            connection.parts.get_or_insert_default().unsent.extend_from_slice(rest);
        }
    }

    /// Makes a new connection; the request follows when it is made.
    fn reconnect(&mut self, index: usize, now: u64) {
        if now >= self.span.sending_until || self.allowance == 0 {
            return;
        }
        self.allowance -= 1;
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.started = now;
        connection.phase = Phase::Connecting;
        connection.parts = None;
        self.in_flight += 1;
        let registry = self.poll.registry();
        let socket = TcpStream::connect(self.address).and_then(|mut socket| {
            socket.set_nodelay(true)?;
            registry.register(&mut socket, Token(index), Interest::READABLE | Interest::WRITABLE)?;
            Ok(socket)
        });
        match socket {
            Ok(socket) => connection.socket = Some(socket),
            Err(error) => self.fail(index, &format!("cannot connect: {}", describe(&error))),
        }
    }

    /// The socket takes bytes: the connection was made, or the rest of a request can follow.
    #[inline]
    fn writable(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.phase == Phase::Connecting {
            self.connected(index);
        } else if connection.parts.as_ref().is_some_and(|parts| !parts.unsent.is_empty()) {
            self.send_rest(index);
        }
    }

    fn connected(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else { return };
        let Some(socket) = &connection.socket else { return };
        let started = connection.started;
        match socket.take_error() {
            Ok(None) => {
                self.in_flight -= 1;
                self.send(index, started);
            }
            Ok(Some(error)) | Err(error) => {
                self.fail(index, &format!("cannot connect: {}", describe(&error)));
            }
        }
    }

    fn send_rest(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let (Some(parts), Some(socket)) = (&mut connection.parts, &mut connection.socket) else { return };
        match socket.write(&parts.unsent) {
            Ok(count) => drop(parts.unsent.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.fail(index, &describe(&error)),
        }
    }

    /// Reads until the reply is whole or nothing more is there. Nothing follows a whole reply, so the socket need not be read
    /// dry: the next reply raises a new edge.
    fn receive(&mut self, index: usize, scratch: &mut [u8]) {
        loop {
            let Some(connection) = self.connections.get_mut(index) else { return };
            let Some(socket) = &mut connection.socket else { return };
            let count = match socket.read(scratch) {
                Ok(0) => return self.fail(index, "connection closed by the server"),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.fail(index, &describe(&error)),
            };
            if connection.phase != Phase::Waiting {
                return self.fail(index, "a reply that nobody asked for");
            }
            let arrived = scratch.get(..count).unwrap_or_default();
            let has_part = connection.parts.as_ref().is_some_and(|parts| !parts.reply.is_empty());
            if !has_part && announced_length(arrived) == Some(count) {
                return self.complete(index, arrived);
            }
            if self.add_part(index, arrived) || count < scratch.len() {
                return;
            }
        }
    }

    /// Keeps a part of a reply; true when it made the reply whole.
    fn add_part(&mut self, index: usize, arrived: &[u8]) -> bool {
        let Some(connection) = self.connections.get_mut(index) else { return true };
        let spare = &mut self.spare_parts;
        let parts = connection.parts.get_or_insert_with(|| spare.pop().unwrap_or_default());
        parts.reply.extend_from_slice(arrived);
        let Some(announced) = announced_length(&parts.reply) else { return false };
        if announced > parts.reply.len() {
            return false;
        }
        if announced < parts.reply.len() {
            self.fail(index, "more bytes than one reply");
            return true;
        }
        // Out of the connection: thousands of connections must not each keep the memory of a large reply.
        let Some(mut parts) = connection.parts.take() else { return true };
        self.complete(index, &parts.reply);
        parts.reply.clear();
        parts.unsent.clear();
        if self.spare_parts.len() < SPARE_PARTS {
            self.spare_parts.push(parts);
        }
        true
    }

    #[inline]
    fn complete(&mut self, index: usize, reply: &[u8]) {
        let now = self.now();
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        self.in_flight -= 1;
        connection.phase = Phase::Idle;
        group.count_reply(reply, connection.least_reply_bytes as usize, connection.started, now, self.span);
        match group.pacing {
            Pacing::Closed => self.send_closed(index, now),
            Pacing::Once => {}
            Pacing::Rate(_) => match group.schedule.as_mut().and_then(|schedule| schedule.take_due(now)) {
                Some(started) => self.send(index, started),
                None => group.idle.push_back(index),
            },
            Pacing::Reconnect => {
                connection.socket = None;
                self.reconnect(index, now);
            }
        }
    }

    /// A connection ended or could not be made.
    #[cold]
    fn fail(&mut self, index: usize, what: &str) {
        let rest_until = self.now() + REST;
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        if matches!(connection.phase, Phase::Waiting | Phase::Connecting) {
            self.in_flight -= 1;
        }
        connection.socket = None;
        connection.parts = None;
        group.outcome.count_error(what, 1);
        if group.pacing == Pacing::Reconnect {
            connection.phase = Phase::Resting;
            self.resting.push_back((rest_until, index));
        } else if connection.phase != Phase::Dead {
            connection.phase = Phase::Dead;
            group.alive -= 1;
        }
    }

    /// Open loops whose intended starts have come, connections that try again, and the alarm for the next of both.
    fn look_after_clocks(&mut self) -> Result<(), BenchError> {
        let mut alarm = None;
        for number in 0..self.groups.len() {
            alarm = earlier(alarm, self.send_due(number));
        }
        while let Some(&(due, index)) = self.resting.front() {
            let now = self.now();
            if due > now {
                alarm = earlier(alarm, Some(due));
                break;
            }
            self.resting.pop_front();
            if let Some(connection) = self.connections.get_mut(index) {
                connection.phase = Phase::Idle;
                self.reconnect(index, now);
            }
        }
        match alarm {
            Some(at) => {
                let now = self.now();
                self.timer.set(at, now)
            }
            None => Ok(()),
        }
    }

    /// Sends what is due in an open loop; the next intended start when a connection is free for it.
    fn send_due(&mut self, number: usize) -> Option<u64> {
        loop {
            let now = self.now();
            let group = self.groups.get_mut(number)?;
            let schedule = group.schedule.as_mut()?;
            let &index = group.idle.front()?;
            if self.connections.get(index).is_none_or(|connection| connection.phase != Phase::Idle) {
                group.idle.pop_front();
                continue;
            }
            if self.allowance == 0 {
                return None;
            }
            let Some(started) = schedule.take_due(now) else { return schedule.next() };
            group.idle.pop_front();
            self.allowance -= 1;
            self.send(index, started);
        }
    }
}

fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::EchoInTest;
    use crate::generator::group::Request;
    use crate::template::Template;
    use document::doc;

    /// Runs one group against an echo.
    fn check(pacing: Pacing, connections: usize, reply_bytes: usize, window: &Window) -> Outcome {
        let echo = EchoInTest::start(reply_bytes);
        let template = Template::new(&doc! { "find": "x", "$db": "test" });
        let requests = vec![Request { template, ids: 10, least_reply_bytes: reply_bytes }];
        let spec = GroupSpec { connections, requests, pacing };
        let mut generator =
            Generator::connect(echo.address, &[spec], 1, &Interrupt::default()).expect("connects");
        let [outcome] = generator.run(window).expect("runs").split().expect("one group");
        assert_eq!(outcome.errors.iter().next(), None, "{pacing:?} fails");
        outcome
    }

    fn counted(requests: u64) -> Window {
        Window { warm_up: Duration::ZERO, duration: Duration::from_secs(60), requests: Some(requests) }
    }

    #[test]
    fn a_closed_loop_sends_as_many_requests_as_asked() {
        let outcome = check(Pacing::Closed, 7, 300, &counted(500));
        assert_eq!((outcome.replies, outcome.connected, outcome.reply_bytes), (500, 7, 300));
    }

    #[test]
    fn replies_may_come_in_parts() {
        assert_eq!(check(Pacing::Closed, 3, 3_000_000, &counted(20)).replies, 20);
    }

    #[test]
    fn each_request_may_have_its_own_connection() {
        assert_eq!(check(Pacing::Reconnect, 5, 300, &counted(100)).replies, 100);
    }

    #[test]
    fn once_is_once_for_each_connection() {
        assert_eq!(check(Pacing::Once, 50, 300, &counted(u64::MAX)).replies, 50);
    }

    #[test]
    fn an_open_loop_sends_every_intended_request() {
        let window = Window::lasting(Duration::ZERO, Duration::from_millis(50));
        let outcome = check(Pacing::Rate(4_000.0), 20, 300, &window);
        assert_eq!(outcome.latency_us.len(), 200, "50 ms at 4,000 a second");
    }

    #[test]
    fn refused_connections_are_errors_and_end_the_run() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        let requests = vec![];
        let spec = GroupSpec { connections: 3, requests, pacing: Pacing::Closed };
        let mut generator = Generator::connect(address, &[spec], 1, &Interrupt::default()).expect("goes on");
        let [outcome] = generator.run(&counted(10)).expect("runs").split().expect("one group");
        assert_eq!((outcome.error_count(), outcome.connected), (3, 0));
    }
}
