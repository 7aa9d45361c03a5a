//! The commands about users and roles.
//!
//! Source: MongoDB manual, "User Management Commands" and "Role Management Commands".

mod credentials;
mod merge;
mod roles;
mod roles_info;
mod users;
mod users_info;

pub(crate) use merge::COMMAND as MERGE_AUTHORIZATION;
pub(crate) use roles::{
    CREATE as CREATE_ROLE, DROP as DROP_ROLE, DROP_ALL as DROP_ALL_ROLES, GRANT as GRANT_ROLES_TO_ROLE,
    GRANT_PRIVILEGES, REVOKE as REVOKE_ROLES_FROM_ROLE, REVOKE_PRIVILEGES, UPDATE as UPDATE_ROLE,
};
pub(crate) use roles_info::COMMAND as ROLES_INFO;
pub(crate) use users::{
    CREATE as CREATE_USER, DROP as DROP_USER, DROP_ALL as DROP_ALL_USERS, GRANT as GRANT_ROLES_TO_USER,
    REVOKE as REVOKE_ROLES_FROM_USER, UPDATE as UPDATE_USER,
};
pub(crate) use users_info::COMMAND as USERS_INFO;

use super::{Command, OnSecondary, Run};
use crate::access::{DATABASE, key};
use crate::audit::collection_or_create;
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use crate::fields::wrong_type;
use access::{RoleName, UserLimits};
use catalog::Decision;
use document::{Document, RawDocument, RawValue};

/// A row of a command that changes users or roles.
const fn change(name: &'static str, help: &'static str, run: Run) -> Command {
    Command {
        takes_write_concern: true,
        on_secondary: OnSecondary::Never,
        has_secrets: true,
        ..Command::new(name, help, run)
    }
}

/// The command's own field as a name.
fn target<'a>(context: &CommandContext<'a>) -> CommandResult<&'a str> {
    let command = context.command.name;
    match context.fields.target() {
        RawValue::String("") => {
            Err(CommandError::bad_value(format!("{command} needs a name that is not empty")))
        }
        RawValue::String(name) if name.contains('\0') => {
            Err(CommandError::bad_value("names cannot have embedded null characters"))
        }
        RawValue::String(name) => Ok(name),
        other => Err(context.fields.wrong_type(command, other.kind(), &["string"])),
    }
}

/// Takes the field `roles`.
fn take_roles(context: &mut CommandContext<'_>) -> CommandResult<Option<Vec<RoleName>>> {
    let Some(roles) = context.fields.array("roles")? else { return Ok(None) };
    RoleName::parse_list(roles, context.database).map(Some).map_err(crate::access::refused)
}

/// The same where it has to be there.
fn need_roles(context: &mut CommandContext<'_>) -> CommandResult<Vec<RoleName>> {
    take_roles(context)?.ok_or_else(|| context.fields.missing("roles"))
}

/// Takes the field `limits`. An empty document takes all limits away.
fn take_limits(context: &mut CommandContext<'_>) -> CommandResult<Option<UserLimits>> {
    let limits = context.fields.document("limits")?;
    limits.map(UserLimits::parse).transpose().map_err(crate::access::refused)
}

/// A user or role as it is to become.
type Changed = CommandResult<Option<Document>>;

/// Changes the document of a user or role, of which `change` sees what is stored: it gives what is to be
/// stored, or nothing for a document that is to go. Then everybody looks at users and roles anew.
async fn store(
    context: &CommandContext<'_>,
    collection: &str,
    id: &str,
    change: impl FnOnce(Option<RawDocument<'_>>) -> Changed,
) -> CommandResult {
    let node = &context.server.node;
    let writing = context.writing();
    let stored = match node.catalog.collection(DATABASE, collection) {
        Some(collection) => {
            let decide = |found: Option<RawDocument<'_>>| {
                Ok::<_, CommandError>(match change(found)? {
                    Some(document) => Decision::Replace(document.to_buf()),
                    None if found.is_some() => Decision::Remove,
                    None => Decision::Keep,
                })
            };
            collection.update(&writing, &key(id), decide).await
        }
        // A collection is made for what is to be stored only.
        None => {
            let Some(document) = change(None)? else { return Ok(()) };
            let collection = collection_or_create(context, &writing, (DATABASE, collection)).await?;
            let decide = |found: Option<RawDocument<'_>>| match found {
                None => Ok(Decision::Replace(document.to_buf())),
                Some(_) => Err(CommandError::new(code::WRITE_CONFLICT, "somebody else was first: try again")),
            };
            collection.update(&writing, &key(id), decide).await
        }
    };
    node.look_at_access_again();
    stored.map(drop)
}

/// The command's own field names what is asked for: `1`, a name, `{<kind>: name, db}`, a list of them, or
/// `{<all>: true}`. Gives the names; `None` for all of the database, or of all databases.
fn names_asked_for(
    context: &CommandContext<'_>,
    (kind, all): (&'static str, &'static str),
) -> CommandResult<Asked> {
    let command = context.command.name;
    let one = |value: RawValue<'_>| match value {
        RawValue::String(name) => Some((name.to_owned(), context.database.to_owned())),
        RawValue::Document(named) => {
            let text = |name: &str| named.get(name).and_then(RawValue::as_str);
            Some((text(kind)?.to_owned(), text("db")?.to_owned()))
        }
        _ => None,
    };
    let malformed =
        || CommandError::bad_value("a name must be a string or a document with a name and a database");
    match context.fields.target() {
        target if target.is_number() => Ok(Asked::Database),
        RawValue::Document(named) if !all.is_empty() && named.contains(all) => Ok(Asked::Everything),
        RawValue::Array(list) => {
            let names: Option<Vec<_>> = list.iter().map(one).collect();
            names.map(Asked::Names).ok_or_else(malformed)
        }
        target @ (RawValue::String(_) | RawValue::Document(_)) => {
            one(target).map(|name| Asked::Names(vec![name])).ok_or_else(malformed)
        }
        other => Err(wrong_type(command, command, other.kind(), &["number", "string", "object", "array"])),
    }
}

/// What `usersInfo` and `rolesInfo` ask for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// Names and their databases.
    Names(Vec<(String, String)>),
    /// All of the database.
    Database,
    /// All of all databases.
    Everything,
}
