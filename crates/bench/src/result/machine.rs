//! What a run was made on and by.

use crate::result::{Machine, Tool};

/// Now, RFC 3339 in UTC.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Tool {
    /// This program.
    pub(crate) fn here() -> Self {
        Tool {
            name: "heddle bench".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // Set by the build script where there is a repository.
            commit: option_env!("HEDDLE_COMMIT").map(str::to_owned),
        }
    }
}

impl Machine {
    /// In one line.
    pub(crate) fn line(&self) -> String {
        format!("{} cores ({}), {}", self.cores, self.model, self.kernel)
    }
}
