//! Group sync: one sync covers every commit applied before it started.
//!
//! Whoever needs a sync and finds none running performs it; the others wait without a thread. A sync that
//! runs already does not help those who came after its start: when it ends, one of them is woken to
//! perform the next.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};

use slab::Slab;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// What the sync leader calls.
pub(crate) trait JournalWriter {
    /// Why a sync failed.
    type Failure: Clone;

    /// The sequence number up to which everything is in the log.
    fn applied(&self) -> u64;
    /// Brings the log to stable storage.
    fn sync(&self) -> SyncOutcome<Self::Failure>;
    /// What waiters learn when `sync` panicked.
    fn sync_panicked(&self) -> Self::Failure;
}

/// How a sync ended.
pub(crate) enum SyncOutcome<F> {
    /// Everything applied before it is on stable storage.
    Synced,
    /// The log cannot be synced before the engine has recovered (from a full disk); nothing is lost. Waiters
    /// go on waiting, and [`SyncGroup::sync_now`] tries again.
    NotNow,
    /// Nobody knows what is on stable storage, now and for good.
    Failed(F),
}

struct SyncState<F> {
    syncing: bool,
    /// Commits waiting for a sync that covers their sequence number.
    waiters: Slab<(u64, Waker)>,
    /// Set by the first failed sync, for good.
    failed: Option<F>,
}

pub(crate) struct SyncGroup<F> {
    /// Everything up to this sequence number is on stable storage.
    synced: AtomicU64,
    state: Mutex<SyncState<F>>,
}

impl<F: Clone> SyncGroup<F> {
    pub(crate) fn new(synced: u64) -> SyncGroup<F> {
        SyncGroup {
            synced: AtomicU64::new(synced),
            state: Mutex::new(SyncState { syncing: false, waiters: Slab::new(), failed: None }),
        }
    }

    /// The sequence number up to which everything is on stable storage.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Drives one commit's wait until `sequence` is on stable storage.
    pub(crate) fn poll<W>(
        &self,
        sequence: u64,
        ticket: &mut Option<usize>,
        writer: &W,
        waker: &Waker,
    ) -> Poll<Result<(), F>>
    where
        W: JournalWriter<Failure = F>,
    {
        let mut state = self.state.lock();
        if self.synced() < sequence && state.failed.is_none() && !state.syncing {
            state = self.lead(state, writer);
        }
        let outcome = if self.synced() >= sequence { Some(Ok(())) } else { state.failed.clone().map(Err) };
        if let Some(outcome) = outcome {
            if let Some(waiter) = ticket.take() {
                state.waiters.try_remove(waiter);
            }
            return Poll::Ready(outcome);
        }
        match ticket.and_then(|waiter| state.waiters.get_mut(waiter)) {
            Some((_, known)) => known.clone_from(waker),
            None => *ticket = Some(state.waiters.insert((sequence, waker.clone()))),
        }
        Poll::Pending
    }

    /// A waiting commit goes away; if it had been woken to sync, the duty passes on.
    pub(crate) fn abandon(&self, ticket: &mut Option<usize>) {
        let Some(waiter) = ticket.take() else { return };
        let mut state = self.state.lock();
        state.waiters.try_remove(waiter);
        if !state.syncing {
            let successor = state.successor(self.synced());
            drop(state);
            successor.into_iter().for_each(Waker::wake);
        }
    }

    /// Syncs what has been applied, unless there is nothing to sync, a sync is running or one has failed.
    pub(crate) fn sync_now<W>(&self, writer: &W)
    where
        W: JournalWriter<Failure = F>,
    {
        if writer.applied() <= self.synced() {
            return;
        }
        let state = self.state.lock();
        if !state.syncing && state.failed.is_none() {
            drop(self.lead(state, writer));
        }
    }

    fn lead<'a, W>(
        &'a self,
        mut state: MutexGuard<'a, SyncState<F>>,
        writer: &W,
    ) -> MutexGuard<'a, SyncState<F>>
    where
        W: JournalWriter<Failure = F>,
    {
        state.syncing = true;
        drop(state);
        // Read before the sync: what is applied while it runs may miss it.
        let covered = writer.applied();
        let outcome = catch_unwind(AssertUnwindSafe(|| writer.sync()))
            .unwrap_or_else(|_| SyncOutcome::Failed(writer.sync_panicked()));
        let mut state = self.state.lock();
        state.syncing = false;
        match outcome {
            SyncOutcome::Synced => self.synced.store(covered, Ordering::Release),
            SyncOutcome::Failed(failure) => state.failed = Some(failure),
            // Waking somebody now would only make him try the same in vain.
            SyncOutcome::NotNow => return state,
        }
        let everyone = state.failed.is_some();
        let done = |sequence: u64| everyone || sequence <= covered;
        let mut wakers: Vec<Waker> = state
            .waiters
            .iter()
            .filter(|(_, (sequence, _))| done(*sequence))
            .map(|(_, (_, waker))| waker.clone())
            .collect();
        if !everyone {
            wakers.extend(state.successor(covered));
        }
        if !wakers.is_empty() {
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            state = self.state.lock();
        }
        state
    }
}

impl<F> SyncState<F> {
    /// Somebody whose sequence number the last sync did not cover.
    fn successor(&self, synced: u64) -> Option<Waker> {
        self.waiters.iter().find(|(_, (sequence, _))| *sequence > synced).map(|(_, (_, waker))| waker.clone())
    }
}
