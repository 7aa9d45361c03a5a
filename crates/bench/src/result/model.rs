//! The result of a run as it is kept. Keys of the JSON file are these names in camelCase;
//! `docs/bench-report.md` tells of each.
//!
//! Times are in the unit that ends their names; rates are successful operations a second of the measured
//! window.

use crate::generator::Latencies;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of this layout. It grows when a key changes its meaning or goes; new keys do not change it.
pub(crate) const SCHEMA: u32 = 1;

/// Everything that is known of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunResult {
    /// [`SCHEMA`].
    pub(crate) schema: u32,
    pub(crate) tool: Tool,
    /// When the run began: RFC 3339, UTC.
    pub(crate) started: String,
    /// What the user calls this run; charts and comparisons show it. Never empty.
    pub(crate) label: String,
    pub(crate) target: Target,
    /// The machine that the load came from.
    pub(crate) machine: Machine,
    pub(crate) workload: WorkloadInfo,
    pub(crate) load: LoadInfo,
    /// What was loaded before; absent when the load phase was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) load_phase: Option<LoadPhase>,
    /// The measurements, in the order in which they were made.
    pub(crate) repetitions: Vec<Repetition>,
    /// What runs share that were measured in turns: their repetitions of the same number belong together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<String>,
    /// Whether somebody ended it early.
    pub(crate) interrupted: bool,
    /// What a reader must know before trusting the figures, in whole sentences.
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The commit it was built from, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    /// Without a password.
    pub(crate) connection_string: String,
    /// The hosts that got load, `host:port` each.
    pub(crate) hosts: Vec<String>,
    pub(crate) server: ServerInfo,
}

/// What the server says of itself. Every part may be missing: servers differ.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerInfo {
    /// `buildInfo.version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// `buildInfo.gitVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) git_version: Option<String>,
    /// `serverStatus.storageEngine.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) storage_engine: Option<String>,
    /// The thread model: `serverStatus.network.serviceExecutorTaskStats.executor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) service_executor: Option<String>,
    /// The whole `buildInfo`, as relaxed extended JSON; null when the server has none.
    #[serde(default)]
    pub(crate) build_info: serde_json::Value,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    /// Logical processors, all of them, also when the run was pinned to some.
    pub(crate) cores: usize,
    /// The processor's name; empty when the system does not tell it.
    pub(crate) model: String,
    pub(crate) memory_bytes: u64,
    /// Name and release of the system.
    pub(crate) kernel: String,
}

/// What was asked of the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadInfo {
    /// As on the command line: `a`, `point-read`, or the name in the workload file.
    pub(crate) name: String,
    /// One sentence.
    pub(crate) description: String,
    /// Documents that operations choose from at the beginning.
    pub(crate) record_count: u64,
    /// Size of a document's BSON.
    pub(crate) document_bytes: u64,
    /// Fields of a document, `_id` not counted.
    pub(crate) fields: u32,
    /// How keys are chosen: `zipfian 0.99`.
    pub(crate) distribution: String,
    /// Kinds of operations and their shares, which add up to 1.
    pub(crate) mix: Vec<(String, f64)>,
    /// Whatever else the workload was told.
    #[serde(default)]
    pub(crate) options: serde_json::Value,
}

/// How it was asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadInfo {
    pub(crate) connections: u64,
    /// Generator threads of each process.
    pub(crate) threads: u32,
    pub(crate) processes: u32,
    /// In words: `closed loop`, `open loop`, `10s@1000,20s@5000`.
    pub(crate) schedule: String,
    /// Intended operations a second, all connections together; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<f64>,
    pub(crate) warm_up_seconds: f64,
    /// Intended length of a repetition; absent when operations are counted instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration_seconds: Option<f64>,
    /// Intended operations of a repetition; absent when it is bounded by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operations: Option<u64>,
    pub(crate) seed: u64,
    /// Asked for, in order of preference.
    #[serde(default)]
    pub(crate) compressors: Vec<String>,
    /// Absent: the server's default, as with the next ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) read_preference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) read_concern: Option<String>,
    /// In words: `w: 1, j: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) write_concern: Option<String>,
}

