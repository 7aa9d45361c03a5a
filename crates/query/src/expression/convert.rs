//! Types of values and conversions between them.

use document::decimal::RoundingMode;
use document::{Decimal128, ElementType, Number, ObjectId, Value};

use crate::error::{QueryError, code};

use super::brief;
use super::call::Arguments;
use super::date::{as_milliseconds, iso_string};
use super::date_text::parse_date;
use super::date_zone::Zone;
use super::operators::{Operator, OperatorParameter, Signature};
use super::{Evaluated, NULL, Outcome, as_integer, is_true, nullish, type_name};

static CONVERT: Signature = Signature {
    parameters: &[
        OperatorParameter::required("input"),
        OperatorParameter::required("to"),
        OperatorParameter::optional("onError"),
        OperatorParameter::optional("onNull"),
        OperatorParameter::optional("format"),
    ],
    not_an_object: code::FAILED_TO_PARSE,
    unknown: code::FAILED_TO_PARSE,
    absent: code::FAILED_TO_PARSE,
    shorthand: false,
};

/// An operator that converts its operand to one type.
macro_rules! conversion {
    ($name:literal, $target:expr, $documentation:literal) => {
        Operator::one(
            $name,
            |operand| if nullish(&operand) { Ok(NULL) } else { convert(&operand, $target) },
            $documentation,
        )
    };
}

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::one(
        "$type",
        |operand| Ok(Some(Value::from(type_name(&operand)))),
        "the name of the operand's BSON type, or \"missing\"",
    ),
    Operator::one(
        "$isNumber",
        |operand| Ok(Some(Value::Boolean(operand.is_some_and(|value| value.is_number())))),
        "whether the operand is of a numeric type",
    ),
    Operator::named("$convert", &CONVERT, convert_named, "'input' converted to the type 'to'"),
    conversion!("$toInt", ElementType::Int32, "the operand converted to a 32-bit integer"),
    conversion!("$toLong", ElementType::Int64, "the operand converted to a 64-bit integer"),
    conversion!("$toDouble", ElementType::Double, "the operand converted to a double"),
    conversion!("$toDecimal", ElementType::Decimal128, "the operand converted to a decimal"),
    conversion!("$toString", ElementType::String, "the operand converted to a string"),
    conversion!("$toBool", ElementType::Boolean, "the operand converted to a boolean"),
    conversion!("$toDate", ElementType::DateTime, "the operand converted to a date"),
    conversion!("$toObjectId", ElementType::ObjectId, "the operand converted to an object id"),
];

/// What string operators make of an operand that is not a string; nullish is the empty string.
pub(crate) fn coerce_to_string(operand: &Evaluated) -> Result<String, QueryError> {
    match operand {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Symbol(text) | Value::JavaScript(text)) => Ok(text.to_string()),
        value if nullish(value) => Ok(String::new()),
        Some(Value::DateTime(milliseconds)) => iso_string(*milliseconds),
        Some(Value::Timestamp(timestamp)) => {
            Ok(format!("Timestamp({}, {})", timestamp.time, timestamp.increment))
        }
        Some(value) => match value.as_number() {
            Some(number) => Ok(number_text(number)),
            None => Err(query_error!(16007, "can't convert from BSON type {} to String", type_name(operand))),
        },
        None => Ok(String::new()),
    }
}

/// Doubles are written without an exponent within these powers of ten.
const PLAIN_RANGE: std::ops::Range<f64> = 1e-5..1e21;

fn number_text(number: Number) -> String {
    match number {
        Number::Int32(number) => number.to_string(),
        Number::Int64(number) => number.to_string(),
        Number::Decimal(number) => number.to_string(),
        Number::Double(number) if number.is_nan() => "NaN".to_owned(),
        Number::Double(number) if number.is_infinite() => {
            if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
        }
        Number::Double(number) if number == 0.0 || PLAIN_RANGE.contains(&number.abs()) => number.to_string(),
        Number::Double(number) => {
            let text = format!("{number:e}");
            if text.contains("e-") { text } else { text.replace('e', "e+") }
        }
    }
}

