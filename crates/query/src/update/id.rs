//! What an `_id` may be where an update or an upsert gives one.

use document::{ElementType, RawValue};

use crate::error::{QueryError, code};

/// Refuses arrays, regular expressions and undefined values, and documents with field names that begin with a
/// dollar sign (but for references).
pub(super) fn check(id: RawValue<'_>) -> Result<(), QueryError> {
    let kind = id.kind();
    if matches!(kind, ElementType::Array | ElementType::Regex | ElementType::Undefined) {
        let message = format!("The '_id' value cannot be of type {}", kind.alias());
        return Err(QueryError::new(code::INVALID_ID_FIELD, message));
    }
    let RawValue::Document(fields) = id else { return Ok(()) };
    let is_reference = |name: &str| matches!(name, "$ref" | "$id" | "$db");
    match fields.iter().map(|field| field.name()).find(|name| name.starts_with('$') && !is_reference(name)) {
        None => Ok(()),
        Some(name) => Err(dollar_prefixed(name, &format!("_id.{name}"))),
    }
}

/// The refusal of a field name with a dollar sign in front that would be stored.
pub(super) fn dollar_prefixed(name: &str, path: &str) -> QueryError {
    query_error!(
        code::DOLLAR_PREFIXED_FIELD_NAME,
        "The dollar ($) prefixed field '{name}' in '{path}' is not allowed in the context of an update's \
             replacement document. Consider using an aggregation pipeline with $replaceWith."
    )
}

/// The refusal of a document with two fields named `_id`.
pub(super) fn given_twice() -> QueryError {
    QueryError::bad_value("can't have multiple _id fields in one document")
}
