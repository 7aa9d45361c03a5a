//! Checkpoints of computations that may take long on a single document: what they cost is counted, and now
//! and then the operation's own switch is looked at, so that it ends when it is told to.
//!
//! ```text
//!   commands: watch(operation) ──▶ one poll of the operation ──▶ … ──▶ pass(steps)?  (a loop over a filter's branches, an
//!                                                                        expression's items, …)
//!                                                                          └─ every STEPS_PER_LOOK steps ──▶ Watch::look
//! ```
//! Most loops of a query go over documents, and whoever reads those looks between them. A filter, an update
//! or an expression can be as large as a message, though, and the document as well: their product may keep a
//! processor for hours.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::error::QueryError;

/// A step is some tens of nanoseconds.
const STEPS_PER_LOOK: u32 = 4096;
/// Bytes of a document that are walked over in about one step.
const BYTES_PER_STEP: usize = 256;

/// An operation that can be told to end.
pub trait Watch: Send + Sync {
    /// Looks whether the operation is to end.
    ///
    /// # Errors
    /// The reason.
    fn look(&self) -> Result<(), QueryError>;
}

thread_local! {
    static STEPS_LEFT: Cell<u32> = const { Cell::new(STEPS_PER_LOOK) };
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
}

/// Until it is dropped, this thread's checkpoints look at one operation.
#[must_use]
pub struct Watched {
    before: Option<Arc<dyn Watch>>,
}

/// Lets the checkpoints of this thread look at `operation`.
pub fn watch(operation: Arc<dyn Watch>) -> Watched {
    Watched { before: WATCH.with_borrow_mut(|watch| watch.replace(operation)) }
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCH.with_borrow_mut(|watch| *watch = self.before.take());
    }
}

/// Counts so many steps that are about to be made.
///
/// # Errors
/// The reason why the operation is to end.
#[inline]
pub fn pass(steps: usize) -> Result<(), QueryError> {
    let left = STEPS_LEFT.get();
    match u32::try_from(steps).ok().and_then(|steps| left.checked_sub(steps)) {
        Some(left) => {
            STEPS_LEFT.set(left);
            Ok(())
        }
        None => look(),
    }
}

/// Counts a walk over so many bytes of a document.
///
/// # Errors
/// As [`pass`].
#[inline]
pub fn pass_bytes(bytes: usize) -> Result<(), QueryError> {
    pass(1 + bytes / BYTES_PER_STEP)
}

/// Looks at the operation at once.
///
/// # Errors
/// As [`pass`].
#[cold]
pub fn look() -> Result<(), QueryError> {
    STEPS_LEFT.set(STEPS_PER_LOOK);
    WATCH.with_borrow(|watch| watch.as_ref().map_or(Ok(()), |watch| watch.look()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// An operation that is told to end after so many looks.
    pub(crate) struct Ends {
        pub(crate) looks_left: AtomicU32,
    }

    impl Ends {
        pub(crate) fn after(looks: u32) -> Arc<Self> {
            Arc::new(Ends { looks_left: AtomicU32::new(looks) })
        }
    }

    impl Watch for Ends {
        fn look(&self) -> Result<(), QueryError> {
            match self.looks_left.fetch_sub(1, Ordering::Relaxed) {
                0 | 1 => Err(QueryError::new(11_601, "operation was interrupted")),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn looks_come_by_what_was_done() {
        let steps_until_the_end = |steps: usize| {
            let _watched = watch(Ends::after(3));
            (1..).find(|_| pass(steps).is_err()).expect("it is told to end")
        };
        assert!((2 * STEPS_PER_LOOK as usize..4 * STEPS_PER_LOOK as usize).contains(&steps_until_the_end(1)));
        assert!(steps_until_the_end(1000) < 20, "long steps count as such");
        assert_eq!(steps_until_the_end(usize::MAX), 3);
        assert!((0..100_000).all(|_| pass(1).is_ok()), "nobody watches any more");
    }
}
