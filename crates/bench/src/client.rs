//! The load client: one thread, one epoll, closed loop on every connection.

use crate::error::BenchError;
use crate::scenario::Scenario;
use crate::template::{Template, announced_length, reply_body};
use document::RawValue;
use hdrhistogram::Histogram;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Longest latency that is recorded; a longer one counts as this long.
const LONGEST_MICROSECONDS: u64 = 120_000_000;
const READ_BYTES: usize = 256 * 1024;
/// A run whose server answers nothing any more ends this long after its time.
const DRAIN: Duration = Duration::from_secs(20);

/// What one measurement saw.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) elapsed: Duration,
    pub(crate) replies: u64,
    /// Failed requests by what was wrong with them.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Latencies in microseconds.
    pub(crate) latency_us: Histogram<u64>,
    /// Bytes of the last good reply: what the echo is to send.
    pub(crate) reply_bytes: usize,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        self.replies as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// What to send.
pub(crate) struct Load {
    pub(crate) scenario: Scenario,
    pub(crate) connections: usize,
    pub(crate) stored: i32,
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    pub(crate) seed: u64,
}

struct Connection {
    socket: TcpStream,
    /// The part of a reply that has come, when it did not come in one read.
    partial: Vec<u8>,
    /// The part of a request that the socket did not take.
    unsent: Vec<u8>,
    sent_at: Instant,
    closed: bool,
}

/// Sends `load` to `address` and waits for every reply.
pub(crate) fn run(address: SocketAddr, load: &Load) -> Result<Outcome, BenchError> {
    Client::connect(address, load)?.run(load)
}

struct Client {
    poll: Poll,
    connections: Vec<Connection>,
    template: Template,
    random: Random,
    ids: i32,
    measuring_from: Instant,
    sending_until: Instant,
    in_flight: usize,
    outcome: Outcome,
}

