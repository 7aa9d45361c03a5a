//! One file per command and one table; cursors, sessions, parameters, fail points, counters.
//!
//! ```text
//!             Request { body, sequences }                     heddle's Service
//!                        │                                          ▲
//!                        ▼                                          │ Outcome + reply bytes
//!   dispatch: find in COMMANDS ─▶ generic arguments ─▶ checks ─▶ run the command
//!                                 ($db, lsid, maxTimeMS,…)          │
//!             ┌──────────────┬──────────────┬────────────┬──────────┴─┐
//!             ▼              ▼              ▼            ▼            ▼
//!          Fields         Cursors        Sessions    Parameters    catalog, storage
//!      (strict typing)  (open batches)    (lsid)     (tunables)     (documents)
//! ```
//!
//! # Vocabulary
//! A *command* is a document whose first field names it. *Generic arguments* are the fields every command has. An *operation* is a
//! command that runs now; a connection has one at a time, so that the connections are the registry of operations.
//!
//! # Invariants
//! - Every request gets a reply document or an error document, even when the command panics.
//! - No field of a command is ignored silently: what nobody took is an unknown field (40415).
//! - Only this crate turns errors of the layers below into MongoDB's codes.
//! - No lock is held across an await.
//! - On a thread that must not block ([`host::ClientLink::may_block`]) nothing reads the disk and nothing computes for long:
//!   every command's row says where it runs ([`Execution`]), and [`Turns`] move what has begun in an event loop.
//!
//! # Not here
//! No sockets, no threads per connection (`transport`), no signal handling and no log writing (`heddle`): the traits of [`host`] are
//! the way out.

mod aggregation;
pub mod command;
mod connection;
pub mod context;
pub mod counters;
pub mod cursors;
mod dispatch;
pub mod error;
mod exec;
mod failpoints;
pub mod fields;
mod figure;
mod generic;
pub mod host;
mod interrupt;
mod layer_errors;
mod own_collections;
pub mod parameters;
mod request;
mod server;
pub mod sessions;
mod stages;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod time_text;
mod timers;
mod turns;
mod write;

pub use aggregation::remove_unfinished_outputs;
pub use command::{COMMANDS, CommandEntry, Execution, is_diagnostic, may_reply_large};
pub use connection::{Connection, OperationGuard, OperationView};
pub use context::{BatchContext, CommandContext};
pub use dispatch::dispatch;
pub use error::{CommandError, CommandResult, code};
pub use failpoints::{FailPoint, FailPoints};
pub use fields::{DocumentList, Fields};
pub use generic::{ApiVersion, GenericArguments, ReadConcern, WriteConcern};
pub use interrupt::Interrupt;
pub use own_collections::prepare_own_collections;
pub use request::{Next, Outcome, Request};
pub use server::{CommandStatistics, Server};
pub use stages::{SlowOperation, Stage, StageHistograms, StageTimes};
pub use time_text::utc_text;
pub use timers::{Sleep, Timers};
pub use turns::Turns;
