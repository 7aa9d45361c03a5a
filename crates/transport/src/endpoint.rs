//! The two ends of a connection as text.

use socket2::SockAddr;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The address of one end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An internet address.
    Tcp(SocketAddr),
    /// A Unix socket; clients' ends have no path.
    Unix(Option<PathBuf>),
    /// No network at all, e.g. a simulated stream.
    Detached,
}

impl Endpoint {
    pub(crate) fn from_socket(address: &SockAddr) -> Self {
        match address.as_socket() {
            Some(address) => Self::Tcp(address),
            None => Self::Unix(address.as_pathname().map(PathBuf::from)),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(Some(path)) => path.display().fmt(formatter),
            Self::Unix(None) => formatter.write_str("anonymous unix socket"),
            Self::Detached => formatter.write_str("detached"),
        }
    }
}
