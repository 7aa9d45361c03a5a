//! The errors of this crate's boundary: one enum per operation whose outcomes differ.

use std::path::PathBuf;
use std::sync::Arc;

/// Why a store could not be opened. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory open.
    #[error("data directory {path} is in use by {holder}: stop that server or choose another --dbpath")]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process that holds it, as far as the lock file tells.
        holder: String,
    },
    /// The directory or a file in it cannot be created, read or written.
    #[error(
        "data directory {path} cannot be used: {source}: check that it exists and that this user may read \
        and write it"
    )]
    Unreadable {
        /// The file or directory that failed.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The directory belongs to something else.
    #[error(
        "directory {path} is not empty and is not a heddle data directory (it contains {found}): choose an \
        empty directory"
    )]
    NotHeddle {
        /// The directory.
        path: PathBuf,
        /// One entry that does not belong to a heddle data directory.
        found: String,
    },
    /// The directory was written by a newer release.
    #[error(
        "data directory {path} has format version {found}, this server supports versions up to {supported}: \
        start a newer server"
    )]
    NewerVersion {
        /// The directory.
        path: PathBuf,
        /// The version found in the directory.
        found: u32,
        /// The newest version this build understands.
        supported: u32,
    },
    /// There is no room to open the store.
    #[error("no space left to open data directory {path}: free some space and start again ({detail})")]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// What the engine said.
        detail: String,
    },
    /// Files are damaged or missing.
    #[error("data directory {path} is damaged: {detail}: restore it from a backup, or see heddle repair")]
    Corrupt {
        /// The directory.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// Something was begun there and not ended.
    #[error("{work} has begun in data directory {path} and was not ended: run it again")]
    Unfinished {
        /// The directory.
        path: PathBuf,
        /// The sub-command.
        work: &'static str,
    },
    /// The journal ends before a point that is known to have been on stable storage.
    #[error(
        "the journal in {path} ends at sequence number {found}, but {synced} was already on stable storage: \
         the disk has lost acknowledged writes; restore from a backup, or delete {path}/journal-mark to \
         accept the loss"
    )]
    JournalDamaged {
        /// The directory.
        path: PathBuf,
        /// Where the journal ends now.
        found: u64,
        /// What had been synced before.
        synced: u64,
    },
    /// The directory is encrypted, and there is no key.
    #[error(
        "data directory {path} is encrypted with the key {key}: give --enableEncryption and \
        --encryptionKeyFile or --encryptionKeyCommand"
    )]
    Encrypted {
        /// The directory.
        path: PathBuf,
        /// The id of the key.
        key: String,
    },
    /// The directory is encrypted with another key.
    #[error(
        "data directory {path} is encrypted with the key {expected}, and the key that is given is {given}"
    )]
    WrongKey {
        /// The directory.
        path: PathBuf,
        /// The id of its key.
        expected: String,
        /// That of the key that was given.
        given: String,
    },
    /// There is a key, and the directory has data that are not encrypted.
    #[error(
        "data directory {path} holds data that are not encrypted: start without --enableEncryption, or take \
        the data into an empty directory by a dump, or as a new member of the set"
    )]
    NotEncrypted {
        /// The directory.
        path: PathBuf,
    },
    /// The options contradict each other.
    #[error("storage options are not usable: {0}")]
    Options(String),
    /// Anything else the engine reported.
    #[error("data directory {path} could not be opened: {detail}")]
    Engine {
        /// The directory.
        path: PathBuf,
        /// What the engine said.
        detail: String,
    },
}

/// Why a read or a maintenance operation failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StorageError {
    /// The bytes are not in memory and the read was limited to
    /// [`ReadTier::BlockCache`](crate::ReadTier::BlockCache).
    #[error("the read needs the disk and was limited to memory")]
    WouldBlock,
    /// Stored bytes fail their checksum or make no sense.
    #[error("stored data is damaged: {0}")]
    Corrupt(Arc<str>),
    /// The disk is full.
    #[error("no space left on the data disk: {0}")]
    NoSpace(Arc<str>),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// Anything else the engine or the operating system reported.
    #[error("storage engine error: {0}")]
    Engine(Arc<str>),
}

/// Why a unit was not committed. Nothing of a refused unit is visible.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CommitError {
    /// The disk is full; commits succeed again once there is space.
    #[error("no space left on the data disk: {0}")]
    NoSpace(Arc<str>),
    /// The log could not be brought to stable storage. The unit may or may not survive a power loss, and
    /// the store acknowledges nothing any more until it has been reopened.
    #[error(
        "the journal could not be synced, no write is acknowledged until the server has been restarted: {0}"
    )]
    JournalFailed(Arc<str>),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// An entry of the unit is longer than the log takes.
    #[error("an entry of the oplog would have {0} bytes, at most {max} are allowed",
        max = crate::ENTRY_BYTES_MAX)]
    EntryTooLarge(usize),
    /// The log takes no entries here.
    #[error("not primary")]
    NotPrimary,
    /// The log took no more entries before those of the unit were committed. They may become so elsewhere.
    #[error("operation was interrupted")]
    SteppedDown,
    /// The engine refused the group's batch.
    #[error("storage engine refused the write: {0}")]
    Engine(Arc<str>),
    /// Something the store relies on does not hold. Whether a unit under way was written is unknown, and no
    /// later one is.
    #[error("the store is broken and takes no writes until the server has been restarted: {0}")]
    Broken(Arc<str>),
}
