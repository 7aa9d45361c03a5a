//! Modifiers: what one operator does to one value.

use std::cmp::Ordering;

use document::{DocumentBuf, DocumentBuilder, Number, RawDocument, RawValue, Value};

use super::array::{Pull, Push};
use super::bit::Bits;
use super::describe_id;
use super::path::FieldPlace;
use crate::error::QueryError;

/// An operand, readable both raw and as a tree.
#[derive(Debug, Clone)]
pub(super) struct Operand {
    holder: DocumentBuf,
    pub(super) value: Value,
}

impl Operand {
    pub(super) fn new(value: RawValue<'_>) -> Self {
        let mut bytes = Vec::new();
        DocumentBuilder::new(&mut bytes).append("", value);
        Operand { holder: DocumentBuf::trusted(bytes), value: value.to_value() }
    }

    pub(super) fn raw(&self) -> RawValue<'_> {
        self.holder.as_raw().first().map_or(RawValue::Null, |element| element.value())
    }
}

/// The two operators that calculate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Increment,
    Multiply,
}

impl Arithmetic {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Arithmetic::Increment => "$inc",
            Arithmetic::Multiply => "$mul",
        }
    }
}

/// One operator with its operand.
#[derive(Debug)]
pub(super) enum Modifier {
    /// `$set` and `$currentDate`.
    Set(Operand),
    SetOnInsert(Operand),
    Unset,
    Calculate(Arithmetic, Number),
    /// `$min` (keeps the lesser) and `$max` (keeps the greater).
    Extreme {
        wins: Ordering,
        operand: Operand,
    },
    Bit(Bits),
    Push(Push),
    AddToSet(Vec<Value>),
    Pop {
        first: bool,
    },
    Pull(Pull),
    /// The place that `$rename` empties; done before the others.
    RenameSource,
    /// The place that `$rename` fills, with the number of the rename.
    RenameTarget(usize),
}

/// What is left of a field after its modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Stays,
    Goes,
}

/// What a scalar modifier makes of a raw value.
pub(super) enum Spliced<'m> {
    Keep,
    Remove,
    Write(RawValue<'m>),
}

/// What modifiers know of the document around them.
#[derive(Debug)]
pub(super) struct Surroundings<'d> {
    pub(super) document: RawDocument<'d>,
    pub(super) is_insert: bool,
    /// The array element that the filter matched.
    pub(super) position: Option<usize>,
    /// The values that `$rename` took out, by number.
    pub(super) renamed: Vec<Option<Value>>,
}

/// What a modifier wants of a path that ends before its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    /// Nothing: it has nothing to do.
    Nothing,
    /// That the field could be there.
    Viable,
    /// That the field can be made.
    Created,
}

impl Surroundings<'_> {
    /// The value that this `$rename` took out.
    fn renamed(&self, number: usize) -> Option<&Value> {
        self.renamed.get(number).and_then(Option::as_ref)
    }
}

impl Modifier {
    pub(super) fn demand(&self, around: &Surroundings<'_>) -> Demand {
        match self {
            Modifier::Unset | Modifier::RenameSource => Demand::Nothing,
            Modifier::Pop { .. } | Modifier::Pull(_) => Demand::Viable,
            Modifier::SetOnInsert(_) if !around.is_insert => Demand::Nothing,
            Modifier::RenameTarget(number) if around.renamed(*number).is_none() => Demand::Nothing,
            _ => Demand::Created,
        }
    }

    /// Whether this is where a `$rename` puts its value.
    pub(super) const fn is_rename(&self) -> bool {
        matches!(self, Modifier::RenameTarget(_))
    }

    /// The value for a field that does not exist; `None` leaves it so.
    pub(super) fn initial(
        &self,
        place: &FieldPlace<'_>,
        around: &Surroundings<'_>,
    ) -> Result<Option<Value>, QueryError> {
        Ok(match self {
            Modifier::Set(operand) | Modifier::Extreme { operand, .. } => Some(operand.value.clone()),
            Modifier::SetOnInsert(operand) => around.is_insert.then(|| operand.value.clone()),
            Modifier::Calculate(Arithmetic::Increment, number) => Some((*number).into()),
            Modifier::Calculate(Arithmetic::Multiply, number) => Some(Number::Int32(0).times(*number).into()),
            Modifier::Bit(bits) => Some(bits.initial()),
            Modifier::Push(push) => {
                let mut values = Vec::new();
                push.apply(&mut values);
                Some(Value::from(values))
            }
            Modifier::AddToSet(values) => {
                let mut set = Vec::new();
                super::array::add_to_set(&mut set, values);
                Some(Value::from(set))
            }
            Modifier::RenameTarget(number) => match around.renamed(*number) {
                Some(value) => {
                    check_no_array(place, around)?;
                    Some(value.clone())
                }
                None => None,
            },
            Modifier::Unset | Modifier::Pop { .. } | Modifier::Pull(_) | Modifier::RenameSource => None,
        })
    }

