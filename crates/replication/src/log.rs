//! What a member keeps on its disk, and the form in which the consensus library reads it.

use crate::entry::{LogEntry, LogIndex, LogPosition, MemberId, Term};
use crate::membership::Membership;
use catalog::CatalogError;
use raft::eraftpb::{self, Snapshot};
use raft::{GetEntriesContext, RaftState, StorageError};

/// What a member must not forget about elections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HardState {
    /// The latest term it knows.
    pub term: Term,
    /// To whom it gave its vote in that term; 0 is nobody.
    pub vote: MemberId,
    /// Up to where it knows the log to be committed. A later one may be forgotten.
    pub committed: LogIndex,
}

/// One change of a log, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogWrite {
    /// The log has no entries any more, and the next one is the one after this.
    pub reset: Option<LogPosition>,
    /// Replaces the one before.
    pub hard_state: Option<HardState>,
    /// One after the other. Entries from the first one's index on that were there before are removed.
    pub entries: Vec<LogEntry>,
}

/// Why a log cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the log of the replica set: {0}")]
pub struct LogError(#[from] pub Box<dyn std::error::Error + Send + Sync>);

impl LogError {
    /// Whether it could only not be written because the process ends.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.0.downcast_ref(), Some(storage::CommitError::Closed))
    }

    /// Whether the disk has no room to make the log.
    pub(crate) fn lacks_room(&self) -> bool {
        let error = self.0.downcast_ref::<CatalogError>();
        error.is_some_and(|error| error.code() == wire::ErrorCode::OutOfDiskSpace as i32)
    }
}

/// The log on a member's disk.
///
/// What was written is read at once, and survives a crash when a sync that began afterwards has ended
/// ([`crate::Effects::sync`]). A crash before that leaves what some first part of the writes made.
pub trait Log {
    /// As written last; the default where nothing was.
    fn hard_state(&self) -> HardState;

    /// The place before the first entry: what was applied up to there is gone from the log.
    fn compacted(&self) -> LogPosition;

    /// The index of the last entry, or of [`Log::compacted`] without any.
    fn last(&self) -> LogIndex;

    /// The term of an entry, or of [`Log::compacted`].
    fn term(&self, index: LogIndex) -> Result<Term, LogError>;

    /// The entries from `first` to before `end`, all of which are there; fewer where they have more than
    /// `bytes_max` bytes, but always one.
    fn entries(&self, first: LogIndex, end: LogIndex, bytes_max: u64) -> Result<Vec<LogEntry>, LogError>;

    /// Whether an entry that another member has sent is one of this log's; all that is written was checked
    /// before.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(&self, _entry: &LogEntry) -> Result<(), LogError> {
        Ok(())
    }

    /// Makes a change.
    fn write(&mut self, write: LogWrite) -> Result<(), LogError>;

    /// Removes the entries up to this one, which is applied and will never be read again.
    fn compact(&mut self, through: LogPosition) -> Result<(), LogError>;
}

/// The state of the data at one place of the log: what a member begins with, and what a copy of files holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// The last entry in it.
    pub position: LogPosition,
    /// The timestamp of the last operation in it.
    pub timestamp: document::Timestamp,
    /// Who belonged to the set then.
    pub membership: Membership,
}

impl Checkpoint {
    /// What a set of these voters begins with. Members with no data at all ask for a copy of it.
    pub fn initial(voters: &[MemberId]) -> Self {
        let position = LogPosition { term: 1, index: 1 };
        Checkpoint { position, membership: Membership::of(voters), ..Checkpoint::default() }
    }
}

/// A log as the consensus library reads it.
pub(crate) struct Storage<L> {
    pub(crate) log: L,
    /// Where the library begins: what was applied.
    pub(crate) began: Checkpoint,
    /// Up to where the data are now, which is what a member gets that the log cannot serve any more.
    pub(crate) applied: LogIndex,
    pub(crate) membership: Membership,
}

impl<L: Log> Storage<L> {
    /// A log beside data of this state. A crash between putting the files of a copy in their place and
    /// resetting the log is made good here.
    pub(crate) fn open(mut log: L, began: Checkpoint) -> Result<Self, LogError> {
        let LogPosition { term, index } = began.position;
        let compacted = log.compacted().index;
        assert!(compacted <= index, "the log begins after {compacted}, the data end at {index}");
        if log.last() < index || log.term(index)? != term {
            let mut hard_state = log.hard_state();
            hard_state.committed = index;
            hard_state.term = hard_state.term.max(term);
            log.write(LogWrite {
                reset: Some(began.position),
                hard_state: Some(hard_state),
                ..LogWrite::default()
            })?;
        }
        let (applied, membership) = (index, began.membership.clone());
        Ok(Storage { log, began, applied, membership })
    }

    /// The timestamp of the last operation, committed or not.
    pub(crate) fn latest_timestamp(&self) -> Result<document::Timestamp, LogError> {
        for index in (self.log.compacted().index + 1..=self.log.last()).rev() {
            let entries = self.log.entries(index, index + 1, u64::MAX)?;
            if let Some(LogEntry { kind: crate::LogEntryKind::Operation(timestamp), .. }) = entries.first() {
                return Ok(*timestamp);
            }
        }
        Ok(self.began.timestamp)
    }
}

impl<L: Log> raft::Storage for Storage<L> {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let HardState { term, vote, committed } = self.log.hard_state();
        let mut hard_state = eraftpb::HardState::new();
        hard_state.term = term;
        hard_state.vote = vote;
        // What was applied was committed, though the log may have forgotten it.
        hard_state.commit = committed.max(self.applied);
        Ok(RaftState::new(hard_state, self.membership.to_raft()))
    }

    fn entries(
        &self,
        low: LogIndex,
        high: LogIndex,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<eraftpb::Entry>> {
        if low <= self.log.compacted().index {
            return Err(StorageError::Compacted.into());
        }
        let entries =
            self.log.entries(low, high, max_size.into().unwrap_or(u64::MAX)).map_err(storage_error)?;
        Ok(entries.into_iter().map(LogEntry::into_raft).collect())
    }

    fn term(&self, index: LogIndex) -> raft::Result<Term> {
        if index < self.log.compacted().index {
            return Err(StorageError::Compacted.into());
        }
        if index > self.log.last() {
            return Err(StorageError::Unavailable.into());
        }
        self.log.term(index).map_err(storage_error)
    }

    fn first_index(&self) -> raft::Result<LogIndex> {
        Ok(self.log.compacted().index + 1)
    }

    fn last_index(&self) -> raft::Result<LogIndex> {
        Ok(self.log.last())
    }

    /// Says only where the data are: the receiver fetches a copy of the files, which may be of later.
    fn snapshot(&self, request_index: LogIndex, _: MemberId) -> raft::Result<Snapshot> {
        if self.applied < request_index {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        let position = LogPosition { index: self.applied, term: self.term(self.applied)? };
        Ok(snapshot(position, &self.membership))
    }
}

pub(crate) fn snapshot(position: LogPosition, membership: &Membership) -> Snapshot {
    let mut snapshot = Snapshot::new();
    snapshot.mut_metadata().index = position.index;
    snapshot.mut_metadata().term = position.term;
    snapshot.mut_metadata().set_conf_state(membership.to_raft());
    snapshot
}

fn storage_error(LogError(error): LogError) -> raft::Error {
    StorageError::Other(error).into()
}
