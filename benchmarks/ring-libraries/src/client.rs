//! The load: one thread, one epoll, one outstanding request on every connection.

use crate::message::{self, HEADER_BYTES};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REQUEST_ID: i32 = 7;
const READ_BYTES: usize = 64 * 1024;
const EVENTS: usize = 1024;
const WARM_UP: Duration = Duration::from_millis(500);
/// Patience with a server that takes a connection or answers a single request.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait before the interrupt is looked at.
const TICK: Duration = Duration::from_millis(100);

/// What is asked of a server.
pub(crate) struct Load<'a> {
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    pub(crate) reply_bytes: usize,
    pub(crate) interrupt: &'a AtomicBool,
}

struct Connection {
    socket: TcpStream,
    /// Bytes of the reply that have not come yet.
    missing: usize,
    answered: bool,
}

/// One request on a connection of its own: is the answer what the load will count?
pub(crate) fn check_answer(
    mut socket: std::net::TcpStream,
    reply_bytes: usize,
) -> Result<(), Box<dyn Error>> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(&message::op_msg(message::REQUEST_BYTES, REQUEST_ID))?;
    let mut reply = vec![0; reply_bytes];
    socket.read_exact(&mut reply).map_err(|error| format!("no reply of {reply_bytes} bytes: {error}"))?;
    match message::first(&reply)? {
        Some(header)
            if header.bytes == reply_bytes && header.response_to == REQUEST_ID && header.is_op_msg() =>
        {
            Ok(())
        }
        header => Err(format!(
            "expected an OP_MSG of {reply_bytes} bytes that answers request {REQUEST_ID}, got {header:?}"
        )
        .into()),
    }
}

impl Load<'_> {
    /// Replies per second, after a warm-up.
    ///
    /// # Errors
    ///
    /// When a connection fails or has got no reply in all the time.
    pub(crate) fn rate(&self, address: SocketAddr) -> Result<f64, Box<dyn Error>> {
        let mut poll = Poll::new()?;
        let mut connections = self.connect(&poll, address)?;
        let request = message::op_msg(message::REQUEST_BYTES, REQUEST_ID);
        for connection in &mut connections {
            connection.socket.write_all(&request)?;
        }
        self.exchange(&mut poll, &mut connections, &request, Instant::now() + WARM_UP)?;
        let begun = Instant::now();
        let replies = self.exchange(&mut poll, &mut connections, &request, begun + self.duration)?;
        let rate = replies as f64 / begun.elapsed().as_secs_f64();
        match connections.iter().filter(|connection| !connection.answered).count() {
            0 if replies > 0 => Ok(rate),
            0 => Err("no reply in the time measured".into()),
            count => Err(format!("{count} of {} connections got no reply", self.connections).into()),
        }
    }

    fn connect(&self, poll: &Poll, address: SocketAddr) -> Result<Vec<Connection>, Box<dyn Error>> {
        let mut connections = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            self.check_interrupt()?;
            let socket = std::net::TcpStream::connect_timeout(&address, PATIENCE)
                .map_err(|error| format!("connection {}: {error}", index + 1))?;
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            let mut socket = TcpStream::from_std(socket);
            poll.registry().register(&mut socket, Token(index), Interest::READABLE)?;
            connections.push(Connection { socket, missing: self.reply_bytes, answered: false });
        }
        Ok(connections)
    }

    /// Sends until the time has come; returns the number of replies.
    fn exchange(
        &self,
        poll: &mut Poll,
        connections: &mut [Connection],
        request: &[u8],
        end: Instant,
    ) -> Result<u64, Box<dyn Error>> {
        let mut events = Events::with_capacity(EVENTS);
        let mut buffer = vec![0; READ_BYTES.max(self.reply_bytes)];
        let mut replies = 0;
        while Instant::now() < end {
            self.check_interrupt()?;
            match poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            for event in &events {
                let Some(connection) = connections.get_mut(event.token().0) else { continue };
                if connection.receive(&mut buffer, self.reply_bytes)? {
                    replies += 1;
                    connection.socket.write_all(request)?;
                }
            }
        }
        Ok(replies)
    }

    fn check_interrupt(&self) -> Result<(), Box<dyn Error>> {
        if self.interrupt.load(Ordering::Relaxed) { Err("interrupted".into()) } else { Ok(()) }
    }
}

impl Connection {
    /// Reads what has come; says whether the reply is complete. The buffer has room for all of it: one
    /// request is outstanding.
    fn receive(&mut self, buffer: &mut [u8], reply_bytes: usize) -> Result<bool, Box<dyn Error>> {
        let count = match self.socket.read(buffer) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if self.missing == reply_bytes && count >= HEADER_BYTES {
            let length = buffer.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
            if length != reply_bytes {
                return Err(format!("expected a reply of {reply_bytes} bytes, got one of {length}").into());
            }
        }
        let missing = self.missing.checked_sub(count).ok_or("more bytes came than the reply has")?;
        self.missing = if missing == 0 { reply_bytes } else { missing };
        self.answered |= missing == 0;
        Ok(missing == 0)
    }
}
