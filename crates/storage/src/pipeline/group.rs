//! Group commit: the state machine behind every commit, without I/O and without a runtime.
//!
//! ```text
//!  Unsent ──poll──▶ Waiting ──leader takes it──▶ Writing ──leader settles──▶ Done ──poll──▶ result
//!                     │  ▲                          │
//!                     │  └───────── Stalled ────────┘   (engine is behind: the group goes back, in order)
//!                     └─ nobody leads: the poller becomes leader, now or at the end of its thread's turn
//! ```
//! Leading is a privilege of whoever polls while nobody leads: the leader writes one group or a few, and
//! when units are left it wakes one of their owners and steps down. Until that owner runs, any other
//! arrival may lead instead, so a slow or dropped owner delays nobody.
//!
//! A thread that serves many tasks defers: polling only enqueues there, and the thread owes the queue an
//! end of its turn ([`GroupCommit::turn_ended`]), where it leads for all its tasks at once. In a long turn
//! it leads each time a good group has come together: the longer units wait, the less of what they touched is
//! left in the processor's caches. A leader that steps down while some thread owes wakes nobody: that thread
//! comes by.
//!
//! Units are written in the order in which they were enqueued. So what a unit is going to put can be read as
//! soon as it has its place ([`GroupCommit::look`]), and the unit that is computed from it *follows* it: it
//! is enqueued later, thus never written before it, and it is refused when the other one is.
//!
//! A panic on the way, in the writer or beside it, breaks the queue: everything in it is refused, and so is
//! what comes later. What was being written is in doubt, and nobody else would ever lead.
//!
//! A second queue of this kind, the proposals, has an owner and no leaders: see `owned.rs`.
//!
//! Invariant: when nobody leads and units wait and the queue is not paused, some thread owes the end of
//! its turn, or some live owner has been woken and not polled since, or will be by the one who drops it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};

use slab::Slab;
use smallvec::SmallVec;

use crate::sync::{Mutex, MutexGuard};

/// Groups one leader writes for others after its own (or after the first, when it leads at the end of a
/// turn), before it hands over: its own callers wait meanwhile.
const GROUPS_AFTER_OWN: usize = 1;
/// Bounds of one group, so that one batch stays a short write.
const GROUP_UNITS_MAX: usize = 512;
const GROUP_WEIGHT_MAX: usize = 8 << 20;
/// What is proposed together is also committed together: who brings little is not to wait until the others
/// have what is large.
const PROPOSED_WEIGHT_MAX: usize = 256 << 10;

/// Whom to wake, once no lock is held.
pub(crate) type Wakers = SmallVec<[Waker; 1]>;

/// Where a unit was enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    pub(crate) queue: Queue,
    slot: usize,
    /// Counts units; the slot is used again, this is not.
    number: u64,
}

/// The queues of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Led by those who commit.
    Commits,
    /// Written by its owner, once its entries are committed.
    Proposals,
}

impl Queue {
    /// Whether a group that has units of this weight takes none any more, or not one of `next` bytes.
    fn ends_group(self, weight: usize, next: usize) -> bool {
        match self {
            Queue::Commits => weight >= GROUP_WEIGHT_MAX,
            Queue::Proposals => weight > 0 && weight + next > PROPOSED_WEIGHT_MAX,
        }
    }
}

/// What the leader calls to write a group.
pub(crate) trait GroupWriter {
    /// What is committed.
    type Unit;
    /// Why a group was refused; every unit of it learns the same.
    type Failure: Clone;

    /// Writes all units atomically.
    fn write(&self, units: &[Self::Unit]) -> GroupOutcome<Self::Failure>;
    /// The size of a unit in bytes.
    fn weight(unit: &Self::Unit) -> usize;
    /// A leader has panicked with these words: what the units learn from now on.
    fn panicked(&self, words: &str) -> Self::Failure;
    /// A group went back, and the queue is paused: whoever calls [`GroupCommit::resume`] has to look. Not
    /// before: a look that comes first finds no pause to end, and nobody would look again.
    fn sent_back(&self) {}
    /// So many units are refused.
    fn refused(&self, _units: usize) {}
    /// Where the unit was enqueued that this one follows.
    fn followed(_unit: &Self::Unit) -> Option<QueuePlace> {
        None
    }
    /// The unit has its place. Called with the queue locked; returns whom to wake.
    fn enqueued(_unit: &mut Self::Unit, _place: QueuePlace) -> Wakers {
        Wakers::new()
    }
}

