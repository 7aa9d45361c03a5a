//! A client that exists in memory only: what it sends is a script, and what it gets is recorded.

use crate::registry::{RegisteredSession, Shared};
use crate::{ByteStream, Endpoint, Phase, ReceiveBuffer, ServerOptions, Service, Session, SessionControl};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

/// One thing that happens on the client's side.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Bytes arrive in one piece.
    Bytes(Vec<u8>),
    /// The connection is reset while the server reads.
    Reset,
    /// The stream is not ready: its future suspends once.
    NotReady,
}

/// What became of the server's writes.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) sent: Mutex<Vec<u8>>,
    pub(crate) sends: Mutex<usize>,
    pub(crate) turns: Mutex<usize>,
    /// The read half is shut: reads give end-of-file.
    pub(crate) read_shut: AtomicBool,
    /// The stream was told that nothing more comes.
    pub(crate) finished: AtomicBool,
    /// The next send fails with this kind.
    pub(crate) send_failure: Mutex<Option<io::ErrorKind>>,
}

/// Asserts at every call that the session is in the phase that belongs to it.
pub(crate) struct SimulatedStream {
    session: Arc<Session>,
    script: VecDeque<Event>,
    record: Arc<Record>,
    /// When everything that the client sends was there.
    arrived: Instant,
}

struct SimulatedControl(Arc<Record>);

impl SessionControl for SimulatedControl {
    fn shutdown_read(&self) {
        self.0.read_shut.store(true, Ordering::SeqCst);
    }

    fn shutdown_both(&self) {
        self.shutdown_read();
        *self.0.send_failure.lock() = Some(io::ErrorKind::BrokenPipe);
    }

    fn peer_closed(&self) -> bool {
        false
    }
}

impl SimulatedStream {
    /// A session whose client follows the script and then closes its side.
    pub(crate) fn connect<H: Service>(
        script: impl IntoIterator<Item = Event>,
        service: &Arc<H>,
    ) -> (RegisteredSession, Self, Arc<Record>) {
        let record = Arc::new(Record::default());
        let control = Box::new(SimulatedControl(Arc::clone(&record)));
        let options = ServerOptions { max_message_size: 100_000, ..ServerOptions::default() };
        let registered = Shared::new(options)
            .admit(Endpoint::Detached, Endpoint::Detached, false, control, service)
            .expect("the first session is within the limit");
        let session = Arc::clone(registered.session());
        let script = script.into_iter().collect();
        (registered, Self { session, script, record: Arc::clone(&record), arrived: Instant::now() }, record)
    }

    async fn suspend_once() {
        let mut suspended = false;
        std::future::poll_fn(|context| {
            if suspended {
                return Poll::Ready(());
            }
            suspended = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl ByteStream for SimulatedStream {
    async fn receive(&mut self, mut buffer: ReceiveBuffer) -> (io::Result<usize>, ReceiveBuffer) {
        loop {
            assert_eq!(self.session.phase(), Phase::Receiving, "the loop reads in another phase");
            if self.record.read_shut.load(Ordering::SeqCst) {
                return (Ok(0), buffer);
            }
            buffer.prepare();
            match self.script.pop_front() {
                None => return (Ok(0), buffer),
                Some(Event::NotReady) => Self::suspend_once().await,
                Some(Event::Reset) => return (Err(io::ErrorKind::ConnectionReset.into()), buffer),
                Some(Event::Bytes(mut bytes)) => {
                    let room = buffer.unfilled_mut();
                    assert!(!room.is_empty(), "the loop reads into a full buffer");
                    let count = room.len().min(bytes.len());
                    let rest = bytes.split_off(count);
                    room[..count].copy_from_slice(&bytes);
                    buffer.advance(count);
                    if !rest.is_empty() {
                        self.script.push_front(Event::Bytes(rest));
                    }
                    return (Ok(count), buffer);
                }
            }
        }
    }

    fn ready_at(&self) -> Option<Instant> {
        Some(self.arrived)
    }

    async fn send(&mut self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        if self.session.phase() != Phase::Sending {
            // Only the hint for browsers goes out before any request was processed.
            assert_eq!(self.session.requests(), 0, "the loop sends in another phase");
        }
        Self::suspend_once().await;
        if let Some(kind) = *self.record.send_failure.lock() {
            return (Err(kind.into()), bytes);
        }
        self.record.sent.lock().extend_from_slice(&bytes);
        *self.record.sends.lock() += 1;
        (Ok(()), bytes)
    }

    async fn finish(&mut self) -> io::Result<()> {
        let before = self.record.finished.swap(true, Ordering::SeqCst);
        assert!(!before, "the stream is finished twice");
        Ok(())
    }

    async fn give_way(&mut self, _pipelined: bool) {
        *self.record.turns.lock() += 1;
    }
}
