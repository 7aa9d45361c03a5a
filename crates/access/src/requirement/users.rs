//! Commands about users and roles, and those that show what who asks may see.

use super::AccessRequest;
use crate::action::Action;
use crate::names::RoleName;
use crate::privileges::Privilege;
use crate::resource::{AccessTarget, ResourcePattern};
use document::RawValue;

fn on_database(request: &AccessRequest<'_>, action: Action) -> bool {
    request.may(AccessTarget::Database(request.database), action)
}

/// The roles that a command names; `None` when one is none, which the command will refuse.
fn roles(request: &AccessRequest<'_>) -> Option<Vec<RoleName>> {
    let mut roles = Vec::new();
    for list in request.values("roles") {
        for value in list.as_array()?.iter() {
            roles.push(RoleName::parse(value, request.database).ok()?);
        }
    }
    Some(roles)
}

/// Whether the action may be done in the database of each named role.
fn may_with_roles(request: &AccessRequest<'_>, action: Action) -> bool {
    roles(request).is_none_or(|roles| {
        roles.iter().all(|role| request.may(AccessTarget::Database(&role.database), action))
    })
}

/// Whether the action may be done in the database of each named privilege; what reaches beyond one needs it
/// in `admin`.
fn may_with_privileges(request: &AccessRequest<'_>, action: Action) -> bool {
    request.values("privileges").filter_map(RawValue::as_array).all(|list| {
        let Ok(privileges) = Privilege::parse_list(list) else { return true };
        privileges.iter().all(|privilege| {
            let database = match &privilege.resource {
                ResourcePattern::CollectionName(_) => "admin",
                resource => resource.database().unwrap_or("admin"),
            };
            request.may(AccessTarget::Database(database), action)
        })
    })
}

/// Restrictions and limits need an action of their own.
fn may_restrict(request: &AccessRequest<'_>) -> bool {
    let is_said = |field| request.values(field).next().is_some();
    !is_said("authenticationRestrictions") && !is_said("limits")
        || on_database(request, Action::SetAuthenticationRestriction)
}

/// `createUser`.
pub(super) fn create_user(request: &AccessRequest<'_>) -> bool {
    on_database(request, Action::CreateUser)
        && may_with_roles(request, Action::GrantRole)
        && may_restrict(request)
}

/// `updateUser`. Roles are replaced, which needs to revoke any.
pub(super) fn update_user(request: &AccessRequest<'_>) -> bool {
    let own = &request.user.name;
    let is_own = request.collection() == own.user && request.database == own.database;
    let changes = |field, action, own_action| {
        request.values(field).next().is_none()
            || on_database(request, action)
            || is_own && on_database(request, own_action)
    };
    changes("pwd", Action::ChangePassword, Action::ChangeOwnPassword)
        && changes("mechanisms", Action::ChangePassword, Action::ChangeOwnPassword)
        && changes("customData", Action::ChangeCustomData, Action::ChangeOwnCustomData)
        && replaces_roles(request)
        && may_restrict(request)
}

fn replaces_roles(request: &AccessRequest<'_>) -> bool {
    request.values("roles").next().is_none()
        || revokes_anywhere(request) && may_with_roles(request, Action::GrantRole)
}

/// Whether roles of all databases may be revoked: a name that none has stands for any.
fn revokes_anywhere(request: &AccessRequest<'_>) -> bool {
    request.may(AccessTarget::Database(""), Action::RevokeRole)
}

/// `grantRolesToUser` and `grantRolesToRole`.
pub(super) fn grant_roles(request: &AccessRequest<'_>) -> bool {
    may_with_roles(request, Action::GrantRole)
}

/// `revokeRolesFromUser` and `revokeRolesFromRole`.
pub(super) fn revoke_roles(request: &AccessRequest<'_>) -> bool {
    may_with_roles(request, Action::RevokeRole)
}

/// `createRole`.
pub(super) fn create_role(request: &AccessRequest<'_>) -> bool {
    on_database(request, Action::CreateRole)
        && may_with_roles(request, Action::GrantRole)
        && may_with_privileges(request, Action::GrantRole)
        && may_restrict(request)
}

/// `updateRole`.
pub(super) fn update_role(request: &AccessRequest<'_>) -> bool {
    let replaces_privileges = request.values("privileges").next().is_some();
    replaces_roles(request)
        && (!replaces_privileges
            || revokes_anywhere(request) && may_with_privileges(request, Action::GrantRole))
        && may_restrict(request)
}

