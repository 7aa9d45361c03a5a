//! From a request to its reply, for any server of this protocol: the command table and what all commands
//! share. What the commands work on is a [`Node`], which may have documents or know others that have them.
//!
//! ```text
//!             CommandRequest { body, sequences }                     heddle's Service
//!                        │                                          ▲
//!                        ▼                                          │ CommandOutcome + reply bytes
//!   dispatch: find in CommandTable ─▶ generic arguments ─▶ checks ─▶ run the command
//!                                     ($db, lsid, maxTimeMS,…)      │
//!             ┌──────────────┬──────────────┬────────────┬──────────┴─┐
//!             ▼              ▼              ▼            ▼            ▼
//!          Fields         Cursors    LogicalSessions  Parameters     Node
//!      (strict typing)  (open batches)    (lsid)     (tunables)   (catalog, store; or other servers)
//! ```
//!
//! # Vocabulary
//! A *command* is a document whose first field names it. *Generic arguments* are the fields every command
//! has. An *operation* is a command that runs now; a connection has one at a time, so that the connections
//! are the registry of operations. *Receipts* are what a node knows of an operation's writes; the write
//! concern is awaited once for them, when the command is done.
//!
//! # Invariants
//! - Every request gets a reply document or an error document, even when the command panics.
//! - No field of a command is ignored silently: what nobody took is an unknown field (40415).
//! - Whatever a layer below refuses reaches the client as one [`error::CommandError`], by the code that it
//!   stands for.
//! - No lock is held across an await.
//! - A server is compiled for its node: nothing is looked up, boxed or called through a pointer because there
//!   are several kinds.
//!
//! # Not here
//! No collection, no document and no store. No sockets, no threads per connection (`transport`), no signal
//! handling and no log writing (`heddle`): the traits of [`host`] are the way out.

mod acknowledge;
pub mod audit;
pub mod authorization;
mod batch;
mod certificate_login;
pub mod client;
pub mod command;
pub mod concern;
pub mod context;
pub mod counters;
pub mod cursors;
mod dispatch;
pub mod error;
pub mod failpoints;
pub mod fields;
mod figure;
mod freshness;
pub mod generic;
pub mod host;
pub mod interrupt;
pub mod limits;
mod login;
#[cfg(test)]
mod login_tests;
mod node;
pub mod parameters;
pub mod request;
mod role;
mod server;
pub mod sessions;
pub mod spans;
#[cfg(test)]
mod testing;
mod time_text;
pub mod timers;

pub use dispatch::dispatch;
pub use figure::narrow;
pub use freshness::ReadFreshness;
pub use node::Node;
pub use role::{OnSecondary, ReplyTimes, Role};
pub use server::{CommandStatistics, ServiceContext};
pub use time_text::{calendar_text, utc_text};
