//! The first byte of each value. Gaps are room for values to come.

pub(super) const END: u8 = 0x00;
pub(super) const MIN_KEY: u8 = 0x04;
pub(super) const UNDEFINED: u8 = 0x08;
pub(super) const NULL: u8 = 0x0C;

pub(super) const NAN: u8 = 0x10;
pub(super) const NEGATIVE_INFINITY: u8 = 0x11;
/// Magnitude of 2⁶⁴ and more: the exponent follows.
pub(super) const NEGATIVE_HUGE: u8 = 0x12;
/// Magnitude between 1 and 2⁶⁴: the tag is this one minus the exponent.
pub(super) const NEGATIVE_ONE: u8 = 0x52;
/// Magnitude below 1: the exponent follows.
pub(super) const NEGATIVE_TINY: u8 = 0x53;
pub(super) const ZERO: u8 = 0x54;
pub(super) const POSITIVE_TINY: u8 = 0x55;
/// Between 1 and 2⁶⁴: the tag is this one plus the exponent.
pub(super) const POSITIVE_ONE: u8 = 0x56;
pub(super) const POSITIVE_HUGE: u8 = 0x96;
pub(super) const INFINITY: u8 = 0x97;

pub(super) const STRING: u8 = 0xA0;
pub(super) const DOCUMENT: u8 = 0xA4;
pub(super) const ARRAY: u8 = 0xA8;
pub(super) const BINARY: u8 = 0xAC;
pub(super) const OBJECT_ID: u8 = 0xB0;
pub(super) const FALSE: u8 = 0xB4;
pub(super) const TRUE: u8 = 0xB5;
pub(super) const DATE_TIME: u8 = 0xB8;
pub(super) const TIMESTAMP: u8 = 0xBC;
pub(super) const REGEX: u8 = 0xC0;
pub(super) const DB_POINTER: u8 = 0xC4;
pub(super) const JAVASCRIPT: u8 = 0xC8;
pub(super) const JAVASCRIPT_WITH_SCOPE: u8 = 0xCC;
pub(super) const MAX_KEY: u8 = 0xF0;

/// Exponents below this one are part of the tag.
pub(super) const TAGGED_EXPONENTS: i32 = 64;

const _: () = assert!(NEGATIVE_ONE as i32 - (TAGGED_EXPONENTS - 1) == NEGATIVE_HUGE as i32 + 1);
const _: () = assert!(POSITIVE_ONE as i32 + TAGGED_EXPONENTS == POSITIVE_HUGE as i32);

/// A text's zero bytes become `ESCAPE, ESCAPED_ZERO` and its bytes `ESCAPE` become `ESCAPE, ESCAPED_ESCAPE`,
/// so that a zero byte ends it.
pub(super) const ESCAPE: u8 = 0x01;
pub(super) const ESCAPED_ZERO: u8 = 0x01;
pub(super) const ESCAPED_ESCAPE: u8 = 0x02;

/// A length of this or more is written as this byte and four more.
pub(super) const LONG_LENGTH: u8 = 0xFF;
