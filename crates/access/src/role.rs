//! User-defined roles, and what follows from having roles.

use crate::AccessError;
use crate::builtin::{builtin_privileges, is_builtin};
use crate::limits::UserLimits;
use crate::names::RoleName;
use crate::privileges::{Privilege, add_privilege};
use crate::restriction::LoginRestriction;
use document::{Document, RawDocument, RawValue, Value, doc};
use hashbrown::HashMap;

/// A role that somebody made: a document of `admin.system.roles`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleDefinition {
    /// What it is called.
    pub name: RoleName,
    /// Its own privileges.
    pub privileges: Vec<Privilege>,
    /// The roles that it inherits from.
    pub roles: Vec<RoleName>,
    /// From where who has it may log in.
    pub restrictions: Vec<LoginRestriction>,
    /// What who has it may have at once.
    pub limits: UserLimits,
}

impl RoleDefinition {
    /// Reads a stored document.
    ///
    /// # Errors
    /// What is no such document.
    pub fn parse(document: RawDocument<'_>) -> Result<Self, AccessError> {
        let text = |name: &str| document.get(name).and_then(RawValue::as_str);
        let (Some(role), Some(database)) = (text("role"), text("db")) else {
            return Err(AccessError::BadValue("a stored role has a role and a db".to_owned()));
        };
        let privileges = match document.get("privileges") {
            Some(RawValue::Array(list)) => Privilege::parse_list(list)?,
            _ => Vec::new(),
        };
        Ok(RoleDefinition {
            name: RoleName::new(role, database),
            privileges,
            roles: RoleName::stored(document)?,
            restrictions: LoginRestriction::stored(document)?,
            limits: UserLimits::stored(document)?,
        })
    }

    /// As it is stored.
    pub fn to_document(&self) -> Document {
        let privileges: Vec<Value> =
            self.privileges.iter().map(|privilege| privilege.to_document().into()).collect();
        let roles: Vec<Value> = self.roles.iter().map(|role| role.to_document().into()).collect();
        let mut document = doc! {
            "_id": (self.name.id()), "role": (self.name.role.as_str()), "db": (self.name.database.as_str()),
            "privileges": privileges, "roles": roles,
        };
        if !self.restrictions.is_empty() {
            document.push("authenticationRestrictions", restrictions_value(&self.restrictions));
        }
        if !self.limits.is_empty() {
            document.push("limits", self.limits.to_document());
        }
        document
    }
}

/// Restrictions as they are stored and shown.
pub(crate) fn restrictions_value(restrictions: &[LoginRestriction]) -> Vec<Value> {
    restrictions.iter().map(|restriction| restriction.to_document().into()).collect()
}

/// All roles that somebody made.
#[derive(Debug, Clone, Default)]
pub struct RoleGraph {
    roles: HashMap<RoleName, RoleDefinition>,
}

/// What follows from having some roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inherited {
    /// These roles and those that they inherit from, each once.
    pub roles: Vec<RoleName>,
    /// The privileges of all of them, one for each resource.
    pub privileges: Vec<Privilege>,
    /// For each role that has any, the restrictions of logging in: one of each list has to be met.
    pub restrictions: Vec<Vec<LoginRestriction>>,
    /// The smallest limits of all of them.
    pub limits: UserLimits,
}

impl RoleGraph {
    /// These roles.
    pub fn new(roles: impl IntoIterator<Item = RoleDefinition>) -> Self {
        RoleGraph { roles: roles.into_iter().map(|role| (role.name.clone(), role)).collect() }
    }

    /// A role that somebody made.
    pub fn get(&self, name: &RoleName) -> Option<&RoleDefinition> {
        self.roles.get(name)
    }

    /// Whether there is such a role, built in or made.
    pub fn has(&self, name: &RoleName) -> bool {
        is_builtin(name) || self.roles.contains_key(name)
    }

    /// The roles that somebody made in a database, by name.
    pub fn of_database(&self, database: &str) -> Vec<&RoleDefinition> {
        let mut found: Vec<_> = self.roles.values().filter(|role| role.name.database == database).collect();
        found.sort_by(|first, second| first.name.cmp(&second.name));
        found
    }

    /// The roles that inherit from this one directly.
    pub fn heirs(&self, name: &RoleName) -> Vec<&RoleName> {
        let heirs = self.roles.values().filter(|role| role.roles.contains(name));
        let mut heirs: Vec<_> = heirs.map(|role| &role.name).collect();
        heirs.sort();
        heirs
    }

