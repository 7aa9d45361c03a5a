//! `serverStatus.heddle.memory`: who holds how much, and how often each measure acted.

use super::{Accountant, Parts};
use dispatch::host::MemoryFigures;
use document::{Document, Value, doc};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// What one open cursor takes besides what its sort or group holds, by measurement of 5,000.
const CURSOR_BYTES: u64 = 4 << 10;
/// What one open connection takes at rest.
const CONNECTION_BYTES: u64 = 4 << 10;

/// The accountant's figures; empty until it keeps account.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryReport(Arc<OnceLock<Arc<Accountant>>>);

impl MemoryReport {
    pub(crate) fn set(&self, accountant: Arc<Accountant>) {
        assert!(self.0.set(accountant).is_ok(), "there is one accountant");
    }
}

impl MemoryFigures for MemoryReport {
    fn memory(&self) -> Document {
        self.0.get().map(|accountant| accountant.report()).unwrap_or_default()
    }
}

impl Accountant {
    fn report(&self) -> Document {
        let pool = self.pool.figures();
        let (held, engine) = (self.store.memory(), self.store.statistics().engine);
        let parts = self.parts.get();
        let for_members = parts.map_or(0, Parts::for_members);
        let server = parts.and_then(|parts| parts.server.upgrade());
        let cursors = server.map_or(0, |server| server.cursors.figures().open);
        let transport = parts.and_then(|parts| parts.transport.upgrade());
        let network = transport.map(|transport| transport.memory()).unwrap_or_default();
        let resident = super::resident_bytes().unwrap_or_else(|| self.resident.load(Ordering::Relaxed));
        let parts = [
            ("blockCache", held.engine.cache),
            ("rowCache", held.rows),
            ("memtables", held.engine.memtables),
            ("tableReaders", engine.table_reader_bytes),
            ("sortsAndGroups", pool.used as u64),
            ("indexBuilds", held.builds),
            ("replication", for_members),
            ("cursors", cursors * CURSOR_BYTES),
            ("connections", network.connections as u64 * CONNECTION_BYTES),
            ("largeRequests", network.requests),
            ("unreadReplies", network.replies),
        ];
        let accounted: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
        let mut bytes: Document =
            parts.iter().map(|(name, bytes)| (*name, Value::Int64(*bytes as i64))).collect();
        bytes.push("other", resident as i64 - accounted as i64);
        let state = self.state.lock();
        let (course, bound) = (&state.course, super::store_bound(&state.sizes, state.measures));
        let [_, tight, short, exhausted] = course.entered;
        doc! {
            "limitBytes": (course.limit() as i64),
            "residentBytes": (resident as i64),
            "residentBytesMax": (self.resident_max.load(Ordering::Relaxed).max(resident) as i64),
            "level": (state.measures.level.name()),
            "parts": bytes,
            "bounds": {
                "caches": (state.measures.caches as i64), "cachesAtBest": (state.sizes.cache as i64),
                "memtables": (bound.engine.memtables as i64),
                "sortsAndGroups": (pool.most as i64), "indexBuilds": (bound.builds as i64),
            },
            "measures": {
                "tight": (tight as i64), "short": (short as i64), "exhausted": (exhausted as i64),
                "cachesShrunk": (course.shrunk as i64), "cachesGrown": (course.grown as i64),
                "freeMemoryGivenBack": (self.given_back.load(Ordering::Relaxed) as i64),
                "spilledSooner": (pool.gave_way as i64), "requestsPaced": (network.paced as i64),
                "requestsRefused": (pool.refused as i64),
            },
        }
    }
}
