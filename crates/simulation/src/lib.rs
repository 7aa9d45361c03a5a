//! A whole server in one deterministic process: catalog, pipeline and commands over a disk that fails, with
//! simulated time, seeded clients and a model of what was acknowledged. For tests; nothing of the product
//! depends on it.
//!
//! # Vocabulary
//! * *seed* – decides everything: who comes to its turn when, what is asked for, what fails, when the server
//!   dies and how.
//! * *port* – where a client's messages go in and replies come out; the place where a network will be.
//! * *kill* – the process dies: what was written stays. *Power cut* – what was not synced may be lost, from
//!   its end.
//! * *bug* – a fault that is planted into the server from outside of it and must be found.
//!
//! ```text
//!  clients ──Call──▶ Port ─▶ dispatch ─▶ … ─▶ Store ─▶ HookedEngine ─▶ SimulatedDisk
//!  (futures)  ◀── reply ──┘                              (memory)         stable image + tail of the log
//!     │                                                                            │
//!     └── Model, Shared: what may be there ◀── compared after each crash ── observer ┘
//! ```
//! # Invariants
//! * One thread; the order of polls is drawn from the seed. Two runs of a seed have the same trace.
//! * The product has no switch for any of this: it takes an engine, a disk, timers and [`ambient`] time from
//!   outside.
//!
//! # Not here
//! Sockets and threads (`transport` has its own simulated stream; loom-like tests are in `storage` and
//! `transport`), RocksDB.

mod bug;
mod client;
mod disk;
mod engine;
mod model;
mod mortal;
mod observer;
mod random;
mod server;
mod shared;
mod trace;
mod world;

pub use bug::Bug;
pub use disk::{Crash, Faults, SimulatedDisk};
pub use random::SeededRandom;
pub use server::{Port, Reply, SimulatedServer};
pub use trace::Trace;
pub use world::{Finding, run};
