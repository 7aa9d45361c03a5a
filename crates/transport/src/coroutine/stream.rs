//! A connection's bytes through a ring.
//!
//! What a socket takes at once is sent by a system call: that was measured to cost no more than an operation
//! of the ring, and the client has its reply before the other requests of the turn are processed. The rest
//! waits in the ring.
//!
//! Only the ring's thread talks to the ring. A stream that is polled on another one (the elastic pool) goes
//! home first.

use super::ring::Owner;
use super::ring_loop::{RING, RingHandle};
use super::sockets::{ReceiveOutcome, RingSockets, Unsettled};
use crate::readiness::Pipeline;
use crate::session::Stall;
use crate::{ByteStream, ReceiveBuffer, Session};
use socket2::Socket;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// Replies up to this length leave at the end of the turn, in one system call with those of others.
const MOST_BYTES_LATER: usize = 16 * 1024;

/// See the module.
pub(super) struct RingStream {
    home: Arc<RingHandle>,
    owner: Owner,
    socket: Arc<Socket>,
    session: Arc<Session>,
    ready_at: Option<Instant>,
    pipeline: Pipeline,
    /// A reply was handed to the ring, and nobody has looked what became of it.
    unsettled: bool,
    /// Its client sends requests ahead.
    pipelined: bool,
}

impl RingStream {
    /// Makes the ring of the calling thread receive for the connection. `None`: the thread has no ring any
    /// more.
    pub(super) fn register(
        home: Arc<RingHandle>,
        socket: Arc<Socket>,
        session: Arc<Session>,
    ) -> Option<Self> {
        let owner = with_ring(&home, |ring| ring.register(Arc::clone(&socket)))?;
        Some(Self {
            home,
            owner,
            socket,
            session,
            ready_at: None,
            pipeline: Pipeline::default(),
            unsettled: false,
            pipelined: false,
        })
    }

    /// Does something with the ring, at home.
    fn poll_at_home<R>(
        &self,
        context: &Context<'_>,
        act: impl FnOnce(&mut RingSockets) -> Poll<R>,
    ) -> Poll<R> {
        with_ring(&self.home, act).unwrap_or_else(|| {
            // Where a task runs next is decided when it is woken.
            self.session.come_home();
            context.waker().wake_by_ref();
            Poll::Pending
        })
    }

    /// What the socket takes at once; 0 when it takes nothing.
    fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.send_with_flags(bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(0)
            }
            result => result,
        }
    }

    async fn send_by_ring(&self, bytes: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let mut bytes = Some(bytes);
        poll_fn(|context| {
            self.poll_at_home(context, |ring| {
                if let Some(bytes) = bytes.take() {
                    ring.start_send(self.owner, bytes, from);
                }
                ring.poll_sent(self.owner, context)
            })
        })
        .await
    }

    /// The socket is full: the client does not read as fast as it asks. The sweeper ends the connection when
    /// that lasts.
    async fn send_rest(&self, mut bytes: Vec<u8>, mut from: usize) -> (io::Result<()>, Vec<u8>) {
        let stall = Stall::begin(&self.session, bytes.len());
        while from < bytes.len() {
            let result;
            (result, bytes) = self.send_by_ring(bytes, from).await;
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), bytes),
                Ok(count) => {
                    from += count;
                    stall.progressed();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), bytes),
            }
        }
        (Ok(()), bytes)
    }
}

impl RingStream {
    /// Waits for a send that was begun, and does the rest of it.
    async fn settle(&mut self) -> io::Result<()> {
        if !self.unsettled {
            return Ok(());
        }
        let left =
            poll_fn(|context| self.poll_at_home(context, |ring| ring.poll_settled(self.owner, context)))
                .await;
        self.unsettled = false;
        match left {
            None => Ok(()),
            Some(left) => self.settle_rest(left).await,
        }
    }

    async fn settle_rest(&self, left: Unsettled) -> io::Result<()> {
        match left {
            Unsettled::Rest(bytes, from) => self.send_rest(bytes, from).await.0,
            Unsettled::Failed(error) => Err(error),
        }
    }
}

impl ByteStream for RingStream {
    async fn receive(&mut self, mut buffer: ReceiveBuffer) -> (io::Result<usize>, ReceiveBuffer) {
        loop {
            let got = poll_fn(|context| {
                self.poll_at_home(context, |ring| ring.poll_receive(self.owner, &mut buffer, context))
            })
            .await;
            match got {
                ReceiveOutcome::Bytes { result, ready_at, settled } => {
                    self.ready_at = ready_at;
                    self.unsettled &= !settled;
                    return (result, buffer);
                }
                ReceiveOutcome::Unsettled(left) => {
                    self.unsettled = false;
                    if let Err(error) = self.settle_rest(left).await {
                        return (Err(error), buffer);
                    }
                }
            }
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        self.ready_at
    }

    async fn send(&mut self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        if self.unsettled
            && let Err(error) = self.settle().await
        {
            return (Err(error), bytes);
        }
        if bytes.len() <= MOST_BYTES_LATER && !self.pipelined && self.home.queue.is_here() {
            let mut bytes = Some(bytes);
            let begun =
                with_ring(&self.home, |ring| bytes.take().map(|bytes| ring.send_later(self.owner, bytes)));
            // Taken for sent, the reply would be missing.
            let lost = || io::ErrorKind::NotConnected.into();
            self.unsettled |= begun.is_some();
            return (begun.map(drop).ok_or_else(lost), bytes.unwrap_or_default());
        }
        match self.send_now(&bytes) {
            Ok(count) if count == bytes.len() => (Ok(()), bytes),
            Ok(count) => self.send_rest(bytes, count).await,
            Err(error) => (Err(error), bytes),
        }
    }

    async fn finish(&mut self) -> io::Result<()> {
        self.settle().await
    }

    async fn give_way(&mut self, pipelined: bool) {
        self.pipelined = pipelined;
        self.pipeline.give_way(&self.session, pipelined).await;
    }
}

impl Drop for RingStream {
    fn drop(&mut self) {
        let owner = self.owner;
        // The waker is dropped after the ring was let go: dropping it may drop a task.
        if with_ring(&self.home, |ring| ring.release(owner)).is_none() {
            self.home.release_later(owner);
        }
    }
}

/// Lends the ring if it is the calling thread's, lives, and is not lent.
pub(super) fn with_ring<R>(home: &RingHandle, act: impl FnOnce(&mut RingSockets) -> R) -> Option<R> {
    if !home.queue.is_here() {
        return None;
    }
    RING.with(|ring| ring.try_borrow_mut().ok()?.as_mut().map(act))
}
