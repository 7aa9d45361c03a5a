//! Decimal128 from and to the other numbers, and rounding to a decimal place.

use super::text::{Remainder, round_to_format};
use super::{MAX_DIGITS, MIN_EXPONENT, Parts, digit_count};
use crate::Decimal128;

/// What becomes of the digits cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundingMode {
    /// To the nearest; a tie goes to the even digit.
    HalfEven,
    /// Towards zero.
    Truncate,
    /// Towards −∞.
    Floor,
    /// Towards +∞.
    Ceiling,
}

/// Significant digits a double is converted with, as MongoDB does: every decimal numeral of 15 digits
/// survives the way through a double.
const DOUBLE_DIGITS: usize = 15;
/// Integers below this have at most 34 digits.
const INTEGERS_END: f64 = 1e34;

impl From<i32> for Decimal128 {
    fn from(number: i32) -> Self {
        Decimal128::finite(number < 0, u128::from(number.unsigned_abs()), 0)
    }
}

impl From<i64> for Decimal128 {
    fn from(number: i64) -> Self {
        Decimal128::finite(number < 0, u128::from(number.unsigned_abs()), 0)
    }
}

impl From<u64> for Decimal128 {
    fn from(number: u64) -> Self {
        Decimal128::finite(false, u128::from(number), 0)
    }
}

impl Decimal128 {
    /// The double rounded to 15 significant digits (`$toDecimal` and mixed arithmetic).
    pub fn from_f64(number: f64) -> Self {
        Decimal128::from_f64_digits(number, DOUBLE_DIGITS)
    }

    /// The double's exact value with as few digits as that takes; rounded where 34 digits, all that the
    /// format holds, do not suffice.
    pub fn from_f64_widest(number: f64) -> Self {
        let rounded = Decimal128::from_f64_digits(number, MAX_DIGITS as usize);
        if number == 0.0 || !number.is_finite() {
            return rounded;
        }
        let scientific = format!("{number:.*e}", MAX_DIGITS as usize - 1);
        let shortest = match scientific.split_once('e') {
            _ if number.fract() == 0.0 && number.abs() < INTEGERS_END => format!("{number:.0}"),
            Some((digits, exponent)) => {
                format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
            }
            None => scientific,
        };
        Decimal128::parse(&shortest).unwrap_or(rounded)
    }

    fn from_f64_digits(number: f64, digits: usize) -> Self {
        if number.is_nan() {
            return Decimal128::NAN;
        }
        if number.is_infinite() {
            return if number < 0.0 { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY };
        }
        if number == 0.0 {
            return Decimal128::finite(number.is_sign_negative(), 0, 0);
        }
        let numeral = format!("{number:.*e}", digits - 1);
        Decimal128::parse(&numeral).expect("a finite double is far inside the range")
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        match self.parts() {
            Parts::Nan => f64::NAN,
            Parts::Infinity { negative: false } => f64::INFINITY,
            Parts::Infinity { negative: true } => f64::NEG_INFINITY,
            Parts::Finite { negative, coefficient, exponent } => {
                // The standard library rounds numerals correctly; arithmetic here would round twice.
                let magnitude = format!("{coefficient}e{exponent}").parse();
                let magnitude: f64 = magnitude.expect("digits and an exponent are a numeral");
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    /// The integer this is, when it is one and fits.
    pub fn to_i64_exact(self) -> Option<i64> {
        let (integer, exact) = self.to_i128_truncated()?;
        if exact { i64::try_from(integer).ok() } else { None }
    }

    /// The integer part, when it fits.
    pub fn to_i64_truncated(self) -> Option<i64> {
        i64::try_from(self.to_i128_truncated()?.0).ok()
    }

    /// The integer part and whether nothing was cut off; `None` beyond 128 bits and for the special numbers.
    fn to_i128_truncated(self) -> Option<(i128, bool)> {
        let Parts::Finite { negative, coefficient, exponent } = self.parts() else { return None };
        let power = 10u128.checked_pow(exponent.unsigned_abs());
        let (magnitude, exact) = match power {
            _ if coefficient == 0 => (0, true),
            Some(power) if exponent >= 0 => (coefficient.checked_mul(power)?, true),
            Some(power) => (coefficient / power, coefficient % power == 0),
            None if exponent >= 0 => return None,
            None => (0, false),
        };
        let magnitude = i128::try_from(magnitude).ok()?;
        Some((if negative { -magnitude } else { magnitude }, exact))
    }

    /// Rounds to `places` digits after the point (before it, when negative). Numbers with fewer digits there,
    /// and the special numbers, stay as they are.
    pub fn round_to_place(self, places: i32, mode: RoundingMode) -> Self {
        let Parts::Finite { negative, mut coefficient, exponent } = self.parts() else { return self };
        let target = places.saturating_neg().clamp(MIN_EXPONENT, super::MAX_EXPONENT);
        if exponent >= target {
            return self;
        }
        let mut remainder = Remainder::None;
        for _ in 0..(target - exponent).min(MAX_DIGITS as i32 + 1) {
            remainder = remainder.push_front((coefficient % 10) as u8);
            coefficient /= 10;
        }
        let up = match mode {
            RoundingMode::Truncate => false,
            RoundingMode::Floor => negative && remainder != Remainder::None,
            RoundingMode::Ceiling => !negative && remainder != Remainder::None,
            RoundingMode::HalfEven => match remainder {
                Remainder::None | Remainder::BelowHalf => false,
                Remainder::Half => coefficient % 2 == 1,
                Remainder::AboveHalf => true,
            },
        };
        round_to_format(negative, coefficient + u128::from(up), target, Remainder::None).unwrap_or(self)
    }

    /// The number without trailing zeros of its coefficient; zero keeps no exponent.
    pub fn reduced(self) -> Self {
        let Parts::Finite { negative, mut coefficient, mut exponent } = self.parts() else { return self };
        if coefficient == 0 {
            return Decimal128::finite(negative, 0, 0);
        }
        while coefficient % 10 == 0 && exponent < super::MAX_EXPONENT {
            coefficient /= 10;
            exponent += 1;
        }
        Decimal128::finite(negative, coefficient, exponent)
    }

    /// The coefficient stretched to 34 digits and the power of ten of its first digit: numbers above zero
    /// order by (power, coefficient). The coefficient must not be zero.
    pub(crate) fn normalised(coefficient: u128, exponent: i32) -> (i32, u128) {
        let digits = digit_count(coefficient);
        (exponent + digits as i32 - 1, coefficient * 10u128.pow(MAX_DIGITS - digits))
    }
}
