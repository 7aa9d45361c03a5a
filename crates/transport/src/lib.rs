//! Listener, sessions, the connection loop, streams and thread models; knows messages, not databases.
//!
//! ```text
//!   listener thread ──accept──▶ admit ──▶ Session + ByteStream ──▶ driver (a thread, an event loop) polls
//!                                 │ full                                        │
//!                                 ▼                                             ▼
//!                              refusal                 serve: receive ─▶ Service::call ─▶ send ─┐
//!                                                         ▲                                     │
//!                                                         └────────── next request ─────────────┘
//! ```
//!
//! # Vocabulary
//! A [`Session`] is one client connection as others see it; its [`Phase`] says what the loop does at the
//! moment. A `ByteStream` moves bytes in owned buffers. A [`Service`] turns a [`RequestMessage`] into
//! [`Replies`]. A *thread model* ([`ServiceExecutor`]) is a stream with the driver that polls it. *Exhaust*:
//! several replies to one request.
//!
//! # Invariants
//! - `serve` is the only place that drives a connection, whatever the thread model.
//! - Replies leave a connection in the order its requests came.
//! - A read is never dropped half-way: to end a session its socket's read half is shut and end-of-file ends
//!   the loop.
//! - Memory per connection: one message within the limit, its reply, and small buffers; an idle one keeps the
//!   small ones.
//! - A panic in the service ends that connection with an error reply, is counted and logged, and goes no
//!   further.
//!
//! # Not here
//! No commands, no authentication, no sessions in the database's sense: the service has those.

mod adaptive;
mod buffer;
mod busy_poll;
mod coroutine;
mod descriptors;
mod endpoint;
mod error;
mod event_loop;
mod executors;
mod idle;
mod large_requests;
mod listener;
mod live_set;
mod options;
mod overload;
mod placement;
mod pool;
mod reactor;
mod readiness;
mod refusal;
mod registry;
mod run_queue;
mod server;
mod service;
mod session;
mod session_loop;
mod statistics;
mod stream;
mod sweeper;
mod sync;
mod synchronous;
mod task;
mod thread_state;
mod timing;
mod tls;
mod unread;
mod vital;

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;

pub use adaptive::{AdaptiveOptions, AdaptiveOptionsError};
pub(crate) use buffer::ReceiveBuffer;
pub use descriptors::{default_max_connections, raise_descriptor_limit};
pub use endpoint::Endpoint;
pub use error::StartError;
pub(crate) use error::{ClosedBy, ConnectionError};
pub use options::{ServerOptions, ServiceExecutor};
pub use overload::{Overload, OverloadTarget};
pub use pool::{PoolOptions, let_others_run, yield_to_requests};
pub use server::{Server, ShutdownReport};
pub use service::{NextRequest, Replies, RequestMessage, Service};
pub(crate) use session::SessionControl;
pub use session::{Phase, Session};
pub(crate) use session_loop::{Ending, serve};
pub use statistics::{
    CompressionStatistics, ConnectionStatistics, ExecutorStatistics, Figure, NetworkStatistics,
    TransportMemory, TransportStatistics,
};
pub(crate) use stream::{BlockingStream, ByteStream};
pub use timing::RequestTimes;
#[cfg(any(test, fuzzing))]
pub use tls::law as tls_law;
pub use tls::{Tls, TlsError, TlsFacts, TlsFiles, TlsMode, TlsStatistics};
