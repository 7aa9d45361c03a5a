//! Making connections and losing them.

use super::{EVENTS, Generator, LONGEST_SLEEP, READ_BYTES};
use crate::error::BenchError;
use crate::generator::connection::{Phase, describe};
use crate::generator::handshake::agreed;
use crate::generator::traffic::{Failure, FailureKind};
use mio::net::TcpStream;
use mio::{Events, Interest, Token};
use std::collections::VecDeque;
use std::time::Duration;

/// Attempts to connect under way before a run: below what listeners queue.
const DIALS_AT_ONCE: usize = 256;
/// First pause of a connection that was lost or could not be made, in nanoseconds; each further failure doubles it …
const SHORTEST_REST: u64 = 10_000_000;
/// … so many times.
const DOUBLINGS: u8 = 7;
/// Longest wait for a connection and its handshake.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

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
            self.sweep();
        }
        self.publish();
        Ok(())
    }

    /// Begins to make a connection.
    pub(super) fn dial(&mut self, index: usize, now: u64) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        let turn = index % group.addresses.len().max(1);
        let Some(&address) = group.addresses.get(turn) else { return };
        connection.since = now;
        connection.phase = Phase::Connecting;
        connection.operations = 0;
        connection.compressor = None;
        connection.parts = None;
        self.in_flight += 1;
        let registry = self.poll.registry();
        let socket = TcpStream::connect(address).and_then(|mut socket| {
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
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.phase == Phase::Connecting {
            self.connected(index);
        } else if connection.parts.as_ref().is_some_and(|parts| !parts.unsent.is_empty()) {
            self.send_rest(index);
        }
    }

    fn connected(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(group) = self.groups.get(usize::from(connection.group)) else { return };
        let Some(socket) = &connection.socket else { return };
        match socket.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => {
                return self.lose(index, Failure::new(FailureKind::Connect, describe(&error)));
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

    /// The reply to `hello`.
    pub(super) fn greeted(&mut self, index: usize, reply: &[u8]) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(group) = self.groups.get(usize::from(connection.group)) else { return };
        match agreed(reply, &group.compressors) {
            Ok(compressor) => {
                connection.compressor = compressor;
                self.ready(index);
            }
            Err(failure) => self.lose(index, failure),
        }
    }

    /// The connection can be used.
    fn ready(&mut self, index: usize) {
        let now = self.now();
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
        self.in_flight -= 1;
        connection.phase = Phase::Idle;
        group.open += 1;
        group.counts.opened += 1;
        group.counts.reconnected += u64::from(connection.failures > 0);
        group.count_connecting(now.saturating_sub(connection.since));
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
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(group) = self.groups.get_mut(usize::from(connection.group)) else { return };
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
