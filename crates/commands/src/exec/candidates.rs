//! Candidates of write commands: keys of documents that matched when they were looked at.

use super::drive::Read;
use super::executor::Executor;
use super::filter::StatementFilter;
use super::scan::Verdict;
use super::slice::Slice;
use crate::context::{CommandContext, OnDataNode};
use crate::error::CommandResult;
use crate::scheduling::Scheduling;
use catalog::Collection;
use query::aggregate::{Pause, YieldPolicy};
use std::sync::Arc;
use storage::ReadSource;

/// What [`Candidates::next`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextCandidate {
    /// The key of the next candidate.
    Document(Vec<u8>),
    /// The slice is used up: end it with [`Scheduling::end_slice`] and go on.
    Yield,
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
}

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
        let executor = Executor::open(context.source, collection, filter.query(context.server)?)?;
        Ok(Candidates {
            executor,
            source: context.source,
            scheduling: context.scheduling(),
            slice: None,
            yields_next: false,
        })
    }

    /// The next candidate.
    ///
    /// # Errors
    /// What reading and the filter say.
    pub(crate) fn next(&mut self) -> CommandResult<NextCandidate> {
        if std::mem::take(&mut self.yields_next) {
            self.slice = None;
            return Ok(NextCandidate::Yield);
        }
        let slice = self.slice.get_or_insert_with(|| self.scheduling.slice());
        let (view, tier) = (self.source.view(), slice.tier());
        let collection = Arc::clone(self.executor.collection());
        let mut found = None;
        let pause = self.executor.run(slice, &mut |located| {
            // A sorted walk has lost the documents' keys: they are found again by `_id`.
            found = if located.document_key.is_empty() {
                match located.document.get("_id") {
                    Some(id) => collection.find_document_key(view, id, tier)?,
                    None => None,
                }
            } else {
                Some(located.document_key.to_vec())
            };
            Ok(if found.is_some() { Verdict::TakeAndStop } else { Verdict::Ignore })
        })?;
        if let Some(document_key) = found {
            self.yields_next = slice.should_yield();
            return Ok(NextCandidate::Document(document_key));
        }
        if pause == Pause::End {
            return Ok(NextCandidate::End);
        }
        self.slice = None;
        Ok(NextCandidate::Yield)
    }

    /// Whether the walk is not for an event loop from its first document on.
    pub(crate) fn surely_outlasts(&self) -> bool {
        self.executor.surely_outlasts()
    }
}
