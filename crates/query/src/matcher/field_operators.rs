//! The operators that stand in a field's operator document.

use document::{RawArray, RawDocument, RawValue};

use super::bits::{BitTest, BitTestKind};
use super::parse::{self, OperatorPlace, comparison, equality, is_operator_document};
use super::predicate::{ComparisonOperator, Predicate, Remainder, ValueTest};
use super::{Constant, InList, Pattern, TypeSet};
use crate::error::{QueryError, code};
use crate::integer::{truncated, whole_number_from_zero};

/// `NotImplemented` of MongoDB's error table.
const NOT_IMPLEMENTED: i32 = 238;
const OPTIONS_TWICE: i32 = 51_075;

/// What an operator is given.
pub(crate) struct FieldArgument<'a> {
    pub(crate) path: &'a str,
    pub(crate) operator: &'static str,
    pub(crate) value: RawValue<'a>,
    /// The whole operator document: `$regex` and `$options` belong together.
    pub(crate) siblings: RawDocument<'a>,
    pub(crate) place: OperatorPlace<'a>,
}

type Tests = Vec<ValueTest>;
type ParsedTests = Result<(), QueryError>;

/// One operator of a field.
pub struct FieldOperator {
    /// With its `$`.
    pub name: &'static str,
    /// One line for the manual.
    pub purpose: &'static str,
    /// Appends the tests it stands for.
    pub(crate) parse: for<'a> fn(&FieldArgument<'a>, &mut Tests) -> ParsedTests,
}

/// Every operator of a field, alphabetically.
pub fn field_operators() -> &'static [FieldOperator] {
    TABLE
}

pub(crate) fn field_operator(name: &str) -> Option<&'static FieldOperator> {
    TABLE.iter().find(|operator| operator.name == name)
}

macro_rules! table {
    ($($name:literal, $purpose:literal, $parse:expr;)*) => {
        &[$(FieldOperator { name: $name, purpose: $purpose, parse: $parse }),*]
    };
}

const TABLE: &[FieldOperator] = table![
    "$all", "the array has all of these elements", all;
    "$bitsAllClear", "all of these bits are 0", |argument,
    tests| bits(BitTestKind::AllClear, argument, tests);
    "$bitsAllSet", "all of these bits are 1", |argument, tests| bits(BitTestKind::AllSet, argument, tests);
    "$bitsAnyClear", "one of these bits is 0", |argument, tests| bits(BitTestKind::AnyClear, argument, tests);
    "$bitsAnySet", "one of these bits is 1", |argument, tests| bits(BitTestKind::AnySet, argument, tests);
    "$comment", "a remark, ignored", |_, _| Ok(());
    "$elemMatch", "one element passes all of these tests", element_match;
    "$eq", "equal", equal;
    "$exists", "the field is there, or is not", exists;
    "$geoIntersects", "geospatial; refused", geospatial;
    "$geoWithin", "geospatial; refused", geospatial;
    "$gt", "greater than", |argument, tests| ordered(ComparisonOperator::Greater, argument, tests);
    "$gte", "greater than or equal", |argument,
    tests| ordered(ComparisonOperator::GreaterOrEqual, argument, tests);
    "$in", "equal to one of these, or matching one of these regular expressions", in_list;
    "$lt", "less than", |argument, tests| ordered(ComparisonOperator::Less, argument, tests);
    "$lte", "less than or equal", |argument, tests| ordered(ComparisonOperator::LessOrEqual, argument, tests);
    "$mod", "divided by the first, the second remains", modulo;
    "$ne", "not equal", not_equal;
    "$near", "geospatial; refused", nearest;
    "$nearSphere", "geospatial; refused", nearest;
    "$nin", "none of these", not_in;
    "$not", "the tests do not all pass", not;
    "$options", "flags of the $regex beside it", options;
    "$regex", "the string contains a match", regex;
    "$size", "the array has this many elements", size;
    "$type", "the value is of this type", type_of;
    "$within", "geospatial; refused", geospatial;
];

fn equal(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    tests.push(ValueTest::Is(equality(argument.value)?));
    Ok(())
}

