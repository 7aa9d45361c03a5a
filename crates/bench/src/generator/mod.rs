//! The load generator: event loops over raw messages, and any number of connections in groups.
//!
//! ```text
//!   GroupSpec ──connect──▶ Generator ──run(Window)──▶ one Outcome per group
//!   (workload, how many,       │  epoll: a reply ─▶ judged ─▶ Tally ─▶ next operation (closed loop)
//!    pacing, options)          │  timer: an intended start has come ─▶ idle connection sends (open loop)
//! ```
//!
//! A [`Fleet`] is what most callers want: a [`Crew`] of generator threads in this process, or several
//! processes with one each.
//!
//! # Invariants
//! - Every reply is looked at: one to another request, of an impossible length or in pieces that do not fit
//!   closes its connection; what a whole one means is the workload's to say.
//! - A latency in a closed loop runs from before the request's `write`; in an open loop from its *intended*
//!   start, so that a server that pauses shows the pause in every request that should have been sent
//!   meanwhile.
//! - A request sent within the window is waited for and recorded, however long after the window it is
//!   answered; the rate counts only the replies within the window.
//! - Connections are dealt out to threads and processes once, and nothing is shared between threads while
//!   they send, except for the [`Gauge`]s that they write and progress reads.

mod arrivals;
mod clock;
mod connection;
mod crew;
mod engine;
#[cfg(test)]
pub(crate) mod fake_server;
mod fleet;
mod group;
mod handshake;
mod latencies;
mod outcome;
mod progress;
mod reply;
mod secured;
mod series;
mod spec;
mod timer;
mod traffic;
mod worker;

pub(crate) use arrivals::{Arrivals, duration};
pub(crate) use crew::Load;
pub(crate) use fleet::{Fleet, WorkerCommand};
pub(crate) use latencies::Latencies;
pub(crate) use outcome::{ConnectionCounts, KindOutcome, Outcome, RunOutcome};
pub(crate) use progress::Snapshot;
pub(crate) use reply::failure;
pub(crate) use series::Second;
pub(crate) use spec::{ConnectionOptions, GroupSpec, Opening, Pacing, Phases, Window};
#[cfg(test)]
pub(crate) use traffic::FailureKind;
pub(crate) use traffic::{Errors, Failure, Share, Ticket, Verdict, add_errors, counted};
pub(crate) use worker::serve_worker;
