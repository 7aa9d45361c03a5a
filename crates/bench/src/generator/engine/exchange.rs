//! Sending requests and taking replies.

use super::{Generator, pair};
use crate::generator::connection::{Phase, describe};
use crate::generator::spec::Pacing;
use crate::generator::traffic::{Failure, FailureKind, Verdict};
use crate::message::{HEADER_BYTES, announced_length};
use mio::net::TcpStream;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use wire::{Compressor, MAX_MESSAGE_SIZE, Message, MessageRef, compress_message, decompress_message};

/// Buffers of partial replies kept for the next one.
const SPARE_PARTS: usize = 64;
const OP_COMPRESSED: i32 = 2012;

/// Straight to the kernel: the C library's `send` and `recv` are points where a thread may be cancelled,
/// which costs a program with several threads two locked instructions a call.
#[inline]
fn write_to(socket: &TcpStream, bytes: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)
}

/// As [`write_to`].
#[inline]
fn read_from(socket: &TcpStream, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::empty()).map(|(_, count)| count)
}

/// The `i32` at this offset.
#[inline]
fn number_at(message: &[u8], offset: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*message.get(offset..)?.first_chunk()?))
}

impl Generator {
    /// Starts whatever a free connection is to do first or next.
    pub(super) fn set_off(&mut self, index: usize, now: u64, after_another: bool) {
        if !self.running {
            return;
        }
        let (_, group) = pair(&mut self.connections, &mut self.groups, index);
        match group.pacing {
            Pacing::Closed => {
                let start = group.next_start(now, after_another);
                if start > now {
                    self.wake_at(index, Phase::Thinking, start);
                } else {
                    self.start_closed(index, now);
                }
            }
            Pacing::Once if after_another => {}
            Pacing::Once => self.start_closed(index, now),
            Pacing::Open(_) => {
                let Some(schedule) = group.schedule.as_mut().filter(|_| self.allowance > 0) else { return };
                let Some(started) = schedule.take_due(now) else {
                    return group.idle.push_back(index as u32);
                };
                self.allowance -= 1;
                self.start(index, started, now);
            }
        }
    }

    /// The next operation of a closed loop, unless the run's time or its number of operations has been
    /// reached.
    #[inline]
    pub(super) fn start_closed(&mut self, index: usize, now: u64) {
        if now < self.span.sending_until && self.allowance > 0 {
            self.allowance -= 1;
            self.start(index, now, now);
        }
    }

    /// An operation that started or was to start at `started`, on a new connection if need be.
    #[inline]
    pub(super) fn start(&mut self, index: usize, started: u64, now: u64) {
        let connection = &mut self.connections[index];
        if connection.socket.is_some() {
            return self.send(index, started, now);
        }
        connection.wanted = true;
        connection.started = started;
        self.dial(index, now);
    }

    /// Sends an operation's first request.
    #[inline]
    pub(super) fn send(&mut self, index: usize, started: u64, now: u64) {
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        self.outgoing.clear();
        connection.ticket = group.traffic.next(&mut self.outgoing);
        connection.started = started;
        connection.since = now;
        connection.phase = Phase::Waiting;
        self.in_flight += 1;
        self.write_out(index);
    }

    /// Gives the request in `outgoing` its id and writes it.
    #[inline]
    pub(super) fn write_out(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let Some(socket) = &connection.socket else { return };
        self.last_request_id = self.last_request_id.wrapping_add(1);
        connection.request_id = self.last_request_id;
        if let Some(id) = self.outgoing.get_mut(4..8) {
            id.copy_from_slice(&self.last_request_id.to_le_bytes());
        }
        if let Some(compressor) = connection.compressor {
            compress(&mut self.outgoing, &mut self.converted, compressor);
        }
        if let Some(secured) = self.secured.get_mut(index).and_then(Option::as_mut) {
            if let Err(error) = secured.send(socket, &self.outgoing) {
                self.lose(index, Failure::new(FailureKind::Lost, describe(&error)));
            }
            return;
        }
        let taken = match write_to(socket, &self.outgoing) {
            Ok(count) => count,
            Err(Errno::WOULDBLOCK) => 0,
            Err(error) => return self.lose(index, Failure::new(FailureKind::Lost, describe(&error.into()))),
        };
        if let Some(rest) = self.outgoing.get(taken..).filter(|rest| !rest.is_empty()) {
            connection.parts.get_or_insert_default().unsent.extend_from_slice(rest);
        }
    }

    /// Sends what TLS has taken before, where it is spoken.
    pub(super) fn send_secured(&mut self, index: usize) {
        let secured = self.secured.get_mut(index).and_then(Option::as_mut);
        let (Some(secured), Some(socket)) = (secured, &self.connections[index].socket) else { return };
        if let Err(error) = secured.flush(socket) {
            self.lose(index, Failure::new(FailureKind::Lost, describe(&error)));
        }
    }

    pub(super) fn send_rest(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let (Some(parts), Some(socket)) = (&mut connection.parts, &connection.socket) else { return };
        match write_to(socket, &parts.unsent) {
            Ok(count) => drop(parts.unsent.drain(..count)),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => self.lose(index, Failure::new(FailureKind::Lost, describe(&error.into()))),
        }
    }

