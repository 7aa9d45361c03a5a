//! Moving bytes, in owned buffers.

use crate::session::Stall;
use crate::{ReceiveBuffer, Session, SessionControl};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// One end of a connection. Buffers are handed over and come back with the result, as a kernel ring needs
/// them.
///
/// "Try the system call, wait only if it would block" lives in the implementations. A future of these is
/// never dropped before it is ready; [`SessionControl`] ends a pending one.
pub(crate) trait ByteStream: Send + 'static {
    /// Reads at least one byte behind what `buffer` holds; 0 bytes: end of file. Memory is made ready
    /// ([`ReceiveBuffer::prepare`]) when there is something to read, so that a connection that waits holds
    /// none.
    fn receive(
        &mut self,
        buffer: ReceiveBuffer,
    ) -> impl Future<Output = (io::Result<usize>, ReceiveBuffer)> + Send;

    /// Writes all of `bytes`. An implementation may keep small ones and answer before they have left; then a
    /// later call tells of a failure, and [`ByteStream::finish`] waits for them.
    fn send(&mut self, bytes: Vec<u8>) -> impl Future<Output = (io::Result<()>, Vec<u8>)> + Send;

    /// Waits until everything sent has left. Called last, before the stream is dropped.
    fn finish(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// The same where the connection ends with the stream.
    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        self.finish()
    }

    /// When the bytes of the last receive were known to be there; `None`: when it returned.
    fn ready_at(&self) -> Option<Instant> {
        None
    }

    /// Called between two requests: the driver may let others run. `pipelined`: the next request has arrived
    /// already.
    fn give_way(&mut self, pipelined: bool) -> impl Future<Output = ()> + Send;
}

/// How much of a reply is sent between two notes that its client reads.
const PIECE: usize = 256 * 1024;

/// A socket whose calls block the thread.
pub(crate) struct BlockingStream {
    socket: Arc<Socket>,
    session: Arc<Session>,
    requests_since_yield: u32,
}

impl BlockingStream {
    pub(crate) fn new(socket: Arc<Socket>, session: Arc<Session>) -> Self {
        Self { socket, session, requests_since_yield: 0 }
    }
}

impl ByteStream for BlockingStream {
    async fn receive(&mut self, mut buffer: ReceiveBuffer) -> (io::Result<usize>, ReceiveBuffer) {
        buffer.prepare();
        loop {
            match (&*self.socket).read(buffer.unfilled_mut()) {
                Ok(count) => {
                    buffer.advance(count);
                    return (Ok(count), buffer);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), buffer),
            }
        }
    }

    async fn send(&mut self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let result = match self.socket.send_with_flags(&bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(count) => self.send_rest(&bytes, count),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                self.send_rest(&bytes, 0)
            }
            Err(error) => Err(error),
        };
        (result, bytes)
    }

    /// Article S0: a thread gives way now and then, which lets the others finish their requests before they
    /// are preempted.
    async fn give_way(&mut self, _pipelined: bool) {
        let after = self.session.shared.options.yield_after_requests;
        if after == 0 {
            return;
        }
        self.requests_since_yield += 1;
        if self.requests_since_yield >= after
            && self.session.shared.current() > self.session.shared.options.processors
        {
            self.requests_since_yield = 0;
            std::thread::yield_now();
        }
    }
}

impl BlockingStream {
    /// The socket is full: the client does not read as fast as it asks.
    fn send_rest(&self, bytes: &[u8], from: usize) -> io::Result<()> {
        let stall = Stall::begin(&self.session, bytes.len());
        let rest = bytes.get(from..).expect("no more was sent than there is");
        for piece in rest.chunks(PIECE) {
            (&*self.socket).write_all(piece)?;
            stall.progressed();
        }
        Ok(())
    }
}

/// A socket as others may end it. It belongs to the stream: with that it closes, whoever still holds the
/// session.
pub(crate) struct SocketControl(pub(crate) Weak<Socket>);

impl SocketControl {
    fn shutdown(&self, how: Shutdown) {
        if let Some(socket) = self.0.upgrade() {
            // Fails only when the client is gone, and then there is nothing to end.
            let _ = socket.shutdown(how);
        }
    }
}

impl SessionControl for SocketControl {
    fn shutdown_read(&self) {
        self.shutdown(Shutdown::Read);
    }

    fn shutdown_both(&self) {
        self.shutdown(Shutdown::Both);
    }

    fn peer_closed(&self) -> bool {
        let Some(socket) = self.0.upgrade() else { return true };
        let mut byte = [MaybeUninit::uninit()];
        match socket.recv_with_flags(&mut byte, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
            Ok(count) => count == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }
}
