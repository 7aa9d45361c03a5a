//! `createRole`, `updateRole`, `dropRole`, `dropAllRolesFromDatabase`, and what grants to and revokes from a
//! role.

use super::{change, need_roles, store, take_limits, take_roles, target, users};
use crate::access::{ROLES, check_roles, refused, role_not_found};
use crate::command::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use access::{LoginRestriction, Privilege, RoleDefinition, RoleName, add_privilege, check_reach, is_builtin};
use document::DocumentBuilder;
use wire::ErrorCode;

pub(crate) static CREATE: Command =
    change("createRole", "Makes a role.", Run::Later(|context, _| Box::pin(create(context))));
pub(crate) static UPDATE: Command =
    change("updateRole", "Changes a role.", Run::Later(|context, _| Box::pin(update(context))));
pub(crate) static DROP: Command =
    change("dropRole", "Removes a role.", Run::Later(|context, _| Box::pin(drop_one(context))));
pub(crate) static DROP_ALL: Command = change(
    "dropAllRolesFromDatabase",
    "Removes the roles of a database.",
    Run::Later(|context, reply| Box::pin(drop_all(context, reply))),
);
pub(crate) static GRANT: Command = change(
    "grantRolesToRole",
    "Lets a role inherit from more roles.",
    Run::Later(|context, _| Box::pin(grant(context))),
);
pub(crate) static REVOKE: Command = change(
    "revokeRolesFromRole",
    "Lets a role inherit from fewer roles.",
    Run::Later(|context, _| Box::pin(revoke(context))),
);
pub(crate) static GRANT_PRIVILEGES: Command = change(
    "grantPrivilegesToRole",
    "Gives a role more privileges.",
    Run::Later(|context, _| Box::pin(grant_privileges(context))),
);
pub(crate) static REVOKE_PRIVILEGES: Command = change(
    "revokePrivilegesFromRole",
    "Takes privileges from a role.",
    Run::Later(|context, _| Box::pin(revoke_privileges(context))),
);

/// The role that the command is about, which must not be a built-in one.
fn name(context: &CommandContext<'_>) -> CommandResult<RoleName> {
    let name = RoleName::new(target(context)?, context.database);
    match is_builtin(&name) {
        true => Err(CommandError::new(
            ErrorCode::InvalidRoleModification as i32,
            format!("{name} is a built-in role and cannot be modified."),
        )),
        false => Ok(name),
    }
}

fn take_privileges(context: &mut CommandContext<'_>) -> CommandResult<Option<Vec<Privilege>>> {
    let Some(list) = context.fields.array("privileges")? else { return Ok(None) };
    let mut merged = Vec::new();
    for privilege in Privilege::parse_list(list).map_err(refused)? {
        add_privilege(&mut merged, &privilege);
    }
    Ok(Some(merged))
}

fn need_privileges(context: &mut CommandContext<'_>) -> CommandResult<Vec<Privilege>> {
    match take_privileges(context)? {
        Some(list) if !list.is_empty() => Ok(list),
        Some(_) => {
            let command = context.command.name;
            Err(CommandError::bad_value(format!(
                "{command} command requires a non-empty \"privileges\" array"
            )))
        }
        None => Err(context.fields.missing("privileges")),
    }
}

fn take_restrictions(context: &mut CommandContext<'_>) -> CommandResult<Option<Vec<LoginRestriction>>> {
    let list = context.fields.array("authenticationRestrictions")?;
    list.map(LoginRestriction::parse_list).transpose().map_err(refused)
}

/// Fails when a role would inherit from itself.
fn check_circle(context: &CommandContext<'_>, name: &RoleName, roles: &[RoleName]) -> CommandResult {
    let graph = context.server.node.role_graph()?;
    match roles.iter().find(|role| *role == name || graph.reaches(role, name)) {
        None => Ok(()),
        Some(role) => Err(CommandError::new(
            ErrorCode::InvalidRoleModification as i32,
            format!("Granting {role} to {name} would introduce a cycle in the role graph."),
        )),
    }
}

async fn create(context: &mut CommandContext<'_>) -> CommandResult {
    let name = RoleName::new(target(context)?, context.database);
    let privileges = take_privileges(context)?.ok_or_else(|| context.fields.missing("privileges"))?;
    let roles = need_roles(context)?;
    let restrictions = take_restrictions(context)?.unwrap_or_default();
    let limits = take_limits(context)?.unwrap_or_default();
    context.fields.finish()?;
    if name.database == "local" {
        return Err(CommandError::bad_value("Cannot create roles in the local database"));
    }
    if is_builtin(&name) {
        let message = format!("Cannot create roles with the same name as a built-in role: {name}");
        return Err(CommandError::bad_value(message));
    }
    check_reach(&name.database, &privileges, &roles).map_err(refused)?;
    check_roles(&context.server.node, &roles)?;
    check_circle(context, &name, &roles)?;
    let role = RoleDefinition { name, privileges, roles, restrictions, limits };
    store(context, ROLES, &role.name.id(), |found| match found {
        Some(_) => Err(already_exists(&role.name)),
        None => Ok(Some(role.to_document())),
    })
    .await
}

