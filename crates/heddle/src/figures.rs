//! The transport's figures under MongoDB's names, for `serverStatus`.

use commands::host::TransportFigures;
use document::{Document, doc};
use std::sync::{Arc, OnceLock};

/// The transport's figures; empty until it listens.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    transport: Arc<OnceLock<Arc<transport::Server>>>,
}

impl Figures {
    /// The transport listens now.
    pub(crate) fn set(&self, server: Arc<transport::Server>) {
        let _ = self.transport.set(server);
    }

    fn statistics(&self) -> transport::TransportStatistics {
        self.transport.get().map(|server| server.statistics()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Figures")
    }
}

impl TransportFigures for Figures {
    fn connections(&self) -> Document {
        let figures = self.statistics().connections;
        doc! {
            "current": (figures.current as i32), "available": (figures.available as i32),
            "totalCreated": (figures.total_created as i64), "rejected": (figures.rejected as i64),
            "active": (figures.active as i32), "threaded": (figures.current as i32), "panicked": (figures.panicked as i64),
        }
    }

    fn network(&self) -> Document {
        let statistics = self.statistics();
        let network = statistics.network;
        let mut compression = Document::new();
        for figures in &statistics.compression {
            let pair = |(bytes_in, bytes_out): (u64, u64)| doc! { "bytesIn": (bytes_in as i64), "bytesOut": (bytes_out as i64) };
            compression.push(
                figures.compressor.name(),
                doc! { "compressor": (pair(figures.compressed)), "decompressor": (pair(figures.decompressed)) },
            );
        }
        let mut executors = Document::new();
        let executor = statistics.executor;
        executors.push(executor.executor, doc! { "threadsRunning": (executor.threads_running as i32) });
        doc! {
            "bytesIn": (network.bytes_in as i64), "bytesOut": (network.bytes_out as i64),
            "physicalBytesIn": (network.physical_bytes_in as i64), "physicalBytesOut": (network.physical_bytes_out as i64),
            "numRequests": (network.num_requests as i64), "compression": (compression),
            "serviceExecutors": (executors),
            "serviceExecutorTaskStats": { "executor": (executor.executor), "threadsRunning": (executor.threads_running as i32) },
        }
    }
}
