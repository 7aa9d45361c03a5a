//! The connections of one ring, as its thread sees them.
//!
//! ```text
//!   multishot receive ──▶ chunk ── the task waits for it ──▶ unread ──▶ copied into the task's buffer
//!                           └───── it is busy, or buffers run short ──▶ backlog (the connection's memory)
//! ```
//! A chunk lives until its task has run, which is within the same turn. So no client can keep the ring's
//! buffers, however much it sends ahead; what it sends ahead is bounded by [`UNREAD_LIMIT`], beyond which its
//! receive is cancelled until the connection has caught up.

use super::buffers::{BUFFERS, Chunk};
use super::ring::{Event, OperationId, Owner, Patience, Received, Ring, RingCounts};
use crate::ReceiveBuffer;
use crate::buffer::keep_output;
use slab::Slab;
use smallvec::SmallVec;
use socket2::Socket;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Bytes received ahead of what the connection asks for, before it receives no more. The kernel may deliver a
/// few buffers more until it hears of it.
pub(super) const UNREAD_LIMIT: usize = 64 * 1024;
/// With fewer free buffers than this, what was received is copied at once.
const SCARCE: u16 = BUFFERS / 4;
/// Chunks that a socket has place for beside its other fields.
const INLINE_CHUNKS: usize = 4;
const A_SLOT: &str = "a stream keeps its slot while it lives";

/// What the connection's task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    No,
    ToReceive,
    ForSend,
}

/// The receive operation.
#[derive(Clone, Copy, Debug)]
enum Receiving {
    Armed(OperationId),
    /// Cancelled; its last event has not come.
    Ending,
    /// Over: paused, or the stream is at its end.
    Off,
}

enum Sending {
    Idle,
    /// `awaited`: a task waits for the result. Otherwise it has gone on.
    Under {
        operation: OperationId,
        awaited: bool,
    },
    /// For the task that waits.
    Done(Box<(io::Result<usize>, Vec<u8>)>),
    /// Nobody waited for it, and it did not go well.
    Unsettled(Box<Unsettled>),
}

/// What is left of a send that its task did not wait for.
#[derive(Debug)]
pub(super) enum Unsettled {
    /// The bytes from this place on had no room in the socket.
    Rest(Vec<u8>, usize),
    Failed(io::Error),
}

/// What a receive came to.
#[derive(Debug)]
pub(super) enum ReceiveOutcome {
    /// Bytes, or end of file if there are none; `settled`: no send is under way.
    Bytes { result: io::Result<usize>, ready_at: Option<Instant>, settled: bool },
    /// There is nothing to read, and first something is to be done for a send.
    Unsettled(Unsettled),
}

/// How the client's side of the stream ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Failed(i32),
}

/// One of thousands that are used in turn: what it takes in the processor's caches is what they cost.
#[repr(align(64))]
struct RingSocket {
    socket: Arc<Socket>,
    receiving: Receiving,
    sending: Sending,
    /// Received, in order, and not yet read; then `backlog`, then `end`.
    unread: SmallVec<[Chunk; INLINE_CHUNKS]>,
    backlog: Option<Box<ReceiveBuffer>>,
    end: Option<End>,
    /// When the oldest unread bytes were known to be there.
    ready_at: Option<Instant>,
    waits: Waits,
    waker: Option<Waker>,
    /// Its stream is gone; it stays until its last operation has ended.
    released: bool,
}

const _: () = assert!(size_of::<Option<RingSocket>>() == 128, "two cache lines");

impl RingSocket {
    fn backlog(&self) -> &[u8] {
        self.backlog.as_ref().map_or(&[], |backlog| backlog.filled())
    }

    fn unread_bytes(&self) -> usize {
        self.backlog().len() + self.unread.iter().map(Chunk::len).sum::<usize>()
    }

    /// Moves unread bytes into `buffer`; answers with their number.
    fn read(&mut self, ring: &mut Ring, buffer: &mut ReceiveBuffer) -> usize {
        let mut count = 0;
        let mut left: Option<ReceiveBuffer> = None;
        for chunk in std::mem::take(&mut self.unread) {
            let bytes = ring.bytes(&chunk);
            let copied = if left.is_none() { copy(bytes, buffer, count == 0) } else { 0 };
            count += copied;
            // What has no room must not keep buffers while the task is busy.
            if let Some(rest) = bytes.get(copied..).filter(|rest| !rest.is_empty()) {
                left.get_or_insert_default().append(rest);
            }
            ring.give_back(chunk);
        }
        if let Some(mut left) = left {
            left.append(self.backlog());
            self.backlog = Some(Box::new(left));
        }
        if count == 0
            && let Some(backlog) = &mut self.backlog
        {
            count = copy(backlog.filled(), buffer, true);
            backlog.consume(count);
            if backlog.filled().is_empty() {
                self.backlog = None;
            }
        }
        count
    }

