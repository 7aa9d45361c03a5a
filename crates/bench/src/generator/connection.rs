//! One connection of the generator. Tens of thousands of them share a cache, so each is small.

use crate::error::BenchError;
use mio::net::TcpStream;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Longest wait for one connection before measuring begins.
const CONNECT: Duration = Duration::from_secs(10);

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Open, nothing sent.
    Idle,
    /// Connecting in the course of a run.
    Connecting,
    /// A request is under way.
    Waiting,
    /// Failed; it tries again after a pause.
    Resting,
    /// Failed or refused for good.
    Dead,
}

/// Parts of messages; most connections have none.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The part of a reply that has come, when it did not come in one read.
    pub(crate) reply: Vec<u8>,
    /// The part of a request that the socket did not take.
    pub(crate) unsent: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Option<TcpStream>,
    pub(crate) least_reply_bytes: u32,
    pub(crate) group: u16,
    pub(crate) phase: Phase,
    /// When the request under way started or was to start, in nanoseconds of the generator's clock.
    pub(crate) started: u64,
    pub(crate) parts: Option<Box<Parts>>,
}

impl Connection {
    pub(crate) const fn new(group: u16, socket: Option<TcpStream>, phase: Phase) -> Self {
        Connection { socket, least_reply_bytes: 0, group, phase, started: 0, parts: None }
    }
}

/// Connects and waits for it: the listener's backlog sets the pace, and nothing is measured yet.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = std::net::TcpStream::connect_timeout(&address, CONNECT)?;
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    Ok(TcpStream::from_std(socket))
}

/// How a failure is named in the counts.
pub(crate) fn describe(error: &io::Error) -> String {
    error.kind().to_string()
}

/// Refuses more connections than descriptors.
pub(crate) fn check_descriptors(connections: usize) -> Result<(), BenchError> {
    /// Standard streams, epoll, timers, pipes to children.
    const RESERVE: u64 = 64;
    let limit = crate::limits::raise_descriptor_limit();
    if connections as u64 + RESERVE > limit {
        return Err(BenchError::Usage(format!(
            "{connections} connections need {} descriptors, and this process may have {limit}; raise `ulimit -n`",
            connections as u64 + RESERVE
        )));
    }
    Ok(())
}
