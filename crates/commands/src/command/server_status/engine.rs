//! The store and the allocator.

use super::active_operations;
use crate::parameters::Parameter;
use crate::server::ServiceContext;
use document::{Document, doc};
use replication::set::HistoryFigures;
use std::sync::Arc;
use storage::EngineStatistics;

pub(super) fn rocksdb(server: &Arc<ServiceContext>) -> Document {
    let statistics = server.node.store.statistics();
    let (engine, rows, ahead) = (statistics.engine, statistics.row_cache, statistics.read_ahead);
    doc! {
        "engine": (engine.engine),
        "cache": {
            "maximum bytes configured": (engine.cache_capacity_bytes as i64),
            "bytes currently in the cache": (engine.cache_usage_bytes as i64),
            "bytes pinned": (engine.cache_pinned_bytes as i64), "hits": (engine.cache_hits as i64),
            "misses": (engine.cache_misses as i64),
            "bytes read into cache": (engine.cache_read_into_bytes as i64),
        },
        "row cache": {
            "maximum bytes configured": (rows.capacity_bytes as i64),
            "bytes currently in the cache": (rows.bytes as i64), "hits": (rows.hits as i64),
            "misses": (rows.misses as i64),
        },
        "read ahead": { "documents": (ahead.asked as i64), "from the disk": (ahead.slow as i64),
            "too many at once": (ahead.dropped as i64) },
        "memtables": { "bytes": (engine.memtable_bytes as i64),
            "unflushed bytes": (engine.memtable_unflushed_bytes as i64) },
        "tables": {
            "files": (engine.table_files as i64), "bytes": (engine.table_bytes as i64),
            "total bytes": (engine.table_total_bytes as i64),
            "live data bytes": (engine.live_data_bytes as i64),
            "reader bytes": (engine.table_reader_bytes as i64),
        },
        "journal": { "syncs": (engine.journal_syncs as i64), "bytes": (engine.journal_bytes as i64) },
        "keys estimated": (engine.keys_estimate as i64),
        "background jobs running": (engine.background_jobs_running as i64),
        "background errors": (engine.background_errors as i64),
        "snapshots": (engine.snapshots as i64), "oldest snapshot seconds": (oldest_snapshot_seconds(&engine)),
    }
}

/// The age of the oldest state that is kept for its readers.
pub(super) fn oldest_snapshot_seconds(engine: &EngineStatistics) -> i64 {
    let taken_at = Some(engine.oldest_snapshot_at).filter(|at| *at > 0);
    taken_at.map_or(0, |at| ambient::since_epoch().as_secs().saturating_sub(at) as i64)
}

pub(super) fn storage_engine(server: &Arc<ServiceContext>) -> Document {
    doc! {
        "name": (server.node.store.statistics().engine.engine), "supportsCommittedReads": true,
        "supportsPendingDrops": false, "supportsSnapshotReadConcern": (server.node.replica_set().is_some()),
        "readOnly": false, "persistent": true,
    }
}

/// What the allocator holds, under the name that dashboards know.
pub(super) fn allocator(server: &Arc<ServiceContext>) -> Document {
    let held = (server.host.allocator_bytes)();
    doc! { "generic": { "heap_size": (held as i64) } }
}

/// The figures of the store that have a counterpart in MongoDB's engine: the caches of blocks and rows are
/// the cache, memtables that are not yet in a table are its dirty part, and an operation needs no ticket but
/// its connection.
pub(super) fn wired_tiger(server: &Arc<ServiceContext>) -> Document {
    let statistics = server.node.store.statistics();
    let (engine, rows) = (statistics.engine, statistics.row_cache);
    let (readers, writers) = active_operations(server);
    let most = connections_max(server);
    let tickets =
        |out: i32| doc! { "out": out, "available": (most.saturating_sub(out)), "totalTickets": most };
    let mut figures = doc! {
        "uri": "statistics:",
        "cache": {
            "bytes currently in the cache": ((engine.cache_usage_bytes + rows.bytes) as i64),
            "maximum bytes configured": ((engine.cache_capacity_bytes + rows.capacity_bytes) as i64),
            "tracked dirty bytes in the cache": (engine.memtable_unflushed_bytes as i64),
            "bytes read into cache": (engine.cache_read_into_bytes as i64),
            "bytes written from cache": (engine.flush_bytes as i64),
        },
        // Memtables written to tables: what a checkpoint is there.
        "transaction": { "transaction checkpoints": (engine.flushes as i64) },
        "concurrentTransactions": { "write": (tickets(writers)), "read": (tickets(readers)) },
    };
    if let Some(set) = server.node.replica_set() {
        figures.push("snapshot-window-settings", snapshot_window(&set.history_figures()));
    }
    figures
}

/// How far back can be read, under the names of MongoDB, and what it took.
fn snapshot_window(figures: &HistoryFigures) -> Document {
    let available = figures.newest.time.saturating_sub(figures.oldest.time);
    doc! {
        "total number of SnapshotTooOld errors": (figures.too_old as i64),
        "minimum target snapshot window size in seconds": (figures.window.as_secs() as i64),
        "current available snapshot window size in seconds": (i64::from(available)),
        "latest majority snapshot timestamp available": (figures.newest),
        "oldest majority snapshot timestamp available": (figures.oldest),
        "moments kept": (figures.kept as i64), "times computed": (figures.replays as i64),
        "operations replayed for them": (figures.replayed_operations as i64),
    }
}

/// How many operations there may be at once: as many as connections.
fn connections_max(server: &ServiceContext) -> i32 {
    let connections = server.host.transport.connections();
    let figure = |name: &str| match connections.get(name) {
        Some(document::Value::Int32(number)) => *number,
        _ => 0,
    };
    let most = server.parameters.integer(Parameter::MaxConnections);
    i32::try_from(most)
        .ok()
        .filter(|most| *most > 0)
        .unwrap_or(figure("current").saturating_add(figure("available")))
}
