//! `failGetMoreAfterCursorCheckout`: the cursor is taken, and then the `getMore` fails.

use super::FailPoint;
use super::command::Arrival;
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use crate::node::Node;
use document::RawValue;

/// The cursor is taken.
///
/// # Errors
/// The error that was ordered, `InternalError` if none was named.
pub(crate) fn fail_after_checkout<N: Node>(context: &CommandContext<'_, N>) -> CommandResult {
    let failed = context.server.failpoints.enter(FailPoint::FailGetMoreAfterCursorCheckout, |data| {
        if !Arrival::of(context).is_from(data) {
            return None;
        }
        let number = data.get("errorCode").and_then(RawValue::as_i64_exact);
        Some(number.map_or(code::INTERNAL_ERROR, |number| number as i32))
    });
    let message = "Hit the 'failGetMoreAfterCursorCheckout' failpoint";
    failed.map_or(Ok(()), |number| Err(CommandError::new(number, message)))
}
