//! `rolesInfo` and `dropAllRolesFromDatabase`: there is no authentication yet, hence no roles.

use super::users_info::check_target;
use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use document::DocumentBuilder;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    ..Command::diagnostic("rolesInfo", "Tells the roles of a database.", Run::Now(run))
};

pub(crate) static DROP_ALL: Command = Command {
    takes_write_concern: true,
    on_secondary: OnSecondary::Never,
    ..Command::diagnostic(
        "dropAllRolesFromDatabase",
        "Removes the roles of a database; there are none.",
        Run::Now(drop_all),
    )
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    check_target(context, "role")?;
    // `showPrivileges` is a flag or the word asUserFragment.
    context.fields.any("showPrivileges");
    for option in ["showBuiltinRoles", "showAuthenticationRestrictions"] {
        context.fields.flexible_boolean(option)?;
    }
    context.fields.finish()?;
    reply.start_array("roles").finish();
    Ok(())
}

fn drop_all(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    reply.append("n", 0);
    Ok(())
}
