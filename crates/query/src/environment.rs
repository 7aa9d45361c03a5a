//! What the surroundings of a query give it: the clock and the variables of the command.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use document::{Timestamp, Value};

use crate::error::QueryError;

/// The surroundings of one command's filters, updates and expressions.
///
/// Made once per command, so that `$$NOW` is the same for every document the command touches.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `$$NOW`: milliseconds since the Unix epoch, UTC.
    pub now_ms: i64,
    /// `$$CLUSTER_TIME`; zero where the server has no logical clock.
    pub cluster_time: Timestamp,
    /// The command's `let` variables, already evaluated. Shared, so that thousands of them are copied for no
    /// statement.
    variables: Arc<Bindings>,
    /// The first call with constant operands that failed when it was evaluated while its expression was
    /// parsed. It is an error of the whole request, but one that comes behind everything that parsing has to
    /// say.
    failed_constant: OnceLock<Box<QueryError>>,
    /// Some variables stand for what an enclosing pipeline reads: a call on them that fails does so when it
    /// is evaluated, if it is.
    constants_vary: bool,
}

/// Variables, and those around them that they may hide.
#[derive(Debug, Clone, Default)]
struct Bindings {
    /// Its hash has a secret: clients choose the names.
    own: HashMap<String, Value>,
    outer: Option<Arc<Bindings>>,
}

impl Environment {
    /// An environment whose clock stands at `now_ms` and which has no variables.
    pub fn at(now_ms: i64) -> Self {
        Self { now_ms, ..Self::default() }
    }

    /// Binds a variable. What its own expression held was evaluated as far as it was needed.
    pub fn bind(&mut self, name: String, value: Value) {
        self.failed_constant = OnceLock::new();
        Arc::make_mut(&mut self.variables).own.insert(name, value);
    }

    /// The environment with these variables too, which stand for what is read; they hide outer ones of the
    /// same name.
    #[must_use]
    pub fn with(&self, variables: impl IntoIterator<Item = (String, Value)>) -> Self {
        let own: HashMap<String, Value> = variables.into_iter().collect();
        let variables = Arc::new(Bindings { own, outer: Some(Arc::clone(&self.variables)) });
        Self { variables, constants_vary: true, ..self.clone() }
    }

    /// Fails when a constant of the expressions parsed so far could not be evaluated.
    ///
    /// # Errors
    /// That constant's.
    pub fn check_constants(&self) -> Result<(), QueryError> {
        self.failed_constant.get().map_or(Ok(()), |error| Err(QueryError::clone(error)))
    }

    /// Keeps the error of a call whose operands are all constant, unless there is one already or constants
    /// are none here.
    pub(crate) fn note_failed_constant(&self, error: impl FnOnce() -> QueryError) {
        if !self.constants_vary {
            self.failed_constant.get_or_init(|| Box::new(error()));
        }
    }

    /// The value of the `let` variable `name` (without `$$`).
    pub fn variable(&self, name: &str) -> Option<&Value> {
        let mut bindings = Some(&self.variables);
        while let Some(here) = bindings {
            if !here.own.is_empty()
                && let Some(value) = here.own.get(name)
            {
                return Some(value);
            }
            bindings = here.outer.as_ref();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_variables_hide_outer_ones() {
        let mut outer = Environment::at(7);
        outer.bind("a".to_owned(), Value::Int32(1));
        outer.bind("b".to_owned(), Value::Int32(2));
        let inner = outer.with([("b".to_owned(), Value::Int32(3))]);
        let both =
            |environment: &Environment| ["a", "b", "c"].map(|name| environment.variable(name).cloned());
        assert_eq!(both(&outer), [Some(Value::Int32(1)), Some(Value::Int32(2)), None]);
        assert_eq!(both(&inner), [Some(Value::Int32(1)), Some(Value::Int32(3)), None]);
        assert_eq!(inner.now_ms, 7);
    }
}
