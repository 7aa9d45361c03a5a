//! `serverStatus`: the figures that monitoring reads. Section names and keys are MongoDB's where it has them;
//! what the store tells of itself is in the sections `rocksdb`, `storage` and `heddle`; `wiredTiger` and
//! `tcmalloc` have what is the same under the names that dashboards read.

use super::build_info::MONGODB_VERSION;
use super::{Command, Run};
use crate::context::CommandContext;
use crate::counters::Counter;
use crate::error::CommandResult;
use crate::server::ServiceContext;
use crate::spans::SPAN_NAMES;
use access::Mechanism;
use document::{Document, DocumentBuilder, RawValue, Value, doc};
use std::sync::Arc;

mod engine;
mod replication;
mod storage;

pub(crate) static COMMAND: Command = Command {
    ..Command::diagnostic_walk("serverStatus", "Tells figures about the running server.", Run::Now(run))
};

fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let sections = Sections::read(context);
    context.fields.ignore_rest();
    write(context.server, &sections, reply);
    Ok(())
}

/// Which sections were asked for: `{serverStatus: 1, metrics: 0, none: 1, …}`.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    none: bool,
    chosen: Vec<(String, bool)>,
}

impl Sections {
    fn read(context: &CommandContext<'_>) -> Self {
        let truth = |value: RawValue<'_>| match value {
            RawValue::Boolean(flag) => flag,
            RawValue::Document(_) => true,
            number => crate::fields::integer(number).is_some_and(|number| number != 0),
        };
        let mut sections = Sections::default();
        for element in context.fields.rest() {
            match element.name() {
                "none" => sections.none = truth(element.value()),
                "all" => {}
                name => sections.chosen.push((name.to_owned(), truth(element.value()))),
            }
        }
        sections
    }

    fn wants(&self, name: &str) -> bool {
        let chosen = self.chosen.iter().find(|(chosen, _)| chosen == name);
        chosen.map_or(!self.none, |(_, wanted)| *wanted)
    }
}

/// Appends all sections that are wanted.
pub(crate) fn write(server: &Arc<ServiceContext>, sections: &Sections, reply: &mut DocumentBuilder<'_>) {
    let uptime = ambient::elapsed(server.started);
    reply.append("host", super::host_info::host_name().as_str()).append("version", MONGODB_VERSION);
    // Tools tell the kinds of servers apart by this name.
    reply.append("process", "mongod").append("pid", i64::from(std::process::id()));
    reply.append("uptime", uptime.as_secs() as f64).append("uptimeMillis", uptime.as_millis() as i64);
    reply.append("uptimeEstimate", uptime.as_secs() as i64);
    reply.append("localTime", RawValue::DateTime(server.now_ms()));
    for (name, section) in SECTIONS {
        let exists = !replication::SECTIONS.contains(name) || server.node.replica_set().is_some();
        if exists && sections.wants(name) {
            reply.append_value(name, &section(server).into());
        }
    }
}

