//! A member's part in initial syncs: others get its files, and it gets theirs.

use crate::Peers;
use crate::entry::LogIndex;
use crate::initial_sync::{CopySource, CopyWanted, Receiver};
use crate::set::MemberState;
use crate::set::heartbeat::Statuses;
use crate::set::shared::Shared;
use event_listener::Event;
use parking_lot::Mutex;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use storage::Store;

/// After a failure.
const BEFORE_ANOTHER_TRY: Duration = Duration::from_secs(5);
/// A secondary that is so many seconds behind is not copied from: the log might not go back to its data.
const LAG_SECONDS_MAX: u32 = 10;

/// See the module.
pub(crate) struct Copying {
    pub(crate) source: CopySource,
    /// `None`: the store is in memory.
    pub(crate) receiver: Option<Arc<Receiver>>,
    copied: Arc<Copied>,
    /// Whether a member that has data is to replace them by itself.
    replaces_data: AtomicBool,
    has_threads: AtomicBool,
    /// Without threads: the copy that was begun last. A leaf in the lock order.
    begun: Mutex<Option<Copy>>,
}

/// A try to copy.
pub(crate) type Copy = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether all files are here.
#[derive(Default)]
struct Copied {
    is_under_way: AtomicBool,
    is_whole: AtomicBool,
    changed: Event,
}

impl Copying {
    pub(crate) fn new(
        store: Store,
        data: Option<&Path>,
        peers: &Arc<dyn Peers>,
        own_hosts: &[String],
    ) -> Self {
        let receiver = |data: &Path| {
            Arc::new(Receiver::new(data.to_owned(), store.clone(), Arc::clone(peers), own_hosts.to_vec()))
        };
        Copying {
            receiver: data.map(receiver),
            source: CopySource::new(store, data),
            copied: Arc::default(),
            replaces_data: AtomicBool::new(true),
            has_threads: AtomicBool::new(false),
            begun: Mutex::default(),
        }
    }

    /// From now on each copy has a thread of its own.
    pub(crate) fn start_threads(&self) {
        self.has_threads.store(true, Ordering::Relaxed);
    }

    /// The copy that is to be made, of a member without threads.
    pub(crate) fn take_begun(&self) -> Option<Copy> {
        self.begun.lock().take()
    }

    /// Whether a member that has fallen behind replaces its data by itself.
    pub(crate) fn replaces_data(&self) -> bool {
        self.replaces_data.load(Ordering::Relaxed)
    }

    pub(crate) fn set_replaces_data(&self, replaces: bool) {
        self.replaces_data.store(replaces, Ordering::Relaxed);
    }

    /// Of which place of the log the copy is that is made, or that the next start goes on with.
    pub(crate) fn place(&self) -> Option<LogIndex> {
        self.receiver.as_ref()?.place()
    }

    /// This member is too far behind. Nothing where it copies already.
    pub(crate) fn want(&self, wanted: CopyWanted) {
        let Some(receiver) = &self.receiver else { return };
        let (receiver, copied) = (Arc::clone(receiver), Arc::clone(&self.copied));
        if copied.is_whole.load(Ordering::Acquire) || copied.is_under_way.swap(true, Ordering::AcqRel) {
            return;
        }
        let copy = async move {
            match receiver.fetch(&wanted).await {
                Ok(()) => {
                    copied.is_whole.store(true, Ordering::Release);
                    copied.changed.notify(usize::MAX);
                }
                // The consensus says again that this member is too far behind.
                Err(error) => {
                    tracing::warn!(%error, "the data were not copied");
                    receiver.rest(BEFORE_ANOTHER_TRY).await;
                }
            }
            copied.is_under_way.store(false, Ordering::Release);
        };
        if !self.has_threads.load(Ordering::Relaxed) {
            *self.begun.lock() = Some(Box::pin(copy));
            return;
        }
        let spawned =
            thread::Builder::new().name("replication-copy".into()).spawn(|| pollster::block_on(copy));
        if let Err(error) = spawned {
            self.copied.is_under_way.store(false, Ordering::Release);
            tracing::warn!(%error, "no thread to copy the data");
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

impl std::fmt::Debug for Copying {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Copying").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}

/// From whom another member should copy, as a leader sees it: from the secondary that is nearest, of those
/// that are least likely to be primary next; `None` where the leader itself is all there is.
pub(crate) fn source_for_others(shared: &Shared, statuses: &Statuses) -> Option<String> {
    let (topology, statuses) = (shared.topology(), statuses.lock());
    let config = topology.config.as_ref().filter(|config| config.settings.chaining_allowed)?;
    let latest = shared.reached().applied.timestamp.time;
    let is_source = |id: i32| {
        let status = statuses.get(&id)?;
        let has_data = status.health && status.state == MemberState::Secondary;
        let is_near = latest.saturating_sub(status.optime.timestamp.time) <= LAG_SECONDS_MAX;
        (has_data && is_near).then_some(status.ping)
    };
    let sources = config.members.iter().filter(|member| member.delay.is_zero());
    let sources = sources.filter_map(|member| Some((member, is_source(member.id)?)));
    let best = sources.min_by(|(one, ping), (other, other_ping)| {
        one.priority.total_cmp(&other.priority).then(ping.cmp(other_ping))
    });
    best.map(|(member, _)| member.host.clone())
}
