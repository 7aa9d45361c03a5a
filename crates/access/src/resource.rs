//! What a privilege is about, and what an operation touches.
//!
//! Source: MongoDB manual 7.0, "Resource Document".

use crate::AccessError;
use document::{Document, RawDocument, RawValue, doc};

/// What an operation touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessTarget<'a> {
    /// The server, or all servers of the deployment.
    Cluster,
    /// A database as a whole.
    Database(&'a str),
    /// One collection, which need not exist.
    Collection(&'a str, &'a str),
    /// Everything: `{anyResource: true}`, and nothing less.
    Anything,
}

/// What a privilege is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourcePattern {
    /// `{anyResource: true}`: everything, system collections included.
    AnyResource,
    /// `{cluster: true}`.
    Cluster,
    /// `{db: "", collection: ""}`: all databases and collections but `local`, `config` and system
    /// collections.
    AnyNormal,
    /// `{db, collection: ""}`: a database and its collections but system collections.
    Database(String),
    /// `{db: "", collection}`: the collection of this name in every database.
    CollectionName(String),
    /// `{db, collection}`: one collection.
    Collection(String, String),
}

impl ResourcePattern {
    /// Reads a resource document.
    ///
    /// # Errors
    /// What is none.
    pub fn parse(resource: RawDocument<'_>) -> Result<Self, AccessError> {
        let malformed =
            |reason: &str| AccessError::BadValue(format!("failed to parse resource {resource:?}: {reason}"));
        let (mut database, mut collection, mut whole) = (None, None, None);
        for element in resource {
            match (element.name(), element.value()) {
                ("db", RawValue::String(name)) => database = Some(name),
                ("collection", RawValue::String(name)) => collection = Some(name),
                ("cluster", RawValue::Boolean(true)) => whole = Some(ResourcePattern::Cluster),
                ("anyResource", RawValue::Boolean(true)) => whole = Some(ResourcePattern::AnyResource),
                (name, _) => return Err(malformed(&format!("unexpected field or value of '{name}'"))),
            }
        }
        match (database, collection, whole) {
            (None, None, Some(whole)) => Ok(whole),
            (Some(""), Some(""), None) => Ok(ResourcePattern::AnyNormal),
            (Some(""), Some(name), None) => Ok(ResourcePattern::CollectionName(name.to_owned())),
            (Some(database), Some(""), None) => Ok(ResourcePattern::Database(database.to_owned())),
            (Some(database), Some(name), None) => {
                Ok(ResourcePattern::Collection(database.to_owned(), name.to_owned()))
            }
            _ => Err(malformed("expected both of db and collection, or one of cluster and anyResource")),
        }
    }

    /// The resource document.
    pub fn to_document(&self) -> Document {
        match self {
            ResourcePattern::AnyResource => doc! { "anyResource": true },
            ResourcePattern::Cluster => doc! { "cluster": true },
            ResourcePattern::AnyNormal => doc! { "db": "", "collection": "" },
            ResourcePattern::Database(name) => doc! { "db": (name.as_str()), "collection": "" },
            ResourcePattern::CollectionName(name) => doc! { "db": "", "collection": (name.as_str()) },
            ResourcePattern::Collection(database, name) => {
                doc! { "db": (database.as_str()), "collection": (name.as_str()) }
            }
        }
    }

    /// The database that it lies in; `None` where it reaches beyond one.
    pub fn database(&self) -> Option<&str> {
        match self {
            ResourcePattern::Database(name) | ResourcePattern::Collection(name, _) => Some(name),
            _ => None,
        }
    }
}
