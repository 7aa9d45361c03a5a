//! Faults on demand, for testing clients: `configureFailPoint`.
//!
//! ```text
//!   configureFailPoint ──▶ points[name]: mode, data, timesEntered ◀── getParameter, waitForFailPoint
//!                               ▲
//!   a command ── armed? ── no: nothing else is looked at
//!                  └ yes ──▶ is it meant (data)? ──▶ has its turn come (mode)? ──▶ the fault
//! ```
//!
//! # Invariant
//! While no fail point is set, a command pays for one load of [`FailPoints::is_quiet`].
//!
//! Source: MongoDB driver specifications, "Transactions / Server Fail Point"; MongoDB wiki, "The failCommand
//! fail point".

mod command;
mod get_more;
mod mode;
mod time_limit;
mod waiting;

pub(crate) use command::{fail_before, fail_write_concern};
pub(crate) use get_more::fail_after_checkout;
pub(crate) use mode::Mode;
pub(crate) use time_limit::check_time_limit;
pub(crate) use waiting::wait_at_end;
pub use waiting::wait_while_set;

use document::{Document, DocumentBuf, RawDocument};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The fail points there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FailPoint {
    /// `getMore` of an awaiting cursor does not wait.
    DisableAwaitDataForGetMoreCmd,
    /// Commands are held up, fail, or lose their connection.
    FailCommand,
    /// `getMore` fails after it has taken its cursor, which is closed then.
    FailGetMoreAfterCursorCheckout,
    /// Reads of a secondary wait while it applies a batch, as they did until MongoDB 3.6: for comparing.
    HoldReadsDuringBatchApplication,
    /// Whatever has a time limit has exceeded it.
    MaxTimeAlwaysTimeOut,
    /// Nothing exceeds a time limit.
    MaxTimeNeverTimeOut,
    /// Writes of transactions and retryable writes fail. A standalone has neither, so that it is never
    /// entered.
    OnPrimaryTransactionalWrite,
    /// A secondary has applied a batch and does not show it.
    PauseBatchApplicationBeforeCompletion,
    /// A command is done, and its reply waits.
    WaitAfterCommandFinishesExecution,
    /// `getMore` has taken its cursor.
    WaitAfterPinningCursorBeforeGetMoreBatch,
    /// `getMore` has its batch and still its cursor.
    WaitBeforeUnpinningOrDeletingCursorAfterGetMoreBatch,
    /// `find` has its plan.
    WaitInFindBeforeMakingBatch,
    /// `hello` and `isMaster` wait.
    WaitInHello,
    /// `getMore` is about to read.
    WaitWithPinnedCursorDuringGetMoreBatch,
}

const COUNT: usize = FailPoint::ALL.len();

impl FailPoint {
    /// All of them, by name.
    pub const ALL: [FailPoint; 14] = [
        FailPoint::DisableAwaitDataForGetMoreCmd,
        FailPoint::FailCommand,
        FailPoint::FailGetMoreAfterCursorCheckout,
        FailPoint::HoldReadsDuringBatchApplication,
        FailPoint::MaxTimeAlwaysTimeOut,
        FailPoint::MaxTimeNeverTimeOut,
        FailPoint::OnPrimaryTransactionalWrite,
        FailPoint::PauseBatchApplicationBeforeCompletion,
        FailPoint::WaitAfterCommandFinishesExecution,
        FailPoint::WaitAfterPinningCursorBeforeGetMoreBatch,
        FailPoint::WaitBeforeUnpinningOrDeletingCursorAfterGetMoreBatch,
        FailPoint::WaitInFindBeforeMakingBatch,
        FailPoint::WaitInHello,
        FailPoint::WaitWithPinnedCursorDuringGetMoreBatch,
    ];

    /// As clients write it.
    pub const fn name(self) -> &'static str {
        match self {
            FailPoint::DisableAwaitDataForGetMoreCmd => "disableAwaitDataForGetMoreCmd",
            FailPoint::FailCommand => "failCommand",
            FailPoint::FailGetMoreAfterCursorCheckout => "failGetMoreAfterCursorCheckout",
            FailPoint::HoldReadsDuringBatchApplication => "holdReadsDuringBatchApplication",
            FailPoint::MaxTimeAlwaysTimeOut => "maxTimeAlwaysTimeOut",
            FailPoint::MaxTimeNeverTimeOut => "maxTimeNeverTimeOut",
            FailPoint::OnPrimaryTransactionalWrite => "onPrimaryTransactionalWrite",
            FailPoint::PauseBatchApplicationBeforeCompletion => "pauseBatchApplicationBeforeCompletion",
            FailPoint::WaitAfterCommandFinishesExecution => "waitAfterCommandFinishesExecution",
            FailPoint::WaitAfterPinningCursorBeforeGetMoreBatch => "waitAfterPinningCursorBeforeGetMoreBatch",
            FailPoint::WaitBeforeUnpinningOrDeletingCursorAfterGetMoreBatch => {
                "waitBeforeUnpinningOrDeletingCursorAfterGetMoreBatch"
            }
            FailPoint::WaitInFindBeforeMakingBatch => "waitInFindBeforeMakingBatch",
            FailPoint::WaitInHello => "waitInHello",
            FailPoint::WaitWithPinnedCursorDuringGetMoreBatch => "waitWithPinnedCursorDuringGetMoreBatch",
        }
    }

    /// The fail point of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// The fail points and their states.
