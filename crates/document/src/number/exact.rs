//! One form for all numbers, in which equal numbers of different types are equal and the order is exact.
//!
//! Integers and doubles are binary fractions of at most 64 significant bits. A decimal number need not be a
//! binary fraction (0.1), or may need more bits; such a number is cut off after 64 bits and carries itself as
//! a tail. Two numbers with the same 64 bits are equal when neither has a tail; one with a tail is the
//! larger; and two with tails are both decimals, which compare as decimals.

use super::Number;
use crate::Decimal128;
use crate::decimal::Parts;
use num_bigint::BigUint;

/// Any number, ordered: the variants and the fields in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exact {
    Nan,
    NegativeInfinity,
    Negative(std::cmp::Reverse<Magnitude>),
    Zero,
    Positive(Magnitude),
    Infinity,
}

/// A number above zero: mantissa · 2^(exponent − 63), plus what a tail adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Magnitude {
    /// The power of two of the first bit.
    pub(crate) exponent: i32,
    /// The first 64 bits; the highest is set.
    pub(crate) mantissa: u64,
    /// The number itself, when 64 bits do not hold it.
    pub(crate) tail: Option<Tail>,
}

/// A decimal number above zero, normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tail {
    /// The power of ten of the first digit.
    pub(crate) power: i32,
    /// 34 digits; the first is not zero.
    pub(crate) coefficient: u128,
}

impl Exact {
    /// The exact form of a number.
    #[inline]
    pub(crate) fn of(number: Number) -> Exact {
        match number {
            Number::Int32(integer) => Exact::of_i64(i64::from(integer)),
            Number::Int64(integer) => Exact::of_i64(integer),
            Number::Double(double) => Exact::of_f64(double),
            Number::Decimal(decimal) => Exact::of_decimal(decimal),
        }
    }

    #[inline]
    pub(crate) fn of_i64(integer: i64) -> Exact {
        if integer == 0 {
            return Exact::Zero;
        }
        Exact::signed(integer < 0, Magnitude::of_u64(integer.unsigned_abs()))
    }

    #[inline]
    fn of_f64(double: f64) -> Exact {
        if double == 0.0 {
            return Exact::Zero;
        }
        if !double.is_finite() {
            return if double.is_nan() {
                Exact::Nan
            } else if double < 0.0 {
                Exact::NegativeInfinity
            } else {
                Exact::Infinity
            };
        }
        Exact::signed(double < 0.0, Magnitude::of_f64(double.abs()))
    }

    fn of_decimal(decimal: Decimal128) -> Exact {
        match decimal.parts() {
            Parts::Nan => Exact::Nan,
            Parts::Infinity { negative: true } => Exact::NegativeInfinity,
            Parts::Infinity { negative: false } => Exact::Infinity,
            Parts::Finite { coefficient: 0, .. } => Exact::Zero,
            Parts::Finite { negative, coefficient, exponent } => {
                Exact::signed(negative, Magnitude::of_decimal(coefficient, exponent))
            }
        }
    }

    #[inline]
    fn signed(negative: bool, magnitude: Magnitude) -> Exact {
        if negative { Exact::Negative(std::cmp::Reverse(magnitude)) } else { Exact::Positive(magnitude) }
    }
}

/// Bits of a double's fraction.
const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// Divisions by powers of ten up to here stay within 128 bits with 64 bits of quotient to spare.
const SMALL_DIVISOR_DIGITS: u32 = 18;

impl Magnitude {
    #[inline]
    fn of_u64(integer: u64) -> Magnitude {
        let shift = integer.leading_zeros();
        Magnitude { exponent: 63 - shift as i32, mantissa: integer << shift, tail: None }
    }

    /// `double` is finite and above zero.
    #[inline]
    fn of_f64(double: f64) -> Magnitude {
        let bits = double.to_bits();
        let biased = (bits >> FRACTION_BITS) as i32;
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        // A subnormal has no hidden bit and the exponent of the smallest normal number.
        let (significand, exponent) =
            if biased == 0 { (fraction, -1022) } else { (fraction | 1 << FRACTION_BITS, biased - 1023) };
        let shift = significand.leading_zeros();
        let lost = shift as i32 - (63 - FRACTION_BITS as i32);
        Magnitude { exponent: exponent - lost, mantissa: significand << shift, tail: None }
    }

    /// `coefficient` is not zero.
    fn of_decimal(coefficient: u128, exponent: i32) -> Magnitude {
        let digits = exponent.unsigned_abs();
        let power = 10u128.checked_pow(digits);
        let (magnitude, rest) = match power {
            Some(power) if exponent >= 0 && coefficient.checked_mul(power).is_some() => {
                Magnitude::of_ratio(coefficient * power, 0, false)
            }
            Some(power) if exponent < 0 && digits <= SMALL_DIVISOR_DIGITS => {
                let shift = coefficient.leading_zeros();
                let dividend = coefficient << shift;
                Magnitude::of_ratio(dividend / power, shift as i32, !dividend.is_multiple_of(power))
            }
            _ => Magnitude::of_big(coefficient, exponent),
        };
        let tail = rest.then(|| {
            let (power, coefficient) = Decimal128::normalised(coefficient, exponent);
            Tail { power, coefficient }
        });
        Magnitude { tail, ..magnitude }
    }

    /// The number `quotient` · 2^−`shift`, which has a further rest or not; and whether anything is cut off.
    fn of_ratio(quotient: u128, shift: i32, rest: bool) -> (Magnitude, bool) {
        let leading = quotient.leading_zeros();
        let aligned = quotient << leading;
        let mantissa = (aligned >> 64) as u64;
        let cut = rest || aligned as u64 != 0;
        (Magnitude { exponent: 127 - leading as i32 - shift, mantissa, tail: None }, cut)
    }

    /// The general case, with integers of any size.
    fn of_big(coefficient: u128, exponent: i32) -> (Magnitude, bool) {
        let power = BigUint::from(10u32).pow(exponent.unsigned_abs());
        let (quotient, shift, rest) = if exponent >= 0 {
            (power * coefficient, 0, false)
        } else {
            let shift = power.bits() + 64;
            let dividend = BigUint::from(coefficient) << shift;
            let quotient = &dividend / &power;
            let rest = &quotient * &power != dividend;
            (quotient, shift as i32, rest)
        };
        let bits = quotient.bits();
        let cut = bits.saturating_sub(64);
        let mantissa = u64::try_from(&quotient >> cut).unwrap_or(u64::MAX) << 64u64.saturating_sub(bits);
        let cut_off = rest || quotient.trailing_zeros().is_some_and(|zeros| zeros < cut);
        (Magnitude { exponent: bits as i32 - 1 - shift, mantissa, tail: None }, cut_off)
    }
}
