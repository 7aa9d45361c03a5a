//! What was deleted gives its room back.

use std::time::{Duration, Instant};

use storage::{Direction, KeyRange, Keyspace, StorageOptions, Store, WriteUnit};

const MIB: u64 = 1 << 20;
const VALUE_BYTES: usize = 64 << 10;

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; VALUE_BYTES];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

fn key(collection: u8, number: u32) -> Vec<u8> {
    [&[collection][..], &number.to_be_bytes()].concat()
}

fn put(store: &Store, collection: u8, count: u32) {
    for number in 0..count {
        let mut unit = WriteUnit::new();
        unit.put(
            Keyspace::Documents,
            &key(collection, number),
            &noise(u64::from(number) << 8 | u64::from(collection)),
        );
        store.commit(unit).wait().unwrap();
    }
}

fn bytes(store: &Store, collection: u8) -> u64 {
    store.range_bytes(Keyspace::Documents, &KeyRange::prefix([collection])).total()
}

#[track_caller]
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_dropped_range_gives_its_files_back_and_its_neighbours_stay() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &StorageOptions::small()).unwrap();
    for collection in 1..=3 {
        put(&store, collection, 400);
    }
    store.flush().unwrap();
    store.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
    assert!(bytes(&store, 2) > 20 * MIB);
    let mut reading =
        store.read_view().cursor(Keyspace::Documents, KeyRange::prefix([2]), Direction::Forward).unwrap();
    let mut unit = WriteUnit::new();
    unit.delete_range(Keyspace::Documents, &[2], &[3]);
    store.commit(unit).wait().unwrap();
    assert!(bytes(&store, 2) > 20 * MIB, "the tombstone alone frees nothing");
    store.reclaim(Keyspace::Documents, KeyRange::prefix([2]));
    eventually("the files of the dropped range are gone", || bytes(&store, 2) < 2 * MIB);
    let mut read = 0;
    while reading.next().unwrap().is_some() {
        read += 1;
    }
    assert_eq!(read, 400, "who was reading reads on");
    drop(reading);
    store.close().unwrap();
    drop(store);
    let store = Store::open(directory.path(), &StorageOptions::small()).unwrap();
    for (collection, count) in [(1, 400), (2, 0), (3, 400)] {
        let mut cursor = store
            .read_view()
            .cursor(Keyspace::Documents, KeyRange::prefix([collection]), Direction::Forward)
            .unwrap();
        let mut found = 0;
        while let Some((key, value)) = cursor.next().unwrap() {
            let number = u64::from(u32::from_be_bytes(key[1..].try_into().unwrap()));
            assert_eq!(value, noise(number << 8 | u64::from(collection)));
            found += 1;
        }
        assert_eq!(found, count, "collection {collection}");
    }
}

#[test]
fn a_compaction_ends_between_two_tables_when_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let options = StorageOptions { table_bytes: 2 * MIB, ..StorageOptions::small() };
    let store = Store::open(directory.path(), &options).unwrap();
    for collection in 1..=2 {
        put(&store, collection, 400);
    }
    store.flush().unwrap();
    // How often it asks that is told to end when it has asked so often.
    let asks_until = |end: usize| {
        let mut asked = 0;
        let mut goes_on = || {
            asked += 1;
            asked < end
        };
        store.compact(Keyspace::Documents, &KeyRange::prefix([1]), &mut goes_on).unwrap();
        asked
    };
    asks_until(usize::MAX);
    let tables = asks_until(usize::MAX);
    assert!((5..40).contains(&tables), "{tables} tables for 25 MB");
    assert_eq!((asks_until(1), asks_until(4)), (1, 4));
    assert!(bytes(&store, 1) > 20 * MIB && bytes(&store, 2) > 20 * MIB, "nothing is lost");
}

#[test]
fn many_deletions_give_their_room_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &StorageOptions::small()).unwrap();
    put(&store, 1, 400);
    store.flush().unwrap();
    store.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
    for number in 0..400 {
        let mut unit = WriteUnit::new();
        unit.delete(Keyspace::Documents, &key(1, number));
        store.commit(unit).wait().unwrap();
    }
    assert!(bytes(&store, 1) > 20 * MIB);
    store.flush().unwrap();
    eventually("the deleted documents are gone from the files", || bytes(&store, 1) < MIB);
}

#[test]
fn an_idle_store_gives_back_what_was_deleted_among_other_writes() {
    let directory = tempfile::tempdir().unwrap();
    let options = StorageOptions { flush_interval: Duration::from_secs(1), ..StorageOptions::small() };
    let store = Store::open(directory.path(), &options).unwrap();
    put(&store, 1, 400);
    store.flush().unwrap();
    store.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
    store.defer_compaction(true).unwrap();
    // Half deletions: RocksDB waits for more tables.
    for number in 0..400 {
        let mut unit = WriteUnit::new();
        unit.delete(Keyspace::Documents, &key(1, number));
        unit.put(Keyspace::Documents, &key(2, number), b"small");
        store.commit(unit).wait().unwrap();
    }
    eventually("all that was written is in tables", || {
        let engine = store.statistics().engine;
        engine.pressure.level0_files == 1 && engine.memtable_unflushed_bytes < MIB / 4
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(bytes(&store, 1) > 20 * MIB, "the calendar puts it off");
    store.defer_compaction(false).unwrap();
    eventually("the deleted documents are gone from the files", || bytes(&store, 1) < MIB);
    assert!(store.read_view().exists(Keyspace::Documents, &key(2, 399)).unwrap());
}
