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
//! - No lock is held across an await.
//! - On a thread that must not block ([`host::ClientLink::may_block`]) nothing reads the disk and nothing computes for long:
//!   every command's row says where it runs ([`Execution`]), and [`Turns`] move what has begun in an event loop.
//!
//! # Not here
//! No sockets, no threads per connection (`transport`), no signal handling and no log writing (`heddle`): the traits of [`host`] are
//! the way out.

mod aggregation;
pub mod command;
pub mod context;
pub mod cursors;
mod dispatch;
mod exec;
mod failpoints;
mod own_collections;
mod server;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod turns;
mod write;

use ::dispatch::{
    connection, counters, error, fields, generic, host, interrupt, parameters, request, sessions, stages,
    timers,
};

pub use self::dispatch::dispatch;
pub use aggregation::remove_unfinished_outputs;
pub use command::{COMMANDS, CommandEntry, Execution, is_diagnostic, may_reply_large};
pub use context::{BatchContext, CommandContext};
pub use failpoints::{FailPoint, FailPoints};
pub use own_collections::prepare_own_collections;
pub use server::{CommandStatistics, Server};
pub use turns::Turns;
