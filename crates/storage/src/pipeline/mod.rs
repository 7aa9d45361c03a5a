//! The commit pipeline: gate, group commit, group sync; proposals, which are written by their owner; and the
//! turns of threads that serve many tasks. See `docs/design/commit-pipeline.md`.

pub(crate) mod group;
pub(crate) mod journal;
pub(crate) mod owned;
pub(crate) mod proposals;
#[cfg(test)]
mod tests;
pub(crate) mod turn;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use pollster::block_on;

use crate::error::CommitError;
use crate::store::{OpenStore, StoreInner};
use crate::unit::WriteUnit;
use group::{Lead, Queue, Ticket};

/// Proof of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Receipt {
    /// A view with this sequence number or a later one sees the unit.
    pub sequence: u64,
}

/// A commit under way; resolves to a [`Receipt`] when the unit is applied: it is visible and in the kernel's
/// copy of the log, and survives the death of the process. An uncontended one does all its work in the first
/// poll, except on a thread with [deferred commits](crate::defer_commits), which writes at the end of its
/// turn.
///
/// A unit with [entries](WriteUnit::entries_mut) is written by the owner of the [proposals](Proposals).
///
/// Nothing happens before the first poll. After it the unit is written even if the future is dropped
/// (unless it was still waiting at the gate, where dropping withdraws it whole).
#[must_use = "a commit does nothing before it is polled"]
pub struct CommitFuture {
    store: Arc<OpenStore>,
    stage: CommitStage,
}

enum CommitStage {
    Gate {
        unit: WriteUnit,
        ticket: Option<usize>,
    },
    /// Before the proposals: too much of what others have brought waits for a majority.
    Window {
        unit: WriteUnit,
        ticket: Option<usize>,
        began: Instant,
    },
    Group {
        ticket: Ticket<WriteUnit>,
        queue: Queue,
    },
    Finished,
}

impl CommitFuture {
    pub(crate) fn new(store: Arc<OpenStore>, unit: WriteUnit) -> CommitFuture {
        CommitFuture { store, stage: CommitStage::Gate { unit, ticket: None } }
    }

    /// Commits on this thread and parks it while there is something to wait for. For threads of their
    /// own (background work, tests), never for one that serves several sessions.
    ///
    /// # Errors
    /// As the future.
    pub fn wait(mut self) -> Result<Receipt, CommitError> {
        // This thread waits for nothing else: it leads whatever it has declared for its tasks.
        block_on(poll_fn(|context| self.poll_on(context.waker(), false)))
    }
}

/// The wait until the unit of a receipt is on stable storage, where it survives power loss; resolves to the
/// same receipt.
#[must_use = "nothing is synced before it is polled"]
pub struct JournaledFuture {
    store: Arc<OpenStore>,
    receipt: Receipt,
    ticket: Option<usize>,
    /// When the wait began, if there is one.
    began: Option<Instant>,
}

impl JournaledFuture {
    pub(crate) fn new(store: Arc<OpenStore>, receipt: Receipt) -> JournaledFuture {
        JournaledFuture { store, receipt, ticket: None, began: None }
    }

    /// As [`CommitFuture::wait`].
    ///
    /// # Errors
    /// As the future.
    pub fn wait(mut self) -> Result<Receipt, CommitError> {
        block_on(poll_fn(|context| self.poll_on(context.waker(), false)))
    }

    fn poll_on(&mut self, waker: &Waker, deferred: bool) -> Poll<Result<Receipt, CommitError>> {
        let store: &Arc<StoreInner> = &self.store;
        if self.began.is_none() && store.journal.synced() < self.receipt.sequence {
            self.began = Some(ambient::now());
        }
        let synced = store.journal.poll(self.receipt.sequence, &mut self.ticket, &**store, waker, !deferred);
        if synced.is_ready()
            && let Some(began) = self.began.take()
        {
            store.latency.note(ambient::elapsed(began).as_micros() as u64);
        }
        synced.map(|outcome| outcome.map(|()| self.receipt))
    }
}

impl Future for JournaledFuture {
    type Output = Result<Receipt, CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_on(context.waker(), turn::commits_are_deferred())
    }
}

impl Drop for JournaledFuture {
    fn drop(&mut self) {
        self.store.journal.abandon(&mut self.ticket, &***self.store);
    }
}

impl CommitFuture {
    /// Whether the unit waits at a gate: dropping the future withdraws it whole.
    pub const fn is_held(&self) -> bool {
        matches!(self.stage, CommitStage::Gate { .. } | CommitStage::Window { .. })
    }

    /// One poll; `deferred` when the thread must not write in it.
    fn poll_on(&mut self, waker: &Waker, deferred: bool) -> Poll<Result<Receipt, CommitError>> {
        let store: &Arc<StoreInner> = &self.store;
        loop {
            let next = match &mut self.stage {
                CommitStage::Gate { unit, ticket } => {
                    let refusal = store.breakdown().cloned().or_else(|| unit.entry_too_large());
                    if let Some(refusal) = refusal.or_else(|| store.space.refusal(unit.growth())) {
                        store.gate.abandon(ticket);
                        self.stage = CommitStage::Finished;
                        return Poll::Ready(Err(refusal));
                    }
                    if store.gate.poll_admit(unit.byte_len(), unit.connection(), ticket, waker).is_pending() {
                        if !unit.passes_gates() {
                            return Poll::Pending;
                        }
                        store.gate.abandon(ticket);
                    }
                    let (queue, unit) = (unit.queue(), std::mem::take(unit));
                    match queue == Queue::Proposals && store.proposal_queue().holds(&unit) {
                        true => CommitStage::Window { unit, ticket: None, began: ambient::now() },
                        false => CommitStage::Group { ticket: Ticket::Unsent(unit), queue },
                    }
                }
                CommitStage::Window { unit, ticket, began } => {
                    if store.proposal_queue().poll_admit(unit, ticket, *began, waker).is_pending() {
                        return Poll::Pending;
                    }
                    CommitStage::Group {
                        ticket: Ticket::Unsent(std::mem::take(unit)),
                        queue: Queue::Proposals,
                    }
                }
                CommitStage::Group { ticket, queue } => {
                    let polled = match queue {
                        Queue::Commits => poll_group(store, ticket, waker, deferred),
                        Queue::Proposals => store.proposal_queue().poll(ticket, store, waker),
                    };
                    let Poll::Ready(applied) = polled else { return Poll::Pending };
                    self.stage = CommitStage::Finished;
                    return Poll::Ready(applied.map(|sequence| Receipt { sequence }));
                }
                CommitStage::Finished => panic!("a commit was polled after it had finished"),
            };
            self.stage = next;
        }
    }
}

fn poll_group(
    store: &Arc<StoreInner>,
    ticket: &mut Ticket<WriteUnit>,
    waker: &Waker,
    deferred: bool,
) -> Poll<Result<u64, CommitError>> {
    let mut poll = |lead: Lead<'_>| store.group.poll(ticket, &**store, waker, lead);
    if deferred { turn::poll_deferred(store, poll) } else { poll(Lead::Now) }
}

impl Future for CommitFuture {
    type Output = Result<Receipt, CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_on(context.waker(), turn::commits_are_deferred())
    }
}

impl Drop for CommitFuture {
    fn drop(&mut self) {
        match &mut self.stage {
            CommitStage::Gate { ticket, .. } => self.store.gate.abandon(ticket),
            CommitStage::Window { ticket, .. } => self.store.proposal_queue().gate.abandon(ticket),
            CommitStage::Group { ticket, queue } => self.store.queue(*queue).abandon(ticket, &***self.store),
            CommitStage::Finished => {}
        }
    }
}
