//! What commands share that need no store: fields, generic arguments, errors, sessions, parameters, counters, connections.
//!
//! # Vocabulary
//! A *command* is a document whose first field names it. *Generic arguments* are the fields every command has. An *operation* is a
//! command that runs now; a connection has one at a time, so that the connections are the registry of operations.
//!
//! # Invariants
//! - No field of a command is ignored silently: what nobody took is an unknown field (40415).
//! - Whatever a layer below refuses reaches the client as one [`CommandError`], by the code that it stands for.
//! - No lock is held across an await.
//!
//! # Not here
//! No collection, no document and no store: a server may have none. No sockets, no signal handling and no log writing: the traits of
//! [`host`] are the way out.

pub mod connection;
pub mod counters;
pub mod error;
pub mod fields;
mod figure;
pub mod generic;
pub mod host;
pub mod interrupt;
pub mod parameters;
pub mod request;
pub mod sessions;
pub mod stages;
mod time_text;
pub mod timers;

pub use figure::narrow;
pub use time_text::{calendar_text, utc_text};
