//! The parsed filter as a tree.

use std::sync::Arc;

use document::{Document, Value};

use super::{MatchPath, Predicate, ValueTest};
use crate::expression::Expression;
use crate::schema::Schema;

/// One node of a filter. The planner reads it; `Matcher` evaluates it.
#[derive(Debug, Clone)]
pub enum MatchNode {
    /// `$alwaysTrue`, `$alwaysFalse`, and what those become under other nodes.
    Always(bool),
    /// All children hold. Empty: everything matches.
    And(Vec<MatchNode>),
    /// One child holds.
    Or(Vec<MatchNode>),
    /// No child holds.
    Nor(Vec<MatchNode>),
    /// The child does not hold.
    Not(Box<MatchNode>),
    /// A path and a predicate.
    Field(FieldMatch),
    /// `$expr`.
    Expression(Arc<ExpressionTest>),
    /// `$jsonSchema`.
    Schema(Arc<SchemaTest>),
}

/// A predicate on the values that a path reaches.
#[derive(Debug, Clone)]
pub struct FieldMatch {
    /// The path.
    pub path: MatchPath,
    /// Holds for the document when it holds for one of the values.
    pub predicate: Predicate,
}

/// `$expr`: the compiled expression and what the client wrote.
#[derive(Debug)]
pub struct ExpressionTest {
    pub(crate) expression: Expression,
    pub(crate) source: Value,
}

/// `$jsonSchema`: the compiled schema and what the client wrote.
#[derive(Debug)]
pub struct SchemaTest {
    pub(crate) schema: Schema,
    pub(crate) source: Document,
}

impl MatchNode {
    /// The conjunction of `children`, flat: nested conjunctions are opened, a single child stands for itself.
    pub fn all(children: impl IntoIterator<Item = MatchNode>) -> Self {
        let mut flat = Vec::new();
        for child in children {
            match child {
                MatchNode::And(inner) => flat.extend(inner),
                MatchNode::Always(true) => {}
                other => flat.push(other),
            }
        }
        match flat.len() {
            1 => flat.swap_remove(0),
            _ => MatchNode::And(flat),
        }
    }

    /// About how many plain comparisons a document is worth.
    pub(crate) fn weight(&self) -> u32 {
        let all = |children: &[MatchNode]| {
            children.iter().fold(0, |sum: u32, child| sum.saturating_add(child.weight()))
        };
        match self {
            MatchNode::Always(_) => 0,
            MatchNode::And(children) | MatchNode::Or(children) | MatchNode::Nor(children) => all(children),
            MatchNode::Not(child) => child.weight(),
            MatchNode::Field(field) => field.predicate.weight(),
            // They compute, for as long as they like.
            MatchNode::Expression(_) | MatchNode::Schema(_) => u32::MAX,
        }
    }

    /// The node of a test at a path.
    pub fn of_test(path: &MatchPath, test: ValueTest) -> Self {
        match test {
            ValueTest::Is(predicate) => MatchNode::Field(FieldMatch { path: path.clone(), predicate }),
            ValueTest::Not(tests) => MatchNode::Not(Box::new(Self::of_tests(path, tests))),
        }
    }

    /// The conjunction of tests at a path.
    pub fn of_tests(path: &MatchPath, tests: Vec<ValueTest>) -> Self {
        Self::all(tests.into_iter().map(|test| Self::of_test(path, test)))
    }
}