fn not_equal(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    if matches!(argument.value, RawValue::Regex { .. }) {
        bail!(bad_value, "Can't have regex as arg to $ne.");
    }
    tests.push(ValueTest::Not(vec![ValueTest::Is(equality(argument.value)?)]));
    Ok(())
}

fn ordered(operator: ComparisonOperator, argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    if matches!(argument.value, RawValue::Regex { .. }) {
        bail!(bad_value, "Can't have RegEx as arg to predicate over field '{}'.", argument.path);
    }
    tests.push(ValueTest::Is(comparison(operator, argument.value)?));
    Ok(())
}

fn array_of<'a>(argument: &FieldArgument<'a>) -> Result<RawArray<'a>, QueryError> {
    let needs_array = || QueryError::bad_value(format!("{} needs an array", argument.operator));
    argument.value.as_array().ok_or_else(needs_array)
}

fn list(argument: &FieldArgument<'_>) -> Result<Predicate, QueryError> {
    let mut values = Vec::new();
    let mut patterns = Vec::new();
    for value in array_of(argument)?.iter() {
        match value {
            RawValue::Regex { pattern, options } => patterns.push(Pattern::compile(pattern, options)?),
            RawValue::Undefined => bail!(bad_value, "cannot compare to undefined"),
            RawValue::Document(document) if is_operator_document(document) => {
                bail!(bad_value, "cannot nest $ under $in")
            }
            value => values.push(Constant::new(value)),
        }
    }
    Ok(Predicate::In(InList::new(values, patterns)))
}

fn in_list(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    tests.push(ValueTest::Is(list(argument)?));
    Ok(())
}

fn not_in(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    tests.push(ValueTest::Not(vec![ValueTest::Is(list(argument)?)]));
    Ok(())
}

fn not(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    let inner = match argument.value {
        RawValue::Regex { pattern, options } => {
            vec![ValueTest::Is(Predicate::Pattern(Pattern::compile(pattern, options)?))]
        }
        RawValue::Document(operators) if operators.is_empty() => bail!(bad_value, "$not cannot be empty"),
        RawValue::Document(operators) => parse::operator_document(argument.path, operators, argument.place)?,
        _ => bail!(bad_value, "$not needs a regex or a document"),
    };
    tests.push(ValueTest::Not(inner));
    Ok(())
}

fn exists(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    let exists = ValueTest::Is(Predicate::Exists);
    tests.push(if argument.value.truthy() { exists } else { ValueTest::Not(vec![exists]) });
    Ok(())
}

fn type_of(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    let mut types = TypeSet::default();
    match argument.value {
        RawValue::Array(operands) => operands.iter().try_for_each(|operand| types.add(operand))?,
        operand => types.add(operand)?,
    }
    if types.is_empty() {
        bail!(failed_to_parse, "$type must match at least one type");
    }
    tests.push(ValueTest::Is(Predicate::Type(types)));
    Ok(())
}

fn all(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    let operands = array_of(argument)?;
    if operands.is_empty() {
        tests.push(ValueTest::Is(Predicate::Nothing));
        return Ok(());
    }
    let first_is_element_match =
        operands.iter().next().is_some_and(|first| element_match_of(first).is_some());
    for operand in operands.iter() {
        let predicate = match operand {
            _ if first_is_element_match => {
                let condition = element_match_of(operand)
                    .ok_or_else(|| QueryError::bad_value("$all/$elemMatch has to be consistent"))?;
                element_predicate(condition, argument)?
            }
            RawValue::Regex { pattern, options } => Predicate::Pattern(Pattern::compile(pattern, options)?),
            RawValue::Document(document) if is_operator_document(document) => {
                bail!(bad_value, "no $ expressions in $all")
            }
            value => equality(value)?,
        };
        tests.push(ValueTest::Is(predicate));
    }
    Ok(())
}

