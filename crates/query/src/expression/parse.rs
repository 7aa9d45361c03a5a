//! From BSON to an [`Expression`].

use std::collections::HashSet;

use document::{RawArray, RawDocument, RawValue, Value};

use crate::error::QueryError;

use super::call::Implementation;
use super::field::{Path, check_field_name};
use super::limits::bytes_of;
use super::operators::{Arity, Operator, Signature, operator};
use super::scope::{Binding, ParseScope, check_variable_reference};
use super::{Expression, ExpressionNode, Variables};

/// Operators that are part of the grammar itself.
pub(crate) static OPERATORS: &[Operator] = &[
    Operator::grammar("$literal", parse_literal, "the operand as it stands, without evaluating it"),
    Operator::grammar("$const", parse_literal, "the operand as it stands; the older name of $literal"),
    Operator::grammar("$rand", parse_rand, "a random number from 0 up to but not including 1"),
    Operator::grammar(
        "$sampleRate",
        parse_sample_rate,
        "true with the given probability, drawn anew for each document",
    ),
];

impl Expression {
    /// Parses any operand: a literal, a field path, a variable, an object, an array or an operator.
    ///
    /// # Errors
    /// MongoDB's codes and messages: 168 for an unknown operator, 16020 and 28667 for a wrong number of
    /// operands, 17276 for an unknown variable, and each operator's own.
    pub fn parse(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Self, QueryError> {
        match operand {
            RawValue::String(text) if text.starts_with('$') => parse_reference(text, scope),
            RawValue::Document(document) => parse_object(document, &scope.deeper()?),
            RawValue::Array(array) => parse_array(array, &scope.deeper()?),
            other => Ok(Self::constant(Some(other.to_value()))),
        }
    }

    /// Parses an object that may only be an operator call, such as `{$add: [1, 2]}`.
    ///
    /// # Errors
    /// As [`Expression::parse`].
    pub fn parse_call(name: &str, operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Self, QueryError> {
        let Some(operator) = operator(name) else {
            bail!(168, "Unrecognized expression '{name}'");
        };
        if let Implementation::Grammar(parse) = operator.implementation {
            return Ok(parse(operand, scope)?.folded(scope));
        }
        let node = match operator.arity {
            Arity::Named(signature) => parse_named(operator, signature, operand, scope)?,
            _ => ExpressionNode::Call { operator, operands: parse_operands(operator, operand, scope)? },
        };
        Ok(Self { node }.folded(scope))
    }

    /// Replaces a node whose operands are all constant by its value, unless that is much larger than they
    /// are: a short text would fill the memory. An error is noted and left for evaluation to raise.
    fn folded(self, scope: &ParseScope<'_>) -> Self {
        let foldable = match &self.node {
            ExpressionNode::Constant(_)
            | ExpressionNode::Root
            | ExpressionNode::Field(_)
            | ExpressionNode::Variable { .. } => false,
            ExpressionNode::Random | ExpressionNode::SampleRate(_) => false,
            ExpressionNode::Let { .. }
            | ExpressionNode::Map { .. }
            | ExpressionNode::Filter { .. }
            | ExpressionNode::Reduce { .. } => false,
            _ => {
                let mut all_constant = true;
                self.for_each_operand(&mut |operand| all_constant &= operand.as_constant().is_some());
                all_constant
            }
        };
        if !foldable {
            return self;
        }
        let mut given_bytes = 0;
        self.for_each_operand(&mut |operand| given_bytes += operand.as_constant().map_or(0, bytes_of));
        match self.evaluate(RawDocument::EMPTY, &mut Variables::with_seed(0)) {
            Ok(value) if bytes_of(&value) <= given_bytes + MAX_FOLDED_GROWTH => Self::constant(value),
            Ok(_) => self,
            Err(error) => {
                scope.note_failed_constant(error);
                self
            }
        }
    }
}

/// By how many bytes a folded value may exceed its operands.
const MAX_FOLDED_GROWTH: usize = 256;

fn parse_literal(operand: RawValue<'_>, _: &ParseScope<'_>) -> Result<Expression, QueryError> {
    Ok(Expression::constant(Some(operand.to_value())))
}

fn parse_rand(operand: RawValue<'_>, _: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let arguments = match operand {
        RawValue::Document(document) => !document.is_empty(),
        RawValue::Array(array) => !array.is_empty(),
        _ => bail!(10065, "invalid parameter: expected an object ($rand)"),
    };
    if arguments {
        bail!(3040501, "$rand does not currently accept arguments");
    }
    Ok(Expression { node: ExpressionNode::Random })
}

fn parse_sample_rate(operand: RawValue<'_>, _: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let rate = match operand {
        RawValue::Double(rate) => rate,
        RawValue::Int32(rate) => f64::from(rate),
        RawValue::Int64(rate) => rate as f64,
        _ => bail!(bad_value, "argument to $sampleRate must be a numeric type"),
    };
    if !(0.0..=1.0).contains(&rate) {
        bail!(bad_value, "numeric argument to $sampleRate must be in [0, 1]");
    }
    Ok(Expression { node: ExpressionNode::SampleRate(rate) })
}

