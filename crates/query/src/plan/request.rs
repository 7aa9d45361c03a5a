//! What the planner is asked.

use std::sync::Arc;

use document::{Document, RawDocument, RawValue, Value};

use super::{FieldOrder, IndexDescription, ScanDirection};
use crate::error::QueryError;
use crate::matcher::Matcher;

/// One field of a sort pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortField {
    /// The dotted path.
    pub path: String,
    /// High values first.
    pub descending: bool,
}

/// Which fields of the documents the query reads after the filter: projection, sort and everything else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NeededFields {
    /// The whole document.
    #[default]
    All,
    /// These dotted paths.
    Only(Vec<String>),
    /// None: documents are only counted.
    Nothing,
}

/// Which index the client wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Hint {
    /// By its name.
    Name(String),
    /// By its key pattern.
    Pattern(Document),
    /// `{$natural: ±1}`: no index.
    Natural(ScanDirection),
}

impl Hint {
    /// Reads the `hint` field of a command; an empty document is no hint.
    ///
    /// # Errors
    /// `FailedToParse` for other types and malformed `$natural`.
    pub fn parse(value: RawValue<'_>) -> Result<Option<Self>, QueryError> {
        match value {
            RawValue::String(name) => Ok(Some(Hint::Name(name.to_owned()))),
            RawValue::Document(pattern) if pattern.is_empty() => Ok(None),
            RawValue::Document(pattern) => match pattern.get("$natural") {
                None => Ok(Some(Hint::Pattern(pattern.to_document()))),
                Some(order) => match order.as_i64_exact() {
                    Some(1) => Ok(Some(Hint::Natural(ScanDirection::Forward))),
                    Some(-1) => Ok(Some(Hint::Natural(ScanDirection::Backward))),
                    _ => Err(QueryError::bad_value("$natural hint must be 1 or -1")),
                },
            },
            _ => Err(QueryError::failed_to_parse("Hint must be a string or an object")),
        }
    }
}

/// One query to plan.
#[derive(Debug, Clone)]
pub struct PlanRequest<'r> {
    /// The filter.
    pub matcher: &'r Matcher,
    /// The sort pattern; empty: any order.
    pub sort: &'r [SortField],
    /// What is read of each document.
    pub needs: &'r NeededFields,
    /// The client's choice of index.
    pub hint: Option<&'r Hint>,
    /// The command's `min`: the lowest index key, inclusive.
    pub min: Option<RawDocument<'r>>,
    /// The command's `max`: the highest index key, exclusive.
    pub max: Option<RawDocument<'r>>,
    /// The collection's indexes, the clustered one included.
    pub indexes: &'r [Arc<IndexDescription>],
    /// Without an index there is no plan.
    pub no_table_scan: bool,
}

impl<'r> PlanRequest<'r> {
    /// A request with nothing but a filter.
    pub fn new(matcher: &'r Matcher, indexes: &'r [Arc<IndexDescription>]) -> Self {
        Self {
            matcher,
            sort: &[],
            needs: &NeededFields::All,
            hint: None,
            min: None,
            max: None,
            indexes,
            no_table_scan: false,
        }
    }
}

/// Finds the hinted index.
///
/// # Errors
/// `BadValue` when there is none.
pub(crate) fn hinted<'r>(
    hint: &Hint,
    indexes: &'r [Arc<IndexDescription>],
) -> Result<&'r Arc<IndexDescription>, QueryError> {
    let found = indexes.iter().find(|index| {
        !index.hidden
            && match hint {
                Hint::Name(name) => index.name == *name,
                Hint::Pattern(pattern) => is_pattern_of(pattern, index),
                Hint::Natural(_) => false,
            }
    });
    found.ok_or_else(|| {
        QueryError::bad_value(
            "error processing query: planner returned error :: caused by :: hint provided does not \
             correspond to an existing index",
        )
    })
}

fn is_pattern_of(pattern: &Document, index: &IndexDescription) -> bool {
    pattern.len() == index.fields.len()
        && pattern.iter().zip(&index.fields).all(|((path, order), field)| {
            path == field.path.dotted()
                && match field.order {
                    FieldOrder::Ascending => order.as_f64().is_some_and(|order| order > 0.0),
                    FieldOrder::Descending => order.as_f64().is_some_and(|order| order < 0.0),
                    FieldOrder::Hashed => *order == Value::String("hashed".to_owned()),
                }
        })
}
