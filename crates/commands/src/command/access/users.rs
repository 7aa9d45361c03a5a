//! `createUser`, `updateUser`, `dropUser`, `dropAllUsersFromDatabase`, `grantRolesToUser` and
//! `revokeRolesFromUser`.

use super::credentials::Password;
use super::{change, need_roles, store, take_limits, take_roles, target};
use crate::access::{SECRET_ID, USERS, VERSIONS, check_roles, refused};
use crate::command::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use access::{LoginRestriction, Mechanism, RoleName, UserLimits, UserName};
use document::{Document, DocumentBuilder, RawDocument, RawValue, Value, doc};
use wire::ErrorCode;

pub(crate) static CREATE: Command =
    change("createUser", "Makes a user.", Run::Later(|context, _| Box::pin(create(context))));
pub(crate) static UPDATE: Command =
    change("updateUser", "Changes a user.", Run::Later(|context, _| Box::pin(update(context))));
pub(crate) static DROP: Command =
    change("dropUser", "Removes a user.", Run::Later(|context, _| Box::pin(drop_one(context))));
pub(crate) static DROP_ALL: Command = change(
    "dropAllUsersFromDatabase",
    "Removes the users of a database.",
    Run::Later(|context, reply| Box::pin(drop_all(context, reply))),
);
pub(crate) static GRANT: Command =
    change("grantRolesToUser", "Gives a user more roles.", Run::Later(|context, _| Box::pin(grant(context))));
pub(crate) static REVOKE: Command = change(
    "revokeRolesFromUser",
    "Takes roles from a user.",
    Run::Later(|context, _| Box::pin(revoke(context))),
);

/// The database of users whose passwords are kept elsewhere.
const EXTERNAL: &str = "$external";

fn already_exists(name: &UserName) -> CommandError {
    const USER_EXISTS: i32 = 51_003;
    CommandError::new(USER_EXISTS, format!("User \"{name}\" already exists"))
}

fn not_found(name: &UserName) -> CommandError {
    CommandError::new(ErrorCode::UserNotFound as i32, format!("User '{name}' not found"))
}

fn name(context: &CommandContext<'_>) -> CommandResult<UserName> {
    Ok(UserName::new(target(context)?, context.database))
}

/// What `createUser` and `updateUser` say beside the name and the password.
struct Options<'a> {
    custom_data: Option<RawDocument<'a>>,
    roles: Option<Vec<RoleName>>,
    restrictions: Option<Vec<LoginRestriction>>,
    limits: Option<UserLimits>,
}

impl<'a> Options<'a> {
    fn take(context: &mut CommandContext<'a>) -> CommandResult<Self> {
        let custom_data = context.fields.document("customData")?;
        let roles = take_roles(context)?;
        let restrictions = context.fields.array("authenticationRestrictions")?;
        let restrictions = restrictions.map(LoginRestriction::parse_list).transpose().map_err(refused)?;
        let limits = take_limits(context)?;
        context.fields.finish()?;
        Ok(Options { custom_data, roles, restrictions, limits })
    }

    fn is_empty(&self) -> bool {
        let (data, roles) = (&self.custom_data, &self.roles);
        data.is_none() && roles.is_none() && self.restrictions.is_none() && self.limits.is_none()
    }

    /// Puts them into a user's document.
    fn apply(&self, user: &mut Document) {
        if let Some(data) = self.custom_data {
            user.insert("customData", data.to_document());
        }
        if let Some(roles) = &self.roles {
            user.insert("roles", roles_value(roles));
        }
        if let Some(restrictions) = &self.restrictions {
            let restrictions: Vec<Value> =
                restrictions.iter().map(|restriction| restriction.to_document().into()).collect();
            user.insert("authenticationRestrictions", restrictions);
        }
        match self.limits {
            Some(limits) if limits.is_empty() => drop(user.remove("limits")),
            Some(limits) => drop(user.insert("limits", limits.to_document())),
            None => {}
        }
    }
}

fn roles_value(roles: &[RoleName]) -> Vec<Value> {
    roles.iter().map(|role| role.to_document().into()).collect()
}

async fn create(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let password = Password::take(context)?;
    let options = Options::take(context)?;
    if options.roles.is_none() {
        return Err(context.fields.missing("roles"));
    }
    check_kind(&name, &password)?;
    check_roles(&context.server.node, options.roles.as_deref().unwrap_or_default())?;
    let users = context.server.node.catalog.collection(crate::access::DATABASE, USERS);
    if users.is_some() && context.server.node.stored_user(&name)?.is_some() {
        return Err(already_exists(&name));
    }
    let mut credentials = password.credentials(context, &name.user)?;
    if name.database == EXTERNAL {
        credentials.push("external", true);
    }
    keep_secret(context).await?;
    let mut user = doc! {
        "_id": (name.id()), "userId": (Value::binary(4, ambient::uuid().into_bytes().to_vec())),
        "user": (name.user.as_str()), "db": (name.database.as_str()), "credentials": credentials,
    };
    options.apply(&mut user);
    store(context, USERS, &name.id(), |found| match found {
        Some(_) => Err(already_exists(&name)),
        None => Ok(Some(user)),
    })
    .await?;
    tracing::info!(target: "ACCESS", id = 5_286_100, ctx = %context.client.description(), user = %name,
        "User created");
    Ok(())
}