    /// What becomes of a raw value, when that can be said without a tree.
    pub(super) fn splice(
        &self,
        name: &str,
        value: RawValue<'_>,
        around: &Surroundings<'_>,
    ) -> Result<Option<Spliced<'_>>, QueryError> {
        Ok(Some(match self {
            Modifier::Set(operand) => Spliced::Write(operand.raw()),
            Modifier::SetOnInsert(operand) if around.is_insert => Spliced::Write(operand.raw()),
            Modifier::SetOnInsert(_) => Spliced::Keep,
            Modifier::Unset => Spliced::Remove,
            Modifier::Calculate(operation, number) => {
                let current =
                    Number::from_raw(value).ok_or_else(|| not_numeric(*operation, name, value, around))?;
                Spliced::Write(calculate(*operation, current, *number, around)?.as_raw())
            }
            Modifier::Extreme { wins, operand } => {
                if document::compare(operand.raw(), value) == *wins {
                    Spliced::Write(operand.raw())
                } else {
                    Spliced::Keep
                }
            }
            _ => return Ok(None),
        }))
    }

    /// Changes an existing value.
    pub(super) fn apply(
        &self,
        place: &FieldPlace<'_>,
        target: &mut Value,
        around: &Surroundings<'_>,
    ) -> Result<Effect, QueryError> {
        let name = place.name;
        match self {
            Modifier::Set(operand) => *target = operand.value.clone(),
            Modifier::SetOnInsert(operand) if around.is_insert => *target = operand.value.clone(),
            Modifier::SetOnInsert(_) | Modifier::RenameSource => {}
            Modifier::Unset => return Ok(Effect::Goes),
            Modifier::Calculate(operation, number) => {
                let current = Number::from_value(target)
                    .ok_or_else(|| target.with_raw(|value| not_numeric(*operation, name, value, around)))?;
                *target = calculate(*operation, current, *number, around)?.into();
            }
            Modifier::Extreme { wins, operand } => {
                if operand.value.compare(target) == *wins {
                    *target = operand.value.clone();
                }
            }
            Modifier::Bit(bits) => *target = bits.apply(name, target, around)?,
            Modifier::Push(push) => {
                let kind = target.kind().alias();
                push.apply(array(target, || not_array(place, kind, around))?);
            }
            Modifier::AddToSet(values) => {
                let kind = target.kind().alias();
                let set = array(target, || {
                    QueryError::bad_value(format!(
                        "Cannot apply $addToSet to non-array field. Field named '{name}' has non-array type \
                        {kind}"
                    ))
                })?;
                super::array::add_to_set(set, values);
            }
            Modifier::Pop { first } => {
                let kind = target.kind().alias();
                let values = array(target, || {
                    QueryError::type_mismatch(format!(
                        "Path '{}' contains an element of non-array type '{kind}'",
                        place.dotted()
                    ))
                })?;
                if *first && !values.is_empty() {
                    values.remove(0);
                } else {
                    values.pop();
                }
            }
            Modifier::Pull(pull) => {
                let refuse = || QueryError::bad_value("Cannot apply $pull to a non-array value");
                pull.apply(array(target, refuse)?)?;
            }
            Modifier::RenameTarget(number) => {
                if let Some(value) = around.renamed(*number) {
                    check_no_array(place, around)?;
                    *target = value.clone();
                }
            }
        }
        Ok(Effect::Stays)
    }
}

fn array(target: &mut Value, refuse: impl FnOnce() -> QueryError) -> Result<&mut Vec<Value>, QueryError> {
    match target {
        Value::Array(values) => Ok(values.as_mut_vec()),
        _ => Err(refuse()),
    }
}

fn not_array(place: &FieldPlace<'_>, kind: &str, around: &Surroundings<'_>) -> QueryError {
    QueryError::bad_value(format!(
        "The field '{}' must be an array but is of type {kind} in document {{{}}}",
        place.dotted(),
        describe_id(around.document)
    ))
}

/// `$rename` does not write into arrays.
pub(super) fn check_no_array(place: &FieldPlace<'_>, around: &Surroundings<'_>) -> Result<(), QueryError> {
    match place.array_above() {
        None => Ok(()),
        Some(array) => Err(array_on_rename_path("destination", &place.dotted(), array, around)),
    }
}

/// The refusal of a `$rename` whose path runs through an array.
pub(super) fn array_on_rename_path(
    end: &str,
    path: &str,
    array: &str,
    around: &Surroundings<'_>,
) -> QueryError {
    QueryError::bad_value(format!(
        "The {end} field cannot be an array element, '{path}' in doc with {} has an array field called \
        '{array}'",
        describe_id(around.document)
    ))
}

fn not_numeric(
    operation: Arithmetic,
    name: &str,
    value: RawValue<'_>,
    around: &Surroundings<'_>,
) -> QueryError {
    QueryError::type_mismatch(format!(
        "Cannot apply {} to a value of non-numeric type. {{{}}} has the field '{name}' of non-numeric type \
        {}",
        operation.name(),
        describe_id(around.document),
        value.kind().alias()
    ))
}

fn calculate(
    operation: Arithmetic,
    current: Number,
    operand: Number,
    around: &Surroundings<'_>,
) -> Result<Number, QueryError> {
    let result = match operation {
        Arithmetic::Increment => current.checked_plus(operand),
        Arithmetic::Multiply => current.checked_times(operand),
    };
    result.ok_or_else(|| {
        QueryError::bad_value(format!(
            "Failed to apply {} operations to current value ({}) for document {{{}}}",
            operation.name(),
            document::quote::number(current.as_raw()),
            describe_id(around.document)
        ))
    })
}
