//! What a member wants done.

use crate::entry::{LogEntry, LogIndex, LogPosition, MemberId, Term};
use crate::membership::Membership;
use crate::message::RaftMessage;

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaftRole {
    /// It takes operations (once [`crate::Member::is_writable`] says so).
    Leader,
    /// It has the log of a leader, or waits for one.
    Follower,
    /// It asks the others to be elected, or whether they would.
    Candidate,
}

/// Who leads, as far as a member knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leadership {
    /// Its own part.
    pub role: RaftRole,
    /// The latest term that it knows.
    pub term: Term,
    /// The leader of that term, where it is known.
    pub leader: Option<MemberId>,
}

/// Names a sync that a member waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncTicket(pub(crate) u64);

/// Names a read that asks whether its leader still leads. Those of one member grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub(crate) u64);

/// The log of this member cannot be brought up to date by entries: copy the files of the data from another
/// member and tell [`crate::Member::install`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotWanted {
    /// The leader, which offers it.
    pub from: MemberId,
    /// Where its data are; a copy of this or a later place will do.
    pub at: LogPosition,
    /// Who belonged to the set there.
    pub membership: Membership,
}

/// A committed entry, to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The entry.
    pub entry: LogEntry,
    /// The members from here on, where it changes them: kept with the data, for [`crate::Checkpoint`].
    pub membership: Option<Membership>,
}

/// What to do, in any order and at any time later, but each list from its beginning to its end.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// To send.
    pub messages: Vec<RaftMessage>,
    /// The log is to be synced; afterwards tell [`crate::Member::synced`]. A later ticket covers earlier
    /// ones.
    pub sync: Option<SyncTicket>,
    /// To apply, each entry once and in this order, and then to tell [`crate::Member::applied`]. They are on
    /// a majority of disks, and on this one.
    pub committed: Vec<Committed>,
    /// Who leads now, where that is another one than before. Who is not the leader any more, or is that of
    /// another term, refuses the reads that it has begun; operations that it has proposed may still be
    /// committed.
    pub leadership: Option<Leadership>,
    /// All reads up to the id may be answered from data to which everything up to the index was applied.
    pub readable: Vec<(ReadId, LogIndex)>,
    /// This member is too far behind.
    pub snapshot: Option<SnapshotWanted>,
    /// Much is committed: there is more to do at once.
    pub has_more: bool,
}

impl Effects {
    /// Whether something is to be applied or copied.
    pub(crate) fn has_news(&self) -> bool {
        !self.committed.is_empty() || self.snapshot.is_some()
    }
}
