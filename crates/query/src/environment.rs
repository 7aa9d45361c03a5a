//! What one command fixes for all operators it runs: the clock and the `let` variables.

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
    /// The command's `let` variables, already evaluated, in the order given.
    pub variables: Vec<(String, Value)>,
}

impl Environment {
    /// An environment whose clock stands at `now_ms` and which has no variables.
    pub fn at(now_ms: i64) -> Self {
        Self { now_ms, ..Self::default() }
    }

    /// The value of the `let` variable `name` (without `$$`).
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.variables.iter().find(|(given, _)| given == name).map(|(_, value)| value)
    }
}
