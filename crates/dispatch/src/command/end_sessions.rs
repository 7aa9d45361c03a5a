//! `endSessions`: sessions are over, and so are their cursors.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        api_version_1: true,
        ..Command::diagnostic_walk(
            "endSessions",
            "Ends logical sessions and closes their cursors.",
            Run::Now(run),
        )
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.server.end_sessions(&super::start_session::listed(context)?);
    context.fields.finish()?;
    let _ = reply;
    Ok(())
}
