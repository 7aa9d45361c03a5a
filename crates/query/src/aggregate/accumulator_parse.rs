//! The table of accumulators, and their parsing.

use document::{Element, ElementType, RawValue, quote};

use crate::error::QueryError;
use crate::expression::{Expression, ParseScope};
use crate::sort::SortPattern;

use super::accumulator::{AccumulatorKind, AccumulatorSpec};

/// How an accumulator's operand is written.
#[derive(Clone, Copy)]
enum Form {
    /// One expression.
    Unary,
    /// An empty object.
    Nothing,
    /// `{input, n}`.
    InputAndCount,
    /// `{sortBy, output}`.
    Ordered,
    /// `{sortBy, output, n}`.
    OrderedAndCount,
}

static ACCUMULATORS: &[(&str, AccumulatorKind, Form)] = &[
    ("$addToSet", AccumulatorKind::AddToSet, Form::Unary),
    ("$avg", AccumulatorKind::Average, Form::Unary),
    ("$bottom", AccumulatorKind::Bottom, Form::Ordered),
    ("$bottomN", AccumulatorKind::BottomN, Form::OrderedAndCount),
    ("$count", AccumulatorKind::Count, Form::Nothing),
    ("$first", AccumulatorKind::First, Form::Unary),
    ("$firstN", AccumulatorKind::FirstN, Form::InputAndCount),
    ("$last", AccumulatorKind::Last, Form::Unary),
    ("$lastN", AccumulatorKind::LastN, Form::InputAndCount),
    ("$max", AccumulatorKind::Maximum, Form::Unary),
    ("$maxN", AccumulatorKind::MaximumN, Form::InputAndCount),
    ("$mergeObjects", AccumulatorKind::MergeObjects, Form::Unary),
    ("$min", AccumulatorKind::Minimum, Form::Unary),
    ("$minN", AccumulatorKind::MinimumN, Form::InputAndCount),
    ("$push", AccumulatorKind::Push, Form::Unary),
    ("$stdDevPop", AccumulatorKind::DeviationOfPopulation, Form::Unary),
    ("$stdDevSamp", AccumulatorKind::DeviationOfSample, Form::Unary),
    ("$sum", AccumulatorKind::Sum, Form::Unary),
    ("$top", AccumulatorKind::Top, Form::Ordered),
    ("$topN", AccumulatorKind::TopN, Form::OrderedAndCount),
];

/// The names of all accumulators of `$group`.
pub fn accumulator_names() -> impl Iterator<Item = &'static str> {
    ACCUMULATORS.iter().map(|(name, ..)| *name)
}

/// Parses one field of a group: `total: {$sum: "$x"}`.
pub(super) fn parse(
    element: Element<'_>,
    scope: &ParseScope<'_>,
) -> Result<(String, AccumulatorSpec), QueryError> {
    let field = element.name();
    let accumulator = accumulator_of(element)
        .ok_or_else(|| query_error!(40234, "The field '{field}' must be an accumulator object"))?;
    if field.contains('.') {
        bail!(40235, "The field name '{field}' cannot contain '.'");
    }
    if field.starts_with('$') {
        bail!(40236, "The field name '{field}' cannot be an operator name");
    }
    let (first, is_only) = accumulator;
    if !is_only {
        bail!(40238, "The field '{field}' must specify one accumulator");
    }
    let name = first.name();
    if first.kind() == ElementType::Array {
        bail!(40237, "The {name} accumulator is a unary operator");
    }
    Ok((field.to_owned(), parse_accumulator(first, scope)?))
}

/// The first field of the object that a group's field is, and whether it is the only one; `None` for anything
/// else.
fn accumulator_of(element: Element<'_>) -> Option<(Element<'_>, bool)> {
    let mut fields = element.value().as_document()?.iter();
    let first = fields.next().filter(|first| first.name().starts_with('$'))?;
    Some((first, fields.next().is_none()))
}

fn parse_accumulator(
    accumulator: Element<'_>,
    scope: &ParseScope<'_>,
) -> Result<AccumulatorSpec, QueryError> {
    let name = accumulator.name();
    let Some(&(name, kind, form)) = ACCUMULATORS.iter().find(|(known, ..)| *known == name) else {
        bail!(15952, "unknown group operator '{name}'");
    };
    let operand = accumulator.value();
    match form {
        Form::Unary => Ok(AccumulatorSpec {
            name,
            kind,
            input: Expression::parse(operand, scope)?,
            count: None,
            order: None,
        }),
        Form::Nothing => match operand {
            RawValue::Document(empty) if empty.is_empty() => Ok(AccumulatorSpec {
                name,
                kind,
                input: Expression::constant(None),
                count: None,
                order: None,
            }),
            _ => Err(QueryError::type_mismatch("$count takes no arguments, i.e. $count:{}")),
        },
        Form::InputAndCount => with_fields(name, kind, operand, &["input", "n"], scope),
        Form::Ordered => with_fields(name, kind, operand, &["sortBy", "output"], scope),
        Form::OrderedAndCount => with_fields(name, kind, operand, &["sortBy", "output", "n"], scope),
    }
}

fn with_fields(
    name: &'static str,
    kind: AccumulatorKind,
    operand: RawValue<'_>,
    wanted: &[&str],
    scope: &ParseScope<'_>,
) -> Result<AccumulatorSpec, QueryError> {
    let RawValue::Document(document) = operand else {
        bail!(5787801, "specification must be an object; found {}", quote::element(name, operand));
    };
    let (mut input, mut count, mut order) = (None, None, None);
    for element in document.iter() {
        if !wanted.contains(&element.name()) {
            bail!(5787901, "Unknown argument to {name}: '{}'", element.name());
        }
        match (element.name(), element.value()) {
            ("n", value) => count = Some(Expression::parse(value, scope)?),
            ("sortBy", RawValue::Document(pattern)) => order = Some(SortPattern::parse(pattern)?),
            ("sortBy", other) => {
                bail!(10065, "invalid parameter: expected an object (sortBy), found {}", other.kind().alias())
            }
            (_, value) => input = Some(Expression::parse(value, scope)?),
        }
    }
    let absent = |code, what: &str| query_error!(code, "Missing value for '{what}'");
    if wanted.contains(&"n") && count.is_none() {
        return Err(absent(5787906, "n"));
    }
    if wanted.contains(&"sortBy") && order.is_none() {
        return Err(absent(5788005, "sortBy"));
    }
    let output = if wanted.contains(&"output") { ("output", 5788004) } else { ("input", 5787907) };
    let input = input.ok_or_else(|| absent(output.1, output.0))?;
    Ok(AccumulatorSpec { name, kind, input, count, order })
}
