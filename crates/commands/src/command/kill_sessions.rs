//! `killSessions`: ends sessions with their cursors and operations.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    ..CommandEntry::diagnostic(
        "killSessions",
        "Kills the operations and cursors of logical sessions.",
        Run::Now(run),
    )
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.server.kill_sessions(&super::start_session::listed(context)?);
    context.fields.finish()?;
    let _ = reply;
    Ok(())
}
