//! Aggregation expressions: parsed once, then evaluated for each document.
//!
//! ```text
//!  {$add: ["$a", 1]} ──▶ parse (scope: names) ──▶ Expression ──▶ evaluate(document, slots) ──▶ value or not
//!                          │  table of operators: name, arity, documentation, implementation
//!                          └─ a call whose operands are all constant is evaluated here, once
//! ```
//!
//! Evaluation yields an [`Evaluated`]: `None` is MongoDB's *missing*, which differs from null wherever a
//! field is about to be written. Field paths read raw bytes; only what an operator returns is owned.
//!
//! Source: MongoDB manual, "Aggregation Operators".

mod accumulate;
mod arithmetic;
mod array;
mod bits;
mod call;
mod comparison;
mod conditional;
mod convert;
mod date;
mod date_arithmetic;
mod date_format;
mod date_names;
mod date_parts;
mod date_text;
mod date_zone;
mod evaluate;
mod field;
mod iterate;
pub(crate) mod limits;
mod number;
mod object;
mod operators;
mod parse;
mod random;
mod regex;
mod scope;
mod set;
mod sort;
mod string;
mod trigonometry;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use document::Value;

pub use evaluate::Borrowed;
pub use field::Path;
pub use operators::{Arity, Operator, OperatorParameter, operator, operators};
pub use random::Random;
pub use scope::{ParseScope, Variables, check_variable_name};

pub(crate) use accumulate::{Deviation, Sum};
pub(crate) use array::take_count;
pub(crate) use date_zone::Zone;
pub(crate) use field::{check_field_name, check_path};
pub(crate) use number::as_integer;
pub(crate) use object::merge_into;
pub(crate) use sort::ValueOrder;

use crate::error::QueryError;

/// What an expression yields for one document; `None` means that there is no value at all (a missing field).
pub type Evaluated = Option<Value>;

/// The result of one operator.
pub(crate) type Outcome = Result<Evaluated, QueryError>;

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expression {
    pub(crate) node: ExpressionNode,
}

/// The forms an expression can take.
#[derive(Debug, Clone)]
pub(crate) enum ExpressionNode {
    Constant(Evaluated),
    /// `$$ROOT`.
    Root,
    /// `"$a.b"`.
    Field(Path),
    /// `"$$name"` or `"$$name.a.b"`, the name bound to a slot.
    Variable {
        slot: usize,
        path: Option<Path>,
    },
    /// An object whose values are expressions.
    Object(Vec<(String, Expression)>),
    /// An array whose items are expressions.
    Array(Vec<Expression>),
    /// An operator that wants all of its operands evaluated.
    Call {
        operator: &'static Operator,
        operands: Vec<Expression>,
    },
    /// An operator with named parameters, in the order of its table entry.
    Named {
        operator: &'static Operator,
        parameters: Vec<Option<Expression>>,
    },
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Switch {
        branches: Vec<(Expression, Expression)>,
        default: Option<Box<Expression>>,
    },
    IfNull(Vec<Expression>),
    Let {
        slot: usize,
        bindings: Vec<Expression>,
        body: Box<Expression>,
    },
    Map {
        input: Box<Expression>,
        slot: usize,
        body: Box<Expression>,
    },
    Filter {
        input: Box<Expression>,
        slot: usize,
        condition: Box<Expression>,
        limit: Option<Box<Expression>>,
    },
    Reduce {
        input: Box<Expression>,
        initial: Box<Expression>,
        slot: usize,
        body: Box<Expression>,
    },
    SortArray {
        input: Box<Expression>,
        order: ValueOrder,
    },
    /// A number in `[0, 1)`.
    Random,
    /// True with this probability.
    SampleRate(f64),
}

/// What an expression reads of the document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Whether the document as a whole is read.
    pub whole: bool,
    /// Dotted paths that are read, each once; meaningless when `whole` is set.
    pub paths: Vec<String>,
    known: HashSet<String>,
}

impl Dependencies {
    /// Adds one path.
    pub fn add(&mut self, path: impl Into<String>) {
        let path = path.into();
        if self.known.insert(path.clone()) {
            self.paths.push(path);
        }
    }
}

impl Expression {
    /// An expression that always yields `value`.
    pub fn constant(value: Evaluated) -> Self {
        Self { node: ExpressionNode::Constant(value) }
    }

