//! The one table of expression operators.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use document::RawValue;

use crate::error::QueryError;

use super::call::{Arguments, Implementation};
use super::scope::ParseScope;
use super::{
    Evaluated, Expression, Outcome, accumulate, arithmetic, array, bits, comparison, conditional, convert,
    date, date_arithmetic, date_format, date_parts, iterate, object, parse, regex, set, sort, string,
    trigonometry,
};

/// One operator: everything that is known of it.
#[derive(Debug)]
pub struct Operator {
    /// Its name, with the dollar sign.
    pub name: &'static str,
    /// What operands it takes.
    pub arity: Arity,
    /// One line for the documentation.
    pub documentation: &'static str,
    pub(crate) implementation: Implementation,
}

/// What operands an operator takes.
#[derive(Debug, Clone, Copy)]
pub enum Arity {
    /// This many, in an array; a single one may stand alone.
    Exactly(usize),
    /// At least and at most this many.
    Between(usize, usize),
    /// Any number of operands.
    Any,
    /// An object with these fields.
    Named(&'static Signature),
    /// A grammar of its own.
    Grammar,
}

/// The fields of an operator that takes an object, and the codes of the errors about them.
#[derive(Debug)]
pub struct Signature {
    /// The fields, in the order the implementation receives them.
    pub parameters: &'static [OperatorParameter],
    /// Error code when the operand is not an object.
    pub not_an_object: i32,
    /// Error code for a field that is not a parameter.
    pub unknown: i32,
    /// Error code when a required field is not there.
    pub absent: i32,
    /// Whether an operand that is not such an object stands for the first field alone.
    pub shorthand: bool,
}

/// One field of an operator that takes an object.
#[derive(Debug)]
pub struct OperatorParameter {
    /// The field's name.
    pub name: &'static str,
    /// Whether it has to be given.
    pub required: bool,
}

impl OperatorParameter {
    pub(crate) const fn required(name: &'static str) -> Self {
        Self { name, required: true }
    }

    pub(crate) const fn optional(name: &'static str) -> Self {
        Self { name, required: false }
    }
}

impl Operator {
    /// Of one operand.
    pub(crate) const fn one(
        name: &'static str,
        run: fn(Evaluated) -> Outcome,
        documentation: &'static str,
    ) -> Self {
        Self { name, arity: Arity::Exactly(1), documentation, implementation: Implementation::One(run) }
    }

    /// Of two operands.
    pub(crate) const fn two(
        name: &'static str,
        run: fn(Evaluated, Evaluated) -> Outcome,
        documentation: &'static str,
    ) -> Self {
        Self { name, arity: Arity::Exactly(2), documentation, implementation: Implementation::Two(run) }
    }

    /// Of three operands.
    pub(crate) const fn three(
        name: &'static str,
        run: fn(Evaluated, Evaluated, Evaluated) -> Outcome,
        documentation: &'static str,
    ) -> Self {
        Self { name, arity: Arity::Exactly(3), documentation, implementation: Implementation::Three(run) }
    }

    /// Of any number of operands.
    pub(crate) const fn many(
        name: &'static str,
        run: fn(Vec<Evaluated>) -> Outcome,
        documentation: &'static str,
    ) -> Self {
        Self { name, arity: Arity::Any, documentation, implementation: Implementation::Many(run) }
    }

    /// Of at least and at most so many operands.
    pub(crate) const fn between(
        name: &'static str,
        (least, most): (usize, usize),
        run: fn(Vec<Evaluated>) -> Outcome,
        documentation: &'static str,
    ) -> Self {
        Self {
            name,
            arity: Arity::Between(least, most),
            documentation,
            implementation: Implementation::Many(run),
        }
    }

    /// Of an object with these fields.
    pub(crate) const fn named(
        name: &'static str,
        signature: &'static Signature,
        run: fn(Arguments) -> Outcome,
        documentation: &'static str,
    ) -> Self {
        Self {
            name,
            arity: Arity::Named(signature),
            documentation,
            implementation: Implementation::Named(run),
        }
    }

    /// That parses its own operand.
    pub(crate) const fn grammar(
        name: &'static str,
        run: fn(RawValue<'_>, &ParseScope<'_>) -> Result<Expression, QueryError>,
        documentation: &'static str,
    ) -> Self {
        Self { name, arity: Arity::Grammar, documentation, implementation: Implementation::Grammar(run) }
    }
}

/// The families, each beside its implementation.
static FAMILIES: &[&[Operator]] = &[
    accumulate::OPERATORS,
    arithmetic::OPERATORS,
    array::OPERATORS,
    bits::OPERATORS,
    comparison::OPERATORS,
    conditional::OPERATORS,
    convert::OPERATORS,
    date::OPERATORS,
    date_arithmetic::OPERATORS,
    date_format::OPERATORS,
    date_parts::OPERATORS,
    iterate::OPERATORS,
    object::OPERATORS,
    parse::OPERATORS,
    regex::OPERATORS,
    set::OPERATORS,
    sort::OPERATORS,
    string::OPERATORS,
    trigonometry::OPERATORS,
];

static BY_NAME: LazyLock<FxHashMap<&'static str, &'static Operator>> =
    LazyLock::new(|| operators().map(|operator| (operator.name, operator)).collect());

/// Every operator.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// The operator called `name` (with the dollar sign).
pub fn operator(name: &str) -> Option<&'static Operator> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::{BY_NAME, operators};

    #[test]
    fn every_operator_is_documented_and_named_once() {
        let mut count = 0;
        for operator in operators() {
            count += 1;
            assert!(operator.name.starts_with('$'), "{} has no dollar sign", operator.name);
            assert!(operator.documentation.len() > 10, "{} has no documentation", operator.name);
            assert!(!operator.documentation.ends_with('.'), "{}: documentation is one phrase", operator.name);
        }
        assert_eq!(BY_NAME.len(), count, "an operator is in two families");
    }
}
