//! Sorting: patterns, sort keys, and a sorter with bounded memory.
//!
//! ```text
//!  {a: 1, "b.c": -1} ─▶ SortPattern ── document ─▶ key bytes (memcmp order = sort order)
//!                                                     │
//!     Sorter ◀────────────────────────────────────────┘
//!       ├ with a limit: a heap of the best k; what cannot be among them is not even copied
//!       ├ without: everything, in sorted chunks that are merged as documents are wanted
//!       └ beyond the byte limit: sorted runs in a [`SpillStore`], 64 of which become one (allowDiskUse)
//! ```
//!
//! Documents whose keys are equal keep the order in which they came.
//!
//! Source: MongoDB manual, "cursor.sort()", "Sort and array fields".

mod key;
mod merge;
mod pattern;
mod run;
mod sorter;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use pattern::MAX_SORT_FIELDS;
pub use pattern::{SortPart, SortPattern};
pub use run::{RunReader, RunRecord, RunWriter, SortedRun, SpillStore};
pub use sorter::{SortLimits, Sorter};
