//! Errors of the layers below as a client sees them.

use crate::error::{CommandError, code};
use catalog::{CatalogError, DuplicateKey, ReadError, WriteError};
use document::{Document, doc};
use storage::{CommitError, StorageError};

impl From<CatalogError> for CommandError {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Write(error) => error.into(),
            CatalogError::Storage(error) => error.into(),
            CatalogError::Commit(error) => error.into(),
            CatalogError::IndexBuildFailed { context, cause } => CommandError::from(*cause).within(&context),
            other => CommandError::new(other.code(), other.to_string()),
        }
    }
}

impl From<WriteError> for CommandError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Storage(error) => error.into(),
            WriteError::Commit(error) => error.into(),
            other => {
                let extra = write_error_details(&other);
                let error = CommandError::new(other.code(), other.to_string());
                if extra.is_empty() { error } else { error.with_extra(extra) }
            }
        }
    }
}

impl From<ReadError> for CommandError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Storage(error) => error.into(),
            other => CommandError::new(other.code(), other.to_string()),
        }
    }
}

impl From<StorageError> for CommandError {
    fn from(error: StorageError) -> Self {
        let number = match &error {
            StorageError::NoSpace(_) => wire::ErrorCode::OutOfDiskSpace as i32,
            StorageError::Closed => code::INTERRUPTED_AT_SHUTDOWN,
            _ => code::INTERNAL_ERROR,
        };
        CommandError::new(number, error.to_string())
    }
}

impl From<CommitError> for CommandError {
    fn from(error: CommitError) -> Self {
        let number = match &error {
            CommitError::NoSpace(_) => wire::ErrorCode::OutOfDiskSpace as i32,
            CommitError::Closed => code::INTERRUPTED_AT_SHUTDOWN,
            _ => code::INTERNAL_ERROR,
        };
        CommandError::new(number, error.to_string())
    }
}

/// What an error tells beside code and message: `keyPattern` and `keyValue` of a duplicate key, `errInfo` of a failed
/// validation. Part of a command's error reply and of the elements of `writeErrors`.
pub(crate) fn write_error_details(error: &WriteError) -> Document {
    match error {
        WriteError::DuplicateKey(duplicate) => {
            let DuplicateKey { key_pattern, key_value, .. } = &**duplicate;
            doc! { "keyPattern": (key_pattern.clone()), "keyValue": (key_value.clone()) }
        }
        WriteError::DocumentValidationFailure(info) => doc! { "errInfo": (info.clone()) },
        _ => Document::new(),
    }
}
