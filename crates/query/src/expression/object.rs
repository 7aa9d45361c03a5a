//! Operators on objects, and the sizes of values.

use document::{Fieldwise, RawValue, Value};

use crate::error::QueryError;

use super::brief;
use super::operators::Operator;
use super::scope::ParseScope;
use super::{Evaluated, Expression, ExpressionNode, Outcome, limits, null_if_nullish, nullish, type_name};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::many("$mergeObjects", merge, "one object with the fields of all; later ones win"),
    Operator::grammar(
        "$getField",
        parse_get_field,
        "the field 'field' of 'input', whatever characters its name has",
    ),
    Operator::grammar(
        "$setField",
        parse_set_field,
        "the object 'input' with the field 'field' set to 'value'",
    ),
    Operator::grammar("$unsetField", parse_unset_field, "the object 'input' without the field 'field'"),
    Operator::one("$binarySize", binary_size, "the number of bytes of a string or of binary data"),
    Operator::one("$bsonSize", bson_size, "the number of bytes an object takes as BSON"),
];

/// What `$getField` and `$setField` become once their fields are known; neither name is reachable from a
/// client.
static GET_FIELD: Operator = Operator::two("$getField", get_field, "the field with this name of this object");
static SET_FIELD: Operator =
    Operator::three("$setField", set_field, "the object with this field set to this value");

fn merge(operands: Vec<Evaluated>) -> Outcome {
    let objects = match <[Evaluated; 1]>::try_from(operands) {
        Ok([Some(Value::Array(items))]) => items.into_iter().map(Some).collect(),
        Ok([single]) => vec![single],
        Err(several) => several,
    };
    let mut merged = Fieldwise::default();
    for object in objects {
        merge_into(&mut merged, object)?;
    }
    limits::object("$mergeObjects", merged.into_document())
}

/// What a field takes beside its name and its value, about.
const FIELD_BYTES: usize = 64;

/// Adds the fields of `object` to `merged`; null and missing add nothing. Returns how many bytes came and how
/// many went.
pub(crate) fn merge_into(merged: &mut Fieldwise, object: Evaluated) -> Result<(usize, usize), QueryError> {
    match object {
        Some(Value::Document(fields)) => {
            let (mut came, mut went) = (0, 0);
            for (name, value) in fields {
                came += value.memory_bytes();
                let new_bytes = FIELD_BYTES + 2 * name.len();
                match merged.insert(name, value) {
                    Some(before) => went += before.memory_bytes(),
                    None => came += new_bytes,
                }
            }
            Ok((came, went))
        }
        value if nullish(&value) => Ok((0, 0)),
        other => Err(query_error!(
            40400,
            "$mergeObjects requires object inputs, but input {} is of type {}",
            brief(&other),
            type_name(&other)
        )),
    }
}

/// The parsed fields of `$getField` and its kin.
#[derive(Default)]
struct FieldOperands {
    field: Option<Expression>,
    input: Option<Expression>,
    value: Option<Expression>,
}

fn parse_fields(
    name: &str,
    operand: RawValue<'_>,
    takes_value: bool,
    scope: &ParseScope<'_>,
) -> Result<FieldOperands, QueryError> {
    let RawValue::Document(document) = operand else {
        bail!(4161100, "{name} only supports an object as its argument");
    };
    let mut operands = FieldOperands::default();
    for element in document.iter() {
        let place = match element.name() {
            "field" => &mut operands.field,
            "input" => &mut operands.input,
            "value" if takes_value => &mut operands.value,
            unknown => bail!(4161101, "{name} found an unknown argument: {unknown}"),
        };
        *place = Some(Expression::parse(element.value(), scope)?);
    }
    if operands.field.is_none() {
        bail!(4161102, "{name} requires 'field' to be specified");
    }
    Ok(operands)
}

fn field_name(name: &str, field: Expression) -> Result<Expression, QueryError> {
    match field.as_constant() {
        Some(Some(Value::String(_))) => Ok(field),
        Some(other) => Err(query_error!(
            4161107,
            "{name} requires 'field' to evaluate to type String, but got {}",
            type_name(other)
        )),
        None if name == "$getField" => Ok(field),
        None => Err(query_error!(4161106, "{name} requires 'field' to evaluate to a constant")),
    }
}

fn parse_get_field(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let named = match operand {
        RawValue::Document(document) => document.first().is_none_or(|first| !first.name().starts_with('$')),
        _ => false,
    };
    let operands = if named {
        parse_fields("$getField", operand, false, scope)?
    } else {
        FieldOperands { field: Some(Expression::parse(operand, scope)?), ..FieldOperands::default() }
    };
    let field = field_name("$getField", operands.field.unwrap_or_else(|| Expression::constant(None)))?;
    let input = match operands.input {
        Some(input) => input,
        None if named => bail!(4161103, "$getField requires 'input' to be specified"),
        None => Expression::parse(RawValue::String("$$CURRENT"), scope)?,
    };
    Ok(Expression { node: ExpressionNode::Call { operator: &GET_FIELD, operands: vec![field, input] } })
}

fn parse_set_field(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let operands = parse_fields("$setField", operand, true, scope)?;
    match (operands.field, operands.input, operands.value) {
        (Some(field), Some(input), Some(value)) => {
            let field = field_name("$setField", field)?;
            Ok(Expression {
                node: ExpressionNode::Call { operator: &SET_FIELD, operands: vec![field, input, value] },
            })
        }
        (_, None, _) => Err(QueryError::new(4161109, "$setField requires 'input' to be specified")),
        _ => Err(QueryError::new(4161103, "$setField requires 'value' to be specified")),
    }
}

fn parse_unset_field(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let operands = parse_fields("$unsetField", operand, false, scope)?;
    match (operands.field, operands.input) {
        (Some(field), Some(input)) => {
            let operands = vec![field_name("$unsetField", field)?, input, Expression::constant(None)];
            Ok(Expression { node: ExpressionNode::Call { operator: &SET_FIELD, operands } })
        }
        _ => Err(QueryError::new(4161109, "$unsetField requires 'input' to be specified")),
    }
}

fn get_field(field: Evaluated, input: Evaluated) -> Outcome {
    let Some(Value::String(name)) = &field else {
        bail!(
            3041704,
            "$getField requires 'field' to evaluate to type String, but got {}",
            type_name(&field)
        );
    };
    match input {
        Some(Value::Document(mut object)) => Ok(object.remove(name)),
        Some(Value::Null | Value::Undefined) => Ok(super::NULL),
        _ => Ok(None),
    }
}

fn set_field(field: Evaluated, input: Evaluated, value: Evaluated) -> Outcome {
    null_if_nullish!(input);
    let (Some(Value::String(name)), Some(Value::Document(mut object))) = (field, input) else {
        bail!(4161105, "$setField requires 'input' to evaluate to type Object");
    };
    match value {
        Some(value) => object.insert(name, value),
        None => object.remove(&name),
    };
    limits::object("$setField", object)
}

fn size(bytes: usize) -> Outcome {
    Ok(Some(Value::Int32(i32::try_from(bytes).unwrap_or(i32::MAX))))
}

fn binary_size(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    match &operand {
        Some(Value::String(text)) => size(text.len()),
        Some(Value::Binary(binary)) => size(binary.bytes.len()),
        other => Err(query_error!(
            51276,
            "$binarySize requires a string or BinData argument, found: {}",
            type_name(other)
        )),
    }
}

fn bson_size(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    match &operand {
        Some(Value::Document(object)) => size(object.to_buf().len()),
        other => Err(query_error!(31393, "$bsonSize requires a document input, found: {}", type_name(other))),
    }
}
