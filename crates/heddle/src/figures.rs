//! The transport's figures under MongoDB's names, for `serverStatus`.

use dispatch::host::TransportFigures;
use document::{Document, Value, doc};
use replication::network::MemberTls;
use std::sync::{Arc, OnceLock};
use transport::{CompressionStatistics, ExecutorStatistics, Figure};

/// The transport's figures; empty until it listens.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    transport: Arc<OnceLock<Arc<transport::Server>>>,
    member_tls: Arc<OnceLock<Option<MemberTls>>>,
}

impl Figures {
    /// The transport listens now.
    pub(crate) fn set(&self, server: Arc<transport::Server>) {
        assert!(self.transport.set(server).is_ok(), "the transport listens once");
    }

    /// How the server speaks TLS to other members.
    pub(crate) fn set_member_tls(&self, tls: Option<MemberTls>) {
        assert!(self.member_tls.set(tls).is_ok(), "a server is a member once");
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
        let narrow = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
        doc! {
            "current": (figures.current as i32), "available": (figures.available as i32),
            "totalCreated": (narrow(figures.total_created)), "rejected": (narrow(figures.rejected)),
            "active": (figures.active as i32), "threaded": (figures.current as i32),
            "adminConnections": { "current": (figures.on_lane as i32) },
            "totalClosed": (figures.total_created.saturating_sub(figures.current) as i64),
            "closedBecause": {
                "broken": (figures.broken as i64), "panicked": (figures.panicked as i64),
                "sendTimedOut": (figures.send_timed_out as i64), "unserved": (figures.unserved as i64),
            },
        }
    }

    fn transport_security(&self) -> Document {
        let tls = self.statistics().tls;
        doc! {
            "1.0": 0_i64, "1.1": 0_i64, "1.2": (tls.tls_1_2 as i64), "1.3": (tls.tls_1_3 as i64),
            "unknown": 0_i64, "failed": (tls.failed as i64), "handshakesTimedOut": (tls.timed_out as i64),
            "refusedInClear": (tls.refused as i64),
        }
    }

    fn rotate_certificates(&self) -> Result<(), String> {
        let server = self.transport.get().ok_or("the server does not listen yet")?;
        let tls = server.tls().ok_or("TLS is not enabled")?;
        let members = self.member_tls.get().and_then(Option::as_ref);
        let member_config = match members {
            Some(_) => tls.member_config().map_err(|error| error.to_string())?,
            None => None,
        };
        tls.reload().map_err(|error| error.to_string())?;
        if let (Some(members), Some(config)) = (members, member_config) {
            members.change(config);
        }
        Ok(())
    }

    fn network(&self) -> Document {
        let statistics = self.statistics();
        let network = statistics.network;
        let executors: Document = statistics.executors.iter().map(executor).collect();
        let mut task_stats = Document::new();
        if let Some(first) = statistics.executors.first() {
            task_stats.push("executor", first.executor);
            task_stats.extend(group(&first.figures));
        }
        doc! {
            "bytesIn": (network.bytes_in as i64), "bytesOut": (network.bytes_out as i64),
            "physicalBytesIn": (network.physical_bytes_in as i64),
            "physicalBytesOut": (network.physical_bytes_out as i64),
            "numRequests": (network.num_requests as i64), "stalledSends": (statistics.stalled_sends as i64),
            "unreadReplies": (group(&statistics.unread_replies)),
            "largeRequests": (group(&statistics.large_requests)),
            "compression": (statistics.compression.iter().map(compressor).collect::<Document>()),
            "serviceExecutorTaskStats": task_stats,
            "serviceExecutors": executors,
            "diagnosticLane": (group(&statistics.lane)),
            "admission": (group(&statistics.admission)),
            "requestTimes": (group(&statistics.times)),
        }
    }
}

fn executor(statistics: &ExecutorStatistics) -> (&'static str, Value) {
    (statistics.executor, group(&statistics.figures).into())
}

fn compressor(figures: &CompressionStatistics) -> (&'static str, Value) {
    let side = |(bytes_in, bytes_out): (u64, u64), ratio: f64| {
        doc! { "bytesIn": (bytes_in as i64), "bytesOut": (bytes_out as i64), "ratio": ratio }
    };
    let (compressed, decompressed) = (figures.compressed, figures.decompressed);
    let both = doc! {
        "compressor": (side(compressed, ratio(compressed.0, compressed.1))),
        "decompressor": (side(decompressed, ratio(decompressed.1, decompressed.0))),
    };
    (figures.compressor.name(), both.into())
}

/// How many times smaller compression made what passed.
fn ratio(plain: u64, compressed: u64) -> f64 {
    if compressed == 0 { 1.0 } else { plain as f64 / compressed as f64 }
}

/// A tree of figures as a document.
fn group(figures: &[(&'static str, Figure)]) -> Document {
    let value = |figure: &Figure| match figure {
        Figure::Count(count) => Value::Int64(i64::try_from(*count).unwrap_or(i64::MAX)),
        Figure::Text(text) => Value::String((*text).to_owned()),
        Figure::Group(inner) => group(inner).into(),
    };
    figures.iter().map(|(name, figure)| (*name, value(figure))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_become_documents() {
        let tree = [
            ("threads", Figure::Count(3)),
            (
                "because",
                Figure::Group(vec![("stuck", Figure::Count(u64::MAX)), ("state", Figure::Text("on"))]),
            ),
        ];
        let expect = doc! { "threads": 3_i64, "because": { "stuck": (i64::MAX), "state": "on" } };
        assert_eq!(group(&tree), expect);
    }

    #[test]
    fn ratios() {
        assert_eq!((ratio(0, 0), ratio(300, 100)), (1.0, 3.0));
    }
}
