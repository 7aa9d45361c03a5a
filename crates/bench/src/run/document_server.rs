//! A server for tests that keeps documents in memory and knows just enough commands to load and ask for them.

use crate::generator::fake_server::{Answer, FakeServer, Seen};
use crate::message::reply_body;
use document::{Document, Value, array, doc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What the server has and what it was asked.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// By their keys in words.
    pub(crate) documents: BTreeMap<String, Document>,
    /// How often each command came; `find` with `$in` counts as `look`.
    pub(crate) commands: BTreeMap<String, u64>,
    /// After so many inserted documents every connection ends at its next insert.
    pub(crate) dies_at: Option<usize>,
    /// Every insert is refused with this code.
    pub(crate) refuses_with: Option<i32>,
    /// So many batches are refused as overload before one is taken.
    pub(crate) overloads: u64,
    pub(crate) indexes: Vec<Value>,
}

pub(crate) struct DocumentServer {
    pub(crate) server: FakeServer,
    pub(crate) store: Arc<Mutex<Store>>,
}

impl DocumentServer {
    pub(crate) fn start(store: Store) -> Self {
        DocumentServer::watched(store, |_| ())
    }

    /// `watch` sees the store after each request.
    pub(crate) fn watched(store: Store, watch: impl Fn(&Store) + Send + Sync + 'static) -> Self {
        let store = Arc::new(Mutex::new(store));
        let kept = Arc::clone(&store);
        let server = FakeServer::start(move |seen| {
            let mut store = kept.lock().expect("no panic");
            let answer = store.answer(seen);
            watch(&store);
            answer
        });
        DocumentServer { server, store }
    }

    pub(crate) fn uri(&self) -> String {
        format!("mongodb://{}", self.server.address)
    }

    pub(crate) fn count(&self) -> usize {
        self.store.lock().expect("no panic").documents.len()
    }

    pub(crate) fn times(&self, command: &str) -> u64 {
        self.store.lock().expect("no panic").commands.get(command).copied().unwrap_or_default()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Store)) {
        change(&mut self.store.lock().expect("no panic"));
    }
}

/// A key in words that sort as the keys do.
fn word(key: &Value) -> String {
    match key {
        Value::Int64(number) => format!("{number:020}"),
        Value::String(text) => text.clone(),
        other => panic!("no key of a workload: {other:?}"),
    }
}

impl Store {
    fn answer(&mut self, seen: &Seen) -> Answer {
        let body = reply_body(&seen.message).expect("a command").to_document();
        let name = body.first().map(|(name, _)| name.to_owned()).expect("a command has a name");
        let filter = body.get("filter").and_then(Value::as_document).cloned().unwrap_or_default();
        let looks = filter.get("_id").and_then(Value::as_document).is_some_and(|id| id.contains("$in"));
        *self.commands.entry(if looks { "look".to_owned() } else { name.clone() }).or_default() += 1;
        match name.as_str() {
            "insert" => self.insert(&body),
            "find" => Answer::Reply(self.find(&filter, body.get("limit"))),
            "update" => Answer::Reply(self.update(&body)),
            "count" => Answer::Reply(doc! { "n": (self.documents.len() as i32), "ok": 1.0 }),
            "drop" => {
                self.documents.clear();
                Answer::Reply(doc! { "ok": 1.0 })
            }
            "createIndexes" => {
                self.indexes = body.get("indexes").and_then(Value::as_array).unwrap_or_default().to_vec();
                Answer::Reply(doc! { "ok": 1.0 })
            }
            "hello" => Answer::Reply(doc! { "isWritablePrimary": true, "maxWireVersion": 21, "ok": 1.0 }),
            _ => Answer::Reply(doc! { "ok": 1.0 }),
        }
    }

    fn insert(&mut self, body: &Document) -> Answer {
        if self.dies_at.is_some_and(|limit| self.documents.len() >= limit) {
            return Answer::Last(Vec::new());
        }
        if self.overloads > 0 {
            self.overloads -= 1;
            return Answer::Reply(doc! { "ok": 0.0, "code": 462, "errorLabels": ["RetryableError"] });
        }
        let documents = body.get("documents").and_then(Value::as_array).expect("documents");
        let mut errors = array![];
        let mut inserted = 0;
        for (index, document) in documents.iter().enumerate() {
            let document = document.as_document().expect("a document");
            let key = word(document.get("_id").expect("_id"));
            let code = if self.documents.contains_key(&key) { Some(11_000) } else { self.refuses_with };
            match code {
                Some(code) => errors.push(doc! { "index": (index as i32), "code": code }.into()),
                None => {
                    self.documents.insert(key, document.clone());
                    inserted += 1;
                }
            }
        }
        let mut reply = doc! { "n": inserted, "ok": 1.0 };
        if !errors.is_empty() {
            reply.push("writeErrors", errors);
        }
        Answer::Reply(reply)
    }

    fn find(&self, filter: &Document, limit: Option<&Value>) -> Document {
        let limit = match limit {
            Some(Value::Int32(limit)) => *limit as usize,
            Some(Value::Int64(limit)) => *limit as usize,
            _ => usize::MAX,
        };
        let found: Vec<Value> = match filter.get("_id") {
            None => self.documents.values().take(limit).cloned().map(Value::from).collect(),
            Some(Value::Document(condition)) => match condition.first() {
                Some(("$in", Value::Array(keys))) => keys
                    .iter()
                    .filter_map(|key| self.documents.get(&word(key)))
                    .cloned()
                    .map(Value::from)
                    .collect(),
                Some(("$gte", key)) => self
                    .documents
                    .range(word(key)..)
                    .take(limit)
                    .map(|(_, found)| found.clone().into())
                    .collect(),
                other => panic!("unknown condition {other:?}"),
            },
            Some(key) => self.documents.get(&word(key)).cloned().map(Value::from).into_iter().collect(),
        };
        doc! { "cursor": { "firstBatch": found, "id": 0_i64, "ns": "a.b" }, "ok": 1.0 }
    }

    fn update(&self, body: &Document) -> Document {
        let update = body.get("updates").and_then(Value::as_array).and_then(|updates| updates.first());
        let query = update.and_then(Value::as_document).and_then(|update| update.get("q"));
        let key = query.and_then(Value::as_document).and_then(|query| query.get("_id")).expect("a key");
        let n = i32::from(self.documents.contains_key(&word(key)));
        doc! { "n": n, "nModified": n, "ok": 1.0 }
    }
}
