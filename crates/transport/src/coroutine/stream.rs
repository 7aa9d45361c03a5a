//! A connection's bytes through a ring.
//!
//! What a socket takes at once is sent by a system call: that was measured to cost no more than an operation of the ring, and
//! the client has its reply before the other requests of the turn are processed. The rest waits in the ring.
//!
//! Only the ring's thread talks to the ring. A stream that is polled on another one (the elastic pool) goes home first.

use super::connections::Connections;
use super::ring::Owner;
use super::ring_loop::{Home, RING};
use crate::readiness::requeue;
use crate::session::Stall;
use crate::{ByteStream, ReceiveBuffer, Session};
use socket2::Socket;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// Requests of one connection that are processed in a row when they came together.
const REQUESTS_IN_A_ROW: u32 = 16;

/// See the module.
pub(super) struct RingStream {
    home: Arc<Home>,
    owner: Owner,
    socket: Arc<Socket>,
    session: Arc<Session>,
    ready_at: Option<Instant>,
    requests_in_a_row: u32,
}

impl RingStream {
    /// Makes the ring of the calling thread receive for the connection. `None`: the thread has no ring any more.
    pub(super) fn register(home: Arc<Home>, socket: Arc<Socket>, session: Arc<Session>) -> Option<Self> {
        let owner = with_ring(&home, |ring| ring.register(Arc::clone(&socket)))?;
        Some(Self { home, owner, socket, session, ready_at: None, requests_in_a_row: 0 })
    }

    /// Does something with the ring, at home.
    fn poll_at_home<R>(
        &self,
        context: &Context<'_>,
        act: impl FnOnce(&mut Connections) -> Poll<R>,
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

    /// The socket is full: the client does not read as fast as it asks. The sweeper ends the connection when that lasts.
    async fn send_rest(&self, mut bytes: Vec<u8>, mut from: usize) -> (io::Result<()>, Vec<u8>) {
        let stall = Stall::begin(&self.session);
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

impl ByteStream for RingStream {
    async fn receive(&mut self, mut buffer: ReceiveBuffer) -> (io::Result<usize>, ReceiveBuffer) {
        let (result, ready_at) = poll_fn(|context| {
            self.poll_at_home(context, |ring| ring.poll_receive(self.owner, &mut buffer, context))
        })
        .await;
        self.ready_at = ready_at;
        (result, buffer)
    }

    fn ready_at(&self) -> Option<Instant> {
        self.ready_at
    }

    async fn send(&mut self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        match self.send_now(&bytes) {
            Ok(count) if count == bytes.len() => (Ok(()), bytes),
            Ok(count) => self.send_rest(bytes, count).await,
            Err(error) => (Err(error), bytes),
        }
    }

    /// A client with many requests in its pipeline lets others have their turn.
    async fn give_way(&mut self, pipelined: bool) {
        let was_offloaded = self.session.come_home();
        if !pipelined {
            self.requests_in_a_row = 0;
            return;
        }
        self.requests_in_a_row += 1;
        if was_offloaded || self.requests_in_a_row >= REQUESTS_IN_A_ROW {
            self.requests_in_a_row = 0;
            requeue().await;
        }
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
pub(super) fn with_ring<R>(home: &Home, act: impl FnOnce(&mut Connections) -> R) -> Option<R> {
    if !home.queue.is_here() {
        return None;
    }
    RING.with(|ring| ring.try_borrow_mut().ok()?.as_mut().map(act))
}
