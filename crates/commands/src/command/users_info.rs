//! `usersInfo` and the commands that remove users: there is no authentication yet, hence no users.

use super::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use crate::fields::wrong_type;
use document::{DocumentBuilder, RawValue};

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    ..Command::diagnostic("usersInfo", "Tells the users of a database.", Run::Now(run))
};

pub(crate) static DROP: Command = Command {
    takes_write_concern: true,
    on_secondary: OnSecondary::Never,
    ..Command::diagnostic("dropUser", "Removes a user; there are none.", Run::Now(drop_one))
};

pub(crate) static DROP_ALL: Command = Command {
    takes_write_concern: true,
    on_secondary: OnSecondary::Never,
    ..Command::diagnostic(
        "dropAllUsersFromDatabase",
        "Removes the users of a database; there are none.",
        Run::Now(drop_all),
    )
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    check_target(context, "forAllDBs")?;
    for option in ["showPrivileges", "showCredentials", "showCustomData", "showAuthenticationRestrictions"] {
        context.fields.flexible_boolean(option)?;
    }
    context.fields.document("filter")?;
    context.fields.finish()?;
    reply.start_array("users").finish();
    Ok(())
}

/// The command's own field names what is asked for: `1`, a name, `{<kind>: name, db}`, a list of them, or
/// `{<all>: true}`.
pub(crate) fn check_target(context: &CommandContext<'_>, all: &str) -> CommandResult {
    let command = context.command.name;
    let is_one = |value: RawValue<'_>| match value {
        RawValue::String(_) => true,
        RawValue::Document(named) => named.contains("db") || named.contains(all),
        _ => false,
    };
    match context.fields.target() {
        RawValue::Array(list) if list.iter().all(is_one) => Ok(()),
        target if target.is_number() || is_one(target) => Ok(()),
        RawValue::Document(_) | RawValue::Array(_) => {
            Err(CommandError::bad_value("a name must be a string or a document with a name and a database"))
        }
        other => Err(wrong_type(command, command, other.kind(), &["number", "string", "object", "array"])),
    }
}

fn drop_one(context: &mut CommandContext<'_>, _reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let target = context.fields.target();
    let Some(name) = target.as_str() else {
        return Err(context.fields.wrong_type("dropUser", target.kind(), &["string"]));
    };
    context.fields.finish()?;
    let message = format!("User '{name}@{}' not found", context.database);
    Err(CommandError::new(wire::ErrorCode::UserNotFound as i32, message))
}

fn drop_all(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    reply.append("n", 0);
    Ok(())
}
