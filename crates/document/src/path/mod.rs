//! Field paths (`a.b.0.c`) and the ways they lead through raw documents.
//!
//! ```text
//!   {a: [{b: 1}, 7, {b: [2, 3]}]}   path a.b
//!         │         │
//!         └ array without an index in the path: every element is tried, 7 is passed over
//! ```
//! A numeric component is both: an array's index, and a field's name in the documents of an array.

mod visit;

#[cfg(test)]
mod tests;

pub use visit::{Found, LeafArray, Place};

use crate::{Element, ElementType, RawDocument, RawValue};
use std::fmt;

/// The most components of a path (MongoDB's limit for nesting is the limit for useful paths).
pub const MAX_PATH_COMPONENTS: usize = 200;

/// The most digits of a component that can be an array's index.
const MAX_INDEX_DIGITS: usize = 9;

/// Text that is not a field path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The empty text.
    #[error("FieldPath cannot be constructed with empty string")]
    Empty,
    /// Two points in a row.
    #[error("FieldPath field names may not be empty strings: '{0}'")]
    EmptyComponent(String),
    /// A point at the end.
    #[error("FieldPath must not end with a '.': '{0}'")]
    EndsWithDot(String),
    /// A zero byte in a name.
    #[error("FieldPath field names may not contain '\\0'")]
    NullByte,
    /// More than [`MAX_PATH_COMPONENTS`].
    #[error("FieldPath is too long: {0} components, at most {MAX_PATH_COMPONENTS} are allowed")]
    TooDeep(usize),
}

/// One name in a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Component {
    name: Box<str>,
    index: Option<usize>,
}

impl Component {
    fn new(name: &str) -> Self {
        let canonical = name == "0" || !name.starts_with('0');
        let numeric = canonical
            && (1..=MAX_INDEX_DIGITS).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_digit());
        Component { name: name.into(), index: if numeric { name.parse().ok() } else { None } }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index, when the name can be one: digits without leading zeros.
    pub const fn index(&self) -> Option<usize> {
        self.index
    }
}

/// A path of field names, at least one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath {
    dotted: Box<str>,
    components: Box<[Component]>,
}

impl FieldPath {
    /// Reads a path as expressions, projections and updates demand it: no empty name.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(dotted: &str) -> Result<Self, PathError> {
        if dotted.is_empty() {
            return Err(PathError::Empty);
        }
        if dotted.ends_with('.') {
            return Err(PathError::EndsWithDot(dotted.to_owned()));
        }
        if dotted.split('.').any(str::is_empty) {
            return Err(PathError::EmptyComponent(dotted.to_owned()));
        }
        FieldPath::parse_lenient(dotted)
    }

    /// Reads a path as filters do: empty names are allowed, since documents may have them.
    ///
    /// # Errors
    /// The path is too long, or has a zero byte.
    pub fn parse_lenient(dotted: &str) -> Result<Self, PathError> {
        if dotted.contains('\0') {
            return Err(PathError::NullByte);
        }
        let components: Box<[Component]> = dotted.split('.').map(Component::new).collect();
        if components.len() > MAX_PATH_COMPONENTS {
            return Err(PathError::TooDeep(components.len()));
        }
        Ok(FieldPath { dotted: dotted.into(), components })
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.dotted
    }

    /// The names.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The number of names.
    #[expect(clippy::len_without_is_empty, reason = "a path is never empty")]
    pub const fn len(&self) -> usize {
        self.components.len()
    }

    /// The first name.
    pub fn head(&self) -> &str {
        self.components.first().map_or("", Component::name)
    }

    /// The name at this position.
    pub fn component(&self, position: usize) -> Option<&str> {
        self.components.get(position).map(Component::name)
    }

    /// The field that the path names when it goes through documents only: no arrays.
    #[inline]
    pub fn get<'a>(&self, document: RawDocument<'a>) -> Option<RawValue<'a>> {
        self.element(document).map(Element::value)
    }

    /// As [`get`](FieldPath::get), with the field's name and bytes.
    pub fn element<'a>(&self, mut document: RawDocument<'a>) -> Option<Element<'a>> {
        let (last, parents) = self.components.split_last()?;
        for component in parents {
            let element = document.element(component.name.as_bytes())?;
            if element.kind() != ElementType::Document {
                return None;
            }
            document = RawDocument::trusted(element.value_bytes());
        }
        document.element(last.name.as_bytes())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.dotted)
    }
}
