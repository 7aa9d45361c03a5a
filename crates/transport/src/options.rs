//! What can be chosen when a server starts.

use crate::descriptors::{default_max_connections, descriptor_limit};
use std::path::PathBuf;
use std::time::Duration;
use wire::{Compressor, MAX_MESSAGE_SIZE};

/// The thread model of a listener: `net.serviceExecutor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceExecutor {
    /// One thread per connection, blocking I/O (article S0).
    #[default]
    Synchronous,
}

impl ServiceExecutor {
    /// The name that statistics show, as MongoDB calls it.
    #[must_use]
    pub const fn statistics_name(self) -> &'static str {
        match self {
            Self::Synchronous => "passthrough",
        }
    }
}

/// Options of [`crate::Server::start`].
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Addresses and host names to listen on; entries beginning with `/` are Unix socket paths. `*` means all IPv4 interfaces,
    /// and `::` all of both kinds. `net.bindIp`.
    pub bind_addresses: Vec<String>,
    /// The TCP port; 0 lets the kernel choose. `net.port`.
    pub port: u16,
    /// The directory of the Unix socket `mongodb-<port>.sock`; `None`: no Unix socket. `net.unixDomainSocket.pathPrefix`.
    pub unix_socket_prefix: Option<PathBuf>,
    /// Permissions of the Unix sockets. `net.unixDomainSocket.filePermissions`.
    pub unix_socket_permissions: u32,
    /// The most connections at one time; more are refused. `net.maxIncomingConnections`. Default: 80 % of the descriptors.
    pub max_connections: usize,
    /// The longest message in bytes.
    pub max_message_size: usize,
    /// Compressors that requests may use. `net.compression.compressors`.
    pub compressors: Vec<Compressor>,
    /// Connections the kernel holds for us before they are accepted. `net.listenBacklog`.
    pub listen_backlog: i32,
    /// How long one piece of a reply may wait for a client that does not read; zero waits for ever.
    pub send_timeout: Duration,
    /// Idle time before the kernel asks whether a silent client lives.
    pub keepalive_idle: Duration,
    /// Stack of a connection's thread in bytes; memory is used only as deep as calls go.
    pub thread_stack_bytes: usize,
    /// `synchronous`: a connection's thread gives way after this many requests; 0: never.
    pub yield_after_requests: u32,
    /// The thread model.
    pub executor: ServiceExecutor,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            bind_addresses: vec!["127.0.0.1".to_owned()],
            port: 27017,
            unix_socket_prefix: Some(PathBuf::from("/tmp")),
            unix_socket_permissions: 0o700,
            max_connections: default_max_connections(descriptor_limit()),
            max_message_size: MAX_MESSAGE_SIZE,
            compressors: Compressor::NEGOTIABLE.to_vec(),
            listen_backlog: 4096,
            send_timeout: Duration::from_secs(60),
            keepalive_idle: Duration::from_secs(120),
            thread_stack_bytes: 2 * 1024 * 1024,
            yield_after_requests: 16,
            executor: ServiceExecutor::Synchronous,
        }
    }
}
