//! `connectionStatus`: who is logged in on this connection, and what it may do.

use super::{Command, Run};
use crate::authorization::look_again;
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::node::Node;
use document::DocumentBuilder;

pub(crate) const fn command<N: Node>() -> Command<N> {
    Command {
        ..Command::diagnostic(
            "connectionStatus",
            "Tells the users and roles of the connection.",
            Run::Later(|context, reply| Box::pin(run(context, reply))),
        )
    }
}

async fn run<N: Node>(context: &mut CommandContext<'_, N>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let shows_privileges = context.fields.flexible_boolean("showPrivileges")?.unwrap_or(false);
    context.fields.finish()?;
    let user = look_again(context).await?;
    let mut info = reply.start_document("authInfo");
    let mut users = info.start_array("authenticatedUsers");
    if let Some(user) = &user {
        users.push(&user.name.to_document().to_buf());
    }
    users.finish();
    let mut roles = info.start_array("authenticatedUserRoles");
    for role in user.iter().flat_map(|user| &user.inherited.roles) {
        roles.push(&role.to_document().to_buf());
    }
    roles.finish();
    if shows_privileges {
        let mut privileges = info.start_array("authenticatedUserPrivileges");
        for privilege in user.iter().flat_map(|user| &user.inherited.privileges) {
            privileges.push(&privilege.to_document().to_buf());
        }
    }
    Ok(())
}
