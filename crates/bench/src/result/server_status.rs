//! What servers tell of themselves, under the names of MongoDB and its kin. What a server does not tell is
//! absent.

use crate::result::{ExecutorSample, ServerInfo, ServerSample};
use document::{Document, RawValue, Value};
use std::collections::BTreeMap;

/// Further figures that are worth having beside a run, by their path.
const EXTRA: &[&str] = &[
    "mem.resident",
    "extra_info.page_faults",
    "connections.active",
    "connections.rejected",
    "globalLock.currentQueue.total",
    "network.numRequests",
    "network.requestsRefusedUnderOverload",
    "heddle.commit.commits",
    "heddle.commit.groups",
    "heddle.commit.journalSyncs",
    "heddle.commit.gateWaiting",
    "rocksdb.journal.bytes",
    "rocksdb.background jobs running",
    "wiredTiger.log.log sync operations",
    "wiredTiger.log.log bytes written",
];

/// Figures by their keys, and where Heddle and MongoDB have them; counters run since the server's start.
const FIGURES: &[(&str, &[&str])] = &[
    ("connections", &["connections.current"]),
    (
        "cacheUsedBytes",
        &["rocksdb.cache.bytes currently in the cache", "wiredTiger.cache.bytes currently in the cache"],
    ),
    (
        "cacheDirtyBytes",
        &["rocksdb.memtables.unflushed bytes", "wiredTiger.cache.tracked dirty bytes in the cache"],
    ),
    ("cacheHits", &["rocksdb.cache.hits"]),
    ("cacheMisses", &["rocksdb.cache.misses", WIRED_READ]),
    ("networkInBytes", &["network.bytesIn"]),
    ("networkOutBytes", &["network.bytesOut"]),
    ("diskReadBytes", &["rocksdb.cache.bytes read into cache", "wiredTiger.block-manager.bytes read"]),
    ("diskWrittenBytes", &["wiredTiger.block-manager.bytes written"]),
];
const WIRED_READ: &str = "wiredTiger.cache.pages read into cache";
const WIRED_REQUESTED: &str = "wiredTiger.cache.pages requested from the cache";

/// `serverStatus` as a sample; its time is the caller's to set.
pub(crate) fn sample(status: &Document) -> ServerSample {
    let at = |path: &str| count(status, path);
    let figure = |&(key, places): &(&str, &[&str])| {
        let found = places.iter().find_map(|path| at(path));
        Some((key.to_owned(), found?.into()))
    };
    let mut figures: BTreeMap<String, serde_json::Value> = FIGURES.iter().filter_map(figure).collect();
    if let (Some(requested), Some(read)) = (at(WIRED_REQUESTED), at(WIRED_READ)) {
        figures.entry("cacheHits".to_owned()).or_insert(requested.saturating_sub(read).into());
    }
    let extra = |path: &&str| Some(((*path).to_owned(), number(find(status, path)?)?));
    ServerSample {
        at_seconds: 0.0,
        executors: executors(status),
        opcounters: opcounters(status),
        extra: EXTRA.iter().filter_map(extra).collect(),
        figures,
    }
}

/// Adds what `buildInfo` and `serverStatus` say of the server; either may be missing.
pub(crate) fn server_info(build_info: Option<&Document>, status: Option<&Document>) -> ServerInfo {
    let text = |document: Option<&Document>, path| {
        document.and_then(|document| find(document, path)?.as_str().map(str::to_owned))
    };
    ServerInfo {
        version: text(build_info, "version").or_else(|| text(status, "version")),
        git_version: text(build_info, "gitVersion"),
        storage_engine: text(status, "storageEngine.name"),
        service_executor: text(status, "network.serviceExecutorTaskStats.executor"),
        build_info: build_info.map_or(serde_json::Value::Null, |document| {
            let text = document::json::to_string(document.to_buf().as_raw());
            serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
        }),
    }
}

/// Heddle and MongoDB from 4.4 on tell of each thread model; older ones only of the one they have.
fn executors(status: &Document) -> Vec<ExecutorSample> {
    let sample = |name: &str, figures: &Document| ExecutorSample {
        name: name.to_owned(),
        threads_running: count(figures, "threadsRunning"),
        threads_in_use: count(figures, "threadsInUse").or_else(|| count(figures, "clientsRunning")),
        tasks_queued: count(figures, "tasksQueued"),
    };
    let all = find(status, "network.serviceExecutors").and_then(Value::as_document);
    let all = all.into_iter().flat_map(Document::iter);
    let samples: Vec<ExecutorSample> =
        all.filter_map(|(name, figures)| Some(sample(name, figures.as_document()?))).collect();
    if !samples.is_empty() {
        return samples;
    }
    let only = find(status, "network.serviceExecutorTaskStats").and_then(Value::as_document);
    let name = |figures: &Document| figures.get("executor")?.as_str().map(str::to_owned);
    only.and_then(|figures| Some(vec![sample(&name(figures)?, figures)])).unwrap_or_default()
}

