//! Order among owned values: `$sortArray`, and `sortBy` of the `$topN` accumulators.

use std::cmp::Ordering;

use document::{RawDocument, RawValue, Value};

use crate::error::QueryError;
use crate::sort::MAX_SORT_FIELDS;

use super::comparison::compare_evaluated;
use super::field::Path;
use super::operators::Operator;
use super::scope::ParseScope;
use super::{Evaluated, Expression, ExpressionNode, Outcome, null_if_nullish, type_name};

pub(crate) static OPERATORS: &[Operator] = &[Operator::grammar(
    "$sortArray",
    parse,
    "the items of 'input', sorted by the value itself or by fields ('sortBy')",
)];

/// How values are ordered: as wholes, or by fields.
#[derive(Debug, Clone)]
pub(crate) enum ValueOrder {
    Whole { descending: bool },
    Fields(Vec<(Path, bool)>),
}

impl ValueOrder {
    /// Parses 1, -1, or a document of such.
    pub(crate) fn parse(pattern: RawValue<'_>) -> Result<Self, QueryError> {
        match pattern {
            RawValue::Document(pattern) => Self::parse_fields(pattern),
            direction => Ok(Self::Whole { descending: descending(direction)? }),
        }
    }

    /// Parses a document of fields and directions.
    pub(crate) fn parse_fields(pattern: RawDocument<'_>) -> Result<Self, QueryError> {
        if pattern.iter().nth(MAX_SORT_FIELDS).is_some() {
            bail!(bad_value, "too many compound keys");
        }
        let fields = pattern
            .iter()
            .map(|element| Ok((Path::parse(element.name())?, descending(element.value())?)))
            .collect::<Result<Vec<_>, QueryError>>()?;
        if fields.is_empty() {
            bail!(15976, "$sort stage must have at least one sort key");
        }
        Ok(Self::Fields(fields))
    }

    /// The order of two values.
    pub(crate) fn compare(&self, left: &Value, right: &Value) -> Ordering {
        match self {
            Self::Whole { descending } => turned(left.compare(right), *descending),
            Self::Fields(fields) => fields
                .iter()
                .map(|(path, descending)| {
                    let (left, right) =
                        (sort_value(path, left, *descending), sort_value(path, right, *descending));
                    turned(compare_sort_values(&left, &right), *descending)
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }

    /// Sorts the items of an array; nullish in, null out.
    pub(crate) fn sort_array(&self, input: Evaluated) -> Outcome {
        null_if_nullish!(input);
        match input {
            Some(Value::Array(mut items)) => {
                items.sort_by(|left, right| self.compare(left, right));
                Ok(Some(Value::Array(items)))
            }
            other => Err(query_error!(
                2942504,
                "The input argument to $sortArray must be an array, but was of type: {}",
                type_name(&other)
            )),
        }
    }
}

fn turned(order: Ordering, descending: bool) -> Ordering {
    if descending { order.reverse() } else { order }
}

/// A missing field sorts as null.
fn compare_sort_values(left: &Evaluated, right: &Evaluated) -> Ordering {
    let null = Some(Value::Null);
    compare_evaluated(if left.is_none() { &null } else { left }, if right.is_none() { &null } else { right })
}

/// An array sorts by its lowest item, or by its highest when descending; an empty one as undefined.
fn sort_value(path: &Path, value: &Value, descending: bool) -> Evaluated {
    match path.of_value(value) {
        Some(Value::Array(items)) => {
            let best = if descending {
                items.into_iter().max_by(Value::compare)
            } else {
                items.into_iter().min_by(Value::compare)
            };
            Some(best.unwrap_or(Value::Undefined))
        }
        other => other,
    }
}

fn descending(direction: RawValue<'_>) -> Result<bool, QueryError> {
    if !direction.is_number() {
        bail!(
            15974,
            "Illegal key in $sort specification: expected 1 or -1, found {}",
            direction.kind().alias()
        );
    }
    match direction.as_i64_exact() {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => {
            Err(QueryError::new(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)"))
        }
    }
}

fn parse(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let RawValue::Document(document) = operand else {
        bail!(2942500, "$sortArray requires an object as an argument, found: {}", operand.kind().alias());
    };
    let (mut input, mut order) = (None, None);
    for element in document.iter() {
        match element.name() {
            "input" => input = Some(Expression::parse(element.value(), scope)?),
            "sortBy" => order = Some(ValueOrder::parse(element.value())?),
            unknown => bail!(2942501, "$sortArray found an unknown argument: {unknown}"),
        }
    }
    let input =
        input.ok_or_else(|| QueryError::new(2942502, "$sortArray requires 'input' to be specified"))?;
    let order =
        order.ok_or_else(|| QueryError::new(2942503, "$sortArray requires 'sortBy' to be specified"))?;
    Ok(Expression { node: ExpressionNode::SortArray { input: Box::new(input), order } })
}