    fn take_unsettled(&mut self) -> Option<Unsettled> {
        match std::mem::replace(&mut self.sending, Sending::Idle) {
            Sending::Unsettled(unsettled) => Some(*unsettled),
            other => {
                self.sending = other;
                None
            }
        }
    }

    /// Wakes the task if it waits for this. The waker stays: a task mostly waits with the same one again.
    fn wake(&mut self, reason: Waits) {
        if self.waits == reason {
            self.waits = Waits::No;
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    fn wait(&mut self, context: &Context<'_>, reason: Waits) {
        self.waits = reason;
        match &mut self.waker {
            // The waker replaced belongs to the same task, which is being polled: it is not the last to hold
            // it.
            Some(known) => known.clone_from(context.waker()),
            None => self.waker = Some(context.waker().clone()),
        }
    }
}

/// What a ring's connections went through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SocketCounts {
    /// Receive operations started beyond the first of each connection.
    pub(super) rearmed: u64,
    /// Receive operations that found no free buffer.
    pub(super) out_of_buffers: u64,
    /// Receive operations cancelled because their client was too far ahead.
    pub(super) paused: u64,
    /// Bytes that no task waited for, or that were copied because buffers ran short.
    pub(super) bytes_copied_ahead: u64,
    pub(super) open: u64,
    pub(super) ring: RingCounts,
}

/// See the module.
pub(super) struct RingSockets {
    ring: Ring,
    slots: Slab<RingSocket>,
    /// RingSockets whose receive found no buffer; tried again after the tasks have run.
    starved: Vec<Owner>,
    /// When events were last looked for.
    looked_at: Instant,
    counts: SocketCounts,
}

impl RingSockets {
    /// `wake`: a descriptor that others write to when the ring's thread shall stop waiting.
    pub(super) fn new(mut ring: Ring, wake: Arc<OwnedFd>) -> Self {
        ring.watch(wake);
        Self {
            ring,
            slots: Slab::new(),
            starved: Vec::new(),
            looked_at: Instant::now(),
            counts: SocketCounts::default(),
        }
    }

    /// Takes the socket in and starts to receive.
    pub(super) fn register(&mut self, socket: Arc<Socket>) -> Owner {
        let entry = self.slots.vacant_entry();
        let owner = entry.key() as Owner;
        let receiving = Receiving::Armed(self.ring.receive(owner, Arc::clone(&socket)));
        entry.insert(RingSocket {
            socket,
            receiving,
            sending: Sending::Idle,
            unread: SmallVec::new(),
            backlog: None,
            end: None,
            ready_at: None,
            waits: Waits::No,
            waker: None,
            released: false,
        });
        owner
    }

    /// The connection's stream is gone: what it does is cancelled. The waker, if any, is to be dropped by the
    /// caller.
    pub(super) fn release(&mut self, owner: Owner) -> Option<Waker> {
        let connection = self.slots.get_mut(owner as usize)?;
        connection.released = true;
        if let Receiving::Armed(operation) = connection.receiving {
            connection.receiving = Receiving::Ending;
            self.ring.cancel(operation);
        }
        if let Sending::Under { operation, .. } = connection.sending {
            self.ring.cancel(operation);
        }
        for chunk in connection.unread.drain(..) {
            self.ring.give_back(chunk);
        }
        let waker = connection.waker.take();
        self.remove_if_over(owner);
        waker
    }

    fn remove_if_over(&mut self, owner: Owner) {
        let over = self.slots.get(owner as usize).is_some_and(|connection| {
            connection.released
                && matches!(connection.receiving, Receiving::Off)
                && !matches!(connection.sending, Sending::Under { .. })
        });
        if over {
            self.slots.remove(owner as usize);
        }
    }

