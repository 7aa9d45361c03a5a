//! Which keys of an index field can belong to documents that pass a node of the filter.

use super::FieldOrder;
use super::predicate_bounds::{Bounded, of_predicate};
use super::{IndexKeyPart, Intervals};
use crate::matcher::{FieldMatch, MatchNode, Matcher, Predicate};

/// The values that a field has in documents that pass, where it never holds arrays; `None`: any.
pub fn values_of_field(filter: &Matcher, path: &str) -> Option<Intervals> {
    let field = IndexKeyPart::new(path, FieldOrder::Ascending);
    FieldView::of(&field).bounds(filter.root()).map(|bounded| bounded.intervals)
}

/// An index field, seen from the documents that a filter looks at: the collection's own, or, inside
/// `$elemMatch`, the elements of an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldView<'i> {
    /// The path from here.
    path: &'i str,
    /// Whether arrays lie on the path from here.
    multikey: bool,
    field: &'i IndexKeyPart,
    /// How many components of the field's path lie before here.
    depth: usize,
}

impl<'i> FieldView<'i> {
    pub(crate) fn of(field: &'i IndexKeyPart) -> Self {
        Self { path: field.path.dotted(), multikey: field.is_multikey(), field, depth: 0 }
    }

    /// The same field seen from the elements of the array at `path`.
    fn below(self, path: &str) -> Option<Self> {
        let rest = self.path.strip_prefix(path)?.strip_prefix('.')?;
        let depth = self.depth + path.split('.').count();
        let multikey = self.field.multikey.iter().any(|components| *components > depth);
        Some(Self { path: rest, multikey, depth, ..self })
    }

    /// The intervals of a node; `None` when any key may do.
    pub(crate) fn bounds(self, node: &MatchNode) -> Option<Bounded> {
        match node {
            MatchNode::Always(false) => Some(Bounded::exact(Intervals::none())),
            MatchNode::Always(true) | MatchNode::Expression(_) | MatchNode::Schema(_) => None,
            MatchNode::Field(field) => self.field_bounds(field),
            MatchNode::Not(child) => self.negated(child),
            MatchNode::Or(children) => self.any_of(children),
            MatchNode::And(children) => self.all_of(children.iter().map(|child| self.bounds(child))),
            MatchNode::Nor(children) => self.all_of(children.iter().map(|child| self.negated(child))),
        }
    }

    fn field_bounds(self, field: &FieldMatch) -> Option<Bounded> {
        if field.path.dotted() == self.path {
            return of_predicate(&field.predicate, self.multikey);
        }
        let Predicate::ElementObject(filter) = &field.predicate else {
            return None;
        };
        let inside = self.below(field.path.dotted())?.bounds(filter)?;
        Some(Bounded::inexact(inside.intervals))
    }

    /// A document that fails the child has no key in the child's exact intervals; it has some key, so that
    /// one lies outside. With arrays, documents that pass the child may have such keys, too.
    fn negated(self, child: &MatchNode) -> Option<Bounded> {
        let inner = self.bounds(child)?;
        inner.exact.then(|| Bounded { intervals: inner.intervals.complement(), exact: !self.multikey })
    }

    fn any_of(self, children: &[MatchNode]) -> Option<Bounded> {
        let mut exact = true;
        let mut parts = Vec::with_capacity(children.len());
        for child in children {
            let one = self.bounds(child)?;
            exact &= one.exact;
            parts.push(one.intervals);
        }
        Some(Bounded { intervals: Intervals::union_of(parts), exact })
    }

    /// With arrays, different elements may satisfy the children: the keys of only one of them can be asked
    /// for.
    fn all_of(self, children: impl Iterator<Item = Option<Bounded>>) -> Option<Bounded> {
        let mut exact = true;
        let mut parts: Vec<Intervals> = Vec::new();
        for child in children {
            let Some(child) = child else {
                exact = false;
                continue;
            };
            exact &= child.exact;
            if self.multikey && !parts.is_empty() {
                exact = false;
                continue;
            }
            parts.push(child.intervals);
        }
        (!parts.is_empty()).then(|| Bounded { intervals: Intervals::intersection_of(parts), exact })
    }
}
