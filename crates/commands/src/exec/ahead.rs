//! What a walk comes to next is read ahead of it, once it has been seen to wait for the disk.
//!
//! A walk that follows an index to documents, or goes from one `_id` of an `$in` to the next, would wait for
//! each of them by itself. Here a second walk over the same keys, some steps in front of it, tells which
//! documents to have read by other threads (`storage`'s `read_ahead`). It begins with a few and doubles while
//! the walk goes on, as a limit may end it soon; it ends where everything turns out to be in memory.

use super::scan::{Reading, behind_prefix};
use crate::error::CommandResult;
use catalog::IndexCursor;
use query::plan::{BoundsChecker, KeyCheck};
use std::sync::Arc;
use std::time::Instant;
use storage::{AheadBatch, ReadTier, Store};

/// So many reads that were slow begin it.
const SLOW_READS: u32 = 2;
/// Until one was slow, one in so many is timed.
const TIMED_IN: u32 = 8;
/// Documents that are asked for in front of the walk at first, and at most.
const FIRST_WINDOW: usize = 4;
const LAST_WINDOW: usize = 64;
/// Steps over keys that are not wanted, for each document that is: the walk itself has to make them too.
const STEPS_PER_DOCUMENT: usize = 4;

/// The walk in front of a walk.
#[derive(Debug)]
pub(super) enum Front {
    /// Over the entries of an index, behind the one that the walk is at.
    Entries(Box<IndexCursor>),
    /// Over single values of `_id`, behind this key.
    Points { at: Vec<u8> },
}

/// How far a walk has been read ahead of.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Reads since the start, to time some of them.
    reads: u32,
    /// Of the last ones that were timed, those that were slow.
    slow: u32,
    /// Documents in front of the walk that are to be asked for; 0 while nothing is.
    window: usize,
    /// Those that were asked for and that the walk has not come to.
    in_front: usize,
    /// `None` where it is to be opened; with `is_over` where it has come to its end.
    front: Option<Front>,
    is_over: bool,
    /// What was asked for last.
    batch: Option<Arc<AheadBatch>>,
}

impl Ahead {
    /// Before a read of a document: when it begins, if it is to be timed.
    #[inline]
    pub(super) fn begin_read(&mut self, tier: ReadTier) -> Option<Instant> {
        if tier != ReadTier::Any || self.window > 0 {
            return None;
        }
        self.reads = self.reads.wrapping_add(1);
        (self.slow > 0 || self.reads.is_multiple_of(TIMED_IN)).then(ambient::now)
    }

    /// After it.
    #[inline]
    pub(super) fn end_read(&mut self, began: Option<Instant>) {
        let Some(began) = began else { return };
        self.slow = match Store::was_slow(ambient::elapsed(began)) {
            true => self.slow + 1,
            false => self.slow.saturating_sub(1),
        };
        if self.slow >= SLOW_READS {
            self.window = FIRST_WINDOW;
        }
    }

    /// Whether there is a walk in front already.
    pub(super) const fn has_front(&self) -> bool {
        self.front.is_some()
    }

    /// The walk has come to one more document: whether more of them are to be asked for.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.window > 0 && self.come_to_one()
    }

    fn come_to_one(&mut self) -> bool {
        self.in_front = self.in_front.saturating_sub(1);
        if self.is_over || self.in_front > self.window / 2 {
            return false;
        }
        let is_in_memory = self.batch.take().is_some_and(|batch| batch.was_in_memory());
        if is_in_memory {
            *self = Ahead::default();
        }
        !is_in_memory
    }

    /// Asks for documents up to the window. `front` begins right behind where the walk is, and is given where
    /// there is none; `checker` says what both are to visit.
    ///
    /// # Errors
    /// What the catalog says.
    pub(super) fn ask(
        &mut self,
        reading: &Reading<'_>,
        front: Option<Front>,
        checker: Option<&mut BoundsChecker>,
    ) -> CommandResult {
        if let Some(front) = front {
            self.front = Some(front);
            self.in_front = 0;
        }
        let Some(front) = &mut self.front else { unreachable!("nothing walks in front: {self:?}") };
        let mut wanted = Vec::with_capacity(self.window);
        let most = self.window.saturating_sub(self.in_front);
        self.is_over = !front.collect(checker, &mut wanted, most)?;
        if !wanted.is_empty() {
            self.in_front += wanted.len();
            self.batch = Some(reading.collection.read_ahead(reading.view, &wanted));
        }
        self.window = (self.window * 2).min(LAST_WINDOW);
        Ok(())
    }

    /// The walk is put aside, or goes elsewhere: it is looked anew where it goes on.
    pub(super) fn let_go(&mut self) {
        self.front = None;
        self.is_over = false;
        self.in_front = 0;
    }
}

impl Front {
    /// The keys of the next documents, so many at most; false when there are no more, or nobody knows them.
    fn collect(
        &mut self,
        mut checker: Option<&mut BoundsChecker>,
        wanted: &mut Vec<Vec<u8>>,
        most: usize,
    ) -> CommandResult<bool> {
        for _ in 0..most.saturating_mul(STEPS_PER_DOCUMENT) {
            if wanted.len() >= most {
                break;
            }
            match self {
                Front::Points { at } => {
                    let point = checker.as_ref().and_then(|checker| checker.next_point(at));
                    let Some(point) = point else { return Ok(false) };
                    *at = point.to_vec();
                    wanted.push(at.clone());
                }
                Front::Entries(cursor) => {
                    let Some(entry) = cursor.next()? else { return Ok(false) };
                    let check = checker.as_mut().map(|checker| checker.check(behind_prefix(&entry)));
                    match check {
                        None | Some(KeyCheck::Inside) => wanted.push(entry.document_key.to_vec()),
                        Some(KeyCheck::Outside) => {}
                        Some(KeyCheck::Seek(target)) => cursor.seek(target),
                        Some(KeyCheck::Done) => return Ok(false),
                    }
                }
            }
        }
        Ok(true)
    }
}
