//! What an operation hands down to the store, and what it gathers there.

use crate::ChangeObserver;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use storage::{CommitError, ReadTier, ReadView, Receipt, Store};

/// Made by whoever runs an operation (a command, a job of the server) and handed down to the store: nothing
/// on the way chooses for itself what it reads from.
///
/// A read that the tier is not enough for ends with [`storage::StorageError::WouldBlock`], a write before
/// anything of it was written: the caller does it again where it may block.
#[derive(Debug, Clone, Copy)]
pub struct OperationContext<'o> {
    /// What it reads from. Writes and changes of the catalog go on from the latest versions: their view is a
    /// latest one.
    pub view: &'o ReadView,
    /// How far its reads go.
    pub tier: ReadTier,
    /// Skips the collection's validator.
    pub bypass_validation: bool,
    /// For whom it writes.
    pub writer: Writer,
    /// Who is told of its changes.
    pub observer: Option<&'o dyn ChangeObserver>,
    /// The client's connection; 0 where the server writes by itself.
    pub connection: u64,
    /// What it has written.
    pub receipts: &'o Receipts,
}

/// For whom an operation writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// A client, or the server itself.
    Client,
    /// A log of operations that were accepted before. The data may be newer than the operation, and what does
    /// not go with them yet will once all of the log is applied: neither rules of documents nor those of
    /// indexes are checked, a document that an index cannot hold has no entries in it, and a capped
    /// collection loses only what the log says.
    Replication,
}

impl<'o> OperationContext<'o> {
    /// Whether what is written has to keep the rules, and what they demand is done beside it.
    pub(crate) fn keeps_rules(&self) -> bool {
        self.writer == Writer::Client
    }

    /// Of an operation that writes, on a thread that may block.
    pub fn writing(store: &'o Store, receipts: &'o Receipts) -> Self {
        OperationContext {
            view: store.write_view(),
            tier: ReadTier::Any,
            bypass_validation: false,
            writer: Writer::Client,
            observer: None,
            connection: 0,
            receipts,
        }
    }
}

/// What an operation has written, and whether its answer rests on what others have: its write concern is
/// awaited for all of it at once, at its end. One task adds, so that loads and stores are enough.
#[derive(Debug, Default)]
pub struct Receipts {
    /// The newest sequence number of its own; zero when it has written nothing.
    newest: AtomicU64,
    observed: AtomicBool,
    waited_ns: AtomicU64,
}

impl Receipts {
    pub(crate) fn add(&self, receipt: Receipt, waited: Duration) {
        let newest = self.newest.load(Ordering::Relaxed).max(receipt.sequence);
        self.newest.store(newest, Ordering::Relaxed);
        self.add_wait(waited);
    }

    fn add_wait(&self, waited: Duration) {
        let more = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.waited_ns.store(self.waited_ns.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
    }

    /// Says that the answer rests on versions that others have written, or on there being none: nothing was
    /// changed, or a key was taken.
    pub fn observed(&self) {
        self.observed.store(true, Ordering::Relaxed);
    }

    /// The newest of what the operation has written.
    pub fn newest(&self) -> Option<Receipt> {
        let sequence = self.newest.load(Ordering::Relaxed);
        (sequence > 0).then_some(Receipt { sequence })
    }

    /// How long the operation has waited for commits so far.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    /// Waits until whatever was written, and whatever the answer rests on, is on stable storage.
    ///
    /// # Errors
    /// When nobody will know any more whether it is.
    pub async fn journaled(&self, store: &Store) -> Result<(), CommitError> {
        let receipt = match self.newest() {
            _ if self.observed.load(Ordering::Relaxed) => store.receipt_of_all(),
            Some(receipt) => receipt,
            None => return Ok(()),
        };
        let began = ambient::now();
        store.journaled(receipt).await?;
        self.add_wait(ambient::elapsed(began));
        Ok(())
    }
}
