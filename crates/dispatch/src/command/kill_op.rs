//! `killOp`: ends one operation.

use super::{CommandEntry, Run};
use crate::context::CommandContext;
use crate::error::{CommandResult, code};
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> CommandEntry<N> {
    CommandEntry {
        admin_only: true,
        ..CommandEntry::diagnostic("killOp", "Ends an operation by its number.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let number = context.fields.integer("op")?.ok_or_else(|| context.fields.missing("op"))?;
    context.fields.finish()?;
    for connection in context.server.connections() {
        if connection.kill_operation(code::INTERRUPTED, |id, _| id == number) {
            break;
        }
    }
    // Whether there was such an operation is not told: it may just have ended.
    reply.append("info", "attempting to kill op");
    Ok(())
}