/// How writing a group ended.
pub(crate) enum GroupOutcome<F> {
    /// Written; the sequence number covers every unit of the group.
    Applied(u64),
    /// Refused.
    Failed(F),
    /// Not written: try again after [`GroupCommit::resume`].
    Stalled,
}

/// A commit's place in the pipeline; give it back through [`GroupCommit::abandon`] when it is not polled to
/// its end.
pub(crate) enum Ticket<U> {
    Unsent(U),
    Sent(usize),
    Spent,
}

/// When the thread that polls a commit leads, should it have to.
#[derive(Clone, Copy)]
pub(crate) enum Lead<'a> {
    /// At once.
    Now,
    /// At the end of its turn, or when a good group waits. The flag says whether the thread owes this queue a
    /// turn's end; polling sets it, and whoever finds it set clears it and calls [`GroupCommit::turn_ended`]
    /// before the thread sleeps.
    AtTurnEnd(&'a Cell<bool>),
    /// Never: the queue has an owner. Polling sets the flag when he has something to take and was not told
    /// yet.
    Never(&'a Cell<bool>),
}

pub(super) enum SlotStage<U, F> {
    Waiting(U),
    /// At this position of this group; groups are counted as they are taken.
    Writing {
        group: u64,
        position: usize,
    },
    Done(Result<u64, F>),
}

struct Slot<U, F> {
    stage: SlotStage<U, F>,
    /// The unit's number.
    number: u64,
    /// Set while the owner waits; `None` when the owner is gone.
    waker: Option<Waker>,
    abandoned: bool,
}

pub(super) struct QueueState<U, F> {
    queue: Queue,
    slots: Slab<Slot<U, F>>,
    /// Slots in stage `Waiting`, oldest first.
    pub(super) waiting: VecDeque<usize>,
    /// The number of the next unit.
    pub(super) next_number: u64,
    /// The groups that have been taken and are not settled, for those who look; who took them owns the other
    /// shares. A leader takes one at a time.
    pub(super) in_flight: VecDeque<Arc<Vec<U>>>,
    /// The number of the first of them.
    pub(super) first_in_flight: u64,
    /// The last failure, and the number of the first unit that was enqueued after it.
    pub(super) refusal: Option<(u64, F)>,
    /// Whether a group is being written.
    pub(super) leading: bool,
    /// Threads that owe the end of a turn.
    owing: usize,
    /// Nobody may lead: until `resume`, or ever where there is an owner.
    paused: bool,
    pub(super) closed: Option<F>,
    /// Memory of past groups, kept for the next one.
    spare: Option<CommitGroup<U>>,
    /// Whether the owner knows that there is something to take.
    pub(super) owner_told: bool,
    /// What waits is refused because of this when no group is in flight.
    pub(super) refusing: Option<F>,
    /// Groups in flight that are refused when those before them are settled, and why.
    pub(super) given_up: Vec<(CommitGroup<U>, F)>,
    /// Groups before this one must not be written: one that they may follow was refused.
    pub(super) void_before: u64,
}

/// Units that are written together, and memory between groups.
pub(crate) struct CommitGroup<U> {
    pub(super) ids: Vec<usize>,
    /// Shared with [`QueueState::in_flight`] until it is settled.
    pub(super) units: Arc<Vec<U>>,
    pub(super) wakers: Vec<Waker>,
}

impl<U> Default for CommitGroup<U> {
    fn default() -> CommitGroup<U> {
        CommitGroup { ids: Vec::new(), units: Arc::default(), wakers: Vec::new() }
    }
}

impl<U> CommitGroup<U> {
    /// The units and what they are called, while the group is not in flight.
    pub(super) fn parts_mut(&mut self) -> (&mut Vec<usize>, &mut Vec<U>) {
        let units = Arc::get_mut(&mut self.units);
        (&mut self.ids, units.expect("a group that is not in flight is the leader's alone"))
    }
}

/// Who leads next when a leader steps down.
enum NextLeader {
    /// Nothing waits, or nobody may lead.
    NotNeeded,
    /// A thread that owes the end of its turn.
    Owing,
    /// The owner of the oldest unit that has one.
    Owner(Waker),
    /// Every owner is gone.
    Nobody,
}

pub(crate) struct GroupCommit<U, F> {
    pub(super) state: Mutex<QueueState<U, F>>,
    /// With so many units waiting a thread that defers leads before its turn ends.
    good_group: usize,
}

impl<U, F: Clone> GroupCommit<U, F> {
    pub(crate) fn new(good_group: usize) -> GroupCommit<U, F> {
        GroupCommit::of(QueueState::of(Queue::Commits), good_group)
    }

    pub(super) fn of(state: QueueState<U, F>, good_group: usize) -> GroupCommit<U, F> {
        GroupCommit { state: Mutex::new(state), good_group }
    }

    /// Drives one commit: enqueues it at the first call, leads when nobody does (now or at the end of the
    /// thread's turn), returns its result.
    pub(crate) fn poll<W>(
        &self,
        ticket: &mut Ticket<U>,
        writer: &W,
        waker: &Waker,
        lead: Lead<'_>,
    ) -> Poll<Result<u64, F>>
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let mut state = self.state.lock();
        let slot = match std::mem::replace(ticket, Ticket::Spent) {
            Ticket::Unsent(unit) => {
                if let Some(failure) = state.refuses(W::followed(&unit)) {
                    // Without the lock: the unit may give up latches and wake others.
                    drop(state);
                    drop(unit);
                    writer.refused(1);
                    return Poll::Ready(Err(failure));
                }
                let (slot, wakers) = state.enqueue::<W>(unit);
                if !wakers.is_empty() {
                    // While this unit is written, they build theirs.
                    state.slot_mut(slot).waker = Some(waker.clone());
                    drop(state);
                    *ticket = Ticket::Sent(slot);
                    wakers.into_iter().for_each(Waker::wake);
                    *ticket = Ticket::Spent;
                    state = self.state.lock();
                }
                slot
            }
            Ticket::Sent(slot) => slot,
            Ticket::Spent => panic!("a commit was polled after it had finished"),
        };
        if let Some(result) = state.take_result(slot) {
            return Poll::Ready(result);
        }
        let now = match lead {
            Lead::Now => true,
            Lead::AtTurnEnd(_) => state.waiting.len() >= self.good_group,
            Lead::Never(tell) => {
                if state.is_waiting(slot) {
                    tell.set(!std::mem::replace(&mut state.owner_told, true));
                }
                false
            }
        };
        if now && state.may_lead() {
            state = self.lead(state, Some(slot), writer);
            if let Some(result) = state.take_result(slot) {
                return Poll::Ready(result);
            }
        }
        if let Lead::AtTurnEnd(owes) = lead
            && !owes.get()
            && state.is_waiting(slot)
        {
            owes.set(true);
            state.owing += 1;
        }
        match &mut state.slot_mut(slot).waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        *ticket = Ticket::Sent(slot);
        Poll::Pending
    }

    /// Looks at the unit that was enqueued at `place`; `None` when it is settled, and so is every unit before
    /// it that it follows, however indirectly.
    pub(crate) fn look<T>(&self, place: QueuePlace, look: impl FnOnce(&U) -> T) -> Option<T> {
        let state = self.state.lock();
        let slot = state.slots.get(place.slot).filter(|slot| slot.number == place.number)?;
        match &slot.stage {
            SlotStage::Waiting(unit) => Some(look(unit)),
            SlotStage::Writing { group, position } => {
                let group = state.in_flight.get((group - state.first_in_flight) as usize);
                let unit = group.and_then(|units| units.get(*position));
                Some(look(unit.expect("a unit that is being written is in its group")))
            }
            SlotStage::Done(_) => None,
        }
    }

    /// The turn of a thread that owes its end ends: it writes what waits, unless somebody else does.
    pub(crate) fn turn_ended<W>(&self, writer: &W)
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let ended = self.or_break(writer, || {
            let mut state = self.state.lock();
            assert!(state.owing > 0, "a turn ended that nobody owed");
            state.owing -= 1;
            if state.may_lead() { self.lead_groups(state, None, writer) } else { state }
        });
        drop(ended);
    }

    /// The owner of a ticket goes away. An enqueued unit is still written; if the owner had been woken to
    /// lead, the duty passes on.
    pub(crate) fn abandon<W>(&self, ticket: &mut Ticket<U>, writer: &W)
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let Ticket::Sent(slot) = std::mem::replace(ticket, Ticket::Spent) else { return };
        let mut state = self.state.lock();
        if state.take_result(slot).is_some() {
            return;
        }
        let slot = state.slot_mut(slot);
        slot.waker = None;
        slot.abandoned = true;
        self.pass_on(state, writer);
    }

    /// Lets the queue move again after a group came back as `Stalled`.
    pub(crate) fn resume<W>(&self, writer: &W)
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let mut state = self.state.lock();
        if state.paused {
            state.paused = false;
            self.pass_on(state, writer);
        }
    }

    /// A planted bug: the queue forgets a unit that it has still to write.
    #[cfg(test)]
    pub(crate) fn lose(&self, ticket: &Ticket<U>) {
        if let Ticket::Sent(slot) = ticket {
            self.state.lock().slots.remove(*slot);
        }
    }

    /// Whether a stalled group is waiting for [`GroupCommit::resume`].
    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().paused
    }

    /// Refuses units that have not been enqueued yet, and writes one more lot of those that have. Returns
    /// whether all of them are settled.
    pub(crate) fn close<W>(&self, failure: F, writer: &W) -> bool
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let mut state = self.state.lock();
        state.closed.get_or_insert(failure);
        if state.may_lead() {
            state = self.lead(state, None, writer);
        }
        !state.leading && state.waiting.is_empty()
    }

    /// Makes sure that somebody will lead if somebody must.
    fn pass_on<W>(&self, state: MutexGuard<'_, QueueState<U, F>>, writer: &W)
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        match state.successor() {
            NextLeader::NotNeeded | NextLeader::Owing => {}
            NextLeader::Owner(waker) => {
                drop(state);
                waker.wake();
            }
            // Their units are written all the same, by the last to leave.
            NextLeader::Nobody => drop(self.lead(state, None, writer)),
        }
    }

    /// Writes groups until `own` is settled and others can go on without this caller.
    fn lead<'a, W>(
        &'a self,
        state: MutexGuard<'a, QueueState<U, F>>,
        own: Option<usize>,
        writer: &W,
    ) -> MutexGuard<'a, QueueState<U, F>>
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        self.or_break(writer, || self.lead_groups(state, own, writer)).unwrap_or_else(|_| self.state.lock())
    }

    /// Does what a leader or the owner does; when it panics the queue is broken.
    pub(super) fn or_break<W, T>(&self, writer: &W, lead: impl FnOnce() -> T) -> Result<T, F>
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        catch_unwind(AssertUnwindSafe(lead)).map_err(|panic| {
            let failure = writer.panicked(words_of(&*panic));
            self.break_down(self.state.lock(), &failure, writer);
            failure
        })
    }

    /// Refuses whatever has no result yet, and what comes later.
    pub(super) fn break_down<W>(&self, mut state: MutexGuard<'_, QueueState<U, F>>, failure: &F, writer: &W)
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let (units, wakers, refused) = state.break_down(failure);
        let given_up = std::mem::take(&mut state.given_up);
        drop(state);
        writer.refused(refused);
        // They give up latches.
        drop((units, given_up));
        wake_all(wakers);
    }

    /// Wakes those whose units are settled, lets go of the units and keeps the memory.
    pub(super) fn release(&self, mut group: CommitGroup<U>) -> MutexGuard<'_, QueueState<U, F>> {
        wake_all(group.wakers.drain(..));
        group.parts_mut().1.clear();
        let mut state = self.state.lock();
        state.spare = Some(group);
        state
    }

    fn lead_groups<'a, W>(
        &'a self,
        mut state: MutexGuard<'a, QueueState<U, F>>,
        own: Option<usize>,
        writer: &W,
    ) -> MutexGuard<'a, QueueState<U, F>>
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        assert!(!state.leading, "two lead at once");
        let mut groups_after_own = 0;
        loop {
            state.leading = true;
            let mut group = state.take_group::<W>();
            drop(state);
            let outcome = writer.write(&group.units);
            state = self.state.lock();
            assert!(state.leading && state.in_flight.len() == 1, "the queue has forgotten its leader");
            state.forget_first_in_flight();
            let is_sent_back = matches!(outcome, GroupOutcome::Stalled);
            match outcome {
                GroupOutcome::Applied(sequence) => state.settle(&mut group, &Ok(sequence), own),
                GroupOutcome::Failed(failure) => {
                    state.add_followers::<W>(&mut group, &failure);
                    writer.refused(group.ids.len());
                    state.settle(&mut group, &Err(failure), own);
                }
                GroupOutcome::Stalled => state.put_back(&mut group),
            }
            state.leading = false;
            let own_waits = own.is_some_and(|own| state.is_waiting(own));
            if !own_waits {
                groups_after_own += 1;
            }
            let go_on = match state.successor() {
                NextLeader::NotNeeded => false,
                NextLeader::Nobody => true,
                NextLeader::Owing | NextLeader::Owner(_)
                    if own_waits || groups_after_own <= GROUPS_AFTER_OWN =>
                {
                    true
                }
                NextLeader::Owing => false,
                NextLeader::Owner(waker) => {
                    group.wakers.push(waker);
                    false
                }
            };
            // Nobody may slip in while the lock is released to wake and to free what was written.
            state.leading = go_on;
            drop(state);
            if is_sent_back {
                writer.sent_back();
            }
            state = self.release(group);
            if !go_on {
                return state;
            }
        }
    }
}

