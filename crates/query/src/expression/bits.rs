//! Bitwise operators on 32-bit and 64-bit integers.

use document::Value;

use crate::error::QueryError;

use super::operators::Operator;
use super::{Evaluated, NULL, Outcome, null_if_nullish, nullish, type_name};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::many(
        "$bitAnd",
        |all| fold(all, "$bitAnd", -1, |left, right| left & right),
        "the bits set in every integer",
    ),
    Operator::many(
        "$bitOr",
        |all| fold(all, "$bitOr", 0, |left, right| left | right),
        "the bits set in any integer",
    ),
    Operator::many(
        "$bitXor",
        |all| fold(all, "$bitXor", 0, |left, right| left ^ right),
        "the bits set in an odd number of the integers",
    ),
    Operator::one("$bitNot", not, "the integer with every bit turned over"),
];

fn fold(operands: Vec<Evaluated>, name: &str, start: i32, combine: fn(i64, i64) -> i64) -> Outcome {
    let (mut bits, mut wide) = (i64::from(start), false);
    for operand in &operands {
        match operand {
            Some(Value::Int32(number)) => bits = combine(bits, i64::from(*number)),
            Some(Value::Int64(number)) => {
                wide = true;
                bits = combine(bits, *number);
            }
            value if nullish(value) => return Ok(NULL),
            other => return Err(unsupported(name, other)),
        }
    }
    Ok(Some(match i32::try_from(bits) {
        Ok(narrow) if !wide => Value::Int32(narrow),
        _ => Value::Int64(bits),
    }))
}

fn not(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    match operand {
        Some(Value::Int32(number)) => Ok(Some(Value::Int32(!number))),
        Some(Value::Int64(number)) => Ok(Some(Value::Int64(!number))),
        other => Err(unsupported("$bitNot", &other)),
    }
}

fn unsupported(name: &str, value: &Evaluated) -> QueryError {
    QueryError::type_mismatch(format!(
        "{name} only supports int and long operands, not {}.",
        type_name(value)
    ))
}
