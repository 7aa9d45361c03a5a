//! Keys: bytes whose plain order is the order of values ([`crate::compare()`]).
//!
//! ```text
//!   values + directions ──KeyBuilder──▶ key bytes + type bits ──Decoder──▶ the same values
//!                                           │
//!                              memcmp order = order of the values, field by field
//! ```
//! The format is drawn in `docs/design/key-encoding.md`. Keys are stored: the format never changes, it only
//! grows.
//!
//! # Invariants
//! - Two values are equal for `compare` exactly when their bytes are equal, and ordered as their bytes are.
//! - No value's bytes are the beginning of another's, so values can be put one behind the other.
//! - The first byte of a value is neither 0x00 nor 0xFF in either direction: a bound can be put below or
//!   above all values.
//! - Key and type bits together give back the exact value (but for sign and payload of not-a-number, and for
//!   decimal numbers in a representation that is not the canonical one).

mod bound;
mod decode;
mod encode;
mod hash;
mod number;
mod tag;
mod type_bits;

#[cfg(test)]
mod tests;

pub use bound::{TypeBracket, successor, type_bracket};
pub use decode::{Decoder, KeyError, decode};
pub use encode::{KeyBuilder, encode_owned, encode_value};
pub use hash::{GroupKey, hash64, stable_hash};

/// A byte below the first byte of every value: `prefix ‖ BELOW` sorts before every key that goes on after
/// `prefix`.
pub const BELOW: u8 = 0x00;
/// A byte above the first byte of every value: `prefix ‖ ABOVE` sorts after every key that goes on after
/// `prefix`.
pub const ABOVE: u8 = 0xFF;

/// The direction of one field of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SortOrder {
    /// Low values first.
    #[default]
    Ascending,
    /// High values first: the field's bytes are inverted.
    Descending,
}

impl SortOrder {
    /// What the bytes of a field are combined with by exclusive or.
    const fn mask(self) -> u8 {
        match self {
            SortOrder::Ascending => 0x00,
            SortOrder::Descending => 0xFF,
        }
    }
}
