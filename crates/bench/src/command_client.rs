//! One connection, one command at a time: for loading data and for tests that must not hide behind a driver.

use crate::error::BenchError;
use crate::message::{announced_length, encode, reply_body};
use crate::security::{ServerAccess, ServerPlace};
use document::{Document, Value, doc};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// What servers call `maxMessageSizeBytes`.
const LONGEST_MESSAGE: usize = 48_000_000;

/// A blocking client without pooling, retries or monitoring.
#[derive(Debug)]
pub struct CommandClient {
    stream: ClientStream,
}

/// A connection's bytes, in clear or not.
#[derive(Debug)]
enum ClientStream {
    Clear(TcpStream),
    Secured(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl ClientStream {
    fn socket(&self) -> &TcpStream {
        match self {
            ClientStream::Clear(socket) => socket,
            ClientStream::Secured(stream) => &stream.sock,
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            ClientStream::Clear(socket) => socket.write_all(bytes),
            ClientStream::Secured(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            ClientStream::Clear(socket) => socket.read_exact(bytes),
            ClientStream::Secured(stream) => stream.read_exact(bytes),
        }
    }
}

impl CommandClient {
    /// Connects; nothing is sent yet.
    ///
    /// # Errors
    /// When the connection is refused.
    pub fn connect(address: SocketAddr) -> Result<Self, BenchError> {
        let socket = TcpStream::connect(address).map_err(BenchError::io("connect"))?;
        socket.set_nodelay(true).map_err(BenchError::io("set TCP_NODELAY"))?;
        Ok(CommandClient { stream: ClientStream::Clear(socket) })
    }

    /// Connects as the place wants it, unless it takes longer than this; replies are waited for no longer
    /// either.
    ///
    /// # Errors
    /// When the connection is refused, nobody answers, or a login comes to nothing.
    pub(crate) fn connect_within(
        place: impl Into<ServerPlace>,
        timeout: Duration,
    ) -> Result<Self, BenchError> {
        let ServerPlace { address, access } = place.into();
        let socket = TcpStream::connect_timeout(&address, timeout).map_err(BenchError::io("connect"))?;
        socket.set_nodelay(true).map_err(BenchError::io("set TCP_NODELAY"))?;
        let stream = match &access.tls {
            None => ClientStream::Clear(socket),
            Some(config) => {
                let connection = ClientConnection::new(config.clone(), access.name_of(address));
                let connection = connection.map_err(|error| BenchError::Usage(format!("TLS: {error}")))?;
                ClientStream::Secured(Box::new(StreamOwned::new(connection, socket)))
            }
        };
        let mut client = CommandClient { stream };
        client.set_timeout(Some(timeout))?;
        client.log_in(&access)?;
        Ok(client)
    }

    fn log_in(&mut self, access: &ServerAccess) -> Result<(), BenchError> {
        let Some(identity) = &access.identity else { return Ok(()) };
        let mut hello = doc! { "hello": 1, "$db": "admin" };
        if let Some(user) = identity.asks_mechanisms_of() {
            hello.push("saslSupportedMechs", user);
        }
        let greeting = self.command(&hello)?.to_buf();
        let mut steps = identity.begin(greeting.as_raw(), ambient::random_bytes);
        loop {
            let reply = self.command(&steps.command())?.to_buf();
            let refused =
                |refusal: access::LoginRefusal| BenchError::NotLoggedIn { problem: refusal.to_string() };
            if steps.take(reply.as_raw()).map_err(refused)? {
                return Ok(());
            }
        }
    }

    /// Ends the connection from another thread: a reply that is being waited for becomes an error.
    pub(crate) fn closer(&self) -> Result<TcpStream, BenchError> {
        self.stream.socket().try_clone().map_err(BenchError::io("share a connection"))
    }

    /// Bounds how long a reply is waited for; `None` waits for ever.
    ///
    /// # Errors
    /// When the system refuses the time-out.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), BenchError> {
        self.stream.socket().set_read_timeout(timeout).map_err(BenchError::io("set a time-out"))
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
        self.stream.write_all(message).map_err(BenchError::io("send a command"))?;
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).map_err(BenchError::io("receive a reply"))?;
        let length = announced_length(&head).unwrap_or_default();
        if length > LONGEST_MESSAGE {
            let found = format!("a message of {length} bytes");
            return Err(BenchError::Protocol { expected: "at most 48,000,000 bytes", found });
        }
        let mut reply = vec![0; length.max(head.len())];
        let (start, rest) = reply.split_at_mut(head.len());
        start.copy_from_slice(&head);
        self.stream.read_exact(rest).map_err(BenchError::io("receive a reply"))?;
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
