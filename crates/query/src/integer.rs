//! Numbers that have to be whole, in the words of MongoDB's refusals.

use document::RawValue;
use document::quote::element;

use crate::error::{QueryError, code};

/// Reads a whole number of any numeric type.
///
/// # Errors
/// `FailedToParse` in the words of MongoDB's integer parsing.
pub(crate) fn whole_number(name: &str, value: RawValue<'_>) -> Result<i64, QueryError> {
    let refuse =
        |reason: &str| Err(query_error!(code::FAILED_TO_PARSE, "{reason} in: {}", element(name, value)));
    let plain = |reason: &str| Err(query_error!(code::FAILED_TO_PARSE, "{reason}: {}", element(name, value)));
    match value {
        RawValue::Int32(number) => Ok(number.into()),
        RawValue::Int64(number) => Ok(number),
        RawValue::Double(number) if number.is_nan() => refuse("Expected an integer, but found NaN"),
        RawValue::Double(number) if !(-TWO_TO_63..TWO_TO_63).contains(&number) => {
            plain("Cannot represent as a 64-bit integer")
        }
        RawValue::Double(number) if number.fract() != 0.0 => plain("Expected an integer"),
        RawValue::Double(number) => Ok(number as i64),
        RawValue::Decimal128(_) => value.as_i64_exact().map_or_else(|| plain("Expected an integer"), Ok),
        _ => refuse("Expected a number"),
    }
}

/// As [`whole_number`], zero or more.
///
/// # Errors
/// As [`whole_number`].
pub(crate) fn whole_number_from_zero(name: &str, value: RawValue<'_>) -> Result<i64, QueryError> {
    let found = whole_number(name, value)?;
    if found < 0 {
        let message = format!("Expected a non-negative number in: {}", element(name, value));
        return Err(QueryError::new(code::FAILED_TO_PARSE, message));
    }
    Ok(found)
}

/// The first number beyond `i64`, exactly representable as a double.
pub(crate) const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The whole part of a number, when it fits `i64`; `None` for everything else.
pub(crate) fn truncated(value: RawValue<'_>) -> Option<i64> {
    match value {
        RawValue::Int32(number) => Some(number.into()),
        RawValue::Int64(number) => Some(number),
        RawValue::Double(number) => (-TWO_TO_63..TWO_TO_63).contains(&number).then_some(number as i64),
        RawValue::Decimal128(number) => number.to_i64_truncated(),
        _ => None,
    }
}
