//! `shutdown`: the orderly end, as after SIGTERM.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::diagnostic("shutdown", "Ends the server in order.", Run::Now(run))
    }
}

/// How long running operations may take when nothing is said, in seconds.
const TIMEOUT_DEFAULT_SECS: i64 = 15;

fn run<N: Node>(context: &mut CommandContext<'_, N>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.flexible_boolean("force")?;
    let timeout = context.fields.integer_at_least("timeoutSecs", 0)?.unwrap_or(TIMEOUT_DEFAULT_SECS);
    context.fields.finish()?;
    tracing::info!(target: "COMMAND", id = 4_695_400, "Attempting to shutdown");
    context.server.host.process.shut_down(timeout.unsigned_abs());
    Ok(())
}
