//! The section `storage`: each knob with its value in force and its default, the I/O budget now and why, and
//! how far flush and compaction are. See `docs/design/io-budget.md`.

use crate::parameters::{Parameter, Setting};
use crate::server::ServiceContext;
use document::{Document, Value, doc};
use std::sync::Arc;
use storage::{BudgetStatistics, StorageKnobs, StorageStatistics};

const MS_PER_S: f64 = 1000.0;

/// As MongoDB Enterprise tells it.
pub(super) fn encryption_at_rest(server: &Arc<ServiceContext>) -> Document {
    let vault = server.node.store.vault();
    let Some(key) = vault.key_id() else { return doc! { "encryptionEnabled": false } };
    let mode = server.parameters.text(Parameter::EncryptionCipherMode);
    let mut told = doc! { "encryptionEnabled": true, "encryptionKeyId": key, "encryptionCipherMode": mode };
    if let Some(old_keys) = server.node.old_keys.describe() {
        told.push("oldKeys", old_keys);
    }
    told
}

pub(super) fn storage(server: &Arc<ServiceContext>) -> Document {
    let statistics = server.node.store.statistics();
    let engine = &statistics.engine;
    doc! {
        "knobs": (knobs(server, &statistics.budget)),
        "budget": (budget(&statistics.budget)),
        "debt": {
            "level0Files": (engine.pressure.level0_files as i64),
            "pendingCompactionBytes": (engine.pressure.pending_compaction_bytes as i64),
            "immutableMemtables": (engine.pressure.immutable_memtables as i64),
            "unflushedBytes": (engine.pressure.unflushed_bytes as i64),
        },
        "recovery": (recovery(&statistics)),
        "flushes": (engine.flushes as i64), "flushBytes": (engine.flush_bytes as i64),
        "compactionBytesWritten": (engine.compaction_write_bytes as i64),
        "memtablesSealed": (engine.seals as i64), "memtablesSealedOnLoops": (engine.seals_on_loops as i64),
        "sealMicrosMax": (engine.seal_us_max as i64), "groupsSentBackForSeals": (engine.turned_back as i64),
        "stalls": (statistics.commit.engine_stalls as i64), "gate": (statistics.commit.gate),
        "commitsHeld": (statistics.commit.gate_held as i64),
    }
}

/// `{value, default}` of each, by the name of its parameter and in its unit.
fn knobs(server: &ServiceContext, budget: &BudgetStatistics) -> Document {
    let both = |of: fn(&StorageKnobs) -> Value| {
        doc! { "value": (of(&budget.knobs)), "default": (of(&budget.default_knobs)) }
    };
    let journal_interval = server.node.store.journal_interval().as_millis() as i64;
    let journal_default = match Parameter::JournalCommitInterval.definition().default_setting() {
        Setting::Integer(milliseconds) => milliseconds,
        other => unreachable!("the journal's interval is a number, not {other}"),
    };
    doc! {
        "cacheBytes": (both(|knobs| int64(knobs.cache_bytes + knobs.row_cache_bytes))),
        "rowCacheBytes": (both(|knobs| int64(knobs.row_cache_bytes))),
        "memtableBytes": (both(|knobs| int64(knobs.shape.memtable_bytes))),
        "backgroundBytesPerSecond": (both(|knobs| int64(knobs.io_budget_bytes_per_second))),
        "latencyTargetMs": (both(|knobs| int64(knobs.latency_target.as_millis() as u64))),
        "dirtyTargetBytes": (both(|knobs| knobs.dirty_target_bytes.map_or(Value::Null, int64))),
        "dirtyTriggerBytes": (both(|knobs| knobs.dirty_trigger_bytes.map_or(Value::Null, int64))),
        "backgroundThreadsMin": (both(|knobs| int64(knobs.background_jobs_min.into()))),
        "backgroundThreadsMax": (both(|knobs| int64(knobs.background_jobs_max.into()))),
        "syncdelay": (both(|knobs| int64(knobs.flush_interval.as_secs()))),
        "journalSizeBytes": (both(|knobs| int64(knobs.journal_bytes_max))),
        "journalCommitInterval": { "value": journal_interval, "default": journal_default },
    }
}

fn budget(budget: &BudgetStatistics) -> Document {
    doc! {
        "bytesPerSecond": (budget.bytes_per_second as i64),
        "engineBytesPerSecond": (budget.engine_bytes_per_second as i64),
        "compactionBytesPerSecond": (budget.compaction_bytes_per_second as i64),
        "compactionProcessors": (budget.compaction_processors),
        "reason": (budget.reason.name()), "debt": (budget.debt), "squeeze": (budget.squeeze),
        "late": (budget.late as i64), "squeezed": (budget.squeezed as i64),
    }
}

fn recovery(statistics: &StorageStatistics) -> Document {
    let oldest = statistics.budget.oldest_unflushed.map_or(0.0, |age| age.as_millis() as f64 / MS_PER_S);
    doc! {
        "journalBytesToReplay": (statistics.budget.replay_bytes as i64), "oldestUnflushedSeconds": oldest,
    }
}

fn int64(bytes: u64) -> Value {
    Value::Int64(bytes as i64)
}
