//! Decimal128 as text, after the "to scientific string" rule of the BSON Decimal128 specification.

use super::{MAX_COEFFICIENT, MAX_DIGITS, MAX_EXPONENT, MIN_EXPONENT, Parts, digit_count};
use crate::Decimal128;
use std::fmt;
use std::str::FromStr;

/// Text that is not a decimal number, or one beyond its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseDecimalError {
    /// The text does not follow the grammar.
    #[error("expected a decimal number, such as 1.5, -3E+10, Infinity or NaN")]
    Malformed,
    /// The number is larger than the largest finite one.
    #[error("decimal number out of range: the largest is 9.999999999999999999999999999999999E+6144")]
    Overflow,
}

/// Exponents written with more digits than any in range are cut here; the result over- or underflows all the
/// same.
const EXPONENT_LIMIT: i32 = 1_000_000;

/// Plain notation is used down to this power of ten of the first digit.
const LOWEST_PLAIN_POWER: i32 = -6;

impl Decimal128 {
    /// Reads a number; more than 34 significant digits are rounded half to even, and what is too small
    /// becomes zero.
    ///
    /// # Errors
    /// The text is no number, or beyond the range.
    pub fn parse(text: &str) -> Result<Self, ParseDecimalError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
            return Ok(if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY });
        }
        if unsigned.eq_ignore_ascii_case("nan") {
            return Ok(Decimal128::NAN);
        }
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let digits = Digits::collect(mantissa)?;
        let exponent = exponent.saturating_add(digits.exponent);
        round_to_format(negative, digits.coefficient, exponent, digits.remainder)
            .ok_or(ParseDecimalError::Overflow)
    }
}

fn parse_exponent(text: &str) -> Result<i32, ParseDecimalError> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(ParseDecimalError::Malformed);
    }
    let mut exponent = 0i32;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(ParseDecimalError::Malformed);
        }
        exponent = (exponent * 10 + i32::from(digit - b'0')).min(EXPONENT_LIMIT);
    }
    Ok(if negative { -exponent } else { exponent })
}

/// What was cut off a coefficient, compared with half a unit of its last digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remainder {
    None,
    BelowHalf,
    Half,
    AboveHalf,
}

impl Remainder {
    /// The remainder after one more digit is cut off in front of this one.
    pub(super) fn push_front(self, digit: u8) -> Self {
        match (digit, self) {
            (0, Remainder::None) => Remainder::None,
            (0..5, _) => Remainder::BelowHalf,
            (5, Remainder::None) => Remainder::Half,
            _ => Remainder::AboveHalf,
        }
    }
}

/// The first digits of a numeral, as many as the format holds.
struct Digits {
    coefficient: u128,
    exponent: i32,
    remainder: Remainder,
}

impl Digits {
    fn collect(mantissa: &str) -> Result<Digits, ParseDecimalError> {
        let mut digits = Digits { coefficient: 0, exponent: 0, remainder: Remainder::None };
        let (mut seen_digit, mut seen_point, mut first_cut, mut later_cut) = (false, false, None, false);
        for byte in mantissa.bytes() {
            match byte {
                b'0'..=b'9' => {
                    seen_digit = true;
                    let digit = byte - b'0';
                    if digit_count(digits.coefficient) < MAX_DIGITS {
                        digits.coefficient = digits.coefficient * 10 + u128::from(digit);
                        digits.exponent -= i32::from(seen_point);
                    } else {
                        digits.exponent += i32::from(!seen_point);
                        match first_cut {
                            None => first_cut = Some(digit),
                            Some(_) => later_cut |= digit != 0,
                        }
                    }
                }
                b'.' if !seen_point => seen_point = true,
                _ => return Err(ParseDecimalError::Malformed),
            }
        }
        if !seen_digit {
            return Err(ParseDecimalError::Malformed);
        }
        if let Some(digit) = first_cut {
            let later = if later_cut { Remainder::BelowHalf } else { Remainder::None };
            digits.remainder = later.push_front(digit);
        }
        Ok(digits)
    }
}

/// Fits a coefficient of at most 34 digits, with what was cut off it, into the format; `None` is an overflow.
pub(super) fn round_to_format(
    negative: bool,
    mut coefficient: u128,
    mut exponent: i32,
    mut remainder: Remainder,
) -> Option<Decimal128> {
    while exponent < MIN_EXPONENT && (coefficient != 0 || remainder != Remainder::None) {
        remainder = remainder.push_front((coefficient % 10) as u8);
        coefficient /= 10;
        exponent += 1;
        if coefficient == 0 && remainder == Remainder::BelowHalf {
            break;
        }
    }
    exponent = exponent.max(MIN_EXPONENT);
    let round_up = match remainder {
        Remainder::None | Remainder::BelowHalf => false,
        Remainder::Half => coefficient % 2 == 1,
        Remainder::AboveHalf => true,
    };
    if round_up {
        coefficient += 1;
        if coefficient > MAX_COEFFICIENT {
            coefficient /= 10;
            exponent += 1;
        }
    }
    if coefficient == 0 {
        exponent = exponent.min(MAX_EXPONENT);
    }
    while exponent > MAX_EXPONENT {
        coefficient = coefficient.checked_mul(10).filter(|wider| *wider <= MAX_COEFFICIENT)?;
        exponent -= 1;
    }
    Some(Decimal128::finite(negative, coefficient, exponent))
}

impl FromStr for Decimal128 {
    type Err = ParseDecimalError;
    fn from_str(text: &str) -> Result<Self, ParseDecimalError> {
        Decimal128::parse(text)
    }
}

impl fmt::Display for Decimal128 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, coefficient, exponent) = match self.parts() {
            Parts::Nan => return formatter.write_str("NaN"),
            Parts::Infinity { negative: false } => return formatter.write_str("Infinity"),
            Parts::Infinity { negative: true } => return formatter.write_str("-Infinity"),
            Parts::Finite { negative, coefficient, exponent } => (negative, coefficient, exponent),
        };
        if negative {
            formatter.write_str("-")?;
        }
        let digits = coefficient.to_string();
        let first_power = exponent + digits.len() as i32 - 1;
        if exponent <= 0 && first_power >= LOWEST_PLAIN_POWER {
            return write_plain(formatter, &digits, exponent);
        }
        let (first, others) = digits.split_at(1);
        formatter.write_str(first)?;
        if !others.is_empty() {
            write!(formatter, ".{others}")?;
        }
        write!(formatter, "E{first_power:+}")
    }
}

fn write_plain(formatter: &mut fmt::Formatter<'_>, digits: &str, exponent: i32) -> fmt::Result {
    let fraction_length = exponent.unsigned_abs() as usize;
    match digits.len().checked_sub(fraction_length) {
        _ if fraction_length == 0 => formatter.write_str(digits),
        Some(whole_length) if whole_length > 0 => {
            let (whole, fraction) = digits.split_at(whole_length);
            write!(formatter, "{whole}.{fraction}")
        }
        _ => write!(formatter, "0.{digits:0>fraction_length$}"),
    }
}

impl fmt::Debug for Decimal128 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Decimal128('{self}')")
    }
}
