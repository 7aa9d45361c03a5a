//! Paths of updates: dotted names and the positional operators.

use super::id::dollar_prefixed;
use crate::error::{QueryError, code};

/// The most components of a path.
const MAX_COMPONENTS: usize = 180;
const MAX_INDEX_DIGITS: usize = 9;

/// One component of an update path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PathStep {
    /// A field, or an array's position when it is a number.
    Field(String),
    /// `$`: the array element that the filter matched.
    Matched,
    /// `$[]`: every array element.
    Every,
    /// `$[name]`: the array elements that the array filter matches.
    Filtered(String),
}

impl PathStep {
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
        matches!(self, PathStep::Every | PathStep::Filtered(_))
    }
}

/// Parses the path of a modifier.
pub(super) fn parse(path: &str) -> Result<Vec<PathStep>, QueryError> {
    if path.is_empty() {
        bail!(code::EMPTY_FIELD_NAME, "An empty update path is not valid.");
    }
    let components: Vec<PathStep> =
        path.split('.').map(|name| component(path, name)).collect::<Result<_, _>>()?;
    let misplaced = match components.first() {
        Some(PathStep::Matched) => Some("positional (i.e. '$')"),
        Some(PathStep::Every | PathStep::Filtered(_)) => Some("array filter identifier (i.e. '$[<id>]')"),
        Some(PathStep::Field(_)) | None => None,
    };
    if let Some(misplaced) = misplaced {
        bail!(bad_value, "Cannot have {misplaced} element in the first position in path '{path}'");
    }
    if components.iter().filter(|component| **component == PathStep::Matched).count() > 1 {
        bail!(bad_value, "Too many positional (i.e. '$') elements found in path '{path}'");
    }
    if components.len() > MAX_COMPONENTS {
        bail!(code::OVERFLOW, "The update path is too deep: more than {MAX_COMPONENTS} fields");
    }
    Ok(components)
}

fn component(path: &str, name: &str) -> Result<PathStep, QueryError> {
    if name.is_empty() {
        bail!(
            code::EMPTY_FIELD_NAME,
            "The update path '{path}' contains an empty field name, which is not allowed."
        );
    }
    if name == "$" {
        return Ok(PathStep::Matched);
    }
    Ok(match name.strip_prefix("$[").and_then(|rest| rest.strip_suffix(']')) {
        Some("") => PathStep::Every,
        Some(identifier) => PathStep::Filtered(identifier.to_owned()),
        None => PathStep::Field(name.to_owned()),
    })
}

/// Refuses a top-level field with a dollar sign in front, which operators do not write.
pub(super) fn check_top_level(components: &[PathStep]) -> Result<(), QueryError> {
    match components.first() {
        Some(PathStep::Field(name))
            if name.starts_with('$') && !matches!(name.as_str(), "$id" | "$ref" | "$db") =>
        {
            Err(dollar_prefixed(name, name))
        }
        _ => Ok(()),
    }
}

/// Where in a document something is: a name, and where the value is that has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldPlace<'p> {
    above: Option<&'p FieldPlace<'p>>,
    pub(super) name: &'p str,
    is_element: bool,
}

impl<'p> FieldPlace<'p> {
    /// A top-level field.
    pub(super) const fn top(name: &'p str) -> Self {
        FieldPlace { above: None, name, is_element: false }
    }

    /// A field of the document here.
    pub(super) const fn field<'c>(&'c self, name: &'c str) -> FieldPlace<'c> {
        FieldPlace { above: Some(self), name, is_element: false }
    }

    /// An element of the array here.
    pub(super) const fn element<'c>(&'c self, name: &'c str) -> FieldPlace<'c> {
        FieldPlace { above: Some(self), name, is_element: true }
    }

    /// The path from the top.
    pub(super) fn dotted(&self) -> String {
        match self.above {
            None => self.name.to_owned(),
            Some(above) => format!("{}.{}", above.dotted(), self.name),
        }
    }

    /// The name of the innermost array above.
    pub(super) fn array_above(&self) -> Option<&'p str> {
        let above = self.above?;
        if self.is_element { Some(above.name) } else { above.array_above() }
    }
}
