//! The four numeric types as one: promotion, arithmetic, exact comparison.
//!
//! Promotion as in MongoDB: Int32 < Int64 < Double < Decimal128; the result has the wider operand's type. An
//! Int32 result that does not fit becomes Int64; an Int64 result that does not fit is an error for updates
//! (`checked_*`) and becomes Double for expressions (`plus`, `minus`, `times`).

pub(crate) mod exact;

#[cfg(test)]
mod tests;

use crate::{Decimal128, ElementType, RawValue, Value};
use exact::Exact;
use std::cmp::Ordering;

/// A number of any of the four types.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub enum Number {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal(Decimal128),
}

/// 2⁶³: the first double above every `i64`.
const I64_LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Whole numbers up to here are exact as doubles.
const EXACT_DOUBLE_LIMIT: u64 = 1 << f64::MANTISSA_DIGITS;

/// Two numbers promoted to one type.
enum Pair {
    Int32(i32, i32),
    Int64(i64, i64),
    Double(f64, f64),
    Decimal(Decimal128, Decimal128),
}

impl Number {
    /// The number in a value, if it is one.
    #[inline]
    pub const fn from_raw(value: RawValue<'_>) -> Option<Self> {
        Some(match value {
            RawValue::Int32(number) => Number::Int32(number),
            RawValue::Int64(number) => Number::Int64(number),
            RawValue::Double(number) => Number::Double(number),
            RawValue::Decimal128(number) => Number::Decimal(number),
            _ => return None,
        })
    }

