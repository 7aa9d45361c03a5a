//! The collection reads of a running pipeline.

use crate::error::{CommandError, CommandResult};
use crate::exec::{Executor, Pause, Query, Slice, Verdict};
use catalog::Collection;
use document::DocumentBuf;
use parking_lot::Mutex;
use query::QueryError;
use query::aggregate::{Stage, Step};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use storage::ReadSource;

/// Documents copied out of the store at once, at most. A read begins with one and doubles.
const READ_AHEAD_DOCUMENTS: usize = 64;
/// Bytes copied out of the store at once, about.
const READ_AHEAD_BYTES: usize = 256 << 10;

/// Every read of one pipeline, so that all can be put aside between batches.
#[derive(Debug, Clone)]
pub(crate) struct OpenReads {
    slice_us: u64,
    let_others_run: fn(Instant),
    /// Locked for moments; the lock of an executor is taken inside.
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    /// What they read from, and those that are opened later.
    source: ReadSource,
    executors: Vec<Weak<Mutex<Executor>>>,
}

impl OpenReads {
    /// No reads yet. Those to come pause after this many microseconds each time, and let others run in between.
    pub(crate) fn new(source: &ReadSource, slice_us: u64, let_others_run: fn(Instant)) -> Self {
        let open = Open { source: source.clone(), executors: Vec::new() };
        OpenReads { slice_us, let_others_run, open: Arc::new(Mutex::new(open)) }
    }

    fn slice(&self) -> Slice {
        Slice::lasting(Duration::from_micros(self.slice_us), self.let_others_run)
    }

    /// A read of a collection as the source of stages.
    ///
    /// # Errors
    /// What the planner says.
    pub(crate) fn open(&self, collection: &Arc<Collection>, query: Query) -> CommandResult<CollectionRead> {
        let mut open = self.open.lock();
        let Open { source, executors } = &mut *open;
        let executor = Arc::new(Mutex::new(Executor::open(source, collection, query)?));
        // A $lookup opens a read for each document; those that ended go from time to time.
        if executors.len() == executors.capacity() {
            executors.retain(|executor| executor.strong_count() > 0);
        }
        executors.push(Arc::downgrade(&executor));
        Ok(CollectionRead {
            executor,
            ready: VecDeque::new(),
            ahead: 1,
            is_over: false,
            slice: self.slice(),
            slices: self.clone(),
            yields_next: false,
        })
    }

    /// Says what the next batch is read from.
    pub(crate) fn read_from(&self, source: &ReadSource) {
        self.open.lock().source = source.clone();
        self.each(|executor| executor.read_from(source));
    }

    /// Lets go of every iterator and view of the store. The reads go on from where they are at their next pull.
    pub(crate) fn save(&self) {
        self.each(Executor::save);
    }

    fn each(&self, act: impl Fn(&mut Executor)) {
        self.open.lock().executors.retain(|executor| match executor.upgrade() {
            Some(executor) => {
                act(&mut executor.lock());
                true
            }
            None => false,
        });
    }
}

/// A source that reads a collection.
#[derive(Debug)]
pub(crate) struct CollectionRead {
    /// Never contended: shared with [`OpenReads`], whose owner is also the one who pulls.
    executor: Arc<Mutex<Executor>>,
    ready: VecDeque<DocumentBuf>,
    ahead: usize,
    is_over: bool,
    /// Runs on while the stages above work on what they pulled.
    slice: Slice,
    slices: OpenReads,
    yields_next: bool,
}

impl CollectionRead {
    /// Copies the next documents out of the store.
    fn read_ahead(&mut self) -> Result<(), QueryError> {
        let (ready, ahead, mut bytes) = (&mut self.ready, self.ahead, 0);
        let pause = self.executor.lock().run(&mut self.slice, |located| {
            let document = located.document.to_buf();
            bytes += document.len();
            ready.push_back(document);
            let enough = ready.len() >= ahead || bytes >= READ_AHEAD_BYTES;
            Ok(if enough { Verdict::TakeAndStop } else { Verdict::Take })
        });
        let pause = pause.map_err(query_error)?;
        self.is_over = pause == Pause::End;
        self.yields_next = pause == Pause::Sliced;
        self.ahead = (self.ahead * 2).min(READ_AHEAD_DOCUMENTS);
        Ok(())
    }
}

impl Stage for CollectionRead {
    fn next(&mut self) -> Result<Step, QueryError> {
        if self.ready.is_empty() && !self.is_over && !self.yields_next {
            self.read_ahead()?;
        }
        if std::mem::take(&mut self.yields_next) {
            self.slice = self.slices.slice();
            return Ok(Step::Yield);
        }
        match self.ready.pop_front() {
            Some(document) => {
                self.yields_next = self.slice.step();
                Ok(Step::Document(document))
            }
            None if self.is_over => Ok(Step::End),
            None => Ok(Step::Yield),
        }
    }
}

/// An error on its way through the stages.
pub(super) fn query_error(error: CommandError) -> QueryError {
    QueryError::new(error.code, error.message)
}