#[derive(Debug, Default)]
pub struct FailPoints {
    /// The bits of those that are set: the only cost when none is.
    armed: AtomicU32,
    /// By number. Leaves in the order of locks.
    states: [Mutex<State>; COUNT],
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    data: DocumentBuf,
    entered: i32,
}

impl FailPoints {
    /// Sets mode and data. Returns how often the fail point was entered before.
    pub(crate) fn configure(&self, point: FailPoint, mode: Mode, data: RawDocument<'_>) -> i32 {
        let mut state = self.state(point).lock();
        state.mode = mode;
        state.data = data.to_buf();
        self.arm(point, mode != Mode::Off);
        state.entered
    }

    /// `{mode, data, timesEntered}`, as `getParameter` shows it.
    pub fn describe(&self, point: FailPoint) -> Document {
        let state = self.state(point).lock();
        let data = state.data.as_raw().to_document();
        document::doc! { "mode": (state.mode.number()), "data": data, "timesEntered": (state.entered) }
    }

    /// How often it was entered since the server started.
    pub fn times_entered(&self, point: FailPoint) -> i32 {
        self.state(point).lock().entered
    }

    /// Whether none is set.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.armed.load(Ordering::Acquire) == 0
    }

    /// Whether this one is set.
    #[inline]
    pub fn is_set(&self, point: FailPoint) -> bool {
        self.armed.load(Ordering::Acquire) & point.bit() != 0
    }

    /// What `meant` makes of the data, if it is meant and its turn has come. Counts as one command then.
    pub(crate) fn enter<R>(
        &self,
        point: FailPoint,
        meant: impl FnOnce(RawDocument<'_>) -> Option<R>,
    ) -> Option<R> {
        if !self.is_set(point) {
            return None;
        }
        let mut state = self.state(point).lock();
        let fault = meant(state.data.as_raw())?;
        let strikes = state.mode.strikes();
        if state.mode == Mode::Off {
            self.arm(point, false);
        }
        if strikes {
            state.entered = state.entered.saturating_add(1);
        }
        strikes.then_some(fault)
    }

    fn arm(&self, point: FailPoint, set: bool) {
        if set {
            self.armed.fetch_or(point.bit(), Ordering::AcqRel);
        } else {
            self.armed.fetch_and(!point.bit(), Ordering::AcqRel);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "there is a state for each number, as a test checks")]
    fn state(&self, point: FailPoint) -> &Mutex<State> {
        &self.states[point as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{Value, doc};

    /// How rows end under this mode, one after the other: `x` for a fault.
    #[track_caller]
    fn check(mode: Value, expect: &str) {
        let points = FailPoints::default();
        let point = FailPoint::FailCommand;
        let mode = mode.with_raw(Mode::parse).expect("a valid mode");
        assert_eq!(points.configure(point, mode, RawDocument::EMPTY), 0);
        let enter = || points.enter(point, |_| Some(())).map_or('.', |()| 'x');
        let seen: String = (0..expect.len()).map(|_| enter()).collect();
        assert_eq!(seen, expect);
        assert!(points.enter(point, |_| None::<()>).is_none(), "nobody is meant");
        let entered = expect.matches('x').count();
        assert_eq!(points.times_entered(point), entered as i32);
        assert_eq!(points.configure(point, Mode::Off, RawDocument::EMPTY), entered as i32, "`count`");
        assert!(points.is_quiet(), "it is off");
    }

    #[test]
    fn modes() {
        check("alwaysOn".into(), "xxx");
        check("off".into(), "...");
        check(doc! { "times": 2 }.into(), "xx..");
        check(doc! { "skip": 1 }.into(), ".xx");
        check(doc! { "activationProbability": 1.0 }.into(), "xx");
        check(doc! { "activationProbability": 0 }.into(), "..");
    }

    #[test]
    fn each_has_a_name_and_a_state_of_its_own() {
        for (number, point) in FailPoint::ALL.into_iter().enumerate() {
            assert_eq!(point as usize, number);
            assert_eq!(FailPoint::by_name(point.name()), Some(point));
            let points = FailPoints::default();
            points.configure(point, Mode::AlwaysOn, RawDocument::EMPTY);
            let set: Vec<FailPoint> =
                FailPoint::ALL.into_iter().filter(|other| points.is_set(*other)).collect();
            assert_eq!(set, [point]);
        }
        assert_eq!(FailPoint::by_name("noSuch"), None);
    }
}
