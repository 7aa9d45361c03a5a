//! The error a command ends with, as a client sees it.

use document::{Document, DocumentBuilder};
use query::CodedError;
use std::borrow::Cow;

/// Codes of MongoDB's error table that commands raise.
///
/// Source: MongoDB manual, "Error Codes". Names come from [`wire::code_name`].
pub mod code {
    /// A broken invariant of the server.
    pub const INTERNAL_ERROR: i32 = 1;
    /// An argument that cannot be accepted.
    pub const BAD_VALUE: i32 = 2;
    /// Text that cannot be parsed.
    pub const FAILED_TO_PARSE: i32 = 9;
    /// Not allowed.
    pub const UNAUTHORIZED: i32 = 13;
    /// A value of the wrong BSON type.
    pub const TYPE_MISMATCH: i32 = 14;
    /// A list that is too short or too long.
    pub const INVALID_LENGTH: i32 = 16;
    /// The operation is not possible on this kind of server or in this state.
    pub const ILLEGAL_OPERATION: i32 = 20;
    /// No such database or collection.
    pub const NAMESPACE_NOT_FOUND: i32 = 26;
    /// No such cursor.
    pub const CURSOR_NOT_FOUND: i32 = 43;
    /// The operation's time limit passed.
    pub const MAX_TIME_EXPIRED: i32 = 50;
    /// No such command.
    pub const COMMAND_NOT_FOUND: i32 = 59;
    /// Options that contradict each other.
    pub const INVALID_OPTIONS: i32 = 72;
    /// A database or collection name that cannot be.
    pub const INVALID_NAMESPACE: i32 = 73;
    /// The server is no member of a replica set.
    pub const NO_REPLICATION_ENABLED: i32 = 76;
    /// Writes met in the same place; trying again helps.
    pub const WRITE_CONFLICT: i32 = 112;
    /// The command exists but not here.
    pub const COMMAND_NOT_SUPPORTED: i32 = 115;
    /// Work conflicts with other work in progress.
    pub const CONFLICTING_OPERATION_IN_PROGRESS: i32 = 117;
    /// The client is not who it says, or nobody.
    pub const AUTHENTICATION_FAILED: i32 = 18;
    /// Certificates or keys that cannot be used.
    pub const INVALID_SSL_CONFIGURATION: i32 = 140;
    /// The command does not work on views.
    pub const COMMAND_NOT_SUPPORTED_ON_VIEW: i32 = 166;
    /// The option does not work on views.
    pub const OPTION_NOT_SUPPORTED_ON_VIEW: i32 = 167;
    /// The collection was dropped while the operation ran.
    pub const QUERY_PLAN_KILLED: i32 = 175;
    /// Nothing runs the query that is allowed to.
    pub const NO_QUERY_EXECUTION_PLANS: i32 = 291;
    /// More sessions than there may be.
    pub const TOO_MANY_LOGICAL_SESSIONS: i32 = 261;
    /// The cursor was killed while in use.
    pub const CURSOR_KILLED: i32 = 237;
    /// A step that does not fit the conversation so far.
    pub const PROTOCOL_ERROR: i32 = 17;
    /// No such way to authenticate.
    pub const MECHANISM_UNAVAILABLE: i32 = 334;
    /// A login that its client did not go on with; for the audit log.
    pub const AUTHENTICATION_ABANDONED: i32 = 337;
    /// The API version parameters are not right.
    pub const API_VERSION_ERROR: i32 = 322;
    /// The command is not part of the requested API version.
    pub const API_STRICT_ERROR: i32 = 323;
    /// The command is to be used no more in the requested API version.
    pub const API_DEPRECATION_ERROR: i32 = 331;
    /// A request in a retired message form.
    pub const UNSUPPORTED_OP_QUERY_COMMAND: i32 = 352;
    /// The document is larger than 16 MB.
    pub const BSON_OBJECT_TOO_LARGE: i32 = 10334;
    /// A unique index holds this key already.
    pub const DUPLICATE_KEY: i32 = 11000;
    /// The server shuts down.
    pub const INTERRUPTED_AT_SHUTDOWN: i32 = 11600;
    /// The operation was killed.
    pub const INTERRUPTED: i32 = 11601;
    /// A field given twice.
    pub const IDL_DUPLICATE_FIELD: i32 = 40413;
    /// A required field that is missing.
    pub const IDL_MISSING_FIELD: i32 = 40414;
    /// A field that the command does not have.
    pub const IDL_UNKNOWN_FIELD: i32 = 40415;
    /// Refused because of overload; trying again later helps.
    pub const INGRESS_REQUEST_RATE_LIMIT_EXCEEDED: i32 = 462;
    /// A number outside its bounds.
    pub const VALUE_OUT_OF_BOUNDS: i32 = 51024;
}

