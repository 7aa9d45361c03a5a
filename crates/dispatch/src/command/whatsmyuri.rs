//! `whatsmyuri`: the address the client has from here.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command::diagnostic("whatsmyuri", "Tells the client its own address.", Run::Now(run))
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    reply.append("you", context.client.remote.as_str());
    Ok(())
}
