//! Names at parse time, slots at run time: how `$$name` finds its value.

use std::collections::HashMap;

use document::Value;

use crate::checkpoint;
use crate::environment::Environment;
use crate::error::QueryError;

use super::random::Random;
use super::{Evaluated, limits};

/// The names an expression may use: the command's environment, and the variables that the expressions around
/// it bind.
///
/// A child scope borrows its parent, so binding a name costs no copy of what is already bound.
#[derive(Debug, Clone)]
pub struct ParseScope<'s> {
    environment: &'s Environment,
    parent: Option<&'s ParseScope<'s>>,
    names: Names,
    first_slot: usize,
    depth: usize,
    /// What errors of constants are put into, besides the words of the whole request.
    context: Option<&'static str>,
}

/// The names that one expression binds; of several alike the last counts. Their hash has a secret: clients
/// choose them.
#[derive(Debug, Clone, Default)]
struct Names {
    count: usize,
    positions: HashMap<String, usize>,
}

impl Names {
    fn new(names: Vec<String>) -> Self {
        let count = names.len();
        let positions = names.into_iter().enumerate().map(|(position, name)| (name, position)).collect();
        Names { count, positions }
    }

    fn position(&self, name: &str) -> Option<usize> {
        if self.count == 0 { None } else { self.positions.get(name).copied() }
    }
}

/// What a `$$name` stands for.
pub(crate) enum Binding<'s> {
    /// A value that is fixed for the whole command.
    Fixed(&'s Value),
    /// A variable bound by an enclosing expression; it lives in this slot of [`Variables`].
    Slot(usize),
}

impl<'s> ParseScope<'s> {
    /// The outermost scope: only the command's own variables are bound.
    pub fn new(environment: &'s Environment) -> Self {
        Self { environment, parent: None, names: Names::default(), first_slot: 0, depth: 0, context: None }
    }

    /// As [`ParseScope::new`], for the expression of a filter.
    pub(crate) fn of_filter(environment: &'s Environment) -> Self {
        Self { context: Some("Failed to optimize expression"), ..Self::new(environment) }
    }

    /// As [`Environment::note_failed_constant`].
    pub(crate) fn note_failed_constant(&self, error: QueryError) {
        self.environment.note_failed_constant(|| match self.context {
            Some(context) => error.within(context),
            None => error,
        });
    }

    /// The scope inside an expression that binds `names`; the first of them gets the slot
    /// [`ParseScope::next_slot`] of this scope, and so on.
    pub(crate) fn bind(&'s self, names: Vec<String>) -> ParseScope<'s> {
        ParseScope {
            environment: self.environment,
            parent: Some(self),
            names: Names::new(names),
            first_slot: self.next_slot(),
            depth: self.depth,
            context: self.context,
        }
    }

    /// The same names one level of nesting deeper; refuses what would overflow the stack.
    pub(crate) fn deeper(&'s self) -> Result<ParseScope<'s>, QueryError> {
        if self.depth >= MAX_EXPRESSION_DEPTH {
            bail!(OVERFLOW_CODE, "expression is nested too deeply");
        }
        Ok(ParseScope {
            environment: self.environment,
            parent: Some(self),
            names: Names::default(),
            first_slot: self.next_slot(),
            depth: self.depth + 1,
            context: self.context,
        })
    }

    pub(crate) fn next_slot(&self) -> usize {
        self.first_slot + self.names.count
    }

    /// The command's environment.
    pub fn environment(&self) -> &'s Environment {
        self.environment
    }

    pub(crate) fn lookup(&self, name: &str) -> Option<Binding<'s>> {
        let mut scope = Some(self);
        while let Some(here) = scope {
            if let Some(position) = here.names.position(name) {
                return Some(Binding::Slot(here.first_slot + position));
            }
            scope = here.parent;
        }
        self.environment.variable(name).map(Binding::Fixed)
    }
}

/// BSON itself nests at most this deep, so only expressions made by the server could be deeper.
const MAX_EXPRESSION_DEPTH: usize = 200;
const OVERFLOW_CODE: i32 = 15;

/// About how much of a value is made in the time of a step.
const BYTES_PER_STEP: usize = 256;

/// The values of the variables bound by `$let`, `$map`, `$filter`, `$reduce` while an expression runs, and
/// the source of `$rand`.
///
/// One of these is made per pipeline or matcher and reused for every document.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    slots: Vec<Evaluated>,
    /// Bytes of the operands and variables of all expressions that are at work.
    held_bytes: usize,
    /// The generator behind `$rand`.
    pub(crate) random: Random,
}

impl Variables {
    /// No variable bound yet; `$rand` seeded from the process's entropy.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`Variables::new`], with a fixed seed for `$rand` (tests, simulation).
    pub fn with_seed(seed: u64) -> Self {
        Self { random: Random::with_seed(seed), ..Self::default() }
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&Value> {
        self.slots.get(slot).and_then(Option::as_ref)
    }

    pub(crate) fn set(&mut self, slot: usize, value: Evaluated) {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, None);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value;
        }
    }

    /// Bytes held until [`Variables::release_to`].
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Counts a value that is kept while others are computed.
    ///
    /// # Errors
    /// 146 when too much is held; the reason for the operation's end.
    pub(super) fn hold(&mut self, value: &Evaluated) -> Result<(), QueryError> {
        self.hold_bytes(limits::bytes_of(value))
    }

    /// As [`Variables::hold`], for so many bytes.
    ///
    /// # Errors
    /// As [`Variables::hold`].
    pub(super) fn hold_bytes(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        if self.held_bytes > limits::MAX_HELD_BYTES {
            return Err(limits::too_much("the expression", self.held_bytes, limits::MAX_HELD_BYTES));
        }
        checkpoint::pass(bytes / BYTES_PER_STEP)
    }

    /// Lets go of everything but so many bytes.
    pub(super) fn release_to(&mut self, held_bytes: usize) {
        self.held_bytes = held_bytes;
    }

    pub(crate) fn take(&mut self, slot: usize) -> Evaluated {
        self.slots.get_mut(slot).and_then(Option::take)
    }
}

/// Checks that `name` may be bound by `$let` and its kin, or by a command's `let`.
///
/// # Errors
/// `FailedToParse`, as MongoDB answers.
pub fn check_variable_name(name: &str) -> Result<(), QueryError> {
    let Some(first) = name.chars().next() else {
        bail!(failed_to_parse, "empty variable names are not allowed");
    };
    if name == "CURRENT" {
        return Ok(());
    }
    if first.is_ascii() && !first.is_ascii_lowercase() {
        bail!(failed_to_parse, "'{name}' starts with an invalid character for a user variable name");
    }
    check_variable_characters(name)
}

/// Checks that `$$name` may be read: system variables begin with a capital.
pub(crate) fn check_variable_reference(name: &str) -> Result<(), QueryError> {
    match name.chars().next() {
        Some(first) if first.is_ascii_uppercase() => check_variable_characters(name),
        _ => check_variable_name(name),
    }
}

/// Checks the characters after the first one.
fn check_variable_characters(name: &str) -> Result<(), QueryError> {
    match name.chars().find(|c| c.is_ascii() && !c.is_ascii_alphanumeric() && *c != '_') {
        Some(bad) => Err(QueryError::failed_to_parse(format!(
            "'{name}' contains an invalid character for a variable name: '{bad}'"
        ))),
        None => Ok(()),
    }
}
