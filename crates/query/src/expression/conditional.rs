//! Operators that choose which of their operands to evaluate: `$and`, `$or`, `$cond`, `$ifNull`, `$switch`.

use document::{RawDocument, RawValue};

use crate::error::QueryError;

use super::operators::Operator;
use super::scope::ParseScope;
use super::{Expression, ExpressionNode};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::grammar(
        "$and",
        |operand, scope| Ok(Expression { node: ExpressionNode::All(parse_list(operand, scope)?) }),
        "whether every operand counts as true; stops at the first that does not",
    ),
    Operator::grammar(
        "$or",
        |operand, scope| Ok(Expression { node: ExpressionNode::Any(parse_list(operand, scope)?) }),
        "whether any operand counts as true; stops at the first that does",
    ),
    Operator::grammar(
        "$cond",
        parse_cond,
        "one of two expressions, chosen by a condition; [if, then, else] or an object with these fields",
    ),
    Operator::grammar(
        "$ifNull",
        parse_if_null,
        "the first operand that is neither null nor missing, or else the last operand",
    ),
    Operator::grammar(
        "$switch",
        parse_switch,
        "the 'then' of the first branch whose 'case' counts as true, or else 'default'",
    ),
];

fn parse_list(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Vec<Expression>, QueryError> {
    match operand {
        RawValue::Array(array) => array.iter().map(|item| Expression::parse(item, scope)).collect(),
        single => Ok(vec![Expression::parse(single, scope)?]),
    }
}

fn parse_cond(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let (condition, then, otherwise) = match operand {
        RawValue::Document(document) => parse_cond_object(document, scope)?,
        _ => {
            let operands = parse_list(operand, scope)?;
            let given = operands.len();
            let Ok([condition, then, otherwise]) = <[Expression; 3]>::try_from(operands) else {
                bail!(16020, "Expression $cond takes exactly 3 arguments. {given} were passed in.");
            };
            (condition, then, otherwise)
        }
    };
    Ok(Expression {
        node: ExpressionNode::Switch {
            branches: vec![(condition, then)],
            default: Some(Box::new(otherwise)),
        },
    })
}

fn parse_cond_object(
    document: RawDocument<'_>,
    scope: &ParseScope<'_>,
) -> Result<(Expression, Expression, Expression), QueryError> {
    let (mut condition, mut then, mut otherwise) = (None, None, None);
    for element in document.iter() {
        let place = match element.name() {
            "if" => &mut condition,
            "then" => &mut then,
            "else" => &mut otherwise,
            unknown => bail!(17083, "Unrecognized parameter to $cond: {unknown}"),
        };
        *place = Some(Expression::parse(element.value(), scope)?);
    }
    let absent = |code, name: &str| query_error!(code, "Missing '{name}' parameter to $cond");
    Ok((
        condition.ok_or_else(|| absent(17080, "if"))?,
        then.ok_or_else(|| absent(17081, "then"))?,
        otherwise.ok_or_else(|| absent(17082, "else"))?,
    ))
}

fn parse_if_null(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let operands = parse_list(operand, scope)?;
    if operands.len() < 2 {
        bail!(1257300, "$ifNull needs at least two arguments, had: {}", operands.len());
    }
    Ok(Expression { node: ExpressionNode::IfNull(operands) })
}

fn parse_switch(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let RawValue::Document(document) = operand else {
        bail!(40060, "$switch requires an object as an argument, found: {}", operand.kind().alias());
    };
    let (mut branches, mut default) = (Vec::new(), None);
    for element in document.iter() {
        match (element.name(), element.value()) {
            ("branches", RawValue::Array(array)) => {
                for branch in array.iter() {
                    branches.push(parse_branch(branch, scope)?);
                }
            }
            ("branches", other) => {
                bail!(40061, "$switch expected an array for 'branches', found: {}", other.kind().alias())
            }
            ("default", value) => default = Some(Box::new(Expression::parse(value, scope)?)),
            (unknown, _) => bail!(40067, "$switch found an unknown argument: {unknown}"),
        }
    }
    if branches.is_empty() {
        bail!(40068, "$switch requires at least one branch.");
    }
    Ok(Expression { node: ExpressionNode::Switch { branches, default } })
}

fn parse_branch(
    branch: RawValue<'_>,
    scope: &ParseScope<'_>,
) -> Result<(Expression, Expression), QueryError> {
    let RawValue::Document(document) = branch else {
        bail!(40062, "$switch expected each branch to be an object, found: {}", branch.kind().alias());
    };
    let (mut case, mut then) = (None, None);
    for element in document.iter() {
        match element.name() {
            "case" => case = Some(Expression::parse(element.value(), scope)?),
            "then" => then = Some(Expression::parse(element.value(), scope)?),
            unknown => bail!(40063, "$switch found an unknown argument to a branch: {unknown}"),
        }
    }
    let case =
        case.ok_or_else(|| QueryError::new(40064, "$switch requires each branch have a 'case' expression"))?;
    let then =
        then.ok_or_else(|| QueryError::new(40065, "$switch requires each branch have a 'then' expression."))?;
    Ok((case, then))
}
