//! The result of a run as it is kept. Keys of the JSON file are these names in camelCase;
//! `docs/bench-report.md` tells of each.
//!
//! Times are in the unit that ends their names; rates are successful operations a second of the measured
//! window.

use crate::generator::{ConnectionCounts, Errors, Latencies, counted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of this layout. It grows when a key changes its meaning or goes; new keys do not change it.
pub(crate) const SCHEMA: u32 = 1;

/// Everything that is known of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunResult {
    pub(crate) schema: u32,
    pub(crate) tool: Tool,
    pub(crate) started: String,
    pub(crate) label: String,
    pub(crate) target: Target,
    pub(crate) machine: Machine,
    pub(crate) workload: WorkloadInfo,
    pub(crate) load: LoadInfo,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) load_phase: Option<LoadPhase>,
    pub(crate) repetitions: Vec<Repetition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<String>,
    pub(crate) interrupted: bool,
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Target {
    pub(crate) connection_string: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) server: ServerInfo,
}

/// What the server says of itself. Every part may be missing: servers differ.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerInfo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) git_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) storage_engine: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) service_executor: Option<String>,
    #[serde(default)]
    pub(crate) build_info: serde_json::Value,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) model: String,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
}

/// What was asked of the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadInfo {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) record_count: u64,
    pub(crate) document_bytes: u64,
    pub(crate) fields: u32,
    pub(crate) distribution: String,
    pub(crate) mix: Vec<(String, f64)>,
    #[serde(default)]
    pub(crate) options: serde_json::Value,
}

/// How it was asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadInfo {
    pub(crate) connections: u64,
    pub(crate) threads: u32,
    pub(crate) processes: u32,
    pub(crate) schedule: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<f64>,
    pub(crate) warm_up_seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operations: Option<u64>,
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) compressors: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) read_preference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) read_concern: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) write_concern: Option<String>,
}

/// Loading the documents.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadPhase {
    pub(crate) documents: u64,
    pub(crate) already_there: u64,
    pub(crate) seconds: f64,
    pub(crate) rate: f64,
    #[serde(default, with = "counted")]
    pub(crate) errors: Errors,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Repetition {
    pub(crate) elapsed_seconds: f64,
    pub(crate) kinds: Vec<KindResult>,
    pub(crate) total: KindResult,
    pub(crate) connections: ConnectionCounts,
    pub(crate) client: Client,
    #[serde(default)]
    pub(crate) seconds: Vec<SecondResult>,
    #[serde(default)]
    pub(crate) server: Vec<ServerSample>,
}

/// The load generator itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Client {
    pub(crate) busy: Vec<f64>,
    pub(crate) saturated: bool,
    pub(crate) resident_bytes: u64,
    pub(crate) bytes_per_connection: u64,
}

/// One kind of operation, or all together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KindResult {
    pub(crate) name: String,
    pub(crate) operations: u64,
    pub(crate) rate: f64,
    #[serde(default, with = "counted")]
    pub(crate) errors: Errors,
    pub(crate) latency: Latency,
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
    #[serde(default)]
    pub(crate) histogram: Latencies,
}

/// One second of a repetition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecondResult {
    pub(crate) second: u64,
    pub(crate) connections: u64,
    #[serde(flatten)]
    pub(crate) all: SecondFigures,
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
    pub(crate) rate: f64,
    pub(crate) errors: u64,
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
    pub(crate) at_seconds: f64,
    #[serde(default)]
    pub(crate) executors: Vec<ExecutorSample>,
    #[serde(default)]
    pub(crate) opcounters: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) extra: BTreeMap<String, f64>,
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
