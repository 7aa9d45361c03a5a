//! `killSessions`: ends sessions with their cursors and operations.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        ..Command::diagnostic_walk(
            "killSessions",
            "Kills the operations and cursors of logical sessions.",
            Run::Now(run),
        )
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.server.kill_sessions(&super::start_session::listed(context)?);
    context.fields.finish()?;
    let _ = reply;
    Ok(())
}