impl Client {
    fn connect(address: SocketAddr, load: &Load) -> Result<Self, BenchError> {
        let poll = Poll::new().map_err(BenchError::io("create an epoll instance"))?;
        let mut connections = Vec::with_capacity(load.connections);
        for index in 0..load.connections {
            // Blocking connect: the listener's backlog sets the pace, and nothing is measured yet.
            let socket = std::net::TcpStream::connect(address).map_err(BenchError::io("connect"))?;
            socket.set_nodelay(true).map_err(BenchError::io("set TCP_NODELAY"))?;
            socket.set_nonblocking(true).map_err(BenchError::io("make a socket non-blocking"))?;
            let mut socket = TcpStream::from_std(socket);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut socket, Token(index), interest)
                .map_err(BenchError::io("register a socket"))?;
            connections.push(Connection {
                socket,
                partial: Vec::new(),
                unsent: Vec::new(),
                sent_at: Instant::now(),
                closed: false,
            });
        }
        let latency_us = Histogram::new_with_max(LONGEST_MICROSECONDS, 3)
            .map_err(|error| BenchError::Usage(format!("cannot make a histogram: {error}")))?;
        let now = Instant::now();
        Ok(Client {
            poll,
            connections,
            template: load.scenario.template(),
            random: Random::new(load.seed),
            ids: load.scenario.ids(load.stored),
            measuring_from: now + load.warm_up,
            sending_until: now + load.warm_up + load.duration,
            in_flight: 0,
            outcome: Outcome {
                elapsed: load.duration,
                replies: 0,
                errors: BTreeMap::new(),
                latency_us,
                reply_bytes: 0,
            },
        })
    }

    fn run(mut self, load: &Load) -> Result<Outcome, BenchError> {
        let mut scratch = vec![0; READ_BYTES];
        let mut events = Events::with_capacity(1024);
        let begun = Instant::now();
        self.measuring_from = begun + load.warm_up;
        self.sending_until = self.measuring_from + load.duration;
        for index in 0..self.connections.len() {
            self.send(index);
        }
        while self.in_flight > 0 {
            if Instant::now() > self.sending_until + DRAIN {
                self.count_error("no reply", self.in_flight as u64);
                break;
            }
            match self.poll.poll(&mut events, Some(Duration::from_millis(100))) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other.map_err(BenchError::io("wait for events"))?,
            }
            for event in &events {
                let Token(index) = event.token();
                if event.is_writable() {
                    self.flush(index);
                }
                if event.is_readable() || event.is_read_closed() {
                    self.receive(index, &mut scratch);
                }
            }
        }
        Ok(self.outcome)
    }

    fn count_error(&mut self, what: &str, times: u64) {
        *self.outcome.errors.entry(what.to_owned()).or_default() += times;
    }

    fn close(&mut self, index: usize, what: &str) {
        if let Some(connection) = self.connections.get_mut(index).filter(|connection| !connection.closed) {
            connection.closed = true;
            self.in_flight -= 1;
            self.count_error(what, 1);
        }
    }

    /// Sends the next request on an idle connection.
    fn send(&mut self, index: usize) {
        let id = self.random.below(self.ids);
        let number = self.random.below(i32::MAX);
        let Some(connection) = self.connections.get_mut(index) else { return };
        let message = self.template.patched(id, number);
        connection.sent_at = Instant::now();
        self.in_flight += 1;
        let failure = match connection.socket.write(message) {
            Ok(count) => {
                connection.unsent.extend_from_slice(message.get(count..).unwrap_or_default());
                None
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.unsent.extend_from_slice(message);
                None
            }
            Err(error) => Some(error.kind().to_string()),
        };
        if let Some(failure) = failure {
            self.close(index, &failure);
        }
    }

    fn flush(&mut self, index: usize) {
        let Some(connection) =
            self.connections.get_mut(index).filter(|connection| !connection.unsent.is_empty())
        else {
            return;
        };
        match connection.socket.write(&connection.unsent) {
            Ok(count) => drop(connection.unsent.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.close(index, &error.kind().to_string()),
        }
    }

    /// Reads until the reply is whole or nothing more is there. In a closed loop nothing follows a whole reply, so the socket
    /// need not be read dry: the next reply raises a new edge.
    fn receive(&mut self, index: usize, scratch: &mut [u8]) {
        loop {
            let Some(connection) = self.connections.get_mut(index).filter(|connection| !connection.closed)
            else {
                return;
            };
            let count = match connection.socket.read(scratch) {
                Ok(0) => return self.close(index, "connection closed by the server"),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.close(index, &error.kind().to_string()),
            };
            let arrived = scratch.get(..count).unwrap_or_default();
            if connection.partial.is_empty() && announced_length(arrived) == Some(count) {
                return self.complete(index, arrived);
            }
            connection.partial.extend_from_slice(arrived);
            if announced_length(&connection.partial).is_some_and(|length| length <= connection.partial.len())
            {
                let mut reply = std::mem::take(&mut connection.partial);
                self.complete(index, &reply);
                reply.clear();
                if let Some(connection) = self.connections.get_mut(index) {
                    connection.partial = reply;
                }
                return;
            }
        }
    }

    fn complete(&mut self, index: usize, reply: &[u8]) {
        let now = Instant::now();
        let Some(connection) = self.connections.get(index) else { return };
        let latency = now - connection.sent_at;
        self.in_flight -= 1;
        if now >= self.measuring_from && now < self.sending_until {
            match failure(reply) {
                None => {
                    self.outcome.replies += 1;
                    self.outcome.reply_bytes = reply.len();
                    self.outcome.latency_us.saturating_record(latency.as_micros() as u64);
                }
                Some(what) => self.count_error(&what, 1),
            }
        }
        if now < self.sending_until {
            self.send(index);
        }
    }
}

/// What is wrong with a reply, if anything is.
fn failure(reply: &[u8]) -> Option<String> {
    let body = match reply_body(reply) {
        Ok(body) => body,
        Err(error) => return Some(error.to_string()),
    };
    let ok = matches!(body.get("ok"), Some(RawValue::Double(1.0) | RawValue::Int32(1)));
    if ok && !body.contains("writeErrors") {
        return None;
    }
    let code_name = body.get("codeName").and_then(RawValue::as_str).unwrap_or("writeErrors");
    Some(code_name.to_owned())
}

/// A small seeded generator (SplitMix64): the load must be repeatable and cost nothing beside a request.
struct Random {
    state: u64,
}

impl Random {
    const fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// A number in `0..bound`; the bias of the multiplication is far below what a benchmark could notice.
    fn below(&mut self, bound: i32) -> i32 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((mixed >> 32).wrapping_mul(u64::from(bound.unsigned_abs())) >> 32) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::encode;
    use document::doc;

    #[test]
    fn replies_that_are_not_ok_are_errors() {
        let check = |reply: document::Document, expect: Option<&str>| {
            assert_eq!(failure(&encode(&reply)).as_deref(), expect, "for {reply:?}");
        };
        check(doc! { "n": 1, "ok": 1.0 }, None);
        check(doc! { "ok": 0.0, "code": 59, "codeName": "CommandNotFound" }, Some("CommandNotFound"));
        check(doc! { "n": 0, "writeErrors": [{ "code": 11000 }], "ok": 1.0 }, Some("writeErrors"));
    }

    #[test]
    fn random_numbers_cover_the_range() {
        let mut random = Random::new(1);
        let drawn: std::collections::BTreeSet<i32> = (0..1_000).map(|_| random.below(10)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }
}