fn already_exists(name: &RoleName) -> CommandError {
    const ROLE_EXISTS: i32 = 51_002;
    CommandError::new(ROLE_EXISTS, format!("Role \"{name}\" already exists"))
}

/// Changes what is stored of a role.
async fn change_role(
    context: &CommandContext<'_>,
    name: &RoleName,
    change: impl FnOnce(&mut RoleDefinition),
) -> CommandResult {
    store(context, ROLES, &name.id(), |found| {
        let found = found.ok_or_else(|| role_not_found(name))?;
        let mut role = RoleDefinition::parse(found).map_err(refused)?;
        change(&mut role);
        Ok(Some(role.to_document()))
    })
    .await
}

async fn update(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let privileges = take_privileges(context)?;
    let roles = take_roles(context)?;
    let restrictions = take_restrictions(context)?;
    let limits = take_limits(context)?;
    context.fields.finish()?;
    if privileges.is_none() && roles.is_none() && restrictions.is_none() && limits.is_none() {
        return Err(CommandError::bad_value("Must specify at least one field to update in updateRole"));
    }
    let given = roles.as_deref().unwrap_or_default();
    check_reach(&name.database, privileges.as_deref().unwrap_or_default(), given).map_err(refused)?;
    check_roles(&context.server.node, given)?;
    check_circle(context, &name, given)?;
    change_role(context, &name, |role| {
        role.privileges = privileges.unwrap_or_else(|| std::mem::take(&mut role.privileges));
        role.roles = roles.unwrap_or_else(|| std::mem::take(&mut role.roles));
        role.restrictions = restrictions.unwrap_or_else(|| std::mem::take(&mut role.restrictions));
        role.limits = limits.unwrap_or(role.limits);
    })
    .await
}

async fn drop_one(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    context.fields.finish()?;
    if context.server.node.role_graph()?.get(&name).is_none() {
        return Err(role_not_found(&name));
    }
    remove(context, &name).await
}

/// Takes a role from all users and roles that have it, then removes it.
async fn remove(context: &CommandContext<'_>, gone: &RoleName) -> CommandResult {
    users::forget_role(context, gone).await?;
    let graph = context.server.node.role_graph()?;
    for heir in graph.heirs(gone) {
        change_role(context, heir, |role| role.roles.retain(|role| role != gone)).await?;
    }
    store(context, ROLES, &gone.id(), |_| Ok(None)).await
}

async fn drop_all(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let graph = context.server.node.role_graph()?;
    let gone: Vec<RoleName> =
        graph.of_database(context.database).into_iter().map(|role| role.name.clone()).collect();
    for role in &gone {
        context.interrupt().check()?;
        remove(context, role).await?;
    }
    reply.append("n", i32::try_from(gone.len()).unwrap_or(i32::MAX));
    Ok(())
}

async fn grant(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let more = need_roles(context)?;
    context.fields.finish()?;
    check_reach(&name.database, &[], &more).map_err(refused)?;
    check_roles(&context.server.node, &more)?;
    check_circle(context, &name, &more)?;
    change_role(context, &name, |role| {
        for granted in more {
            if !role.roles.contains(&granted) {
                role.roles.push(granted);
            }
        }
    })
    .await
}

async fn revoke(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let less = need_roles(context)?;
    context.fields.finish()?;
    check_roles(&context.server.node, &less)?;
    change_role(context, &name, |role| role.roles.retain(|role| !less.contains(role))).await
}

async fn grant_privileges(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let more = need_privileges(context)?;
    context.fields.finish()?;
    check_reach(&name.database, &more, &[]).map_err(refused)?;
    change_role(context, &name, |role| {
        more.iter().for_each(|privilege| add_privilege(&mut role.privileges, privilege));
    })
    .await
}

async fn revoke_privileges(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let less = need_privileges(context)?;
    context.fields.finish()?;
    change_role(context, &name, |role| {
        for known in &mut role.privileges {
            for gone in less.iter().filter(|gone| gone.resource == known.resource) {
                known.actions.remove_all(gone.actions);
            }
        }
        role.privileges.retain(|privilege| !privilege.actions.is_empty());
    })
    .await
}
