//! What can go wrong: one error for operations on the catalog, one for writes of documents.
//!
//! Each variant is one of MongoDB's error codes; the message is what a client reads.

use document::{Document, doc};
use query::{CodedError, QueryError};
use storage::{CommitError, StorageError};

/// A refused or failed operation on collections or indexes.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named after MongoDB's error codes")]
pub enum CatalogError {
    #[error("{0}")]
    BadValue(String),
    #[error("{0}")]
    FailedToParse(String),
    #[error("{0}")]
    TypeMismatch(String),
    #[error("{0}")]
    IllegalOperation(String),
    #[error("{0}")]
    NamespaceNotFound(String),
    #[error("{0}")]
    IndexNotFound(String),
    #[error("{0}")]
    NamespaceExists(String),
    #[error("{0}")]
    CannotCreateIndex(String),
    #[error("{0}")]
    IndexAlreadyExists(String),
    #[error("{0}")]
    InvalidOptions(String),
    #[error("{0}")]
    InvalidNamespace(String),
    #[error("{0}")]
    IndexOptionsConflict(String),
    #[error("{0}")]
    IndexKeySpecsConflict(String),
    #[error("{0}")]
    CommandNotSupported(String),
    #[error("{0}")]
    CommandNotSupportedOnView(String),
    #[error("{0}")]
    OptionNotSupportedOnView(String),
    #[error("{0}")]
    CannotConvertIndexToUnique(String),
    #[error("{0}")]
    InvalidPipelineOperator(String),
    #[error("{0}")]
    AmbiguousIndexKeyPattern(String),
    #[error("{0}")]
    InvalidIndexSpecificationOption(String),
    #[error("{0}")]
    IndexBuildAborted(String),
    #[error("{0}")]
    ViewDepthLimitExceeded(String),
    /// The index could not be filled with what the collection holds.
    #[error("{context} :: caused by :: {cause}")]
    IndexBuildFailed { context: String, cause: Box<CatalogError> },
    /// A code that has no name in MongoDB's table.
    #[error("{message}")]
    Location { code: i32, message: String },
    /// A document of the collection stands in the way (an index build, for one).
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A catalog record on disk that cannot be read; tells the record's key and what is wrong.
    #[error("catalog record {record} is damaged: {defect}")]
    Damaged { record: String, defect: String },
}

impl CatalogError {
    /// MongoDB's numeric error code.
    pub fn code(&self) -> i32 {
        match self {
            CatalogError::BadValue(_) => 2,
            CatalogError::FailedToParse(_) => 9,
            CatalogError::TypeMismatch(_) => 14,
            CatalogError::IllegalOperation(_) => 20,
            CatalogError::NamespaceNotFound(_) => 26,
            CatalogError::IndexNotFound(_) => 27,
            CatalogError::NamespaceExists(_) => 48,
            CatalogError::CannotCreateIndex(_) => 67,
            CatalogError::IndexAlreadyExists(_) => 68,
            CatalogError::InvalidOptions(_) => 72,
            CatalogError::InvalidNamespace(_) => 73,
            CatalogError::IndexOptionsConflict(_) => 85,
            CatalogError::IndexKeySpecsConflict(_) => 86,
            CatalogError::CommandNotSupported(_) => 115,
            CatalogError::CommandNotSupportedOnView(_) => 166,
            CatalogError::OptionNotSupportedOnView(_) => 167,
            CatalogError::InvalidPipelineOperator(_) => 168,
            CatalogError::ViewDepthLimitExceeded(_) => 165,
            CatalogError::AmbiguousIndexKeyPattern(_) => 181,
            CatalogError::InvalidIndexSpecificationOption(_) => 197,
            CatalogError::IndexBuildAborted(_) => 276,
            CatalogError::CannotConvertIndexToUnique(_) => 359,
            CatalogError::IndexBuildFailed { cause, .. } => cause.code(),
            CatalogError::Location { code, .. } => *code,
            CatalogError::Write(error) => error.code(),
            CatalogError::Query(error) => error.code,
            CatalogError::Storage(error) => storage_code(error),
            CatalogError::Commit(error) => commit_code(error),
            CatalogError::Damaged { .. } => INTERNAL_ERROR,
        }
    }

