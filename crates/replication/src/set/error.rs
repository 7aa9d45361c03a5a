//! What a set refuses, as a client reads it.

use wire::ErrorCode;

/// A refused request to a set: MongoDB's code and wording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SetError {
    /// MongoDB's numeric error code.
    pub code: ErrorCode,
    /// What the client reads.
    pub message: String,
}

impl SetError {
    /// An error of this code.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        SetError { code, message: message.into() }
    }

    /// The same reason under another code.
    pub(crate) fn with_code(self, code: ErrorCode) -> Self {
        SetError { code, ..self }
    }
}