fn check_kind(name: &UserName, password: &Password) -> CommandResult {
    if name.database == "local" {
        return Err(CommandError::bad_value("Cannot create users in the local database"));
    }
    match (name.database == EXTERNAL, password.is_given()) {
        (true, true) => Err(CommandError::bad_value(
            "Cannot set the password for users defined on the '$external' database",
        )),
        (false, false) => Err(CommandError::bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's \
             source db",
        )),
        _ => Ok(()),
    }
}

/// From the first user on, unknown ones have the same salts on every member.
pub(super) async fn keep_secret(context: &CommandContext<'_>) -> CommandResult {
    let secret = Value::binary(0, context.server.node.own_secret().to_vec());
    let document = doc! { "_id": SECRET_ID, "secret": secret };
    store(context, VERSIONS, SECRET_ID, |found| Ok(Some(found.map_or(document, RawDocument::to_document))))
        .await
}

async fn update(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let password = Password::take(context)?;
    let options = Options::take(context)?;
    if options.is_empty() && !password.is_given() && password.mechanisms().is_none() {
        return Err(CommandError::bad_value("Must specify at least one field to update in updateUser"));
    }
    if name.database == EXTERNAL && password.is_given() {
        return Err(CommandError::bad_value(
            "Cannot set the password for users defined on the '$external' database",
        ));
    }
    check_roles(&context.server.node, options.roles.as_deref().unwrap_or_default())?;
    let credentials = match password.is_given() {
        true => Some(password.credentials(context, &name.user)?),
        false => None,
    };
    store(context, USERS, &name.id(), |found| {
        let mut user = found.ok_or_else(|| not_found(&name))?.to_document();
        if let Some(credentials) = credentials {
            user.insert("credentials", credentials);
        } else if let Some(chosen) = password.mechanisms() {
            keep_mechanisms(&mut user, chosen)?;
        }
        options.apply(&mut user);
        Ok(Some(user))
    })
    .await
}

/// Without a new password, mechanisms can only go.
fn keep_mechanisms(user: &mut Document, chosen: &[Mechanism]) -> CommandResult {
    let Some(Value::Document(credentials)) = user.get_mut("credentials") else { return Ok(()) };
    if chosen.iter().any(|mechanism| !credentials.contains(mechanism.name())) {
        return Err(CommandError::bad_value("mechanisms must be a subset of previously set mechanisms"));
    }
    for mechanism in Mechanism::ALL.iter().filter(|mechanism| !chosen.contains(mechanism)) {
        credentials.remove(mechanism.name());
    }
    Ok(())
}

async fn drop_one(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    context.fields.finish()?;
    store(context, USERS, &name.id(), |found| found.map(|_| None).ok_or_else(|| not_found(&name))).await
}

async fn drop_all(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    context.fields.finish()?;
    let mut dropped = 0;
    for user in context.server.node.all_users()? {
        if user.name.database == context.database {
            context.interrupt().check()?;
            store(context, USERS, &user.name.id(), |_| Ok(None)).await?;
            dropped += 1;
        }
    }
    reply.append("n", dropped);
    Ok(())
}

/// Changes the roles of a user.
async fn change_roles(
    context: &CommandContext<'_>,
    name: &UserName,
    change: impl FnOnce(&mut Vec<RoleName>),
) -> CommandResult {
    store(context, USERS, &name.id(), |found| {
        let found = found.ok_or_else(|| not_found(name))?;
        let mut roles = match found.get("roles") {
            Some(RawValue::Array(list)) => RoleName::parse_list(list, "").map_err(refused)?,
            _ => Vec::new(),
        };
        change(&mut roles);
        let mut user = found.to_document();
        user.insert("roles", roles_value(&roles));
        Ok(Some(user))
    })
    .await
}

async fn grant(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let more = need_roles(context)?;
    context.fields.finish()?;
    check_roles(&context.server.node, &more)?;
    let add = |roles: &mut Vec<RoleName>| {
        for role in more {
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
    };
    change_roles(context, &name, add).await
}

async fn revoke(context: &mut CommandContext<'_>) -> CommandResult {
    let name = name(context)?;
    let less = need_roles(context)?;
    context.fields.finish()?;
    check_roles(&context.server.node, &less)?;
    change_roles(context, &name, |roles| roles.retain(|role| !less.contains(role))).await
}

/// Takes a role that is to go from all users.
pub(super) async fn forget_role(context: &CommandContext<'_>, gone: &RoleName) -> CommandResult {
    for user in context.server.node.all_users()? {
        if user.roles.contains(gone) {
            context.interrupt().check()?;
            change_roles(context, &user.name, |roles| roles.retain(|role| role != gone)).await?;
        }
    }
    Ok(())
}
