//! Operators that bind variables: `$let`, `$map`, `$filter`, `$reduce`.

use document::{RawDocument, RawValue};

use crate::error::QueryError;

use super::operators::Operator;
use super::scope::{ParseScope, check_variable_name};
use super::{Expression, ExpressionNode};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::grammar("$let", parse_let, "the expression 'in', with the variables of 'vars' bound"),
    Operator::grammar("$map", parse_map, "the array of 'in' for each item of 'input'"),
    Operator::grammar(
        "$filter",
        parse_filter,
        "the items of 'input' for which 'cond' counts as true, at most 'limit' of them",
    ),
    Operator::grammar(
        "$reduce",
        parse_reduce,
        "the result of combining $$value, at first 'initialValue', with each item $$this of 'input' by 'in'",
    ),
];

/// The fields of one of these operators, each at most once.
struct Fields<'a> {
    operator: &'static str,
    found: Vec<(&'static str, RawValue<'a>)>,
}

impl<'a> Fields<'a> {
    fn read(
        operator: &'static str,
        operand: RawValue<'a>,
        known: &[&'static str],
        not_an_object: i32,
        unknown_code: i32,
    ) -> Result<Self, QueryError> {
        let RawValue::Document(document) = operand else {
            bail!(not_an_object, "{operator} only supports an object as its argument");
        };
        let mut found = Vec::new();
        for element in document.iter() {
            let Some(name) = known.iter().find(|name| **name == element.name()) else {
                bail!(unknown_code, "Unrecognized parameter to {operator}: {}", element.name());
            };
            found.push((*name, element.value()));
        }
        Ok(Self { operator, found })
    }

    fn optional(&self, name: &str) -> Option<RawValue<'a>> {
        self.found.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn required(&self, name: &str, code: i32) -> Result<RawValue<'a>, QueryError> {
        self.optional(name)
            .ok_or_else(|| query_error!(code, "Missing '{name}' parameter to {}", self.operator))
    }

    fn variable(&self, default: &str) -> Result<String, QueryError> {
        match self.optional("as") {
            None => Ok(default.to_owned()),
            Some(RawValue::String(name)) => {
                check_variable_name(name)?;
                Ok(name.to_owned())
            }
            Some(_) => Err(QueryError::failed_to_parse("empty variable names are not allowed")),
        }
    }
}

fn parse_let(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let fields = Fields::read("$let", operand, &["vars", "in"], 16874, 16875)?;
    let vars = fields.required("vars", 16876)?;
    let body = fields.required("in", 16877)?;
    let RawValue::Document(vars) = vars else {
        bail!(10065, "invalid parameter: expected an object (vars)");
    };
    let (names, bindings) = parse_bindings(vars, scope)?;
    let slot = scope.next_slot();
    let body = Expression::parse(body, &scope.bind(names))?;
    // The slots of the bindings' own variables lie above these, so a binding cannot disturb an earlier one.
    Ok(Expression { node: ExpressionNode::Let { slot, bindings, body: Box::new(body) } })
}

fn parse_bindings(
    vars: RawDocument<'_>,
    scope: &ParseScope<'_>,
) -> Result<(Vec<String>, Vec<Expression>), QueryError> {
    let (mut names, mut bindings) = (Vec::new(), Vec::new());
    for element in vars.iter() {
        check_variable_name(element.name())?;
        names.push(element.name().to_owned());
        bindings.push(Expression::parse(element.value(), scope)?);
    }
    Ok((names, bindings))
}

fn parse_map(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let fields = Fields::read("$map", operand, &["input", "as", "in"], 16878, 16879)?;
    let input = fields.required("input", 16880)?;
    let body = fields.required("in", 16882)?;
    let name = fields.variable("this")?;
    let input = Expression::parse(input, scope)?;
    let body = Expression::parse(body, &scope.bind(vec![name]))?;
    Ok(Expression {
        node: ExpressionNode::Map { input: Box::new(input), slot: scope.next_slot(), body: Box::new(body) },
    })
}

fn parse_filter(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let fields = Fields::read("$filter", operand, &["input", "as", "cond", "limit"], 28646, 28647)?;
    let input = fields.required("input", 28648)?;
    let condition = fields.required("cond", 28650)?;
    let name = fields.variable("this")?;
    let input = Expression::parse(input, scope)?;
    let condition = Expression::parse(condition, &scope.bind(vec![name]))?;
    let limit = fields.optional("limit").map(|limit| Expression::parse(limit, scope)).transpose()?;
    Ok(Expression {
        node: ExpressionNode::Filter {
            input: Box::new(input),
            slot: scope.next_slot(),
            condition: Box::new(condition),
            limit: limit.map(Box::new),
        },
    })
}

fn parse_reduce(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let fields = Fields::read("$reduce", operand, &["input", "initialValue", "in"], 40075, 40076)?;
    let input = Expression::parse(fields.required("input", 40077)?, scope)?;
    let initial = Expression::parse(fields.required("initialValue", 40078)?, scope)?;
    let body = fields.required("in", 40079)?;
    let body = Expression::parse(body, &scope.bind(vec!["this".to_owned(), "value".to_owned()]))?;
    Ok(Expression {
        node: ExpressionNode::Reduce {
            input: Box::new(input),
            initial: Box::new(initial),
            slot: scope.next_slot(),
            body: Box::new(body),
        },
    })
}
