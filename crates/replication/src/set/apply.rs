//! Applying what is committed, in the order of the log, on a thread of its own: the driver never waits for
//! data.
//!
//! ```text
//!  driver ─▶ Work::Group (proposed here: its data are computed)  ─▶ one batch with its mark ─▶ acknowledged
//!         └▶ Work::Entries (of any other leader, notes, members) ─▶ oplog::Applier ─▶ mark ─▶ view published
//! ```
//! The mark says up to where the data are; after a crash the operations behind it are applied once more.

use crate::effects::Committed;
use crate::entry::{LogEntryKind, LogPosition};
use crate::log::{Checkpoint, LogError};
use crate::oplog::{Applier, ApplyError, Operation, OplogEntry};
use crate::optime::OpTime;
use crate::set::apply_queue::Work;
use crate::set::driver::{Inbox, Links, Told};
use crate::set::parallel;
use crate::set::state::SetState;
use crate::set::{ReplSetConfig, SetError};
use crate::{LocalState, Oplog};
use catalog::{Collection, Decision, OperationContext, Receipts, Writer};
use document::{RawDocument, RawValue};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{CommitError, ProposedGroup, WriteUnit};

/// Why something is not applied yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("a state of the set that this member does not understand: {0}")]
    State(#[from] SetError),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl StepError {
    /// Whether it could only not be written because the process ends.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, StepError::Commit(CommitError::Closed))
    }
}

/// What is committed is written, unless the process ends while the disk has no room for it.
fn written(outcome: Result<storage::Receipt, CommitError>) -> Result<(), StepError> {
    match outcome {
        Err(CommitError::Closed) => Err(CommitError::Closed.into()),
        outcome => {
            outcome.expect("what is committed is written");
            Ok(())
        }
    }
}

/// Who applies.
pub(crate) struct Applying {
    pub(crate) links: Links,
    pub(crate) oplog: Oplog,
    pub(crate) inbox: Arc<Inbox>,
    /// Up to where the data are.
    pub(crate) mark: Checkpoint,
    /// What has failed and is tried again.
    pub(crate) failed: Option<Vec<Committed>>,
}

impl Applying {
    /// Does the next piece of work; whether there was any. What fails is done again by the next call.
    pub(crate) async fn step(&mut self) -> Result<bool, StepError> {
        let work = match self.failed.take() {
            Some(failed) => Some(Work::Entries(failed)),
            None => self.links.queue.take(&self.oplog)?,
        };
        match work {
            None => return Ok(false),
            Some(Work::Group { group, through, .. }) => self.write(group, through)?,
            Some(Work::Entries(mut entries)) => {
                let applied = self.apply(&entries).await;
                if applied.is_err() {
                    entries.retain(|committed| committed.entry.position.index > self.mark.position.index);
                    self.failed = Some(entries);
                }
                applied?;
            }
        }
        Ok(true)
    }

    /// The data of a group that was proposed here. It is committed: a member whose data cannot follow must
    /// not go on as if they did. After an error nothing more may be applied.
    fn write(
        &mut self,
        group: ProposedGroup,
        through: Option<(LogPosition, OpTime)>,
    ) -> Result<(), StepError> {
        let Some((position, optime)) = through else {
            return written(group.write(WriteUnit::new(), |_| {}));
        };
        assert!(position.index > self.mark.position.index, "{position:?} follows {:?}", self.mark.position);
        self.mark.position = position;
        self.mark.timestamp = optime.timestamp;
        let mut beside = WriteUnit::new();
        LocalState::put_applied(&mut beside, &self.mark);
        let readable = |_| {
            self.publish_view();
            self.links.history.note(position, optime.timestamp);
            self.oplog.show_up_to(position.index);
            self.links.shared.reach(|reached| reached.applied = optime);
        };
        written(group.write(beside, readable))?;
        self.inbox.tell(Told::Applied { through: position.index, state: None });
        Ok(())
    }

    /// Operations of other leaders, and what changes no data.
    async fn apply(&mut self, mut entries: &[Committed]) -> Result<(), StepError> {
        while !entries.is_empty() {
            let (count, operations) = batch_of(entries)?;
            let (batch, later) = entries.split_at(count);
            self.apply_batch(batch, &operations).await?;
            entries = later;
        }
        Ok(())
    }

