//! `connectionStatus`: who is logged in on this connection; without authentication, nobody.

use super::{Command, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        ..Command::diagnostic(
            "connectionStatus",
            "Tells the users and roles of the connection.",
            Run::Now(run),
        )
    }
}

fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let shows_privileges = context.fields.flexible_boolean("showPrivileges")?.unwrap_or(false);
    context.fields.finish()?;
    let mut info = reply.start_document("authInfo");
    info.start_array("authenticatedUsers").finish();
    info.start_array("authenticatedUserRoles").finish();
    if shows_privileges {
        info.start_array("authenticatedUserPrivileges").finish();
    }
    Ok(())
}
