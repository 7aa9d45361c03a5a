//! The document an upsert begins with: what the filter says must be equal.

use document::{Document, DocumentBuf, DocumentBuilder, ElementType, ObjectId, RawDocument, RawValue, Value};

use crate::error::{QueryError, code};

const NOT_SINGLE_VALUE_FIELD: i32 = 54;

/// The equalities of a filter as a document; of a replacement's filter only `_id` counts.
pub(super) fn seed(filter: RawDocument<'_>, only_id: bool) -> Result<DocumentBuf, QueryError> {
    let mut found = Vec::new();
    collect(filter, &mut found)?;
    if only_id {
        found.retain(|(path, _)| *path == "_id");
    }
    check_distinct(&found)?;
    found.sort_by_key(|(path, _)| (path.split('.').next() != Some("_id"), *path));
    let mut seed = Document::new();
    for (path, value) in found {
        place(&mut seed, path, value.to_value());
    }
    Ok(seed.to_buf())
}

/// The document with its `_id` in front; a missing one is made.
pub(super) fn with_id(document: DocumentBuf) -> Result<DocumentBuf, QueryError> {
    let raw = document.as_raw();
    let id = raw.element(b"_id");
    if let Some(id) = id {
        if matches!(id.kind(), ElementType::Array | ElementType::Regex | ElementType::Undefined) {
            return Err(QueryError::new(
                code::INVALID_ID_FIELD,
                format!("The '_id' value cannot be of type {}", id.kind().alias()),
            ));
        }
        if raw.first().is_some_and(|first| first.name_bytes() == b"_id") {
            return Ok(document);
        }
    }
    let mut bytes = Vec::with_capacity(document.len() + 20);
    let mut builder = DocumentBuilder::new(&mut bytes);
    match id {
        Some(id) => builder.append_element(id),
        None => builder.append("_id", ObjectId::new()),
    };
    for element in raw.iter().filter(|element| element.name_bytes() != b"_id") {
        builder.append_element(element);
    }
    builder.finish();
    Ok(DocumentBuf::trusted(bytes))
}

fn collect<'f>(filter: RawDocument<'f>, found: &mut Vec<(&'f str, RawValue<'f>)>) -> Result<(), QueryError> {
    for element in filter {
        match (element.name(), element.value()) {
            ("$and", RawValue::Array(clauses)) => {
                for clause in clauses.iter().filter_map(RawValue::as_document) {
                    collect(clause, found)?;
                }
            }
            // A choice of one is no choice.
            ("$or", RawValue::Array(clauses)) if clauses.len() == 1 => {
                if let Some(RawValue::Document(clause)) = clauses.get(0) {
                    collect(clause, found)?;
                }
            }
            (name, _) if name.starts_with('$') => {}
            (_, RawValue::Regex { .. }) => {}
            (name, RawValue::Document(condition)) if is_condition(condition) => {
                for operator in condition {
                    match (operator.name(), operator.value()) {
                        ("$eq", value) => found.push((name, value)),
                        ("$in", RawValue::Array(choice)) if choice.len() == 1 => {
                            found.extend(
                                choice.get(0).filter(|value| is_plain(*value)).map(|value| (name, value)),
                            );
                        }
                        ("$all", RawValue::Array(values)) => {
                            found.extend(
                                values.iter().filter(|value| is_plain(*value)).map(|value| (name, value)),
                            );
                        }
                        _ => {}
                    }
                }
            }
            (name, value) => found.push((name, value)),
        }
    }
    Ok(())
}

fn is_condition(document: RawDocument<'_>) -> bool {
    document
        .first()
        .is_some_and(|first| first.name().starts_with('$') && !matches!(first.name(), "$ref" | "$id" | "$db"))
}

/// Whether an element of `$in` or `$all` stands for itself.
fn is_plain(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Regex { .. } => false,
        RawValue::Document(document) => !is_condition(document),
        _ => true,
    }
}

fn check_distinct(found: &[(&str, RawValue<'_>)]) -> Result<(), QueryError> {
    for (position, (path, _)) in found.iter().enumerate() {
        for (other, _) in found.iter().take(position) {
            if path == other {
                return Err(QueryError::new(
                    NOT_SINGLE_VALUE_FIELD,
                    format!("cannot infer query fields to set, path '{path}' is matched twice"),
                ));
            }
            if is_below(path, other) || is_below(other, path) {
                return Err(QueryError::new(
                    NOT_SINGLE_VALUE_FIELD,
                    format!(
                        "cannot infer query fields to set, both paths '{other}' and '{path}' are matched"
                    ),
                ));
            }
        }
    }
    Ok(())
}

fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))
}

fn place(document: &mut Document, path: &str, value: Value) {
    let Some((name, below)) = path.split_once('.') else {
        document.insert(path, value);
        return;
    };
    if document.get(name).is_none() {
        document.push(name, Document::new());
    }
    if let Some(Value::Document(inner)) = document.get_mut(name) {
        place(inner, below, value);
    }
}
