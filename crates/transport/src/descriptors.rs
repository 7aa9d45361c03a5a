//! The process's limit on open files, which bounds the number of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most connections that are ever derived from a descriptor limit: `maxConns` of MongoDB.
const MOST_CONNECTIONS: u64 = 1_000_000;

/// Raises the soft limit on open files to the hard one; answers with the limit that then holds.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(target: "network", %error, "cannot raise the soft limit on open files");
        }
    }
    descriptor_limit()
}

/// The soft limit on open files.
pub(crate) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(MOST_CONNECTIONS * 5 / 4)
}

/// Connections that a descriptor limit leaves room for: four fifths, the rest is for files.
#[must_use]
pub fn default_max_connections(descriptor_limit: u64) -> usize {
    let connections = (descriptor_limit / 5).saturating_mul(4).clamp(1, MOST_CONNECTIONS);
    usize::try_from(connections).unwrap_or(usize::MAX)
}