fn convert_named(mut arguments: Arguments) -> Outcome {
    let to = arguments.take("to");
    let input = arguments.take("input");
    let on_null = arguments.take("onNull");
    let on_error = arguments.take_given("onError");
    if nullish(&to) {
        return Ok(NULL);
    }
    let target = target_type(&to)?;
    if nullish(&input) {
        return Ok(on_null.or(NULL));
    }
    match (convert(&input, target), on_error) {
        (Err(error), Some(instead)) if error.code == code::CONVERSION_FAILURE => Ok(instead),
        (outcome, _) => outcome,
    }
}

fn target_type(to: &Evaluated) -> Result<ElementType, QueryError> {
    match to {
        Some(Value::String(alias)) => ElementType::from_alias(alias)
            .ok_or_else(|| QueryError::bad_value(format!("Unknown type name: {alias}"))),
        Some(Value::Document(described)) => target_type(&described.get("type").cloned()),
        _ => {
            let Some(number) = as_integer(to) else {
                bail!(
                    failed_to_parse,
                    "$convert's 'to' argument must be a string or number, but is {}",
                    type_name(to)
                );
            };
            ElementType::ALL.into_iter().find(|kind| i64::from(kind.query_code()) == number).ok_or_else(
                || {
                    QueryError::failed_to_parse(format!(
                        "In $convert, numeric value for 'to' does not correspond to a BSON type: {number}"
                    ))
                },
            )
        }
    }
}

fn failure(message: impl Into<String>) -> QueryError {
    QueryError::new(code::CONVERSION_FAILURE, message)
}

fn convert(input: &Evaluated, target: ElementType) -> Outcome {
    let converted = match target {
        ElementType::Boolean => Some(Value::Boolean(is_true(input))),
        ElementType::String => return Ok(Some(Value::String(to_text(input)?))),
        ElementType::Int32 => to_integer(input, i64::from(i32::MIN), i64::from(i32::MAX))?
            .and_then(|number| i32::try_from(number).ok())
            .map(Value::Int32),
        ElementType::Int64 => match input {
            Some(Value::DateTime(milliseconds)) => Some(Value::Int64(*milliseconds)),
            _ => to_integer(input, i64::MIN, i64::MAX)?.map(Value::Int64),
        },
        ElementType::Double => to_double(input)?.map(Value::Double),
        ElementType::Decimal128 => to_decimal(input)?.map(Value::Decimal128),
        ElementType::DateTime => to_date(input)?.map(Value::DateTime),
        ElementType::ObjectId => to_object_id(input)?.map(Value::ObjectId),
        same if input.as_ref().is_some_and(|value| value.kind() == same) => input.clone(),
        _ => None,
    };
    match converted {
        Some(value) => Ok(Some(value)),
        None => Err(failure(format!(
            "Unsupported conversion from {} to {} in $convert with no onError value",
            type_name(input),
            target.alias()
        ))),
    }
}

fn to_text(input: &Evaluated) -> Result<String, QueryError> {
    match input {
        Some(Value::ObjectId(id)) => Ok(id.to_string()),
        Some(Value::Boolean(flag)) => Ok(flag.to_string()),
        Some(Value::Binary(_) | Value::Document(_) | Value::Array(_) | Value::Regex(_)) | None => {
            Err(failure(format!(
                "Unsupported conversion from {} to string in $convert with no onError value",
                type_name(input)
            )))
        }
        other => coerce_to_string(other).map_err(|_| {
            failure(format!(
                "Unsupported conversion from {} to string in $convert with no onError value",
                type_name(other)
            ))
        }),
    }
}

fn unparsable(text: &str, why: &str) -> QueryError {
    failure(format!("Failed to parse number '{text}' in $convert with no onError value: {why}"))
}

