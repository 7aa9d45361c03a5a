//! Checkpoints of computations that may take long on a single document: what they cost is counted, and now
//! and then the operation's own switch is looked at, so that it ends when it is told to.
//!
//! ```text
//!   commands: watch(operation) ─▶ one poll of it ─▶ … ─▶ pass(steps)?  (a loop over a filter's branches, an
//!                                                         expression's items, …)
//!                                                           └─ every STEPS_PER_LOOK steps ─▶ Watch::look
//! ```
//! Most loops of a query go over documents, and whoever reads those looks between them. A filter, an update
//! or an expression can be as large as a message, though, and the document as well: their product may keep a
//! processor for hours.
//!
//! Whoever waits for something that can be given up hears of the end here as well: [`wait`].

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::{QueryError, code};

/// A step is some tens of nanoseconds.
const STEPS_PER_LOOK: u64 = 4096;
/// Longer walks than any there is count as this.
const MOST_STEPS: usize = 1 << 40;
/// Steps after which a computation that was to be short is given up at its next look.
const SHORT_STEPS: u64 = 2 * STEPS_PER_LOOK;
/// Bytes of a document that are walked over in about one step.
const BYTES_PER_STEP: usize = 256;

/// An operation that can be told to end.
pub trait Watch: Send + Sync {
    /// Looks whether the operation is to end.
    ///
    /// # Errors
    /// The reason.
    fn look(&self) -> Result<(), QueryError>;

    /// Resolves with the reason when the operation is to end.
    fn ended(self: Arc<Self>) -> Pin<Box<dyn Future<Output = QueryError> + Send>>;
}

thread_local! {
    /// Steps of this thread so far.
    static STEPS: Cell<u64> = const { Cell::new(0) };
    /// From where on a short computation is none.
    static SHORT_UNTIL: Cell<u64> = const { Cell::new(u64::MAX) };
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

/// Until it is dropped, this thread gives up what is not short.
#[must_use]
pub struct Short {
    before: u64,
}

/// Lets this thread give up, with an error that [`is_not_short`] knows, what takes many steps: an event loop
/// may not go on with it, and it can be done again elsewhere from its beginning.
pub fn short() -> Short {
    Short { before: SHORT_UNTIL.replace(STEPS.get().saturating_add(SHORT_STEPS)) }
}

impl Drop for Short {
    fn drop(&mut self) {
        SHORT_UNTIL.set(self.before);
    }
}

/// Whether this is the code of an error that says: it takes longer than it was to.
pub const fn is_not_short(code: i32) -> bool {
    code == code::NOT_SHORT
}

/// Takes an evaluation's error for an answer, if it is one.
///
/// # Errors
/// The error, when it says that the evaluation was given up before its end.
pub fn unless_given_up(error: QueryError) -> Result<(), QueryError> {
    if is_not_short(error.code) { Err(error) } else { look() }
}

/// Steps that this thread has counted so far. Between two of its answers lies what was done meanwhile.
#[inline]
pub fn steps() -> u64 {
    STEPS.get()
}

/// Counts so many steps that are about to be made.
///
/// # Errors
/// The reason why the operation is to end.
#[inline]
pub fn pass(steps: usize) -> Result<(), QueryError> {
    let before = STEPS.get();
    let after = before.wrapping_add(steps.min(MOST_STEPS) as u64);
    STEPS.set(after);
    if (before ^ after) < STEPS_PER_LOOK { Ok(()) } else { look_at(after) }
}

/// Counts a walk over so many bytes of a document.
///
/// # Errors
/// As [`pass`].
#[inline]
pub fn pass_bytes(bytes: usize) -> Result<(), QueryError> {
    pass(1 + bytes / BYTES_PER_STEP)
}

#[cold]
fn look_at(steps: u64) -> Result<(), QueryError> {
    if steps >= SHORT_UNTIL.get() {
        bail!(code::NOT_SHORT, "an event loop gives up what takes long");
    }
    look()
}

/// Looks at the operation at once.
///
/// # Errors
/// Its end.
pub fn look() -> Result<(), QueryError> {
    WATCH.with_borrow(|watch| watch.as_ref().map_or(Ok(()), |watch| watch.look()))
}

/// Waits for something that is given up when it is dropped; for no longer than until the operation is to end.
///
/// # Errors
/// The operation's end.
pub async fn wait<F: Future>(awaited: F) -> Result<F::Output, QueryError> {
    let (mut awaited, mut end) = (pin!(awaited), End::default());
    poll_fn(|context| match awaited.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => end.poll(context).map(Err),
    })
    .await
}

/// The end of the operation, as one hears of it who waits: nothing before the first poll.
#[derive(Default)]
pub struct End(Option<Pin<Box<dyn Future<Output = QueryError> + Send>>>);

impl End {
    /// Resolves when the operation is to end; never where this thread watches none.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<QueryError> {
        if self.0.is_none() {
            self.0 = WATCH.with_borrow(|watch| watch.as_ref().map(|watch| Arc::clone(watch).ended()));
        }
        self.0.as_mut().map_or(Poll::Pending, |end| end.as_mut().poll(context))
    }
}

/// Does what has to be done although the operation is to end: nothing in it looks.
pub async fn to_the_end<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _unwatched = Watched { before: WATCH.take() };
        work.as_mut().poll(context)
    })
    .await
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

        fn ended(self: Arc<Self>) -> Pin<Box<dyn Future<Output = QueryError> + Send>> {
            Box::pin(poll_fn(move |_| self.look().map_or_else(Poll::Ready, |()| Poll::Pending)))
        }
    }

    #[test]
    fn a_wait_ends_with_its_operation_and_what_must_be_done_does_not() {
        let _watched = watch(Ends::after(3));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut polls =
            |future: Pin<&mut dyn Future<Output = Result<(), QueryError>>>| future.poll(&mut context);
        assert_eq!(polls(pin!(wait(async {}))), Poll::Ready(Ok(())), "there is nothing to wait for");
        let mut waits = pin!(wait(std::future::pending()));
        let mut to_the_end = pin!(to_the_end(wait(std::future::pending())));
        for _ in 0..2 {
            assert!(polls(waits.as_mut()).is_pending() && polls(to_the_end.as_mut()).is_pending());
        }
        assert!(matches!(polls(waits), Poll::Ready(Err(error)) if error.code == 11_601));
        assert!(polls(to_the_end).is_pending());
        assert!(look().is_err(), "the operation is watched again");
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

    #[test]
    fn what_takes_long_is_given_up_where_it_is_to_be_short() {
        let steps_until_given_up =
            || (1..100_000).find(|_| pass(1).is_err_and(|error| is_not_short(error.code)));
        {
            let _short = short();
            let _shorter = short();
            let steps = steps_until_given_up().expect("it is given up");
            assert!((SHORT_STEPS..=SHORT_STEPS + STEPS_PER_LOOK).contains(&steps), "{steps} steps");
        }
        assert_eq!(steps_until_given_up(), None, "elsewhere it goes on");
    }
}
