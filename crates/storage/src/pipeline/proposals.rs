//! Proposals: units whose log entries have to be committed by others before they are written.
//!
//! They wait in a queue of their own ([`owned`](super::owned)). Whoever keeps the log takes them in groups,
//! has their entries committed, and writes or refuses the groups.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Receipt;
use super::group::{CommitGroup, GroupCommit, GroupWriter, Lead, Queue, Ticket, words_of};
use crate::engine::EngineFailure;
use crate::error::CommitError;
use crate::gate::queue::{Admission, Gate, GateBudget, cost};
use crate::space::SpaceState;
use crate::store::{Store, StoreInner};
use crate::unit::WriteUnit;

/// How long a write that cannot be refused waits for the engine or for room before the next try.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// How much may be enqueued. See [`Proposals::set_window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProposalWindow {
    /// Units pass while less than this is enqueued: the last one may bring more. Had it to wait for room for
    /// all that it brings, the way would run empty before.
    pub room: u64,
    /// Small ones also while all that is enqueued has room in this, so that they are before the next large
    /// one.
    pub room_for_small: u64,
    /// Where it is about more than the way, units are paid for before they pass.
    pub budget: Option<GateBudget>,
}

/// What waits before the proposals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldProposals {
    /// Units that have had to wait.
    pub held: u64,
    /// How long all together, in microseconds.
    pub waited_us: u64,
    /// Connections whose units wait now, and the bytes of these.
    pub connections: Vec<(u64, u64)>,
}

/// Tells the owner that there is something to take.
type Notify = Arc<dyn Fn() + Send + Sync>;

/// The queue of a store whose units with entries have an owner.
pub(crate) struct ProposalQueue {
    /// Where units wait while those in front of them are too many for a majority of the members.
    pub(crate) gate: Gate,
    waited_us: AtomicU64,
    /// Bytes of the units that the owner has taken.
    taken: AtomicU64,
    pub(crate) group: GroupCommit<WriteUnit, CommitError>,
    /// `None` when the owner is gone. He may keep the store, so the store does not keep what is his for ever.
    notify: Mutex<Option<Notify>>,
}

impl ProposalQueue {
    /// Whether the unit has to ask [`ProposalQueue::poll_admit`]. What only follows another one has nothing
    /// to log.
    pub(super) fn holds(&self, unit: &WriteUnit) -> bool {
        !self.gate.is_open() && !unit.entries().is_empty() && !unit.passes_gates()
    }

    /// Resolves when the unit may be enqueued.
    pub(super) fn poll_admit(
        &self,
        unit: &WriteUnit,
        ticket: &mut Option<usize>,
        began: Instant,
        waker: &Waker,
    ) -> Poll<()> {
        let admitted = self.gate.poll_admit(unit.entry_bytes(), unit.connection(), ticket, waker);
        if admitted.is_ready() {
            self.waited_us.fetch_add(ambient::elapsed(began).as_micros() as u64, Ordering::Relaxed);
        }
        admitted
    }

    /// As [`GroupCommit::poll`].
    pub(super) fn poll(
        &self,
        ticket: &mut Ticket<WriteUnit>,
        store: &StoreInner,
        waker: &Waker,
    ) -> Poll<Result<u64, CommitError>> {
        let tell = Cell::new(false);
        let polled = self.group.poll(ticket, store, waker, Lead::Never(&tell));
        if tell.get() {
            self.notify();
        }
        polled
    }

    fn notify(&self) {
        let notify = self.notify.lock().clone();
        if let Some(notify) = notify {
            notify();
        }
    }
}

/// The owner's end of the proposals. When it is dropped they are refused for good; when that happens in a
/// panic the store is broken.
pub struct Proposals {
    store: Arc<StoreInner>,
}

/// Units in the order in which they were enqueued, and their entries. It must be written, in the order in
/// which the groups were taken, or refused; dropping it breaks the store.
#[must_use = "its units wait until it is written or refused"]
pub struct ProposedGroup {
    store: Arc<StoreInner>,
    group: Option<CommitGroup<WriteUnit>>,
    entries: Vec<Vec<u8>>,
    cost: u64,
    /// Of those with entries.
    units: usize,
}

