//! Whether an index that leaves documents out (sparse, partial) has all that a filter can match.

use std::borrow::Borrow;
use std::cell::Cell;

use document::{RawValue, compare};

use super::IndexDescription;
use crate::matcher::{Comparison, ComparisonOperator, FieldMatch, MatchNode, Predicate};

/// How many pairs of conditions are compared before the answer is no: each level of one tree meets each of
/// the other, so that deep ones would never be done.
const MOST_COMPARED: u32 = 10_000;

/// Whether every document that passes all `conjuncts` is in the index.
pub(crate) fn is_complete_for<N: Borrow<MatchNode>>(index: &IndexDescription, conjuncts: &[N]) -> bool {
    let left = Cell::new(MOST_COMPARED.max(u32::try_from(conjuncts.len()).unwrap_or(u32::MAX)));
    sparse_is_complete(index, conjuncts)
        && index.partial.as_ref().is_none_or(|partial| implies(conjuncts, partial.root(), &left))
}

/// A sparse index leaves out the documents that have none of its fields: some condition must fail for those.
fn sparse_is_complete<N: Borrow<MatchNode>>(index: &IndexDescription, conjuncts: &[N]) -> bool {
    !index.sparse
        || index.fields.iter().any(|field| {
            // What a number in a path means is not the same for filters and keys.
            !field.path.has_position()
                && conjuncts.iter().any(|conjunct| fails_without(conjunct.borrow(), field.path.dotted()))
        })
}

/// Whether documents without a value at `path` fail the node.
fn fails_without(node: &MatchNode, path: &str) -> bool {
    match node {
        MatchNode::Always(verdict) => !verdict,
        MatchNode::Field(field) => field_fails_without(field, path),
        // Where arrays lie on the path, nothing is reached at all, and the negation holds.
        MatchNode::Not(child) => match child.as_ref() {
            MatchNode::Field(field) => {
                field.path.dotted() == path && !path.contains('.') && holds_for_missing(&field.predicate)
            }
            _ => false,
        },
        MatchNode::And(children) => children.iter().any(|child| fails_without(child, path)),
        MatchNode::Or(children) => children.iter().all(|child| fails_without(child, path)),
        MatchNode::Nor(_) | MatchNode::Expression(_) | MatchNode::Schema(_) => false,
    }
}

fn field_fails_without(field: &FieldMatch, path: &str) -> bool {
    if field.path.dotted() == path {
        return !holds_for_missing(&field.predicate);
    }
    // An array has an element that passes; a document without the path has no such element when every one
    // needs it.
    match (&field.predicate, path.strip_prefix(field.path.dotted()).and_then(|rest| rest.strip_prefix('.'))) {
        (Predicate::ElementObject(filter), Some(rest)) => fails_without(filter, rest),
        _ => false,
    }
}

/// Whether a missing value passes.
fn holds_for_missing(predicate: &Predicate) -> bool {
    predicate.holds(None, None).unwrap_or(true)
}

/// Whether documents that pass all `conjuncts` certainly pass `wanted`. May say no where yes would be right.
fn implies<N: Borrow<MatchNode>>(conjuncts: &[N], wanted: &MatchNode, left: &Cell<u32>) -> bool {
    match wanted {
        MatchNode::And(children) => children.iter().all(|child| implies(conjuncts, child, left)),
        MatchNode::Always(verdict) => *verdict,
        wanted => {
            let by_part = match wanted {
                MatchNode::Or(children) => children.iter().any(|child| implies(conjuncts, child, left)),
                _ => false,
            };
            by_part || conjuncts.iter().any(|conjunct| node_implies(conjunct.borrow(), wanted, left))
        }
    }
}

fn node_implies(given: &MatchNode, wanted: &MatchNode, left: &Cell<u32>) -> bool {
    if left.get() == 0 {
        return false;
    }
    left.set(left.get() - 1);
    match (given, wanted) {
        (MatchNode::Always(false), _) => true,
        (MatchNode::And(children), _) => implies(children, wanted, left),
        (MatchNode::Or(children), _) => {
            children.iter().all(|child| implies(std::slice::from_ref(child), wanted, left))
        }
        (MatchNode::Field(given), MatchNode::Field(wanted)) => {
            given.path == wanted.path && predicate_implies(&given.predicate, &wanted.predicate)
        }
        (MatchNode::Not(given), MatchNode::Not(wanted)) => node_implies(wanted, given, left),
        _ => false,
    }
}

/// For the same path: a value that passes `given` passes `wanted`.
fn predicate_implies(given: &Predicate, wanted: &Predicate) -> bool {
    match (given, wanted) {
        (given, Predicate::Exists) => !holds_for_missing(given),
        (Predicate::Compare(given), Predicate::Compare(wanted)) => comparison_implies(given, wanted),
        (Predicate::In(given), Predicate::In(wanted)) if given.is_subset_of(wanted) => true,
        (Predicate::In(given), wanted) => {
            given.patterns().is_empty()
                && given.values().iter().all(|value| value_implies(value.raw(), wanted))
        }
        (Predicate::Compare(given), wanted) if given.operator == ComparisonOperator::Equal => {
            value_implies(given.operand.raw(), wanted)
        }
        (Predicate::Type(given), Predicate::Type(wanted)) => given.kinds().all(|kind| wanted.contains(kind)),
        (Predicate::Pattern(given), Predicate::Pattern(wanted)) => given == wanted,
        (Predicate::Size(given), Predicate::Size(wanted)) => given == wanted,
        (Predicate::Remainder(given), Predicate::Remainder(wanted)) => given == wanted,
        (Predicate::Bits(given), Predicate::Bits(wanted)) => given == wanted,
        (Predicate::Nothing, _) => true,
        _ => false,
    }
}

/// Whether a value equal to `value` passes. Null also stands for missing fields and arrays match in two ways,
/// so those need the very same operand, which other rules see. Equal numbers may differ in type.
fn value_implies(value: RawValue<'_>, wanted: &Predicate) -> bool {
    let plain = !matches!(value, RawValue::Null | RawValue::Array(_) | RawValue::Undefined);
    let by_value = matches!(
        wanted,
        Predicate::Compare(_) | Predicate::In(_) | Predicate::Pattern(_) | Predicate::Remainder(_)
    );
    plain && by_value && wanted.holds(Some(value), None).unwrap_or(false)
}

fn comparison_implies(given: &Comparison, wanted: &Comparison) -> bool {
    use ComparisonOperator as O;
    let (left, right) = (given.operand.raw(), wanted.operand.raw());
    if given == wanted {
        return true;
    }
    if given.operator == O::Equal {
        return value_implies(left, &Predicate::Compare(wanted.clone()))
            || (wanted.operator.allows_equal() && left == right);
    }
    let same_class = document::canonical_type(left.kind()) == document::canonical_type(right.kind());
    let extreme = matches!(left, RawValue::MinKey | RawValue::MaxKey);
    if !same_class || extreme || crate::matcher::is_nan(left) || crate::matcher::is_nan(right) {
        return false;
    }
    let ordering = compare(left, right);
    match (given.operator, wanted.operator) {
        (O::Less, O::Less | O::LessOrEqual) | (O::LessOrEqual, O::LessOrEqual) => ordering.is_le(),
        (O::LessOrEqual, O::Less) => ordering.is_lt(),
        (O::Greater, O::Greater | O::GreaterOrEqual) | (O::GreaterOrEqual, O::GreaterOrEqual) => {
            ordering.is_ge()
        }
        (O::GreaterOrEqual, O::Greater) => ordering.is_gt(),
        _ => false,
    }
}
