//! `killOp`: ends one operation.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandResult, code};
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        admin_only: true,
        ..Command::diagnostic_walk("killOp", "Ends an operation by its number.", Run::Now(run))
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let number = context.fields.integer("op")?.ok_or_else(|| context.fields.missing("op"))?;
    context.fields.finish()?;
    for client in context.server.clients() {
        if client.kill_operation(code::INTERRUPTED, |id, _| id == number) {
            break;
        }
    }
    // Whether there was such an operation is not told: it may just have ended.
    reply.append("info", "attempting to kill op");
    Ok(())
}
