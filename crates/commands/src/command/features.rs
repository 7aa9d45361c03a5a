//! `features`: a few facts that old tools ask for.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: CommandEntry =
    CommandEntry::diagnostic("features", "Tells facts about the build.", Run::Now(run));

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    reply.append(
        "oidMachine",
        i32::from_le_bytes([
            context.server.process_id.bytes()[4],
            context.server.process_id.bytes()[5],
            context.server.process_id.bytes()[6],
            0,
        ]),
    );
    Ok(())
}
