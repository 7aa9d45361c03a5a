//! Arithmetic with MongoDB's promotion: int, long, double, decimal; dates count in milliseconds.

use document::decimal::RoundingMode;
use document::{Decimal128, Number, Value};

use crate::error::{QueryError, code};

use super::accumulate::Sum;
use super::brief;
use super::operators::Operator;
use super::{Evaluated, NULL, Outcome, as_integer, null_if_nullish, nullish, type_name};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::many("$add", add, "the sum of numbers, or a date and numbers of milliseconds"),
    Operator::two("$subtract", subtract, "the difference of numbers or dates, or a date less milliseconds"),
    Operator::many("$multiply", multiply, "the product of the numbers"),
    Operator::two("$divide", divide, "the quotient of two numbers, never an integer type"),
    Operator::two("$mod", modulo, "the remainder of a division, with the dividend's sign"),
    Operator::one("$abs", abs, "the number without its sign"),
    Operator::one("$ceil", ceil, "the lowest integer that is not below the number"),
    Operator::one("$floor", floor, "the highest integer that is not above the number"),
    Operator::between(
        "$round",
        (1, 2),
        |all| to_place(all, "$round", RoundingMode::HalfEven),
        "the number rounded to a decimal place, ties to even",
    ),
    Operator::between(
        "$trunc",
        (1, 2),
        |all| to_place(all, "$trunc", RoundingMode::Truncate),
        "the number cut off at a decimal place",
    ),
    Operator::one("$sqrt", sqrt, "the square root of a number that is not negative"),
    Operator::two("$pow", pow, "the first number to the power of the second"),
    Operator::one("$exp", exp, "e to the power of the number"),
    Operator::one("$ln", ln, "the natural logarithm of a positive number"),
    Operator::one("$log10", log10, "the decimal logarithm of a positive number"),
    Operator::two("$log", log, "the logarithm of a positive number to a base"),
];

fn number(value: impl Into<Number>) -> Outcome {
    Ok(Some(Value::from(value.into())))
}

fn double(value: f64) -> Outcome {
    Ok(Some(Value::Double(value)))
}

fn decimal(value: Decimal128) -> Outcome {
    Ok(Some(Value::Decimal128(value)))
}

/// The number in the only operand of a numeric function.
pub(crate) fn numeric(operand: &Evaluated, name: &str) -> Result<Number, QueryError> {
    operand
        .as_ref()
        .and_then(Value::as_number)
        .ok_or_else(|| query_error!(28765, "{name} only supports numeric types, not {}", type_name(operand)))
}

fn add(operands: Vec<Evaluated>) -> Outcome {
    let mut total = Sum::default();
    let mut date = None;
    for operand in &operands {
        match operand {
            Some(Value::DateTime(milliseconds)) => {
                if date.replace(*milliseconds).is_some() {
                    bail!(16612, "only one date allowed in an $add expression");
                }
            }
            value if nullish(value) => return Ok(NULL),
            Some(value) => match value.as_number() {
                Some(number) => total.add(number),
                None => bail!(
                    type_mismatch,
                    "$add only supports numeric or date types, not {}",
                    type_name(operand)
                ),
            },
            None => return Ok(NULL),
        }
    }
    match date {
        None => number(total.total()),
        Some(milliseconds) => date_plus(milliseconds, total.total(), 1),
    }
}

fn date_plus(milliseconds: i64, offset: Number, sign: i64) -> Outcome {
    let rounded = match offset {
        Number::Double(offset) => Number::Double(offset.round()).to_i64_truncated(),
        Number::Decimal(offset) => offset.round_to_place(0, RoundingMode::HalfEven).to_i64_truncated(),
        other => other.to_i64_exact(),
    };
    rounded
        .and_then(|offset| offset.checked_mul(sign))
        .and_then(|offset| milliseconds.checked_add(offset))
        .map(|moved| Some(Value::DateTime(moved)))
        .ok_or_else(|| QueryError::new(code::OVERFLOW, "date overflow"))
}

fn subtract(left: Evaluated, right: Evaluated) -> Outcome {
    null_if_nullish!(left, right);
    let mismatch = || {
        QueryError::type_mismatch(format!("can't $subtract {} from {}", type_name(&right), type_name(&left)))
    };
    match (&left, &right) {
        (Some(Value::DateTime(later)), Some(Value::DateTime(earlier))) => later
            .checked_sub(*earlier)
            .map(|span| Some(Value::Int64(span)))
            .ok_or_else(|| QueryError::new(code::OVERFLOW, "overflow in $subtract of two dates")),
        (Some(Value::DateTime(milliseconds)), Some(value)) => {
            date_plus(*milliseconds, value.as_number().ok_or_else(mismatch)?, -1)
        }
        (Some(left), Some(right)) => match (left.as_number(), right.as_number()) {
            (Some(left), Some(right)) => number(left.minus(right)),
            _ => Err(mismatch()),
        },
        _ => Ok(NULL),
    }
}

