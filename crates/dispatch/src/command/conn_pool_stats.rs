//! `connPoolStats`: connections from this server to others; a standalone has none.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command::diagnostic("connPoolStats", "Tells the connections to other servers.", Run::Now(run))
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.ignore_rest();
    for name in [
        "numClientConnections",
        "numAScopedConnections",
        "totalInUse",
        "totalAvailable",
        "totalCreated",
        "totalRefreshing",
    ] {
        reply.append(name, 0);
    }
    reply.start_document("pools").finish();
    reply.start_document("hosts").finish();
    Ok(())
}
