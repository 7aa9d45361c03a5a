//! The latest version of a document, for who is going to replace it: the stored one, or one that is about to
//! be written.

use crate::change::Changes;
use crate::collection::Collection;
use crate::error::Uncommitted;
use crate::{OperationContext, WriteError};
use document::RawDocument;
use query::checkpoint;
use storage::{EnqueuedVersion, Keyspace, LatchGuard, LatchTable, PinnedBytes, QueuePlace, Queueing};

/// A version of a document.
pub(super) enum Version {
    Stored(PinnedBytes),
    /// What an enqueued unit puts.
    Enqueued(Vec<u8>),
}

impl Version {
    pub(super) fn document(&self) -> RawDocument<'_> {
        RawDocument::trusted(match self {
            Version::Stored(bytes) => bytes,
            Version::Enqueued(bytes) => bytes,
        })
    }
}

/// A document under its latch.
pub(super) struct Latest {
    pub(super) latch: LatchGuard,
    /// `None` when there is no such document.
    pub(super) version: Option<Version>,
    /// Where the version is enqueued, when it is not stored yet.
    pub(super) place: Option<QueuePlace>,
}

impl Collection {
    /// Takes the latch of a document and reads its latest version. Updates of one document that are under way
    /// at the same time go on from each other, and are written together.
    pub(super) async fn latest(
        &self,
        context: &OperationContext<'_>,
        key: &[u8],
    ) -> Result<Latest, WriteError> {
        let latches = &self.key_latches.documents;
        let hash = LatchTable::hash(key);
        let queueing = if storage::commits_are_deferred() { Queueing::Together } else { Queueing::InOrder };
        let (mut latch, last) = checkpoint::wait(latches.lock_latest(hash, queueing)).await?;
        if let Some(place) = last {
            match self.store.enqueued_version(place, Keyspace::Documents, key) {
                EnqueuedVersion::Value(bytes) => {
                    return Ok(Latest { latch, version: Some(Version::Enqueued(bytes)), place: last });
                }
                EnqueuedVersion::Settled => {}
                EnqueuedVersion::OutOfReach => {
                    drop(latch);
                    latch = checkpoint::wait(latches.lock_hash(hash)).await?;
                }
            }
        }
        let stored = context.view.get_tier(Keyspace::Documents, key, context.tier)?;
        Ok(Latest { latch, version: stored.map(Version::Stored), place: None })
    }

    /// Waits until the version at a place is written: what is told of it must not be told when it is refused.
    pub(super) async fn stored(
        &self,
        context: &OperationContext<'_>,
        place: Option<QueuePlace>,
    ) -> Result<(), Uncommitted> {
        let Some(place) = place else {
            context.receipts.observed();
            return Ok(());
        };
        let mut nothing = Changes::new(context);
        nothing.follow(place);
        nothing.commit(&self.store).await
    }
}
