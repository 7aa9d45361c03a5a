//! The commit pipeline: gate, group commit, group sync. See `docs/design/commit-pipeline.md`.

pub(crate) mod group;
pub(crate) mod journal;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::error::CommitError;
use crate::store::StoreInner;
use crate::unit::WriteUnit;
use group::Ticket;

/// What a commit waits for before it resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Acknowledge {
    /// The write is visible and in the kernel's copy of the log: it survives the death of the process.
    #[default]
    Applied,
    /// The log up to the write is on stable storage: it survives power loss.
    Journaled,
}

/// Proof of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Receipt {
    /// A view with this sequence number or a later one sees the unit.
    pub sequence: u64,
}

/// A commit under way; resolves to a [`Receipt`]. An uncontended one does all its work in the first poll.
///
/// Nothing happens before the first poll. After it the unit is written even if the future is dropped
/// (unless it was still waiting at the gate, where dropping withdraws it whole).
#[must_use = "a commit does nothing before it is polled"]
pub struct CommitFuture {
    store: Arc<StoreInner>,
    acknowledge: Acknowledge,
    stage: Stage,
}

enum Stage {
    Gate { unit: WriteUnit, ticket: Option<usize> },
    Group { ticket: Ticket<WriteUnit> },
    Journal { sequence: u64, ticket: Option<usize> },
    Finished,
}

impl CommitFuture {
    pub(crate) fn new(store: Arc<StoreInner>, unit: WriteUnit, acknowledge: Acknowledge) -> CommitFuture {
        CommitFuture { store, acknowledge, stage: Stage::Gate { unit, ticket: None } }
    }

    /// The last stage alone: the unit of `receipt` is applied, its journal sync is to be awaited.
    pub(crate) fn journal(store: Arc<StoreInner>, receipt: Receipt) -> CommitFuture {
        let stage = Stage::Journal { sequence: receipt.sequence, ticket: None };
        CommitFuture { store, acknowledge: Acknowledge::Journaled, stage }
    }

    /// Commits on this thread and parks it while there is something to wait for. For threads of their
    /// own (background work, tests), never for one that serves several sessions.
    ///
    /// # Errors
    /// As the future.
    pub fn wait(mut self) -> Result<Receipt, CommitError> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(result) = Pin::new(&mut self).poll(&mut context) {
                return result;
            }
            std::thread::park();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Future for CommitFuture {
    type Output = Result<Receipt, CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker();
        let this = &mut *self;
        loop {
            let next = match &mut this.stage {
                Stage::Gate { unit, ticket } => {
                    if this.store.gate.poll_admit(unit.byte_len(), ticket, waker).is_pending() {
                        return Poll::Pending;
                    }
                    Stage::Group { ticket: Ticket::Unsent(std::mem::take(unit)) }
                }
                Stage::Group { ticket } => match this.store.group.poll(ticket, &*this.store, waker) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(failure)) => {
                        this.stage = Stage::Finished;
                        return Poll::Ready(Err(failure));
                    }
                    Poll::Ready(Ok(sequence)) if this.acknowledge == Acknowledge::Applied => {
                        this.stage = Stage::Finished;
                        return Poll::Ready(Ok(Receipt { sequence }));
                    }
                    Poll::Ready(Ok(sequence)) => Stage::Journal { sequence, ticket: None },
                },
                Stage::Journal { sequence, ticket } => {
                    let sequence = *sequence;
                    let Poll::Ready(outcome) = this.store.journal.poll(sequence, ticket, &*this.store, waker)
                    else {
                        return Poll::Pending;
                    };
                    this.stage = Stage::Finished;
                    return Poll::Ready(outcome.map(|()| Receipt { sequence }));
                }
                Stage::Finished => panic!("a commit was polled after it had finished"),
            };
            this.stage = next;
        }
    }
}

impl Drop for CommitFuture {
    fn drop(&mut self) {
        match &mut self.stage {
            Stage::Gate { ticket, .. } => self.store.gate.abandon(ticket),
            Stage::Group { ticket } => self.store.group.abandon(ticket, &*self.store),
            Stage::Journal { ticket, .. } => self.store.journal.abandon(ticket),
            Stage::Finished => {}
        }
    }
}