/// Loading the documents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadPhase {
    /// Documents that this run inserted.
    pub(crate) documents: u64,
    /// Documents that were there before.
    pub(crate) already_there: u64,
    pub(crate) seconds: f64,
    /// Documents inserted a second.
    pub(crate) rate: f64,
    /// Documents or batches that failed, by kind and code.
    #[serde(default)]
    pub(crate) errors: Vec<ErrorCount>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Repetition {
    /// Length of the measured window, without warm-up.
    pub(crate) elapsed_seconds: f64,
    /// Each kind of operation.
    pub(crate) kinds: Vec<KindResult>,
    /// All kinds together, under the name `total`.
    pub(crate) total: KindResult,
    pub(crate) connections: Connections,
    pub(crate) client: Client,
    /// Second by second, in order.
    #[serde(default)]
    pub(crate) seconds: Vec<SecondResult>,
    /// What the server told beside it, in order of time; empty when it told nothing.
    #[serde(default)]
    pub(crate) server: Vec<ServerSample>,
}

/// Connections of the load, without those that observe.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Connections {
    /// How many were wanted at once.
    pub(crate) asked: u64,
    /// How many were opened, all times counted: short connections open many.
    pub(crate) opened: u64,
    /// Attempts that were refused or timed out.
    pub(crate) refused: u64,
    /// Connections that the server or the network ended.
    pub(crate) lost: u64,
    /// How many of the lost ones were opened again.
    pub(crate) reconnected: u64,
}

/// The load generator itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Client {
    /// Share of a core that each generator thread used, 0 to 1; threads of several processes one after the
    /// other.
    pub(crate) busy: Vec<f64>,
    /// Whether it was itself the limit: a thread used most of its core.
    pub(crate) saturated: bool,
    /// Resident memory of the generator's processes.
    pub(crate) resident_bytes: u64,
    /// What each connection added to it; 0 when unknown.
    pub(crate) bytes_per_connection: u64,
}

/// One kind of operation, or all together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindResult {
    pub(crate) name: String,
    /// Successful ones.
    pub(crate) operations: u64,
    /// Successful ones a second.
    pub(crate) rate: f64,
    #[serde(default)]
    pub(crate) errors: Vec<ErrorCount>,
    /// Of successful operations.
    pub(crate) latency: Latency,
}

/// Failed operations of one kind of failure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorCount {
    /// `connect`, `lost`, `timeout`, `server`, `write`, `writeConcern`, `unexpected`, `protocol`.
    pub(crate) kind: String,
    /// The server's error code, when it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<i32>,
    /// The code's name or what was wrong.
    pub(crate) name: String,
    pub(crate) count: u64,
}

/// Latencies of successful operations: in a closed loop from sending, in an open loop from the intended
/// start. All 0 when there was none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Latency {
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) p9999_ms: f64,
    pub(crate) max_ms: f64,
    /// Microseconds and how many operations took that long, ascending, without empty places; values are exact
    /// to three digits.
    #[serde(default)]
    pub(crate) histogram: Latencies,
}

/// One second of a repetition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecondResult {
    /// Its number, from 0 at the beginning of the measured window.
    pub(crate) second: u64,
    /// Connections open at its end.
    pub(crate) connections: u64,
    #[serde(flatten)]
    pub(crate) all: SecondFigures,
    /// By kind of operation.
    #[serde(default)]
    pub(crate) kinds: Vec<SecondKind>,
}

/// One kind of operation in one second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct SecondKind {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) figures: SecondFigures,
}

/// Operations that ended in one second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecondFigures {
    /// Successful ones.
    pub(crate) rate: f64,
    /// Failed ones.
    pub(crate) errors: u64,
    /// Latencies; absent when no operation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p50_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) p99_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_ms: Option<f64>,
}

/// `serverStatus` at one moment. What a server does not tell is absent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerSample {
    /// Seconds after the beginning of the measured window.
    pub(crate) at_seconds: f64,
    /// Thread models and what they count.
    #[serde(default)]
    pub(crate) executors: Vec<ExecutorSample>,
    /// `opcounters`, by name.
    #[serde(default)]
    pub(crate) opcounters: BTreeMap<String, u64>,
    /// Further numbers by their path in `serverStatus`.
    #[serde(default)]
    pub(crate) extra: BTreeMap<String, f64>,
    /// What every server tells that can, by the keys of [`crate::result::server_status`].
    #[serde(flatten)]
    pub(crate) figures: BTreeMap<String, serde_json::Value>,
}

impl ServerSample {
    pub(crate) fn figure(&self, key: &str) -> Option<u64> {
        self.figures.get(key)?.as_u64()
    }
}

/// One thread model at one moment, under MongoDB's names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutorSample {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) threads_running: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) threads_in_use: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tasks_queued: Option<u64>,
}
