//! Load on any server that speaks the MongoDB wire protocol, over raw messages: no driver is in the way.
//!
//! ```text
//!   run, server: workloads (YCSB, files)   raw: scenarios beside an echo   article s0 | s1 | s3: thread models in turns
//!        └───────────────────┬───────────────────┴───────────────────────────────┘
//!   Traffic: what is sent,   ▼   how replies are judged
//!   generator: threads and processes, an epoll each, N connections ──▶ server under test (its address, or a child process)
//!        ▼
//!   HDR histograms, series, errors by kind and code ──▶ result: table, JSON, CSV, page, comparison with intervals
//! ```
//!
//! # Vocabulary
//! A *scenario* is one kind of request; a *group* is a number of connections that send the same at the same pace; a *round*
//! measures every cell of a table once; a *template* is an encoded message with places to patch. An *echo* is a bare server
//! that answers each request with a reply of the size the server under test gives: the ceiling on this machine. A *workload* is a mix
//! of operations on documents of its own; a *repetition* is one measurement of it.
//!
//! # Invariants
//! - Every reply is looked at: one that is not `ok: 1` counts as an error, with its code.
//! - A figure is a median over rounds; a ratio is the median of the ratios within each round.
//! - Child processes end with the measurement, also when it is interrupted.
//!
//! # Not here
//! Authentication and TLS.

mod affinity;
mod article;
mod cachegrind;
mod chart;
mod command;
mod command_client;
mod dataset;
mod echo;
mod error;
mod generator;
mod interrupt;
mod limits;
mod process;
mod raw;
mod report;
mod result;
mod rig;
mod run;
mod scenario;
mod server_process;
mod servers;
mod spinners;
mod template;
mod workload;

pub use command::{BenchCommand, run};
pub use command_client::CommandClient;
pub use error::BenchError;