    /// The error of a malformed request within what it was read from; errors of other kinds stay as they are.
    #[must_use]
    pub(crate) fn within(self, context: &str) -> Self {
        let put = |message: String| format!("{context} :: caused by :: {message}");
        match self {
            CatalogError::BadValue(message) => CatalogError::BadValue(put(message)),
            CatalogError::FailedToParse(message) => CatalogError::FailedToParse(put(message)),
            CatalogError::TypeMismatch(message) => CatalogError::TypeMismatch(put(message)),
            CatalogError::CannotCreateIndex(message) => CatalogError::CannotCreateIndex(put(message)),
            CatalogError::InvalidIndexSpecificationOption(message) => {
                CatalogError::InvalidIndexSpecificationOption(put(message))
            }
            CatalogError::Location { code, message } => {
                CatalogError::Location { code, message: put(message) }
            }
            CatalogError::Query(error) => CatalogError::Query(error.within(context)),
            other => other,
        }
    }
}

impl CodedError for CatalogError {
    fn code(&self) -> i32 {
        CatalogError::code(self)
    }

    fn details(&self) -> Document {
        match self {
            CatalogError::Write(error) => error.details(),
            CatalogError::IndexBuildFailed { cause, .. } => cause.details(),
            _ => Document::new(),
        }
    }
}

/// Why a unit is not applied.
#[derive(Debug)]
pub(crate) enum Uncommitted {
    Refused(CommitError),
    /// It was taken back, since its operation is to end.
    Withdrawn(QueryError),
}

impl From<Uncommitted> for WriteError {
    fn from(uncommitted: Uncommitted) -> Self {
        match uncommitted {
            Uncommitted::Refused(error) => WriteError::Commit(error),
            Uncommitted::Withdrawn(end) => WriteError::Query(end),
        }
    }
}

impl From<Uncommitted> for CatalogError {
    fn from(uncommitted: Uncommitted) -> Self {
        match uncommitted {
            Uncommitted::Refused(error) => CatalogError::Commit(error),
            Uncommitted::Withdrawn(end) => CatalogError::Query(end),
        }
    }
}

const INTERNAL_ERROR: i32 = 1;
const DATA_CORRUPTION_DETECTED: i32 = 301;
const NOT_WRITABLE_PRIMARY: i32 = 10_107;
const INTERRUPTED_AT_SHUTDOWN: i32 = 11_600;
const INTERRUPTED_DUE_TO_STATE_CHANGE: i32 = 11_602;
const OBJECT_TOO_LARGE: i32 = 10_334;
const OUT_OF_DISK_SPACE: i32 = 14_031;

/// The store knows nothing of codes.
const fn storage_code(error: &StorageError) -> i32 {
    match error {
        StorageError::NoSpace(_) => OUT_OF_DISK_SPACE,
        StorageError::Closed => INTERRUPTED_AT_SHUTDOWN,
        StorageError::Corrupt(_) => DATA_CORRUPTION_DETECTED,
        _ => INTERNAL_ERROR,
    }
}

const fn commit_code(error: &CommitError) -> i32 {
    match error {
        CommitError::NoSpace(_) => OUT_OF_DISK_SPACE,
        CommitError::Closed => INTERRUPTED_AT_SHUTDOWN,
        CommitError::EntryTooLarge(_) => OBJECT_TOO_LARGE,
        CommitError::NotPrimary => NOT_WRITABLE_PRIMARY,
        CommitError::SteppedDown => INTERRUPTED_DUE_TO_STATE_CHANGE,
        _ => INTERNAL_ERROR,
    }
}

