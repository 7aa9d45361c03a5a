//! `$bitsAllSet`, `$bitsAnySet`, `$bitsAllClear`, `$bitsAnyClear`.

use document::{RawValue, Value};

use crate::error::QueryError;
use crate::integer::whole_number_from_zero;

/// Which bits must be how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BitTestKind {
    /// `$bitsAllSet`.
    AllSet,
    /// `$bitsAnySet`.
    AnySet,
    /// `$bitsAllClear`.
    AllClear,
    /// `$bitsAnyClear`.
    AnyClear,
}

impl BitTestKind {
    /// The operator's name.
    pub const fn name(self) -> &'static str {
        match self {
            BitTestKind::AllSet => "$bitsAllSet",
            BitTestKind::AnySet => "$bitsAnySet",
            BitTestKind::AllClear => "$bitsAllClear",
            BitTestKind::AnyClear => "$bitsAnyClear",
        }
    }
}

/// A test of single bits of integers and binary data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BitTest {
    /// How the bits must be.
    pub kind: BitTestKind,
    /// Bit positions, ascending, without duplicates; 0 is the lowest bit of the first byte.
    pub positions: Vec<u64>,
}

impl BitTest {
    /// Reads the operand: a mask as a number or binary data, or an array of positions.
    ///
    /// # Errors
    /// As MongoDB words them.
    pub fn parse(kind: BitTestKind, operand: RawValue<'_>) -> Result<Self, QueryError> {
        let mut positions = match operand {
            RawValue::Binary { bytes, .. } => set_bits(bytes),
            RawValue::Array(array) => array
                .elements()
                .map(|element| bit_position(element.name(), element.value()))
                .collect::<Result<_, _>>()?,
            value if value.is_number() => {
                set_bits(&whole_number_from_zero(kind.name(), value)?.to_le_bytes())
            }
            value => bail!(
                bad_value,
                "value takes an Array, a number, or a BinData but received: {}",
                document::quote::element(kind.name(), value)
            ),
        };
        positions.sort_unstable();
        positions.dedup();
        Ok(Self { kind, positions })
    }

    pub(crate) fn holds(&self, value: RawValue<'_>) -> bool {
        match value {
            RawValue::Binary { bytes, .. } => self.test(|position| binary_bit(bytes, position)),
            value => match value.as_i64_exact() {
                // Bits above the 63rd repeat the sign.
                Some(number) => self.test(|position| number >> position.min(63) & 1 == 1),
                None => false,
            },
        }
    }

    fn test(&self, is_set: impl Fn(u64) -> bool) -> bool {
        let mut positions = self.positions.iter().copied();
        match self.kind {
            BitTestKind::AllSet => positions.all(is_set),
            BitTestKind::AnySet => positions.any(is_set),
            BitTestKind::AllClear => positions.all(|position| !is_set(position)),
            BitTestKind::AnyClear => positions.any(|position| !is_set(position)),
        }
    }

    /// The operand as an array of positions.
    pub fn operand(&self) -> Value {
        Value::Array(self.positions.iter().map(|position| Value::Int64(*position as i64)).collect())
    }
}

fn bit_position(name: &str, value: RawValue<'_>) -> Result<u64, QueryError> {
    let position = whole_number_from_zero(name, value)
        .map_err(|error| QueryError::bad_value(format!("Failed to parse bit position. {}", error.message)))?;
    u32::try_from(position)
        .map(u64::from)
        .map_err(|_| QueryError::bad_value("Failed to parse bit position. bit positions must fit in 32 bits"))
}

fn set_bits(bytes: &[u8]) -> Vec<u64> {
    let bits = bytes.len() as u64 * 8;
    (0..bits).filter(|position| binary_bit(bytes, *position)).collect()
}

fn binary_bit(bytes: &[u8], position: u64) -> bool {
    let byte = usize::try_from(position / 8).ok().and_then(|index| bytes.get(index));
    byte.is_some_and(|byte| byte >> (position % 8) & 1 == 1)
}
