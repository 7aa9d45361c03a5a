//! Compiled filters: the whole find language, parsed once, evaluated on raw BSON.
//!
//! ```text
//!  {a: {$gt: 1}, "b.c": /x/, $or: […]}
//!        │ parse            (operators: one table for fields, one for the top level)
//!        ▼
//!  And ─┬─ Field a   Compare > 1          a tree of MatchNode; the planner reads it
//!       ├─ Field b.c Pattern /x/
//!       └─ Or …
//!        │ FieldScan        (simple conjuncts ordered by their first path component)
//!        ▼
//!  one pass over the document's elements, comparing name bytes; then whatever is left of the tree
//! ```
//!
//! A path reaches a *list* of values, because arrays on the way fan out ([`MatchPath::any`]); a predicate
//! holds for a document when it holds for one of them. `$ne`, `$nin` and `$not` negate the whole, not the
//! single value.
//!
//! Source: MongoDB manual, "Query and Projection Operators" and "Query an Array".

mod bits;
mod constant;
mod evaluate;
mod field_operators;
mod in_list;
mod parse;
mod path;
mod pattern;
mod predicate;
mod scan;
mod serialize;
mod top_operators;
mod tree;
mod type_set;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use document::{Document, RawDocument, RawValue, Value};

pub use bits::{BitTest, BitTestKind};
pub use constant::Constant;
pub use field_operators::{FieldOperator, field_operators};
pub use in_list::InList;
pub use path::{LeafArrays, MatchPath};
pub use pattern::Pattern;
pub use predicate::{Comparison, ComparisonOperator, Predicate, Remainder, ValueTest};
pub use top_operators::{TopOperator, top_operators};
pub use tree::{ExpressionTest, FieldMatch, MatchNode, SchemaTest};
pub use type_set::TypeSet;

pub(crate) use predicate::is_nan;

use crate::environment::Environment;
use crate::error::QueryError;
use evaluate::Subject;
use scan::FieldScan;

/// A filter that weighs more may take long on a single document.
const HEAVY: u32 = 256;

/// What a match says beyond yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MatchDetails {
    /// Position, in the array that the filter went through, of the first element that matched: what the
    /// positional `$` of updates and projections stands for. `None` when no array was involved.
    pub array_index: Option<usize>,
}

/// A compiled filter. Cheap to clone; shared between threads.
#[derive(Debug, Clone)]
pub struct Matcher {
    root: Arc<MatchNode>,
    scan: Option<Arc<FieldScan>>,
    is_heavy: bool,
}

impl Matcher {
    /// Compiles a filter.
    ///
    /// # Errors
    /// What MongoDB answers to a malformed filter, mostly `BadValue`; a constant of `$expr` that cannot be
    /// evaluated.
    pub fn parse(filter: RawDocument<'_>, environment: &Environment) -> Result<Self, QueryError> {
        // The environment of a batch may hold the error of an earlier statement.
        let is_first = environment.check_constants().is_ok();
        let matcher = Self::parse_stage(filter, environment)?;
        if is_first {
            environment.check_constants()?;
        }
        Ok(matcher)
    }

    /// Compiles the filter of one stage of a pipeline, whose constants are judged together with those of the
    /// other stages.
    pub(crate) fn parse_stage(
        filter: RawDocument<'_>,
        environment: &Environment,
    ) -> Result<Self, QueryError> {
        Ok(Self::from_node(parse::filter(filter, environment)?))
    }

    /// The filter that a tree stands for.
    pub fn from_node(root: MatchNode) -> Self {
        let root = Arc::new(root);
        let scan = FieldScan::build(&root).map(Arc::new);
        let is_heavy = root.weight() > HEAVY;
        Self { root, scan, is_heavy }
    }

    /// The filter `{path: {$eq: value}}`; `None` where equality is more than a comparison.
    pub(crate) fn equal(path: &MatchPath, value: &Value) -> Option<Self> {
        let is_plain = matches!(
            value,
            Value::Int32(_)
                | Value::Int64(_)
                | Value::Double(_)
                | Value::String(_)
                | Value::ObjectId(_)
                | Value::Boolean(_)
                | Value::DateTime(_)
        );
        is_plain.then(|| {
            let operand = value.with_raw(Constant::new);
            let predicate = Predicate::Compare(Comparison { operator: ComparisonOperator::Equal, operand });
            Self::from_node(MatchNode::Field(FieldMatch { path: path.clone(), predicate }))
        })
    }

    /// The filter that every document passes.
    pub fn everything() -> Self {
        Self::from_node(MatchNode::And(Vec::new()))
    }

    /// The parsed tree.
    pub fn root(&self) -> &MatchNode {
        &self.root
    }

    /// Whether a single document may take long: the filter computes, or has very many conditions.
    pub const fn is_heavy(&self) -> bool {
        self.is_heavy
    }

    /// Whether the filter is empty, so that every document passes.
    pub fn is_everything(&self) -> bool {
        matches!(self.root(), MatchNode::And(children) if children.is_empty())
    }

    /// Whether the document passes.
    ///
    /// # Errors
    /// An expression of `$expr` failed, or a regular expression passed its back-tracking limit.
    pub fn matches(&self, document: RawDocument<'_>) -> Result<bool, QueryError> {
        match &self.scan {
            Some(scan) => scan.matches(&self.root, document),
            None => self.root.matches(Subject::of(document), None),
        }
        .map_err(|error| *error)
    }

    /// As [`Matcher::matches`], and which array element matched.
    ///
    /// # Errors
    /// As [`Matcher::matches`].
    pub fn matches_positional(&self, document: RawDocument<'_>) -> Result<Option<MatchDetails>, QueryError> {
        let mut details = MatchDetails::default();
        let matched = self.root.matches(Subject::of(document), Some(&mut details)).map_err(|error| *error)?;
        Ok(matched.then_some(details))
    }

    /// The filter written out, every operator explicit, as `explain` shows it.
    pub fn to_document(&self) -> Document {
        self.root.to_document()
    }
}

/// The conditions that an update's `$pull` puts on array elements: either a filter on documents or tests of a
/// value itself.
#[derive(Debug, Clone)]
pub struct ValueMatcher {
    tests: Vec<ValueTest>,
}

impl ValueMatcher {
    /// Compiles an operator document such as `{$gt: 3, $lt: 9}`, a regular expression, or a value to equal.
    ///
    /// # Errors
    /// As [`Matcher::parse`].
    pub fn parse(condition: RawValue<'_>, environment: &Environment) -> Result<Self, QueryError> {
        Ok(Self { tests: parse::value_tests("", condition, environment)? })
    }

    /// Whether the value passes; arrays are not entered. `None` stands for a missing value.
    ///
    /// # Errors
    /// A regular expression passed its back-tracking limit.
    pub fn matches(&self, value: Option<RawValue<'_>>) -> Result<bool, QueryError> {
        predicate::all_hold(&self.tests, value).map_err(|error| *error)
    }
}

/// Outcome of one test; the error is boxed because it is rare and the result is returned a lot.
pub(crate) type Verdict = Result<bool, Box<QueryError>>;
