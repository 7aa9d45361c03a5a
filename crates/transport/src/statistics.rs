//! What the transport counts, under MongoDB's names.
//!
//! Hot counters live in the session that they describe: its loop is their only writer, so that counting needs
//! neither locked instructions nor shared cache lines. Readers add them up.

use crate::TlsStatistics;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::Compressor;

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct OwnCounter(AtomicU64);

impl OwnCounter {
    #[inline]
    pub(crate) fn add(&self, amount: usize) {
        let amount = amount as u64;
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One session's counters.
#[derive(Debug, Default)]
pub(crate) struct SessionCounters {
    pub(crate) logical_in: OwnCounter,
    pub(crate) logical_out: OwnCounter,
    pub(crate) physical_in: OwnCounter,
    pub(crate) physical_out: OwnCounter,
    pub(crate) requests: OwnCounter,
}

/// Bytes through one compressor.
#[derive(Debug, Default)]
pub(crate) struct CompressorCounters {
    pub(crate) compressor_in: AtomicU64,
    pub(crate) compressor_out: AtomicU64,
    pub(crate) decompressor_in: AtomicU64,
    pub(crate) decompressor_out: AtomicU64,
}

/// `serverStatus().connections`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStatistics {
    /// Open connections.
    pub current: u64,
    /// How many more are accepted.
    pub available: u64,
    /// All that were ever accepted.
    pub total_created: u64,
    /// All that were refused because of the limit.
    pub rejected: u64,
    /// Connections with a request in work at the moment.
    pub active: u64,
    /// Connections that ended because the service panicked.
    pub panicked: u64,
    /// All that were accepted and closed because the system gave no thread or no descriptor to serve them.
    pub unserved: u64,
    /// All that ended otherwise than in order: reset, malformed, timed out.
    pub broken: u64,
    /// Those among the broken whose client did not read its reply in time.
    pub send_timed_out: u64,
    /// Open connections on the diagnostic lane.
    pub on_lane: u64,
}

/// `serverStatus().network`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkStatistics {
    /// Bytes of requests, uncompressed.
    pub bytes_in: u64,
    /// Bytes of replies, uncompressed.
    pub bytes_out: u64,
    /// Bytes received on sockets.
    pub physical_bytes_in: u64,
    /// Bytes sent on sockets.
    pub physical_bytes_out: u64,
    /// Requests.
    pub num_requests: u64,
}

impl NetworkStatistics {
    pub(crate) fn add(&mut self, counters: &SessionCounters) {
        self.bytes_in += counters.logical_in.get();
        self.bytes_out += counters.logical_out.get();
        self.physical_bytes_in += counters.physical_in.get();
        self.physical_bytes_out += counters.physical_out.get();
        self.num_requests += counters.requests.get();
    }
}

/// One value in a tree of statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// A number; its unit is the last part of its name.
    Count(u64),
    /// A state or a name.
    Text(&'static str),
    /// Named values.
    Group(Vec<(&'static str, Figure)>),
}

/// `serverStatus().network.serviceExecutors.<executor>`, and `serviceExecutorTaskStats` for the model of the
/// first listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutorStatistics {
    /// The thread model: `passthrough` is one thread per connection.
    pub executor: &'static str,
    /// What the model counts, under MongoDB's names where it has one.
    pub figures: Vec<(&'static str, Figure)>,
}

impl ExecutorStatistics {
    /// A number at the top of the tree.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.figures.iter().find_map(|(known, figure)| match figure {
            Figure::Count(count) if *known == name => Some(*count),
            _ => None,
        })
    }
}

/// `serverStatus().network.compression.<name>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionStatistics {
    /// The compressor.
    pub compressor: Compressor,
    /// Bytes given to the compressor and received from it.
    pub compressed: (u64, u64),
    /// Bytes given to the decompressor and received from it.
    pub decompressed: (u64, u64),
}

/// What connections hold in memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportMemory {
    /// Open connections.
    pub connections: usize,
    /// Bytes of large requests.
    pub requests: u64,
    /// Bytes of replies that their clients have not taken.
    pub replies: u64,
    /// Requests that waited because memory was short, since the start.
    pub paced: u64,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportStatistics {
    /// `connections`.
    pub connections: ConnectionStatistics,
    /// `network`.
    pub network: NetworkStatistics,
    /// `network.serviceExecutors`: one entry for each model that was started; the first listener's comes
    /// first (`network.serviceExecutorTaskStats`).
    pub executors: Vec<ExecutorStatistics>,
    /// The diagnostic lane.
    pub lane: Vec<(&'static str, Figure)>,
    /// Admission under overload.
    pub admission: Vec<(&'static str, Figure)>,
    /// Histograms of the parts of a request's time.
    pub times: Vec<(&'static str, Figure)>,
    /// Replies that wait for their clients at the moment.
    pub stalled_sends: u64,
    /// Replies in memory that their clients have not taken.
    pub unread_replies: Vec<(&'static str, Figure)>,
    /// Large requests in memory.
    pub large_requests: Vec<(&'static str, Figure)>,
    /// `network.compression`, one entry for each compressor allowed.
    pub compression: Vec<CompressionStatistics>,
    /// Handshakes of TLS.
    pub tls: TlsStatistics,
}

/// Threads of one model that statistics tell apart.
const NAMED_THREADS: usize = 1024;

/// `loop0`, `loop1`, …: one name for each thread that a model may have. Made once and kept: figures are named
/// for good.
pub(crate) fn thread_names(of: &str) -> Vec<String> {
    (0..NAMED_THREADS).map(|number| format!("{of}{number}")).collect()
}