    /// Reads until the reply is whole or nothing more is there. Nothing follows a whole reply, so the socket
    /// need not be read dry: the next reply raises a new edge. Only the end of the connection may come with
    /// the last bytes: `ends`.
    pub(super) fn receive(&mut self, index: usize, scratch: &mut [u8], ends: bool) {
        loop {
            let connection = &mut self.connections[index];
            let Some(socket) = &connection.socket else { return };
            let received = match self.secured.get_mut(index).and_then(Option::as_mut) {
                None => read_from(socket, scratch).map_err(io::Error::from),
                Some(secured) => secured.receive(socket, scratch),
            };
            let count = match received {
                Ok(0) => return self.lose(index, Failure::new(FailureKind::Lost, "closed by the server")),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    let failed = match connection.phase {
                        Phase::Connecting => FailureKind::Connect,
                        _ => FailureKind::Lost,
                    };
                    let name = match error.kind() {
                        io::ErrorKind::InvalidData => format!("TLS: {error}"),
                        _ => describe(&error),
                    };
                    return self.lose(index, Failure::new(failed, name));
                }
            };
            if !matches!(connection.phase, Phase::Waiting | Phase::Greeting) {
                return self.lose(index, Failure::protocol("a reply that nobody asked for"));
            }
            let arrived = scratch.get(..count).unwrap_or_default();
            let has_part = connection.parts.as_ref().is_some_and(|parts| !parts.reply.is_empty());
            let emptied = if !has_part && announced_length(arrived) == Some(count) {
                self.complete(index, arrived);
                true
            } else {
                // What is opened record by record says nothing of what else has come.
                self.add_part(index, arrived) || (count < scratch.len() && self.secured.is_empty())
            };
            if emptied && (!ends || self.is_made_anew(index)) {
                return;
            }
        }
    }

    /// Whether a connection's socket is no longer the one that was just read.
    fn is_made_anew(&self, index: usize) -> bool {
        let phase = self.connections[index].phase;
        !matches!(phase, Phase::Idle | Phase::Waiting | Phase::Thinking | Phase::Greeting)
    }

    /// Keeps a part of a reply; true when it made the reply whole or the connection's last.
    fn add_part(&mut self, index: usize, arrived: &[u8]) -> bool {
        let connection = &mut self.connections[index];
        let spare = &mut self.spare_parts;
        let parts = connection.parts.get_or_insert_with(|| spare.pop().unwrap_or_default());
        parts.reply.extend_from_slice(arrived);
        let Some(announced) = announced_length(&parts.reply) else { return false };
        if !(HEADER_BYTES..=MAX_MESSAGE_SIZE).contains(&announced) {
            self.lose(index, Failure::protocol("a reply of an impossible length"));
            return true;
        }
        if announced > parts.reply.len() {
            return false;
        }
        if announced < parts.reply.len() {
            self.lose(index, Failure::protocol("more bytes than one reply"));
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

    /// A whole message has come.
    #[inline]
    fn complete(&mut self, index: usize, message: &[u8]) {
        let connection = &self.connections[index];
        if number_at(message, 8) != Some(connection.request_id) {
            return self.lose(index, Failure::protocol("a reply to another request"));
        }
        if number_at(message, 12) == Some(OP_COMPRESSED) {
            return self.complete_compressed(index, message);
        }
        self.judge(index, message);
    }

    #[cold]
    fn complete_compressed(&mut self, index: usize, message: &[u8]) {
        let buffer = std::mem::take(&mut self.converted);
        let decompressed = MessageRef::parse(message, MAX_MESSAGE_SIZE)
            .and_then(|message| decompress_message(message, MAX_MESSAGE_SIZE, buffer));
        match decompressed {
            Ok((message, _)) => {
                self.judge(index, message.bytes());
                self.converted = message.into_bytes();
            }
            Err(_) => self.lose(index, Failure::protocol("a reply that cannot be decompressed")),
        }
    }

    #[inline]
    fn judge(&mut self, index: usize, reply: &[u8]) {
        let now = self.now();
        let (connection, group) = pair(&mut self.connections, &mut self.groups, index);
        if connection.phase == Phase::Greeting {
            return self.greeted(index, reply);
        }
        self.outgoing.clear();
        match group.traffic.judge(&mut connection.ticket, reply, &mut self.outgoing) {
            Verdict::Done => {
                self.done += 1;
                connection.failures = 0;
                group.count_done(connection.ticket, reply.len(), connection.started, now, self.span);
            }
            Verdict::Again => {
                connection.since = now;
                return self.write_out(index);
            }
            Verdict::Failed(failure) => {
                self.failed += 1;
                group.count_failed(connection.ticket, failure, connection.started, now, self.span);
            }
        }
        self.in_flight -= 1;
        connection.phase = Phase::Idle;
        connection.operations = connection.operations.saturating_add(1);
        if group.has_served(connection.operations) {
            connection.socket = None;
            connection.phase = Phase::Unmade;
            group.open -= 1;
        }
        self.set_off(index, now, true);
    }
}

/// Puts the compressed message in the place of the message. One that cannot be compressed stays as it is,
/// which servers accept.
#[cold]
fn compress(outgoing: &mut Vec<u8>, converted: &mut Vec<u8>, compressor: Compressor) {
    let compressed = Message::from_bytes(outgoing.clone(), MAX_MESSAGE_SIZE)
        .and_then(|message| compress_message(&message, compressor, std::mem::take(converted)));
    if let Ok(message) = compressed {
        *converted = std::mem::replace(outgoing, message.into_bytes());
    }
}
