//! One client connection as the rest of the server sees it.

use crate::Endpoint;
use crate::registry::Shared;
use crate::statistics::SessionCounters;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use wire::Compressor;

/// What the connection loop does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Waiting for a request or the rest of one.
    Receiving = 0,
    /// The service works on a request.
    Processing = 1,
    /// A reply is on its way.
    Sending = 2,
    /// The loop has ended.
    Ended = 3,
}

/// What can be done to a connection's socket from outside its loop.
pub trait SessionControl: Send + Sync {
    /// Shuts the read half: the loop sees end-of-file once it has read what came before.
    fn shutdown_read(&self);
    /// Shuts both halves: a blocked send fails as well.
    fn shutdown_both(&self);
    /// Whether the client has closed its side, found out without reading.
    fn peer_closed(&self) -> bool;
}

/// One client connection.
pub struct Session {
    id: u64,
    peer: Endpoint,
    local: Endpoint,
    priority: bool,
    opened_at: Instant,
    control: Box<dyn SessionControl>,
    phase: AtomicU8,
    ending: AtomicBool,
    /// Bit n: the compressor with id n was agreed on.
    compressors: AtomicU8,
    next_message_id: AtomicU32,
    extension: OnceLock<Box<dyn Any + Send + Sync>>,
    pub(crate) counters: SessionCounters,
    pub(crate) shared: Arc<Shared>,
}

impl Session {
    pub(crate) fn new(
        id: u64,
        peer: Endpoint,
        local: Endpoint,
        control: Box<dyn SessionControl>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            id,
            peer,
            local,
            priority: false,
            opened_at: Instant::now(),
            control,
            phase: AtomicU8::new(Phase::Receiving as u8),
            ending: AtomicBool::new(false),
            compressors: AtomicU8::new(0),
            next_message_id: AtomicU32::new(0),
            extension: OnceLock::new(),
            counters: SessionCounters::default(),
            shared,
        }
    }

    /// Numbered from 1 in the order of arrival; `connectionId` in replies to `hello`.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The client's address.
    #[must_use]
    pub const fn peer(&self) -> &Endpoint {
        &self.peer
    }

    /// The address the client connected to.
    #[must_use]
    pub const fn local(&self) -> &Endpoint {
        &self.local
    }

    /// Whether the session is on the diagnostic lane, which is never queued behind user work.
    #[must_use]
    pub const fn is_priority(&self) -> bool {
        self.priority
    }

    /// When the connection was accepted.
    #[must_use]
    pub const fn opened_at(&self) -> Instant {
        self.opened_at
    }

    /// What the loop does at the moment; a snapshot.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Receiving,
            1 => Phase::Processing,
            2 => Phase::Sending,
            _ => Phase::Ended,
        }
    }

    #[inline]
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Ends the session: what runs is answered, nothing more is read.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.control.shutdown_read();
    }

    /// Ends the session without waiting for a client that does not take its reply.
    pub fn abort(&self) {
        self.ending.store(true, Ordering::Release);
        self.control.shutdown_both();
    }

    /// Whether [`Session::end`] or [`Session::abort`] was called.
    #[inline]
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Whether the client has closed its side. One system call: meant for operations that run long.
    #[must_use]
    pub fn peer_closed(&self) -> bool {
        self.control.peer_closed()
    }

    /// Stores what `hello` agreed on.
    pub fn set_compressors(&self, compressors: &[Compressor]) {
        let bits = compressors.iter().fold(0, |bits, compressor| bits | 1 << compressor.id());
        self.compressors.store(bits, Ordering::Relaxed);
    }

    /// Whether `hello` agreed on this compressor.
    #[must_use]
    pub fn has_compressor(&self, compressor: Compressor) -> bool {
        self.compressors.load(Ordering::Relaxed) & (1 << compressor.id()) != 0
    }

    /// Attaches the service's own state; only the first value is kept.
    ///
    /// # Errors
    /// Gives the value back when there is one already.
    pub fn set_extension<T: Any + Send + Sync>(&self, value: T) -> Result<(), Box<dyn Any + Send + Sync>> {
        self.extension.set(Box::new(value))
    }

    /// The service's own state, if it was attached and is a `T`.
    #[inline]
    #[must_use]
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.extension.get()?.downcast_ref()
    }

    /// Bytes received and sent on the socket so far.
    #[must_use]
    pub fn bytes_transferred(&self) -> (u64, u64) {
        (self.counters.physical_in.get(), self.counters.physical_out.get())
    }

    /// Requests processed so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.counters.requests.get()
    }

    /// Numbers the session's own messages. Only the session's loop calls this.
    #[inline]
    pub(crate) fn next_message_id(&self) -> i32 {
        let id = self.next_message_id.load(Ordering::Relaxed).wrapping_add(1);
        self.next_message_id.store(id, Ordering::Relaxed);
        id.cast_signed()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}
