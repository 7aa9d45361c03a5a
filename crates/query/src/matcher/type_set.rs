//! The operand of `$type`.

use document::{ElementType, RawValue};

use crate::error::QueryError;

/// A set of BSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeSet {
    bits: u32,
}

fn bit(kind: ElementType) -> u32 {
    match kind {
        ElementType::MinKey => 1 << 30,
        ElementType::MaxKey => 1 << 31,
        other => 1 << other.code(),
    }
}

impl TypeSet {
    /// Adds one operand: a type code or an alias.
    ///
    /// # Errors
    /// `BadValue` as MongoDB words it.
    pub fn add(&mut self, operand: RawValue<'_>) -> Result<(), QueryError> {
        match operand {
            RawValue::String("number") => {
                let numbers = ElementType::ALL.into_iter().filter(|kind| kind.is_number());
                numbers.for_each(|kind| self.bits |= bit(kind));
            }
            RawValue::String(alias) => {
                let kind = ElementType::from_alias(alias)
                    .ok_or_else(|| QueryError::bad_value(format!("Unknown type name alias: {alias}")))?;
                self.bits |= bit(kind);
            }
            RawValue::Int32(code) => self.add_code(f64::from(code))?,
            RawValue::Int64(code) => self.add_code(code as f64)?,
            RawValue::Double(code) => self.add_code(code)?,
            RawValue::Decimal128(code) => self.add_code(code.to_f64())?,
            _ => bail!(type_mismatch, "type must be represented as a number or a string"),
        }
        Ok(())
    }

    fn add_code(&mut self, code: f64) -> Result<(), QueryError> {
        let kind = ElementType::ALL.into_iter().find(|kind| f64::from(kind.query_code()) == code);
        let kind =
            kind.ok_or_else(|| QueryError::bad_value(format!("Invalid numerical type code: {code}")))?;
        self.bits |= bit(kind);
        Ok(())
    }

    /// Whether the set has this type.
    pub fn contains(self, kind: ElementType) -> bool {
        self.bits & bit(kind) != 0
    }

    /// Whether the set has no type.
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The types, in the order of their codes.
    pub fn kinds(self) -> impl Iterator<Item = ElementType> {
        ElementType::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}
