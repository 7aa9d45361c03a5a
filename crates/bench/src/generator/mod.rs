//! The load generator: one thread, one epoll, any number of connections in groups.
//!
//! ```text
//!   GroupSpec ──connect──▶ Generator ──run(Window)──▶ one Outcome per group
//!   (what to send,             │  epoll: a reply ─▶ check ─▶ histogram ─▶ next request (closed loop)
//!    how many, the pace)       │  timer: an intended start has come ─▶ idle connection sends (open loop)
//! ```
//!
//! # Invariants
//! - Every reply is looked at: one that is not `ok: 1`, has write errors or is too short counts as an error, with its code.
//! - A latency in a closed loop runs from before the request's `write`; in an open loop from its *intended* start, so that a
//!   server that pauses shows the pause in every request that should have been sent meanwhile.
//! - A request sent within the window is waited for and recorded, however long after the window it is answered; the rate
//!   counts only the replies within the window.

mod connection;
mod engine;
mod group;
mod outcome;
mod random;
mod reply;
mod schedule;
mod timer;

pub(crate) use engine::Generator;
pub(crate) use group::{GroupSpec, Pacing, Request, Window};
pub(crate) use outcome::{Outcome, RunOutcome};
