//! What the surroundings of a query give it: the clock and the variables of the command.

use std::collections::HashMap;
use std::sync::Arc;

use document::{Timestamp, Value};

/// The surroundings of one command's filters, updates and expressions.
///
/// Made once per command, so that `$$NOW` is the same for every document the command touches.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// `$$NOW`: milliseconds since the Unix epoch, UTC.
    pub now_ms: i64,
    /// `$$CLUSTER_TIME`; zero where the server has no logical clock.
    pub cluster_time: Timestamp,
    /// The command's `let` variables, already evaluated. Shared, so that thousands of them are copied for no statement.
    variables: Arc<Bindings>,
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

    /// Binds a variable.
    pub fn bind(&mut self, name: String, value: Value) {
        Arc::make_mut(&mut self.variables).own.insert(name, value);
    }

    /// The environment with these variables too; they hide outer ones of the same name.
    #[must_use]
    pub fn with(&self, variables: impl IntoIterator<Item = (String, Value)>) -> Self {
        let own: HashMap<String, Value> = variables.into_iter().collect();
        let variables = Arc::new(Bindings { own, outer: Some(Arc::clone(&self.variables)) });
        Self { variables, ..self.clone() }
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