    /// What follows from having these roles. Those that do not exist give nothing.
    pub fn inherited(&self, direct: &[RoleName]) -> Inherited {
        let mut inherited = Inherited::default();
        let mut open: Vec<RoleName> = direct.iter().rev().cloned().collect();
        let mut seen = hashbrown::HashSet::new();
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            if let Some(privileges) = builtin_privileges(&name) {
                privileges.iter().for_each(|more| add_privilege(&mut inherited.privileges, more));
            } else if let Some(role) = self.roles.get(&name) {
                role.privileges.iter().for_each(|more| add_privilege(&mut inherited.privileges, more));
                if !role.restrictions.is_empty() {
                    inherited.restrictions.push(role.restrictions.clone());
                }
                inherited.limits = inherited.limits.strictest(role.limits);
                open.extend(role.roles.iter().rev().cloned());
            }
            inherited.roles.push(name);
        }
        inherited
    }

    /// Whether having `from` means to have `to`: granting `from` to `to` would close a circle.
    pub fn reaches(&self, from: &RoleName, to: &RoleName) -> bool {
        self.inherited(std::slice::from_ref(from)).roles.contains(to)
    }
}

/// Checks what a role of this database is given: only roles of `admin` reach beyond their own database.
///
/// # Errors
/// Privileges or roles of other databases.
pub fn check_reach(database: &str, privileges: &[Privilege], roles: &[RoleName]) -> Result<(), AccessError> {
    if database == "admin" {
        return Ok(());
    }
    if let Some(role) = roles.iter().find(|role| role.database != database) {
        return Err(AccessError::InvalidRoleModification(format!(
            "Roles on the '{database}' database cannot be granted roles from other databases: {role}"
        )));
    }
    match privileges.iter().all(|privilege| privilege.resource.database() == Some(database)) {
        true => Ok(()),
        false => Err(AccessError::InvalidRoleModification(format!(
            "Roles on the '{database}' database cannot be granted privileges that target other databases or \
             the cluster"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::privileges::PrivilegeSet;
    use crate::resource::{AccessTarget, ResourcePattern};

    fn role(name: &str, roles: &[&str]) -> RoleDefinition {
        RoleDefinition {
            name: RoleName::new(name, "admin"),
            privileges: vec![Privilege::new(ResourcePattern::Database(name.into()), &[Action::Find])],
            roles: roles.iter().map(|role| RoleName::new(*role, "admin")).collect(),
            restrictions: Vec::new(),
            limits: UserLimits::default(),
        }
    }

    #[test]
    fn what_is_inherited_is_found_once_even_in_a_circle() {
        let graph = RoleGraph::new([role("a", &["b", "c"]), role("b", &["c"]), role("c", &["a", "gone"])]);
        let inherited = graph.inherited(&[RoleName::new("a", "admin")]);
        let names: Vec<_> = inherited.roles.iter().map(|role| role.role.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "gone"]);
        let set = PrivilegeSet::new(&inherited.privileges);
        for database in ["a", "b", "c"] {
            assert!(set.allows(AccessTarget::Collection(database, "x"), Action::Find), "{database}");
        }
        assert!(!set.allows(AccessTarget::Collection("gone", "x"), Action::Find));
        assert!(graph.reaches(&RoleName::new("b", "admin"), &RoleName::new("a", "admin")));
        assert!(!graph.reaches(&RoleName::new("gone", "admin"), &RoleName::new("a", "admin")));
    }

    #[test]
    fn stored_roles_are_read_as_they_were_written() {
        let mut written = role("a", &["b", "readWrite"]);
        written.privileges.push(Privilege::new(ResourcePattern::Cluster, &[Action::Shutdown, Action::Top]));
        written.limits.operations = Some(7);
        let stored = written.to_document().to_buf();
        assert_eq!(RoleDefinition::parse(stored.as_raw()), Ok(written));
    }

    #[test]
    fn only_roles_of_admin_reach_beyond_their_database() {
        let own = Privilege::new(ResourcePattern::Collection("a".into(), "c".into()), &[Action::Find]);
        let cluster = Privilege::new(ResourcePattern::Cluster, &[Action::Top]);
        let (here, there) = (RoleName::new("r", "a"), RoleName::new("r", "b"));
        assert_eq!(check_reach("a", &[own], &[here]), Ok(()));
        assert!(check_reach("a", std::slice::from_ref(&cluster), &[]).is_err());
        assert!(check_reach("a", &[], std::slice::from_ref(&there)).is_err());
        assert_eq!(check_reach("admin", &[cluster], &[there]), Ok(()));
    }
}
