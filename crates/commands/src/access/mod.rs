//! Users and roles as they are stored, and what is kept of them in memory.
//!
//! ```text
//!   admin.system.users ──read──▶ AccessUser (kept by name, of a generation) ──▶ connections logged in
//!   admin.system.roles ──read──▶ RoleGraph (kept, of a generation) ──┘
//! ```
//! Whoever writes either raises the generation, and so does a member that has applied what another one has
//! logged. What is written otherwise (a tool writes the documents) is found because the generation is raised
//! now and then without a reason as well.

use crate::error::{CommandError, CommandResult};
use crate::server::DataNode;
use ::access::{AccessUser, RoleDefinition, RoleGraph, RoleName, UserCredentials, UserName};
use catalog::{Collection, EncodedRange};
use document::{DocumentBuf, RawDocument, RawValue};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use storage::{CursorOptions, Direction, PinnedBytes, ReadTier};

/// The database of users and roles.
pub(crate) const DATABASE: &str = "admin";
/// The collection of users.
pub(crate) const USERS: &str = "system.users";
/// The collection of roles.
pub(crate) const ROLES: &str = "system.roles";
/// The collection of facts of the deployment, which has the secret of unknown users' salts.
pub(crate) const VERSIONS: &str = "system.version";
/// The document of that secret.
pub(crate) const SECRET_ID: &str = "heddleLoginSecret";
/// Its bytes.
pub(crate) const SECRET_BYTES: usize = 32;

/// Users that are kept at most; beyond, all are forgotten.
const USERS_MAX: usize = 10_000;

/// What is kept in memory of users and roles.
#[derive(Debug)]
pub(crate) struct AccessCache {
    /// Of a member of a set, shared with who applies the log.
    generation: Arc<AtomicU64>,
    /// Guards the map only.
    users: Mutex<HashMap<UserName, Arc<AccessUser>>>,
    roles: Mutex<Option<(u64, Arc<RoleGraph>)>>,
    /// There has been a user since the start.
    has_users: AtomicBool,
    secret: OnceLock<Vec<u8>>,
    /// In the secret's place as long as there are no users.
    own_secret: [u8; SECRET_BYTES],
}

impl Default for AccessCache {
    fn default() -> Self {
        AccessCache {
            generation: Arc::new(AtomicU64::new(1)),
            users: Mutex::default(),
            roles: Mutex::default(),
            has_users: AtomicBool::new(false),
            secret: OnceLock::new(),
            own_secret: ambient::random_bytes(),
        }
    }
}

impl AccessCache {
    /// One whose generation others raise as well.
    pub(crate) fn of_generation(generation: Arc<AtomicU64>) -> Self {
        AccessCache { generation, ..AccessCache::default() }
    }

    /// For which state of users and roles what is kept of them is asked for.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A user or a role may have changed.
    pub(crate) fn note_change(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn known(&self, name: &UserName) -> Option<Arc<AccessUser>> {
        let user = self.users.lock().get(name).cloned()?;
        user.is_of(self.generation()).then_some(user)
    }

    /// Keeps a user that was read; one that says the same as before stays.
    fn keep(&self, user: AccessUser, generation: u64) -> Arc<AccessUser> {
        let mut users = self.users.lock();
        if let Some(known) = users.get(&user.name).filter(|known| known.is_same(&user)) {
            known.note_unchanged(generation);
            return Arc::clone(known);
        }
        if users.len() >= USERS_MAX {
            users.clear();
        }
        let user = Arc::new(user);
        users.insert(user.name.clone(), Arc::clone(&user));
        user
    }
}

impl DataNode {
    /// Something may have changed that nobody has told: what is kept of users and roles is asked for anew.
    pub fn look_at_access_again(&self) {
        self.access.note_change();
    }

    pub(crate) fn has_any_user(&self) -> bool {
        let access = &self.access;
        if access.has_users.load(Ordering::Relaxed) {
            return true;
        }
        let users = self.catalog.collection(DATABASE, USERS);
        let found = users.is_some_and(|users| users.document_count() > 0);
        if found {
            access.has_users.store(true, Ordering::Relaxed);
        }
        found
    }

    fn stored_user_document(&self, name: &UserName) -> CommandResult<Option<PinnedBytes>> {
        let Some(users) = self.catalog.collection(DATABASE, USERS) else { return Ok(None) };
        Ok(users.get(self.newest.view(), RawValue::String(&name.id()), ReadTier::Any)?)
    }

    /// What checks the passwords of a user as it is stored now. May block.
    pub(crate) fn stored_credentials(&self, name: &UserName) -> CommandResult<Option<UserCredentials>> {
        let found = self.stored_user_document(name)?;
        Ok(found.map(|bytes| UserCredentials::stored(RawDocument::trusted(&bytes))))
    }

