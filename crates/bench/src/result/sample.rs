//! Results for tests: one in which every key has a value, and small ones by rate.

use super::*;
use crate::generator::{ConnectionCounts, Errors, Failure, FailureKind, Latencies};
use std::collections::BTreeMap;

/// Every key has a value.
pub(crate) fn full() -> RunResult {
    RunResult {
        schema: SCHEMA,
        tool: Tool { name: "heddle bench".into(), version: "0.1.0".into(), commit: Some("abc1234".into()) },
        started: "2026-01-02T03:04:05Z".into(),
        label: "reactor".into(),
        target: Target {
            connection_string: "mongodb://127.0.0.1:27017/".into(),
            hosts: vec!["127.0.0.1:27017".into()],
            server: ServerInfo {
                version: Some("7.0.0".into()),
                git_version: Some("fedcba".into()),
                storage_engine: Some("rocksdb".into()),
                service_executor: Some("reactor".into()),
                build_info: serde_json::json!({ "version": "7.0.0" }),
            },
        },
        machine: Machine {
            cores: 2,
            model: "A processor".into(),
            memory_bytes: 8 << 30,
            kernel: "Linux 6.1.0".into(),
        },
        workload: WorkloadInfo {
            name: "a".into(),
            description: "Half reads, half updates.".into(),
            record_count: 100_000,
            document_bytes: 1_100,
            fields: 10,
            distribution: "zipfian 0.99".into(),
            mix: vec![("read".into(), 0.5), ("update".into(), 0.5)],
            options: serde_json::json!({ "fieldBytes": 100 }),
        },
        load: LoadInfo {
            connections: 64,
            threads: 2,
            processes: 1,
            schedule: "open loop".into(),
            rate: Some(60_000.0),
            warm_up_seconds: 2.0,
            duration_seconds: Some(30.0),
            operations: Some(1_800_000),
            seed: 7,
            compressors: vec!["snappy".into()],
            read_preference: Some("primary".into()),
            read_concern: Some("local".into()),
            write_concern: Some("w: 1, j: true".into()),
        },
        load_phase: Some(LoadPhase {
            documents: 90_000,
            already_there: 10_000,
            seconds: 3.0,
            rate: 30_000.0,
            errors: [error(FailureKind::Lost, None, "connection reset", 1)].into(),
        }),
        repetitions: vec![repetition(60_000.0), repetition(50_000.0)],
        turns: Some("2026-01-02T03:04:05Z".into()),
        interrupted: false,
        warnings: vec!["The load generator used 97 % of its core: it was itself the limit.".into()],
    }
}

/// A run whose repetitions had these rates.
pub(crate) fn with_rates(label: &str, rates: &[f64]) -> RunResult {
    let repetitions = rates.iter().map(|&rate| repetition(rate)).collect();
    RunResult { label: label.into(), repetitions, ..full() }
}

fn error(kind: FailureKind, code: Option<i32>, name: &str, count: u64) -> (Failure, u64) {
    (Failure { kind, code, name: name.into() }, count)
}

fn repetition(rate: f64) -> Repetition {
    const SECONDS: u64 = 30;
    let kind = |name: &str, share: f64, errors: Errors| {
        let operations = rate * share * SECONDS as f64;
        KindResult {
            name: name.into(),
            operations: operations as u64,
            rate: rate * share,
            errors,
            latency: latency(rate, operations),
        }
    };
    let errors = Errors::from([
        error(FailureKind::Server, Some(462), "IngressRequestRateLimitExceeded", 12),
        error(FailureKind::Timeout, None, "no reply within 30 s", 3),
    ]);
    Repetition {
        elapsed_seconds: SECONDS as f64,
        kinds: vec![kind("read", 0.5, errors.clone()), kind("update", 0.5, Errors::new())],
        total: kind("total", 1.0, errors),
        connections: ConnectionCounts { asked: 64, opened: 66, refused: 1, lost: 2, reconnected: 2 },
        client: Client {
            busy: vec![0.97, 0.4],
            saturated: true,
            resident_bytes: 30 << 20,
            bytes_per_connection: 5_000,
        },
        seconds: (0..SECONDS).map(|second| one_second(second, rate)).collect(),
        server: (0..SECONDS).map(|second| server_sample(second, rate)).collect(),
    }
}

/// About as servers answer: most near the middle, a tail that is a hundred times as long.
fn latency(rate: f64, operations: f64) -> Latency {
    let middle_us = 64.0 * 1e6 / rate;
    let steps = [(0.5, 0.3), (0.8, 0.25), (1.0, 0.2), (1.3, 0.14), (2.0, 0.08), (4.0, 0.025), (9.0, 0.0045)];
    let tail = [(20.0, 0.0004), (50.0, 0.00008), (120.0, 0.00002)];
    let count = |(times, share): (f64, f64)| ((middle_us * times) as u64, (operations * share).ceil() as u64);
    Latencies(steps.into_iter().chain(tail).map(count).collect()).into()
}

fn one_second(second: u64, rate: f64) -> SecondResult {
    // A pause in the middle of the run.
    let paused = second == 15;
    let rate = if paused { 0.0 } else { rate * (1.0 + 0.05 * (second as f64).sin()) };
    let time = |times: f64| (!paused).then(|| 64e3 / rate * times);
    let figures = |rate, errors, [p50_ms, p99_ms, max_ms]: [Option<f64>; 3]| SecondFigures {
        rate,
        errors,
        p50_ms,
        p99_ms,
        max_ms,
    };
    let kind = |name: &str| SecondKind {
        name: name.into(),
        figures: figures(rate / 2.0, 0, [1.0, 4.0, 30.0].map(time)),
    };
    let errors = if second == 16 { 15 } else { 0 };
    SecondResult {
        second,
        connections: if paused { 62 } else { 64 },
        all: figures(rate, errors, [1.0, 4.5, 40.0 + second as f64].map(time)),
        kinds: vec![kind("read"), kind("update")],
    }
}

fn server_sample(second: u64, rate: f64) -> ServerSample {
    let done = second * rate as u64;
    let figures = [
        ("connections", 66),
        ("cacheUsedBytes", (200 << 20) + second * (1 << 20)),
        ("cacheDirtyBytes", second * 4096),
        ("cacheHits", done * 9 / 10),
        ("cacheMisses", done / 10),
        ("networkInBytes", done * 200),
        ("networkOutBytes", done * 700),
        ("diskReadBytes", done * 10),
        ("diskWrittenBytes", done * 50),
    ];
    ServerSample {
        figures: figures.map(|(key, value)| (key.to_owned(), value.into())).into(),
        at_seconds: second as f64 + 0.1,
        executors: vec![ExecutorSample {
            name: "reactor".into(),
            threads_running: Some(4 + second / 10),
            threads_in_use: Some(3),
            tasks_queued: Some(second % 3),
        }],
        opcounters: BTreeMap::from([("query".into(), done / 2), ("update".into(), done / 2)]),
        extra: BTreeMap::from([("mem.resident".into(), 300.0)]),
    }
}
