//! Privileges: what may be done with what.

use crate::AccessError;
use crate::action::{Action, ActionSet};
use crate::resource::{AccessTarget, ResourcePattern};
use document::{Document, RawArray, RawDocument, RawValue, Value, doc};
use hashbrown::HashMap;

/// Actions on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privilege {
    /// With what.
    pub resource: ResourcePattern,
    /// What may be done.
    pub actions: ActionSet,
}

impl Privilege {
    /// These actions on this resource.
    pub fn new(resource: ResourcePattern, actions: &[Action]) -> Self {
        Privilege { resource, actions: ActionSet::of(actions) }
    }

    /// Reads `{resource, actions}`.
    ///
    /// # Errors
    /// What is no privilege; an action that does not exist.
    pub fn parse(privilege: RawDocument<'_>) -> Result<Self, AccessError> {
        let missing = |field: &str| AccessError::BadValue(format!("missing field: {field} in a privilege"));
        let resource = privilege.get("resource").and_then(RawValue::as_document);
        let resource = ResourcePattern::parse(resource.ok_or_else(|| missing("resource"))?)?;
        let named = privilege.get("actions").and_then(RawValue::as_array);
        let mut actions = ActionSet::NONE;
        for name in named.ok_or_else(|| missing("actions"))?.iter() {
            let name = name.as_str().unwrap_or_default();
            match Action::by_name(name) {
                Some(action) => actions.add(action),
                None => {
                    return Err(AccessError::BadValue(format!(
                        "Unrecognized action privilege string: {name}"
                    )));
                }
            }
        }
        Ok(Privilege { resource, actions })
    }

    /// Reads a list of them.
    ///
    /// # Errors
    /// As [`Privilege::parse`].
    pub fn parse_list(list: RawArray<'_>) -> Result<Vec<Self>, AccessError> {
        let document = |value: RawValue<'_>| match value {
            RawValue::Document(privilege) => Privilege::parse(privilege),
            _ => Err(AccessError::BadValue("a privilege has to be an object".to_owned())),
        };
        list.iter().map(document).collect()
    }

    /// `{resource, actions}`.
    pub fn to_document(&self) -> Document {
        let actions: Vec<Value> = self.actions.iter().map(|action| Value::from(action.name())).collect();
        doc! { "resource": (self.resource.to_document()), "actions": actions }
    }
}

/// Adds a privilege to others, one for each resource.
pub fn add_privilege(privileges: &mut Vec<Privilege>, more: &Privilege) {
    match privileges.iter_mut().find(|known| known.resource == more.resource) {
        Some(known) => known.actions.add_all(more.actions),
        None => privileges.push(more.clone()),
    }
}

/// All privileges of a user, to be asked.
#[derive(Debug, Clone, Default)]
pub struct PrivilegeSet {
    any_resource: ActionSet,
    cluster: ActionSet,
    any_normal: ActionSet,
    databases: HashMap<String, ActionSet>,
    collection_names: HashMap<String, ActionSet>,
    collections: HashMap<String, HashMap<String, ActionSet>>,
}

impl PrivilegeSet {
    /// These privileges.
    pub fn new(privileges: &[Privilege]) -> Self {
        let mut set = PrivilegeSet::default();
        for Privilege { resource, actions } in privileges {
            let place = match resource {
                ResourcePattern::AnyResource => &mut set.any_resource,
                ResourcePattern::Cluster => &mut set.cluster,
                ResourcePattern::AnyNormal => &mut set.any_normal,
                ResourcePattern::Database(name) => set.databases.entry(name.clone()).or_default(),
                ResourcePattern::CollectionName(name) => {
                    set.collection_names.entry(name.clone()).or_default()
                }
                ResourcePattern::Collection(database, name) => {
                    let database = set.collections.entry(database.clone()).or_default();
                    database.entry(name.clone()).or_default()
                }
            };
            place.add_all(*actions);
        }
        set
    }

    /// Whether the action may be done with this.
    pub fn allows(&self, target: AccessTarget<'_>, action: Action) -> bool {
        self.any(target, |actions| actions.contains(action))
    }

    /// Whether anything at all may be done with this.
    pub fn allows_something(&self, target: AccessTarget<'_>) -> bool {
        self.any(target, |actions| !actions.is_empty())
    }

    /// Whether anything at all may be done with this database or something in it.
    pub fn allows_something_in(&self, database: &str) -> bool {
        self.allows_something(AccessTarget::Database(database))
            || self.collections.contains_key(database)
            || !self.collection_names.is_empty()
    }

    /// Whether this holds of any of the sets that are about the target; what needs no look-up is asked first.
    fn any(&self, target: AccessTarget<'_>, holds: impl Fn(ActionSet) -> bool) -> bool {
        let of = |known: Option<&ActionSet>| known.is_some_and(|actions| holds(*actions));
        // What the server keeps for itself is granted by name only.
        let of_database = |name: &str| {
            !matches!(name, "local" | "config") && holds(self.any_normal) || of(self.databases.get(name))
        };
        let of_target = || match target {
            AccessTarget::Anything => false,
            AccessTarget::Cluster => holds(self.cluster),
            AccessTarget::Database(name) => of_database(name),
            AccessTarget::Collection(database, name) => {
                is_normal(name) && of_database(database)
                    || of(self.collection_names.get(name))
                    || of(self.collections.get(database).and_then(|known| known.get(name)))
            }
        };
        holds(self.any_resource) || of_target()
    }
}

/// Whether privileges on a whole database are about a collection of this name.
fn is_normal(name: &str) -> bool {
    !name.starts_with("system.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resource: ResourcePattern, target: AccessTarget<'_>, expect: bool) {
        let set = PrivilegeSet::new(&[Privilege::new(resource.clone(), &[Action::Find])]);
        assert_eq!(set.allows(target, Action::Find), expect, "{resource:?} for {target:?}");
        assert!(!set.allows(target, Action::Insert), "{resource:?} gives nothing but find");
    }

    #[test]
    fn a_resource_reaches_as_far_as_the_manual_says() {
        use AccessTarget::{Cluster, Collection, Database};
        use ResourcePattern as Pattern;
        let normal = || Pattern::AnyNormal;
        check(normal(), Collection("a", "c"), true);
        check(normal(), Database("a"), true);
        check(normal(), Collection("a", "system.js"), false);
        check(normal(), Collection("local", "c"), false);
        check(normal(), Collection("config", "c"), false);
        check(normal(), Cluster, false);
        let database = || Pattern::Database("a".into());
        check(database(), Collection("a", "c"), true);
        check(database(), Collection("a", "system.js"), false);
        check(database(), Collection("b", "c"), false);
        check(database(), Database("a"), true);
        let named = || Pattern::CollectionName("system.js".into());
        check(named(), Collection("a", "system.js"), true);
        check(named(), Collection("a", "c"), false);
        let exact = || Pattern::Collection("a".into(), "c".into());
        check(exact(), Collection("a", "c"), true);
        check(exact(), Collection("a", "d"), false);
        check(exact(), Collection("b", "c"), false);
        check(exact(), Database("a"), false);
        for target in [Cluster, Database("local"), Collection("a", "system.users"), AccessTarget::Anything] {
            check(Pattern::AnyResource, target, true);
        }
        check(Pattern::Cluster, Cluster, true);
        check(Pattern::Cluster, Database("a"), false);
    }
}