    /// The number in an owned value, if it is one.
    #[inline]
    pub const fn from_value(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Int32(number) => Number::Int32(*number),
            Value::Int64(number) => Number::Int64(*number),
            Value::Double(number) => Number::Double(*number),
            Value::Decimal128(number) => Number::Decimal(*number),
            _ => return None,
        })
    }

    /// The number as a borrowed value.
    #[inline]
    pub const fn as_raw(self) -> RawValue<'static> {
        match self {
            Number::Int32(number) => RawValue::Int32(number),
            Number::Int64(number) => RawValue::Int64(number),
            Number::Double(number) => RawValue::Double(number),
            Number::Decimal(number) => RawValue::Decimal128(number),
        }
    }

    /// The number's BSON type.
    pub const fn kind(self) -> ElementType {
        match self {
            Number::Int32(_) => ElementType::Int32,
            Number::Int64(_) => ElementType::Int64,
            Number::Double(_) => ElementType::Double,
            Number::Decimal(_) => ElementType::Decimal128,
        }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Int32(number) => f64::from(number),
            Number::Int64(number) => number as f64,
            Number::Double(number) => number,
            Number::Decimal(number) => number.to_f64(),
        }
    }

    /// The number as a decimal; a double is rounded to 15 significant digits.
    pub fn to_decimal(self) -> Decimal128 {
        match self {
            Number::Int32(number) => Decimal128::from(number),
            Number::Int64(number) => Decimal128::from(number),
            Number::Double(number) => Decimal128::from_f64(number),
            Number::Decimal(number) => number,
        }
    }

    /// The integer this is, when it is one and fits.
    pub fn to_i64_exact(self) -> Option<i64> {
        match self {
            Number::Int32(number) => Some(i64::from(number)),
            Number::Int64(number) => Some(number),
            Number::Double(number) if number.trunc() == number => self.to_i64_truncated(),
            Number::Double(_) => None,
            Number::Decimal(number) => number.to_i64_exact(),
        }
    }

    /// The integer part, when it fits.
    pub fn to_i64_truncated(self) -> Option<i64> {
        match self {
            Number::Int32(number) => Some(i64::from(number)),
            Number::Int64(number) => Some(number),
            Number::Double(number) if (-I64_LIMIT..I64_LIMIT).contains(&number) => Some(number as i64),
            Number::Double(_) => None,
            Number::Decimal(number) => number.to_i64_truncated(),
        }
    }

    /// The integer part; numbers beyond 64 bits become the nearest limit, not-a-number becomes zero.
    pub fn to_i64_saturating(self) -> i64 {
        self.to_i64_truncated().unwrap_or_else(|| {
            if self.is_nan() {
                0
            } else if self.is_negative() {
                i64::MIN
            } else {
                i64::MAX
            }
        })
    }

    /// Whether this is not a number.
    pub const fn is_nan(self) -> bool {
        match self {
            Number::Double(number) => number.is_nan(),
            Number::Decimal(number) => number.is_nan(),
            _ => false,
        }
    }

    /// Whether this is neither infinite nor not-a-number.
    pub const fn is_finite(self) -> bool {
        match self {
            Number::Double(number) => number.is_finite(),
            Number::Decimal(number) => number.is_finite(),
            _ => true,
        }
    }

    /// Whether this is zero, of either sign.
    pub const fn is_zero(self) -> bool {
        match self {
            Number::Int32(number) => number == 0,
            Number::Int64(number) => number == 0,
            Number::Double(number) => number == 0.0,
            Number::Decimal(number) => number.is_zero(),
        }
    }

    /// Whether the number has a minus sign; −0 has one.
    pub const fn is_negative(self) -> bool {
        match self {
            Number::Int32(number) => number < 0,
            Number::Int64(number) => number < 0,
            Number::Double(number) => number.is_sign_negative(),
            Number::Decimal(number) => number.is_negative(),
        }
    }

    fn promote(self, other: Number) -> Pair {
        match (self, other) {
            (Number::Int32(left), Number::Int32(right)) => Pair::Int32(left, right),
            (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
                Pair::Decimal(self.to_decimal(), other.to_decimal())
            }
            (Number::Double(_), _) | (_, Number::Double(_)) => Pair::Double(self.to_f64(), other.to_f64()),
            (Number::Int64(left), Number::Int32(right)) => Pair::Int64(left, i64::from(right)),
            (Number::Int32(left), Number::Int64(right)) => Pair::Int64(i64::from(left), right),
            (Number::Int64(left), Number::Int64(right)) => Pair::Int64(left, right),
        }
    }

    /// Sum; `None` when two integers' sum needs more than 64 bits.
    pub fn checked_plus(self, other: Number) -> Option<Number> {
        Some(match self.promote(other) {
            Pair::Int32(left, right) => narrow(i64::from(left) + i64::from(right)),
            Pair::Int64(left, right) => Number::Int64(left.checked_add(right)?),
            Pair::Double(left, right) => Number::Double(left + right),
            Pair::Decimal(left, right) => Number::Decimal(left.plus(right)),
        })
    }

    /// Difference; `None` when two integers' difference needs more than 64 bits.
    pub fn checked_minus(self, other: Number) -> Option<Number> {
        Some(match self.promote(other) {
            Pair::Int32(left, right) => narrow(i64::from(left) - i64::from(right)),
            Pair::Int64(left, right) => Number::Int64(left.checked_sub(right)?),
            Pair::Double(left, right) => Number::Double(left - right),
            Pair::Decimal(left, right) => Number::Decimal(left.minus(right)),
        })
    }

    /// Product; `None` when two integers' product needs more than 64 bits.
    pub fn checked_times(self, other: Number) -> Option<Number> {
        Some(match self.promote(other) {
            Pair::Int32(left, right) => narrow(i64::from(left) * i64::from(right)),
            Pair::Int64(left, right) => Number::Int64(left.checked_mul(right)?),
            Pair::Double(left, right) => Number::Double(left * right),
            Pair::Decimal(left, right) => Number::Decimal(left.times(right)),
        })
    }

    /// Sum; a sum of integers beyond 64 bits is a double.
    pub fn plus(self, other: Number) -> Number {
        self.checked_plus(other).unwrap_or_else(|| Number::Double(self.to_f64() + other.to_f64()))
    }

    /// Difference; a difference of integers beyond 64 bits is a double.
    pub fn minus(self, other: Number) -> Number {
        self.checked_minus(other).unwrap_or_else(|| Number::Double(self.to_f64() - other.to_f64()))
    }

    /// Product; a product of integers beyond 64 bits is a double.
    pub fn times(self, other: Number) -> Number {
        self.checked_times(other).unwrap_or_else(|| Number::Double(self.to_f64() * other.to_f64()))
    }

    /// Quotient: decimal when either operand is, otherwise a double, for integers too. The caller refuses
    /// zero divisors.
    pub fn divided_by(self, other: Number) -> Number {
        match self.promote(other) {
            Pair::Decimal(left, right) => Number::Decimal(left.divided_by(right)),
            _ => Number::Double(self.to_f64() / other.to_f64()),
        }
    }

    /// Remainder with the dividend's sign; `None` when an integer is divided by zero.
    pub fn remainder(self, other: Number) -> Option<Number> {
        Some(match self.promote(other) {
            Pair::Int32(_, 0) | Pair::Int64(_, 0) => return None,
            Pair::Int32(left, right) => Number::Int32(left.wrapping_rem(right)),
            Pair::Int64(left, right) => Number::Int64(left.wrapping_rem(right)),
            Pair::Double(left, right) => Number::Double(left % right),
            Pair::Decimal(left, right) => Number::Decimal(left.remainder(right)),
        })
    }

    /// The number with the other sign; the lowest integer of a width becomes the next wider type.
    pub fn negated(self) -> Number {
        match self {
            Number::Int32(number) => narrow(-i64::from(number)),
            Number::Int64(number) => match number.checked_neg() {
                Some(negated) => Number::Int64(negated),
                None => Number::Double(I64_LIMIT),
            },
            Number::Double(number) => Number::Double(-number),
            Number::Decimal(number) => Number::Decimal(number.negated()),
        }
    }

    /// Compares exactly, whatever the types. Not-a-number equals itself and is below every number; zeros are
    /// equal.
    #[inline]
    pub fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int32(left), Number::Int32(right)) => left.cmp(&right),
            (Number::Int64(left), Number::Int64(right)) => left.cmp(&right),
            (Number::Int32(left), Number::Int64(right)) => i64::from(left).cmp(&right),
            (Number::Int64(left), Number::Int32(right)) => left.cmp(&i64::from(right)),
            (Number::Double(left), Number::Double(right)) => compare_doubles(left, right),
            (Number::Double(left), Number::Int32(right)) => compare_doubles(left, f64::from(right)),
            (Number::Int32(left), Number::Double(right)) => compare_doubles(f64::from(left), right),
            (Number::Int64(left), Number::Double(right)) if left.unsigned_abs() <= EXACT_DOUBLE_LIMIT => {
                compare_doubles(left as f64, right)
            }
            (Number::Double(left), Number::Int64(right)) if right.unsigned_abs() <= EXACT_DOUBLE_LIMIT => {
                compare_doubles(left, right as f64)
            }
            _ => Exact::of(self).cmp(&Exact::of(other)),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.compare(*other).is_eq()
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        self.compare(*other)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        number.as_raw().to_value()
    }
}

