//! The fields of a configuration's documents, taken one by one with MongoDB's strict rules.

use crate::set::SetError;
use document::{Element, RawDocument, RawValue};
use std::ops::RangeInclusive;
use wire::ErrorCode;

/// What is wrong with a configuration that cannot even be read.
pub(super) fn invalid(message: impl Into<String>) -> SetError {
    SetError::new(ErrorCode::InvalidReplicaSetConfig, message)
}

/// The fields of one document that nobody took yet.
pub(super) struct Fields<'a> {
    /// How messages call the document.
    of: &'static str,
    left: Vec<Element<'a>>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(of: &'static str, document: RawDocument<'a>) -> Result<Self, SetError> {
        let mut left: Vec<Element<'a>> = Vec::new();
        for element in document {
            if left.iter().any(|known| known.name_bytes() == element.name_bytes()) {
                return Err(invalid(format!("BSON field '{of}.{}' is a duplicate field", element.name())));
            }
            left.push(element);
        }
        Ok(Fields { of, left })
    }

    /// A field; null is as good as none.
    pub(super) fn take(&mut self, name: &str) -> Option<RawValue<'a>> {
        let position = self.left.iter().position(|element| element.name() == name)?;
        let value = self.left.swap_remove(position).value();
        (!matches!(value, RawValue::Null | RawValue::Undefined)).then_some(value)
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<&'a str>, SetError> {
        self.typed(name, RawValue::as_str, "type 'string'")
    }

    pub(super) fn document(&mut self, name: &str) -> Result<Option<RawDocument<'a>>, SetError> {
        self.typed(name, RawValue::as_document, "type 'object'")
    }

    pub(super) fn truth(&mut self, name: &str) -> Result<Option<bool>, SetError> {
        let read = |value: RawValue<'a>| match value {
            RawValue::Boolean(flag) => Some(flag),
            number => Some(double(number)? != 0.0),
        };
        self.typed(name, read, "types '[bool, long, int, decimal, double]'")
    }

    /// A number within bounds, a fraction cut off.
    pub(super) fn whole(&mut self, name: &str, within: RangeInclusive<i64>) -> Result<Option<i64>, SetError> {
        let read = |value: RawValue<'a>| double(value).map(|number| number as i64);
        let number = self.typed(name, read, "types '[long, int, decimal, double]'")?;
        number.map(|number| bounded(name, number, within)).transpose()
    }

    /// A number within bounds that has no fraction.
    pub(super) fn exact(&mut self, name: &str, within: RangeInclusive<i64>) -> Result<Option<i64>, SetError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let expected = |what: &str| {
            let shown = document::quote::element(name, value);
            invalid(format!("Expected {what}: {shown}"))
        };
        let number = match value.as_i64_exact() {
            Some(number) => number,
            None if double(value).is_some() => return Err(expected("an integer")),
            None => return Err(expected("a number in")),
        };
        bounded(name, number, within).map(Some)
    }

    /// A number with a fraction, at most so large.
    pub(super) fn share(&mut self, name: &str, most: f64) -> Result<Option<f64>, SetError> {
        match self.typed(name, double, "types '[double, decimal, long, int]'")? {
            Some(number) if number.is_nan() || number < 0.0 => Err(out_of_bounds(name, ">= 0", number)),
            Some(number) if number > most => Err(out_of_bounds(name, &format!("<= {most}"), number)),
            number => Ok(number),
        }
    }

    pub(super) fn missing(&self, name: &str) -> SetError {
        invalid(format!("BSON field '{}.{name}' is missing but a required field", self.of))
    }

    pub(super) fn wrong_type(&self, name: &str, value: RawValue<'_>, expected: &str) -> SetError {
        let found = value.kind().alias();
        invalid(format!("BSON field '{}.{name}' is the wrong type '{found}', expected {expected}", self.of))
    }

    /// Refuses what nobody took.
    pub(super) fn finish(self) -> Result<(), SetError> {
        match self.left.first() {
            None => Ok(()),
            Some(element) => {
                Err(invalid(format!("BSON field '{}.{}' is an unknown field.", self.of, element.name())))
            }
        }
    }

    fn typed<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(RawValue<'a>) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, SetError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong_type(name, value, expected))
    }
}

/// Any number.
pub(super) fn double(value: RawValue<'_>) -> Option<f64> {
    match value {
        RawValue::Int32(number) => Some(number.into()),
        RawValue::Int64(number) => Some(number as f64),
        RawValue::Double(number) => Some(number),
        RawValue::Decimal128(number) => Some(number.to_f64()),
        _ => None,
    }
}

fn bounded(name: &str, number: i64, within: RangeInclusive<i64>) -> Result<i64, SetError> {
    if number < *within.start() {
        return Err(out_of_bounds(name, &format!(">= {}", within.start()), number));
    }
    if number > *within.end() {
        return Err(out_of_bounds(name, &format!("<= {}", within.end()), number));
    }
    Ok(number)
}

fn out_of_bounds(name: &str, bound: &str, actual: impl std::fmt::Display) -> SetError {
    invalid(format!("BSON field '{name}' value must be {bound}, actual value '{actual}'"))
}
