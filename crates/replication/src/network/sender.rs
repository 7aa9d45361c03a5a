//! Envelopes to one member: they wait here, and a thread sends them.

use super::connection::{Connection, Held, Purpose};
use super::{NetworkOptions, Worker};
use crate::peers::PeerError;
use document::DocumentBuf;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;
use wire::{CommandMessage, OpMsgFlags};

/// Envelopes are written together up to so many bytes.
const BATCH_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Sender {
    host: String,
    outbox: Mutex<Outbox>,
    changed: Condvar,
    held: Held,
}

#[derive(Debug, Default)]
struct Outbox {
    waiting: VecDeque<DocumentBuf>,
    bytes: usize,
    /// Nobody sends from here any more.
    closed: bool,
}

impl Outbox {
    fn take_first(&mut self) -> Option<DocumentBuf> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.as_bytes().len();
        Some(first)
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}

impl Sender {
    pub(super) fn new(host: &str) -> Self {
        Sender {
            host: host.to_owned(),
            outbox: Mutex::default(),
            changed: Condvar::new(),
            held: Held::default(),
        }
    }

    /// Puts an envelope behind the others; gives it back when nobody would send it.
    pub(super) fn push(&self, envelope: DocumentBuf, bytes_max: usize) -> Option<DocumentBuf> {
        let mut outbox = self.outbox.lock();
        if outbox.closed {
            return Some(envelope);
        }
        let bytes = envelope.as_bytes().len();
        while outbox.bytes + bytes > bytes_max && outbox.take_first().is_some() {}
        outbox.bytes += bytes;
        outbox.waiting.push_back(envelope);
        if outbox.waiting.len() == 1 {
            self.changed.notify_one();
        }
        None
    }

    pub(super) fn stop(&self) {
        let mut outbox = self.outbox.lock();
        outbox.closed = true;
        outbox.clear();
        drop(outbox);
        self.held.stop();
        self.changed.notify_one();
    }

    /// Of envelopes that wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.outbox.lock().bytes
    }

    /// Waits until something is to be sent. `None`: it is time to end.
    fn next_batch(&self, idle_limit: Duration) -> Option<Vec<u8>> {
        let mut outbox = self.outbox.lock();
        while outbox.waiting.is_empty() && !outbox.closed {
            let waited = self.changed.wait_for(&mut outbox, idle_limit);
            outbox.closed |= waited.timed_out() && outbox.waiting.is_empty();
        }
        let mut batch = message(&outbox.take_first()?);
        while let Some(next) = outbox.waiting.front() {
            if batch.len() + next.as_bytes().len() > BATCH_BYTES {
                break;
            }
            batch.extend_from_slice(&message(next));
            outbox.take_first();
        }
        Some(batch)
    }

    fn deliver(
        &self,
        connection: &mut Option<Connection>,
        batch: &[u8],
        options: &NetworkOptions,
    ) -> Result<(), PeerError> {
        let current = match connection.take() {
            Some(current) if !current.is_over() => current,
            _ => {
                let connected = ambient::now() + options.connect_limit;
                let greeted = connected + options.greeting_limit;
                Connection::open(&self.host, connected, greeted, options, &self.held, Purpose::Envelopes)?
            }
        };
        connection.insert(current).write(batch)
    }

    /// Forgets what could not be delivered, which is old by now, and pauses.
    fn rest(&self, pause: Duration) {
        let deadline = ambient::now() + pause;
        let mut outbox = self.outbox.lock();
        outbox.clear();
        while !outbox.closed && !self.changed.wait_until(&mut outbox, deadline).timed_out() {}
    }
}

impl Worker for Sender {
    fn run(&self, options: &NetworkOptions) {
        let mut connection = None;
        let mut failures = 0_u32;
        // A member that is there and is not believed is something else than one that is away.
        let mut is_believed = true;
        while let Some(batch) = self.next_batch(options.idle_limit) {
            match self.deliver(&mut connection, &batch, options) {
                Ok(()) => {
                    is_believed = true;
                    if std::mem::take(&mut failures) > 0 {
                        tracing::info!(target: "repl", id = 5_710_003, host = self.host,
                            "Messages of the set's log reach another member again");
                    }
                }
                Err(_) if self.held.is_stopped() => return,
                Err(error) => {
                    connection = None;
                    let was_believed =
                        std::mem::replace(&mut is_believed, !matches!(error, PeerError::NotLoggedIn { .. }));
                    if failures == 0 || (was_believed && !is_believed) {
                        tracing::info!(target: "repl", id = 5_710_002, host = self.host, %error,
                            "Messages of the set's log do not reach another member");
                    }
                    let pause = options.first_pause.saturating_mul(1 << failures.min(16));
                    self.rest(pause.min(options.longest_pause));
                    failures = failures.saturating_add(1);
                }
            }
        }
    }
}

fn message(envelope: &DocumentBuf) -> Vec<u8> {
    CommandMessage::new(envelope.as_raw()).flags(OpMsgFlags::MORE_TO_COME).finish(0).into_bytes()
}
