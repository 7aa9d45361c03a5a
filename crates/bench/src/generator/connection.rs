//! One connection of the generator. Tens of thousands of them share a cache, so each fits in one of its
//! lines.

use crate::error::BenchError;
use crate::generator::traffic::Ticket;
use mio::net::TcpStream;
use std::io;
use wire::Compressor;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not made yet, or closed after its operations; the next operation makes it.
    Unmade,
    Connecting,
    /// Its `hello` is under way.
    Greeting,
    /// Open, nothing sent.
    Idle,
    /// A request is under way.
    Waiting,
    /// Open; it sends when its time has come.
    Thinking,
    /// Not open; it is made when its time has come.
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
#[repr(align(64))]
pub(crate) struct Connection {
    pub(crate) socket: Option<TcpStream>,
    pub(crate) request_id: i32,
    pub(crate) group: u16,
    pub(crate) phase: Phase,
    /// Whether an operation waits for the connection to be made.
    pub(crate) wanted: bool,
    /// When the operation under way started or was to start, in nanoseconds of the generator's clock; while
    /// thinking or resting, when that ends.
    pub(crate) started: u64,
    /// When connecting, greeting or the request under way began.
    pub(crate) since: u64,
    pub(crate) ticket: Ticket,
    pub(crate) parts: Option<Box<Parts>>,
    /// Operations since it was made.
    pub(crate) operations: u32,
    /// Failures since an operation succeeded.
    pub(crate) failures: u8,
    pub(crate) compressor: Option<Compressor>,
}

// In debug builds mio notes with each socket which epoll instance it belongs to.
#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Connection>() == 64, "a connection is one line of the cache");

impl Connection {
    pub(crate) const fn new(group: u16) -> Self {
        Connection {
            socket: None,
            request_id: 0,
            group,
            phase: Phase::Unmade,
            wanted: false,
            started: 0,
            since: 0,
            ticket: Ticket { kind: 0, step: 0, key: 0 },
            parts: None,
            operations: 0,
            failures: 0,
            compressor: None,
        }
    }

    /// Whether the server has accepted it.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Waiting | Phase::Thinking)
    }

    /// Whether something is under way that ends by itself or by a time-out.
    pub(crate) const fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Greeting | Phase::Waiting)
    }
}

/// How a failure is named in the counts.
pub(crate) fn describe(error: &io::Error) -> String {
    error.kind().to_string()
}

/// Refuses more connections than descriptors.
pub(crate) fn check_descriptors(connections: usize) -> Result<(), BenchError> {
    /// Standard streams, epoll, timers, pipes to children.
    const RESERVE: u64 = 64;
    let limit = crate::process::raise_descriptor_limit();
    if connections as u64 + RESERVE > limit {
        return Err(BenchError::Usage(format!(
            "{connections} connections need {} descriptors, and this process may have {limit}; raise \
             `ulimit -n` or use several processes",
            connections as u64 + RESERVE
        )));
    }
    Ok(())
}