/// The operand of `{$elemMatch: …}`, when the value is such a document.
fn element_match_of(value: RawValue<'_>) -> Option<RawValue<'_>> {
    let first = value.as_document()?.first()?;
    (first.name() == "$elemMatch").then(|| first.value())
}

fn element_match(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    tests.push(ValueTest::Is(element_predicate(argument.value, argument)?));
    Ok(())
}

/// `$elemMatch` tests the elements themselves when it holds operators, and documents when it holds a filter.
fn element_predicate(condition: RawValue<'_>, argument: &FieldArgument<'_>) -> Result<Predicate, QueryError> {
    let RawValue::Document(condition) = condition else {
        bail!(bad_value, "$elemMatch needs an Object");
    };
    let place = OperatorPlace { nested: true, ..argument.place };
    let tests_values = parse::is_operator_document_strictly(condition)
        && condition.first().is_some_and(|first| super::top_operators::top_operator(first.name()).is_none());
    if tests_values {
        return parse::operator_document("", condition, place).map(Predicate::ElementValue);
    }
    parse::document(condition, place).map(|filter| Predicate::ElementObject(Box::new(filter)))
}

fn size(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    let size = whole_number_from_zero(argument.operator, argument.value)
        .map_err(|error| QueryError::bad_value(format!("Failed to parse $size. {}", error.message)))?;
    tests.push(ValueTest::Is(Predicate::Size(size)));
    Ok(())
}

fn bits(kind: BitTestKind, argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    tests.push(ValueTest::Is(Predicate::Bits(BitTest::parse(kind, argument.value)?)));
    Ok(())
}

fn modulo(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    let malformed = |reason: &str| QueryError::bad_value(format!("malformed mod, {reason}"));
    let operands = argument.value.as_array().ok_or_else(|| malformed("needs to be an array"))?;
    let mut operands = operands.iter();
    let divisor = operands.next().ok_or_else(|| malformed("not enough elements"))?;
    let remainder = operands.next().ok_or_else(|| malformed("not enough elements"))?;
    if operands.next().is_some() {
        return Err(malformed("too many elements"));
    }
    if !divisor.is_number() {
        return Err(malformed("divisor not a number"));
    }
    if !remainder.is_number() {
        return Err(malformed("remainder not a number"));
    }
    let whole = |name: &str, value| {
        let unable = "Unable to coerce NaN/Inf to integral type";
        truncated(value)
            .ok_or_else(|| malformed(&format!("{name} value is invalid :: caused by :: {unable}")))
    };
    let divisor = whole("divisor", divisor)?;
    let remainder = whole("remainder", remainder)?;
    if divisor == 0 {
        bail!(bad_value, "divisor cannot be 0");
    }
    tests.push(ValueTest::Is(Predicate::Remainder(Remainder { divisor, remainder })));
    Ok(())
}

fn regex(argument: &FieldArgument<'_>, tests: &mut Tests) -> ParsedTests {
    let (pattern, inner_options) = match argument.value {
        RawValue::String(pattern) => (pattern, ""),
        RawValue::Regex { pattern, options } => (pattern, options),
        _ => bail!(bad_value, "$regex has to be a string"),
    };
    let options = match argument.siblings.get("$options") {
        None => inner_options,
        Some(RawValue::String(_)) if !inner_options.is_empty() => {
            bail!(OPTIONS_TWICE, "options set in both $regex and $options")
        }
        Some(RawValue::String(options)) => options,
        Some(_) => bail!(bad_value, "$options has to be a string"),
    };
    tests.push(ValueTest::Is(Predicate::Pattern(Pattern::compile(pattern, options)?)));
    Ok(())
}

fn options(argument: &FieldArgument<'_>, _: &mut Tests) -> ParsedTests {
    if argument.siblings.contains("$regex") {
        return Ok(());
    }
    Err(QueryError::bad_value("$options needs a $regex"))
}

fn geospatial(argument: &FieldArgument<'_>, _: &mut Tests) -> ParsedTests {
    let message = format!("{}: geospatial queries are not supported", argument.operator);
    Err(QueryError::new(NOT_IMPLEMENTED, message))
}

fn nearest(argument: &FieldArgument<'_>, _: &mut Tests) -> ParsedTests {
    let path = argument.path;
    let message =
        format!("unable to find index for $geoNear query: no geospatial index exists on field '{path}'");
    Err(QueryError::new(code::NO_QUERY_EXECUTION_PLANS, message))
}
