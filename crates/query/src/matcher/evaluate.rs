//! Walking the tree for one document.

use document::{RawDocument, RawValue};

use super::{FieldMatch, MatchDetails, MatchNode, Verdict};
use crate::expression::{Variables, is_true};

impl MatchNode {
    /// Whether the document passes this node.
    pub(crate) fn matches(
        &self,
        document: RawDocument<'_>,
        mut details: Option<&mut MatchDetails>,
    ) -> Verdict {
        match self {
            MatchNode::Always(verdict) => Ok(*verdict),
            MatchNode::And(children) => {
                for child in children {
                    if !child.matches(document, details.as_deref_mut())? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            MatchNode::Or(children) => any(children, document, details),
            MatchNode::Nor(children) => Ok(!any(children, document, None)?),
            MatchNode::Not(child) => Ok(!child.matches(document, None)?),
            MatchNode::Field(field) => field.matches(document, details),
            MatchNode::Expression(test) => test
                .expression
                .evaluate(document, &mut Variables::new())
                .map(|value| is_true(&value))
                .map_err(Box::new),
            MatchNode::Schema(test) => test.schema.matches(document).map_err(Box::new),
        }
    }
}

fn any(children: &[MatchNode], document: RawDocument<'_>, mut details: Option<&mut MatchDetails>) -> Verdict {
    for child in children {
        if child.matches(document, details.as_deref_mut())? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl FieldMatch {
    fn matches(&self, document: RawDocument<'_>, details: Option<&mut MatchDetails>) -> Verdict {
        let predicate = &self.predicate;
        let Some(details) = details else {
            let mut test = |value, _| predicate.holds(value, None);
            return self.path.any(document, predicate.leaf_arrays(), &mut test);
        };
        self.path.any(document, predicate.leaf_arrays(), &mut |value, position| {
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
        let predicate = &self.predicate;
        let mut test = |value, _| predicate.holds(value, None);
        self.path.any_below(head, predicate.leaf_arrays(), &mut test)
    }
}
