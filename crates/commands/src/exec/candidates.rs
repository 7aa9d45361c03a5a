//! Candidates of write commands: keys of documents that matched when they were looked at.

use super::drive::Read;
use super::executor::Executor;
use super::filter::StatementFilter;
use super::scan::Verdict;
use super::slice::Slice;
use crate::context::{CommandContext, OnDataNode};
use crate::error::CommandResult;
use crate::scheduling::Scheduling;
use catalog::{Collection, FoundDocuments};
use query::aggregate::{Pause, YieldPolicy};
use std::sync::Arc;
use storage::{ReadSource, ReadTier};

/// Where [`Candidates::gather`] stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// As much was found as was wanted.
    Enough,
    /// The slice is used up: end it with [`Scheduling::end_slice`] and go on.
    Yield,
    /// More is not in memory: go on after [`Scheduling::leave_memory`].
    WouldBlock,
    /// There are no more.
    End,
}

/// A walk over the documents that a write may concern. It reads one state to its end, so that it does not
/// meet again what the write moves along an index.
#[derive(Debug)]
pub(crate) struct Candidates<'c> {
    executor: Executor,
    source: &'c ReadSource,
    scheduling: Scheduling<'c>,
    /// `None` before the first step of the next slice.
    slice: Option<Slice>,
    /// The slice was over with the last candidate: the next call begins with a pause.
    yields_next: bool,
    /// The walk has seen every write up to here, whatever it reads from; `None` before its first step.
    as_of: Option<u64>,
}

/// What was seen of the documents that are gathered takes so much memory at most.
const SEEN_BYTES_MAX: usize = 1 << 20;

impl<'c> Candidates<'c> {
    /// Opens the walk in the order of the filter's sort.
    ///
    /// # Errors
    /// A malformed filter; what the planner says about the hint.
    pub(crate) fn open(
        context: &CommandContext<'c>,
        collection: &Arc<Collection>,
        filter: &StatementFilter<'_>,
    ) -> CommandResult<Self> {
        let executor = Executor::open(context.source, collection, filter.query(context)?)?;
        Ok(Candidates {
            executor,
            source: context.source,
            scheduling: context.scheduling(),
            slice: None,
            yields_next: false,
            as_of: None,
        })
    }

    /// Adds the next candidates, until there are so many.
    ///
    /// # Errors
    /// What reading and the filter say.
    pub(crate) fn gather(
        &mut self,
        candidates: &mut FoundDocuments,
        wanted: usize,
    ) -> CommandResult<Gathered> {
        if std::mem::take(&mut self.yields_next) {
            self.slice = None;
            return Ok(Gathered::Yield);
        }
        let slice = self.slice.get_or_insert_with(|| self.scheduling.slice());
        let (view, tier) = (self.source.view(), slice.tier());
        let as_of = *self.as_of.get_or_insert_with(|| view.sequence());
        let collection = Arc::clone(self.executor.collection());
        let pause = self.executor.run(slice, &mut |located| {
            // A sorted walk has lost the documents' keys: they are found again by `_id`.
            if located.document_key.is_empty() {
                let id = located.document.get("_id");
                let key = id.map(|id| collection.find_document_key(view, id, tier)).transpose()?.flatten();
                let Some(key) = key else { return Ok(Verdict::Ignore) };
                candidates.push(&collection, &key, None);
            } else {
                // The query needs whole documents: nothing here is put together from index entries.
                let seen = (wanted > 1).then_some((located.document, as_of));
                candidates.push(&collection, located.document_key, seen);
            }
            let enough = candidates.len() >= wanted || candidates.byte_len() >= SEEN_BYTES_MAX;
            Ok(if enough { Verdict::TakeAndStop } else { Verdict::Take })
        })?;
        match pause {
            Pause::Stopped => {
                self.yields_next = slice.should_yield();
                Ok(Gathered::Enough)
            }
            Pause::End => Ok(Gathered::End),
            Pause::Sliced => {
                self.slice = None;
                Ok(Gathered::Yield)
            }
            Pause::WouldBlock => {
                assert!(tier != ReadTier::Any, "a read that may block would block");
                self.slice = None;
                Ok(Gathered::WouldBlock)
            }
        }
    }

    /// Has the walk see what was written meanwhile, where that cannot make it meet a document again.
    pub(crate) fn refresh(&mut self) {
        if self.executor.refresh() {
            self.as_of = None;
        }
    }

    /// Whether the walk is not for an event loop from its first document on.
    pub(crate) fn surely_outlasts(&self) -> bool {
        self.executor.surely_outlasts()
    }
}
