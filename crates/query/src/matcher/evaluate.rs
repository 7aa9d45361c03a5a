//! Walking the tree for one document.

use document::{FieldIndex, RawDocument, RawValue};

use super::{FieldMatch, MatchDetails, MatchNode, Verdict};
use crate::checkpoint;
use crate::expression::{Variables, is_true};

/// From so many children of a node on, a table of the document's fields is made for them.
const MANY: usize = 64;

/// A document on its way through a filter.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'d, 'i> {
    document: RawDocument<'d>,
    /// Its fields, where many are asked for.
    fields: Option<&'i FieldIndex<'d>>,
}

impl<'d> Subject<'d, '_> {
    pub(crate) const fn of(document: RawDocument<'d>) -> Self {
        Subject { document, fields: None }
    }

    fn head(&self, name: &str) -> Option<RawValue<'d>> {
        match self.fields {
            Some(fields) => fields.get(name),
            None => self.document.get(name),
        }
    }

    /// Counts the look at one more child.
    fn pass(&self) -> Result<(), Box<crate::error::QueryError>> {
        let walked = if self.fields.is_some() { 0 } else { self.document.as_bytes().len() };
        checkpoint::pass_bytes(walked).map_err(Box::new)
    }
}

impl MatchNode {
    /// Whether the document passes this node.
    pub(crate) fn matches(
        &self,
        subject: Subject<'_, '_>,
        mut details: Option<&mut MatchDetails>,
    ) -> Verdict {
        if subject.fields.is_none() && self.has_many_children() {
            let fields = FieldIndex::new(subject.document, MANY);
            return self.matches(Subject { fields: Some(&fields), ..subject }, details);
        }
        match self {
            MatchNode::Always(verdict) => Ok(*verdict),
            MatchNode::And(children) => {
                for child in children {
                    subject.pass()?;
                    if !child.matches(subject, details.as_deref_mut())? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            MatchNode::Or(children) => any(children, subject, details),
            MatchNode::Nor(children) => Ok(!any(children, subject, None)?),
            MatchNode::Not(child) => Ok(!child.matches(subject, None)?),
            MatchNode::Field(field) => field.matches(subject, details),
            MatchNode::Expression(test) => test
                .expression
                .evaluate(subject.document, &mut Variables::new())
                .map(|value| is_true(&value))
                .map_err(Box::new),
            MatchNode::Schema(test) => test.schema.matches(subject.document).map_err(Box::new),
        }
    }

    fn has_many_children(&self) -> bool {
        match self {
            MatchNode::And(children) | MatchNode::Or(children) | MatchNode::Nor(children) => {
                children.len() > MANY
            }
            _ => false,
        }
    }
}

fn any(children: &[MatchNode], subject: Subject<'_, '_>, mut details: Option<&mut MatchDetails>) -> Verdict {
    for child in children {
        subject.pass()?;
        if child.matches(subject, details.as_deref_mut())? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl FieldMatch {
    fn matches(&self, subject: Subject<'_, '_>, details: Option<&mut MatchDetails>) -> Verdict {
        let predicate = &self.predicate;
        let head = subject.head(self.path.head());
        let Some(details) = details else {
            return self.matches_below(head);
        };
        self.path.any_below(head, predicate.leaf_arrays(), &mut |value, position| {
            let mut inner = MatchDetails::default();
            if !predicate.holds(value, Some(&mut inner))? {
                return Ok(false);
            }
            if let Some(index) = position.or(inner.array_index) {
                details.array_index = Some(index);
            }
            Ok(true)
        })
    }

    /// Whether it holds when the field named by the path's first component has this value.
    #[inline]
    pub(crate) fn matches_below(&self, head: Option<RawValue<'_>>) -> Verdict {
        if let Some(RawValue::Array(array)) = head {
            checkpoint::pass_bytes(array.as_bytes().len()).map_err(Box::new)?;
        }
        let predicate = &self.predicate;
        let mut test = |value, _| predicate.holds(value, None);
        self.path.any_below(head, predicate.leaf_arrays(), &mut test)
    }
}