/// What a panic says.
pub(crate) fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let words = panic.downcast_ref::<&str>().copied();
    words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

/// Wakes all, also those behind one whose waker panics.
pub(super) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    struct RemainingWakers<I: Iterator<Item = Waker>>(I);
    impl<I: Iterator<Item = Waker>> Drop for RemainingWakers<I> {
        fn drop(&mut self) {
            self.0.by_ref().for_each(Waker::wake);
        }
    }
    let mut remaining = RemainingWakers(wakers.into_iter());
    for waker in remaining.0.by_ref() {
        waker.wake();
    }
}

impl<U, F: Clone> QueueState<U, F> {
    pub(super) fn of(queue: Queue) -> QueueState<U, F> {
        QueueState {
            queue,
            slots: Slab::new(),
            waiting: VecDeque::new(),
            next_number: 0,
            in_flight: VecDeque::new(),
            first_in_flight: 0,
            refusal: None,
            leading: false,
            owing: 0,
            paused: queue == Queue::Proposals,
            closed: None,
            spare: None,
            owner_told: false,
            refusing: None,
            given_up: Vec::new(),
            void_before: 0,
        }
    }

    /// A slot that somebody counts on.
    fn slot_mut(&mut self, slot: usize) -> &mut Slot<U, F> {
        self.slots.get_mut(slot).expect("a unit keeps its slot until its result is taken")
    }

