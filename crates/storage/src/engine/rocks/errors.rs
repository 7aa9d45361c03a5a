//! RocksDB's errors in this crate's words. RocksDB hands over text; its first words name the kind.

use std::path::Path;
use std::sync::Arc;

use rocksdb::{Error, ErrorKind};

use crate::engine::EngineFailure;
use crate::error::{OpenError, StorageError};

/// Why RocksDB could not be opened.
#[derive(Debug)]
pub struct RocksOpenFailure(Error);

fn is_no_space(error: &Error) -> bool {
    says_no_space(error.as_ref())
}

pub(super) fn says_no_space(text: &str) -> bool {
    ["No space left on device", "Disk quota exceeded", "Max allowed space was reached", "Space limit reached"]
        .iter()
        .any(|sign| text.contains(sign))
}

impl From<Error> for RocksOpenFailure {
    fn from(error: Error) -> RocksOpenFailure {
        RocksOpenFailure(error)
    }
}

impl RocksOpenFailure {
    pub(crate) fn is_no_space(&self) -> bool {
        is_no_space(&self.0)
    }

    pub(crate) fn into_open_error(self, path: &Path) -> OpenError {
        let (path, detail) = (path.to_owned(), self.0.to_string());
        if is_no_space(&self.0) {
            OpenError::NoSpace { path, detail }
        } else if detail.contains("lock ") || detail.contains("LOCK") {
            OpenError::Locked {
                path,
                holder: "another process, or an earlier store of this one that is still read".into(),
            }
        } else if self.0.kind() == ErrorKind::Corruption || detail.contains("No such file or directory") {
            OpenError::Corrupt { path, detail }
        } else if detail.contains("Permission denied") || detail.contains("Read-only file system") {
            OpenError::Unreadable { path, source: std::io::Error::other(detail) }
        } else {
            OpenError::Engine { path, detail }
        }
    }
}

pub(super) fn storage_error(error: Error) -> StorageError {
    let detail: Arc<str> = Arc::from(error.as_ref());
    if is_no_space(&error) {
        return StorageError::NoSpace(detail);
    }
    match error.kind() {
        ErrorKind::Incomplete => StorageError::WouldBlock,
        ErrorKind::Corruption => StorageError::Corrupt(detail),
        ErrorKind::ShutdownInProgress => StorageError::Closed,
        _ => StorageError::Engine(detail),
    }
}

pub(super) fn write_failure(error: Error) -> EngineFailure {
    let detail: Arc<str> = Arc::from(error.as_ref());
    if is_no_space(&error) {
        return EngineFailure::NoSpace(detail);
    }
    match error.kind() {
        // The answer to a write that would have been delayed or stopped.
        ErrorKind::Incomplete => EngineFailure::Stalled,
        _ => EngineFailure::Failed(detail),
    }
}
