//! One connection to another member.

use super::login::log_in;
use super::secure::MemberStream;
use super::{NetworkOptions, left_until};
use crate::peers::PeerError;
use access::LoginIdentity;
use document::{DocumentBuf, RawDocument, doc};
use parking_lot::Mutex;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Instant;
use wire::{CommandMessage, HEADER_LENGTH, MAX_MESSAGE_SIZE, MessageHeader, MessageRef, parse_reply};

/// Where a host listens that names no port.
const USUAL_PORT: u16 = 27_017;

/// The socket that a thread uses, so that another one can end it.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<HeldState>);

#[derive(Debug, Default)]
struct HeldState {
    socket: Option<TcpStream>,
    stopped: bool,
}

impl Held {
    /// Ends the connection, and every later one at its beginning.
    pub(super) fn stop(&self) {
        let mut state = self.0.lock();
        state.stopped = true;
        if let Some(socket) = &state.socket {
            // Where it is over already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.lock().stopped
    }

    fn hold(&self, socket: TcpStream) -> Result<(), PeerError> {
        let mut state = self.0.lock();
        if state.stopped {
            return Err(PeerError::Stopped);
        }
        state.socket = Some(socket);
        Ok(())
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Envelopes: the other member serves it by a thread of its own, for much may come.
    Envelopes,
    /// Questions, which are quick.
    Questions,
}

/// A connection that has been greeted.
#[derive(Debug)]
pub(super) struct Connection {
    host: String,
    stream: MemberStream,
    last_request: i32,
}

impl Connection {
    /// Looks the name up, connects to the first address that takes it until `connected`, greets and logs in,
    /// until `greeted`.
    pub(super) fn open(
        host: &str,
        connected: Instant,
        greeted: Instant,
        options: &NetworkOptions,
        held: &Held,
        purpose: Purpose,
    ) -> Result<Self, PeerError> {
        let untaken_limit = options.untaken_limit;
        let unreachable = |error: io::Error| failure(host, &error);
        let socket = connect(host, connected).map_err(unreachable)?;
        let prepare = || -> io::Result<TcpStream> {
            socket.set_nodelay(true)?;
            socket.set_write_timeout(Some(untaken_limit))?;
            SockRef::from(&socket).set_tcp_user_timeout(Some(untaken_limit))?;
            socket.try_clone()
        };
        held.hold(prepare().map_err(unreachable)?)?;
        let stream = match &options.tls {
            None => MemberStream::Clear(socket),
            Some(tls) => MemberStream::secure(socket, tls, host, greeted).map_err(unreachable)?,
        };
        let mut connection = Connection { host: host.to_owned(), stream, last_request: 0 };
        let login = options.login.as_ref();
        let answer = connection.exchange(greeting(purpose, login).as_raw(), greeted)?;
        if let Some(login) = login {
            match log_in(login, &mut connection, answer.as_raw(), greeted) {
                Err(PeerError::NotLoggedIn { .. }) if options.login_is_optional => {}
                logged_in => logged_in?,
            }
        }
        Ok(connection)
    }

    /// Whom it is to.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Sends a command and waits for its reply.
    pub(super) fn exchange(
        &mut self,
        command: RawDocument<'_>,
        deadline: Instant,
    ) -> Result<DocumentBuf, PeerError> {
        self.last_request = self.last_request.wrapping_add(1);
        let message = CommandMessage::new(command).finish(self.last_request);
        self.write(message.bytes())?;
        let reply = self.receive(deadline)?;
        let reply = MessageRef::parse(&reply, MAX_MESSAGE_SIZE).map_err(|error| self.garbled(error))?;
        if reply.header().response_to != self.last_request {
            return Err(self.garbled("it answers another request"));
        }
        parse_reply(reply).map(RawDocument::to_buf).map_err(|error| self.garbled(error))
    }

    /// Sends bytes. What a member does not take within the limit ends the connection.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PeerError> {
        self.stream.write_all(bytes).map_err(|error| failure(&self.host, &error))
    }

    /// Whether the other side has ended the connection, or says something that nobody has asked.
    pub(super) fn is_over(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let received = SockRef::from(self.stream.socket()).recv_with_flags(&mut byte, libc::MSG_DONTWAIT);
        !matches!(received, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn receive(&mut self, deadline: Instant) -> Result<Vec<u8>, PeerError> {
        let mut message = Vec::new();
        self.receive_up_to(HEADER_LENGTH, &mut message, deadline)?;
        let header = MessageHeader::parse(&message, MAX_MESSAGE_SIZE).map_err(|error| self.garbled(error))?;
        let header = header.ok_or_else(|| self.garbled("it ends in its header"))?;
        self.receive_up_to(header.length, &mut message, deadline)?;
        Ok(message)
    }

    /// Memory grows with what has come, whatever was announced.
    fn receive_up_to(
        &mut self,
        length: usize,
        message: &mut Vec<u8>,
        deadline: Instant,
    ) -> Result<(), PeerError> {
        const PIECE: usize = 64 << 10;
        while message.len() < length {
            let left = left_until(deadline);
            if left.is_zero() {
                return Err(PeerError::TimedOut { host: self.host.clone() });
            }
            let begin = message.len();
            message.resize(length.min(begin + PIECE), 0);
            let (_, piece) = message.split_at_mut(begin);
            let limited = self.stream.socket().set_read_timeout(Some(left));
            let received = limited.and_then(|()| self.stream.read(piece));
            let count = match received {
                Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                other => other,
            };
            message.truncate(begin + count.as_ref().copied().unwrap_or(0));
            count.map_err(|error| failure(&self.host, &error))?;
        }
        Ok(())
    }

    fn garbled(&self, reason: impl ToString) -> PeerError {
        PeerError::Garbled { host: self.host.clone(), reason: reason.to_string() }
    }
}

fn failure(host: &str, error: &io::Error) -> PeerError {
    let host = host.to_owned();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => PeerError::TimedOut { host },
        io::ErrorKind::UnexpectedEof => {
            PeerError::Unreachable { host, reason: "Connection closed by peer".to_owned() }
        }
        _ => PeerError::Unreachable { host, reason: error.to_string() },
    }
}

fn connect(host: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut latest = io::Error::new(io::ErrorKind::NotFound, "Could not find address");
    for address in addresses(host)? {
        let left = left_until(deadline);
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => latest = error,
        }
    }
    Err(latest)
}

/// May take as long as the system's look-up of names does.
fn addresses(host: &str) -> io::Result<impl Iterator<Item = SocketAddr>> {
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { host.to_socket_addrs() } else { (host, USUAL_PORT).to_socket_addrs() }
}

/// Who we are, for the other member's log and `currentOp`, and what for.
fn greeting(purpose: Purpose, login: Option<&LoginIdentity>) -> DocumentBuf {
    let client = doc! {
        "application": { "name": "replication" },
        "driver": { "name": "Heddle", "version": (env!("CARGO_PKG_VERSION")) },
        "os": { "type": "Linux" },
    };
    let mut greeting = doc! { "hello": 1, "client": (client), "$db": "admin" };
    if purpose == Purpose::Envelopes {
        greeting.push("_heddleMember", true);
    }
    if let Some(user) = login.and_then(LoginIdentity::asks_mechanisms_of) {
        greeting.push("saslSupportedMechs", user);
    }
    greeting.to_buf()
}
