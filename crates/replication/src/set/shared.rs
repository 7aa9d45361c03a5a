//! What the driver, who applies, and who asks share.

use crate::Oplog;
use crate::optime::OpTime;
use crate::set::batches::Batches;
use crate::set::kept_log::{KeptLogFigures, LogNeed};
use crate::set::memory::KeptMemory;
use crate::set::{
    DefaultReadFreshness, ElectionFigures, FlowFigures, FlowSettings, SetError, SyncSourceFigures, Topology,
};
use arc_swap::{ArcSwap, ArcSwapOption};
use document::{DocumentBuf, ObjectId};
use event_listener::Event;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;
use wire::ErrorCode;

/// How far this member has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reached {
    /// On the disks of a majority, as far as it knows.
    pub(crate) committed: OpTime,
    /// In the data, and readable.
    pub(crate) applied: OpTime,
    /// On its own disk.
    pub(crate) durable: OpTime,
}

/// What the others have on their disks, by their `_id`, as far as a leader knows.
pub(crate) type Copied = BTreeMap<i32, OpTime>;

/// Written by the driver and by who applies, read by everybody without a lock.
#[derive(Debug)]
pub(crate) struct Shared {
    topology: ArcSwap<Topology>,
    is_writable: AtomicBool,
    reached: ArcSwap<Reached>,
    copied: ArcSwap<Copied>,
    /// The `_id` of whom this member follows instead of the primary; negative for nobody.
    source: AtomicI32,
    /// The state of the set that was learnt last, for members that are behind.
    pub(crate) state_note: ArcSwapOption<DocumentBuf>,
    pub(crate) batches: Batches,
    /// Grows whenever users or roles may have changed by what another member has logged.
    pub(crate) access_changes: Arc<AtomicU64>,
    /// One more than the microseconds of the time that the data are as of; 0 where nothing is known of it.
    fresh_as_of: AtomicU64,
    /// The latest time that somebody waits for them to be as of.
    fresh_wanted: AtomicU64,
    /// The configuration's, so that reads look at one number: 0 for none, else one more than the milliseconds
    /// of staleness, and behind 32 bits of it the wait.
    read_freshness: AtomicU64,
    pub(crate) flow_settings: FlowSettings,
    /// As of the driver's last turn. A leaf in the lock order.
    pub(crate) flow: Mutex<FlowFigures>,
    /// Leaves in the lock order.
    pub(crate) elections: Mutex<ElectionFigures>,
    pub(crate) sources: Mutex<SyncSourceFigures>,
    /// When members have asked this one last, by `_id`, in milliseconds since 1970. A leaf in the lock order.
    pub(crate) asked_by: Mutex<BTreeMap<i32, i64>>,
    /// What this member needs of the others' logs. A leaf in the lock order.
    pub(crate) log_need: Mutex<Option<LogNeed>>,
    /// As of the last look at what may be trimmed. A leaf in the lock order.
    pub(crate) kept_log: Mutex<KeptLogFigures>,
    pub(crate) kept_memory: KeptMemory,
    /// Known from the beginning of the set on.
    pub(crate) oplog: OnceLock<Oplog>,
    /// A leaf in the lock order.
    pub(crate) set_id: Mutex<Option<ObjectId>>,
    /// Tells this member's disk from every other one.
    pub(crate) disk: OnceLock<ObjectId>,
    /// Rung after each change of one of these.
    changed: Event,
    advanced: Event,
    /// Of those who write `reached`, each its own field. A leaf in the lock order.
    reaching: Mutex<()>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Shared {
            topology: ArcSwap::from_pointee(Topology::startup()),
            is_writable: AtomicBool::new(false),
            reached: ArcSwap::default(),
            copied: ArcSwap::default(),
            source: AtomicI32::new(-1),
            state_note: ArcSwapOption::empty(),
            batches: Batches::default(),
            access_changes: Arc::new(AtomicU64::new(1)),
            fresh_as_of: AtomicU64::new(0),
            fresh_wanted: AtomicU64::new(0),
            read_freshness: AtomicU64::new(0),
            flow_settings: FlowSettings::default(),
            flow: Mutex::default(),
            elections: Mutex::default(),
            sources: Mutex::default(),
            asked_by: Mutex::default(),
            log_need: Mutex::default(),
            kept_log: Mutex::default(),
            kept_memory: KeptMemory::default(),
            oplog: OnceLock::new(),
            set_id: Mutex::default(),
            disk: OnceLock::new(),
            changed: Event::new(),
            advanced: Event::new(),
            reaching: Mutex::new(()),
        }
    }

    pub(crate) fn topology(&self) -> Arc<Topology> {
        self.topology.load_full()
    }

    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable.load(Ordering::Acquire)
    }

    /// From here on no operation is taken: the first thing that is done when the leadership is lost.
    pub(crate) fn forbid_writes(&self) {
        self.is_writable.store(false, Ordering::Release);
    }

    /// Publishes what clients are told, where that is something else than before.
    pub(crate) fn publish(&self, topology: Topology) {
        let before = self.topology.load();
        if topology.says_the_same(&before) {
            return;
        }
        let freshness = topology.config.as_ref().and_then(|config| config.settings.read_freshness);
        let freshness = freshness.map_or(0, |freshness| {
            ((freshness.staleness_max.as_millis() as u64 + 1) << 32) | freshness.wait.as_millis() as u64
        });
        self.read_freshness.store(freshness, Ordering::Relaxed);
        let counter = before.counter + 1;
        self.is_writable.store(topology.is_writable, Ordering::Release);
        self.topology.store(Arc::new(Topology { counter, ..topology }));
        self.note_source();
        self.changed.notify(usize::MAX);
        self.advanced.notify(usize::MAX);
    }

    pub(crate) async fn topology_changed(&self, counter: i64) {
        let is_later = || (self.topology.load().counter > counter).then_some(());
        until(&self.changed, is_later).await;
    }

    pub(crate) fn reached(&self) -> Reached {
        **self.reached.load()
    }

    /// Notes how far this member has come.
    pub(crate) fn reach(&self, change: impl FnOnce(&mut Reached)) {
        let reaching = self.reaching.lock();
        let mut reached = self.reached();
        let before = reached;
        change(&mut reached);
        assert!(reached.applied >= before.applied, "applied went from {before:?} to {reached:?}");
        self.reached.store(Arc::new(reached));
        drop(reaching);
        self.advanced.notify(usize::MAX);
    }

    /// All that was acknowledged anywhere until this time, on this member's clock, is in the data.
    pub(crate) fn fresh_as_of(&self) -> Option<Duration> {
        self.fresh_as_of.load(Ordering::Acquire).checked_sub(1).map(Duration::from_micros)
    }

    pub(crate) fn publish_freshness(&self, as_of: Duration) {
        let as_of = as_of.as_micros() as u64;
        // Told only where somebody waits for it.
        if self.fresh_as_of.fetch_max(as_of + 1, Ordering::AcqRel)
            <= self.fresh_wanted.load(Ordering::Acquire)
        {
            self.advanced.notify(usize::MAX);
        }
    }

    /// From when on somebody wants the data to be; none where they are.
    pub(crate) fn fresh_wanted(&self) -> Option<Duration> {
        let wanted = Duration::from_micros(self.fresh_wanted.load(Ordering::Acquire));
        (self.fresh_as_of().is_none_or(|as_of| as_of < wanted) && !wanted.is_zero()).then_some(wanted)
    }

    /// What the configuration demands of reads.
    #[inline]
    pub(crate) fn read_freshness(&self) -> Option<DefaultReadFreshness> {
        let packed = self.read_freshness.load(Ordering::Relaxed);
        (packed != 0).then(|| DefaultReadFreshness {
            staleness_max: Duration::from_millis((packed >> 32) - 1),
            wait: Duration::from_millis(packed & u64::from(u32::MAX)),
        })
    }

    pub(crate) fn want_fresh(&self, as_of: Duration) {
        self.fresh_wanted.fetch_max(as_of.as_micros() as u64, Ordering::AcqRel);
    }

    pub(crate) fn set_source(&self, id: Option<i32>) {
        self.source.store(id.unwrap_or(-1), Ordering::Relaxed);
        self.note_source();
    }

    fn note_source(&self) {
        let topology = self.topology();
        let is_primary = topology.own.is_some() && topology.primary == topology.own;
        self.sources.lock().note(self.source(), is_primary);
    }

    /// The `_id` of the member whose log this one follows; a primary follows nobody.
    pub(crate) fn source(&self) -> Option<i32> {
        let topology = self.topology();
        let primary = topology.primary_member().map(|primary| primary.id);
        let followed = Some(self.source.load(Ordering::Relaxed)).filter(|id| *id >= 0);
        followed.or(primary).filter(|_| topology.primary.is_none() || topology.primary != topology.own)
    }

    pub(crate) fn copied(&self) -> Arc<Copied> {
        self.copied.load_full()
    }

    pub(crate) fn publish_copied(&self, copied: Copied) {
        if **self.copied.load() != copied {
            self.copied.store(Arc::new(copied));
            self.advanced.notify(usize::MAX);
        }
    }

    /// Resolves when something was found; looked for after each step that is made here or elsewhere.
    pub(crate) async fn until_advanced<T>(&self, found: impl FnMut() -> Option<T>) -> T {
        until(&self.advanced, found).await
    }
}

