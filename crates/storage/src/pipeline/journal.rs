//! Group sync: one sync covers every commit applied before it started.
//!
//! Whoever needs a sync and finds none running performs it; the others wait without a thread. A sync that
//! runs already does not help those who came after its start: when it ends, one of them is woken to
//! perform the next.
//!
//! On a thread that serves many tasks nobody syncs: waiting there asks the journal thread
//! ([`JournalWriter::request_sync`]), which syncs at once and again for as long as somebody is left. The
//! more commits wait, the more of them one sync covers.
//!
//! Invariant: when nobody syncs and a waiter is not covered, a sync has been requested, or some live waiter
//! that may sync has been woken and not polled since, or will be by the one who drops it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};

use slab::Slab;

use super::group::wake_all;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// What the sync leader calls.
pub(crate) trait JournalWriter {
    /// Why a sync failed.
    type Failure: Clone;

    /// The sequence number up to which everything is in the log.
    fn applied(&self) -> u64;
    /// Brings the log to stable storage.
    fn sync(&self) -> SyncOutcome<Self::Failure>;
    /// Makes the journal thread call [`SyncGroup::sync_now`] soon. Must not block.
    fn request_sync(&self);
    /// Whoever syncs has panicked with these words: what waiters learn from now on.
    fn sync_panicked(&self, words: &str) -> Self::Failure;
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

struct SyncWaiter {
    /// What the sync must cover.
    sequence: u64,
    /// Whether waking it may make it sync; otherwise the journal thread does.
    may_sync: bool,
    waker: Waker,
}

struct SyncState<F> {
    syncing: bool,
    /// Set from a request to the journal thread until somebody syncs.
    requested: bool,
    waiters: Slab<SyncWaiter>,
    /// Memory of past wake-ups.
    spare: Vec<Waker>,
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
            state: Mutex::new(SyncState {
                syncing: false,
                requested: false,
                waiters: Slab::new(),
                spare: Vec::new(),
                failed: None,
            }),
        }
    }

    /// The sequence number up to which everything is on stable storage.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Whether a sync is due for what has been applied, and can still be made.
    pub(crate) fn is_behind(&self, applied: u64) -> bool {
        self.synced() < applied && self.state.lock().failed.is_none()
    }

    /// Drives one commit's wait until `sequence` is on stable storage. `may_sync` says whether this thread
    /// may be held up by a sync.
    pub(crate) fn poll<W>(
        &self,
        sequence: u64,
        ticket: &mut Option<usize>,
        writer: &W,
        waker: &Waker,
        may_sync: bool,
    ) -> Poll<Result<(), F>>
    where
        W: JournalWriter<Failure = F>,
    {
        if ticket.is_none() && self.synced() >= sequence {
            return Poll::Ready(Ok(()));
        }
        // What is read may be in a batch that is written and not counted as applied yet, for some
        // microseconds: a sync now would be in vain.
        let may_sync = may_sync && writer.applied() >= sequence;
        let mut state = self.state.lock();
        if may_sync && self.synced() < sequence && state.failed.is_none() && !state.syncing {
            state = self.lead(state, writer);
        }
        let outcome = if self.synced() >= sequence { Some(Ok(())) } else { state.failed.clone().map(Err) };
        if let Some(outcome) = outcome {
            if let Some(waiter) = ticket.take() {
                let left = state.waiters.remove(waiter);
                assert_eq!(left.sequence, sequence, "a commit took the place of another one");
            }
            return Poll::Ready(outcome);
        }
        match *ticket {
            Some(waiter) => {
                let known = state.waiters.get_mut(waiter).expect("a commit keeps its place while it waits");
                known.waker.clone_from(waker);
                known.may_sync = may_sync;
            }
            None => {
                let waiter = SyncWaiter { sequence, may_sync, waker: waker.clone() };
                *ticket = Some(state.waiters.insert(waiter));
            }
        }
        let request = !may_sync && !state.syncing && !state.requested;
        state.requested |= request;
        drop(state);
        if request {
            writer.request_sync();
        }
        Poll::Pending
    }

    /// A waiting commit goes away; if it had been woken to sync, the duty passes on.
    pub(crate) fn abandon<W>(&self, ticket: &mut Option<usize>, writer: &W)
    where
        W: JournalWriter<Failure = F>,
    {
        let Some(waiter) = ticket.take() else { return };
        let mut state = self.state.lock();
        state.waiters.remove(waiter);
        if state.syncing {
            return;
        }
        let successor = state.successor(self.synced());
        drop(state);
        successor.act(writer);
    }

    /// Syncs what has been applied, unless there is nothing to sync, a sync is running or one has failed.
    pub(crate) fn sync_now<W>(&self, writer: &W)
    where
        W: JournalWriter<Failure = F>,
    {
        let mut state = self.state.lock();
        if state.syncing || state.failed.is_some() {
            return;
        }
        if writer.applied() > self.synced() {
            return drop(self.lead(state, writer));
        }
        // Who waits for what is not applied yet has asked too early, and nobody asks again while that counts.
        state.requested = false;
        let successor = state.successor(self.synced());
        drop(state);
        successor.act(writer);
    }

    /// The store's threads are gone, after a last sync up to a sequence number or none: whoever waits is
    /// told.
    pub(crate) fn close(&self, synced: Option<u64>, failure: F) {
        self.advance(&self.state.lock(), synced.unwrap_or(0));
        self.fail(failure);
    }

    /// Everything up to `covered` is on stable storage; who noted more was quicker.
    fn advance(&self, _state: &MutexGuard<'_, SyncState<F>>, covered: u64) {
        self.synced.store(covered.max(self.synced()), Ordering::Release);
    }

    /// Nothing is synced any more: whoever waits, and whoever comes, is told why.
    pub(crate) fn fail(&self, failure: F) {
        let mut state = self.state.lock();
        state.failed.get_or_insert(failure);
        let wakers: Vec<Waker> = state.waiters.iter().map(|(_, waiter)| waiter.waker.clone()).collect();
        drop(state);
        wake_all(wakers);
    }

    fn lead<'a, W>(
        &'a self,
        mut state: MutexGuard<'a, SyncState<F>>,
        writer: &W,
    ) -> MutexGuard<'a, SyncState<F>>
    where
        W: JournalWriter<Failure = F>,
    {
        assert!(
            !state.syncing && state.failed.is_none(),
            "a sync beside another one, or after one that failed"
        );
        state.syncing = true;
        state.requested = false;
        drop(state);
        let sync = || {
            // Read before the sync: what is applied while it runs may miss it.
            let covered = writer.applied();
            let synced = self.synced();
            assert!(covered >= synced, "the sequence number fell from {synced} to {covered}");
            (covered, writer.sync())
        };
        let (covered, outcome) = catch_unwind(AssertUnwindSafe(sync)).unwrap_or_else(|panic| {
            let words = panic.downcast_ref::<&str>().copied();
            let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            (0, SyncOutcome::Failed(writer.sync_panicked(words.unwrap_or("no words"))))
        });
        let mut state = self.state.lock();
        state.syncing = false;
        match outcome {
            SyncOutcome::Synced => self.advance(&state, covered),
            SyncOutcome::Failed(failure) => state.failed = Some(failure),
            // Asking or waking somebody now would only make him try the same in vain.
            SyncOutcome::NotNow => return state,
        }
        let everyone = state.failed.is_some();
        let mut wakers = std::mem::take(&mut state.spare);
        let done = state.waiters.iter().filter(|(_, waiter)| everyone || waiter.sequence <= covered);
        wakers.extend(done.map(|(_, waiter)| waiter.waker.clone()));
        let successor = if everyone { NextSyncer::NotNeeded } else { state.successor(covered) };
        if wakers.is_empty() && matches!(successor, NextSyncer::NotNeeded) {
            state.spare = wakers;
            return state;
        }
        drop(state);
        successor.act(writer);
        wake_all(wakers.drain(..));
        let mut state = self.state.lock();
        state.spare = wakers;
        state
    }
}

/// Who makes sure of the next sync.
enum NextSyncer {
    /// Everybody is covered, or it has been seen to.
    NotNeeded,
    /// The journal thread.
    JournalThread,
    /// A waiter that may sync.
    SyncWaiter(Waker),
}

impl NextSyncer {
    fn act<W: JournalWriter>(self, writer: &W) {
        match self {
            NextSyncer::NotNeeded => {}
            NextSyncer::JournalThread => writer.request_sync(),
            NextSyncer::SyncWaiter(waker) => waker.wake(),
        }
    }
}

impl<F> SyncState<F> {
    /// Finds who sees to those whose sequence number the last sync did not cover. If one of them relies on
    /// the journal thread, that one syncs for all.
    fn successor(&mut self, synced: u64) -> NextSyncer {
        if self.requested {
            return NextSyncer::NotNeeded;
        }
        let mut waiter = None;
        for (_, uncovered) in self.waiters.iter().filter(|(_, waiter)| waiter.sequence > synced) {
            if !uncovered.may_sync {
                self.requested = true;
                return NextSyncer::JournalThread;
            }
            waiter.get_or_insert(&uncovered.waker);
        }
        waiter.cloned().map_or(NextSyncer::NotNeeded, NextSyncer::SyncWaiter)
    }
}