/// `grantPrivilegesToRole`.
pub(super) fn grant_privileges(request: &AccessRequest<'_>) -> bool {
    may_with_privileges(request, Action::GrantRole)
}

/// `revokePrivilegesFromRole`.
pub(super) fn revoke_privileges(request: &AccessRequest<'_>) -> bool {
    may_with_privileges(request, Action::RevokeRole)
}

/// `_mergeAuthzCollections`: whatever its collections say becomes a user or a role of any database.
pub(super) fn merge(request: &AccessRequest<'_>) -> bool {
    use Action::{CreateRole, CreateUser, DropRole, DropUser, GrantRole, RevokeRole};
    let everywhere = |action: &Action| request.may(AccessTarget::Database(""), *action);
    let may_read = |field: &'static str| {
        let mut named = request.values(field).filter_map(RawValue::as_str).filter(|name| !name.is_empty());
        named.all(|name| match name.split_once('.') {
            Some((database, name)) => request.may(AccessTarget::Collection(database, name), Action::Find),
            None => false,
        })
    };
    [CreateUser, CreateRole, GrantRole, RevokeRole].iter().all(everywhere)
        && (!request.is_set("drop") || [DropUser, DropRole].iter().all(everywhere))
        && may_read("tempUsersCollection")
        && may_read("tempRolesCollection")
}

/// `usersInfo`: everybody may look at themselves; others need `viewUser`.
pub(super) fn users_info(request: &AccessRequest<'_>) -> bool {
    let own = &request.user.name;
    let may_view = |database: &str| request.may(AccessTarget::Database(database), Action::ViewUser);
    let one = |value: RawValue<'_>| match value {
        RawValue::String(name) => {
            name == own.user && request.database == own.database || may_view(request.database)
        }
        RawValue::Document(named) => {
            let text = |name: &str| named.get(name).and_then(RawValue::as_str);
            match (text("user"), text("db")) {
                (Some(user), Some(database)) => {
                    user == own.user && database == own.database || may_view(database)
                }
                _ => request.may(AccessTarget::Cluster, Action::ViewUser),
            }
        }
        _ => may_view(request.database),
    };
    match request.command.first().map(|first| first.value()) {
        Some(RawValue::Array(list)) => list.iter().all(one),
        Some(value) => one(value),
        None => true,
    }
}

/// `rolesInfo`: everybody may look at the roles they have; others need `viewRole`.
pub(super) fn roles_info(request: &AccessRequest<'_>) -> bool {
    let may_view = |database: &str| request.may(AccessTarget::Database(database), Action::ViewRole);
    let one = |value: RawValue<'_>| match RoleName::parse(value, request.database) {
        Ok(role) => request.user.inherited.roles.contains(&role) || may_view(&role.database),
        Err(_) => may_view(request.database),
    };
    match request.command.first().map(|first| first.value()) {
        Some(RawValue::Array(list)) => list.iter().all(one),
        Some(value) => one(value),
        None => true,
    }
}

/// `currentOp`: everybody may see their own operations.
pub(super) fn current_op(request: &AccessRequest<'_>) -> bool {
    request.is_set("$ownOps") || request.may(AccessTarget::Cluster, Action::Inprog)
}

/// `listCollections`: by names alone, everybody may see those that they may do something with.
pub(super) fn list_collections(request: &AccessRequest<'_>) -> bool {
    let seen = request.is_set("nameOnly") && request.is_set("authorizedCollections");
    on_database(request, Action::ListCollections)
        || seen && request.user.privileges.allows_something_in(request.database)
}

/// `listDatabases`: everybody may see those that they may do something in, unless all are asked for.
pub(super) fn list_databases(request: &AccessRequest<'_>) -> bool {
    let mut said = request.values("authorizedDatabases").filter(|value| !value.is_nullish()).peekable();
    let wants_all = said.peek().is_some() && !said.any(super::is_true);
    !wants_all || request.may(AccessTarget::Cluster, Action::ListDatabases)
}

/// `profile`: to look at the level is to look into what it has recorded.
pub(super) fn profile(request: &AccessRequest<'_>) -> bool {
    let level = request.command.first().and_then(|first| first.value().as_i64_exact());
    let only_looks = level.is_some_and(|level| level < 0)
        && ["slowms", "sampleRate", "filter"].iter().all(|field| request.values(field).next().is_none());
    let recorded = AccessTarget::Collection(request.database, "system.profile");
    on_database(request, Action::EnableProfiler) || only_looks && request.may(recorded, Action::Find)
}
