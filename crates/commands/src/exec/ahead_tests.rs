//! Walks over what lies on a slow disk, and what is read ahead of them.

use crate::testing::{TestClient, server_on};
use document::{Document, Value, doc};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::{
    Engine, EngineHooks, EngineReader, HookedEngine, Keyspace, MemoryEngine, PinnedBytes, ReadTier,
    StorageError, StorageOptions, Store,
};

const DOCUMENTS: i32 = 300;

/// A disk on which each read of a document takes long the first time.
#[derive(Default)]
struct SlowDisk {
    in_memory: Mutex<HashSet<Vec<u8>>>,
    /// First reads by the walk itself.
    waits: AtomicU64,
}

fn reads_ahead() -> bool {
    std::thread::current().name() == Some("heddle-ahead")
}

impl EngineHooks for SlowDisk {
    fn get(
        &self,
        reader: &dyn EngineReader,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        if keyspace == Keyspace::Documents && self.in_memory.lock().insert(key.to_vec()) {
            std::thread::sleep(Duration::from_millis(1));
            self.waits.fetch_add(u64::from(!reads_ahead()), Ordering::SeqCst);
        }
        reader.get(keyspace, key, tier)
    }

    fn before_seek(&self, keyspace: Keyspace) {
        if keyspace == Keyspace::Documents {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

struct Slow {
    disk: Arc<SlowDisk>,
    client: TestClient,
    store: Store,
}

impl Slow {
    fn new() -> Self {
        let disk = Arc::new(SlowDisk::default());
        let engine: Arc<dyn Engine> = Arc::new(HookedEngine::new(MemoryEngine::new(), Arc::clone(&disk)));
        let options = StorageOptions { row_cache_bytes: 0, ..StorageOptions::small() };
        let store = Store::with_engine(engine, &options).expect("memory is to be had");
        let server = server_on(store.clone());
        let client = TestClient::of(&server);
        let index = doc! { "key": { "a": 1 }, "name": "a_1" };
        let indexes = Value::Array(vec![index.into()].into());
        client.run(doc! { "createIndexes": "c", "indexes": indexes });
        let documents: Vec<Value> = (0..DOCUMENTS)
            .map(|id| doc! { "_id": id, "a": ((id * 7) % DOCUMENTS), "b": (id % 2) }.into())
            .collect();
        client.run(doc! { "insert": "c", "documents": (Value::Array(documents.into())) });
        disk.in_memory.lock().clear();
        disk.waits.store(0, Ordering::SeqCst);
        Slow { disk, client, store }
    }

    /// The `a` of what is found.
    fn find(&self, filter: Document) -> Vec<Value> {
        let command = doc! { "find": "c", "filter": filter, "batchSize": 1000 };
        let (reply, _) = self.client.run(command);
        let Some(Value::Document(cursor)) = reply.get("cursor") else { panic!("{reply:?}") };
        let Some(Value::Array(batch)) = cursor.get("firstBatch") else { panic!("{reply:?}") };
        let a = |found: &Value| found.as_document().and_then(|found| found.get("a")).cloned();
        batch.iter().map(|found| a(found).expect("it has one")).collect()
    }

    fn asked(&self) -> u64 {
        self.store.statistics().read_ahead.asked
    }
}

#[test]
fn documents_that_an_index_leads_to_are_read_ahead() {
    let slow = Slow::new();
    let all: Vec<Value> = (0..DOCUMENTS).map(Value::from).collect();
    assert_eq!(slow.find(doc! { "a": { "$gte": 0 } }), all);
    let (waits, asked) = (slow.disk.waits.load(Ordering::SeqCst), slow.asked());
    assert!(asked >= 250, "{asked} of {DOCUMENTS} were asked for");
    assert!(waits < 150, "the walk itself waited {waits} times");
    assert_eq!(slow.disk.in_memory.lock().len(), 300, "nothing else was read");
    // What is in memory is not asked for.
    assert_eq!(slow.find(doc! { "a": { "$gte": 0 } }), all);
    assert!(slow.asked() - asked <= 8, "{} more", slow.asked() - asked);
}

#[test]
fn what_is_not_wanted_is_not_read_ahead() {
    let slow = Slow::new();
    let wanted: Vec<Value> = (0..DOCUMENTS).step_by(3).map(Value::from).collect();
    let list = Value::Array(wanted.clone().into());
    assert_eq!(slow.find(doc! { "a": { "$in": list } }), wanted);
    assert!(slow.asked() >= 60, "{} were asked for", slow.asked());
    assert_eq!(slow.disk.in_memory.lock().len(), 100, "what the index is left for is not read");
    let few = Slow::new();
    assert_eq!(few.find(doc! { "a": { "$lt": 2 } }).len(), 2);
    assert_eq!(few.asked(), 0, "two are not waited for often enough");
}

#[test]
fn each_of_a_list_of_ids_is_read_ahead() {
    let slow = Slow::new();
    let ids: Vec<Value> = (0..DOCUMENTS).step_by(2).map(Value::from).collect();
    let found = slow.find(doc! { "_id": { "$in": (Value::Array(ids.into())) } });
    assert_eq!(found.len(), 150);
    assert!(slow.asked() >= 120, "{} were asked for", slow.asked());
    let read = slow.disk.in_memory.lock().len();
    assert!((120..=150).contains(&read), "{read} were read, and no others");
}
