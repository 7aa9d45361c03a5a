//! `param` of the events that are commands: those about users and roles, and a few more. No password is in
//! any of them.

use super::holds_credentials;
use crate::context::CommandContext;
use crate::error::code;
use crate::node::Node;
use access::RoleName;
use document::{Document, RawDocument, RawValue, Value, doc};

/// The kind and `param` of the event that this command is; `None` where it is none, or where its own file
/// tells of it.
pub(super) fn of_command<N: Node>(
    context: &CommandContext<'_, N>,
    result: i32,
) -> Option<(&'static str, Document)> {
    let (body, database) = (context.body, context.database);
    let target = body.first().and_then(|first| first.value().as_str()).unwrap_or_default();
    let name = context.command.name;
    match name {
        "createUser" | "updateUser" => Some((name, user(body, (name, target, database)))),
        "dropUser" => Some((name, doc! { "user": target, "db": database })),
        "dropAllUsersFromDatabase" | "dropAllRolesFromDatabase" => Some((name, doc! { "db": database })),
        "grantRolesToUser" | "revokeRolesFromUser" => {
            Some((name, doc! { "user": target, "db": database, "roles": (roles(body, database)) }))
        }
        "grantRolesToRole" | "revokeRolesFromRole" => {
            Some((name, doc! { "role": target, "db": database, "roles": (roles(body, database)) }))
        }
        "createRole" | "updateRole" => Some((name, role(body, (target, database)))),
        "dropRole" => Some((name, doc! { "role": target, "db": database })),
        "grantPrivilegesToRole" | "revokePrivilegesFromRole" => {
            let privileges = body.get("privileges").map(RawValue::to_value);
            Some((name, doc! { "role": target, "db": database, "privileges": privileges }))
        }
        "saslStart" if result == code::MECHANISM_UNAVAILABLE => {
            Some(("authenticate", attempt(body, database)))
        }
        "authenticate" if result != 0 => Some(("authenticate", attempt(body, database))),
        "logApplicationMessage" if result == 0 => Some(("applicationMessage", doc! { "msg": target })),
        "insert" | "update" | "delete" | "findAndModify" if result == 0 => {
            let namespace = format!("{database}.{target}");
            // The documents have what passwords are checked with: they are not told.
            let is_told = holds_credentials(&namespace);
            is_told.then(|| ("directAuthMutation", doc! { "ns": namespace, "operation": name }))
        }
        _ => None,
    }
}

/// A way to log in that there is not.
fn attempt(body: RawDocument<'_>, database: &str) -> Document {
    let text = |name: &str| body.get(name).and_then(RawValue::as_str);
    let database = text("db").unwrap_or(database);
    doc! { "user": (text("user").unwrap_or_default()), "db": database, "mechanism": (text("mechanism")) }
}

fn user(body: RawDocument<'_>, (command, target, database): (&str, &str, &str)) -> Document {
    let mut param = doc! { "user": target, "db": database };
    if command == "updateUser" {
        param.push("passwordChanged", body.contains("pwd"));
    }
    if let Some(data) = body.get("customData") {
        param.push("customData", data.to_value());
    }
    if body.contains("roles") {
        param.push("roles", roles(body, database));
    }
    if let Some(restrictions) = body.get("authenticationRestrictions") {
        param.push("authenticationRestrictions", restrictions.to_value());
    }
    param
}

fn role(body: RawDocument<'_>, (target, database): (&str, &str)) -> Document {
    let mut param = doc! { "role": target, "db": database };
    if body.contains("roles") {
        param.push("roles", roles(body, database));
    }
    for name in ["privileges", "authenticationRestrictions"] {
        if let Some(found) = body.get(name) {
            param.push(name, found.to_value());
        }
    }
    param
}

/// The field `roles` with the database of each; as it came where it cannot be understood.
fn roles(body: RawDocument<'_>, database: &str) -> Value {
    match body.get("roles") {
        Some(RawValue::Array(list)) => match RoleName::parse_list(list, database) {
            Ok(roles) => {
                let roles: Vec<Value> = roles.iter().map(|role| role.to_document().into()).collect();
                Value::from(roles)
            }
            Err(_) => RawValue::Array(list).to_value(),
        },
        other => other.map_or(Value::Null, RawValue::to_value),
    }
}

/// A command as the log shows it; of one with secrets, what is in its fields beside the first is left out
/// unless it is known to be none.
pub(super) fn shown(body: RawDocument<'_>, has_secrets: bool) -> Document {
    const NO_SECRETS: [&str; 4] = ["$db", "roles", "privileges", "mechanism"];
    let mut shown = Document::new();
    for (position, element) in body.iter().enumerate() {
        let is_shown = position == 0 || !has_secrets || NO_SECRETS.contains(&element.name());
        shown.push(element.name(), if is_shown { element.value().to_value() } else { Value::from("xxx") });
    }
    shown
}