fn parse_reference(text: &str, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let Some(named) = text.strip_prefix("$$") else {
        let path = text.strip_prefix('$').expect("a reference begins with a dollar sign");
        if path.is_empty() {
            bail!(16872, "'$' by itself is not a valid FieldPath");
        }
        let path = Path::parse(path)?;
        return Ok(match scope.lookup("CURRENT") {
            Some(binding) => bound(binding, Some(path)),
            None => Expression::field(path),
        });
    };
    let (name, path) = match named.split_once('.') {
        Some((name, path)) => (name, Some(Path::parse(path)?)),
        None => (named, None),
    };
    check_variable_reference(name)?;
    match scope.lookup(name) {
        Some(binding) => Ok(bound(binding, path)),
        None => system_variable(name, path, scope),
    }
}

fn bound(binding: Binding<'_>, path: Option<Path>) -> Expression {
    match binding {
        Binding::Slot(slot) => Expression { node: ExpressionNode::Variable { slot, path } },
        // A `let` variable whose expression was missing travels as undefined.
        Binding::Fixed(Value::Undefined) => Expression::constant(None),
        Binding::Fixed(value) => Expression::constant(match path {
            Some(path) => path.of_value(value),
            None => Some(value.clone()),
        }),
    }
}

fn system_variable(name: &str, path: Option<Path>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let environment = scope.environment();
    let value = match name {
        "ROOT" | "CURRENT" => {
            return Ok(path.map_or(Expression { node: ExpressionNode::Root }, Expression::field));
        }
        "REMOVE" => None,
        "NOW" => Some(Value::DateTime(environment.now_ms)),
        "CLUSTER_TIME" if environment.cluster_time.as_u64() != 0 => {
            Some(Value::Timestamp(environment.cluster_time))
        }
        "CLUSTER_TIME" => bail!(51144, "Builtin variable '$$CLUSTER_TIME' is not available"),
        // `$redact`'s answers: three distinct constants that only that stage reads.
        "DESCEND" | "PRUNE" | "KEEP" => Some(Value::String(name.to_ascii_lowercase())),
        "USER_ROLES" => Some(Value::Array(document::Array::new())),
        _ => bail!(17276, "Use of undefined variable: {name}"),
    };
    let value = match path {
        Some(path) => value.as_ref().and_then(|value| path.of_value(value)),
        None => value,
    };
    Ok(Expression::constant(value))
}

fn parse_object(document: RawDocument<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let Some(first) = document.first() else {
        return Ok(Expression::constant(Some(Value::from(document))));
    };
    if first.name().starts_with('$') {
        if document.iter().nth(1).is_some() {
            bail!(
                15983,
                "An object representing an expression must have exactly one field: {}",
                document.quoted()
            );
        }
        return Expression::parse_call(first.name(), first.value(), scope);
    }
    let (mut fields, mut seen) = (Vec::new(), HashSet::new());
    for element in document.iter() {
        let name = element.name();
        check_field_name(name)?;
        if !seen.insert(name) {
            bail!(16406, "duplicate field name specified in object literal: {}", document.quoted());
        }
        fields.push((name.to_owned(), Expression::parse(element.value(), scope)?));
    }
    Ok(Expression { node: ExpressionNode::Object(fields) }.folded(scope))
}