impl Store {
    /// Units with [entries](WriteUnit::entries_mut), and units that follow such, are from now on handed to
    /// the caller, and refused until he [accepts](Proposals::accept) them. `notify` is called when there is
    /// something to take and nobody was told since [`Proposals::next_group`] had nothing to give. It must not
    /// block.
    ///
    /// # Panics
    /// When they have an owner already.
    pub fn take_proposals(&self, notify: Arc<dyn Fn() + Send + Sync>) -> Proposals {
        let store: &Arc<StoreInner> = &self.inner;
        let group = GroupCommit::owned(CommitError::NotPrimary);
        let queue = ProposalQueue {
            gate: Gate::new(),
            waited_us: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            group,
            notify: Mutex::new(Some(notify)),
        };
        assert!(store.proposals.set(queue).is_ok(), "the proposals of a store have one owner");
        Proposals { store: Arc::clone(store) }
    }

    /// What waits for room before the proposals, where they have an owner.
    pub fn held_proposals(&self) -> HeldProposals {
        let Some(queue) = self.inner.proposals.get() else { return HeldProposals::default() };
        HeldProposals {
            held: queue.gate.held(),
            waited_us: queue.waited_us.load(Ordering::Relaxed),
            connections: queue.gate.waiting_bytes(),
        }
    }

    /// Writes a unit on this thread at once, beside both queues: the gate and the reserve for a full disk do
    /// not hold it back. For the own writes of whoever keeps the log; it waits, with the thread, while the
    /// engine is behind or the disk has no room at all.
    ///
    /// # Errors
    /// When the store is broken or closed, or [ends](Store::end_waits), and never for a reason that passes.
    pub fn write_now(&self, unit: WriteUnit) -> Result<Receipt, CommitError> {
        assert!(unit.queue() == Queue::Commits, "a unit with entries is written when these are committed");
        let store = &self.inner;
        let units = std::slice::from_ref(&unit);
        let written = catch_unwind(AssertUnwindSafe(|| store.write_committed(units)));
        let written = written.unwrap_or_else(|panic| Err(store.panicked(words_of(&*panic))));
        written.map(|sequence| Receipt { sequence })
    }
}

impl Store {
    /// The process ends: what waits for room on the disk, now or later, fails with [`CommitError::Closed`].
    pub fn end_waits(&self) {
        self.inner.is_ending.store(true, Ordering::Release);
    }

    /// Whether the disk has room for what grows.
    pub fn has_room(&self) -> bool {
        self.inner.space.state() == SpaceState::Normal
    }
}

impl StoreInner {
    /// The queue of a unit with entries.
    pub(crate) fn proposal_queue(&self) -> &ProposalQueue {
        self.proposals.get().expect("units have entries where somebody owns the proposals")
    }

    /// Whether no proposal will ever be taken again.
    fn ends_proposals(&self) -> bool {
        self.breakdown().is_some() || self.closed.load(Ordering::Acquire)
    }

    /// Writes what can no longer be refused: as soon as the engine takes it.
    fn write_committed(&self, units: &[WriteUnit]) -> Result<u64, CommitError> {
        loop {
            if let Some(broken) = self.breakdown() {
                return Err(broken.clone());
            }
            match self.write_group(units) {
                Ok(sequence) => return Ok(sequence),
                Err(EngineFailure::Stalled) => self.stalled(),
                Err(EngineFailure::NoSpace(_)) => {
                    if self.is_ending.load(Ordering::Acquire) {
                        return Err(CommitError::Closed);
                    }
                    self.space.make_way(ambient::now());
                }
                Err(EngineFailure::Failed(detail)) => {
                    self.break_down(&format!("what was committed could not be written: {detail}"));
                    continue;
                }
            }
            if self.closed.load(Ordering::Acquire) {
                return Err(CommitError::Closed);
            }
            self.signal.written();
            self.signal.hasten();
            std::thread::sleep(RETRY_PAUSE);
        }
    }
}

impl Proposals {
    fn queue(&self) -> &GroupCommit<WriteUnit, CommitError> {
        &self.store.proposal_queue().group
    }

    /// Units are taken from now on: this member is the primary, and has applied everything that was logged
    /// before.
    pub fn accept(&self) {
        self.queue().accept(|| self.store.ends_proposals());
    }

