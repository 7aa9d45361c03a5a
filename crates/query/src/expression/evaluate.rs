//! Running a parsed expression on one document.

use document::{RawDocument, RawValue, Value};

use crate::checkpoint;
use crate::error::{QueryError, code};

use super::operators::Arity;
use super::{Evaluated, Expression, ExpressionNode, Outcome, Variables, is_true, limits, nullish, type_name};

impl Expression {
    /// What the expression yields for the document `root`.
    ///
    /// # Errors
    /// The operator's own, with MongoDB's codes.
    pub fn evaluate(
        &self,
        root: RawDocument<'_>,
        variables: &mut Variables,
    ) -> Result<Evaluated, QueryError> {
        checkpoint::pass(1)?;
        let held = variables.held_bytes();
        let result = self.evaluate_node(root, variables);
        variables.release_to(held);
        result
    }

    fn evaluate_node(&self, root: RawDocument<'_>, variables: &mut Variables) -> Outcome {
        match &self.node {
            ExpressionNode::Constant(value) => {
                checkpoint::pass(value.as_ref().map_or(0, parts))?;
                Ok(value.clone())
            }
            ExpressionNode::Root => {
                checkpoint::pass_bytes(root.as_bytes().len())?;
                Ok(Some(Value::from(root)))
            }
            ExpressionNode::Field(path) => {
                checkpoint::pass_bytes(root.as_bytes().len())?;
                Ok(path.of_document(root))
            }
            ExpressionNode::Variable { slot, path } => {
                let Some(value) = variables.get(*slot) else { return Ok(None) };
                checkpoint::pass(parts(value))?;
                Ok(match path {
                    Some(path) => path.of_value(value),
                    None => Some(value.clone()),
                })
            }
            ExpressionNode::Object(fields) => evaluate_object(fields, root, variables),
            ExpressionNode::Array(items) => evaluate_array(items, root, variables),
            ExpressionNode::Call { operator, operands } => {
                let mut values = Vec::with_capacity(operands.len());
                for operand in operands {
                    let value = operand.evaluate(root, variables)?;
                    variables.hold(&value)?;
                    values.push(value);
                }
                operator.call(values)
            }
            ExpressionNode::Named { operator, parameters } => {
                let Arity::Named(signature) = operator.arity else {
                    bail!(code::INTERNAL_ERROR, "an operator without parameters was given some");
                };
                let mut values = Vec::with_capacity(parameters.len());
                for given in parameters {
                    let value =
                        given.as_ref().map(|operand| operand.evaluate(root, variables)).transpose()?;
                    if let Some(value) = &value {
                        variables.hold(value)?;
                    }
                    values.push(value);
                }
                operator.call_named(signature, values)
            }
            ExpressionNode::All(operands) => {
                for operand in operands {
                    if !operand.matches(root, variables)? {
                        return Ok(Some(Value::Boolean(false)));
                    }
                }
                Ok(Some(Value::Boolean(true)))
            }
            ExpressionNode::Any(operands) => {
                for operand in operands {
                    if operand.matches(root, variables)? {
                        return Ok(Some(Value::Boolean(true)));
                    }
                }
                Ok(Some(Value::Boolean(false)))
            }
            ExpressionNode::Switch { branches, default } => {
                evaluate_switch(branches, default.as_deref(), root, variables)
            }
            ExpressionNode::IfNull(operands) => evaluate_if_null(operands, root, variables),
            ExpressionNode::Let { slot, bindings, body } => {
                evaluate_let(*slot, bindings, body, root, variables)
            }
            ExpressionNode::Map { input, slot, body } => evaluate_map(input, *slot, body, root, variables),
            ExpressionNode::Filter { input, slot, condition, limit } => {
                evaluate_filter(input, *slot, condition, limit.as_deref(), root, variables)
            }
            ExpressionNode::Reduce { input, initial, slot, body } => {
                evaluate_reduce(input, initial, *slot, body, root, variables)
            }
            ExpressionNode::SortArray { input, order } => order.sort_array(input.evaluate(root, variables)?),
            ExpressionNode::Random => Ok(Some(Value::Double(variables.random.next_unit()))),
            ExpressionNode::SampleRate(rate) => {
                Ok(Some(Value::Boolean(variables.random.next_unit() < *rate)))
            }
        }
    }

