//! Laws that hold whatever bytes come, for each thing that reads what a client or another member sends.
//!
//! ```text
//!  bytes ──┬─▶ as they are ─────────────────────────────────▶ laws of bytes, members and the oplog
//!          └─▶ Source: each choice is a byte ─▶ generate/ ─▶ laws of the query language, `plans`
//! ```
//! libFuzzer hands in what reaches new code (`fuzz/`, `make fuzz`); the tests of this crate hand in the same
//! bytes each time, and what fuzzers have found worth keeping (`fuzz/corpus/`).
//!
//! # Invariants
//!
//! * A law is a function of the bytes: no clock, no randomness.
//! * A law that is broken panics. What is refused is refused with an error that has a code.
//! * Generators take names of operators from the tables of `query`: a new one is met without a change here.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "what is not as it is to be panics")]

mod generate;
mod laws;
mod source;

pub use laws::{FuzzTarget, Met, TARGETS, run};
