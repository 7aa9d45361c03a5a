//! `killOp`: ends one operation.

use super::{Command, Run};
use crate::client::Client;
use crate::context::CommandContext;
use crate::error::{CommandResult, code};
use crate::node::Node;
use access::{AccessTarget, Action};
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
    let may_any = context.may(AccessTarget::Cluster, Action::Killop);
    let runs = |client: &Client| client.operation().is_some_and(|operation| operation.id == number);
    let is_own = |client: &Client| context.owns(client.access.user_name().as_ref()) && runs(client);
    if !may_any && !context.server.clients().iter().any(|client| is_own(client)) {
        return Err(context.unauthorized());
    }
    for client in context.server.clients() {
        if !may_any && !is_own(&client) {
            continue;
        }
        if client.kill_operation(code::INTERRUPTED, |id, _| id == number) {
            break;
        }
    }
    // Whether there was such an operation is not told: it may just have ended.
    reply.append("info", "attempting to kill op");
    Ok(())
}