    /// Refuses the units that come from now on with [`CommitError::NotPrimary`], and those that wait because
    /// of `why`, as soon as the groups in flight are settled, which stay with the owner.
    pub fn refuse(&self, why: CommitError) {
        // A panic on the way has broken the store, which tells everybody.
        let _ = self.queue().refuse_waiting(why, CommitError::NotPrimary, &*self.store);
        self.set_window(None);
    }

    /// From now on units wait for which the window has no room beside those that were not taken yet, and of
    /// them those the longest whose connections have brought the most. Without a window all are enqueued.
    pub fn set_window(&self, window: Option<ProposalWindow>) {
        let queue = self.store.proposal_queue();
        let taken = queue.taken.load(Ordering::Relaxed);
        let admission = window.map_or(Admission::Open, |window| {
            let ProposalWindow { room, room_for_small, budget } = window;
            Admission::Window { taken, room, room_for_small, budget }
        });
        queue.gate.set(admission, Duration::ZERO);
    }

    /// Whether units wait for room.
    pub fn are_held(&self) -> bool {
        self.store.proposal_queue().gate.waiting() > 0
    }

    /// The next group, if a unit waits: at most 512 units and, unless one alone is larger, 256 KiB.
    pub fn next_group(&self) -> Option<ProposedGroup> {
        let mut group = self.queue().take(&*self.store)?;
        let (mut taken, mut with_entries) = (0, 0);
        let take_entries = |units: &mut Vec<WriteUnit>| {
            for unit in units.iter().filter(|unit| !unit.entries().is_empty()) {
                with_entries += 1;
                taken += cost(unit.entry_bytes());
            }
            units.iter_mut().flat_map(WriteUnit::take_entries).collect::<Vec<_>>()
        };
        // None where the queue was broken since: whoever writes the group is told.
        let entries = self.queue().change(&mut group, take_entries).unwrap_or_default();
        self.store.proposal_queue().taken.fetch_add(taken, Ordering::Relaxed);
        Some(ProposedGroup {
            store: Arc::clone(&self.store),
            group: Some(group),
            entries,
            cost: taken,
            units: with_entries,
        })
    }
}

impl Drop for Proposals {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.store.break_down("the owner of the proposals panicked");
        }
        let closed = self.store.breakdown().cloned().unwrap_or(CommitError::Closed);
        let _ = self.queue().refuse_waiting(closed.clone(), closed, &*self.store);
        self.set_window(None);
        *self.store.proposal_queue().notify.lock() = None;
    }
}

impl ProposedGroup {
    /// The entries of the units, in order, to be completed or taken. A unit that only follows another one has
    /// none.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        self.entries.iter_mut()
    }

    /// How many there are.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// What its units count in a [`ProposalWindow`].
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// How many of its units have entries.
    pub fn unit_count(&self) -> usize {
        self.units
    }

    /// Writes the units, with `beside`, as one batch, and settles them. The entries are committed: while the
    /// engine is behind or the disk has no room it waits, with the thread. `applied` is called when all can
    /// be read and nobody has been told yet.
    ///
    /// # Errors
    /// When the store is broken or closed.
    pub fn write(mut self, beside: WriteUnit, applied: impl FnOnce(Receipt)) -> Result<Receipt, CommitError> {
        let group = self.group.take().expect("a group is settled once");
        let store = &*self.store;
        let write = |units: &[WriteUnit]| {
            let sequence = store.write_committed(units)?;
            applied(Receipt { sequence });
            Ok(sequence)
        };
        let written = store.proposal_queue().group.write_first(group, beside, store, write);
        written.map(|sequence| Receipt { sequence })
    }

    /// Refuses the units, and those that wait and follow them, as soon as the groups in front of it are
    /// settled. Groups behind it must be refused as well.
    pub fn refuse(mut self, why: CommitError) {
        let group = self.group.take().expect("a group is settled once");
        // A panic on the way has broken the store, which tells everybody.
        let _ = self.store.proposal_queue().group.give_up(group, why, &*self.store);
    }
}

impl Drop for ProposedGroup {
    fn drop(&mut self) {
        let Some(group) = self.group.take() else { return };
        self.store.break_down("a group of proposals was neither written nor refused");
        if let Some(broken) = self.store.breakdown() {
            self.store.proposal_queue().group.close_owned(broken, &*self.store);
        }
        drop(group);
    }
}

impl std::fmt::Debug for Proposals {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Proposals")
    }
}

impl std::fmt::Debug for ProposedGroup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ProposedGroup").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}
