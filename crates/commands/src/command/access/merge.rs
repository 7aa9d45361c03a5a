//! `_mergeAuthzCollections`: takes over the users and roles that mongorestore has put into collections of its
//! own.
//!
//! Without `drop` those that are there already stay as they are. With it they are replaced, and in the end
//! those go that were not brought: at no time there is nobody who can log in. One that cannot be stored is
//! told in the log, and the others are taken over all the same.
//!
//! Source: MongoDB 7.0, `user_management_commands.cpp`; mongorestore.

use super::{change, store, users};
use crate::access::{ROLES, USERS};
use crate::command::{Command, Run};
use crate::context::CommandContext;
use crate::error::{CommandError, CommandResult};
use access::{AccessError, AccessUser, RoleDefinition, RoleGraph, is_builtin};
use dispatch::audit::AuditEvent;
use document::{Document, RawDocument, RawValue, Value, doc};
use hashbrown::HashMap;

pub(crate) static COMMAND: Command = Command {
    admin_only: true,
    has_secrets: false,
    ..change(
        "_mergeAuthzCollections",
        "Takes over the users and roles that mongorestore has brought.",
        Run::Later(|context, _| Box::pin(merge(context))),
    )
};

/// What is taken over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Users,
    Roles,
}

/// A user or a role that is to be stored.
struct Incoming {
    id: String,
    name: String,
    database: String,
    document: Document,
}

impl Kind {
    /// The collection that it goes to.
    const fn collection(self) -> &'static str {
        match self {
            Kind::Users => USERS,
            Kind::Roles => ROLES,
        }
    }

    /// What a document of it is called by.
    const fn field(self) -> &'static str {
        match self {
            Kind::Users => "user",
            Kind::Roles => "role",
        }
    }

    /// Reads a document that was brought.
    fn read(self, brought: RawDocument<'_>) -> Result<Incoming, AccessError> {
        match self {
            Kind::Users => {
                let user = AccessUser::new(brought, &RoleGraph::default(), 0)?;
                let mut document = brought.to_document();
                document.insert("_id", user.name.id());
                if user.id.is_none() {
                    document.insert("userId", Value::binary(4, ambient::uuid().into_bytes().to_vec()));
                }
                Ok(Incoming {
                    id: user.name.id(),
                    name: user.name.user,
                    database: user.name.database,
                    document,
                })
            }
            Kind::Roles => {
                let role = RoleDefinition::parse(brought)?;
                if is_builtin(&role.name) {
                    let message = format!("{} is a built-in role", role.name);
                    return Err(AccessError::InvalidRoleModification(message));
                }
                let document = role.to_document();
                Ok(Incoming {
                    id: role.name.id(),
                    name: role.name.role,
                    database: role.name.database,
                    document,
                })
            }
        }
    }

    /// One of those that were brought is not taken over.
    fn tell(self, name: &str, updates: bool, error: &str) {
        match (self, updates) {
            (Kind::Users, true) => tracing::warn!(target: "ACCESS", id = 20_510, user = name, error,
                "Could not update user during _mergeAuthzCollections command"),
            (Kind::Users, false) => tracing::warn!(target: "ACCESS", id = 20_511, user = name, error,
                "Could not insert user during _mergeAuthzCollections command"),
            (Kind::Roles, true) => tracing::warn!(target: "ACCESS", id = 20_512, role = name, error,
                "Could not update role during _mergeAuthzCollections command"),
            (Kind::Roles, false) => tracing::warn!(target: "ACCESS", id = 20_513, role = name, error,
                "Could not insert role during _mergeAuthzCollections command"),
        }
    }

    /// What the audit log calls it.
    const fn event(self, is_there: bool, stays: bool) -> &'static str {
        match (self, is_there, stays) {
            (Kind::Users, false, _) => "createUser",
            (Kind::Users, true, true) => "updateUser",
            (Kind::Users, true, false) => "dropUser",
            (Kind::Roles, false, _) => "createRole",
            (Kind::Roles, true, true) => "updateRole",
            (Kind::Roles, true, false) => "dropRole",
        }
    }
}

