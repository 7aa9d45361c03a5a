//! The store as its users see it: commits, counters, views, latches, crashes, refusals.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod broken;
mod budget;
mod cache;
mod conformance;
mod crash;
mod damage;
mod disk_full;
mod faults;
mod handover;
mod latches;
mod pipeline;
mod proposals;
mod reclaim;
mod refusals;
mod space;
mod turns;
mod views;

use storage::{CommitError, CounterId, Keyspace, Receipt, StorageOptions, Store, WriteUnit};

pub(crate) const COUNT: CounterId = CounterId(7);

/// A unit that puts one document and counts it.
pub(crate) fn document(key: &str) -> WriteUnit {
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Documents, key.as_bytes(), b"document");
    unit.put(Keyspace::Indexes, key.as_bytes(), b"");
    unit.add_counter(COUNT, 1);
    unit
}

pub(crate) fn commit(store: &Store, key: &str) -> Result<Receipt, CommitError> {
    store.commit(document(key)).wait()
}

/// Commits a document and waits until it is on stable storage.
pub(crate) fn journal(store: &Store, key: &str) -> Result<Receipt, CommitError> {
    store.journaled(commit(store, key)?).wait()
}

pub(crate) fn exists(store: &Store, key: &str) -> bool {
    let view = store.read_view();
    let document = view.exists(Keyspace::Documents, key.as_bytes()).unwrap();
    let index = view.exists(Keyspace::Indexes, key.as_bytes()).unwrap();
    assert_eq!(document, index, "{key} is half there");
    document
}

/// Runs `body` on a store in memory and on one in a directory.
pub(crate) fn for_each_store(body: impl Fn(Store)) {
    body(Store::in_memory(&StorageOptions::small()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    body(Store::open(directory.path(), &StorageOptions::small()).unwrap());
}
