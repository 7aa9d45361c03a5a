//! Plan choice: which index, which part of it, which way, and what is left to check.
//!
//! ```text
//!  Matcher ──▶ conjuncts ──▶ for each index: bounds per field ──▶ rank ──▶ Plan
//!                              │                                            │
//!                    intervals of values                    KeyScan: key bytes, BoundsChecker
//!                    (union, intersection, complement)      explain: MongoDB's stages
//! ```
//!
//! # Rules of choice
//! There are no statistics; the first difference in this list decides:
//! 1. `{_id: value}` alone is a look-up; a unique index with one value for every field comes next.
//! 2. Longest prefix of fields bounded to single values (`$in` included).
//! 3. The field after that prefix: a range before a whole type class or a complement, and those before
//!    nothing.
//! 4. The index gives the order asked for.
//! 5. The keys hold all that is needed (covered), or the collection itself is in this order.
//! 6. Most conditions settled by the bounds alone; fewest fields; first name in the alphabet.
//!
//! An index that neither narrows the choice nor gives the order is used only when the client hints at it, or
//! when it leaves out (sparse, partial) documents that cannot match. A disjunction is a union of index scans
//! when every branch has an index and no index has single values for the rest of the filter.
//!
//! # Arrays
//! An index field is *multikey* when some document has an array on its path. Then two conditions may be
//! satisfied by two elements, so that: bounds of different conditions on one such field are never
//! intersected; fields that share an array are bounded together only by one `$elemMatch`; a complement is a
//! superset only.
//!
//! Index fields whose path has a number are not bounded: a number is a position and a name at once.
//!
//! Source: MongoDB manual, "Multikey Index Bounds", "Sort with Indexes", "Sparse Indexes", "Partial Indexes".

mod access;
mod bounds_text;
mod candidate;
mod choose;
mod conjuncts;
mod explain;
mod index;
mod interval;
mod key_scan;
mod node_bounds;
mod predicate_bounds;
mod request;
mod usable;

#[cfg(test)]
mod tests;

pub use access::{Access, IndexBounds, IndexScan, Plan, ScanDirection};
pub use choose::{plan, plan_distinct};
pub use explain::{ExplainOptions, ProjectionKind, explain};
pub use index::{FieldOrder, IndexDescription, IndexKeyPart};
pub use interval::{Cut, Interval, Intervals};
pub use key_scan::{BoundsChecker, KeyCheck, KeyScan};
pub use node_bounds::values_of_field;
pub use request::{Hint, NeededFields, PlanRequest, SortField};
