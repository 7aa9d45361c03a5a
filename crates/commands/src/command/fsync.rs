//! `fsync`: what is acknowledged is on the disk when this returns.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult, code};
use catalog::WriteError;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command =
    Command { admin_only: true, ..Command::new("fsync", "Writes everything to the disk.", Run::Now(run)) };

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let locks = context.fields.flexible_boolean("lock")?.unwrap_or(false);
    context.fields.ignore(&["async", "fsyncLockAcquisitionTimeoutMillis"]);
    context.fields.finish()?;
    if locks {
        let message = "fsync with lock is not supported: the files are consistent at every moment";
        return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
    }
    context.server.node.store.sync_journal().map_err(WriteError::from)?;
    context.server.node.store.flush().map_err(WriteError::from)?;
    reply.append("numFiles", 1);
    Ok(())
}
