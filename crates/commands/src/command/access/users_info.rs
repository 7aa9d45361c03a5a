//! `usersInfo`: tells users.

use super::{Asked, names_asked_for};
use crate::command::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::CommandResult;
use access::{AccessUser, RoleName, UserName};
use document::{Document, DocumentBuilder, Value};
use query::Environment;
use query::matcher::Matcher;
use std::sync::Arc;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    ..Command::new("usersInfo", "Tells the users of a database.", Run::Now(run))
};

/// What is shown of each user.
struct Shown {
    privileges: bool,
    credentials: bool,
    custom_data: bool,
    restrictions: bool,
}

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let asked = names_asked_for(context, ("user", "forAllDBs"))?;
    let mut flag = |name, default| -> CommandResult<bool> {
        Ok(context.fields.flexible_boolean(name)?.unwrap_or(default))
    };
    let shown = Shown {
        privileges: flag("showPrivileges", false)?,
        credentials: flag("showCredentials", false)?,
        custom_data: flag("showCustomData", true)?,
        restrictions: flag("showAuthenticationRestrictions", false)?,
    };
    let environment = Environment::at(context.server.now_ms());
    let filter = context.fields.document("filter")?;
    let filter = filter.map(|filter| Matcher::parse(filter, &environment)).transpose()?;
    context.fields.finish()?;
    let mut users = reply.start_array("users");
    for user in found(context, asked)? {
        let described = describe(&user, &shown).to_buf();
        if filter.as_ref().map_or(Ok(true), |filter| filter.matches(described.as_raw()))? {
            users.push(&described);
        }
    }
    Ok(())
}

fn found(context: &CommandContext<'_>, asked: Asked) -> CommandResult<Vec<Arc<AccessUser>>> {
    let node = &context.server.node;
    let mut users = Vec::new();
    match asked {
        Asked::Names(names) => {
            for (user, database) in names {
                users.extend(node.stored_user(&UserName::new(user, database))?);
            }
        }
        Asked::Database => {
            let all = node.all_users()?.into_iter();
            users.extend(all.filter(|user| user.name.database == context.database).map(Arc::new));
        }
        Asked::Everything => users.extend(node.all_users()?.into_iter().map(Arc::new)),
    }
    Ok(users)
}

fn describe(user: &AccessUser, shown: &Shown) -> Document {
    let stored = user.document.as_raw().to_document();
    let mut described = Document::new();
    for name in ["_id", "userId", "user", "db", "credentials", "customData", "roles"] {
        let is_shown = match name {
            "credentials" => shown.credentials,
            "customData" => shown.custom_data,
            _ => true,
        };
        if let Some(value) = stored.get(name).filter(|_| is_shown) {
            described.push(name, value.clone());
        }
    }
    if let Some(limits) = stored.get("limits") {
        described.push("limits", limits.clone());
    }
    let mechanisms: Vec<Value> =
        user.credentials().mechanisms().map(|mechanism| mechanism.name().into()).collect();
    if user.name.database == "$external" {
        described.push("mechanisms", vec![Value::from("external")]);
    } else {
        described.push("mechanisms", mechanisms);
    }
    if shown.restrictions || shown.privileges {
        described.push("authenticationRestrictions", user.restrictions_value());
    }
    if shown.privileges {
        described.push("inheritedRoles", roles_value(&user.inherited.roles));
        let privileges: Vec<Value> =
            user.inherited.privileges.iter().map(|privilege| privilege.to_document().into()).collect();
        described.push("inheritedPrivileges", privileges);
        if !user.inherited.limits.is_empty() {
            described.push("inheritedLimits", user.inherited.limits.to_document());
        }
    }
    if shown.restrictions || shown.privileges {
        let lists =
            user.inherited.restrictions.iter().map(|list| {
                Value::from(list.iter().map(|one| one.to_document().into()).collect::<Vec<Value>>())
            });
        described.push("inheritedAuthenticationRestrictions", lists.collect::<Vec<Value>>());
    }
    described
}

/// Roles as replies show them.
pub(super) fn roles_value(roles: &[RoleName]) -> Vec<Value> {
    roles.iter().map(|role| role.to_document().into()).collect()
}
