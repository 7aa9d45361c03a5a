//! How connections end and why servers do not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;
use wire::WireError;

/// The orderly ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClosedBy {
    /// The client closed its side between two requests.
    Client,
    /// The server ended the session: shutdown, or [`crate::Session::end`].
    Server,
    /// The service asked for it after a reply.
    Service,
}

/// The other ends of a connection.
#[derive(Debug, Error)]
pub(crate) enum ConnectionError {
    /// Reading failed, e.g. the client reset the connection.
    #[error("receiving failed: {0}")]
    Receive(#[source] io::Error),
    /// The client closed its side in the middle of a message.
    #[error("the client closed the connection after {received} bytes of an unfinished message")]
    Unfinished {
        /// Bytes of that message that came.
        received: usize,
    },
    /// Writing failed.
    #[error("sending failed: {0}")]
    Send(#[source] io::Error),
    /// The client did not take its reply in time.
    #[error("the client did not take its reply within the send time-out")]
    SendTimedOut,
    /// The bytes are no messages.
    #[error("malformed message: {0}")]
    Malformed(#[from] WireError),
    /// The client speaks HTTP.
    #[error("the client speaks HTTP")]
    Http,
    /// The service panicked; the text is the panic's message.
    #[error("the service panicked: {0}")]
    Panicked(String),
}

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another process listens there.
    #[error("address already in use: {address}; stop the other server or choose another port with --port")]
    PortInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on: privileged port, or no such interface.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel says.
        error: io::Error,
    },
    /// A host name in `bind_ip` has no address.
    #[error("cannot resolve '{host}' of net.bindIp: {error}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver says.
        error: io::Error,
    },
    /// A living process listens on the Unix socket.
    #[error("unix socket already in use: {}; stop the other server or choose another port or \
        --unixSocketPrefix", path.display())]
    UnixSocketInUse {
        /// The socket's path.
        path: PathBuf,
    },
    /// The Unix socket cannot be made.
    #[error("cannot listen on unix socket {}: {error}", path.display())]
    UnixSocket {
        /// The socket's path.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// A thread model cannot be started.
    #[error("cannot start the service executor '{name}': {error}")]
    Executor {
        /// Its name in configuration.
        name: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a listener thread: {0}")]
    Thread(#[source] io::Error),
}
