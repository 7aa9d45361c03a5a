//! The replicated log of a replica set: what was acknowledged is never taken back.
//!
//! # Vocabulary
//!
//! * *member*: one server of a set; a *voter* or a *learner* (`votes: 0`).
//! * *log*: the operations of a set in their order, on each member's disk; an *entry* is at an *index*.
//! * *term*: counts elections; each has one *leader* at most, who alone adds entries.
//! * *OpTime*: an operation's timestamp and term; both grow along the log.
//! * *committed*: on the disks of a majority, and so in the log of every later leader.
//! * *checkpoint*: the data as of one place of the log, which replace the log up to there.
//!
//! ```text
//!            propose (a group)                           ┌─▶ committed ─▶ apply, acknowledge
//!   leader ────────┬──────────▶ log: one write, one sync ┤   (on a majority of disks, this one among them)
//!                  └─ message ▶ follower: log, sync ─────┘ answer
//!
//!   told: advance(time), receive, propose, synced, applied   ┌────────┐    wanted: messages, a sync,
//!   read, change_members, transfer, install, compact     ──▶ │ Member │ ─▶ committed entries, leadership,
//!                                                            └────────┘    readable reads, a copy of data
//! ```
//! The protocol is Raft, in TiKV's library `raft`; why, and what it does not do: `docs/design/consensus.md`.
//!
//! # Invariants
//!
//! * Commit before apply: what a member applies is on the disks of a majority and on its own, so that nothing
//!   that was applied, acknowledged or read is undone.
//! * A promise (a vote, having an entry) leaves a member after the sync that covers it, in the order of
//!   promising.
//! * OpTimes grow along the log, also from one leader to the next whatever their clocks show.
//! * A read is linearizable after a majority has said that it knows no later term: no clock is trusted.
//! * Members, time, randomness, network and disk come from outside: one seed gives one run.
//! * A broken invariant of the log panics: this member stops, the others go on.
//!
//! # Not here
//!
//! Files; who may ask (`replSet…` commands). A member
//! that has lost its disk has forgotten its votes: it comes back under another number. Whether who speaks for
//! a member is one: `docs/replication.md`.

mod config;
mod effects;
mod elections;
mod entry;
pub mod initial_sync;
mod log;
mod member;
mod membership;
mod message;
pub mod network;
pub mod oplog;
mod optime;
mod peers;
mod plausible;
pub mod retryable;
pub mod set;
mod store_log;

pub use bytes::Bytes;
pub use config::Config;
pub use effects::{Committed, Effects, Leadership, RaftRole, ReadId, SnapshotWanted, SyncTicket};
pub use elections::Candidacy;
pub use entry::{LogEntry, LogEntryKind, LogIndex, LogPosition, MemberId, Term};
pub use log::{Checkpoint, HardState, Log, LogError, LogWrite};
pub use member::{Member, Progress, ProposeError};
pub use membership::Membership;
pub use message::{MessageError, RaftMessage};
pub use optime::OpTime;
pub use peers::{Answer, Delay, PeerError, Peers};
pub use store_log::{Identity, LocalState, LogOptions, Oplog, StoreLog, forget_set, leave_set};
