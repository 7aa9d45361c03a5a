//! The echo on one thread with one epoll, as a C programmer would write it.

use crate::error::BenchError;
use crate::message::announced_length;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};

const READ_BYTES: usize = 64 * 1024;
const EVENTS: usize = 1_024;
const LISTENER: Token = Token(usize::MAX);

struct Connection {
    socket: TcpStream,
    /// The part of a request that has come.
    partial: Vec<u8>,
    /// The part of a reply that the socket did not take.
    unsent: Vec<u8>,
}

pub(crate) fn serve(listener: std::net::TcpListener, mut reply: Vec<u8>) -> Result<(), BenchError> {
    listener.set_nonblocking(true).map_err(BenchError::io("make a socket non-blocking"))?;
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new().map_err(BenchError::io("create an epoll instance"))?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)
        .map_err(BenchError::io("register a socket"))?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free = Vec::new();
    let mut events = Events::with_capacity(EVENTS);
    let mut scratch = vec![0; READ_BYTES];
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other.map_err(BenchError::io("wait for events"))?,
        }
        for event in &events {
            let Token(index) = event.token();
            if event.token() == LISTENER {
                accept_all(&listener, &poll, &mut connections, &mut free)
                    .map_err(BenchError::io("accept"))?;
            } else if let Some(place) = connections.get_mut(index)
                && let Some(connection) = place
                && !connection.serve(event, &mut scratch, &mut reply)
            {
                *place = None;
                free.push(index);
            }
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    poll: &Poll,
    connections: &mut Vec<Option<Connection>>,
    free: &mut Vec<usize>,
) -> io::Result<()> {
    loop {
        let mut socket = match listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        socket.set_nodelay(true)?;
        let index = free.pop().unwrap_or_else(|| {
            connections.push(None);
            connections.len() - 1
        });
        poll.registry().register(&mut socket, Token(index), Interest::READABLE | Interest::WRITABLE)?;
        if let Some(place) = connections.get_mut(index) {
            *place = Some(Connection { socket, partial: Vec::new(), unsent: Vec::new() });
        }
    }
}

impl Connection {
    /// Does what the event allows; false when the connection has ended.
    fn serve(&mut self, event: &Event, scratch: &mut [u8], reply: &mut [u8]) -> bool {
        let sent = self.unsent.is_empty() || !event.is_writable() || self.send_rest();
        sent && (!(event.is_readable() || event.is_read_closed()) || self.receive(scratch, reply))
    }

    fn receive(&mut self, scratch: &mut [u8], reply: &mut [u8]) -> bool {
        loop {
            let count = match self.socket.read(scratch) {
                Ok(0) => return false,
                Ok(count) => count,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            let arrived = scratch.get(..count).unwrap_or_default();
            let answered = if self.partial.is_empty() && announced_length(arrived) == Some(count) {
                super::address(reply, arrived);
                self.send(reply)
            } else {
                self.answer_parts(arrived, reply)
            };
            // After a read that did not fill the buffer the next bytes raise a new edge.
            if !answered || count < scratch.len() {
                return answered;
            }
        }
    }

    /// Requests that came in parts, or several at once.
    fn answer_parts(&mut self, arrived: &[u8], reply: &mut [u8]) -> bool {
        self.partial.extend_from_slice(arrived);
        while let Some(length) =
            announced_length(&self.partial).filter(|&length| length <= self.partial.len())
        {
            super::address(reply, &self.partial);
            // A length of zero would never end.
            if length == 0 || !self.send(reply) {
                return false;
            }
            self.partial.drain(..length);
        }
        true
    }

    fn send(&mut self, reply: &[u8]) -> bool {
        let taken = if self.unsent.is_empty() {
            match self.socket.write(reply) {
                Ok(taken) => taken,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(_) => return false,
            }
        } else {
            0
        };
        self.unsent.extend_from_slice(reply.get(taken..).unwrap_or_default());
        true
    }

    fn send_rest(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.socket.write(&self.unsent) {
                Ok(taken) => drop(self.unsent.drain(..taken)),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }
}
