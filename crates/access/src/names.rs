//! Names of users and roles: a name and the database that it belongs to.

use crate::AccessError;
use document::{Document, RawArray, RawDocument, RawValue, doc};
use sha2::{Digest, Sha256};
use std::fmt;

/// A user's name and database.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserName {
    /// The name.
    pub user: String,
    /// The database that it was made in, and logs in with.
    pub database: String,
}

/// A role's name and database.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoleName {
    /// The name.
    pub role: String,
    /// The database that it was made in; of a built-in role, that which it is about.
    pub database: String,
}

impl UserName {
    /// A user of this database.
    pub fn new(user: impl Into<String>, database: impl Into<String>) -> Self {
        UserName { user: user.into(), database: database.into() }
    }

    /// The `_id` in `admin.system.users`.
    pub fn id(&self) -> String {
        format!("{}.{}", self.database, self.user)
    }

    /// What the sessions of this user are told by: SHA-256 of its name, `lsid.uid`.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.to_string()).into()
    }

    /// `{user, db}`.
    pub fn to_document(&self) -> Document {
        doc! { "user": (self.user.as_str()), "db": (self.database.as_str()) }
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.user, self.database)
    }
}

impl RoleName {
    /// A role of this database.
    pub fn new(role: impl Into<String>, database: impl Into<String>) -> Self {
        RoleName { role: role.into(), database: database.into() }
    }

    /// The `_id` in `admin.system.roles`.
    pub fn id(&self) -> String {
        format!("{}.{}", self.database, self.role)
    }

    /// `{role, db}`.
    pub fn to_document(&self) -> Document {
        doc! { "role": (self.role.as_str()), "db": (self.database.as_str()) }
    }

    /// Reads a name alone, of this database, or `{role, db}`.
    ///
    /// # Errors
    /// What is neither.
    pub fn parse(value: RawValue<'_>, database: &str) -> Result<Self, AccessError> {
        match value {
            RawValue::String("") => {}
            RawValue::String(role) => return Ok(RoleName::new(role, database)),
            RawValue::Document(named) => {
                let text = |name: &str| named.get(name).and_then(RawValue::as_str);
                let fields = named.iter().count();
                if let (Some(role), Some(database), 2) = (text("role"), text("db"), fields) {
                    return Ok(RoleName::new(role, database));
                }
            }
            _ => {}
        }
        let message = "Role names must be either strings or objects with the fields role and db";
        Err(AccessError::BadValue(message.to_owned()))
    }

    /// Reads a list of them.
    ///
    /// # Errors
    /// As [`RoleName::parse`].
    pub fn parse_list(list: RawArray<'_>, database: &str) -> Result<Vec<Self>, AccessError> {
        let mut roles = Vec::new();
        for value in list.iter() {
            let role = RoleName::parse(value, database)?;
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
        Ok(roles)
    }

    /// The roles in a stored document's field `roles`.
    pub(crate) fn stored(document: RawDocument<'_>) -> Result<Vec<Self>, AccessError> {
        match document.get("roles") {
            Some(RawValue::Array(list)) => RoleName::parse_list(list, ""),
            _ => Ok(Vec::new()),
        }
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.role, self.database)
    }
}