    /// Ready with the number of bytes put into `buffer`, and when they were known to be there; 0: end of
    /// file.
    pub(super) fn poll_receive(
        &mut self,
        owner: Owner,
        buffer: &mut ReceiveBuffer,
        context: &Context<'_>,
    ) -> Poll<ReceiveOutcome> {
        let connection = self.slots.get_mut(owner as usize).expect(A_SLOT);
        let count = connection.read(&mut self.ring, buffer);
        let ready_at = connection.ready_at;
        let settled = matches!(connection.sending, Sending::Idle);
        let result = match connection.end {
            _ if count > 0 => Ok(count),
            Some(End::Closed) => Ok(0),
            Some(End::Failed(code)) => Err(io::Error::from_raw_os_error(code)),
            None => {
                if let Some(unsettled) = connection.take_unsettled() {
                    return Poll::Ready(ReceiveOutcome::Unsettled(unsettled));
                }
                connection.wait(context, Waits::ToReceive);
                self.arm(owner);
                return Poll::Pending;
            }
        };
        Poll::Ready(ReceiveOutcome::Bytes { result, ready_at, settled })
    }

    /// Receives again if nothing stands against it.
    fn arm(&mut self, owner: Owner) {
        // Gone, where it waited for buffers when its stream was dropped.
        let Some(connection) = self.slots.get_mut(owner as usize) else { return };
        let idle = matches!(connection.receiving, Receiving::Off) && connection.end.is_none();
        if idle && !connection.released {
            let socket = Arc::clone(&connection.socket);
            connection.receiving = Receiving::Armed(self.ring.receive(owner, socket));
            self.counts.rearmed += 1;
        }
    }

    /// Waits until the socket takes some of the bytes from `from` on. None of the connection's sends may be
    /// under way.
    pub(super) fn start_send(&mut self, owner: Owner, bytes: Vec<u8>, from: usize) {
        self.start(owner, bytes, from, Patience::Waits);
    }

    /// Sends the bytes at the end of the turn. Nobody waits for it: what goes wrong is told by the next
    /// receive or [`RingSockets::poll_settled`]. None of the connection's sends may be under way.
    pub(super) fn send_later(&mut self, owner: Owner, bytes: Vec<u8>) {
        self.start(owner, bytes, 0, Patience::None);
    }

    fn start(&mut self, owner: Owner, bytes: Vec<u8>, from: usize, patience: Patience) {
        let connection = self.slots.get_mut(owner as usize).expect(A_SLOT);
        assert!(!matches!(connection.sending, Sending::Under { .. }), "two sends on one socket");
        let socket = Arc::clone(&connection.socket);
        let operation = self.ring.send(owner, socket, bytes, from, patience);
        connection.sending = Sending::Under { operation, awaited: patience == Patience::Waits };
    }

    /// Ready when no send is under way, with what is left to be done for the last one.
    pub(super) fn poll_settled(&mut self, owner: Owner, context: &Context<'_>) -> Poll<Option<Unsettled>> {
        let connection = self.slots.get_mut(owner as usize).expect(A_SLOT);
        if matches!(connection.sending, Sending::Under { .. }) {
            connection.wait(context, Waits::ForSend);
            return Poll::Pending;
        }
        Poll::Ready(connection.take_unsettled())
    }

    /// Ready when the send is over, with how many bytes were taken.
    pub(super) fn poll_sent(
        &mut self,
        owner: Owner,
        context: &Context<'_>,
    ) -> Poll<(io::Result<usize>, Vec<u8>)> {
        let connection = self.slots.get_mut(owner as usize).expect(A_SLOT);
        match std::mem::replace(&mut connection.sending, Sending::Idle) {
            Sending::Done(done) => Poll::Ready(*done),
            under @ Sending::Under { .. } => {
                connection.sending = under;
                connection.wait(context, Waits::ForSend);
                Poll::Pending
            }
            Sending::Idle | Sending::Unsettled(_) => unreachable!("a send that is awaited was begun"),
        }
    }

    /// Whether the kernel has something for us.
    pub(super) fn has_work(&mut self) -> bool {
        self.ring.has_work()
    }

    /// Hands over what was begun, takes what is complete, and wakes who waits for it. `wait`: sleeps until
    /// there is something.
    ///
    /// # Errors
    /// The kernel refuses to work.
    pub(super) fn turn(&mut self, wait: bool) -> io::Result<()> {
        for owner in std::mem::take(&mut self.starved) {
            self.arm(owner);
        }
        let sleeps = wait && !self.ring.has_work();
        self.ring.turn(wait)?;
        // What a busy thread finds came at some time since it looked last: in the middle, on average.
        let now = Instant::now();
        let at = if sleeps { now } else { now - now.saturating_duration_since(self.looked_at) / 2 };
        self.looked_at = now;
        while let Some(event) = self.ring.next_event() {
            match event {
                Event::Received { owner, result, last } => self.received(owner, result, last, at),
                Event::Sent { owner, result, bytes } => self.sent(owner, result, bytes),
                Event::Woken => {}
            }
        }
        Ok(())
    }