fn parse_array(array: RawArray<'_>, scope: &ParseScope<'_>) -> Result<Expression, QueryError> {
    let items = array.iter().map(|item| Expression::parse(item, scope)).collect::<Result<Vec<_>, _>>()?;
    Ok(Expression { node: ExpressionNode::Array(items) }.folded(scope))
}

/// Parses the operands of an operator: the items of an array, or the one value that stands alone.
pub(crate) fn parse_operands(
    operator: &Operator,
    operand: RawValue<'_>,
    scope: &ParseScope<'_>,
) -> Result<Vec<Expression>, QueryError> {
    let operands = match operand {
        RawValue::Array(array) => {
            array.iter().map(|item| Expression::parse(item, scope)).collect::<Result<Vec<_>, _>>()?
        }
        single => vec![Expression::parse(single, scope)?],
    };
    check_arity(operator, operands.len())?;
    Ok(operands)
}

fn check_arity(operator: &Operator, given: usize) -> Result<(), QueryError> {
    let name = operator.name;
    match operator.arity {
        Arity::Exactly(wanted) if wanted != given => Err(query_error!(
            16020,
            "Expression {name} takes exactly {wanted} arguments. {given} were passed in."
        )),
        Arity::Between(least, most) if !(least..=most).contains(&given) => Err(query_error!(
            28667,
            "Expression {name} takes at least {least} arguments, and at most {most}, but {given} were \
            passed in."
        )),
        _ => Ok(()),
    }
}

fn parse_named(
    operator: &'static Operator,
    signature: &'static Signature,
    operand: RawValue<'_>,
    scope: &ParseScope<'_>,
) -> Result<ExpressionNode, QueryError> {
    let name = operator.name;
    if let Some(alone) = shorthand(operator, signature, operand)? {
        let mut parameters: Vec<Option<Expression>> = vec![None; signature.parameters.len()];
        if let Some(first) = parameters.first_mut() {
            *first = Some(Expression::parse(alone, scope)?);
        }
        return Ok(ExpressionNode::Named { operator, parameters });
    }
    let RawValue::Document(document) = operand else {
        bail!(
            signature.not_an_object,
            "{name} only supports an object as an argument, found {}",
            operand.kind().alias()
        );
    };
    let mut parameters: Vec<Option<Expression>> = vec![None; signature.parameters.len()];
    for element in document.iter() {
        let known = signature.parameters.iter().position(|parameter| parameter.name == element.name());
        let Some(place) = known.and_then(|position| parameters.get_mut(position)) else {
            bail!(signature.unknown, "{name} found an unknown argument: {}", element.name());
        };
        *place = Some(Expression::parse(element.value(), scope)?);
    }
    for (parameter, given) in signature.parameters.iter().zip(&parameters) {
        if parameter.required && given.is_none() {
            bail!(signature.absent, "Missing '{}' parameter to {name}", parameter.name);
        }
    }
    Ok(ExpressionNode::Named { operator, parameters })
}

/// The operand that stands for the first parameter alone, when the operator allows it and it is not an object
/// of named parameters.
fn shorthand<'a>(
    operator: &Operator,
    signature: &Signature,
    operand: RawValue<'a>,
) -> Result<Option<RawValue<'a>>, QueryError> {
    if !signature.shorthand {
        return Ok(None);
    }
    match operand {
        RawValue::Document(document) => {
            let is_call = document.first().is_some_and(|first| first.name().starts_with('$'));
            Ok(is_call.then_some(operand))
        }
        RawValue::Array(array) => match (array.get(0), array.len()) {
            (Some(only), 1) => Ok(Some(only)),
            (_, given) => Err(query_error!(
                16020,
                "Expression {} takes exactly 1 arguments. {given} were passed in.",
                operator.name
            )),
        },
        alone => Ok(Some(alone)),
    }
}
