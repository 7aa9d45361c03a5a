//! The primitives of the concurrency core (`pipeline/group.rs`, `pipeline/journal.rs`, `gate/queue.rs`,
//! `latch/`).
//!
//! Those files name nothing but `crate::sync`, so that `tests/model.rs` can compile the very same files
//! against a model checker's primitives.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A mutex without poisoning: a panic inside is answered by the code that leads, not by every later caller.
pub(crate) use parking_lot::{Mutex, MutexGuard};
