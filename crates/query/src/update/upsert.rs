//! The document an upsert begins with: what the filter says must be equal.

use document::{Document, DocumentBuf, DocumentBuilder, ObjectId, RawArray, RawDocument, RawValue, Value};

use super::id;
use crate::error::QueryError;

const NOT_SINGLE_VALUE_FIELD: i32 = 54;
const NOT_EXACT_VALUE_FIELD: i32 = 111;
const QUERY_FEATURE_NOT_ALLOWED: i32 = 224;

/// The equalities of a filter as a document; of a replacement's filter only `_id` counts.
pub(super) fn seed(filter: RawDocument<'_>, only_id: bool) -> Result<DocumentBuf, QueryError> {
    let mut equalities = Equalities::of(filter).found;
    if only_id {
        equalities.retain(|(path, _)| *path == "_id" || path.starts_with("_id."));
        if let Some((path, _)) = equalities.iter().find(|(path, _)| *path != "_id") {
            bail!(
                NOT_EXACT_VALUE_FIELD,
                "field at '_id' must be exactly specified, field at sub-path '{path}'found"
            );
        }
    }
    check_distinct(&equalities)?;
    equalities.sort_by_key(|(path, _)| (top_level(path) != "_id", *path));
    let mut seed = Document::new();
    place(&mut seed, &equalities);
    Ok(seed.to_buf())
}

/// Whether a filter asks for exactly this unique key: its conditions are equalities on the key's fields, each
/// with the key's value, and nothing else. A statement with such a filter finds the document that has the key
/// when it looks again.
pub fn asks_for_key(filter: RawDocument<'_>, key: &Document) -> bool {
    let equalities = Equalities::of(filter);
    let asked_for = |(name, value): (&str, &Value)| {
        let equality = equalities.found.iter().find(|(path, _)| *path == name);
        equality.is_some_and(|(_, asked)| value.with_raw(|value| document::compare(*asked, value)).is_eq())
    };
    equalities.nothing_else && equalities.found.len() == key.len() && key.iter().all(asked_for)
}

/// Refuses `$expr` in the filter of an upsert: what it compares says nothing of the document that would be
/// inserted.
///
/// # Errors
/// `QueryFeatureNotAllowed`.
pub fn check_upsert_filter(filter: RawDocument<'_>) -> Result<(), QueryError> {
    match uses_expression(filter) {
        false => Ok(()),
        true => Err(QueryError::new(
            QUERY_FEATURE_NOT_ALLOWED,
            "$expr is not allowed in the query predicate for an upsert",
        )),
    }
}

fn uses_expression(filter: RawDocument<'_>) -> bool {
    filter.iter().any(|element| match (element.name(), element.value()) {
        ("$expr", _) => true,
        ("$and" | "$or" | "$nor", RawValue::Array(clauses)) => {
            clauses.iter().filter_map(RawValue::as_document).any(uses_expression)
        }
        _ => false,
    })
}

/// The document with its `_id` in front; a missing one is made.
pub(super) fn with_id(document: DocumentBuf) -> Result<DocumentBuf, QueryError> {
    let raw = document.as_raw();
    let given = raw.element(b"_id");
    if let Some(given) = given {
        id::check(given.value())?;
        if raw.first().is_some_and(|first| first.name_bytes() == b"_id") {
            return Ok(document);
        }
    }
    let mut bytes = Vec::with_capacity(document.len() + 20);
    let mut builder = DocumentBuilder::new(&mut bytes);
    match given {
        Some(given) => builder.append_element(given),
        None => builder.append("_id", ObjectId::new()),
    };
    for element in raw.iter().filter(|element| element.name_bytes() != b"_id") {
        builder.append_element(element);
    }
    builder.finish();
    Ok(DocumentBuf::trusted(bytes))
}

/// What a filter says must be equal.
struct Equalities<'f> {
    /// Paths and values, in the filter's order.
    found: Vec<(&'f str, RawValue<'f>)>,
    /// The filter has no other conditions.
    nothing_else: bool,
}

impl<'f> Equalities<'f> {
    fn of(filter: RawDocument<'f>) -> Self {
        let mut equalities = Equalities { found: Vec::new(), nothing_else: true };
        equalities.collect(filter);
        equalities
    }

    fn collect(&mut self, filter: RawDocument<'f>) {
        for element in filter {
            match (element.name(), element.value()) {
                ("$and", RawValue::Array(clauses)) => self.collect_all(clauses),
                // A choice of one is no choice.
                ("$or", RawValue::Array(clauses)) if clauses.len() == 1 => self.collect_all(clauses),
                ("$comment", _) => {}
                (name, value) if name.starts_with('$') || matches!(value, RawValue::Regex { .. }) => {
                    self.nothing_else = false;
                }
                (name, RawValue::Document(condition)) if is_condition(condition) => {
                    condition
                        .iter()
                        .for_each(|operator| self.condition(name, operator.name(), operator.value()));
                }
                (name, value) => self.found.push((name, value)),
            }
        }
    }

    fn collect_all(&mut self, clauses: RawArray<'f>) {
        clauses.iter().filter_map(RawValue::as_document).for_each(|clause| self.collect(clause));
    }

    fn condition(&mut self, path: &'f str, operator: &str, operand: RawValue<'f>) {
        let (values, all) = match (operator, operand) {
            ("$eq", value) => return self.found.push((path, value)),
            ("$in", RawValue::Array(choice)) => (choice, choice.len() == 1),
            ("$all", RawValue::Array(values)) => (values, true),
            _ => (RawArray::EMPTY, false),
        };
        self.nothing_else &= all;
        for value in values.iter().filter(|_| all) {
            match is_plain(value) {
                true => self.found.push((path, value)),
                false => self.nothing_else = false,
            }
        }
    }
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

fn check_distinct(equalities: &[(&str, RawValue<'_>)]) -> Result<(), QueryError> {
    let mut paths: Vec<&str> = equalities.iter().map(|(path, _)| *path).collect();
    // What lies below a path comes directly behind it.
    paths.sort_by(|left, right| left.split('.').cmp(right.split('.')));
    let refusal = |what: String| {
        let message = format!("cannot infer query fields to set, {what}");
        Err(QueryError::new(NOT_SINGLE_VALUE_FIELD, message))
    };
    for (path, next) in paths.iter().zip(paths.iter().skip(1)) {
        if path == next {
            return refusal(format!("path '{path}' is matched twice"));
        }
        if next.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')) {
            return refusal(format!("both paths '{next}' and '{path}' are matched"));
        }
    }
    Ok(())
}

fn top_level(path: &str) -> &str {
    path.split_once('.').map_or(path, |(name, _)| name)
}

/// Puts values where their paths say. The paths are sorted, so that those with the same beginning are
/// neighbours.
fn place(document: &mut Document, values: &[(&str, RawValue<'_>)]) {
    for group in values.chunk_by(|(left, _), (right, _)| top_level(left) == top_level(right)) {
        match group {
            [] => {}
            [(path, value)] if !path.contains('.') => document.push(*path, value.to_value()),
            [(path, _), ..] => {
                let below: Vec<_> = group
                    .iter()
                    .filter_map(|(path, value)| Some((path.split_once('.')?.1, *value)))
                    .collect();
                let mut inner = Document::new();
                place(&mut inner, &below);
                document.push(top_level(path), inner);
            }
        }
    }
}
