//! `refreshSessions`: sessions are still in use.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    api_version_1: true,
    ..CommandEntry::diagnostic("refreshSessions", "Keeps logical sessions alive.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    for session in super::start_session::listed(context)? {
        context.server.sessions.touch(session, context.started)?;
    }
    context.fields.finish()?;
    let _ = reply;
    Ok(())
}
