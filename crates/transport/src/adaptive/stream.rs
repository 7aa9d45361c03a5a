//! The stream of a connection under `adaptive`: readiness, with the recursion limit and the count of
//! connections that wait.

use super::core::Core;
use crate::readiness::{ReadinessStream, requeue};
use crate::{ByteStream, ReceiveBuffer};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// See the module.
pub(super) struct AdaptiveStream {
    inner: ReadinessStream,
    core: Arc<Core>,
    queue: usize,
    requests_in_a_row: u32,
}

impl AdaptiveStream {
    pub(super) const fn new(inner: ReadinessStream, core: Arc<Core>, queue: usize) -> Self {
        Self { inner, core, queue, requests_in_a_row: 0 }
    }
}

/// A connection that waits for bytes; over when dropped.
struct Deferred<'c> {
    core: &'c Core,
    queue: usize,
}

impl<'c> Deferred<'c> {
    fn begin(core: &'c Core, queue: usize) -> Self {
        if let Some(waiting) = core.waiting(queue) {
            waiting.fetch_add(1, Ordering::Relaxed);
        }
        Self { core, queue }
    }
}

impl Drop for Deferred<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.core.waiting(self.queue) {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl ByteStream for AdaptiveStream {
    async fn receive(&mut self, buffer: ReceiveBuffer) -> (io::Result<usize>, ReceiveBuffer) {
        let mut deferred = None;
        let mut receiving = pin!(self.inner.receive(buffer));
        let core = &self.core;
        let queue = self.queue;
        let received = poll_fn(|context| {
            let poll = receiving.as_mut().poll(context);
            if poll.is_pending() {
                deferred.get_or_insert_with(|| Deferred::begin(core, queue));
            }
            poll
        });
        let received = received.await;
        if deferred.is_some() {
            self.requests_in_a_row = 0;
        }
        received
    }

    fn ready_at(&self) -> Option<Instant> {
        self.inner.ready_at()
    }

    async fn send(&mut self, bytes: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        self.inner.send(bytes).await
    }

    /// A client with many requests in its pipeline goes to the end of the queue now and then.
    async fn give_way(&mut self, _pipelined: bool) {
        self.requests_in_a_row += 1;
        if self.requests_in_a_row >= self.core.recursion_limit() {
            self.requests_in_a_row = 0;
            requeue().await;
        }
    }
}