    /// An object whose fields are null where they would be missing.
    pub(crate) fn with_null_fields(mut self) -> Self {
        if let ExpressionNode::Object(fields) = &mut self.node {
            for (_, field) in fields {
                let replacement = Expression::constant(NULL);
                let node = std::mem::replace(&mut field.node, ExpressionNode::Root);
                field.node = ExpressionNode::IfNull(vec![Expression { node }, replacement]);
            }
        }
        self
    }

    /// The expression `"$path"`.
    pub fn field(path: Path) -> Self {
        Self { node: ExpressionNode::Field(path) }
    }

    /// The value, when it does not depend on the document.
    pub fn as_constant(&self) -> Option<&Evaluated> {
        match &self.node {
            ExpressionNode::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// The path, when the expression is nothing but a field path.
    pub fn as_path(&self) -> Option<&Path> {
        match &self.node {
            ExpressionNode::Field(path) => Some(path),
            _ => None,
        }
    }

    /// Adds what this expression reads of the document to `found`.
    pub fn dependencies(&self, found: &mut Dependencies) {
        match &self.node {
            ExpressionNode::Root => found.whole = true,
            ExpressionNode::Field(path) => found.add(path.dotted()),
            _ => self.for_each_operand(&mut |operand| operand.dependencies(found)),
        }
    }

    /// Calls `visit` with every expression directly below this one.
    fn for_each_operand(&self, visit: &mut dyn FnMut(&Expression)) {
        match &self.node {
            ExpressionNode::Constant(_)
            | ExpressionNode::Root
            | ExpressionNode::Field(_)
            | ExpressionNode::Variable { .. } => {}
            ExpressionNode::Random | ExpressionNode::SampleRate(_) => {}
            ExpressionNode::Object(fields) => fields.iter().for_each(|(_, field)| visit(field)),
            ExpressionNode::Array(items)
            | ExpressionNode::All(items)
            | ExpressionNode::Any(items)
            | ExpressionNode::IfNull(items) => {
                items.iter().for_each(visit);
            }
            ExpressionNode::Call { operands, .. } => operands.iter().for_each(visit),
            ExpressionNode::Named { parameters, .. } => parameters.iter().flatten().for_each(visit),
            ExpressionNode::Switch { branches, default } => {
                branches.iter().for_each(|(condition, result)| {
                    visit(condition);
                    visit(result);
                });
                default.iter().for_each(|operand| visit(operand));
            }
            ExpressionNode::Let { bindings, body, .. } => {
                bindings.iter().for_each(&mut *visit);
                visit(body);
            }
            ExpressionNode::Map { input, body, .. } => {
                visit(input);
                visit(body);
            }
            ExpressionNode::Filter { input, condition, limit, .. } => {
                visit(input);
                visit(condition);
                limit.iter().for_each(|operand| visit(operand));
            }
            ExpressionNode::Reduce { input, initial, body, .. } => {
                visit(input);
                visit(initial);
                visit(body);
            }
            ExpressionNode::SortArray { input, .. } => visit(input),
        }
    }
}

/// Whether a value counts as true: everything but false, zero, null, undefined and missing.
pub fn is_true(value: &Evaluated) -> bool {
    match value {
        None | Some(Value::Null | Value::Undefined | Value::Boolean(false)) => false,
        Some(Value::Int32(0) | Value::Int64(0)) => false,
        Some(Value::Double(number)) => *number != 0.0,
        Some(Value::Decimal128(number)) => !number.is_zero(),
        Some(_) => true,
    }
}

/// Whether a value is missing, null or undefined.
pub(crate) fn nullish(value: &Evaluated) -> bool {
    value.as_ref().is_none_or(Value::is_nullish)
}

/// A value for an error message.
pub(crate) fn brief(value: &Evaluated) -> String {
    match value {
        Some(value) => value.with_raw(|value| document::quote::operand(Some(value))),
        None => document::quote::operand(None),
    }
}

/// The name of the value's type as MongoDB prints it in errors.
pub(crate) fn type_name(value: &Evaluated) -> &'static str {
    value.as_ref().map_or("missing", |value| value.kind().alias())
}

/// The result null.
pub(crate) const NULL: Evaluated = Some(Value::Null);

/// An operand that is missing, null or undefined makes most operators yield null.
macro_rules! null_if_nullish {
    ($($operand:expr),+) => {
        if $($crate::expression::nullish(&$operand))||+ {
            return Ok($crate::expression::NULL);
        }
    };
}
pub(crate) use null_if_nullish;