/// A refused or failed command.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// MongoDB's numeric error code.
    pub code: i32,
    /// What the client reads, in MongoDB's wording.
    pub message: Cow<'static, str>,
    /// Error labels such as `RetryableWriteError`.
    pub labels: Vec<Cow<'static, str>>,
    /// Further fields of the error reply, e.g. `keyPattern` and `keyValue` of code 11000.
    pub extra: Option<Box<Document>>,
    /// Close the connection instead of answering (fail points, broken clients).
    pub closes_connection: bool,
}

/// What a command returns.
pub type CommandResult<T = ()> = Result<T, CommandError>;

impl CommandError {
    /// An error of this code.
    pub fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        CommandError {
            code,
            message: message.into(),
            labels: Vec::new(),
            extra: None,
            closes_connection: false,
        }
    }

    /// `BadValue` (2).
    pub fn bad_value(message: impl Into<Cow<'static, str>>) -> Self {
        CommandError::new(code::BAD_VALUE, message)
    }

    /// `FailedToParse` (9).
    pub fn failed_to_parse(message: impl Into<Cow<'static, str>>) -> Self {
        CommandError::new(code::FAILED_TO_PARSE, message)
    }

    /// `TypeMismatch` (14).
    pub fn type_mismatch(message: impl Into<Cow<'static, str>>) -> Self {
        CommandError::new(code::TYPE_MISMATCH, message)
    }

    /// `InvalidOptions` (72).
    pub fn invalid_options(message: impl Into<Cow<'static, str>>) -> Self {
        CommandError::new(code::INVALID_OPTIONS, message)
    }

    /// `InternalError` (1): the fault is the server's.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        CommandError::new(code::INTERNAL_ERROR, message)
    }

    /// An error that closes the connection without an answer.
    pub fn close_connection() -> Self {
        CommandError { closes_connection: true, ..CommandError::internal("the connection is closed") }
    }

    /// The same error with `context` and a colon in front of its message, as MongoDB names the part that
    /// failed.
    #[must_use]
    pub fn within(mut self, context: &str) -> Self {
        self.message = format!("{context} :: caused by :: {}", self.message).into();
        self
    }

    /// The same error with a label.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.labels.push(label.into());
        self
    }

    /// The same error with further fields in its reply.
    #[must_use]
    pub fn with_extra(mut self, extra: Document) -> Self {
        self.extra = Some(Box::new(extra));
        self
    }

    /// The same error with these fields behind the further ones it has.
    #[must_use]
    pub fn with_more(self, fields: &Document) -> Self {
        let mut extra = self.extra.as_deref().cloned().unwrap_or_default();
        for (name, value) in fields.iter() {
            extra.insert(name, value.clone());
        }
        self.with_extra(extra)
    }

    /// The code's name, `Location<code>` for codes without one.
    pub fn code_name(&self) -> Cow<'static, str> {
        wire::code_name(self.code)
    }

    /// Writes the fields of an error reply: `ok: 0, errmsg, code, codeName`, further ones, labels.
    pub fn write(&self, reply: &mut DocumentBuilder<'_>) {
        reply.append("ok", 0.0).append("errmsg", &*self.message).append("code", self.code);
        reply.append("codeName", &*self.code_name());
        if let Some(extra) = &self.extra {
            reply.append_fields(extra);
        }
        if !self.labels.is_empty() {
            let mut labels = reply.start_array("errorLabels");
            for label in &self.labels {
                labels.push(&**label);
            }
        }
    }
}

impl<E: CodedError> From<E> for CommandError {
    fn from(error: E) -> Self {
        let (refused, details) = (CommandError::new(error.code(), error.to_string()), error.details());
        if details.is_empty() { refused } else { refused.with_extra(details) }
    }
}
