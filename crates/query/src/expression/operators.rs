//! The one table of expression operators.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::call::Implementation;
use super::{
    accumulate, arithmetic, array, bits, comparison, conditional, convert, date, date_arithmetic,
    date_format, date_parts, iterate, object, parse, regex, set, sort, string, trigonometry,
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
    pub parameters: &'static [Parameter],
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
pub struct Parameter {
    /// The field's name.
    pub name: &'static str,
    /// Whether it has to be given.
    pub required: bool,
}

impl Parameter {
    pub(crate) const fn required(name: &'static str) -> Self {
        Self { name, required: true }
    }

    pub(crate) const fn optional(name: &'static str) -> Self {
        Self { name, required: false }
    }
}

impl Operator {
    pub(crate) const fn new(
        name: &'static str,
        arity: Arity,
        implementation: Implementation,
        documentation: &'static str,
    ) -> Self {
        Self { name, arity, documentation, implementation }
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