    /// Whether the expression yields something that counts as true (`$expr`, `$and`, `$cond`).
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn matches(&self, root: RawDocument<'_>, variables: &mut Variables) -> Result<bool, QueryError> {
        Ok(is_true(&self.evaluate(root, variables)?))
    }

    /// Hands what the expression yields to `take` without a copy where the expression is a plain path or a
    /// constant scalar; `None` is missing.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn with_value<T>(
        &self,
        root: RawDocument<'_>,
        variables: &mut Variables,
        take: impl FnOnce(Borrowed<'_>) -> T,
    ) -> Result<T, QueryError> {
        if let ExpressionNode::Field(path) = &self.node
            && let Ok(found) = path.borrowed(root)
        {
            return Ok(take(Borrowed::Raw(found)));
        }
        if let Some(constant) = self.as_constant() {
            return Ok(take(Borrowed::Owned(constant.clone())));
        }
        Ok(take(Borrowed::Owned(self.evaluate(root, variables)?)))
    }
}

/// In how many parts a value is copied, about.
fn parts(value: &Value) -> usize {
    const BYTES_PER_PART: usize = 256;
    match value {
        Value::Array(items) => items.len(),
        Value::Document(fields) => fields.len(),
        Value::String(text) => text.len() / BYTES_PER_PART,
        Value::Binary(binary) => binary.bytes.len() / BYTES_PER_PART,
        _ => 0,
    }
}

/// A value that still lies in the document, or one that was computed.
pub enum Borrowed<'a> {
    /// Bytes of the document; `None` is missing.
    Raw(Option<RawValue<'a>>),
    /// A computed value; `None` is missing.
    Owned(Evaluated),
}

impl Borrowed<'_> {
    /// The value, owned.
    pub fn into_value(self) -> Evaluated {
        match self {
            Self::Raw(found) => found.map(RawValue::to_value),
            Self::Owned(value) => value,
        }
    }
}

fn evaluate_object(
    fields: &[(String, Expression)],
    root: RawDocument<'_>,
    variables: &mut Variables,
) -> Outcome {
    let mut object = Vec::with_capacity(fields.len());
    for (name, field) in fields {
        if let Some(value) = field.evaluate(root, variables)? {
            variables.hold_bytes(value.memory_bytes())?;
            object.push((name.clone(), value));
        }
    }
    limits::object("an object", object.into())
}

/// A missing item becomes null, so that positions stay what they are.
fn evaluate_array(items: &[Expression], root: RawDocument<'_>, variables: &mut Variables) -> Outcome {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        let value = item.evaluate(root, variables)?.unwrap_or_default();
        variables.hold_bytes(value.memory_bytes())?;
        values.push(value);
    }
    limits::array("an array", values)
}

fn evaluate_let(
    slot: usize,
    bindings: &[Expression],
    body: &Expression,
    root: RawDocument<'_>,
    variables: &mut Variables,
) -> Outcome {
    let mut values = Vec::with_capacity(bindings.len());
    for binding in bindings {
        let value = binding.evaluate(root, variables)?;
        variables.hold(&value)?;
        values.push(value);
    }
    for (offset, value) in values.into_iter().enumerate() {
        variables.set(slot + offset, value);
    }
    let result = body.evaluate(root, variables);
    for offset in 0..bindings.len() {
        variables.take(slot + offset);
    }
    result
}

