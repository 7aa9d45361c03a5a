//! `features`: a few facts that old tools ask for.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command::diagnostic("features", "Tells facts about the build.", Run::Now(run))
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
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
