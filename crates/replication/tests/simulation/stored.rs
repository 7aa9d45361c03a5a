//! A log in a store whose disk loses at a crash what was not synced.

use document::{DocumentBuf, doc};
use replication::{LogEntry, LogEntryKind, LogOptions, OpTime, StoreLog};
use std::sync::{Arc, Mutex};
use storage::{
    Disk, Engine, EngineFailure, EngineHooks, HookedEngine, MemoryEngine, MutationLog, Room, StableImage,
    StorageOptions, Store, WriteUnit,
};

/// What is on the disk, and batches that were written since.
#[derive(Debug, Default)]
struct Journal {
    stable: StableImage,
    tail: Vec<Vec<MutationLog>>,
}

impl Journal {
    fn make_stable(&mut self, batches: usize) {
        for log in self.tail.drain(..batches).flatten() {
            log.iter().for_each(|mutation| self.stable.apply(mutation));
        }
    }
}

struct Recorder(Arc<Mutex<Journal>>);

impl EngineHooks for Recorder {
    fn write(
        &self,
        memory: &MemoryEngine,
        units: &[WriteUnit],
        counters: &MutationLog,
    ) -> Result<u64, EngineFailure> {
        let batch = units.iter().map(WriteUnit::log).chain([counters]).cloned().collect();
        self.0.lock().unwrap().tail.push(batch);
        memory.write(units, counters)
    }
}

struct EndlessDisk;

impl Disk for EndlessDisk {
    fn room(&self) -> std::io::Result<Room> {
        Ok(Room { total: 1 << 40, free: 1 << 39 })
    }

    fn set_reserve(&self, _: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn reserve(&self) -> u64 {
        0
    }
}

/// A store and its disk.
#[derive(Debug)]
pub(crate) struct Stored {
    journal: Arc<Mutex<Journal>>,
    pub(crate) log: StoreLog,
    pub(crate) catalog: Arc<catalog::Catalog>,
    recent_bytes: u64,
}

impl Stored {
    /// An empty one.
    pub(crate) fn new(recent_bytes: u64) -> Self {
        Stored::open(Arc::default(), recent_bytes)
    }

    fn open(journal: Arc<Mutex<Journal>>, recent_bytes: u64) -> Self {
        let memory = journal.lock().unwrap().stable.engine();
        let engine = HookedEngine::new(memory, Arc::new(Recorder(Arc::clone(&journal))));
        let options = StorageOptions { row_cache_bytes: 0, ..StorageOptions::small() };
        let (store, _) = Store::without_threads(Arc::new(engine), Arc::new(EndlessDisk), &options).unwrap();
        let catalog = catalog::Catalog::open(store).unwrap();
        // Segments as small as they get.
        let options = LogOptions { size_bytes: 4096, retention: None, recent_bytes };
        let log = StoreLog::open(&catalog, options).unwrap();
        let mut opened = journal.lock().unwrap();
        let batches = opened.tail.len();
        opened.make_stable(batches);
        drop(opened);
        Stored { journal, log, catalog, recent_bytes }
    }

    /// How many batches are not on the disk.
    pub(crate) fn unsynced(&self) -> usize {
        self.journal.lock().unwrap().tail.len()
    }

    pub(crate) fn sync(&mut self, batches: usize) {
        self.journal.lock().unwrap().make_stable(batches);
    }

    /// All is lost that is not on the disk.
    pub(crate) fn crash(&mut self) {
        self.journal.lock().unwrap().tail.clear();
        *self = Stored::open(Arc::clone(&self.journal), self.recent_bytes);
    }

    /// That the counters, and what a reader of everything sees, are these entries.
    pub(crate) fn check(&self, entries: &[LogEntry]) {
        let operations = entries.iter().filter(|entry| matches!(entry.kind, LogEntryKind::Operation(_)));
        let operations: Vec<_> = operations.map(|entry| entry.data.to_vec()).collect();
        let oplog = self.catalog.collection("local", "oplog.rs").unwrap();
        let bytes = operations.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!((oplog.document_count(), oplog.data_bytes()), (operations.len() as u64, bytes));
        oplog.show_records_through(u64::MAX);
        let view = self.catalog.store().read_view();
        let (forward, options) = (storage::Direction::Forward, storage::CursorOptions::default());
        let mut cursor = oplog.documents(&view, catalog::EncodedRange::default(), forward, options).unwrap();
        for operation in operations {
            let (_, document) = cursor.next().unwrap().expect("another document");
            assert_eq!(document.as_bytes(), operation);
        }
        assert!(cursor.next().unwrap().is_none(), "there are more documents than operations");
    }
}

/// The oplog entry of an operation that says nothing but a number.
pub(crate) fn operation(optime: OpTime, value: u64) -> DocumentBuf {
    let (term, wall) = (optime.term as i64, document::Value::DateTime(0));
    doc! { "value": (value as i64), "ts": (optime.timestamp), "t": term, "v": 2_i64, "wall": wall }.to_buf()
}
