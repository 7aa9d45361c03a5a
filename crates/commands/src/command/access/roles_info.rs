//! `rolesInfo`: tells roles, those that somebody made and those that are built in.

use super::users_info::roles_value;
use super::{Asked, names_asked_for};
use crate::command::{Command, OnSecondary, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use access::{Privilege, RoleGraph, RoleName, builtin_privileges, builtin_roles, is_builtin};
use document::{Document, DocumentBuilder, RawValue, Value, doc};

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    ..Command::new("rolesInfo", "Tells the roles of a database.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let asked = names_asked_for(context, ("role", ""))?;
    let shows_privileges = match context.fields.any("showPrivileges") {
        None => false,
        Some(RawValue::Boolean(flag)) => flag,
        Some(number) if number.is_number() => number.as_i64_exact() != Some(0),
        Some(_) => {
            return Err(CommandError::bad_value("showPrivileges has to be true or false here"));
        }
    };
    let shows_builtin = context.fields.flexible_boolean("showBuiltinRoles")?.unwrap_or(false);
    let shows_restrictions =
        context.fields.flexible_boolean("showAuthenticationRestrictions")?.unwrap_or(false);
    context.fields.finish()?;
    let graph = context.server.node.role_graph()?;
    let mut roles = reply.start_array("roles");
    for name in names(context.database, &graph, asked, shows_builtin) {
        if let Some(described) = describe(&graph, &name, shows_privileges, shows_restrictions) {
            roles.push(&described.to_buf());
        }
    }
    Ok(())
}

fn names(database: &str, graph: &RoleGraph, asked: Asked, shows_builtin: bool) -> Vec<RoleName> {
    match asked {
        Asked::Names(names) => {
            names.into_iter().map(|(role, database)| RoleName::new(role, database)).collect()
        }
        Asked::Database | Asked::Everything => {
            let made = graph.of_database(database).into_iter().map(|role| role.name.clone());
            let builtin = builtin_roles(database).into_iter().map(|role| RoleName::new(role, database));
            made.chain(builtin.filter(|_| shows_builtin)).collect()
        }
    }
}

fn privileges_value(privileges: &[Privilege]) -> Vec<Value> {
    privileges.iter().map(|privilege| privilege.to_document().into()).collect()
}

fn describe(graph: &RoleGraph, name: &RoleName, privileges: bool, restrictions: bool) -> Option<Document> {
    let made = graph.get(name);
    let own = match made {
        Some(made) => made.privileges.clone(),
        None => builtin_privileges(name)?,
    };
    let roles = made.map(|made| made.roles.as_slice()).unwrap_or_default();
    let inherited = graph.inherited(roles);
    let mut described = doc! {
        "_id": (name.id()), "role": (name.role.as_str()), "db": (name.database.as_str()),
    };
    if privileges {
        described.push("privileges", privileges_value(&own));
    }
    described.push("roles", roles_value(roles));
    if restrictions {
        let own = made.map(|made| made.restrictions.as_slice()).unwrap_or_default();
        let own: Vec<Value> = own.iter().map(|one| one.to_document().into()).collect();
        described.push("authenticationRestrictions", own);
    }
    if let Some(limits) = made.map(|made| made.limits).filter(|limits| !limits.is_empty()) {
        described.push("limits", limits.to_document());
    }
    described.push("inheritedRoles", roles_value(&inherited.roles));
    if privileges {
        let all = graph.inherited(std::slice::from_ref(name));
        described.push("inheritedPrivileges", privileges_value(&all.privileges));
        if !all.limits.is_empty() {
            described.push("inheritedLimits", all.limits.to_document());
        }
    }
    described.push("isBuiltin", made.is_none() && is_builtin(name));
    Some(described)
}