fn to_integer(input: &Evaluated, low: i64, high: i64) -> Result<Option<i64>, QueryError> {
    let overflow = || {
        failure(format!(
            "Conversion would overflow target type in $convert with no onError value: {}",
            brief(input)
        ))
    };
    let wide = match input {
        Some(Value::Boolean(flag)) => i64::from(*flag),
        Some(Value::String(text)) => {
            if text.is_empty() {
                return Err(unparsable(text, "No digits"));
            }
            text.parse::<i64>().map_err(|error| match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                    unparsable(text, "Overflow")
                }
                _ => unparsable(text, "Did not consume whole string."),
            })?
        }
        Some(value) => match value.as_number() {
            None => return Ok(None),
            Some(number) if number.is_nan() => {
                return Err(failure(
                    "Attempt to convert NaN value to integer type in $convert with no onError value",
                ));
            }
            Some(number) if !number.is_finite() => {
                return Err(failure(
                    "Attempt to convert infinity value to integer type in $convert with no onError value",
                ));
            }
            Some(number) => number.to_i64_truncated().ok_or_else(overflow)?,
        },
        None => return Ok(None),
    };
    if (low..=high).contains(&wide) { Ok(Some(wide)) } else { Err(overflow()) }
}

fn to_double(input: &Evaluated) -> Result<Option<f64>, QueryError> {
    Ok(match input {
        Some(Value::Boolean(flag)) => Some(f64::from(u8::from(*flag))),
        Some(Value::DateTime(milliseconds)) => Some(*milliseconds as f64),
        Some(Value::String(text)) => {
            if text.is_empty() {
                return Err(unparsable(text, "Empty string"));
            }
            Some(text.parse().map_err(|_| unparsable(text, "Did not consume whole string."))?)
        }
        Some(value) => match value.as_number() {
            Some(Number::Decimal(number)) if number.is_finite() && number.to_f64().is_infinite() => {
                return Err(failure(format!(
                    "Conversion would overflow target type in $convert with no onError value: {number}"
                )));
            }
            number => number.map(Number::to_f64),
        },
        None => None,
    })
}

fn to_decimal(input: &Evaluated) -> Result<Option<Decimal128>, QueryError> {
    Ok(match input {
        Some(Value::Boolean(flag)) => Some(Decimal128::from(i32::from(*flag))),
        Some(Value::DateTime(milliseconds)) => Some(Decimal128::from(*milliseconds)),
        Some(Value::String(text)) => {
            Some(Decimal128::parse(text).map_err(|_| unparsable(text, "Failed to parse string to decimal"))?)
        }
        Some(value) => value.as_number().map(Number::to_decimal),
        None => None,
    })
}

fn to_date(input: &Evaluated) -> Result<Option<i64>, QueryError> {
    let overflow = || {
        failure(format!(
            "Conversion would overflow target type in $convert with no onError value: {}",
            brief(input)
        ))
    };
    Ok(match input {
        Some(Value::String(text)) => Some(parse_date(text, &Zone::utc(), false)?),
        Some(Value::Int64(milliseconds)) => Some(*milliseconds),
        Some(Value::Double(milliseconds)) => {
            Some(Number::Double(*milliseconds).to_i64_truncated().ok_or_else(overflow)?)
        }
        Some(Value::Decimal128(milliseconds)) => Some(
            milliseconds.round_to_place(0, RoundingMode::HalfEven).to_i64_truncated().ok_or_else(overflow)?,
        ),
        Some(Value::DateTime(_) | Value::Timestamp(_) | Value::ObjectId(_)) => Some(as_milliseconds(input)?),
        _ => None,
    })
}

fn to_object_id(input: &Evaluated) -> Result<Option<ObjectId>, QueryError> {
    Ok(match input {
        Some(Value::ObjectId(id)) => Some(*id),
        Some(Value::String(text)) => Some(ObjectId::parse_hex(text).ok_or_else(|| {
            let why = if text.len() == 24 {
                "Invalid character found in hex string: \"".to_owned() + text + "\""
            } else {
                format!("Invalid string length for parsing to OID, expected 24 but found {}", text.len())
            };
            failure(format!("Failed to parse objectId '{text}' in $convert with no onError value: {why}"))
        })?),
        _ => None,
    })
}
