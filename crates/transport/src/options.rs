//! What can be chosen when a server starts.

use crate::descriptors::{default_max_connections, descriptor_limit};
use crate::pool::STACK_BYTES;
use crate::{AdaptiveOptions, OverloadTarget, PoolOptions, Tls};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::{Compressor, MAX_MESSAGE_SIZE};

/// The thread model of a listener: `net.serviceExecutor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ServiceExecutor {
    /// One thread per connection, blocking I/O (article S0).
    #[default]
    Synchronous = 0,
    /// Elastic workers over locked task queues (article S0).
    Adaptive = 1,
    /// One event loop per core and an elastic pool (article S1).
    Reactor = 2,
    /// One task per connection on one ring per core (article S3).
    Coroutine = 3,
}

impl ServiceExecutor {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Synchronous, Self::Adaptive, Self::Reactor, Self::Coroutine];

    /// The name in configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Synchronous => "synchronous",
            Self::Adaptive => "adaptive",
            Self::Reactor => "reactor",
            Self::Coroutine => "coroutine",
        }
    }

    /// The model with this name in configuration. `auto` is `coroutine`: at no load was another one clearly
    /// ahead, and where the kernel gives no rings it runs on the loops of `reactor` by itself.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "auto" { Self::Coroutine.name() } else { name };
        Self::ALL.into_iter().find(|model| model.name() == name)
    }

    /// The model with this number; the default one when there is none.
    pub(crate) fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// The name that statistics show, as MongoDB calls it where it has one.
    #[must_use]
    pub const fn statistics_name(self) -> &'static str {
        match self {
            Self::Synchronous => "passthrough",
            other => other.name(),
        }
    }
}

/// Options of [`crate::Server::start`].
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Addresses and host names to listen on; entries beginning with `/` are Unix socket paths. `*` means all
    /// IPv4 interfaces, and `::` all of both kinds. `net.bindIp`.
    pub bind_addresses: Vec<String>,
    /// The TCP port; 0 lets the kernel choose. `net.port`.
    pub port: u16,
    /// The directory of the Unix socket `mongodb-<port>.sock`; `None`: no Unix socket.
    /// `net.unixDomainSocket.pathPrefix`.
    pub unix_socket_prefix: Option<PathBuf>,
    /// Permissions of the Unix sockets. `net.unixDomainSocket.filePermissions`.
    pub unix_socket_permissions: u32,
    /// The most connections at one time; more are refused. `net.maxIncomingConnections`. Default: 80 % of the
    /// descriptors.
    pub max_connections: usize,
    /// The same for single listeners, by their entry in `bind_addresses` (or the Unix socket's path).
    /// `net.listenerMaxIncomingConnections`.
    pub listener_max_connections: Vec<(String, usize)>,
    /// The longest message in bytes.
    pub max_message_size: usize,
    /// Compressors that requests may use. `net.compression.compressors`.
    pub compressors: Vec<Compressor>,
    /// Connections the kernel holds for us before they are accepted. `net.listenBacklog`.
    pub listen_backlog: i32,
    /// How long one piece of a reply may wait for a client that does not read; zero waits for ever.
    pub send_timeout: Duration,
    /// How long a client may take for the handshake of TLS; zero: for ever.
    pub handshake_timeout: Duration,
    /// Bytes of replies that clients have not taken, over all connections: beyond it requests wait and the
    /// slowest readers are ended; zero: no bound. Default 1 GiB.
    pub unread_replies_max: u64,
    /// Bytes of large requests that are in memory at a time, over all connections; one is always admitted.
    /// Zero: no bound. Default 1 GiB.
    pub large_requests_max: u64,
    /// Idle time before the kernel asks whether a silent client lives.
    pub keepalive_idle: Duration,
    /// Stack of a connection's thread in bytes; memory is used only as deep as calls go.
    pub thread_stack_bytes: usize,
    /// `synchronous`: a connection's thread gives way after this many requests; 0: never.
    pub yield_after_requests: u32,
    /// The thread model.
    pub executor: ServiceExecutor,
    /// Thread models of single listeners, by their entry in `bind_addresses` (or the Unix socket's path).
    pub listener_executors: Vec<(String, ServiceExecutor)>,
    /// Threads that can run at the same time: what a model starts for each of its cores. Default: what the
    /// process may use.
    pub processors: usize,
    /// Event loops of `reactor`, rings of `coroutine`; 0: as many as cores.
    pub event_loops: usize,
    /// Whether `coroutine` may use io_uring where the kernel has it; otherwise it runs on epoll.
    pub io_uring: bool,
    /// Workers, controller and queues of `adaptive`.
    pub adaptive: AdaptiveOptions,
    /// The queueing delay beyond which requests are refused.
    pub overload: OverloadTarget,
    /// The elastic pool for what event loops must not do.
    pub pool: PoolOptions,
    /// The diagnostic lane's own pool.
    pub lane_pool: PoolOptions,
    /// Whether connections begin on the diagnostic lane and stay there while they only monitor.
    pub priority_lane: bool,
    /// A further port whose connections stay on the diagnostic lane whatever they ask; `None`: no such port.
    /// 0 lets the kernel choose. `net.priorityPort`.
    pub priority_port: Option<u16>,
    /// How TLS is spoken; `None`: not at all. `net.tls`.
    pub tls: Option<Arc<Tls>>,
}

impl ServerOptions {
    /// How many event loops there shall be.
    pub(crate) fn event_loops(&self) -> usize {
        match self.event_loops {
            0 => self.processors.max(1),
            threads => threads,
        }
    }
}

/// Processors that the process may use, as far as the standard library knows.
pub(crate) fn usable_processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            bind_addresses: vec!["127.0.0.1".to_owned()],
            port: 27017,
            unix_socket_prefix: Some(PathBuf::from("/tmp")),
            unix_socket_permissions: 0o700,
            max_connections: default_max_connections(descriptor_limit()),
            listener_max_connections: Vec::new(),
            max_message_size: MAX_MESSAGE_SIZE,
            compressors: Compressor::NEGOTIABLE.to_vec(),
            listen_backlog: 4096,
            send_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(30),
            unread_replies_max: 1 << 30,
            large_requests_max: 1 << 30,
            keepalive_idle: Duration::from_secs(120),
            thread_stack_bytes: STACK_BYTES,
            yield_after_requests: 16,
            executor: ServiceExecutor::Synchronous,
            listener_executors: Vec::new(),
            processors: usable_processors(),
            event_loops: 0,
            io_uring: true,
            adaptive: AdaptiveOptions::default(),
            overload: OverloadTarget::default(),
            pool: PoolOptions::default(),
            lane_pool: PoolOptions { min_threads: 0, max_threads: 4, idle: Duration::from_secs(10) },
            priority_lane: true,
            priority_port: None,
            tls: None,
        }
    }
}
