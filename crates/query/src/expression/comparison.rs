//! Comparison in MongoDB's cross-type order, and `$not`.

use std::cmp::Ordering;

use document::Value;

use super::operators::Operator;
use super::{Evaluated, Outcome, is_true};

/// A comparison operator made of a test on the order of its two operands.
macro_rules! comparison {
    ($name:literal, $test:expr, $documentation:literal) => {
        Operator::two($name, |left, right| boolean($test(compare_evaluated(&left, &right))), $documentation)
    };
}

pub(crate) static OPERATORS: &[Operator] = &[
    comparison!("$eq", Ordering::is_eq, "whether two values are equal"),
    comparison!("$ne", Ordering::is_ne, "whether two values differ"),
    comparison!("$gt", Ordering::is_gt, "whether the first value sorts after the second"),
    comparison!("$gte", Ordering::is_ge, "whether the first value does not sort before the second"),
    comparison!("$lt", Ordering::is_lt, "whether the first value sorts before the second"),
    comparison!("$lte", Ordering::is_le, "whether the first value does not sort after the second"),
    Operator::two("$cmp", cmp, "-1, 0 or 1 as the first value sorts before, with or after the second"),
    Operator::one(
        "$not",
        |operand| boolean(!is_true(&operand)),
        "whether the operand does not count as true",
    ),
];

fn boolean(flag: bool) -> Outcome {
    Ok(Some(Value::Boolean(flag)))
}

fn cmp(left: Evaluated, right: Evaluated) -> Outcome {
    Ok(Some(Value::Int32(compare_evaluated(&left, &right) as i32)))
}

/// The order of two values; a missing one sorts with undefined: after `MinKey`, before null.
pub(crate) fn compare_evaluated(left: &Evaluated, right: &Evaluated) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => left.compare(right),
        (None, None) => Ordering::Equal,
        (None, Some(Value::MinKey)) => Ordering::Greater,
        (Some(Value::MinKey), None) => Ordering::Less,
        (None, Some(Value::Undefined)) | (Some(Value::Undefined), None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
    }
}
