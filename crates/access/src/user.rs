//! Users: documents of `admin.system.users`, and what a server keeps in memory of one.

use crate::AccessError;
use crate::action::Action;
use crate::limits::UserLimits;
use crate::member_keys::MemberUser;
use crate::names::{RoleName, UserName};
use crate::privileges::Privilege;
use crate::privileges::PrivilegeSet;
use crate::resource::{AccessTarget, ResourcePattern};
use crate::restriction::{LoginEnds, LoginRestriction, login_allowed};
use crate::role::{Inherited, RoleGraph};
use crate::scram::{Mechanism, ScramCredentials};
use document::{DocumentBuf, RawDocument, RawValue, Value, doc};
use std::sync::atomic::{AtomicU64, Ordering};

/// A user as the server knows it: what is stored, and what follows from its roles.
#[derive(Debug)]
pub struct AccessUser {
    /// Name and database.
    pub name: UserName,
    /// `userId`: tells a user from one that was made anew with the same name.
    pub id: Option<[u8; 16]>,
    /// What its sessions are told by: [`UserName::digest`].
    pub digest: [u8; 32],
    /// The document of `admin.system.users`.
    pub document: DocumentBuf,
    /// The roles that were granted to it.
    pub roles: Vec<RoleName>,
    /// What follows from them.
    pub inherited: Inherited,
    /// The same, to be asked.
    pub privileges: PrivilegeSet,
    /// What it may have at once: the smallest of its own limits and those of its roles.
    pub limits: UserLimits,
    restrictions: Vec<LoginRestriction>,
    credentials: UserCredentials,
    /// It is another member of the deployment, which is nowhere stored and never changes.
    is_member: bool,
    /// For which state of all users and roles this was read, or found to be so still.
    checked: AtomicU64,
}

/// What checks the passwords of one user, by mechanism.
#[derive(Debug, Clone, Default)]
pub struct UserCredentials(Vec<(Mechanism, ScramCredentials)>);

impl UserCredentials {
    /// As they are stored in a user's document. Nothing else of it is looked at: how long that takes depends
    /// on no role.
    pub fn stored(document: RawDocument<'_>) -> Self {
        let stored = document.get("credentials").and_then(RawValue::as_document);
        let of = |mechanism: &Mechanism| {
            let stored = stored?.get(mechanism.name())?.as_document()?;
            Some((*mechanism, ScramCredentials::parse(*mechanism, stored)?))
        };
        UserCredentials(Mechanism::ALL.iter().filter_map(of).collect())
    }

    /// The mechanisms that there are any by.
    pub fn mechanisms(&self) -> impl Iterator<Item = Mechanism> {
        self.0.iter().map(|(mechanism, _)| *mechanism)
    }

    /// What checks a password by this mechanism.
    pub fn of(&self, mechanism: Mechanism) -> Option<&ScramCredentials> {
        self.0.iter().find(|(known, _)| *known == mechanism).map(|(_, credentials)| credentials)
    }
}

impl AccessUser {
    /// Reads a stored document. `generation` is that of the users and roles it is of.
    ///
    /// # Errors
    /// What is no such document.
    pub fn new(document: RawDocument<'_>, roles: &RoleGraph, generation: u64) -> Result<Self, AccessError> {
        let text = |name: &str| document.get(name).and_then(RawValue::as_str);
        let (Some(user), Some(database)) = (text("user"), text("db")) else {
            return Err(AccessError::BadValue("a stored user has a user and a db".to_owned()));
        };
        let direct = RoleName::stored(document)?;
        let inherited = roles.inherited(&direct);
        let id = match document.get("userId") {
            Some(RawValue::Binary { bytes, .. }) => bytes.try_into().ok(),
            _ => None,
        };
        let name = UserName::new(user, database);
        Ok(AccessUser {
            digest: name.digest(),
            name,
            id,
            roles: direct,
            privileges: PrivilegeSet::new(&inherited.privileges),
            limits: UserLimits::stored(document)?.strictest(inherited.limits),
            inherited,
            restrictions: LoginRestriction::stored(document)?,
            credentials: UserCredentials::stored(document),
            is_member: false,
            document: document.to_buf(),
            checked: AtomicU64::new(generation),
        })
    }

    /// Who reaches a server from its own machine while nobody can log in: may make the first user, and begin
    /// a replica set.
    ///
    /// Source: MongoDB manual, "Localhost Exception".
    pub fn of_localhost_exception() -> Self {
        use ResourcePattern as On;
        let users = [Action::CreateUser, Action::GrantRole, Action::CreateRole];
        let set = [Action::AddShard, Action::ReplSetConfigure, Action::ReplSetGetStatus];
        let privileges = vec![
            Privilege::new(On::Database("admin".into()), &users),
            Privilege::new(On::Database("$external".into()), &users),
            Privilege::new(On::Cluster, &set),
        ];
        let name = UserName::new("", "");
        AccessUser {
            digest: name.digest(),
            name,
            id: None,
            document: DocumentBuf::default(),
            roles: Vec::new(),
            privileges: PrivilegeSet::new(&privileges),
            inherited: Inherited { privileges, ..Inherited::default() },
            limits: UserLimits::default(),
            restrictions: Vec::new(),
            credentials: UserCredentials::default(),
            is_member: false,
            checked: AtomicU64::new(0),
        }
    }

    /// Another member of the deployment, which may do anything; with what checks its password, if it has one.
    pub fn of_member(credentials: Option<&ScramCredentials>) -> Self {
        let name = MemberUser::name();
        let mut stored = doc! {
            "user": (name.user.as_str()), "db": (name.database.as_str()),
            "roles": [(RoleName::new("__system", "admin").to_document())],
        };
        if let Some(credentials) = credentials {
            let mechanism = MemberUser::MECHANISM.name();
            stored.push("credentials", doc! { (mechanism): (credentials.to_document()) });
        }
        let user = AccessUser::new(stored.to_buf().as_raw(), &RoleGraph::default(), 0);
        AccessUser { is_member: true, ..user.expect("a user of our own making") }
    }

    /// Whether it is another member of the deployment.
    #[inline]
    pub const fn is_member(&self) -> bool {
        self.is_member
    }

    /// What checks its passwords.
    pub const fn credentials(&self) -> &UserCredentials {
        &self.credentials
    }

    /// Whether it may log in by this connection: by its own restrictions and those of each of its roles.
    pub fn may_log_in(&self, ends: LoginEnds) -> bool {
        let lists = std::iter::once(&self.restrictions).chain(&self.inherited.restrictions);
        lists.into_iter().all(|list| login_allowed(list, ends))
    }

    /// Whether it may do this with that.
    #[inline]
    pub fn may(&self, target: AccessTarget<'_>, action: Action) -> bool {
        self.privileges.allows(target, action)
    }

    /// The restrictions of its own, as they are shown.
    pub fn restrictions_value(&self) -> Vec<Value> {
        crate::role::restrictions_value(&self.restrictions)
    }

    /// Whether it was read, or found unchanged, for this state of all users and roles.
    #[inline]
    pub fn is_of(&self, generation: u64) -> bool {
        self.is_member || self.checked.load(Ordering::Acquire) == generation
    }

    /// It was found unchanged.
    pub fn note_unchanged(&self, generation: u64) {
        self.checked.store(generation, Ordering::Release);
    }

    /// Whether another one says the same.
    pub fn is_same(&self, other: &AccessUser) -> bool {
        self.document == other.document && self.inherited == other.inherited
    }
}
