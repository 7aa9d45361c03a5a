//! Commands that wait for a window before they begin.

use super::{WorkKind, ask};
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use std::time::Duration;

/// How often it is asked whether the window is open.
const LOOK_EACH: Duration = Duration::from_secs(1);

/// Waits until the calendar lets work of this kind begin, and holds no thread meanwhile; `currentOp` says so.
/// Whether it had to wait: what the command has read before may have changed.
///
/// # Errors
/// The reason for the operation's end; a server that shuts down is one.
pub(crate) async fn await_window(context: &CommandContext<'_>, kind: WorkKind) -> CommandResult<bool> {
    context.scheduling().offload().await;
    let mut has_waited = false;
    while ask(context.server, kind, None).rate().is_none() {
        if context.server.is_shutting_down() {
            let message = "the server shuts down, and the operation has not begun";
            return Err(CommandError::new(code::INTERRUPTED_AT_SHUTDOWN, message));
        }
        if !has_waited {
            let message = format!("{}: waits for its window in the calendar", kind.name());
            context.operation.set_progress(message, 0, 0);
            has_waited = true;
        }
        context.server.sleep(context.interrupt(), ambient::now() + LOOK_EACH).await?;
    }
    if has_waited {
        context.operation.clear_progress();
    }
    Ok(has_waited)
}