    /// Nothing is written any more: whatever has no result yet is refused. Returns what waited, whom to wake,
    /// and how many units were refused.
    fn break_down(&mut self, failure: &F) -> (Vec<U>, Vec<Waker>, usize) {
        self.leading = false;
        self.paused = false;
        self.in_flight.clear();
        self.closed.get_or_insert_with(|| failure.clone());
        self.waiting.clear();
        let (mut units, mut wakers, mut refused) = (Vec::new(), Vec::new(), 0);
        self.slots.retain(|_, slot| {
            if !matches!(slot.stage, SlotStage::Done(_)) {
                refused += 1;
                let unsettled = std::mem::replace(&mut slot.stage, SlotStage::Done(Err(failure.clone())));
                if let SlotStage::Waiting(unit) = unsettled {
                    units.push(unit);
                }
            }
            wakers.extend(slot.waker.take());
            !slot.abandoned
        });
        (units, wakers, refused)
    }

    /// Why a unit that follows the one at `followed` is not enqueued any more.
    fn refuses(&self, followed: Option<QueuePlace>) -> Option<F> {
        if self.closed.is_some() {
            return self.closed.clone();
        }
        let followed = followed?;
        match self.slots.get(followed.slot).filter(|slot| slot.number == followed.number) {
            Some(Slot { stage: SlotStage::Done(result), .. }) => result.clone().err(),
            Some(_) => None,
            // Nobody knows any more what became of it: whatever came before the last failure counts as
            // refused.
            None => {
                let (trusted_from, failure) = self.refusal.as_ref()?;
                (followed.number < *trusted_from).then(|| failure.clone())
            }
        }
    }