async fn merge(context: &mut CommandContext<'_>) -> CommandResult {
    let fields = &mut context.fields;
    let users_from = fields.string("tempUsersCollection")?.unwrap_or_default();
    let roles_from = fields.string("tempRolesCollection")?.unwrap_or_default();
    let database = fields.string("db")?.ok_or_else(|| fields.missing("db"))?;
    let drops = fields.flexible_boolean("drop")?.unwrap_or(false);
    fields.finish()?;
    if users_from.is_empty() && roles_from.is_empty() {
        return Err(CommandError::bad_value(
            "Must provide at least one of \"tempUsersCollection\" and \"tempRolescollection\"",
        ));
    }
    if !users_from.is_empty() {
        users::keep_secret(context).await?;
        take_over(context, (Kind::Users, users_from), database, drops).await?;
    }
    if !roles_from.is_empty() {
        take_over(context, (Kind::Roles, roles_from), database, drops).await?;
    }
    Ok(())
}

/// Takes over those of one database, or of all if that is empty.
async fn take_over(
    context: &CommandContext<'_>,
    (kind, from): (Kind, &str),
    database: &str,
    drops: bool,
) -> CommandResult {
    let node = &context.server.node;
    let is_meant = |of: &str| database.is_empty() || of == database;
    // By their `_id`: those that are there, of which none is left that was brought.
    let mut left = HashMap::new();
    for stored in node.all_documents((crate::access::DATABASE, kind.collection()))? {
        if let Ok(stored) = kind.read(stored.as_raw())
            && drops
            && is_meant(&stored.database)
        {
            left.insert(stored.id, (stored.name, stored.database));
        }
    }
    let Some(from) = from.split_once('.') else {
        return Err(CommandError::bad_value(format!("'{from}' is no name of a collection")));
    };
    for brought in node.all_documents(from)? {
        context.interrupt().check()?;
        let incoming = match kind.read(brought.as_raw()) {
            Ok(incoming) => incoming,
            Err(error) => {
                let name = brought.as_raw().get(kind.field()).and_then(RawValue::as_str);
                kind.tell(name.unwrap_or_default(), false, &error.to_string());
                continue;
            }
        };
        if !is_meant(&incoming.database) {
            continue;
        }
        let updates = left.remove(&incoming.id).is_some();
        let shown = format!("{}@{}", incoming.name, incoming.database);
        match put(context, kind, &incoming, updates).await? {
            true => audit(context, kind, &incoming, updates).await,
            false => kind.tell(&shown, updates, "it exists already"),
        }
    }
    for (id, (name, database)) in left {
        context.interrupt().check()?;
        store(context, kind.collection(), &id, |_| Ok(None)).await?;
        let event = kind.event(true, false);
        context.audit(|| AuditEvent::new(event, doc! { (kind.field()): name, "db": database })).await;
    }
    Ok(())
}

/// Stores one. False: it is there, and is not to be replaced.
async fn put(
    context: &CommandContext<'_>,
    kind: Kind,
    incoming: &Incoming,
    updates: bool,
) -> CommandResult<bool> {
    let mut is_stored = true;
    store(context, kind.collection(), &incoming.id, |found| {
        let kept = found.filter(|_| !updates);
        is_stored = kept.is_none();
        Ok(Some(kept.map_or_else(|| incoming.document.clone(), RawDocument::to_document)))
    })
    .await?;
    Ok(is_stored)
}

/// Without what passwords are checked with.
async fn audit(context: &CommandContext<'_>, kind: Kind, incoming: &Incoming, updates: bool) {
    let event = || {
        let mut param = doc! { (kind.field()): (incoming.name.as_str()), "db": (incoming.database.as_str()) };
        for name in ["customData", "roles", "privileges", "authenticationRestrictions"] {
            if let Some(value) = incoming.document.get(name) {
                param.push(name, value.clone());
            }
        }
        AuditEvent::new(kind.event(updates, true), param)
    };
    context.audit(event).await;
}