    /// Readers see all of these at once.
    async fn apply_batch(
        &mut self,
        entries: &[Committed],
        operations: &[OplogEntry],
    ) -> Result<(), StepError> {
        let last = entries.last().expect("a batch has entries");
        let batches = &self.links.shared.batches;
        let begun = batches.begin();
        let mut mark = self.mark.clone();
        let mut optime = None;
        for Committed { entry, membership } in entries {
            assert!(entry.position.index > mark.position.index, "{entry:?} follows {:?}", mark.position);
            mark.position = entry.position;
            if let Some(membership) = membership {
                mark.membership = membership.clone();
            }
            if let LogEntryKind::Operation(timestamp) = entry.kind {
                mark.timestamp = timestamp;
                optime = Some(OpTime { timestamp, term: entry.position.term });
            }
        }
        self.note_begun(&mark, operations)?;
        self.apply_operations(operations).await?;
        let state = state_in(operations)?;
        let mut unit = WriteUnit::new();
        LocalState::put_applied(&mut unit, &mark);
        if let Some(state) = &state {
            LocalState::put_set_state(&mut unit, state.to_note().as_raw());
            self.show_config(&state.config).await?;
        }
        self.links.catalog.store().write_now(unit)?;
        batches.await_showing();
        self.publish_view();
        batches.end(begun, operations.len());
        if let [alone] = operations
            && parallel::parts_of(alone).is_none()
        {
            self.links.history.names_change(mark.position.index);
        }
        self.links.history.add_bytes(entries.iter().map(|committed| committed.entry.data.len() as u64).sum());
        self.links.history.note(mark.position, mark.timestamp);
        self.mark = mark;
        self.oplog.show_up_to(last.entry.position.index);
        self.links.shared.reach(|reached| reached.applied = optime.unwrap_or(reached.applied));
        self.inbox.tell(Told::Applied { through: last.entry.position.index, state });
        Ok(())
    }

    /// After a crash a part of the batch may be there, and what is done again goes back to earlier versions:
    /// readers wait until all of it is there. One operation alone is there or not.
    fn note_begun(&self, mark: &Checkpoint, operations: &[OplogEntry]) -> Result<(), StepError> {
        let parts = operations.iter().map(|operation| parallel::parts_of(operation).map_or(1, <[_]>::len));
        if parts.sum::<usize>() > 1 {
            let mut unit = WriteUnit::new();
            LocalState::put_begun(&mut unit, mark.position.index);
            self.links.catalog.store().write_now(unit)?;
        }
        Ok(())
    }

    /// `local.system.replset`, for those who look at it.
    async fn show_config(&self, config: &ReplSetConfig) -> Result<(), StepError> {
        let catalog = &self.links.catalog;
        let receipts = Receipts::default();
        // It is committed: no client's limit holds.
        let writing = OperationContext::writing(catalog.store(), &receipts);
        let context = OperationContext { writer: Writer::Replication, ..writing };
        let shown = catalog.collection_or_create(&context, "local", "system.replset").await;
        let shown = shown.map_err(ApplyError::from)?;
        let key = Collection::document_key_of_id(RawValue::String(&config.set_name));
        let document = config.to_document().to_buf();
        let replace = |_: Option<RawDocument<'_>>| Ok::<_, ApplyError>(Decision::Replace(document.clone()));
        shown.update(&context, &key, replace).await?;
        Ok(())
    }

    /// While this is the primary, the latest versions are read.
    fn publish_view(&self) {
        if !self.links.shared.is_writable() {
            self.links.publish_view();
        }
    }

    /// Those of one batch.
    async fn apply_operations(&self, operations: &[OplogEntry]) -> Result<(), StepError> {
        let catalog = &self.links.catalog;
        let receipts = Receipts::default();
        let applier = Applier::new(
            catalog,
            &self.links.sessions,
            OperationContext::writing(catalog.store(), &receipts),
        );
        match operations {
            [alone] if parallel::parts_of(alone).is_none() => applier.apply(alone).await?,
            _ => parallel::apply_together(&applier, catalog, operations).await?,
        }
        if operations.iter().any(parallel::may_change_access) {
            self.links.shared.access_changes.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}

/// How many of these readers are shown at once, and the operations in them: what changes more than documents
/// is shown by itself, so that names and indexes never lead to what a view does not have.
fn batch_of(entries: &[Committed]) -> Result<(usize, Vec<OplogEntry>), ApplyError> {
    let mut operations = Vec::new();
    for (place, Committed { entry, .. }) in entries.iter().enumerate() {
        if let LogEntryKind::Operation(_) = entry.kind {
            let operation = OplogEntry::decode(&entry.data)?;
            if parallel::parts_of(&operation).is_none() {
                return Ok(if place == 0 { (1, vec![operation]) } else { (place, operations) });
            }
            operations.push(operation);
        }
    }
    Ok((entries.len(), operations))
}

/// The last state of the set among these.
fn state_in(operations: &[OplogEntry]) -> Result<Option<SetState>, SetError> {
    let state = operations.iter().rev().find_map(|entry| match &entry.operation {
        Operation::Noop(note) => SetState::of_note(note.as_raw()),
        _ => None,
    });
    state.transpose()
}
