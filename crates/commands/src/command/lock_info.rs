//! `lockInfo`: locks held; latches are too short to be listed.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command = Command {
    admin_only: true,
    ..Command::diagnostic("lockInfo", "Tells the locks that are held.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    reply.start_array("lockInfo").finish();
    Ok(())
}
