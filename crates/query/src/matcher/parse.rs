//! From filter documents to trees.

use document::{Element, RawDocument, RawValue};

use super::field_operators::{FieldArgument, field_operator};
use super::predicate::{Comparison, ComparisonOperator, Predicate, ValueTest};
use super::top_operators::top_operator;
use super::{Constant, MatchNode, MatchPath, Pattern};
use crate::environment::Environment;
use crate::error::QueryError;

/// Where a filter stands: some operators are allowed in the outermost one only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperatorPlace<'e> {
    pub(crate) environment: &'e Environment,
    /// Inside `$elemMatch`.
    pub(crate) nested: bool,
}

/// Parses a whole filter.
pub(crate) fn filter(filter: RawDocument<'_>, environment: &Environment) -> Result<MatchNode, QueryError> {
    document(filter, OperatorPlace { environment, nested: false })
}

/// Parses a filter document at some place: the conjunction of its fields.
pub(crate) fn document(filter: RawDocument<'_>, place: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    let mut children = Vec::new();
    for element in filter.iter() {
        children.push(field(element, place)?);
    }
    Ok(MatchNode::all(children))
}

fn field(element: Element<'_>, place: OperatorPlace<'_>) -> Result<MatchNode, QueryError> {
    let name = element.name();
    if name.starts_with('$') && !is_reference_part(name) {
        let operator = top_operator(name).ok_or_else(|| {
            QueryError::bad_value(format!(
                "unknown top level operator: {name}. If you have a field name that starts with a '$' symbol, \
                 consider using $getField or $setField."
            ))
        })?;
        return (operator.parse)(operator.name, element.value(), place);
    }
    let tests = tests(name, element.value(), place)?;
    Ok(MatchNode::of_tests(&MatchPath::new(name), tests))
}

/// Parses what stands at a field: operators, a regular expression, or a value to equal.
pub(crate) fn value_tests(
    path: &str,
    value: RawValue<'_>,
    environment: &Environment,
) -> Result<Vec<ValueTest>, QueryError> {
    tests(path, value, OperatorPlace { environment, nested: true })
}

fn tests(path: &str, value: RawValue<'_>, place: OperatorPlace<'_>) -> Result<Vec<ValueTest>, QueryError> {
    match value {
        RawValue::Document(operators) if is_operator_document(operators) => {
            operator_document(path, operators, place)
        }
        RawValue::Regex { pattern, options } => {
            Ok(vec![ValueTest::Is(Predicate::Pattern(Pattern::compile(pattern, options)?))])
        }
        value => Ok(vec![ValueTest::Is(equality(value)?)]),
    }
}

/// Parses `{$gt: 1, $lt: 5}`.
pub(crate) fn operator_document(
    path: &str,
    operators: RawDocument<'_>,
    place: OperatorPlace<'_>,
) -> Result<Vec<ValueTest>, QueryError> {
    let mut tests = Vec::new();
    for element in operators.iter() {
        let name = element.name();
        let operator =
            field_operator(name).ok_or_else(|| QueryError::bad_value(format!("unknown operator: {name}")))?;
        let argument = FieldArgument {
            path,
            operator: operator.name,
            value: element.value(),
            siblings: operators,
            place,
        };
        (operator.parse)(&argument, &mut tests)?;
    }
    Ok(tests)
}

/// The test that a value equals `operand`.
pub(crate) fn equality(operand: RawValue<'_>) -> Result<Predicate, QueryError> {
    comparison(ComparisonOperator::Equal, operand)
}

/// A comparison with `operand`.
pub(crate) fn comparison(
    operator: ComparisonOperator,
    operand: RawValue<'_>,
) -> Result<Predicate, QueryError> {
    if operand == RawValue::Undefined {
        bail!(bad_value, "cannot compare to undefined");
    }
    Ok(Predicate::Compare(Comparison { operator, operand: Constant::new(operand) }))
}

/// Whether a document is one of operators rather than a value: its first field begins with `$`, and it is no
/// database reference.
pub(crate) fn is_operator_document(document: RawDocument<'_>) -> bool {
    begins_with_operator(document) && !(document.contains("$ref") && document.contains("$id"))
}

/// As [`is_operator_document`], where a part of a database reference is enough to be a value.
pub(crate) fn is_operator_document_strictly(document: RawDocument<'_>) -> bool {
    begins_with_operator(document) && !document.iter().any(|element| is_reference_part(element.name()))
}

fn begins_with_operator(document: RawDocument<'_>) -> bool {
    document.first().is_some_and(|element| element.name_bytes().first() == Some(&b'$'))
}

/// The field names of a database reference, which look like operators.
fn is_reference_part(name: &str) -> bool {
    matches!(name, "$ref" | "$id" | "$db")
}