fn opcounters(status: &Document) -> BTreeMap<String, u64> {
    let counters = status.get("opcounters").and_then(Value::as_document);
    let counters = counters.into_iter().flat_map(Document::iter);
    counters.filter_map(|(name, value)| Some((name.to_owned(), whole(number(value)?)?))).collect()
}

/// The value at this dotted path.
fn find<'d>(document: &'d Document, path: &str) -> Option<&'d Value> {
    match path.split_once('.') {
        Some((first, rest)) => find(document.get(first)?.as_document()?, rest),
        None => document.get(path),
    }
}

fn count(document: &Document, path: &str) -> Option<u64> {
    whole(number(find(document, path)?)?)
}

/// A number that counts something.
fn whole(number: f64) -> Option<u64> {
    (number.is_finite() && number >= 0.0).then_some(number as u64)
}

fn number(value: &Value) -> Option<f64> {
    value.with_raw(|raw| match raw {
        RawValue::Int32(number) => Some(f64::from(number)),
        RawValue::Int64(number) => Some(number as f64),
        RawValue::Double(number) => Some(number),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    #[test]
    fn heddles_names_are_understood() {
        let status = doc! {
            "connections": { "current": 66 },
            "network": {
                "bytesIn": 5_i64, "bytesOut": 7_i64,
                "serviceExecutorTaskStats": { "executor": "reactor", "threadsRunning": 2_i64 },
                "serviceExecutors": {
                    "reactor": { "threadsRunning": 2_i64 },
                    "adaptive": { "threadsRunning": 4_i64, "threadsInUse": 3_i64, "tasksQueued": 1_i64 },
                },
            },
            "opcounters": { "insert": 3_i64, "deprecated": { "query": 1 } },
            "rocksdb": {
                "cache": { "bytes currently in the cache": 900_i64, "hits": 80_i64, "misses": 20_i64,
                    "bytes read into cache": 11_i64 },
                "memtables": { "unflushed bytes": 33_i64 },
            },
            "mem": { "resident": 300 },
        };
        let found = sample(&status);
        let executor = |name: &str, running, in_use, queued| ExecutorSample {
            name: name.into(),
            threads_running: Some(running),
            threads_in_use: in_use,
            tasks_queued: queued,
        };
        let figures = [
            ("connections", 66),
            ("cacheUsedBytes", 900),
            ("cacheDirtyBytes", 33),
            ("cacheHits", 80),
            ("cacheMisses", 20),
            ("networkInBytes", 5),
            ("networkOutBytes", 7),
            ("diskReadBytes", 11),
        ];
        let expect = ServerSample {
            figures: figures.map(|(key, value)| (key.to_owned(), value.into())).into(),
            executors: vec![executor("reactor", 2, None, None), executor("adaptive", 4, Some(3), Some(1))],
            opcounters: [("insert".to_owned(), 3)].into(),
            extra: [("mem.resident".to_owned(), 300.0)].into(),
            ..ServerSample::default()
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn mongodbs_names_are_understood() {
        let status = doc! {
            "network": { "serviceExecutorTaskStats": { "executor": "passthrough", "threadsRunning": 9 } },
            "wiredTiger": {
                "cache": {
                    "bytes currently in the cache": 1.0, "tracked dirty bytes in the cache": 2.0,
                    "pages requested from the cache": 100, "pages read into cache": 30,
                },
                "block-manager": { "bytes read": 4_i64, "bytes written": 5_i64 },
            },
        };
        let found = sample(&status);
        let keys = [
            "cacheUsedBytes",
            "cacheDirtyBytes",
            "cacheHits",
            "cacheMisses",
            "diskReadBytes",
            "diskWrittenBytes",
        ];
        assert_eq!(keys.map(|key| found.figure(key)), [1, 2, 70, 30, 4, 5].map(Some));
        let executors: Vec<(&str, Option<u64>)> =
            found.executors.iter().map(|one| (one.name.as_str(), one.threads_running)).collect();
        assert_eq!(executors, [("passthrough", Some(9))]);
    }

    #[test]
    fn what_is_absent_or_of_another_type_is_absent() {
        let status = doc! {
            "connections": "many", "network": { "bytesIn": -1, "serviceExecutors": 5 }, "opcounters": 1
        };
        assert_eq!(sample(&status), ServerSample::default());
        assert_eq!(sample(&Document::new()), ServerSample::default());
        assert_eq!(server_info(None, None), ServerInfo::default());
    }

    #[test]
    fn a_server_describes_itself() {
        let build = doc! { "version": "7.0.0", "gitVersion": "abc", "bits": 64 };
        let status = doc! { "version": "6.9", "storageEngine": { "name": "rocksdb" } };
        let info = server_info(Some(&build), Some(&status));
        assert_eq!(
            (info.version.as_deref(), info.storage_engine.as_deref()),
            (Some("7.0.0"), Some("rocksdb"))
        );
        assert_eq!(
            info.build_info,
            serde_json::json!({ "version": "7.0.0", "gitVersion": "abc", "bits": 64 })
        );
        assert_eq!(server_info(None, Some(&status)).version.as_deref(), Some("6.9"));
    }
}
