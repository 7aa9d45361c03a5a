//! Paths of filters and how they fan out over arrays.

use std::sync::Arc;

use document::{RawArray, RawDocument, RawValue};

use super::Verdict;

/// What a path that ends at an array yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafArrays {
    /// Each element, then the array itself.
    Expand,
    /// The array itself.
    Whole,
}

/// One component of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: Box<str>,
    /// The component as an array position, when it is written as one (`0`, `17`, not `01`).
    position: Option<usize>,
}

/// A dotted path of a filter, split once. Empty components are allowed, as in MongoDB's filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchPath {
    dotted: Arc<str>,
    parts: Arc<[Part]>,
}

impl MatchPath {
    /// Splits `dotted`.
    pub fn new(dotted: &str) -> Self {
        let parts = dotted
            .split('.')
            .map(|name| Part { name: name.into(), position: array_position(name) })
            .collect();
        Self { dotted: dotted.into(), parts }
    }

    /// The path as the client wrote it.
    pub fn dotted(&self) -> &str {
        &self.dotted
    }

    /// The first component.
    pub fn head(&self) -> &str {
        self.parts.first().map_or("", |part| &part.name)
    }

    /// Whether a component could be an array position.
    pub fn has_position(&self) -> bool {
        self.parts.iter().any(|part| part.position.is_some())
    }

    /// Calls `visit` with each value the path reaches in a document whose field named as the path's head has
    /// the value `head` (`None`: missing there), and the position in the outermost array on the way, until
    /// `visit` says true.
    #[inline]
    pub(crate) fn any_below<'a>(
        &self,
        head: Option<RawValue<'a>>,
        leaf: LeafArrays,
        visit: &mut impl FnMut(Option<RawValue<'a>>, Option<usize>) -> Verdict,
    ) -> Verdict {
        let (_, rest) = self.parts.split_first().expect("a path is never empty");
        match head {
            None => visit(None, None),
            Some(value) => PathVisitor { leaf, visit }.value(rest, value, None),
        }
    }
}

/// The component as an array position: decimal digits without leading zeros.
fn array_position(name: &str) -> Option<usize> {
    let canonical = name == "0" || !name.starts_with('0');
    (canonical && name.len() <= 9 && name.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| name.parse().ok())
        .flatten()
}

struct PathVisitor<'f, F> {
    leaf: LeafArrays,
    visit: &'f mut F,
}

impl<'a, F: FnMut(Option<RawValue<'a>>, Option<usize>) -> Verdict> PathVisitor<'_, F> {
    fn document(&mut self, parts: &[Part], document: RawDocument<'a>, outer: Option<usize>) -> Verdict {
        let (head, rest) = parts.split_first().expect("a path goes on into a document");
        match document.element(head.name.as_bytes()) {
            Some(element) => self.value(rest, element.value(), outer),
            None => (self.visit)(None, outer),
        }
    }

    #[inline]
    fn value(&mut self, rest: &[Part], value: RawValue<'a>, outer: Option<usize>) -> Verdict {
        match value {
            RawValue::Array(array) if rest.is_empty() => self.leaf_array(array, outer),
            RawValue::Array(array) => self.elements(rest, array, outer),
            value if rest.is_empty() => (self.visit)(Some(value), outer),
            RawValue::Document(document) => self.document(rest, document, outer),
            _ => (self.visit)(None, outer),
        }
    }

    fn leaf_array(&mut self, array: RawArray<'a>, outer: Option<usize>) -> Verdict {
        if self.leaf == LeafArrays::Expand {
            for (position, value) in array.iter().enumerate() {
                if (self.visit)(Some(value), outer.or(Some(position)))? {
                    return Ok(true);
                }
            }
        }
        (self.visit)(Some(RawValue::Array(array)), outer)
    }

    /// An array in the middle of the path: its documents are entered, and the element at the position that
    /// the next component names, if it names one. Other elements yield nothing, not even *missing*.
    fn elements(&mut self, parts: &[Part], array: RawArray<'a>, outer: Option<usize>) -> Verdict {
        let (head, rest) = parts.split_first().expect("a path goes on behind an array in its middle");
        for (position, value) in array.iter().enumerate() {
            let outer = outer.or(Some(position));
            if let RawValue::Document(document) = value
                && self.document(parts, document, outer)?
            {
                return Ok(true);
            }
            if head.position == Some(position) && self.addressed(rest, value, outer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An element that the path addresses by its position; when the path ends there, it is not expanded.
    fn addressed(&mut self, rest: &[Part], value: RawValue<'a>, outer: Option<usize>) -> Verdict {
        match value {
            value if rest.is_empty() => (self.visit)(Some(value), outer),
            RawValue::Document(document) => self.document(rest, document, outer),
            RawValue::Array(array) => self.elements(rest, array, outer),
            _ => Ok(false),
        }
    }
}