fn evaluate_switch(
    branches: &[(Expression, Expression)],
    default: Option<&Expression>,
    root: RawDocument<'_>,
    variables: &mut Variables,
) -> Outcome {
    for (condition, result) in branches {
        if condition.matches(root, variables)? {
            return result.evaluate(root, variables);
        }
    }
    match default {
        Some(default) => default.evaluate(root, variables),
        None => Err(QueryError::new(
            40066,
            "$switch could not find a matching branch for an input, and no default was specified.",
        )),
    }
}

fn evaluate_if_null(operands: &[Expression], root: RawDocument<'_>, variables: &mut Variables) -> Outcome {
    let (replacement, candidates) = operands.split_last().expect("$ifNull has at least two operands");
    for candidate in candidates {
        let value = candidate.evaluate(root, variables)?;
        if !nullish(&value) {
            return Ok(value);
        }
    }
    replacement.evaluate(root, variables)
}

fn evaluate_map(
    input: &Expression,
    slot: usize,
    body: &Expression,
    root: RawDocument<'_>,
    variables: &mut Variables,
) -> Outcome {
    let items = match input.evaluate(root, variables)? {
        Some(Value::Array(items)) => items,
        value if nullish(&value) => return Ok(super::NULL),
        other => bail!(16883, "input to $map must be an array not {}", type_name(&other)),
    };
    variables.hold_bytes(items.measure().bytes)?;
    let mut mapped = Vec::with_capacity(items.len());
    let mut filling = limits::Filling::of("$map");
    for item in items {
        variables.set(slot, Some(item));
        let value = body.evaluate(root, variables)?.unwrap_or_default();
        variables.hold_bytes(filling.add(&value)?)?;
        mapped.push(value);
    }
    variables.take(slot);
    limits::array("$map", mapped)
}

fn evaluate_filter(
    input: &Expression,
    slot: usize,
    condition: &Expression,
    limit: Option<&Expression>,
    root: RawDocument<'_>,
    variables: &mut Variables,
) -> Outcome {
    let items = match input.evaluate(root, variables)? {
        Some(Value::Array(items)) => items,
        value if nullish(&value) => return Ok(super::NULL),
        other => bail!(28651, "input to $filter must be an array not {}", type_name(&other)),
    };
    let limit = match limit {
        Some(limit) => filter_limit(limit.evaluate(root, variables)?)?,
        None => usize::MAX,
    };
    variables.hold_bytes(items.measure().bytes)?;
    let mut kept = Vec::new();
    for item in items {
        if kept.len() >= limit {
            break;
        }
        variables.set(slot, Some(item));
        if condition.matches(root, variables)? {
            kept.extend(variables.take(slot));
        }
    }
    variables.take(slot);
    Ok(Some(Value::from(kept)))
}

fn filter_limit(limit: Evaluated) -> Result<usize, QueryError> {
    if nullish(&limit) {
        return Ok(usize::MAX);
    }
    let Some(number) = super::as_integer(&limit) else {
        bail!(327391, "$filter: limit must be represented as a 32-bit integral value: {}", type_name(&limit));
    };
    match usize::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(query_error!(327392, "$filter: limit must be greater than 0: {number}")),
    }
}

fn evaluate_reduce(
    input: &Expression,
    initial: &Expression,
    slot: usize,
    body: &Expression,
    root: RawDocument<'_>,
    variables: &mut Variables,
) -> Outcome {
    let items = match input.evaluate(root, variables)? {
        Some(Value::Array(items)) => items,
        value if nullish(&value) => return Ok(super::NULL),
        other => bail!(40080, "$reduce requires that 'input' be an array, found: {}", type_name(&other)),
    };
    variables.hold_bytes(items.measure().bytes)?;
    let held = variables.held_bytes();
    let mut accumulated = initial.evaluate(root, variables)?;
    for item in items {
        variables.release_to(held);
        variables.hold(&accumulated)?;
        variables.set(slot, Some(item));
        variables.set(slot + 1, accumulated);
        accumulated = body.evaluate(root, variables)?;
    }
    variables.take(slot);
    variables.take(slot + 1);
    Ok(accumulated)
}
