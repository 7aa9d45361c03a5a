//! Field paths inside expressions: `"$a.b"` over raw documents and over owned values.
//!
//! Unlike the paths of filters, a number in such a path is a field name and never an array position;
//! an array met on the way yields the array of what its documents hold there.

use document::{RawArray, RawDocument, RawValue, Value};

use crate::error::{QueryError, code};

use super::Evaluated;

/// The components of a dotted path, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    components: Vec<String>,
}

impl Path {
    /// Parses `a.b.c` (without the leading `$`).
    ///
    /// # Errors
    /// As [`check_path`].
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        check_path(text)?;
        Ok(Self { components: text.split('.').map(str::to_owned).collect() })
    }

    /// The names, outermost first.
    pub fn components(&self) -> &[String] {
        &self.components
    }

    /// The path as it was written.
    pub fn dotted(&self) -> String {
        self.components.join(".")
    }

    /// What lies at this path of `root`.
    pub fn of_document(&self, root: RawDocument<'_>) -> Evaluated {
        raw_at(root, &self.components)
    }

    /// What lies at this path of `root` without a copy, when no array lies on the way; `Err` when one does.
    pub(crate) fn borrowed<'a>(&self, root: RawDocument<'a>) -> Result<Option<RawValue<'a>>, ArrayOnPath> {
        let mut document = root;
        let mut rest = self.components.as_slice();
        while let Some((name, deeper)) = rest.split_first() {
            let Some(value) = document.get(name) else { return Ok(None) };
            if deeper.is_empty() {
                return Ok(Some(value));
            }
            match value {
                RawValue::Document(inner) => document = inner,
                RawValue::Array(_) => return Err(ArrayOnPath),
                _ => return Ok(None),
            }
            rest = deeper;
        }
        Ok(None)
    }

    /// What lies at this path of `value`.
    pub fn of_value(&self, value: &Value) -> Evaluated {
        owned_at(value, &self.components)
    }
}

/// A path crosses an array, so that its value is an array yet to be gathered.
pub(crate) struct ArrayOnPath;

/// MongoDB's limit on the depth of a stored document is 200.
const MAX_PATH_COMPONENTS: usize = 200;

/// The fields of a database reference: the only names with a dollar sign that paths may hold.
const REFERENCE_FIELDS: [&str; 3] = ["$id", "$ref", "$db"];

/// Checks a dotted path of an expression, a projection or a sort.
///
/// # Errors
/// 40352, 40353 and 15998 for emptiness, 16410 for a name that begins with `$`, 16411 for a null byte,
/// `Overflow` for too many names.
pub(crate) fn check_path(text: &str) -> Result<(), QueryError> {
    if text.is_empty() {
        bail!(40352, "FieldPath cannot be constructed with empty string");
    }
    if text.ends_with('.') {
        bail!(40353, "FieldPath must not end with a '.'.");
    }
    if text.split('.').nth(MAX_PATH_COMPONENTS).is_some() {
        bail!(code::OVERFLOW, "FieldPath is too long");
    }
    text.split('.').try_for_each(check_component)
}

/// Checks one component of a path or one field name of an object expression.
pub(crate) fn check_component(component: &str) -> Result<(), QueryError> {
    if component.is_empty() {
        bail!(15998, "FieldPath field names may not be empty strings.");
    }
    if component.starts_with('$') && !REFERENCE_FIELDS.contains(&component) {
        bail!(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.");
    }
    if component.contains('\0') {
        bail!(16411, "FieldPath field names may not contain '\\0'.");
    }
    Ok(())
}

/// Checks a name that must not be a path of several.
pub(crate) fn check_field_name(name: &str) -> Result<(), QueryError> {
    check_component(name)?;
    if name.contains('.') {
        bail!(16412, "FieldPath field names may not contain '.'. Consider using $getField or $setField.");
    }
    Ok(())
}

fn raw_at(document: RawDocument<'_>, components: &[String]) -> Evaluated {
    let (name, rest) = components.split_first()?;
    let value = document.get(name)?;
    if rest.is_empty() {
        return Some(value.to_value());
    }
    match value {
        RawValue::Document(inner) => raw_at(inner, rest),
        RawValue::Array(array) => Some(raw_array_at(array, rest)),
        _ => None,
    }
}

fn raw_array_at(array: RawArray<'_>, rest: &[String]) -> Value {
    let gathered = array.iter().filter_map(|item| match item {
        RawValue::Document(inner) => raw_at(inner, rest),
        _ => None,
    });
    Value::Array(gathered.collect())
}

fn owned_at(value: &Value, components: &[String]) -> Evaluated {
    let Some((name, rest)) = components.split_first() else { return Some(value.clone()) };
    match value {
        Value::Document(document) => owned_at(document.get(name)?, rest),
        Value::Array(items) => {
            let gathered = items.iter().filter_map(|item| match item {
                Value::Document(_) => owned_at(item, components),
                _ => None,
            });
            Some(Value::Array(gathered.collect()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use document::{Value, doc};

    use super::Path;

    fn check(path: &str, expect: Option<Value>) {
        let document = doc! { "a": { "b": 1 }, "list": [{ "b": 1 }, 7, { "c": 2 }, { "b": [2] }], "s": "x" };
        let path = Path::parse(path).expect("a valid path");
        assert_eq!(path.of_document(document.to_buf().as_raw()), expect, "{path:?} over raw bytes");
        assert_eq!(path.of_value(&Value::Document(document)), expect, "{path:?} over a value");
    }

    #[test]
    fn arrays_are_mapped_and_numbers_are_names() {
        check("a.b", Some(Value::Int32(1)));
        check("a.c", None);
        check("s.x", None);
        check("list.b", Some(Value::Array(vec![Value::Int32(1), Value::from(vec![Value::Int32(2)])].into())));
        check("list.0", Some(Value::Array(document::Array::new())));
    }

    #[test]
    fn fields_of_database_references_are_names() {
        let document = doc! { "p": { "$ref": "c", "$id": 7, "$db": "d" } };
        for (path, expect) in [("p.$id", Value::Int32(7)), ("p.$ref", "c".into()), ("p.$db", "d".into())] {
            let path = Path::parse(path).expect("a valid path");
            assert_eq!(path.of_document(document.to_buf().as_raw()), Some(expect));
        }
        assert!(Path::parse("p.$ids").is_err());
    }

    #[test]
    fn malformed_paths_are_refused_with_mongodbs_codes() {
        for (text, code) in
            [("", 40352), ("a.", 40353), ("a..b", 15998), (".a", 15998), ("a.$b", 16410), ("a\0", 16411)]
        {
            assert_eq!(Path::parse(text).map_err(|error| error.code), Err(code), "{text:?}");
        }
    }
}
