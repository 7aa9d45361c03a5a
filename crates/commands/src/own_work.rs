//! Work that no client has asked for: an operation that can be ended from another thread.

use crate::client::Client;
use dispatch::host::Detached;
use query::checkpoint;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use wire::ErrorCode;

/// See the module.
#[derive(Debug)]
pub(crate) struct OwnWork(Arc<Client>);

/// What comes after a step of such work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnWorkStep {
    /// There is more to do from then on.
    Continues {
        /// Sooner does no harm.
        at: Instant,
    },
    /// Nothing is left to do: no build waits, what had expired is gone, no file has an old key.
    Ended,
}

/// Ends what such work waits for.
#[derive(Debug, Clone)]
pub struct OwnWorkSwitch(Arc<Client>);

impl OwnWork {
    pub(crate) fn new(name: &'static str) -> Self {
        OwnWork(Arc::new(Client::new(0, name, Arc::new(Detached))))
    }

    /// Ends it from another thread.
    pub(crate) fn switch(&self) -> OwnWorkSwitch {
        OwnWorkSwitch(Arc::clone(&self.0))
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.0.interrupt.is_killed()
    }

    /// Runs a piece of it: what it waits for ends with it.
    pub(crate) async fn run<T>(&self, piece: impl Future<Output = T>) -> T {
        let mut piece = pin!(piece);
        poll_fn(|task| {
            let _watched = checkpoint::watch(Arc::<Client>::clone(&self.0));
            piece.as_mut().poll(task)
        })
        .await
    }
}

impl OwnWorkSwitch {
    /// The server shuts down: nothing is begun from now on, and what waits ends.
    pub fn end(&self) {
        self.0.interrupt.kill(ErrorCode::InterruptedAtShutdown as i32);
    }
}
