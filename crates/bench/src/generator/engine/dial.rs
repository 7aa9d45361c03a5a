//! Making connections and losing them.

use super::{EVENTS, Generator, LONGEST_SLEEP, Login, READ_BYTES, pair};
use crate::error::BenchError;
use crate::generator::connection::{Phase, describe};
use crate::generator::handshake::agreed;
use crate::generator::secured::SecuredSocket;
use crate::generator::traffic::{Failure, FailureKind};
use crate::message::{encode, reply_body};
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Attempts to connect under way before a run: below what listeners queue.
const DIALS_AT_ONCE: usize = 256;
/// First pause of a connection that was lost or could not be made, in nanoseconds; each further failure
/// doubles it …
const SHORTEST_REST: u64 = 10_000_000;
/// … so many times.
const DOUBLINGS: u8 = 7;
/// Longest wait for a connection and its handshake.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Connections of all threads and processes that leave from the address that the kernel chooses …
const FROM_USUAL_ADDRESS: u64 = 8_192;
/// … and how many further ones leave from each further address of the loopback network.
const FROM_EACH_ADDRESS: u64 = 256;

/// Begins to make the connection of this number. Between two addresses there are 28,000 ports by default, and
/// Linux looks long for the last half of them; the loopback network has addresses enough for everybody.
fn connect(address: SocketAddr, number: u64) -> io::Result<TcpStream> {
    let (SocketAddr::V4(target), Some(beyond)) = (address, number.checked_sub(FROM_USUAL_ADDRESS)) else {
        return TcpStream::connect(address);
    };
    if !target.ip().is_loopback() {
        return TcpStream::connect(address);
    }
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
    socket.bind(&SocketAddr::from((further_address(beyond), 0)).into())?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// 127.0.0.2 and those after it.
fn further_address(beyond: u64) -> Ipv4Addr {
    const FIRST: u32 = u32::from_be_bytes([127, 0, 0, 2]);
    const ADDRESSES: u64 = 1 << 16;
    Ipv4Addr::from(FIRST + (beyond / FROM_EACH_ADDRESS % ADDRESSES) as u32)
}

impl Generator {
    /// Makes these connections before anything is measured.
    pub(super) fn open_first(&mut self, mut unmade: VecDeque<usize>) -> Result<(), BenchError> {
        debug_assert!(LONGEST_SLEEP < PATIENCE, "waits end before time-outs");
        let mut scratch = vec![0; READ_BYTES];
        let mut events = Events::with_capacity(EVENTS);
        while !unmade.is_empty() || self.in_flight > 0 {
            self.interrupt.check()?;
            while self.in_flight < DIALS_AT_ONCE
                && let Some(index) = unmade.pop_front()
            {
                let now = self.now();
                self.dial(index, now);
            }
            if self.in_flight > 0 {
                self.take_events(&mut events, &mut scratch)?;
            }
            self.sweep(self.now());
        }
        self.publish();
        Ok(())
    }

    /// Begins to make a connection.
    pub(super) fn dial(&mut self, index: usize, now: u64) {
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        let turn = index % group.addresses.len().max(1);
        let Some(&address) = group.addresses.get(turn) else { return };
        connection.since = now;
        connection.phase = Phase::Connecting;
        connection.operations = 0;
        connection.compressor = None;
        connection.parts = None;
        if let Some(secured) = self.secured.get_mut(index) {
            *secured = None;
        }
        self.logins.remove(&index);
        self.in_flight += 1;
        let registry = self.poll.registry();
        let number = index as u64 * u64::from(group.share.of) + u64::from(group.share.index);
        let socket = connect(address, number).and_then(|mut socket| {
            socket.set_nodelay(true)?;
            registry.register(&mut socket, Token(index), Interest::READABLE | Interest::WRITABLE)?;
            Ok(socket)
        });
        match socket {
            Ok(socket) => connection.socket = Some(socket),
            Err(error) => self.lose(index, Failure::new(FailureKind::Connect, describe(&error))),
        }
    }

    /// The socket takes bytes: the connection was made, or the rest of a request can follow.
    #[inline]
    pub(super) fn writable(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.phase == Phase::Connecting {
            self.connected(index);
        } else if connection.parts.as_ref().is_some_and(|parts| !parts.unsent.is_empty()) {
            self.send_rest(index);
        } else if !self.secured.is_empty() {
            self.send_secured(index);
        }
    }

    fn connected(&mut self, index: usize) {
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        let Some(socket) = &connection.socket else { return };
        match socket.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => {
                return self.lose(index, Failure::new(FailureKind::Connect, describe(&error)));
            }
        }
        if let Some(config) = &group.access.tls {
            let turn = index % group.addresses.len().max(1);
            let Some(&address) = group.addresses.get(turn) else { return };
            match SecuredSocket::new(config, group.access.name_of(address)) {
                Ok(secured) => self.secured[index] = Some(Box::new(secured)),
                Err(error) => {
                    return self.lose(index, Failure::new(FailureKind::Connect, describe(&error)));
                }
            }
        }
        match &group.hello {
            Some(hello) => {
                self.outgoing.clear();
                self.outgoing.extend_from_slice(hello);
                connection.phase = Phase::Greeting;
                self.write_out(index);
            }
            None => self.ready(index),
        }
    }

    /// The reply to `hello`, or to a message of a login.
    pub(super) fn greeted(&mut self, index: usize, reply: &[u8]) {
        if self.logins.contains_key(&index) {
            return self.go_on_with_login(index, reply);
        }
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        let compressor = match agreed(reply, &group.compressors) {
            Ok(compressor) => compressor,
            Err(failure) => return self.lose(index, failure),
        };
        match (&group.access.identity, reply_body(reply)) {
            (Some(identity), Ok(greeting)) => {
                let steps = identity.begin(greeting, ambient::random_bytes);
                self.ask_login(index, Login { steps, compressor });
            }
            _ => {
                connection.compressor = compressor;
                self.ready(index);
            }
        }
    }

    /// Logins are never compressed.
    fn ask_login(&mut self, index: usize, login: Login) {
        self.outgoing.clear();
        self.outgoing.extend_from_slice(&encode(&login.steps.command()));
        self.logins.insert(index, login);
        self.write_out(index);
    }

    #[cold]
    fn go_on_with_login(&mut self, index: usize, reply: &[u8]) {
        let Some(mut login) = self.logins.remove(&index) else { return };
        let taken = reply_body(reply).map_err(|error| error.to_string());
        match taken.and_then(|body| login.steps.take(body).map_err(|refusal| refusal.to_string())) {
            Ok(false) => self.ask_login(index, login),
            Ok(true) => {
                self.connections[index].compressor = login.compressor;
                self.ready(index);
            }
            Err(problem) => self.lose(index, Failure::new(FailureKind::Connect, problem)),
        }
    }

    /// The connection can be used.
    fn ready(&mut self, index: usize) {
        let now = self.now();
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        self.in_flight -= 1;
        connection.phase = Phase::Idle;
        group.open += 1;
        group.counts.opened += 1;
        group.counts.reconnected += u64::from(connection.failures > 0);
        if connection.wanted {
            connection.wanted = false;
            let started = connection.started;
            self.send(index, started, now);
        } else {
            self.set_off(index, now, false);
        }
    }

    /// A connection ended or could not be made, and what was under way on it has failed.
    #[cold]
    pub(super) fn lose(&mut self, index: usize, failure: Failure) {
        let now = self.now();
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        self.in_flight -= usize::from(connection.is_busy());
        self.failed += 1;
        if connection.is_open() {
            group.open -= 1;
            group.counts.lost += 1;
        } else {
            group.counts.refused += 1;
        }
        if connection.phase == Phase::Waiting {
            group.traffic.lost(connection.ticket);
            group.count_failed(connection.ticket, failure, connection.started, now, self.span);
        } else {
            group.count_connection_error(failure, 1);
        }
        let tries_again = group.options.reconnect || group.is_short();
        connection.socket = None;
        connection.parts = None;
        connection.wanted = false;
        connection.failures = connection.failures.saturating_add(1);
        if tries_again && self.running {
            let rest = SHORTEST_REST << (connection.failures - 1).min(DOUBLINGS);
            self.wake_at(index, Phase::Resting, now + rest);
        } else if tries_again {
            connection.phase = Phase::Unmade;
        } else {
            connection.phase = Phase::Dead;
            group.alive -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn many_connections_are_spread_over_the_loopback_network() {
        let mut from: BTreeMap<Ipv4Addr, u32> = BTreeMap::new();
        for beyond in 0..40_000 {
            let address = further_address(beyond);
            assert!(address.is_loopback() && address != Ipv4Addr::LOCALHOST, "{address}");
            *from.entry(address).or_default() += 1;
        }
        assert!(from.values().all(|&count| u64::from(count) <= FROM_EACH_ADDRESS), "{from:?}");
    }

    #[test]
    fn connections_beyond_the_first_leave_from_further_addresses() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let check = |number, expect| {
            let _socket = connect(address, number).expect("begins to connect");
            let (_, from) = listener.accept().expect("a connection");
            assert_eq!(from.ip(), Ipv4Addr::from(expect), "connection {number}");
        };
        check(0, [127, 0, 0, 1]);
        check(FROM_USUAL_ADDRESS - 1, [127, 0, 0, 1]);
        check(FROM_USUAL_ADDRESS, [127, 0, 0, 2]);
        check(FROM_USUAL_ADDRESS + FROM_EACH_ADDRESS, [127, 0, 0, 3]);
    }
}