/// A section by its name.
type Section = (&'static str, fn(&Arc<ServiceContext>) -> Document);

const SECTIONS: &[Section] = &[
    ("asserts", asserts),
    ("catalogStats", catalog_stats),
    ("connections", |server| server.host.transport.connections()),
    ("electionMetrics", replication::elections),
    ("encryptionAtRest", storage::encryption_at_rest),
    ("extra_info", extra_info),
    ("flowControl", replication::flow_control),
    ("globalLock", global_lock),
    ("heddle", heddle),
    ("locks", |_| Document::new()),
    ("logicalSessionRecordCache", |server| doc! { "activeSessionsCount": (server.sessions.count() as i32) }),
    ("network", network),
    ("opLatencies", |server| server.latencies.latencies()),
    ("opcounters", |server| server.counters.to_document()),
    ("opcountersRepl", |_| crate::counters::OperationCounters::default().to_document()),
    ("repl", replication::repl),
    ("rocksdb", engine::rocksdb),
    ("security", security),
    ("storage", storage::storage),
    ("storageEngine", engine::storage_engine),
    ("tcmalloc", engine::allocator),
    ("transactions", transactions),
    ("transportSecurity", |server| server.host.transport.transport_security()),
    ("wiredTiger", engine::wired_tiger),
    ("mem", memory),
    ("metrics", metrics),
];

fn asserts(server: &Arc<ServiceContext>) -> Document {
    doc! {
        "regular": (server.counters.regular_asserts.get() as i32), "warning": 0, "msg": 0,
        "user": (server.counters.user_asserts.get() as i32), "tripwire": 0, "rollovers": 0,
    }
}

/// The numbers of `/proc/self/stat` after the name in parentheses, counted from the state (field 3).
fn process_numbers() -> Vec<i64> {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    after_name.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect()
}

/// A line such as `VmRSS:  16 kB` of `/proc/self/status`, in kibibytes.
fn process_kib(name: &str) -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn extra_info(_server: &Arc<ServiceContext>) -> Document {
    const MINOR_FAULTS: usize = 7;
    const MAJOR_FAULTS: usize = 9;
    const USER_TIME: usize = 11;
    const SYSTEM_TIME: usize = 12;
    /// The kernel tells times in hundredths of seconds, whatever its own clock does.
    const MICROS_PER_TICK: i64 = 10_000;
    let numbers = process_numbers();
    let of = |position: usize| numbers.get(position).copied().unwrap_or(0);
    doc! {
        "note": "fields vary by platform",
        "user_time_us": (of(USER_TIME) * MICROS_PER_TICK),
        "system_time_us": (of(SYSTEM_TIME) * MICROS_PER_TICK),
        "maximum_resident_set_kb": (process_kib("VmHWM")), "page_reclaims": (of(MINOR_FAULTS)),
        "page_faults": (of(MAJOR_FAULTS)),
    }
}

/// Operations that read and that write now, without those of the diagnostic lane.
fn active_operations(server: &ServiceContext) -> (i32, i32) {
    let (mut readers, mut writers) = (0, 0);
    for client in server.clients() {
        match client.running_command() {
            Some("insert" | "update" | "delete" | "findAndModify") => writers += 1,
            Some(name) if !is_diagnostic(server, name) => readers += 1,
            _ => {}
        }
    }
    (readers, writers)
}

fn is_diagnostic(server: &ServiceContext, name: &str) -> bool {
    server.commands().get(name.as_bytes()).is_some_and(|command| command.execution.is_diagnostic())
}

fn global_lock(server: &Arc<ServiceContext>) -> Document {
    let (readers, writers) = active_operations(server);
    doc! {
        "totalTime": (ambient::elapsed(server.started).as_micros() as i64),
        "currentQueue": { "total": 0, "readers": 0, "writers": 0 },
        "activeClients": { "total": (readers + writers), "readers": readers, "writers": writers },
    }
}

fn catalog_stats(server: &Arc<ServiceContext>) -> Document {
    let counts = server.node.catalog.state().counts();
    let count = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    doc! {
        "collections": (count(counts.collections)), "capped": (count(counts.capped)),
        "clustered": (count(counts.clustered)), "timeseries": 0, "views": (count(counts.views)),
        "internalCollections": (count(counts.internal)), "internalViews": 0,
    }
}

/// Who tried to log in, and who is held to its limits.
fn security(server: &Arc<ServiceContext>) -> Document {
    let counters = &server.counters;
    let attempts = |received: &Counter, successful: &Counter| {
        doc! { "received": (received.get() as i64), "successful": (successful.get() as i64) }
    };
    let by_password = Mechanism::ALL.map(Mechanism::name).into_iter().zip(&counters.logins);
    let mechanisms: Document = std::iter::once(("MONGODB-X509", &counters.certificate_logins))
        .chain(by_password)
        .map(|(mechanism, logins)| {
            let speculative = attempts(&logins.speculative_received, &logins.speculative_successful);
            let told = doc! {
                "speculativeAuthenticate": speculative,
                "authenticate": (attempts(&logins.received, &logins.successful)),
            };
            (mechanism, Value::Document(told))
        })
        .collect();
    doc! {
        "authentication": {
            "saslSupportedMechsReceived": (counters.mechanisms_asked.get() as i64), "mechanisms": mechanisms,
        },
        "userLimits": (server.access.usages.to_document()),
    }
}

/// Retryable writes; there are no transactions of several statements.
fn transactions(server: &Arc<ServiceContext>) -> Document {
    const NONE: [&str; 10] = [
        "currentActive",
        "currentInactive",
        "currentOpen",
        "totalAborted",
        "totalCommitted",
        "totalStarted",
        "totalPrepared",
        "totalPreparedThenCommitted",
        "totalPreparedThenAborted",
        "currentPrepared",
    ];
    let counters = &server.counters;
    let mut figures = doc! {
        "retriedCommandsCount": (counters.retried_commands.get() as i64),
        "retriedStatementsCount": (counters.retried_statements.get() as i64),
        "transactionsCollectionWriteCount": (counters.session_rows_written.get() as i64),
    };
    figures.extend(NONE.into_iter().map(|name| (name, Value::Int64(0))));
    figures
}

/// The transport's figures, with what is known of requests here.
fn network(server: &Arc<ServiceContext>) -> Document {
    let mut network = server.host.transport.network();
    let mut theirs = match network.remove("requestTimes") {
        Some(Value::Document(times)) => times,
        _ => Document::new(),
    };
    let mut own = server.spans.to_document();
    // In the order in which a request passes them. What the transport calls execution is all of this crate's
    // work.
    let spans = SPAN_NAMES.iter().chain(&["total"]);
    let times = spans.filter_map(|name| Some((*name, own.remove(name).or_else(|| theirs.remove(name))?)));
    network.push("requestTimes", times.collect::<Document>());
    let refused = server.counters.refused_under_overload.get();
    network.push("requestsRefusedUnderOverload", refused as i64);
    network
}

fn heddle(server: &Arc<ServiceContext>) -> Document {
    let statistics = server.node.store.statistics();
    let (commit, space) = (statistics.commit, statistics.space);
    let made_way = server.node.catalog.made_way();
    let mut section = doc! {
        "version": (env!("CARGO_PKG_VERSION")),
        "logLinesDropped": (server.host.log.dropped_lines() as i64),
        "commit": {
            "commits": (commit.commits as i64), "failed": (commit.commits_failed as i64),
            "groups": (commit.groups as i64), "groupUnitsMax": (commit.group_units_max as i64),
            "bytes": (commit.bytes as i64), "writeMicros": (commit.write_us as i64),
            "writeMicrosMax": (commit.write_us_max as i64), "journalSyncs": (commit.journal_syncs as i64),
            "journalSyncMicros": (commit.journal_sync_us as i64),
            "journalSyncMicrosMax": (commit.journal_sync_us_max as i64), "gate": (commit.gate),
            "gateHeld": (commit.gate_held as i64), "gateWaiting": (commit.gate_waiting as i64),
            "engineStalls": (commit.engine_stalls as i64),
        },
        "disk": {
            "state": (space.state.name()), "totalBytes": (space.total_bytes as i64),
            "freeBytes": (space.free_bytes as i64), "reserveBytes": (space.reserve_bytes as i64),
        },
        "ttl": (server.node.ttl.work(made_way)), "calendar": (crate::calendar::status(server)),
    };
    let memory = server.host.memory.memory();
    if !memory.is_empty() {
        section.push("memory", memory);
    }
    if let Some(reason) = commit.breakdown {
        section.push("breakdown", reason);
    }
    section
}

fn memory(_server: &Arc<ServiceContext>) -> Document {
    const KIB_PER_MIB: i64 = 1024;
    let mib = |name: &str| (process_kib(name) / KIB_PER_MIB) as i32;
    doc! { "bits": 64, "resident": (mib("VmRSS")), "virtual": (mib("VmSize")), "supported": true }
}

fn metrics(server: &Arc<ServiceContext>) -> Document {
    let counters = &server.counters;
    let mut commands = Document::new();
    for (entry, statistics) in server.statistics() {
        let row =
            doc! { "failed": (statistics.failed.get() as i64), "total": (statistics.total.get() as i64) };
        commands.push(entry.name, row);
    }
    let cursors = server.cursors.figures();
    let mut metrics = doc! {
        "commands": (commands),
        "cursor": {
            "timedOut": (cursors.timed_out as i64), "totalOpened": (cursors.opened as i64),
            "open": {
                "noTimeout": (cursors.no_timeout as i64), "pinned": (cursors.pinned as i64),
                "total": (cursors.open as i64),
            },
        },
        "document": {
            "deleted": (counters.documents_deleted.get() as i64),
            "inserted": (counters.documents_inserted.get() as i64),
            "returned": (counters.documents_returned.get() as i64),
            "updated": (counters.documents_updated.get() as i64),
        },
        "operation": { "scanAndOrder": (counters.sorts.get() as i64), "writeConflicts": 0_i64 },
        "queryExecutor": {
            "scanned": (counters.keys_scanned.get() as i64),
            "scannedObjects": (counters.documents_scanned.get() as i64),
            "collectionScans": { "nonTailable": (counters.collection_scans.get() as i64),
                "total": (counters.collection_scans.get() as i64) },
        },
        "getLastError": { "wtime": { "num": 0, "totalMillis": 0 }, "wtimeouts": 0_i64 },
        "ttl": (server.node.ttl.metrics(server.node.catalog.made_way())),
    };
    if let Some(repl) = replication::metrics(server) {
        metrics.push("repl", repl);
    }
    metrics
}
