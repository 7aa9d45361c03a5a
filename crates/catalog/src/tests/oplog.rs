//! The oplog.

use super::*;
use crate::EncodedRange;
use document::{Timestamp, doc};
use storage::WriteUnit;

fn oplog(catalog: &Catalog) -> Arc<Collection> {
    block_on(catalog.create_oplog(changing(catalog), 4096)).expect("the oplog")
}

/// An operation at each of these records, whose timestamp is the tenfold.
fn put(oplog: &Collection, records: &[u64]) {
    let documents = buffers(records.iter().map(|record| {
        doc! { "op": "n", "ts": (Timestamp { time: *record as u32 * 10, increment: 1 }) }
    }));
    let mut unit = WriteUnit::new();
    oplog.put_records(&mut unit, records.iter().copied().zip(documents.iter().map(DocumentBuf::as_raw)));
    oplog.store.commit(unit).wait().expect("a write");
}

fn remove(oplog: &Collection, records: std::ops::Range<u64>, documents: u64, bytes: u64) {
    let mut unit = WriteUnit::new();
    oplog.remove_records(&mut unit, records, documents, bytes);
    oplog.store.commit(unit).wait().expect("a write");
}

/// What a reader sees, one way and back.
fn shown(oplog: &Arc<Collection>) -> Vec<u64> {
    let walk = |direction| {
        let view = oplog.store.read_view();
        let mut cursor = oplog
            .documents(&view, EncodedRange::default(), direction, CursorOptions::default())
            .expect("a cursor");
        let mut found = Vec::new();
        while let Some((key, _)) = cursor.next().expect("a document") {
            found.push(u64::from_be_bytes(key.try_into().expect("a record id")));
        }
        found
    };
    let forward = walk(Direction::Forward);
    assert!(walk(Direction::Backward).iter().rev().eq(&forward), "a walk back sees the same");
    forward
}

#[test]
fn readers_see_what_the_owner_shows() {
    on_both_engines(|catalog| {
        let oplog = oplog(&catalog);
        put(&oplog, &[2, 3, 5, 6, 9]);
        assert_eq!(shown(&oplog), [2, 3, 5, 6, 9], "without an owner everything");
        oplog.show_records_through(4);
        assert_eq!(shown(&oplog), [2, 3]);
        let seen = oplog.inserted().generation();
        let waiting = oplog.inserted().after(seen);
        oplog.show_records_through(6);
        block_on(waiting);
        assert_eq!(shown(&oplog), [2, 3, 5, 6]);
        let bytes = oplog.data_bytes() / 5;
        remove(&oplog, 0..4, 2, 2 * bytes);
        assert_eq!((shown(&oplog), oplog.document_count()), (vec![5, 6], 3));
        remove(&oplog, 6..u64::MAX, 2, 2 * bytes);
        assert_eq!((shown(&oplog), oplog.data_bytes()), (vec![5], bytes));
        assert_valid(&oplog);
    });
}

#[test]
fn a_timestamp_is_found() {
    on_both_engines(|catalog| {
        let oplog = oplog(&catalog);
        let find = |time| {
            let (view, timestamp) = (oplog.store.read_view(), Timestamp { time, increment: 1 });
            oplog.record_since(&view, timestamp, ReadTier::Any).expect("a search").map(|(record, _)| record)
        };
        assert_eq!(find(0), None);
        let records: Vec<u64> =
            (1..200).filter(|record| record % 7 != 3 && !(50..90).contains(record)).collect();
        put(&oplog, &records);
        oplog.show_records_through(150);
        for time in 0..1600 {
            let since = |record: &&u64| **record * 10 >= u64::from(time) && **record <= 150;
            let expected = records.iter().find(since).unwrap_or(&149);
            assert_eq!(find(time), Some(*expected), "{time}");
        }
    });
}

#[test]
fn only_its_owner_changes_it() {
    on_both_engines(|catalog| {
        let oplog = oplog(&catalog);
        put(&oplog, &[1]);
        assert_write_code(insert(&oplog, doc! { "_id": 1 }), 73);
        let code = |refused: Result<(), CatalogError>| refused.expect_err("it is refused").code();
        let (context, name) = (changing(&catalog), Namespace::new("local", "oplog.rs"));
        assert_eq!(code(block_on(catalog.drop_collection(context, &name)).map(drop)), 5_255_000);
        assert_eq!(code(block_on(catalog.drop_database(context, "local")).map(drop)), 20);
        assert_eq!(code(block_on(catalog.rename(context, &name, &namespace("c"), false))), 20);
        create(&catalog, "c", doc! {}).expect("a collection");
        assert_eq!(code(block_on(catalog.rename(context, &namespace("c"), &name, true))), 20);
        let spec = IndexSpec::parse(doc! { "key": { "ts": 1 }, "name": "ts" }.to_buf().as_raw());
        let created = block_on(catalog.create_indexes(context, &name, &[spec.expect("an index")]));
        assert_eq!(code(created.map(drop)), 67);
        assert_eq!(shown(&oplog), [1]);
    });
}

#[test]
fn it_is_the_same_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let open = || {
        let store = Store::open(&path, &StorageOptions::small()).expect("a store");
        Catalog::open(store).expect("a catalog")
    };
    let catalog = open();
    let uuid = oplog(&catalog).uuid();
    put(&oplog(&catalog), &[7]);
    catalog.store().close().expect("it closes");
    drop(catalog);
    let catalog = open();
    let oplog = oplog(&catalog);
    assert_eq!((oplog.uuid(), shown(&oplog), oplog.document_count()), (uuid, vec![7], 1));
    assert!(oplog.definition().indexes.is_empty());
}

#[test]
fn a_collection_of_a_client_is_not_taken_for_it() {
    on_both_engines(|catalog| {
        let options = CollectionOptions::parse(doc! { "capped": true, "size": 4096 }.to_buf().as_raw());
        let name = Namespace::new("local", "oplog.rs");
        let made = block_on(catalog.create(changing(&catalog), &name, options.expect("options")));
        made.expect("a collection");
        let found = block_on(catalog.create_oplog(changing(&catalog), 4096));
        assert_eq!(found.expect_err("it is refused").code(), 48);
    });
}
