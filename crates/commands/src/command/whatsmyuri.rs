//! `whatsmyuri`: the address the client has from here.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry =
    CommandEntry::diagnostic("whatsmyuri", "Tells the client its own address.", Run::Now(run));

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    reply.append("you", context.connection.remote.as_str());
    Ok(())
}
