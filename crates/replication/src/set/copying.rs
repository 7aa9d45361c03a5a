//! A member's part in initial syncs: others get its files, and it gets theirs.

use crate::Peers;
use crate::initial_sync::{CopySource, Receiver};
use event_listener::Event;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use storage::Store;

/// After a failure.
const BEFORE_ANOTHER_TRY: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(crate) source: CopySource,
    /// `None`: the store is in memory.
    pub(crate) receiver: Option<Arc<Receiver>>,
    copied: Arc<Copied>,
    /// A leaf in the lock order.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Whether all files are here.
#[derive(Debug, Default)]
struct Copied {
    is_whole: AtomicBool,
    changed: Event,
}

impl Copying {
    pub(crate) fn new(store: Store, peers: &Arc<dyn Peers>) -> Self {
        let receiver =
            store.path().map(Path::to_owned).map(|data| Arc::new(Receiver::new(data, Arc::clone(peers))));
        Copying { source: CopySource::new(store), receiver, copied: Arc::default(), thread: Mutex::default() }
    }

    /// This member is too far behind: `host` has what it needs. Nothing where it copies already.
    pub(crate) fn want(&self, host: &str) {
        let Some(receiver) = &self.receiver else { return };
        let mut thread = self.thread.lock();
        let is_running = thread.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_running || self.copied.is_whole.load(Ordering::Acquire) {
            return;
        }
        let (receiver, copied, host) = (Arc::clone(receiver), Arc::clone(&self.copied), host.to_owned());
        let copy = move || match receiver.fetch(&host) {
            Ok(()) => {
                copied.is_whole.store(true, Ordering::Release);
                copied.changed.notify(usize::MAX);
            }
            // The consensus says again that this member is too far behind.
            Err(error) => {
                tracing::warn!(%error, "the data were not copied");
                receiver.rest(BEFORE_ANOTHER_TRY);
            }
        };
        match thread::Builder::new().name("replication-copy".into()).spawn(copy) {
            Ok(spawned) => *thread = Some(spawned),
            Err(error) => tracing::warn!(%error, "no thread to copy the data"),
        }
    }

    /// Resolves when all files are here.
    pub(crate) async fn copied(&self) {
        while !self.copied.is_whole.load(Ordering::Acquire) {
            let changed = self.copied.changed.listen();
            if self.copied.is_whole.load(Ordering::Acquire) {
                return;
            }
            changed.await;
        }
    }

    /// Copies no more. It is not waited for: the source may be silent, and what is half here is no data.
    pub(crate) fn stop(&self) {
        if let Some(receiver) = &self.receiver {
            receiver.stop();
        }
    }
}