async fn until<T>(event: &Event, mut found: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = found() {
            return found;
        }
        let next = event.listen();
        // Looked at again: an event in between has found nobody who listens.
        if let Some(found) = found() {
            return found;
        }
        next.await;
    }
}

/// Wakes a thread that works off something, once it has begun to.
#[derive(Debug, Default)]
pub(crate) struct ThreadWaker(OnceLock<Thread>);

impl ThreadWaker {
    /// This thread is the one to be woken.
    pub(crate) fn wakes_this_thread(&self) {
        self.0.set(std::thread::current()).expect("one thread works off a queue");
    }

    pub(crate) fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

/// A question to the driver and its answer, which comes once.
struct Slot<T> {
    answer: Mutex<Option<Result<T, SetError>>>,
    answered: Event,
}

/// Who is to answer. Dropped without an answer it says that this member stops.
pub(crate) struct Reply<T>(Arc<Slot<T>>);

/// A question to the driver: who answers it, and the answer.
pub(crate) fn question<T>() -> (Reply<T>, impl Future<Output = Result<T, SetError>>) {
    let slot = Arc::new(Slot { answer: Mutex::new(None), answered: Event::new() });
    let asked = Arc::clone(&slot);
    let answer = async move { until(&asked.answered, || asked.answer.lock().take()).await };
    (Reply(slot), answer)
}

impl<T> Reply<T> {
    pub(crate) fn answer(self, answer: Result<T, SetError>) {
        *self.0.answer.lock() = Some(answer);
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let stops = || Err(SetError::new(ErrorCode::ShutdownInProgress, "this member of the set stops"));
        self.0.answer.lock().get_or_insert_with(stops);
        self.0.answered.notify(1);
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Reply")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::MemberState;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_ready(future: impl Future) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn only_what_clients_see_is_a_change() {
        let shared = Shared::new();
        shared.publish(Topology::startup());
        assert!(!is_ready(shared.topology_changed(0)), "nothing has changed");
        let writable = Topology { state: MemberState::Primary, is_writable: true, ..Topology::startup() };
        shared.publish(writable);
        assert!(is_ready(shared.topology_changed(0)));
        assert!(!is_ready(shared.topology_changed(1)));
        assert!(shared.is_writable());
    }

    #[test]
    fn a_question_that_nobody_answers_ends() {
        let (reply, answer) = question::<()>();
        drop(reply);
        assert_eq!(pollster::block_on(answer).unwrap_err().code, ErrorCode::ShutdownInProgress);
        let (reply, answer) = question();
        reply.answer(Ok(3));
        assert_eq!(pollster::block_on(answer), Ok(3));
    }
}