    fn enqueue<W: GroupWriter<Unit = U>>(&mut self, mut unit: U) -> (usize, Wakers) {
        let number = self.next_number;
        self.next_number += 1;
        let free = self.slots.vacant_entry();
        let slot = free.key();
        let wakers = W::enqueued(&mut unit, QueuePlace { queue: self.queue, slot, number });
        free.insert(Slot { stage: SlotStage::Waiting(unit), number, waker: None, abandoned: false });
        self.waiting.push_back(slot);
        (slot, wakers)
    }

    fn take_result(&mut self, slot: usize) -> Option<Result<u64, F>> {
        if !matches!(self.slots.get(slot)?.stage, SlotStage::Done(_)) {
            return None;
        }
        match self.slots.remove(slot).stage {
            SlotStage::Done(result) => Some(result),
            SlotStage::Waiting(_) | SlotStage::Writing { .. } => None,
        }
    }

    fn is_waiting(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| matches!(slot.stage, SlotStage::Waiting(_)))
    }

    fn may_lead(&self) -> bool {
        !self.leading && !self.paused && !self.waiting.is_empty()
    }

    fn successor(&self) -> NextLeader {
        if !self.may_lead() {
            return NextLeader::NotNeeded;
        }
        if self.owing > 0 {
            return NextLeader::Owing;
        }
        let owner = self.waiting.iter().find_map(|slot| self.slots.get(*slot)?.waker.clone());
        owner.map_or(NextLeader::Nobody, NextLeader::Owner)
    }

    pub(super) fn take_group<W: GroupWriter<Unit = U>>(&mut self) -> CommitGroup<U> {
        let mut group = self.spare.take().unwrap_or_default();
        let number = self.first_in_flight + self.in_flight.len() as u64;
        let (queue, mut weight) = (self.queue, 0);
        let (ids, units) = group.parts_mut();
        assert!(ids.is_empty() && units.is_empty(), "{} units of the last group are left", units.len());
        while let Some(id) = self.waiting.front().copied().filter(|_| units.len() < GROUP_UNITS_MAX) {
            let slot = self.slots.get_mut(id).expect("what waits has a slot");
            let SlotStage::Waiting(unit) = &slot.stage else {
                panic!("unit {} is in the queue and waits no longer", slot.number);
            };
            let next = W::weight(unit);
            if queue.ends_group(weight, next) {
                break;
            }
            weight += next;
            self.waiting.pop_front();
            let stage = SlotStage::Writing { group: number, position: units.len() };
            let SlotStage::Waiting(unit) = std::mem::replace(&mut slot.stage, stage) else {
                unreachable!("it has just been seen to wait");
            };
            ids.push(id);
            units.push(unit);
        }
        self.in_flight.push_back(Arc::clone(&group.units));
        group
    }

    /// The first group in flight is about to be settled, or goes back.
    pub(super) fn forget_first_in_flight(&mut self) {
        self.in_flight.pop_front();
        self.first_in_flight += 1;
    }

    /// The group is refused: adds to it what follows its units, directly or not. Exactly those, so that a
    /// unit is never settled before one that it follows.
    pub(super) fn add_followers<W: GroupWriter<Unit = U>>(
        &mut self,
        group: &mut CommitGroup<U>,
        failure: &F,
    ) {
        self.refusal = Some((self.next_number, failure.clone()));
        // Ascending, as the units were enqueued.
        let (ids, units) = group.parts_mut();
        let slots = &mut self.slots;
        let number = |id: &usize| slots.get(*id).expect("a unit of the group has a slot").number;
        let mut refused: Vec<u64> = ids.iter().map(number).collect();
        assert!(refused.is_sorted(), "the group is not in the order of its units: {refused:?}");
        self.waiting.retain(|id| {
            let slot = slots.get_mut(*id).expect("what waits has a slot");
            let SlotStage::Waiting(unit) = &slot.stage else {
                panic!("unit {} is in the queue and waits no longer", slot.number);
            };
            let follows =
                W::followed(unit).is_some_and(|followed| refused.binary_search(&followed.number).is_ok());
            if follows {
                let stage = SlotStage::Writing { group: self.first_in_flight, position: units.len() };
                if let SlotStage::Waiting(unit) = std::mem::replace(&mut slot.stage, stage) {
                    ids.push(*id);
                    units.push(unit);
                    refused.push(slot.number);
                }
            }
            !follows
        });
    }

    /// Notes the result for every owner that is there, and collects their wakers.
    pub(super) fn settle(&mut self, group: &mut CommitGroup<U>, result: &Result<u64, F>, own: Option<usize>) {
        for id in group.ids.drain(..) {
            let slot = self.slots.get_mut(id).expect("a unit of the group has a slot");
            assert!(matches!(slot.stage, SlotStage::Writing { .. }), "unit {} is settled twice", slot.number);
            if slot.abandoned {
                self.slots.remove(id);
                continue;
            }
            slot.stage = SlotStage::Done(result.clone());
            let waker = slot.waker.take();
            if own != Some(id) {
                group.wakers.extend(waker);
            }
        }
    }

    fn put_back(&mut self, group: &mut CommitGroup<U>) {
        self.paused = true;
        let (ids, units) = group.parts_mut();
        for (id, unit) in ids.drain(..).zip(units.drain(..)).rev() {
            self.slot_mut(id).stage = SlotStage::Waiting(unit);
            self.waiting.push_front(id);
        }
    }
}
