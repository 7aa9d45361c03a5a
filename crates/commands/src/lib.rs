//! The commands that need the documents: one file per command, one table; planning is `query`'s, reading and
//! writing `catalog`'s.
//!
//! ```text
//!   dispatch (table, generic arguments, cursors, …) ──▶ one file per command ──▶ exec, aggregation, write
//!                                                                                            │
//!   ServiceContext = dispatch::ServiceContext<DataNode>: catalog, store, spill ◀─────────────┘
//! ```
//!
//! # Invariant
//! On a thread that must not block ([`dispatch::host::ClientLink::may_block`]) nothing reads the disk and
//! nothing computes for long: every command's row says where it runs ([`dispatch::command::Execution`]), and
//! `Scheduling` move what has begun in an event loop.
//!
//! # Not here
//! What a server without documents could do as well: `dispatch`.

mod access;
mod aggregation;
mod audit;
mod calendar;
mod command;
mod context;
#[cfg(test)]
mod election_tests;
mod exec;
#[cfg(test)]
mod hidden_tests;
mod index_builds;
#[cfg(test)]
mod index_builds_tests;
mod key_rotation;
#[cfg(test)]
mod logged_tests;
mod own_collections;
mod own_work;
mod replica_set;
#[cfg(test)]
mod replica_set_tests;
mod scheduling;
mod server;
#[cfg(test)]
mod snapshot_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod ttl;
#[cfg(test)]
mod waits_tests;
mod write;

use dispatch::{
    client, counters, cursors, error, failpoints, fields, generic, interrupt, parameters, sessions, spans,
};

pub use aggregation::remove_unfinished_outputs;
pub use calendar::{keep_compaction_to_calendar, keep_index_builds_to_calendar};
pub use index_builds::BuildResumer;
pub use key_rotation::KeyRotation;
pub use own_collections::{expire_retryable_writes, prepare_own_collections, prepare_replicated};
pub use own_work::{OwnWorkStep, OwnWorkSwitch};
pub use server::{DataNode, ServiceContext};
pub use ttl::TtlMonitor;
