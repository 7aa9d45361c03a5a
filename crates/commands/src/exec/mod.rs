//! The executor: runs a plan over the cursors of the catalog, in slices of time, and can be put aside between
//! batches.
//!
//! ```text
//!  Query {matcher, sort, needs, hint, skip, limit} ─▶ query::plan ─▶ Scan, Scan, … (union)
//!                                                                     │ documents, entries
//!                                            already seen? filter? ◀──┘
//!                                                     │
//!                               Sorter (only when no index gives the order)
//!                                                     │
//!                                 skip, limit ─▶ sink(Located) ─▶ Verdict: Take, Ignore, TakeAndStop, Refuse
//! ```
//!
//! # How to use it
//! Commands give [`run_all`] a sink, which is shown every document; others are let in between slices.
//! [`fill_batch`] does so for a cursor, whether a query or a pipeline is behind it:
//! ```ignore
//! let mut executor = Executor::open(context.source, &collection, Query { matcher, ..Query::default() })?;
//! exec::run_all(&mut executor, context.scheduling(), |located| { count += 1; Ok(Verdict::Take) }).await?;
//! ```
//! Write commands gather candidates with what the walk saw of them, and change these together; under their
//! latches `Collection::update_many` shows the latest versions, where those that were written since are
//! looked at once more:
//! ```ignore
//! let mut walk = Candidates::open(context, &collection, &filter)?;
//! loop {
//!     let gathered = walk.gather(&mut candidates, wanted)?;
//!     collection.update_many(&writing, &candidates, 0, decide).await;
//!     candidates.clear();
//!     match gathered {
//!         Gathered::Enough => walk.refresh(),
//!         Gathered::Yield => context.scheduling().end_slice().await?,
//!         Gathered::WouldBlock => context.scheduling().leave_memory().await?,
//!         Gathered::End => break,
//!     }
//! }
//! ```
//! # Invariants
//! - Between two calls of [`Executor::save`] a walk along indexes reads one state of the store, entries and
//!   documents alike: what changes meanwhile neither leaves its place in the order nor is met twice or
//!   missed.
//! - [`Executor::save`] lets go of cursors and state; the next run seeks the remembered position on the
//!   latest state. Only a document whose place has changed in between can be met again or missed.
//! - A document that an index led to is checked against what the bounds do not prove; against the whole
//!   filter when the index has met arrays since the plan was made.
//! - In an event loop a slice reads from memory only; a walk that needs more pauses in front of it.
//! - A dropped collection or index ends the walk with `QueryPlanKilled`.

mod ahead;
#[cfg(test)]
mod ahead_tests;
mod arguments;
mod candidates;
mod drive;
mod executor;
mod explained;
mod filter;
mod memory;
#[cfg(test)]
mod oplog_tests;
mod output;
mod query;
mod scan;
mod seen;
mod slice;
mod spill;
#[cfg(test)]
mod tests;

pub(crate) use ::query::aggregate::Pause;
pub(crate) use arguments::{check_collation, environment, parse_hint, parse_sort};
pub(crate) use candidates::{Candidates, Gathered};
pub(crate) use drive::{Read, Slices, fill_batch, run_all};
pub(crate) use executor::Executor;
pub(crate) use explained::execution_stats;
pub(crate) use filter::{StatementFilter, exact_id};
pub(crate) use memory::await_memory;
pub(crate) use output::{ResultShape, ReturnKey};
pub(crate) use query::Query;
pub(crate) use scan::{LONG_DOCUMENT, Located, Verdict};
pub(crate) use slice::Slice;
pub(crate) use spill::Spill;
