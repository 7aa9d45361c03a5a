//! What a group of connections is told to do, and for how long.

use crate::generator::arrivals::Arrivals;
use crate::security::SecurityOptions;
use crate::workload::WorkloadSource;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;
use wire::Compressor;

/// When a connection sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Pacing {
    /// The next operation when the last one is over.
    Closed,
    /// One operation, then silence on an open connection.
    Once,
    /// Operations of the whole group at intended times, on whichever connections are idle. A latency counts
    /// from the intended time.
    Open(Arrivals),
}

/// When connections are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Opening {
    /// Before the run, as fast as the server takes them; a run begins when all are open or refused.
    #[default]
    Before,
    /// All at once when the run begins: a connection storm.
    AtOnce,
    /// So many a second from the run's beginning.
    PerSecond(f64),
}

/// Load that comes and goes, counted from the run's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Phases {
    /// A closed loop sends this long …
    pub(crate) on: Duration,
    /// … and then not for this long, and so on.
    pub(crate) off: Duration,
}

/// How a group's connections behave, whatever they send.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConnectionOptions {
    /// The servers' addresses, dealt out in turn; none: the run's one address.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) opening: Opening,
    /// Operations after which a connection is closed and a new one made, as clients without a pool do; none:
    /// never. The first operation's latency includes making the connection.
    pub(crate) operations_per_connection: Option<u32>,
    /// How long a connection of a closed loop rests between two operations.
    pub(crate) think: Duration,
    pub(crate) phases: Option<Phases>,
    /// Whether a lost or refused connection is made again, after a pause that doubles with each failure.
    pub(crate) reconnect: bool,
    /// An operation without a reply for this long fails and its connection with it; none: it is waited for.
    pub(crate) timeout: Option<Duration>,
    /// Whether a connection begins with `hello`. Compressors need it.
    pub(crate) handshake: bool,
    /// Names of the compressors that `hello` offers, in order of preference.
    pub(crate) compressors: Vec<String>,
    /// Whether TLS is spoken, and who logs in.
    pub(crate) security: SecurityOptions,
}

impl ConnectionOptions {
    /// Compressors that this program has; others are not offered.
    pub(crate) fn known_compressors(&self) -> Vec<Compressor> {
        let known = |name: &String| {
            Compressor::from_name(name).filter(|known| Compressor::NEGOTIABLE.contains(known))
        };
        self.compressors.iter().filter_map(known).collect()
    }

    pub(crate) fn greets(&self) -> bool {
        self.handshake || !self.compressors.is_empty() || self.security.login.is_some()
    }
}

/// A group of connections that do the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupSpec {
    pub(crate) connections: usize,
    pub(crate) traffic: WorkloadSource,
    pub(crate) pacing: Pacing,
    pub(crate) options: ConnectionOptions,
}

impl GroupSpec {
    pub(crate) fn new(connections: usize, traffic: WorkloadSource, pacing: Pacing) -> Self {
        GroupSpec { connections, traffic, pacing, options: ConnectionOptions::default() }
    }
}

/// How long a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Window {
    /// Load before measuring begins.
    pub(crate) warm_up: Duration,
    pub(crate) duration: Duration,
    /// Ends the run after this many operations in all, even if the duration has not passed.
    pub(crate) operations: Option<u64>,
}

impl Window {
    pub(crate) const fn lasting(warm_up: Duration, duration: Duration) -> Self {
        Window { warm_up, duration, operations: None }
    }

    /// The part of one of several threads: its share of the operations.
    pub(crate) fn share(&self, share: crate::generator::Share) -> Self {
        Window { operations: self.operations.map(|all| share.part_of(all)), ..*self }
    }
}

/// The window in nanoseconds of the generator's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) measuring_from: u64,
    pub(crate) sending_until: u64,
}