/// The narrower integer type that holds the result of two 32-bit operands.
fn narrow(number: i64) -> Number {
    i32::try_from(number).map_or(Number::Int64(number), Number::Int32)
}

#[inline]
fn compare_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

impl RawValue<'_> {
    /// The number, if this is one.
    #[inline]
    pub const fn as_number(self) -> Option<Number> {
        Number::from_raw(self)
    }

    /// The integer, if this is a number of any type that is integral and fits.
    #[inline]
    pub fn as_i64_exact(self) -> Option<i64> {
        self.as_number()?.to_i64_exact()
    }

    /// The nearest double, if this is a number.
    #[inline]
    pub fn as_f64(self) -> Option<f64> {
        self.as_number().map(Number::to_f64)
    }

    /// Whether this counts as true where MongoDB takes any value for a flag: everything but false, null,
    /// undefined and zero.
    pub fn truthy(self) -> bool {
        match self {
            RawValue::Boolean(flag) => flag,
            RawValue::Null | RawValue::Undefined => false,
            other => other.as_number().is_none_or(|number| !number.is_zero()),
        }
    }
}

impl Value {
    /// The number, if this is one.
    pub const fn as_number(&self) -> Option<Number> {
        Number::from_value(self)
    }

    /// The integer, if this is a number of any type that is integral and fits.
    pub fn as_i64_exact(&self) -> Option<i64> {
        self.as_number()?.to_i64_exact()
    }

    /// The nearest double, if this is a number.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().map(Number::to_f64)
    }

    /// Whether this counts as true where MongoDB takes any value for a flag: everything but false, null,
    /// undefined and zero.
    pub fn truthy(&self) -> bool {
        match self {
            Value::Boolean(flag) => *flag,
            Value::Null | Value::Undefined => false,
            other => other.as_number().is_none_or(|number| !number.is_zero()),
        }
    }
}
