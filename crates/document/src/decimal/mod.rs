//! Decimal128: the parts of the number, text, conversion and arithmetic (IEEE 754-2008, BSON Decimal128
//! specification).
//!
//! ```text
//!  127   126…113 (14 bits)     112…0 (113 bits)
//! ┌────┬────────────────────┬────────────────────────┐
//! │sign│ exponent + 6176    │ coefficient ≤ 10³⁴ − 1 │   value = ± coefficient · 10^exponent
//! └────┴────────────────────┴────────────────────────┘
//!   bits 126…122 = 11110 → infinity, 11111 → not a number;
//!   bits 126…125 = 11 otherwise → a coefficient beyond the limit, which reads as zero
//! ```

mod arithmetic;
mod convert;
mod text;

#[cfg(test)]
mod tests;

pub use convert::RoundingMode;
pub use text::ParseDecimalError;

use crate::Decimal128;

/// The most digits that a coefficient has.
pub const MAX_DIGITS: u32 = 34;
/// The largest coefficient: thirty-four nines.
pub const MAX_COEFFICIENT: u128 = 10u128.pow(MAX_DIGITS) - 1;
/// The smallest exponent of a coefficient that is an integer.
pub const MIN_EXPONENT: i32 = -6176;
/// The largest exponent of a coefficient that is an integer.
pub const MAX_EXPONENT: i32 = 6111;

const SIGN_BIT: u128 = 1 << 127;
const COEFFICIENT_BITS: u32 = 113;
const COEFFICIENT_MASK: u128 = (1 << COEFFICIENT_BITS) - 1;
const SPECIAL_MASK: u128 = 0b11111 << 122;
const INFINITY_BITS: u128 = 0b11110 << 122;
const NAN_BITS: u128 = 0b11111 << 122;
const LARGE_COEFFICIENT_BITS: u128 = 0b11 << 125;

/// What a decimal number is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// Not a number; sign and payload mean nothing.
    Nan,
    /// An infinity.
    Infinity {
        /// Whether it is the lower one.
        negative: bool,
    },
    /// ± `coefficient` · 10^`exponent`.
    Finite {
        /// The sign, which zero has too.
        negative: bool,
        /// At most [`MAX_COEFFICIENT`].
        coefficient: u128,
        /// Between [`MIN_EXPONENT`] and [`MAX_EXPONENT`].
        exponent: i32,
    },
}

impl Decimal128 {
    /// 0.
    pub const ZERO: Decimal128 = Decimal128::finite(false, 0, 0);
    /// 1.
    pub const ONE: Decimal128 = Decimal128::finite(false, 1, 0);
    /// Not a number.
    pub const NAN: Decimal128 = Decimal128(NAN_BITS.to_le_bytes());
    /// +∞.
    pub const INFINITY: Decimal128 = Decimal128(INFINITY_BITS.to_le_bytes());
    /// −∞.
    pub const NEG_INFINITY: Decimal128 = Decimal128((INFINITY_BITS | SIGN_BIT).to_le_bytes());

    /// Assembles a finite number from parts within their limits.
    pub(crate) const fn finite(negative: bool, coefficient: u128, exponent: i32) -> Self {
        debug_assert!(coefficient <= MAX_COEFFICIENT && exponent >= MIN_EXPONENT && exponent <= MAX_EXPONENT);
        let biased = ((exponent - MIN_EXPONENT) as u128) << COEFFICIENT_BITS;
        let sign = if negative { SIGN_BIT } else { 0 };
        Decimal128((sign | biased | coefficient).to_le_bytes())
    }

    /// The number with these parts, or `None` when they are beyond the limits of the format.
    pub const fn from_parts(parts: Parts) -> Option<Self> {
        Some(match parts {
            Parts::Nan => Decimal128::NAN,
            Parts::Infinity { negative: false } => Decimal128::INFINITY,
            Parts::Infinity { negative: true } => Decimal128::NEG_INFINITY,
            Parts::Finite { negative, coefficient, exponent } => {
                if coefficient > MAX_COEFFICIENT || exponent < MIN_EXPONENT || exponent > MAX_EXPONENT {
                    return None;
                }
                Decimal128::finite(negative, coefficient, exponent)
            }
        })
    }

    /// Takes the number apart. A coefficient beyond the limit reads as zero, as the standard demands.
    #[inline]
    pub const fn parts(self) -> Parts {
        let bits = u128::from_le_bytes(self.0);
        let negative = bits & SIGN_BIT != 0;
        if bits & LARGE_COEFFICIENT_BITS == LARGE_COEFFICIENT_BITS {
            return match bits & SPECIAL_MASK {
                NAN_BITS => Parts::Nan,
                INFINITY_BITS => Parts::Infinity { negative },
                _ => {
                    let exponent = ((bits >> 111) & 0x3FFF) as i32 + MIN_EXPONENT;
                    Parts::Finite { negative, coefficient: 0, exponent }
                }
            };
        }
        let exponent = ((bits >> COEFFICIENT_BITS) & 0x3FFF) as i32 + MIN_EXPONENT;
        let stored = bits & COEFFICIENT_MASK;
        let coefficient = if stored > MAX_COEFFICIENT { 0 } else { stored };
        Parts::Finite { negative, coefficient, exponent }
    }

    /// Whether this is not a number.
    pub const fn is_nan(self) -> bool {
        matches!(self.parts(), Parts::Nan)
    }

    /// Whether this is neither an infinity nor not-a-number.
    pub const fn is_finite(self) -> bool {
        matches!(self.parts(), Parts::Finite { .. })
    }

    /// Whether this is zero of either sign and any exponent.
    pub const fn is_zero(self) -> bool {
        matches!(self.parts(), Parts::Finite { coefficient: 0, .. })
    }

    /// Whether the sign bit is set; true for −0 too.
    pub const fn is_negative(self) -> bool {
        u128::from_le_bytes(self.0) & SIGN_BIT != 0
    }

    /// The number with the other sign.
    pub const fn negated(self) -> Self {
        if self.is_nan() {
            return self;
        }
        Decimal128((u128::from_le_bytes(self.0) ^ SIGN_BIT).to_le_bytes())
    }

    /// The number without its sign.
    pub const fn absolute(self) -> Self {
        Decimal128((u128::from_le_bytes(self.0) & !SIGN_BIT).to_le_bytes())
    }
}

impl Default for Decimal128 {
    fn default() -> Self {
        Decimal128::ZERO
    }
}

/// The number of decimal digits of a coefficient; zero has one.
#[inline]
pub(crate) const fn digit_count(coefficient: u128) -> u32 {
    match coefficient.checked_ilog10() {
        Some(log) => log + 1,
        None => 1,
    }
}
