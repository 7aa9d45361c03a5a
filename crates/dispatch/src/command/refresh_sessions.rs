//! `refreshSessions`: sessions are still in use.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        api_version_1: true,
        ..Command::diagnostic("refreshSessions", "Keeps logical sessions alive.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    for session in super::start_session::listed(context)? {
        context.server.sessions.touch(session, context.started)?;
    }
    context.fields.finish()?;
    let _ = reply;
    Ok(())
}
