//! One connection, one command at a time: for loading data and for tests that must not hide behind a driver.

use crate::error::BenchError;
use crate::message::{announced_length, encode, reply_body};
use document::{Document, Value};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What servers call `maxMessageSizeBytes`.
const LONGEST_MESSAGE: usize = 48_000_000;

/// A blocking client without pooling, retries or monitoring.
#[derive(Debug)]
pub struct CommandClient {
    socket: TcpStream,
}

impl CommandClient {
    /// Connects; nothing is sent yet.
    ///
    /// # Errors
    /// When the connection is refused.
    pub fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        let socket = TcpStream::connect(address).map_err(BenchError::io("connect"))?;
        socket.set_nodelay(true).map_err(BenchError::io("set TCP_NODELAY"))?;
        Ok(CommandClient { socket })
    }

    /// Connects, unless it takes longer than this; replies are waited for no longer either.
    ///
    /// # Errors
    /// When the connection is refused or nobody answers.
    pub(crate) fn connect_within(address: SocketAddr, timeout: Duration) -> Result<Self, BenchError> {
        let socket = TcpStream::connect_timeout(&address, timeout).map_err(BenchError::io("connect"))?;
        socket.set_nodelay(true).map_err(BenchError::io("set TCP_NODELAY"))?;
        let client = CommandClient { socket };
        client.set_timeout(Some(timeout))?;
        Ok(client)
    }

    /// Ends the connection from another thread: a reply that is being waited for becomes an error.
    pub(crate) fn closer(&self) -> Result<TcpStream, BenchError> {
        self.socket.try_clone().map_err(BenchError::io("share a connection"))
    }

    /// Bounds how long a reply is waited for; `None` waits for ever.
    ///
    /// # Errors
    /// When the system refuses the time-out.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), BenchError> {
        self.socket.set_read_timeout(timeout).map_err(BenchError::io("set a time-out"))
    }

    /// Sends a command, `$db` included, and returns the whole reply, be it `ok` or not.
    ///
    /// # Errors
    /// When the connection ends or the reply is not an OP_MSG.
    pub fn command(&mut self, command: &Document) -> Result<Document, BenchError> {
        let reply = self.exchange(&encode(command))?;
        Ok(reply_body(&reply)?.to_document())
    }

    /// Sends a whole message and returns the whole reply.
    ///
    /// # Errors
    /// When the connection ends or the reply announces an impossible length.
    pub(crate) fn exchange(&mut self, message: &[u8]) -> Result<Vec<u8>, BenchError> {
        self.socket.write_all(message).map_err(BenchError::io("send a command"))?;
        let mut head = [0; 4];
        self.socket.read_exact(&mut head).map_err(BenchError::io("receive a reply"))?;
        let length = announced_length(&head).unwrap_or_default();
        if length > LONGEST_MESSAGE {
            let found = format!("a message of {length} bytes");
            return Err(BenchError::Protocol { expected: "at most 48,000,000 bytes", found });
        }
        let mut reply = vec![0; length.max(head.len())];
        let (start, rest) = reply.split_at_mut(head.len());
        start.copy_from_slice(&head);
        self.socket.read_exact(rest).map_err(BenchError::io("receive a reply"))?;
        Ok(reply)
    }
}

/// Whether a command was carried out.
pub(crate) fn is_ok(reply: &Document) -> bool {
    matches!(
        reply.get("ok"),
        Some(Value::Double(1.0) | Value::Int32(1) | Value::Int64(1) | Value::Boolean(true))
    )
}

/// What a server says went wrong.
pub(crate) fn message_of(reply: &Document) -> String {
    reply.get("errmsg").and_then(Value::as_str).map_or_else(|| format!("{reply:?}"), str::to_owned)
}
