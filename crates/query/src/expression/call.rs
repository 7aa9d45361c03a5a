//! How an operator of the table is run once its operands are known.

use document::{RawValue, Value};

use crate::error::{QueryError, code};

use super::operators::{Operator, Signature};
use super::scope::ParseScope;
use super::{Evaluated, Expression, Outcome};

/// The code behind an operator.
#[derive(Clone, Copy)]
pub(crate) enum Implementation {
    One(fn(Evaluated) -> Outcome),
    Two(fn(Evaluated, Evaluated) -> Outcome),
    Three(fn(Evaluated, Evaluated, Evaluated) -> Outcome),
    Many(fn(Vec<Evaluated>) -> Outcome),
    Named(fn(Arguments) -> Outcome),
    /// Parses its own operand.
    Grammar(fn(RawValue<'_>, &ParseScope<'_>) -> Result<Expression, QueryError>),
}

impl std::fmt::Debug for Implementation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::One(_) => "One",
            Self::Two(_) => "Two",
            Self::Three(_) => "Three",
            Self::Many(_) => "Many",
            Self::Named(_) => "Named",
            Self::Grammar(_) => "Grammar",
        })
    }
}

impl Operator {
    /// Runs the operator on operands whose number was checked when it was parsed.
    pub(crate) fn call(&self, operands: Vec<Evaluated>) -> Outcome {
        match self.implementation {
            Implementation::Many(run) => return run(operands),
            Implementation::One(run) => {
                if let Ok([only]) = <[Evaluated; 1]>::try_from(operands) {
                    return run(only);
                }
            }
            Implementation::Two(run) => {
                if let Ok([left, right]) = <[Evaluated; 2]>::try_from(operands) {
                    return run(left, right);
                }
            }
            Implementation::Three(run) => {
                if let Ok([first, second, third]) = <[Evaluated; 3]>::try_from(operands) {
                    return run(first, second, third);
                }
            }
            Implementation::Named(_) | Implementation::Grammar(_) => {}
        }
        Err(query_error!(code::INTERNAL_ERROR, "{} was called with operands it does not take", self.name))
    }

    /// Runs an operator with named parameters.
    pub(crate) fn call_named(
        &self,
        signature: &'static Signature,
        values: Vec<Option<Evaluated>>,
    ) -> Outcome {
        match self.implementation {
            Implementation::Named(run) => run(Arguments { operator: self.name, signature, values }),
            _ => Err(query_error!(code::INTERNAL_ERROR, "{} takes no named parameters", self.name)),
        }
    }
}

/// The evaluated fields of an operator that takes an object.
pub(crate) struct Arguments {
    /// The operator's name, for messages.
    pub(crate) operator: &'static str,
    signature: &'static Signature,
    /// `None` where the field was not given.
    values: Vec<Option<Evaluated>>,
}

impl Arguments {
    fn position(&self, name: &str) -> Option<usize> {
        self.signature.parameters.iter().position(|parameter| parameter.name == name)
    }

    /// The parameter's value; missing when it was not given.
    pub(crate) fn take(&mut self, name: &str) -> Evaluated {
        self.take_given(name).flatten()
    }

    /// The parameter's value, `None` when it was not given.
    pub(crate) fn take_given(&mut self, name: &str) -> Option<Evaluated> {
        let position = self.position(name)?;
        self.values.get_mut(position).and_then(Option::take)
    }

    /// The parameter's value, or `default` when it was not given.
    pub(crate) fn take_or(&mut self, name: &str, default: impl Into<Value>) -> Evaluated {
        self.take_given(name).unwrap_or_else(|| Some(default.into()))
    }
}
