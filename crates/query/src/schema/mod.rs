//! `$jsonSchema`: parsing a schema, checking documents against it, and saying why one does not conform.
//!
//! ```text
//!  {required: ["a"], properties: {a: {bsonType: "int"}}} ─▶ Schema { keywords: [required, properties] }
//!                                   document ──▶ matches ──▶ yes / no
//!                                   document ──▶ failures ──▶ schemaRulesNotSatisfied (errInfo of code 121)
//! ```
//!
//! A keyword that speaks of another type than the value's (such as `minimum` of a string) is satisfied.
//!
//! Source: MongoDB manual, "$jsonSchema"; JSON Schema draft 4.

mod check;
mod details;
mod parse;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use document::{RawDocument, RawValue, Value};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::matcher::{Pattern, TypeSet};

pub use details::validation_details;

/// A compiled schema.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub(super) keywords: Vec<Keyword>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
}

/// One keyword with what the client wrote.
#[derive(Debug, Clone)]
pub(super) struct Keyword {
    pub(super) name: &'static str,
    pub(super) specified: Value,
    pub(super) rule: Rule,
}

/// What a keyword demands.
#[derive(Debug, Clone)]
pub(super) enum Rule {
    Type(TypeSet),
    Enum(Vec<Value>),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
    Minimum {
        limit: document::Number,
        exclusive: bool,
    },
    Maximum {
        limit: document::Number,
        exclusive: bool,
    },
    MultipleOf(document::Number),
    /// Lengths count characters, not bytes.
    MinLength(u64),
    MaxLength(u64),
    Pattern(Pattern),
    MinItems(u64),
    MaxItems(u64),
    UniqueItems,
    /// One schema for each of the first positions.
    ItemsAt(Vec<Schema>),
    /// The schema of every element from this position on.
    ItemsFrom(usize, Extra),
    MinProperties(u64),
    MaxProperties(u64),
    Required(Vec<String>),
    Properties(Vec<(String, Schema)>),
    PatternProperties(Vec<(Pattern, Schema)>),
    AdditionalProperties {
        names: HashSet<String>,
        patterns: Vec<Pattern>,
        extra: Extra,
    },
    Dependencies(Vec<(String, Dependency)>),
}

/// What is demanded of fields or elements that no other keyword names.
#[derive(Debug, Clone)]
pub(super) enum Extra {
    Forbidden,
    Conforming(Box<Schema>),
}

/// What the presence of one field demands.
#[derive(Debug, Clone)]
pub(super) enum Dependency {
    Fields(Vec<String>),
    Conforming(Schema),
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// `FailedToParse` (9) for unknown or unsupported keywords, `TypeMismatch` (14) for operands of a wrong
    /// type.
    pub fn parse(schema: RawDocument<'_>, _: &Environment) -> Result<Self, QueryError> {
        parse::schema(schema)
    }

    /// Whether the document conforms.
    ///
    /// # Errors
    /// When a regular expression exceeds its step limit.
    pub fn matches(&self, document: RawDocument<'_>) -> Result<bool, QueryError> {
        self.conforms(RawValue::Document(document))
    }
}
