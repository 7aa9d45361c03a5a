//! Type bits: what the key bytes do not tell, because values of different types are equal.
//!
//! One code for each number and each string, in the order of the key. Code 0 is the usual case, and codes 0
//! at the end are left out, so that keys of strings and 32-bit integers have no type bits at all.

/// A 32-bit integer; without type bits, the narrowest type that holds the number.
pub(super) const INT32: u8 = 0;
pub(super) const INT64: u8 = 1;
pub(super) const DOUBLE: u8 = 2;
pub(super) const DOUBLE_NEGATIVE_ZERO: u8 = 3;
/// Finite decimals have their biased exponent, two bytes big-endian, behind the code.
pub(super) const DECIMAL: u8 = 4;
pub(super) const DECIMAL_NEGATIVE_ZERO: u8 = 5;

/// A string; without type bits too.
pub(super) const STRING: u8 = 0;
pub(super) const SYMBOL: u8 = 1;

/// The codes without the zeros at their end.
pub(super) fn trimmed(codes: &[u8]) -> &[u8] {
    let length = codes.iter().rposition(|&code| code != 0).map_or(0, |last| last + 1);
    codes.get(..length).unwrap_or_default()
}
