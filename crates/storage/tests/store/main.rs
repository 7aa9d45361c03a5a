//! The store as its users see it: commits, counters, views, latches, crashes, refusals.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]
#![expect(clippy::duplicate_mod, reason = "some tests are made on encrypted stores as well")]

mod broken;
mod budget;
mod cache;
mod conformance;
mod crash;
mod damage;
mod disk_full;
#[path = "crash.rs"]
mod encrypted_crash;
#[path = "damage.rs"]
mod encrypted_damage;
mod encryption;
mod faults;
mod handover;
mod latches;
mod pipeline;
mod proposals;
mod reclaim;
mod refusals;
mod rotation;
mod space;
mod turns;
mod views;

use storage::{CommitError, CounterId, Keyspace, MasterKey, Receipt, StorageOptions, Store, WriteUnit};

pub(crate) const COUNT: CounterId = CounterId(7);

/// How a store is encrypted.
pub(crate) fn encrypted() -> StorageOptions {
    let key = MasterKey::parse("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=").unwrap();
    StorageOptions { master_key: Some(key), ..StorageOptions::small() }
}

/// Of the stores that a module tests.
pub(crate) fn options_of(module: &str) -> StorageOptions {
    if module.contains("encrypted") { encrypted() } else { StorageOptions::small() }
}

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

/// Runs `body` on a store in memory and on those in directories, in the clear and encrypted.
pub(crate) fn for_each_store(body: impl Fn(Store)) {
    body(Store::in_memory(&StorageOptions::small()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    body(Store::open(directory.path(), &StorageOptions::small()).unwrap());
    let directory = tempfile::tempdir().unwrap();
    body(Store::open(directory.path(), &encrypted()).unwrap());
}
