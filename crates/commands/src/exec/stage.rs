//! The executor as the source of a pipeline.

use super::executor::Executor;
use super::scan::Verdict;
use super::slice::{Pause, Slice};
use document::DocumentBuf;
use query::QueryError;
use query::aggregate::{Stage, Step};

/// Documents of a query, pulled one by one.
#[derive(Debug)]
pub(crate) struct ExecutorStage {
    executor: Executor,
    slice: Slice,
    /// The slice was over with the last document: the next pull begins with a pause.
    yields_next: bool,
}

impl ExecutorStage {
    /// A source over this query.
    pub(crate) const fn new(executor: Executor) -> Self {
        ExecutorStage { executor, slice: Slice::begin(), yields_next: false }
    }

    /// The query.
    pub(crate) const fn executor(&self) -> &Executor {
        &self.executor
    }

    /// The query, to put it aside between batches.
    pub(crate) const fn executor_mut(&mut self) -> &mut Executor {
        &mut self.executor
    }
}

impl Stage for ExecutorStage {
    fn next(&mut self) -> Result<Step, QueryError> {
        if std::mem::take(&mut self.yields_next) {
            self.slice = Slice::begin();
            return Ok(Step::Yield);
        }
        let mut found: Option<DocumentBuf> = None;
        let pause = self.executor.run(&mut self.slice, |located| {
            found = Some(located.document.to_buf());
            Ok(Verdict::TakeAndStop)
        });
        let pause = pause.map_err(|error| QueryError::new(error.code, error.message.into_owned()))?;
        if let Some(document) = found {
            self.yields_next = self.slice.step();
            return Ok(Step::Document(document));
        }
        match pause {
            Pause::End => Ok(Step::End),
            Pause::Stopped | Pause::Sliced => {
                self.slice = Slice::begin();
                Ok(Step::Yield)
            }
        }
    }
}
