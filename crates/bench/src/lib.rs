//! Load on any server that speaks the MongoDB wire protocol, over raw messages: no driver is in the way.
//!
//! ```text
//!   run, server: one workload (YCSB, files)       article s0 | … | s4, raw, cachegrind: kinds × models
//!        └───────────────────┬────────────────────────────────────┘
//!   Traffic: what is sent,   ▼   how replies are judged
//!   generator: threads and processes, an epoll each, N connections ──▶ server under test (or a child)
//!        ▼
//!   HDR histograms, series, errors by kind and code ──▶ result: table, JSON, CSV, page, comparison
//! ```
//!
//! # Vocabulary
//! A *workload* is a mix of operations on documents of its own; a *repetition* is one measurement of it. An
//! *experiment* is a table of *kinds* of measurements; a *round* measures every cell of it once. A *group* is
//! a number of connections that send the same at the same pace. An *echo* is a bare server that answers each
//! request with a reply of the size the server under test gives: the ceiling on this machine.
//!
//! # Invariants
//! - Every reply is looked at: one that is not `ok: 1` counts as an error, with its code.
//! - A figure is a median over rounds; a ratio is the median of the ratios within each round.
//! - Child processes end with the measurement, also when it is interrupted.
//!
//! # Not here
//! Logins by anything but SCRAM, and the system's authorities for TLS.

mod affinity;
mod arguments;
mod chart;
mod command;
mod command_client;
mod echo;
mod error;
mod experiment;
mod generator;
mod interrupt;
mod message;
mod process;
mod result;
mod rig;
mod run;
mod security;
mod server_process;
mod servers;
mod spinners;
mod target;
mod threads;
mod workload;

pub use command::{BenchCommand, complaint, run};
pub use command_client::CommandClient;
pub use error::BenchError;
pub use run::NamedServer;