/// A refused or failed write of one document.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the variants are named after MongoDB's error codes")]
pub enum WriteError {
    #[error("{0}")]
    DuplicateKey(Box<DuplicateKey>),
    /// With what `errInfo` tells.
    #[error("Document failed validation")]
    DocumentValidationFailure(Document),
    #[error("{0}")]
    BadValue(String),
    #[error("{0}")]
    DollarPrefixedFieldName(String),
    #[error("{0}")]
    InvalidIdField(String),
    #[error("{0}")]
    ImmutableField(String),
    #[error("{0}")]
    ObjectTooLarge(String),
    #[error("{0}")]
    InvalidBson(String),
    #[error("{0}")]
    CannotIndexParallelArrays(String),
    #[error("{0}")]
    IllegalOperation(String),
    /// The collection was dropped; a reader or a multi-document write in the middle ends with this.
    #[error("{0}")]
    QueryPlanKilled(String),
    /// A code that has no name in MongoDB's table.
    #[error("{message}")]
    Location { code: i32, message: String },
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl WriteError {
    /// MongoDB's numeric error code.
    pub fn code(&self) -> i32 {
        match self {
            WriteError::DuplicateKey(_) => 11000,
            WriteError::DocumentValidationFailure(_) => 121,
            WriteError::BadValue(_) => 2,
            WriteError::IllegalOperation(_) => 20,
            WriteError::InvalidBson(_) => 22,
            WriteError::DollarPrefixedFieldName(_) => 52,
            WriteError::InvalidIdField(_) => 53,
            WriteError::ImmutableField(_) => 66,
            WriteError::CannotIndexParallelArrays(_) => 171,
            WriteError::QueryPlanKilled(_) => 175,
            WriteError::ObjectTooLarge(_) => 10334,
            WriteError::Location { code, .. } => *code,
            WriteError::Query(error) => error.code,
            WriteError::Storage(error) => storage_code(error),
            WriteError::Commit(error) => commit_code(error),
        }
    }

    /// Whether nothing was written because a read would have had to wait for the disk.
    pub const fn would_block(&self) -> bool {
        matches!(self, WriteError::Storage(StorageError::WouldBlock))
    }

    /// Whether the write concerns this document only, so that an unordered batch goes on with the next one.
    pub const fn is_per_document(&self) -> bool {
        !matches!(self, WriteError::Storage(_) | WriteError::Commit(_) | WriteError::QueryPlanKilled(_))
    }
}

impl CodedError for WriteError {
    fn code(&self) -> i32 {
        WriteError::code(self)
    }

    /// Part of a command's error reply and of the elements of `writeErrors`.
    fn details(&self) -> Document {
        match self {
            WriteError::DuplicateKey(duplicate) => {
                let DuplicateKey { key_pattern, key_value, .. } = &**duplicate;
                doc! { "keyPattern": (key_pattern.clone()), "keyValue": (key_value.clone()) }
            }
            WriteError::DocumentValidationFailure(info) => doc! { "errInfo": (info.clone()) },
            _ => Document::new(),
        }
    }
}

/// Two documents with the same key in a unique index.
#[derive(Debug, Clone)]
pub struct DuplicateKey {
    /// `database.collection`.
    pub namespace: String,
    /// The violated index's name.
    pub index: String,
    /// The violated index's key pattern.
    pub key_pattern: Document,
    /// The indexed fields and the values that occur twice.
    pub key_value: Document,
    /// The document key of the stored document that has them; `None` where it is not stored, or not known.
    pub holder: Option<Vec<u8>>,
}

impl std::fmt::Display for DuplicateKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "E11000 duplicate key error collection: {} index: {} dup key: {}",
            self.namespace,
            self.index,
            self.key_value.quoted()
        )
    }
}

/// A failed read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The collection was dropped while it was read.
    #[error("{0}")]
    QueryPlanKilled(String),
    /// The capped collection has passed over the position of a tailable cursor.
    #[error("{0}")]
    CappedPositionLost(String),
    /// Stored bytes make no sense.
    #[error("{0}")]
    Damaged(String),
    /// The store failed, or would have had to read from disk.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ReadError {
    /// Whether the read would have had to wait for the disk.
    pub const fn would_block(&self) -> bool {
        matches!(self, ReadError::Storage(StorageError::WouldBlock))
    }

    /// MongoDB's numeric error code.
    pub const fn code(&self) -> i32 {
        match self {
            ReadError::QueryPlanKilled(_) => 175,
            ReadError::CappedPositionLost(_) => 136,
            ReadError::Damaged(_) => INTERNAL_ERROR,
            ReadError::Storage(error) => storage_code(error),
        }
    }
}

impl CodedError for ReadError {
    fn code(&self) -> i32 {
        ReadError::code(self)
    }
}