    /// A user as it is stored now. May block.
    pub(crate) fn stored_user(&self, name: &UserName) -> CommandResult<Option<Arc<AccessUser>>> {
        // Before anything is read: what changes meanwhile is read once more.
        let generation = self.access.generation();
        let roles = self.role_graph()?;
        let Some(bytes) = self.stored_user_document(name)? else { return Ok(None) };
        let user = AccessUser::new(RawDocument::trusted(&bytes), &roles, generation).map_err(damaged)?;
        // `a.b` of `c` and `b` of `c.a` would share an `_id`, if databases could have dots.
        Ok((user.name == *name).then(|| self.access.keep(user, generation)))
    }

    /// All roles that somebody made. May block.
    pub(crate) fn role_graph(&self) -> CommandResult<Arc<RoleGraph>> {
        let generation = self.access.generation();
        if let Some((_, roles)) = self.access.roles.lock().as_ref().filter(|(of, _)| *of == generation) {
            return Ok(Arc::clone(roles));
        }
        let mut roles = Vec::new();
        for document in self.all_documents((DATABASE, ROLES))? {
            roles.push(RoleDefinition::parse(document.as_raw()).map_err(damaged)?);
        }
        let roles = Arc::new(RoleGraph::new(roles));
        *self.access.roles.lock() = Some((generation, Arc::clone(&roles)));
        Ok(roles)
    }

    /// All users, by the order of their `_id`. May block.
    pub(crate) fn all_users(&self) -> CommandResult<Vec<AccessUser>> {
        let (generation, roles) = (self.access.generation(), self.role_graph()?);
        let documents = self.all_documents((DATABASE, USERS))?;
        let users = documents.iter().map(|document| AccessUser::new(document.as_raw(), &roles, generation));
        users.collect::<Result<_, _>>().map_err(damaged)
    }

    /// What a collection of users or roles has. May block.
    pub(crate) fn all_documents(&self, (database, name): (&str, &str)) -> CommandResult<Vec<DocumentBuf>> {
        let Some(collection) = self.catalog.collection(database, name) else { return Ok(Vec::new()) };
        let range = EncodedRange { lower: None, upper: None };
        let view = self.newest.view();
        let mut cursor = collection.documents(view, range, Direction::Forward, CursorOptions::default())?;
        let mut documents = Vec::new();
        while let Some((_, document)) = cursor.next()? {
            documents.push(document.to_buf());
        }
        Ok(documents)
    }

    /// What unknown users get their salts from. May block.
    pub(crate) fn stored_secret(&self) -> CommandResult<Vec<u8>> {
        if let Some(secret) = self.access.secret.get() {
            return Ok(secret.clone());
        }
        let stored = match self.catalog.collection(DATABASE, VERSIONS) {
            Some(versions) => versions.get(self.newest.view(), RawValue::String(SECRET_ID), ReadTier::Any)?,
            None => None,
        };
        let stored = stored.as_deref().and_then(|bytes| match RawDocument::trusted(bytes).get("secret") {
            Some(RawValue::Binary { bytes, .. }) => Some(bytes.to_vec()),
            _ => None,
        });
        Ok(match stored {
            Some(stored) => self.access.secret.get_or_init(|| stored).clone(),
            None => self.access.own_secret.to_vec(),
        })
    }

    /// The secret that is to be stored with the first user.
    pub(crate) fn own_secret(&self) -> &[u8] {
        &self.access.own_secret
    }
}

/// The key of a user's or role's document.
pub(crate) fn key(id: &str) -> Vec<u8> {
    Collection::document_key_of_id(RawValue::String(id))
}

/// A stored user or role that is none.
fn damaged(error: ::access::AccessError) -> CommandError {
    CommandError::new(wire::ErrorCode::UnsupportedFormat as i32, error.to_string())
}

/// The error of a user or role that cannot be.
pub(crate) fn refused(error: ::access::AccessError) -> CommandError {
    let code = match error {
        ::access::AccessError::BadValue(_) => wire::ErrorCode::BadValue,
        ::access::AccessError::InvalidRoleModification(_) => wire::ErrorCode::InvalidRoleModification,
    };
    CommandError::new(code as i32, error.to_string())
}

/// Fails unless there are all these roles.
pub(crate) fn check_roles(node: &DataNode, roles: &[RoleName]) -> CommandResult {
    let graph = node.role_graph()?;
    match roles.iter().find(|role| !graph.has(role)) {
        None => Ok(()),
        Some(role) => Err(role_not_found(role)),
    }
}

pub(crate) fn role_not_found(role: &RoleName) -> CommandError {
    CommandError::new(wire::ErrorCode::RoleNotFound as i32, format!("Could not find role: {role}"))
}