    fn received(&mut self, owner: Owner, result: Received, last: bool, at: Instant) {
        let Some(connection) = self.slots.get_mut(owner as usize) else {
            if let Received::Chunk(chunk) = result {
                self.ring.give_back(chunk);
            }
            return;
        };
        if last {
            connection.receiving = Receiving::Off;
        }
        match result {
            Received::Chunk(chunk) => return self.deliver(owner, chunk, last, at),
            Received::EndOfFile => connection.end = Some(End::Closed),
            Received::Failed(code) => connection.end = Some(End::Failed(code)),
            Received::NoBuffer => {
                self.counts.out_of_buffers += 1;
                self.starved.push(owner);
            }
            // Paused: it is armed again once everything was read.
            Received::Cancelled if connection.unread_bytes() == 0 => self.arm(owner),
            Received::Cancelled => {}
        }
        if let Some(connection) = self.slots.get_mut(owner as usize)
            && connection.end.is_some()
        {
            connection.ready_at = Some(at);
            connection.wake(Waits::ToReceive);
        }
        self.remove_if_over(owner);
    }

    fn deliver(&mut self, owner: Owner, chunk: Chunk, last: bool, at: Instant) {
        let Some(connection) = self.slots.get_mut(owner as usize) else { return self.ring.give_back(chunk) };
        if connection.released {
            self.ring.give_back(chunk);
            return self.remove_if_over(owner);
        }
        let awaited = connection.waits == Waits::ToReceive || !connection.unread.is_empty();
        if connection.unread_bytes() == 0 {
            connection.ready_at = Some(at);
        }
        let length = chunk.len();
        if awaited && connection.backlog.is_none() && self.ring.free_buffers() > SCARCE {
            connection.unread.push(chunk);
        } else {
            connection.backlog.get_or_insert_default().append(self.ring.bytes(&chunk));
            self.ring.give_back(chunk);
            self.counts.bytes_copied_ahead += length as u64;
        }
        connection.wake(Waits::ToReceive);
        let ahead = connection.unread_bytes() > UNREAD_LIMIT;
        match connection.receiving {
            Receiving::Armed(operation) if ahead => {
                connection.receiving = Receiving::Ending;
                self.counts.paused += 1;
                self.ring.cancel(operation);
            }
            Receiving::Off if last && !ahead => self.arm(owner),
            _ => {}
        }
    }

    fn sent(&mut self, owner: Owner, result: io::Result<usize>, bytes: Vec<u8>) {
        if let Some(connection) = self.slots.get_mut(owner as usize) {
            let awaited = matches!(connection.sending, Sending::Under { awaited: true, .. });
            connection.sending = match result {
                result if awaited => Sending::Done(Box::new((result, bytes))),
                Ok(count) if count == bytes.len() => {
                    keep_output(bytes);
                    Sending::Idle
                }
                Ok(count) => Sending::Unsettled(Box::new(Unsettled::Rest(bytes, count))),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
                {
                    Sending::Unsettled(Box::new(Unsettled::Rest(bytes, 0)))
                }
                Err(error) => Sending::Unsettled(Box::new(Unsettled::Failed(error))),
            };
            if matches!(connection.sending, Sending::Unsettled(_)) {
                connection.wake(Waits::ToReceive);
            }
            connection.wake(Waits::ForSend);
        }
        self.remove_if_over(owner);
    }

    pub(super) fn counts(&self) -> SocketCounts {
        SocketCounts { open: self.slots.len() as u64, ring: self.ring.counts(), ..self.counts }
    }
}

/// Copies what fits. The buffer gets memory when there is something to copy; only the first part makes it
/// larger.
fn copy(bytes: &[u8], buffer: &mut ReceiveBuffer, first: bool) -> usize {
    if bytes.is_empty() {
        return 0;
    }
    if first {
        buffer.prepare();
    }
    let room = buffer.unfilled_mut();
    let count = room.len().min(bytes.len());
    if let (Some(target), Some(source)) = (room.get_mut(..count), bytes.get(..count)) {
        target.copy_from_slice(source);
    }
    buffer.advance(count);
    count
}
