//! A queue with an owner: it is the queue of `group.rs`, but nobody who commits leads. The owner takes
//! groups, several of them if he likes, does with them what has to be done first, and writes or refuses them
//! in order.
//!
//! ```text
//!  Waiting ──owner takes it──▶ Writing (in flight) ──owner writes or refuses its group──▶ Done
//! ```
//! Invariants: groups are settled in the order in which they were taken, so that a unit is never settled
//! before one that it follows; one that is refused earlier waits for its turn. When a group is refused, those
//! in flight behind it must be refused as well: they may hold what goes on from it.

use std::sync::Arc;

use super::group::{CommitGroup, GroupCommit, GroupWriter, Queue, QueueState, wake_all};
use crate::sync::MutexGuard;

impl<U, F: Clone> GroupCommit<U, F> {
    /// A queue with an owner, which refuses everything until he [accepts](GroupCommit::accept).
    pub(crate) fn owned(refusal: F) -> GroupCommit<U, F> {
        let mut state = QueueState::of(Queue::Proposals);
        state.closed = Some(refusal);
        GroupCommit::of(state, usize::MAX)
    }

    /// Units are enqueued from now on, unless `closed` says that they never will be again.
    pub(crate) fn accept(&self, closed: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        if !closed() {
            state.closed = None;
        }
    }

    /// Refuses what comes from now on because of `later`, and what waits because of `why`: as soon as nothing
    /// is in flight any more that it may follow.
    pub(crate) fn refuse_waiting<W>(&self, why: F, later: F, writer: &W) -> Result<(), F>
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        self.or_break(writer, || {
            let mut state = self.state.lock();
            state.closed = Some(later);
            state.refusing = Some(why);
            self.refuse_if_idle(state, writer);
        })
    }

    /// Settles the groups that were given up and whose turn it is, and then what waits to be refused.
    fn settle_given_up<W>(&self, writer: &W)
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        loop {
            let mut state = self.state.lock();
            // Whoever writes goes on here.
            if state.leading {
                return;
            }
            let Some(first) = state.in_flight.front() else { return self.refuse_if_idle(state, writer) };
            let is_first = |(group, _): &(CommitGroup<U>, F)| Arc::ptr_eq(first, &group.units);
            let Some(place) = state.given_up.iter().position(is_first) else { return };
            let (group, why) = state.given_up.swap_remove(place);
            state.leading = true;
            drop(state);
            self.settle_first(group, &Err(why), writer);
        }
    }

    fn refuse_if_idle<W>(&self, mut state: MutexGuard<'_, QueueState<U, F>>, writer: &W)
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        if !state.in_flight.is_empty() {
            return;
        }
        let Some(why) = state.refusing.take() else { return };
        state.refusal = Some((state.next_number, why.clone()));
        let (why, mut refused) = (Err(why), Vec::new());
        while !state.waiting.is_empty() {
            let mut group = state.take_group::<W>();
            state.forget_first_in_flight();
            writer.refused(group.ids.len());
            state.settle(&mut group, &why, None);
            refused.push(group);
        }
        drop(state);
        wake_all(refused.iter_mut().flat_map(|group| group.wakers.drain(..)));
    }

    /// The owner takes the next group. When there is none he is told of the next unit.
    pub(crate) fn take<W>(&self, writer: &W) -> Option<CommitGroup<U>>
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let taken = self.or_break(writer, || {
            let mut state = self.state.lock();
            state.owner_told = !state.waiting.is_empty() && state.refusing.is_none();
            state.owner_told.then(|| state.take_group::<W>())
        });
        taken.ok().flatten()
    }

    /// Changes the units of a group in flight.
    pub(crate) fn change<T>(
        &self,
        group: &mut CommitGroup<U>,
        change: impl FnOnce(&mut Vec<U>) -> T,
    ) -> Option<T> {
        let mut state = self.state.lock();
        let share = state.in_flight.iter_mut().find(|share| Arc::ptr_eq(share, &group.units))?;
        *share = Arc::default();
        let changed = change(group.parts_mut().1);
        *share = Arc::clone(&group.units);
        Some(changed)
    }

    /// Writes the first group in flight with another unit beside it, by `write`, whose answer is that of all.
    pub(crate) fn write_first<W>(
        &self,
        mut group: CommitGroup<U>,
        beside: U,
        writer: &W,
        write: impl FnOnce(&[U]) -> Result<u64, F>,
    ) -> Result<u64, F>
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let written = self.or_break(writer, || {
            self.begin_first(&group)?;
            // Broken meanwhile by another thread: nothing of it is written without what comes beside.
            if self.change(&mut group, |units| units.push(beside)).is_none() {
                return Err(why_ended(&self.state.lock()));
            }
            let result = write(&group.units);
            self.settle_first(group, &result, writer);
            self.settle_given_up(writer);
            result
        });
        written.and_then(|result| result)
    }

    /// Refuses a group in flight, and what follows it: at once, or when those before it are settled.
    pub(crate) fn give_up<W>(&self, group: CommitGroup<U>, why: F, writer: &W) -> Result<(), F>
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        self.or_break(writer, || {
            let mut state = self.state.lock();
            if state.place_in_flight(&group).is_some() {
                state.given_up.push((group, why));
                drop(state);
                self.settle_given_up(writer);
            }
        })
    }

    /// A group is about to be written, unless the queue was broken or closed and everything refused.
    fn begin_first(&self, group: &CommitGroup<U>) -> Result<(), F> {
        let mut state = self.state.lock();
        let Some(place) = state.place_in_flight(group) else {
            return Err(why_ended(&state));
        };
        assert_eq!(place, 0, "groups are written in the order in which they were taken");
        let is_void = state.first_in_flight < state.void_before;
        assert!(!is_void, "a group is written that may follow a refused one");
        state.leading = true;
        Ok(())
    }

    fn settle_first<W>(&self, mut group: CommitGroup<U>, result: &Result<u64, F>, writer: &W)
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let mut state = self.state.lock();
        state.leading = false;
        state.forget_first_in_flight();
        if let Err(failure) = result {
            state.void_before = state.first_in_flight + state.in_flight.len() as u64;
            state.add_followers::<W>(&mut group, failure);
            writer.refused(group.ids.len());
        }
        state.settle(&mut group, result, None);
        drop(state);
        drop(self.release(group));
    }

    /// Refuses everything for good: what waits, what is in flight, what comes. Returns whether it is done:
    /// not while a group is being written.
    pub(crate) fn close_owned<W>(&self, failure: &F, writer: &W) -> bool
    where
        W: GroupWriter<Unit = U, Failure = F>,
    {
        let mut state = self.state.lock();
        state.closed = Some(failure.clone());
        let done = !state.leading;
        if done {
            self.break_down(state, failure, writer);
        }
        done
    }
}

/// Why a group that its owner has is not in flight any more.
fn why_ended<U, F: Clone>(state: &QueueState<U, F>) -> F {
    state.closed.clone().expect("who is not in flight was refused when the queue ended")
}

impl<U, F: Clone> QueueState<U, F> {
    fn place_in_flight(&self, group: &CommitGroup<U>) -> Option<usize> {
        self.in_flight.iter().position(|share| Arc::ptr_eq(share, &group.units))
    }
}
