//! Operators on arrays: `$push`, `$addToSet`, `$pull`, `$pullAll`.

use std::collections::HashSet;
use std::sync::Arc;

use document::key::GroupKey;
use document::{RawDocument, RawValue, Value};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::matcher::{Matcher, ValueMatcher};
use crate::sort::SortPattern;

/// `$push` with its clauses.
#[derive(Debug, Default)]
pub(super) struct Push {
    values: Vec<Value>,
    position: Option<i64>,
    slice: Option<i64>,
    sort: Option<PushSort>,
}

/// `$sort` of `$push`.
#[derive(Debug, Clone)]
enum PushSort {
    /// Whole elements.
    Elements { descending: bool },
    /// Elements by their fields; what is no document counts as empty.
    Fields(Arc<SortPattern>),
}

impl Push {
    pub(super) fn parse(operand: RawValue<'_>) -> Result<Self, QueryError> {
        let clauses = match operand {
            RawValue::Document(clauses) if clauses.contains("$each") => clauses,
            value => return Ok(Push { values: vec![value.to_value()], ..Push::default() }),
        };
        let mut push = Push::default();
        let mut found: Vec<&str> = Vec::new();
        for clause in clauses {
            let value = clause.value();
            if found.contains(&clause.name()) {
                bail!(bad_value, "Only one {} is supported.", clause.name());
            }
            found.push(clause.name());
            match clause.name() {
                "$each" => push.values = push_each(value)?,
                "$position" => {
                    push.position = Some(integer(value).ok_or_else(|| {
                        QueryError::bad_value(format!(
                            "The value for $position must be an integer value, not of type: {}",
                            value.kind().alias()
                        ))
                    })?);
                }
                "$slice" => {
                    push.slice = Some(integer(value).ok_or_else(|| {
                        QueryError::bad_value(format!(
                            "The value for $slice must be an integer value but was given type: {}",
                            value.kind().alias()
                        ))
                    })?);
                }
                "$sort" => push.sort = Some(PushSort::parse(value)?),
                other => bail!(bad_value, "Unrecognized clause in $push: {other}"),
            }
        }
        Ok(push)
    }

    pub(super) fn apply(&self, array: &mut Vec<Value>) {
        let length = array.len() as i64;
        let position = match self.position {
            Some(position) if position < 0 => (length + position).max(0),
            Some(position) => position.min(length),
            None => length,
        } as usize;
        array.splice(position..position, self.values.iter().cloned());
        if let Some(sort) = &self.sort {
            sort.apply(array);
        }
        match self.slice {
            Some(slice) if slice >= 0 => array.truncate(slice as usize),
            Some(slice) => {
                let surplus = array.len().saturating_sub(slice.unsigned_abs() as usize);
                array.drain(..surplus);
            }
            None => {}
        }
    }
}

impl PushSort {
    fn parse(value: RawValue<'_>) -> Result<Self, QueryError> {
        const ONE: &str = "The $sort element value must be either 1 or -1";
        match value {
            RawValue::Document(pattern) => {
                Self::check_pattern(pattern, ONE)?;
                let pattern =
                    SortPattern::parse(pattern).map_err(|error| QueryError::bad_value(error.message))?;
                Ok(PushSort::Fields(Arc::new(pattern)))
            }
            other if other.is_number() => match other.as_f64() {
                Some(1.0) => Ok(PushSort::Elements { descending: false }),
                Some(-1.0) => Ok(PushSort::Elements { descending: true }),
                _ => Err(QueryError::bad_value(ONE)),
            },
            _ => Err(QueryError::bad_value(
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded \
                fields",
            )),
        }
    }

    fn check_pattern(pattern: RawDocument<'_>, one: &str) -> Result<(), QueryError> {
        if pattern.is_empty() {
            let message = "The $sort pattern is empty when it should be a set of fields.";
            return Err(QueryError::bad_value(message));
        }
        for field in pattern {
            let name = field.name();
            let order = Some(field.value()).filter(|value| value.is_number()).and_then(RawValue::as_f64);
            if !matches!(order, Some(1.0 | -1.0)) {
                return Err(QueryError::bad_value(one));
            }
            if name.is_empty() {
                bail!(bad_value, "The $sort field cannot be empty");
            }
            if name.split('.').any(str::is_empty) {
                bail!(bad_value, "The $sort field is a dotted field but has an empty part: {name}");
            }
        }
        Ok(())
    }

    fn apply(&self, array: &mut [Value]) {
        match self {
            PushSort::Elements { descending: false } => array.sort_by(Value::compare),
            PushSort::Elements { descending: true } => array.sort_by(|left, right| right.compare(left)),
            PushSort::Fields(pattern) => array.sort_by_cached_key(|value| {
                let document = value.as_document().map(|document| document.to_buf()).unwrap_or_default();
                // Parallel arrays within an element have no order; such elements come first.
                pattern.key(document.as_raw()).unwrap_or_default()
            }),
        }
    }
}

