//! Backups of a store: taken while it is used, checked, restored; check and repair of a data directory.
//!
//! ```text
//!  store ─▶ checkpoint (hard links) ─▶ DIR/incomplete-N/ ─▶ manifest, syncs ─▶ DIR/generation-N/
//!                                        └ tables that generation N-1 has: links to these
//!  DIR/generation-N/ ─▶ every checksum ─▶ <dbpath>/restoring/ ─▶ out of its set ─▶ <dbpath>/
//! ```
//!
//! # Vocabulary
//!
//! * *generation*: one backup, whole by itself; what it shares with others are hard links.
//! * *manifest*: the list of a generation's files with sizes and checksums, written last.
//!
//! # Invariants
//!
//! * What has the name of a generation is whole and on the disk: it gets the name last.
//! * Files that may be written to are copied, never linked.
//! * Nothing that was restored is opened by a server before all of it is there.
//! * A repair removes nothing: the old files are moved when the new ones are whole.
//!
//! # Not here
//!
//! Who asks for a backup (`commands`, `heddle`); how the engine's files are read (`storage`).

mod check;
mod manifest;
mod repair;
#[cfg(test)]
mod repair_tests;
mod restore;
mod take;
#[cfg(test)]
mod tests;

pub use check::{CheckReport, check_backup, check_data};
pub use manifest::{BackupManifest, BackupPlace, ManifestFile};
pub use repair::{RepairReport, RepairRequest, describe_defect, repair};
pub use restore::{RestoreReport, restore};
pub use take::{BackupProgress, BackupReport, BackupRequest, remove_unfinished, take};

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Refused(String),
    /// Another backup into the directory is under way.
    #[error("another backup into {0} is under way")]
    Busy(PathBuf),
    /// Files are not what they were when they were written.
    #[error("{0}")]
    Damaged(String),
    /// There is no room.
    #[error("no space left for the backup: {0}")]
    NoSpace(String),
    /// The file system refuses something.
    #[error("{path}: {source}")]
    File {
        /// What it is about.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// The store refuses something.
    #[error(transparent)]
    Storage(#[from] storage::StorageError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] storage::OpenError),
    /// Whoever asked for it has ended it.
    #[error("the backup was ended")]
    Ended,
}

impl From<io::Error> for BackupError {
    fn from(source: io::Error) -> Self {
        failed(Path::new("a file of the backup"), source)
    }
}

fn failed(path: &Path, source: io::Error) -> BackupError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            BackupError::NoSpace(format!("{}: {source}", path.display()))
        }
        _ => BackupError::File { path: path.to_owned(), source },
    }
}

/// Adds to an error which file it is about.
trait About<T> {
    fn about(self, path: &Path) -> Result<T, BackupError>;
}

impl<T> About<T> for io::Result<T> {
    fn about(self, path: &Path) -> Result<T, BackupError> {
        self.map_err(|source| failed(path, source))
    }
}
