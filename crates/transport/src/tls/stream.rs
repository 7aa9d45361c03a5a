//! A stream in clear or by TLS, whichever its client speaks.

use super::connection::{Broken, Step, TlsConnection};
use super::{Tls, TlsMode};
use crate::buffer::{keep_output, spare_output};
use crate::readiness::requeue;
use crate::{ByteStream, Endpoint, ReceiveBuffer, Session};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// So many bytes tell TLS from messages.
const TELLING: usize = 11;
/// Plain bytes that are sealed at a time.
const PIECE: usize = 256 * 1024;

/// What a connection speaks.
pub(crate) enum Secured {
    /// Messages in clear.
    Clear,
    /// What its first bytes will tell. They are in the buffer, as far as they have come.
    Unknown(Arc<Tls>, ReceiveBuffer),
    /// TLS.
    Tls(Box<TlsConnection>),
}

/// See the module.
pub(crate) struct SecuredStream<S> {
    stream: S,
    session: Arc<Session>,
    secured: Secured,
}

/// Whether these first bytes are of TLS: a record of a handshake that begins with a greeting. In a message
/// they would be those of an answer to a request that was never made.
fn is_tls(first: &[u8]) -> bool {
    matches!(first, [0x16, 3, 0..=4, _, _, 1, _, _, _, 3, 0..=4, ..])
}

impl<S: ByteStream> SecuredStream<S> {
    /// Goes on where the session's stream before this one ended, or begins.
    pub(crate) fn new(stream: S, session: Arc<Session>) -> Self {
        let secured = session.take_secured().unwrap_or_else(|| match &session.shared.options.tls {
            Some(tls) if !matches!(session.local(), Endpoint::Unix(_)) => {
                if tls.mode() == TlsMode::Require {
                    session.handshake_begins();
                }
                Secured::Unknown(Arc::clone(tls), ReceiveBuffer::new())
            }
            _ => Secured::Clear,
        });
        Self { stream, session, secured }
    }

    /// Finds out what the client speaks. Gives what of it is in clear already; 0: it has gone. Who has begun
    /// to speak TLS, or has to, is to come to an end with the handshake.
    async fn tell(&mut self, plain: &mut ReceiveBuffer) -> io::Result<Option<usize>> {
        let Secured::Unknown(tls, first) = &mut self.secured else { return Ok(None) };
        let mut first = std::mem::take(first);
        let tls = Arc::clone(tls);
        let mut ended = false;
        while first.filled().len() < TELLING && !ended {
            first.want(TELLING);
            let (result, buffer) = self.stream.receive(first).await;
            first = buffer;
            match result {
                Ok(count) => {
                    ended = count == 0;
                    if first.filled().len() < TELLING || is_tls(first.filled()) {
                        self.session.handshake_begins();
                    }
                }
                Err(error) => {
                    self.secured = Secured::Unknown(tls, first);
                    return Err(error);
                }
            }
        }
        if is_tls(first.filled()) {
            self.secured = Secured::Tls(Box::new(TlsConnection::new(&tls, first)?));
            return Ok(None);
        }
        let count = first.filled().len();
        if tls.mode() == TlsMode::Require && count > 0 {
            tls.counters.refused.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "The server is configured to only allow SSL connections",
            ));
        }
        self.session.handshake_ends();
        plain.extend(first.filled());
        self.secured = Secured::Clear;
        Ok(Some(count))
    }

    async fn receive_secured(&mut self, plain: &mut ReceiveBuffer) -> io::Result<usize> {
        if let Some(count) = self.tell(plain).await? {
            return Ok(count);
        }
        loop {
            let Secured::Tls(connection) = &mut self.secured else {
                unreachable!("what a connection speaks was told")
            };
            let was_handshaking = connection.is_handshaking();
            if was_handshaking && !connection.received.filled().is_empty() {
                let session = &self.session;
                poll_fn(|context| session.poll_offload_briefly(context)).await;
            }
            let step = connection.advance(plain);
            if was_handshaking && let Some(facts) = connection.facts() {
                self.session.note_tls(facts);
            }
            match step {
                Ok(Step::Received(count)) => return Ok(count),
                Ok(Step::Closed) => return Ok(0),
                Ok(Step::Send(bytes)) => self.stream.send(bytes).await.0?,
                Ok(Step::Receive) => {
                    if was_handshaking && self.session.come_home() {
                        requeue().await;
                    }
                    let received = std::mem::take(&mut connection.received);
                    let (result, buffer) = self.stream.receive(received).await;
                    connection.received = buffer;
                    if result? == 0 {
                        return Ok(0);
                    }
                }
                Err(Broken { error, alert }) => {
                    // The client may be gone; the error is the one that counts.
                    let _ = self.stream.send(alert).await;
                    return Err(error);
                }
            }
        }
    }

    async fn send_sealed(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            let Secured::Tls(connection) = &mut self.secured else {
                unreachable!("only what TLS carries is sealed")
            };
            let mut sealed = spare_output();
            connection.seal(piece, &mut sealed)?;
            let (result, sealed) = self.stream.send(sealed).await;
            keep_output(sealed);
            result?;
        }
        Ok(())
    }
}

impl<S: ByteStream> ByteStream for SecuredStream<S> {
    async fn receive(&mut self, mut buffer: ReceiveBuffer) -> (io::Result<usize>, ReceiveBuffer) {
        if matches!(self.secured, Secured::Clear) {
            return self.stream.receive(buffer).await;
        }
        // On the heap, so that connections in clear do not hold the memory of this.
        let result = Box::pin(self.receive_secured(&mut buffer)).await;
        (result, buffer)
    }

    async fn send(&mut self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        if !matches!(self.secured, Secured::Tls(_)) {
            return self.stream.send(bytes).await;
        }
        let result = Box::pin(self.send_sealed(&bytes)).await;
        (result, bytes)
    }

    async fn finish(&mut self) -> io::Result<()> {
        self.stream.finish().await
    }

    async fn close(&mut self) -> io::Result<()> {
        if let Secured::Tls(connection) = &mut self.secured {
            let mut end = Vec::new();
            if connection.seal_end(&mut end).is_ok() {
                // A client that has gone does not need to be told.
                let _ = self.stream.send(end).await;
            }
        }
        self.stream.close().await
    }

    fn ready_at(&self) -> Option<Instant> {
        self.stream.ready_at()
    }

    async fn give_way(&mut self, pipelined: bool) {
        self.stream.give_way(pipelined).await;
    }
}

impl<S> Drop for SecuredStream<S> {
    /// The session may go on by another stream.
    fn drop(&mut self) {
        self.session.keep_secured(std::mem::replace(&mut self.secured, Secured::Clear));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{MessageHeader, OpCode};

    #[test]
    fn messages_are_no_greetings() {
        let greeting = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 7, 7];
        assert!(is_tls(&greeting), "a greeting in one record");
        assert!(!is_tls(&greeting[..TELLING - 1]), "it is told by all of these bytes");
        for length in 0x16..0x20_000 {
            let header = MessageHeader {
                length,
                request_id: i32::from_le_bytes([2, 1, 0, 1]),
                response_to: 0,
                opcode: OpCode::Msg,
            };
            assert!(!is_tls(&header.to_bytes()), "a request of {length} bytes is taken for TLS");
        }
    }
}
