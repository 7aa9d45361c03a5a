//! Paths of updates: dotted names and the positional operators.

use crate::error::{QueryError, code};

/// The most components of a path.
const MAX_COMPONENTS: usize = 180;
const MAX_INDEX_DIGITS: usize = 9;

/// One component of an update path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Component {
    /// A field, or an array's position when it is a number.
    Field(String),
    /// `$`: the array element that the filter matched.
    Matched,
    /// `$[]`: every array element.
    Every,
    /// `$[name]`: the array elements that the array filter matches.
    Filtered(String),
}

impl Component {
    /// The array position that a field name means.
    pub(super) fn index(name: &str) -> Option<usize> {
        let numeric = !name.is_empty()
            && name.len() <= MAX_INDEX_DIGITS
            && name.bytes().all(|byte| byte.is_ascii_digit())
            && (name == "0" || !name.starts_with('0'));
        numeric.then(|| name.parse().ok()).flatten()
    }

    /// Whether this goes to several array elements.
    pub(super) fn is_array_wide(&self) -> bool {
        matches!(self, Component::Every | Component::Filtered(_))
    }
}

/// Parses the path of a modifier.
pub(super) fn parse(path: &str) -> Result<Vec<Component>, QueryError> {
    if path.is_empty() {
        return Err(QueryError::new(code::EMPTY_FIELD_NAME, "An empty update path is not valid."));
    }
    let components: Vec<Component> =
        path.split('.').map(|name| component(path, name)).collect::<Result<_, _>>()?;
    if components.first().is_some_and(|first| !matches!(first, Component::Field(_))) {
        return Err(QueryError::bad_value(format!(
            "Cannot have positional (i.e. '$') element in the first position in path '{path}'"
        )));
    }
    if components.iter().filter(|component| **component == Component::Matched).count() > 1 {
        return Err(QueryError::bad_value(format!(
            "Too many positional (i.e. '$') elements found in path '{path}'"
        )));
    }
    if components.len() > MAX_COMPONENTS {
        return Err(QueryError::new(
            code::OVERFLOW,
            format!("The update path is too deep: more than {MAX_COMPONENTS} fields"),
        ));
    }
    Ok(components)
}

fn component(path: &str, name: &str) -> Result<Component, QueryError> {
    if name.is_empty() {
        return Err(QueryError::new(
            code::EMPTY_FIELD_NAME,
            format!("The update path '{path}' contains an empty field name, which is not allowed."),
        ));
    }
    if !name.starts_with('$') || matches!(name, "$id" | "$ref" | "$db") {
        return Ok(Component::Field(name.to_owned()));
    }
    if name == "$" {
        return Ok(Component::Matched);
    }
    match name.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
        Some("") => Ok(Component::Every),
        Some(identifier) => Ok(Component::Filtered(identifier.to_owned())),
        None => Err(QueryError::new(
            code::DOLLAR_PREFIXED_FIELD_NAME,
            format!("The dollar ($) prefixed field '{name}' in '{path}' is not valid for storage."),
        )),
    }
}
