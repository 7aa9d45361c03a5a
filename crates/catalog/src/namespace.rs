//! Namespaces: a database's and a collection's name, and the rules for them.

use crate::CatalogError;
use hashbrown::Equivalent;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The longest database name, in bytes.
pub const MAX_DATABASE_NAME: usize = 63;
/// The longest `database.collection`, in bytes.
pub const MAX_NAMESPACE: usize = 255;

/// `database.collection`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace {
    database: Box<str>,
    collection: Box<str>,
}

impl Namespace {
    /// Joins two names without checking them.
    pub fn new(database: &str, collection: &str) -> Self {
        Namespace { database: database.into(), collection: collection.into() }
    }

    /// Splits `database.collection` at the first dot.
    ///
    /// # Errors
    /// `InvalidNamespace` when there is no dot or one of the names breaks the rules.
    pub fn parse(full: &str) -> Result<Self, CatalogError> {
        let (database, collection) = full
            .split_once('.')
            .ok_or_else(|| CatalogError::InvalidNamespace(format!("Invalid namespace specified '{full}'")))?;
        let namespace = Namespace::new(database, collection);
        namespace.check_readable()?;
        Ok(namespace)
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The collection's name.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Checks the rules every command applies: database name rules, collection not empty, no leading or
    /// doubled dot trouble, no null character, length.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn check_readable(&self) -> Result<(), CatalogError> {
        check_database(&self.database)?;
        let name = &*self.collection;
        if name.is_empty() || name.starts_with('.') || name.contains('\0') {
            return Err(CatalogError::InvalidNamespace(format!("Invalid namespace specified '{self}'")));
        }
        if self.database.len() + 1 + name.len() > MAX_NAMESPACE {
            return Err(CatalogError::InvalidNamespace(format!(
                "Fully qualified namespace is too long. Namespace: {self} Max: {MAX_NAMESPACE}"
            )));
        }
        Ok(())
    }

    /// Checks the rules for a collection that is to be made: those of reading, and no `$`, no trailing dot,
    /// no reserved `system.` name.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn check_creatable(&self) -> Result<(), CatalogError> {
        self.check_readable()?;
        let name = &*self.collection;
        if name.contains('$') {
            return Err(CatalogError::InvalidNamespace(format!("Invalid collection name: {name}")));
        }
        if name.ends_with('.') {
            return Err(CatalogError::InvalidNamespace(format!(
                "Collection names cannot end with '.': {name}"
            )));
        }
        if name.starts_with("system.") && !self.is_permitted_system_collection() {
            return Err(CatalogError::InvalidNamespace(format!("Invalid system namespace: {self}")));
        }
        Ok(())
    }

    /// Checks the rules for a collection whose documents a client changes: those of making it, and none that
    /// only the server writes to.
    ///
    /// # Errors
    /// `InvalidNamespace`.
    pub fn check_writable(&self) -> Result<(), CatalogError> {
        if matches!(&*self.collection, "system.profile" | "system.views") {
            return Err(CatalogError::InvalidNamespace(format!("cannot write to {self}")));
        }
        self.check_creatable()
    }

    fn is_permitted_system_collection(&self) -> bool {
        match &*self.collection {
            "system.js" | "system.profile" => true,
            "system.users" | "system.roles" | "system.version" | "system.new_users" => {
                &*self.database == "admin"
            }
            "system.sessions" => &*self.database == "config",
            "system.replset" => &*self.database == "local",
            _ => false,
        }
    }

    /// Whether the collection is one of the server's own, or in a database of the server's own.
    pub fn is_internal(&self) -> bool {
        self.is_system() || is_internal_database(&self.database)
    }

    /// Whether clients may not drop it: the server and its tools rely on what is in it.
    pub fn is_kept(&self) -> bool {
        &*self.database == "admin"
            && matches!(
                &*self.collection,
                "system.version" | "system.users" | "system.roles" | "system.new_users"
            )
    }

    /// Whether the collection is one of the server's own.
    pub fn is_system(&self) -> bool {
        self.collection.starts_with("system.")
    }
}

/// Whether the database is there for the server itself.
pub fn is_internal_database(name: &str) -> bool {
    matches!(name, "admin" | "config" | "local")
}

/// Checks a database name.
///
/// # Errors
/// `InvalidNamespace`.
pub fn check_database(name: &str) -> Result<(), CatalogError> {
    const FORBIDDEN: &[char] = &['/', '\\', '.', ' ', '"', '$', '\0'];
    if name.is_empty() || name.len() > MAX_DATABASE_NAME || name.contains(FORBIDDEN) {
        return Err(CatalogError::InvalidNamespace(format!("Invalid database name: '{name}'")));
    }
    Ok(())
}

impl fmt::Display for Namespace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.database, self.collection)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl Hash for Namespace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        NamespaceRef { database: &self.database, collection: &self.collection }.hash(state);
    }
}

/// Both names, borrowed: looks up a [`Namespace`] in a map without building one.
#[derive(Hash)]
pub(crate) struct NamespaceRef<'a> {
    pub(crate) database: &'a str,
    pub(crate) collection: &'a str,
}

impl Equivalent<Namespace> for NamespaceRef<'_> {
    fn equivalent(&self, key: &Namespace) -> bool {
        *self.database == *key.database && *self.collection == *key.collection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(database: &str, collection: &str, expect: bool) {
        let result = Namespace::new(database, collection).check_creatable();
        assert_eq!(result.is_ok(), expect, "{database}.{collection}: {result:?}");
        assert!(result.err().is_none_or(|error| error.code() == 73));
    }

    #[test]
    fn names() {
        check("test", "things", true);
        check("test", "a.b.c", true);
        check("test", "", false);
        check("test", ".a", false);
        check("test", "a.", false);
        check("test", "a$b", false);
        check("test", "a\0b", false);
        check("te st", "a", false);
        check("te.st", "a", false);
        check("", "a", false);
        check("test", "system.foo", false);
        check("test", "system.js", true);
        check("test", "system.users", false);
        check("admin", "system.users", true);
        check(&"d".repeat(63), &"c".repeat(191), true);
        check(&"d".repeat(63), &"c".repeat(192), false);
        check(&"d".repeat(64), "c", false);
    }

    #[test]
    fn a_full_name_splits_at_the_first_dot() {
        let namespace = Namespace::parse("db.a.b").expect("a good name");
        assert_eq!((namespace.database(), namespace.collection()), ("db", "a.b"));
        assert!(Namespace::parse("db").is_err());
    }
}
