//! Filters, updates, projections, expressions, aggregation stages, plan choice and the windows of background
//! work; pure, no I/O.
//!
//! # Vocabulary
//!
//! * *filter*: the document a client sends to say which documents it wants; parsed once into a
//!   [`matcher::Matcher`].
//! * *matcher*: the compiled filter; answers yes or no for one raw document.
//! * *residual filter*: what is left to check on a document after an index has narrowed the choice.
//! * *interval*: a range of values of one field; *bounds*: a list of intervals for each field of an
//!   index.
//! * *access*: the way a plan reaches its documents: a clustered scan, an `_id` lookup, an index scan,
//!   a union of such.
//! * *environment*: what one command fixes for all its operators: the clock and the `let` variables.
//! * *calendar*: the windows in which work in the background may be done ([`calendar::WorkCalendar`]).
//!
//! ```text
//!  filter ──▶ matcher ──┬──────────────▶ matches(document)          (every read and write)
//!                       ▼
//!  sort, hint ──────▶ plan ──▶ access + bounds + residual ──▶ explain
//!                       ▲
//!  indexes ─────────────┘
//!
//!  update spec ──▶ update ──▶ new document bytes     pipeline ──▶ aggregate ──▶ documents
//!  projection  ──▶ projection ──▶ reply document        each stage uses expression, matcher, sort
//! ```
//!
//! # Invariants
//!
//! * No I/O, no clock, no randomness that the caller did not hand in, no async: everything here is a function
//!   of its arguments.
//! * The hot path (matching, projecting, updating one document) works on raw BSON and builds no
//!   document tree.
//! * An index plan plus its residual filter gives exactly the documents a collection scan gives.
//! * Each operator family has one table; an operator that is not in it is answered with MongoDB's code
//!   and message.
//!
//! # Not here
//!
//! Where documents and index entries live (`catalog`), how commands are parsed (`commands`), reading of
//! foreign collections (`$lookup` asks through a trait that `commands` implements).

#[macro_use]
pub mod error;

pub mod aggregate;
pub mod calendar;
pub mod checkpoint;
pub mod environment;
pub mod expression;
mod integer;
pub mod matcher;
pub mod memory;
pub mod plan;
pub mod projection;
mod regex;
pub mod schema;
pub mod sort;
pub mod update;

pub use environment::Environment;
pub use error::{CodedError, QueryError};