fn multiply(operands: Vec<Evaluated>) -> Outcome {
    let mut product = Number::Int32(1);
    let mut any_null = false;
    for operand in &operands {
        if nullish(operand) {
            any_null = true;
            continue;
        }
        let Some(factor) = operand.as_ref().and_then(Value::as_number) else {
            bail!(type_mismatch, "$multiply only supports numeric types, not {}", type_name(operand));
        };
        product = product.times(factor);
    }
    if any_null { Ok(NULL) } else { number(product) }
}

fn pair(left: &Evaluated, right: &Evaluated) -> Option<(Number, Number)> {
    Some((left.as_ref()?.as_number()?, right.as_ref()?.as_number()?))
}

fn divide(left: Evaluated, right: Evaluated) -> Outcome {
    null_if_nullish!(left, right);
    let Some((dividend, divisor)) = pair(&left, &right) else {
        bail!(
            type_mismatch,
            "$divide only supports numeric types, not {} and {}",
            type_name(&left),
            type_name(&right)
        );
    };
    if divisor.is_zero() {
        bail!(bad_value, "can't $divide by zero");
    }
    number(dividend.divided_by(divisor))
}

fn modulo(left: Evaluated, right: Evaluated) -> Outcome {
    null_if_nullish!(left, right);
    let Some((dividend, divisor)) = pair(&left, &right) else {
        bail!(16611, "$mod only supports numeric types, not {} and {}", type_name(&left), type_name(&right));
    };
    match dividend.remainder(divisor) {
        Some(remainder) if !divisor.is_zero() => number(remainder),
        _ => Err(QueryError::new(16610, "can't $mod by zero")),
    }
}

fn abs(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    match numeric(&operand, "$abs")? {
        Number::Int64(i64::MIN) => Err(QueryError::new(28680, "can't take $abs of long long min")),
        Number::Decimal(value) => decimal(value.absolute()),
        Number::Double(value) => double(value.abs()),
        value if value.is_negative() => number(value.negated()),
        value => number(value),
    }
}

fn ceil(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    match numeric(&operand, "$ceil")? {
        Number::Double(value) => double(value.ceil()),
        Number::Decimal(value) => decimal(value.round_to_place(0, RoundingMode::Ceiling)),
        integer => number(integer),
    }
}

fn floor(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    match numeric(&operand, "$floor")? {
        Number::Double(value) => double(value.floor()),
        Number::Decimal(value) => decimal(value.round_to_place(0, RoundingMode::Floor)),
        integer => number(integer),
    }
}

fn to_place(operands: Vec<Evaluated>, name: &str, mode: RoundingMode) -> Outcome {
    let (operand, place) = match <[Evaluated; 2]>::try_from(operands) {
        Ok([operand, place]) => {
            null_if_nullish!(operand, place);
            (operand, rounding_place(&place, name)?)
        }
        Err(operands) => (operands.into_iter().next().flatten(), 0),
    };
    null_if_nullish!(operand);
    let Some(value) = operand.as_ref().and_then(Value::as_number) else {
        bail!(51081, "{name} only supports numeric types, not {}", type_name(&operand));
    };
    match value {
        Number::Decimal(value) => decimal(value.round_to_place(place, mode)),
        Number::Double(value) if !value.is_finite() => double(value),
        Number::Double(value) if place == 0 && mode == RoundingMode::Truncate => double(value.trunc()),
        Number::Double(value) if place == 0 => double(value.round_ties_even()),
        Number::Double(value) => double(Decimal128::from_f64(value).round_to_place(place, mode).to_f64()),
        integer if place >= 0 => number(integer),
        integer => {
            let rounded = integer.to_decimal().round_to_place(place, mode).to_i64_exact();
            match (integer, rounded) {
                (Number::Int32(_), Some(wide)) => {
                    number(i32::try_from(wide).map_or(Number::Int64(wide), Number::Int32))
                }
                (_, Some(wide)) => number(Number::Int64(wide)),
                (_, None) => Err(query_error!(
                    51080,
                    "invalid conversion from Decimal128 result in {name} resulting from arguments: [{}, \
                    {place}]",
                    brief(&operand)
                )),
            }
        }
    }
}

