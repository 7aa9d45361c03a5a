//! The primitives of the concurrency core (`run_queue.rs`, `pool/queue.rs`, `adaptive/`).
//!
//! Those files name nothing but `crate::sync`, so that models can compile the very same files against a model
//! checker's primitives.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::thread_local;
