//! `$bit`.

use document::quote::element;
use document::{Number, RawDocument, RawValue, Value};

use super::describe_id;
use super::modifier::Surroundings;
use crate::error::QueryError;

#[derive(Debug, Clone, Copy)]
enum Operation {
    And,
    Or,
    Xor,
}

/// Bitwise operations, done one after the other.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    operations: Vec<(Operation, Number)>,
}

impl Bits {
    pub(super) fn parse(operand: RawValue<'_>) -> Result<Self, QueryError> {
        let RawValue::Document(clauses) = operand else {
            bail!(
                bad_value,
                "The $bit modifier is not compatible with a {}. You must pass in an embedded document: \
                 {{$bit: {{field: {{and/or/xor: #}}}}",
                operand.kind().alias()
            );
        };
        let operations = clauses.iter().map(|clause| {
            let operation = match clause.name() {
                "and" => Operation::And,
                "or" => Operation::Or,
                "xor" => Operation::Xor,
                other => {
                    bail!(
                        bad_value,
                        "The $bit modifier only supports 'and', 'or', and 'xor', not '{other}' \
                         which is an unknown operator: {{{}}}",
                        element(other, clause.value())
                    );
                }
            };
            let number = integer(clause.value()).ok_or_else(|| {
                QueryError::bad_value(format!(
                    "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: \
                    {{{}}}",
                    clause.kind().alias(),
                    element(clause.name(), clause.value())
                ))
            })?;
            Ok((operation, number))
        });
        let operations: Vec<_> = operations.collect::<Result<_, QueryError>>()?;
        if operations.is_empty() {
            bail!(
                bad_value,
                "You must pass in at least one bitwise operation. The format is: {{$bit: {{field: \
                {{and/or/xor: #}}}}"
            );
        }
        Ok(Bits { operations })
    }

    /// The value of a field that does not exist.
    pub(super) fn initial(&self) -> Value {
        self.run(Number::Int32(0)).into()
    }

    pub(super) fn apply(
        &self,
        name: &str,
        target: &Value,
        around: &Surroundings<'_>,
    ) -> Result<Value, QueryError> {
        let current =
            target.as_raw_scalar().and_then(integer).ok_or_else(|| refusal(name, target, around.document))?;
        Ok(self.run(current).into())
    }

    fn run(&self, start: Number) -> Number {
        self.operations.iter().fold(start, |current, (operation, operand)| {
            let (left, right) = (bits(current), bits(*operand));
            let result = match operation {
                Operation::And => left & right,
                Operation::Or => left | right,
                Operation::Xor => left ^ right,
            };
            match (current, operand) {
                (Number::Int32(_), Number::Int32(_)) => Number::Int32(result as i32),
                _ => Number::Int64(result),
            }
        })
    }
}

fn refusal(name: &str, target: &Value, document: RawDocument<'_>) -> QueryError {
    QueryError::bad_value(format!(
        "Cannot apply $bit to a value of non-integral type.{} has the field {name} of non-integer type {}",
        describe_id(document),
        target.kind().alias()
    ))
}

fn integer(value: RawValue<'_>) -> Option<Number> {
    Number::from_raw(value).filter(|number| matches!(number, Number::Int32(_) | Number::Int64(_)))
}

fn bits(number: Number) -> i64 {
    number.to_i64_exact().expect("$bit takes integers only")
}
