//! Trigonometric functions. Angles are in radians; a decimal operand gives a decimal result with a double's
//! precision.

use document::{Decimal128, Number, Value};

use super::arithmetic::numeric;
use super::brief;
use super::operators::Operator;
use super::{Evaluated, Outcome, null_if_nullish, type_name};

/// A function of one number that is defined on the closed range given.
macro_rules! function {
    ($name:literal, $low:expr, $high:expr, $run:expr, $documentation:literal) => {
        Operator::one($name, |operand| apply(operand, $name, $low, $high, $run), $documentation)
    };
}

const LOWEST: f64 = f64::MIN;
const HIGHEST: f64 = f64::MAX;
const NONE: f64 = f64::NEG_INFINITY;
const ALL: f64 = f64::INFINITY;

pub(crate) static OPERATORS: &[Operator] = &[
    function!("$sin", LOWEST, HIGHEST, f64::sin, "the sine of an angle"),
    function!("$cos", LOWEST, HIGHEST, f64::cos, "the cosine of an angle"),
    function!("$tan", LOWEST, HIGHEST, f64::tan, "the tangent of an angle"),
    function!("$asin", -1.0, 1.0, f64::asin, "the angle with this sine"),
    function!("$acos", -1.0, 1.0, f64::acos, "the angle with this cosine"),
    function!("$atan", NONE, ALL, f64::atan, "the angle with this tangent"),
    function!("$sinh", NONE, ALL, f64::sinh, "the hyperbolic sine"),
    function!("$cosh", NONE, ALL, f64::cosh, "the hyperbolic cosine"),
    function!("$tanh", NONE, ALL, f64::tanh, "the hyperbolic tangent"),
    function!("$asinh", NONE, ALL, f64::asinh, "the inverse of the hyperbolic sine"),
    function!("$acosh", 1.0, ALL, f64::acosh, "the inverse of the hyperbolic cosine"),
    function!("$atanh", -1.0, 1.0, f64::atanh, "the inverse of the hyperbolic tangent"),
    function!("$degreesToRadians", NONE, ALL, f64::to_radians, "the angle in degrees, in radians"),
    function!("$radiansToDegrees", NONE, ALL, f64::to_degrees, "the angle in radians, in degrees"),
    Operator::two("$atan2", atan2, "the angle of the point with this y and this x"),
];

fn apply(operand: Evaluated, name: &str, low: f64, high: f64, run: fn(f64) -> f64) -> Outcome {
    null_if_nullish!(operand);
    let number = numeric(&operand, name)?;
    let angle = number.to_f64();
    if !angle.is_nan() && !(low..=high).contains(&angle) {
        let (open, close) = if low == LOWEST { ("(-inf", "inf)") } else { ("[", "]") };
        let range =
            if low == LOWEST { format!("{open},{close}") } else { format!("{open}{low},{high}{close}") };
        bail!(50989, "cannot apply {name} to {}, value must be in {range}", brief(&operand));
    }
    Ok(Some(like(number, run(angle))))
}

fn like(model: Number, result: f64) -> Value {
    match model {
        Number::Decimal(_) => Value::Decimal128(Decimal128::from_f64_widest(result)),
        _ => Value::Double(result),
    }
}

fn atan2(y: Evaluated, x: Evaluated) -> Outcome {
    null_if_nullish!(y, x);
    match (y.as_ref().and_then(Value::as_number), x.as_ref().and_then(Value::as_number)) {
        (Some(y), Some(x)) => {
            let model = if matches!(x, Number::Decimal(_)) { x } else { y };
            Ok(Some(like(model, y.to_f64().atan2(x.to_f64()))))
        }
        (None, _) => Err(query_error!(51044, "$atan2 only supports numeric types, not {}", type_name(&y))),
        (_, None) => Err(query_error!(51045, "$atan2 only supports numeric types, not {}", type_name(&x))),
    }
}