fn integer(value: RawValue<'_>) -> Option<i64> {
    value.as_i64_exact()
}

fn push_each(value: RawValue<'_>) -> Result<Vec<Value>, QueryError> {
    match value {
        RawValue::Array(values) => Ok(values.to_values()),
        other => Err(QueryError::bad_value(format!(
            "The argument to $each in $push must be an array but it was of type: {}",
            other.kind().alias()
        ))),
    }
}

/// The values of an `$addToSet`.
pub(super) fn parse_add_to_set(operand: RawValue<'_>) -> Result<Vec<Value>, QueryError> {
    let RawValue::Document(clauses) = operand else { return Ok(vec![operand.to_value()]) };
    let mut fields = clauses.iter();
    let Some(each) = fields.next().filter(|first| first.name() == "$each") else {
        return Ok(vec![operand.to_value()]);
    };
    let RawValue::Array(values) = each.value() else {
        bail!(
            type_mismatch,
            "The argument to $each in $addToSet must be an array but it was of type {}",
            each.kind().alias()
        );
    };
    if fields.next().is_some() {
        bail!(bad_value, "Found unexpected fields after $each in $addToSet: {}", operand.quoted());
    }
    Ok(values.to_values())
}

/// Appends each value that the array does not hold yet.
pub(super) fn add_to_set(array: &mut Vec<Value>, values: &[Value]) {
    if (array.len() + values.len()).saturating_mul(values.len()) > MOST_COMPARED {
        let mut known: HashSet<GroupKey> = array.iter().map(GroupKey::of).collect();
        array.extend(values.iter().filter(|value| known.insert(GroupKey::of(value))).cloned());
        return;
    }
    for value in values {
        if !array.iter().any(|existing| existing.compare(value).is_eq()) {
            array.push(value.clone());
        }
    }
}

/// Up to so many comparisons are quicker than a table of keys.
const MOST_COMPARED: usize = 256;

/// Which elements `$pull` and `$pullAll` remove.
#[derive(Debug)]
pub(super) enum Pull {
    /// Elements equal to one of these, which are sorted (`$pullAll`).
    AnyOf(Vec<Value>),
    /// Elements equal to this.
    Equal(Value),
    /// Documents that match a filter.
    Documents(Box<Matcher>),
    /// Values that pass a test.
    Values(Box<ValueMatcher>),
}

impl Pull {
    pub(super) fn parse(operand: RawValue<'_>, environment: &Environment) -> Result<Self, QueryError> {
        match operand {
            RawValue::Document(filter) if is_test(filter) => {
                Ok(Pull::Values(Box::new(ValueMatcher::parse(operand, environment)?)))
            }
            RawValue::Document(filter) => Ok(Pull::Documents(Box::new(Matcher::parse(filter, environment)?))),
            RawValue::Regex { .. } => Ok(Pull::Values(Box::new(ValueMatcher::parse(operand, environment)?))),
            value => Ok(Pull::Equal(value.to_value())),
        }
    }

    pub(super) fn parse_all(operand: RawValue<'_>) -> Result<Self, QueryError> {
        match operand {
            RawValue::Array(values) => {
                let mut unwanted = values.to_values();
                unwanted.sort_by(Value::compare);
                Ok(Pull::AnyOf(unwanted))
            }
            other => Err(QueryError::bad_value(format!(
                "$pullAll requires an array argument but was given a {}",
                other.kind().alias()
            ))),
        }
    }

    pub(super) fn apply(&self, array: &mut Vec<Value>) -> Result<(), QueryError> {
        let mut kept = Vec::with_capacity(array.len());
        for value in std::mem::take(array) {
            if !self.removes(&value)? {
                kept.push(value);
            }
        }
        *array = kept;
        Ok(())
    }

    fn removes(&self, value: &Value) -> Result<bool, QueryError> {
        match self {
            Pull::AnyOf(values) => Ok(values.binary_search_by(|unwanted| unwanted.compare(value)).is_ok()),
            Pull::Equal(unwanted) => Ok(unwanted.compare(value).is_eq()),
            Pull::Documents(matcher) => match value {
                Value::Document(document) => matcher.matches(document.to_buf().as_raw()),
                _ => Ok(false),
            },
            Pull::Values(test) => value.with_raw(|value| test.matches(Some(value))),
        }
    }
}

/// Whether a `$pull` operand tests the elements themselves rather than fields of documents.
fn is_test(filter: RawDocument<'_>) -> bool {
    const FILTERS: [&str; 6] = ["$and", "$or", "$nor", "$expr", "$comment", "$jsonSchema"];
    filter.first().is_some_and(|first| first.name().starts_with('$') && !FILTERS.contains(&first.name()))
}
