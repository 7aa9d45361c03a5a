//! Load on any server that speaks the MongoDB wire protocol, over raw messages: no driver is in the way.
//!
//! ```text
//!   scenario ──template──▶ client: one thread, one epoll, N connections, closed loop ──▶ server under test
//!      │                      │  (patches ids into prepared bytes, checks each reply)      (a child process)
//!      ▼                      ▼
//!   echo of the same sizes   HDR histogram, rate, errors ──▶ table of medians and ratios to the echo
//! ```
//!
//! # Vocabulary
//! A *scenario* is one kind of request; a *round* runs every scenario once, each beside its own echo; a *template* is an encoded
//! message with places to patch. The *echo* is a bare thread-per-connection server that answers each request with a
//! reply of the size the server under test gives: the ceiling of that thread model on this machine.
//!
//! # Invariants
//! - Every reply is looked at: one that is not `ok: 1` counts as an error, with its code.
//! - A figure is a median over rounds; a ratio is the median of the ratios within each round.
//!
//! # Not here
//! Open-loop schedules, workload files and charts.

mod client;
mod command_client;
mod echo;
mod error;
mod report;
mod run;
mod scenario;
mod target;
mod template;

pub use command_client::CommandClient;
pub use echo::{EchoArguments, serve_echo};
pub use error::BenchError;
pub use run::{RawArguments, run_raw};
pub use scenario::Scenario;
