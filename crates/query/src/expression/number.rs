//! Numbers as operands: integral ones for positions and counts, truncated ones for lenient operators.

use document::{Number, Value};

use super::Evaluated;

/// The integer, when the operand is a number of any type that is integral and fits.
pub(crate) fn as_integer(operand: &Evaluated) -> Option<i64> {
    operand.as_ref()?.as_i64_exact()
}

/// The integer, when the operand is integral and fits 32 bits.
pub(crate) fn as_i32(operand: &Evaluated) -> Option<i32> {
    i32::try_from(as_integer(operand)?).ok()
}

/// The integer part of a number, at the nearest limit when it does not fit.
pub(crate) fn truncated(value: &Value) -> i64 {
    value.as_number().map_or(0, Number::to_i64_saturating)
}
