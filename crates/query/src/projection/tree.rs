//! The tree of rules a projection is parsed into: one level per path component.

use std::collections::HashMap;

use crate::error::QueryError;
use crate::expression::{Expression, check_path};
use crate::matcher::Matcher;

/// What happens to the field at the end of a path.
#[derive(Debug)]
pub(super) enum ProjectionRule {
    /// The field is shown as it stands.
    Keep,
    /// The field is hidden.
    Drop,
    /// Rules for the fields below.
    Nested(ProjectionNode),
    /// The field gets the expression's value.
    Computed(Expression),
    /// A section of the array is shown (`$slice`).
    Slice(Section),
    /// The first array element that matches is shown (`$elemMatch`).
    FirstMatch(Box<Matcher>),
}

/// The section of an array that the `find` operator `$slice` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Section {
    /// Where it begins; negative counts from the end.
    pub(super) skip: i64,
    /// How many elements at most.
    pub(super) limit: i64,
}

/// Up to so many names a walk finds one quicker than a table.
const FEW: usize = 16;

/// The rules of one level, in the order in which the projection names them.
#[derive(Debug, Default)]
pub(super) struct ProjectionNode {
    fields: Vec<(Box<str>, ProjectionRule)>,
    /// Where each name stands in `fields`, once there are many. Its hash has a secret: clients choose the
    /// names.
    places: HashMap<Box<[u8]>, usize>,
    /// The number of rules that show something of an existing field.
    pub(super) visible: usize,
    /// Whether a rule here or below appends a field.
    pub(super) appends: bool,
}

impl ProjectionNode {
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (&str, &ProjectionRule)> {
        self.fields.iter().map(|(name, rule)| (&**name, rule))
    }

    /// The number of names.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<&ProjectionRule> {
        if self.fields.len() <= FEW {
            return self.fields.iter().find(|(field, _)| field.as_bytes() == name).map(|(_, rule)| rule);
        }
        self.fields.get(*self.places.get(name)?).map(|(_, rule)| rule)
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut ProjectionRule> {
        if self.fields.len() <= FEW {
            return self.fields.iter_mut().find(|(field, _)| **field == *name).map(|(_, rule)| rule);
        }
        self.fields.get_mut(*self.places.get(name.as_bytes())?).map(|(_, rule)| rule)
    }

    fn push(&mut self, name: &str, rule: ProjectionRule) {
        self.fields.push((name.into(), rule));
        if self.fields.len() > FEW {
            // All at once when the table begins, then one by one.
            for (place, (name, _)) in self.fields.iter().enumerate().skip(self.places.len()) {
                self.places.insert(name.as_bytes().into(), place);
            }
        }
    }

    /// Puts a rule at the end of a dotted path.
    pub(super) fn insert(&mut self, path: &str, rule: ProjectionRule) -> Result<(), QueryError> {
        check_path(path)?;
        self.insert_below(path, path, rule)
    }

    fn insert_below(&mut self, whole: &str, rest: &str, rule: ProjectionRule) -> Result<(), QueryError> {
        self.appends |= matches!(rule, ProjectionRule::Computed(_) | ProjectionRule::FirstMatch(_));
        let (name, below) = rest.split_once('.').map_or((rest, None), |(name, below)| (name, Some(below)));
        match (self.find_mut(name), below) {
            (Some(ProjectionRule::Nested(node)), Some(below)) => node.insert_below(whole, below, rule),
            (Some(_), Some(below)) => {
                Err(query_error!(31249, "Path collision at {whole} remaining portion {below}"))
            }
            (Some(_), None) => Err(query_error!(31250, "Path collision at {whole}")),
            (None, None) => {
                self.visible += usize::from(matches!(rule, ProjectionRule::Keep | ProjectionRule::Slice(_)));
                self.push(name, rule);
                Ok(())
            }
            (None, Some(below)) => {
                let mut node = ProjectionNode::default();
                node.insert_below(whole, below, rule)?;
                self.visible += 1;
                self.push(name, ProjectionRule::Nested(node));
                Ok(())
            }
        }
    }

    /// Collects the dotted paths that are kept; false when a rule reads more than the fields it keeps.
    pub(super) fn kept_paths(&self, prefix: &str, paths: &mut Vec<String>) -> bool {
        self.fields.iter().all(|(name, rule)| match rule {
            ProjectionRule::Keep => {
                paths.push(format!("{prefix}{name}"));
                true
            }
            ProjectionRule::Drop => true,
            ProjectionRule::Nested(node) => node.kept_paths(&format!("{prefix}{name}."), paths),
            ProjectionRule::Computed(_) | ProjectionRule::Slice(_) | ProjectionRule::FirstMatch(_) => false,
        })
    }
}
