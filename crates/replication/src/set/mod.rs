//! A replica set as its operators and clients see it, and a member of it that runs.
//!
//! ```text
//!  commands ─▶ ReplicaSet ─ asks ─▶ Driver ─▶ Participant ─▶ Member (consensus) ─▶ StoreLog
//!                  ▲                   │ ▲          │ groups of clients' writes ◀─▶ storage::Proposals
//!                  │ Topology,         │ └ synced ──┤ envelopes ─▶ Peers
//!                  └ how far it is ────┘            └ committed ─▶ ApplyQueue ─▶ Applying ─▶ data, views
//! ```
//! # Invariants
//!
//! * A client's write is acknowledged only where its entry is committed in the term in which it was proposed.
//! * What loses its leadership refuses first, then says so.
//! * The data are changed in the order of the log: by the groups that were proposed here, or by computing.
//! * The driver waits neither for the disk nor for data.

mod apply;
mod apply_queue;
mod arbiter;
mod background;
mod batches;
mod chain;
pub mod config;
mod copying;
mod delay;
mod driver;
mod election_metrics;
mod envelope;
mod error;
mod flow;
mod freshness;
mod heartbeat;
mod history;
mod kept_log;
mod lead;
mod memory;
mod numbers;
mod own_place;
mod parallel;
mod participant;
mod replica_set;
mod shared;
mod state;
mod topology;

pub use apply_queue::Unapplied;
pub use background::{MemberTasks, Turn};
pub use batches::BatchFigures;
pub use config::{Copies, DefaultReadFreshness, MemberConfig, ReplSetConfig, Settings, normal_host};
pub use driver::Received;
pub use election_metrics::{
    Candidature, ElectionCount, ElectionFigures, ElectionReason, NewTerm, SyncSourceFigures, VoteGiven,
};
pub use error::SetError;
pub use flow::{FlowFigures, FlowSettings};
pub use heartbeat::MemberStatus;
pub use history::{HistoryFigures, Moment};
pub use kept_log::KeptLogFigures;
pub use memory::MemberMemory;
pub use replica_set::{ReplicaSet, SetOptions};
pub use topology::{MemberState, Topology};
