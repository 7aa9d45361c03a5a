//! The one error of this crate: a MongoDB error code and the message a client sees.

use document::Document;
use std::fmt;

/// An error with this code and message.
macro_rules! query_error {
    (bad_value, $($message:tt)+) => { query_error!($crate::error::code::BAD_VALUE, $($message)+) };
    (failed_to_parse, $($message:tt)+) => { query_error!($crate::error::code::FAILED_TO_PARSE,
        $($message)+) };
    (type_mismatch, $($message:tt)+) => { query_error!($crate::error::code::TYPE_MISMATCH, $($message)+) };
    ($code:expr, $($message:tt)+) => {
        $crate::error::QueryError::new($code, std::fmt::format(format_args!($($message)+)))
    };
}

/// Returns an error with this code and message.
macro_rules! bail {
    ($($error:tt)+) => {
        return Err(query_error!($($error)+))
    };
}

/// A refused filter, update, projection, expression or plan.
///
/// `code` is MongoDB's numeric error code (its name comes from the table in `wire`), `message` is what
/// the client reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// MongoDB's numeric error code.
    pub code: i32,
    /// What the client reads, in MongoDB's wording.
    pub message: String,
}

/// An error that stands for one of MongoDB's codes; its text is what the client reads. Whoever answers
/// clients makes an error reply of it without knowing the layer that it comes from.
pub trait CodedError: fmt::Display {
    /// MongoDB's numeric error code.
    fn code(&self) -> i32;

    /// What a reply tells beside code and message, such as `keyPattern` and `keyValue` of a duplicate key.
    fn details(&self) -> Document {
        Document::new()
    }
}

impl CodedError for QueryError {
    fn code(&self) -> i32 {
        self.code
    }
}

/// Codes of the MongoDB error table that this crate answers with; codes without a name (`Location12345`)
/// are written at the place that raises them.
pub mod code {
    /// Of an error that no client sees: what was to be short takes long.
    pub(crate) const NOT_SHORT: i32 = i32::MIN;
    /// A bug in the server: an invariant did not hold.
    pub const INTERNAL_ERROR: i32 = 1;
    /// An argument that cannot be accepted.
    pub const BAD_VALUE: i32 = 2;
    /// A command or operator that is not written as its grammar wants it.
    pub const FAILED_TO_PARSE: i32 = 9;
    /// The request is not allowed.
    pub const UNAUTHORIZED: i32 = 13;
    /// A value of a type that is not accepted here.
    pub const TYPE_MISMATCH: i32 = 14;
    /// A number or size that does not fit.
    pub const OVERFLOW: i32 = 15;
    /// A value of a wrong length.
    pub const INVALID_LENGTH: i32 = 16;
    /// An operation that is not permitted in this state.
    pub const ILLEGAL_OPERATION: i32 = 20;
    /// A path that runs through a value that cannot be traversed.
    pub const PATH_NOT_VIABLE: i32 = 28;
    /// Two update operators write the same path.
    pub const CONFLICTING_UPDATE_OPERATORS: i32 = 40;
    /// `$` in front of a field name that is not an operator.
    pub const DOLLAR_PREFIXED_FIELD_NAME: i32 = 52;
    /// An `_id` that cannot be stored.
    pub const INVALID_ID_FIELD: i32 = 53;
    /// A field name that is empty where one is needed.
    pub const EMPTY_FIELD_NAME: i32 = 56;
    /// A change of a field that never changes, such as `_id`.
    pub const IMMUTABLE_FIELD: i32 = 66;
    /// Options that contradict each other.
    pub const INVALID_OPTIONS: i32 = 72;
    /// A plan that needs an index which is not there.
    pub const INDEX_NOT_FOUND: i32 = 27;
    /// No plan can run this query.
    pub const NO_QUERY_EXECUTION_PLANS: i32 = 291;
    /// The operator is known but not offered.
    pub const COMMAND_NOT_SUPPORTED: i32 = 115;
    /// A conversion that cannot be made.
    pub const CONVERSION_FAILURE: i32 = 241;
    /// A memory limit of something that cannot spill was passed.
    pub const EXCEEDED_MEMORY_LIMIT: i32 = 146;
    /// A memory limit of a stage was passed and spilling is not allowed.
    pub const QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED: i32 = 292;
    /// A document or reply larger than the format allows.
    pub const BSON_OBJECT_TOO_LARGE: i32 = 10334;
}

impl QueryError {
    /// An error with any code.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// `BadValue` (2).
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(code::BAD_VALUE, message)
    }

    /// `FailedToParse` (9).
    pub fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(code::FAILED_TO_PARSE, message)
    }

    /// `TypeMismatch` (14).
    pub fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(code::TYPE_MISMATCH, message)
    }

    /// Puts `context` and a colon in front of the message, as MongoDB does when an outer command reports an
    /// inner error.
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context} :: caused by :: {}", self.message);
        self
    }
}