fn rounding_place(operand: &Evaluated, name: &str) -> Result<i32, QueryError> {
    let Some(place) = as_integer(operand) else {
        bail!(51082, "precision argument to  {name} must be a integral value");
    };
    match i32::try_from(place) {
        Ok(place) if (-20..=100).contains(&place) => Ok(place),
        _ => Err(query_error!(
            51083,
            "cannot apply {name} with precision value {place} value must be in [-20, 100]"
        )),
    }
}

fn sqrt(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    let value = numeric(&operand, "$sqrt")?;
    if value.is_negative() && !value.is_zero() && !value.is_nan() {
        bail!(28714, "$sqrt's argument must be greater than or equal to 0");
    }
    match value {
        Number::Decimal(value) => decimal(value.square_root()),
        value => double(value.to_f64().sqrt()),
    }
}

fn exp(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    match numeric(&operand, "$exp")? {
        Number::Decimal(value) => decimal(value.exponential()),
        value => double(value.to_f64().exp()),
    }
}

fn is_positive(value: Number) -> bool {
    value.is_nan() || !(value.is_negative() || value.is_zero())
}

fn ln(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    let value = numeric(&operand, "$ln")?;
    if !is_positive(value) {
        bail!(28766, "$ln's argument must be a positive number, but is {}", brief(&operand));
    }
    match value {
        Number::Decimal(value) => decimal(value.natural_logarithm()),
        value => double(value.to_f64().ln()),
    }
}

fn log10(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    let value = numeric(&operand, "$log10")?;
    if !is_positive(value) {
        bail!(28761, "$log10's argument must be a positive number, but is {}", brief(&operand));
    }
    match value {
        Number::Decimal(value) => decimal(value.decimal_logarithm()),
        value => double(value.to_f64().log10()),
    }
}

fn log(operand: Evaluated, base: Evaluated) -> Outcome {
    null_if_nullish!(operand, base);
    let Some(value) = operand.as_ref().and_then(Value::as_number) else {
        bail!(28756, "$log's argument must be numeric, not {}", type_name(&operand));
    };
    let Some(base_number) = base.as_ref().and_then(Value::as_number) else {
        bail!(28757, "$log's base must be numeric, not {}", type_name(&base));
    };
    if !is_positive(value) {
        bail!(28758, "$log's argument must be a positive number, but is {}", brief(&operand));
    }
    if !is_positive(base_number) || base_number == Number::Int32(1) {
        bail!(28759, "$log's base must be a positive number not equal to 1, but is {}", brief(&base));
    }
    match (value, base_number) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => decimal(
            value.to_decimal().natural_logarithm().divided_by(base_number.to_decimal().natural_logarithm()),
        ),
        _ => double(value.to_f64().ln() / base_number.to_f64().ln()),
    }
}

fn pow(base: Evaluated, exponent: Evaluated) -> Outcome {
    null_if_nullish!(base, exponent);
    let Some(base_number) = base.as_ref().and_then(Value::as_number) else {
        bail!(28762, "$pow's base must be numeric, not {}", type_name(&base));
    };
    let Some(power) = exponent.as_ref().and_then(Value::as_number) else {
        bail!(28763, "$pow's exponent must be numeric, not {}", type_name(&exponent));
    };
    if base_number.is_zero() && power.is_negative() && !power.is_zero() {
        bail!(28764, "$pow cannot take a base of 0 and a negative exponent");
    }
    match (base_number, power) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            decimal(base_number.to_decimal().power(power.to_decimal()))
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => double(base_number.to_f64().powf(power.to_f64())),
        _ => integer_power(base_number, power),
    }
}

/// An integer where the result is one and fits: an int when both operands are ints, otherwise a long.
fn integer_power(base: Number, power: Number) -> Outcome {
    let both_narrow = matches!((base, power), (Number::Int32(_), Number::Int32(_)));
    let exact = match (base.to_i64_exact(), power.to_i64_exact()) {
        (Some(1), _) => Some(1),
        (Some(-1), Some(power)) => Some(if power % 2 == 0 { 1 } else { -1 }),
        (Some(base), Some(power)) => u32::try_from(power).ok().and_then(|power| base.checked_pow(power)),
        _ => None,
    };
    match (exact, both_narrow) {
        (Some(wide), true) => number(i32::try_from(wide).map_or(Number::Int64(wide), Number::Int32)),
        (Some(wide), false) => number(Number::Int64(wide)),
        (None, _) => double(base.to_f64().powf(power.to_f64())),
    }
}
