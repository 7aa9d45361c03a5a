//! Entries of the log and where they are.

use bytes::Bytes;
use document::Timestamp;
use raft::eraftpb::{self, EntryType};

/// A member's number in its set: `members[n]._id` plus one, for 0 is nobody.
pub type MemberId = u64;

/// Counts elections; a term has at most one leader.
pub type Term = u64;

/// The number of an entry in the log, from 1.
pub type LogIndex = u64;

/// Where an entry is, and which one: two logs with the same term at an index are equal up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogPosition {
    /// The term of the leader that logged it.
    pub term: Term,
    /// Its number.
    pub index: LogIndex,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEntryKind {
    /// The first one of a leader's term: nothing to apply.
    LeaderElected,
    /// An operation with the timestamp that its leader gave it; its data is the oplog entry.
    Operation(Timestamp),
    /// The set has other members from here on.
    Membership,
}

/// One entry of the log. It is written and sent as it is; what the data says is not looked at here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Where.
    pub position: LogPosition,
    /// What.
    pub kind: LogEntryKind,
    /// The oplog entry, or the change of the members in the consensus library's form.
    pub data: Bytes,
    /// What the proposer of other members gave with them.
    pub context: Bytes,
}

impl LogEntry {
    /// About the bytes that it takes in a message.
    pub fn size(&self) -> u64 {
        const FIXED: u64 = 24;
        FIXED + self.data.len() as u64 + self.context.len() as u64
    }

    pub(crate) fn from_raft(entry: eraftpb::Entry) -> Self {
        let position = LogPosition { term: entry.term, index: entry.index };
        let (kind, context) = match (entry.get_entry_type(), timestamp(&entry.context)) {
            (EntryType::EntryNormal, Some(timestamp)) => (LogEntryKind::Operation(timestamp), Bytes::new()),
            (EntryType::EntryNormal, None) => (LogEntryKind::LeaderElected, Bytes::new()),
            (EntryType::EntryConfChange | EntryType::EntryConfChangeV2, _) => {
                (LogEntryKind::Membership, entry.context)
            }
        };
        LogEntry { position, kind, data: entry.data, context }
    }

    pub(crate) fn into_raft(self) -> eraftpb::Entry {
        let mut entry = eraftpb::Entry::new();
        entry.term = self.position.term;
        entry.index = self.position.index;
        entry.data = self.data;
        match self.kind {
            LogEntryKind::LeaderElected => {}
            LogEntryKind::Operation(timestamp) => entry.context = context(timestamp),
            LogEntryKind::Membership => {
                entry.set_entry_type(EntryType::EntryConfChangeV2);
                entry.context = self.context;
            }
        }
        entry
    }
}

/// How the consensus library carries an operation's timestamp.
pub(crate) fn context(timestamp: Timestamp) -> Bytes {
    Bytes::copy_from_slice(&timestamp.as_u64().to_be_bytes())
}

pub(crate) fn timestamp(context: &[u8]) -> Option<Timestamp> {
    context.try_into().ok().map(|bytes| Timestamp::from_u64(u64::from_be_bytes(bytes)))
}
