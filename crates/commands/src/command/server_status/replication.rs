//! What a member of a set tells of its part in it.

use super::engine::oldest_snapshot_seconds;
use crate::server::ServiceContext;
use dispatch::Node;
use document::{Document, DocumentBuilder, RawDocument, Value, doc};
use replication::set::ElectionCount;
use std::sync::Arc;

/// The sections that only a member of a set has.
pub(super) const SECTIONS: [&str; 3] = ["electionMetrics", "flowControl", "repl"];

/// What `hello` tells of the set, and what reads of a secondary hold.
pub(super) fn repl(server: &Arc<ServiceContext>) -> Document {
    let mut bytes = Vec::new();
    let mut repl = DocumentBuilder::new(&mut bytes);
    server.node.write_hello("isWritablePrimary", &mut repl);
    repl.append("rbid", 1);
    let engine = server.node.store.statistics().engine;
    let mut views = repl.start_document("views");
    views.append("open", engine.snapshots as i64);
    views.append("oldestSecs", oldest_snapshot_seconds(&engine));
    views.append("tooOld", server.counters.views_too_old.get() as i64);
    views.finish();
    repl.append_value("readFreshness", &read_freshness(server).into());
    if let Some(set) = server.node.replica_set() {
        let kept = set.kept_log();
        let mut copies = repl.start_document("keptForCopies");
        copies.append("members", kept.members as i64).append("oplogBytes", kept.bytes as i64);
        copies.append("oplogBytesMax", kept.bytes_max as i64).append("givenUp", kept.given_up as i64);
    }
    repl.finish();
    RawDocument::trusted(&bytes).to_document()
}

/// How old the data may be, and the reads that asked.
fn read_freshness(server: &Arc<ServiceContext>) -> Document {
    let counters = &server.counters;
    let mut figures = doc! {
        "reads": (counters.fresh_reads.get() as i64), "waited": (counters.waits_for_fresh_data.get() as i64),
        "refused": (counters.refused_as_stale.get() as i64),
    };
    if let Some(staleness) = server.node.staleness() {
        figures.push("stalenessMillis", i64::try_from(staleness.as_millis()).unwrap_or(i64::MAX));
    }
    figures
}

/// What begins and ends the time of a primary. Who is elected has everything that was committed: nobody
/// catches up.
pub(super) fn elections(server: &Arc<ServiceContext>) -> Document {
    let Some(set) = server.node.replica_set() else { return Document::new() };
    let figures = set.elections();
    let count = |count: ElectionCount| {
        doc! {
            "called": (count.called as i64), "successful": (count.successful as i64)
        }
    };
    doc! {
        "stepUpCmd": (count(figures.step_up_command)), "priorityTakeover": (count(figures.priority_takeover)),
        "electionTimeout": (count(figures.election_timeout)),
        "freezeTimeout": (count(figures.freeze_timeout)),
        "numStepDownsCausedByHigherTerm": (figures.step_downs_by_higher_term as i64),
        "numCatchUpsAlreadyCaughtUp": (figures.won() as i64),
    }
}

/// Who waits because a majority cannot keep up. What are locks in MongoDB are units of writes here, and its
/// rates of locks are bytes.
pub(super) fn flow_control(server: &Arc<ServiceContext>) -> Document {
    let Some(set) = server.node.replica_set() else { return Document::new() };
    let (flow, held) = (set.flow(), server.node.store.held_proposals());
    let units = flow.units as f64 * 1000.0 / (flow.operations as f64).max(1.0);
    let connections = held.connections.iter().map(|(connection, bytes)| {
        Value::from(doc! { "connectionId": (*connection as i64), "bytes": (*bytes as i64) })
    });
    let mut section = doc! {
        "enabled": (set.flow_settings().is_on()), "targetRateLimit": (flow.target_rate as i64),
        "timeAcquiringMicros": (held.waited_us as i64), "locksPerKiloOp": units,
        "sustainerRate": (flow.sustainer_rate as i64), "isLagged": (flow.is_lagged),
        "isLaggedCount": (flow.lagged_count as i64),
        "isLaggedTimeMicros": (flow.lagged_time.as_micros() as i64),
        "lagMillis": (flow.lag.as_millis() as i64), "unansweredBytes": (flow.unanswered_bytes as i64),
        "unappliedBytes": (flow.unapplied_bytes as i64), "heldTotal": (held.held as i64),
        "held": (connections.collect::<Vec<Value>>()),
    };
    if let Some(window) = flow.window {
        section.push("windowBytes", window as i64);
    }
    section
}

/// `metrics.repl`.
pub(super) fn metrics(server: &Arc<ServiceContext>) -> Option<Document> {
    let set = server.node.replica_set()?;
    let (applied, buffer, network) = (set.batches(), set.unapplied(), set.received());
    let (sources, failed_syncs) = (set.sync_sources(), set.copy_status().map_or(0, |copy| copy.failed));
    let operations = applied.operations as i64;
    Some(doc! {
        "apply": {
            "batchSize": operations, "ops": operations,
            "batches": { "num": (applied.batches as i64), "totalMillis": (applied.time.as_millis() as i64) },
        },
        "buffer": {
            "count": (buffer.entries as i64), "sizeBytes": (buffer.bytes as i64),
            "maxSizeBytes": (buffer.bytes_max as i64),
        },
        "initialSync": { "completed": (i64::from(set.has_copied())),
            "failedAttempts": (failed_syncs as i64) },
        "network": {
            "bytes": (network.bytes as i64), "messages": (network.envelopes as i64),
            "messagesDropped": (network.dropped as i64),
        },
        "syncSource": {
            "numSelections": (sources.selections as i64),
            "numTimesChoseDifferent": (sources.chose_different as i64),
            "numTimesChoseSame": (sources.chose_same as i64),
            "numTimesCouldNotFind": (sources.could_not_find as i64),
            "numSyncSourceChangesDueToSignificantlyCloserNode": (sources.chose_closer as i64),
        },
    })
}
