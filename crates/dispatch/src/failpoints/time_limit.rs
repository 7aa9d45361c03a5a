//! `maxTimeAlwaysTimeOut` and `maxTimeNeverTimeOut`: the clock as a test wants it.

use super::FailPoint;
use crate::error::CommandResult;
use crate::interrupt::Interrupt;
use crate::node::Node;
use crate::server::ServiceContext;

/// The operation's time limit is known, if it has one.
///
/// # Errors
/// `MaxTimeMSExpired` when the fail point says so.
pub(crate) fn check_time_limit<N: Node>(server: &ServiceContext<N>, interrupt: &Interrupt) -> CommandResult {
    let points = &server.failpoints;
    if points.is_quiet() || interrupt.deadline().is_none() {
        return Ok(());
    }
    if points.enter(FailPoint::MaxTimeNeverTimeOut, |_| Some(())).is_some() {
        interrupt.clear_deadline();
    } else if points.enter(FailPoint::MaxTimeAlwaysTimeOut, |_| Some(())).is_some() {
        interrupt.set_deadline(ambient::now(), &server.timers);
    }
    interrupt.check()
}
