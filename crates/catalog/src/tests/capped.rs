//! Capped collections.

use super::*;
use document::doc;

fn ids(collection: &Arc<Collection>) -> Vec<i64> {
    all(collection).iter().map(|document| number(document, "_id")).collect()
}

#[test]
fn the_oldest_go_first() {
    on_both_engines(|catalog| {
        create(&catalog, "c", doc! { "capped": true, "size": 1_000_000, "max": 3 }).expect("a collection");
        index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
        let capped = collection(&catalog, "c");
        for id in [5, 1, 4, 2, 3] {
            insert(&capped, doc! { "_id": id, "a": [id, id + 1] }).expect("an insert");
        }
        assert_eq!(ids(&capped), [4, 2, 3], "insertion order");
        assert_eq!((entries(&capped, "a"), entries(&capped, "_id_")), (6, 3));
        assert_eq!(get(&capped, 2), Some(doc! { "_id": 2, "a": [2, 3] }));
        assert_eq!(get(&capped, 5), None);
        assert_write_code(insert(&capped, doc! { "_id": 4 }), 11000);
        insert(&capped, doc! { "_id": 5 }).expect("an _id that was trimmed is free");
        assert_eq!(ids(&capped), [2, 3, 5]);
        assert_valid(&capped);
    });
}

#[test]
fn size_limits() {
    on_both_engines(|catalog| {
        create(&catalog, "c", doc! { "capped": true, "size": 4096 }).expect("a collection");
        let capped = collection(&catalog, "c");
        let pad = "x".repeat(970);
        let documents = buffers((0..10).map(|id| doc! { "_id": id, "pad": pad.as_str() }));
        let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
        assert_eq!(block_on(capped.insert_many(writing(&capped), &documents, true)).inserted, 10);
        assert_eq!(ids(&capped), [6, 7, 8, 9]);
        assert!(capped.data_bytes() <= 4096);
        assert_write_code(insert(&capped, doc! { "_id": 99, "pad": "x".repeat(5000) }), 2);
        let view = capped.store.read_view();
        let key = capped
            .find_document_key(&view, RawValue::Int32(8), ReadTier::Any)
            .expect("a read")
            .expect("a document");
        let grown = doc! { "_id": 8, "pad": "x".repeat(1500) }.to_buf();
        block_on(capped.update(writing(&capped), &key, |_| Ok::<_, WriteError>(Decision::Replace(grown))))
            .expect("an update");
        assert_eq!(ids(&capped), [7, 8, 9], "growth pushes the head out");
        assert_valid(&capped);
    });
}

#[test]
fn waiters_wake_and_positions_are_lost() {
    on_both_engines(|catalog| {
        create(&catalog, "c", doc! { "capped": true, "size": 100_000, "max": 2 }).expect("a collection");
        let capped = collection(&catalog, "c");
        let seen = capped.inserted().generation();
        let waiting = capped.inserted().after(seen);
        insert(&capped, doc! { "_id": 1 }).expect("an insert");
        block_on(waiting);
        let view = capped.store.read_view();
        let position = capped
            .find_document_key(&view, RawValue::Int32(1), ReadTier::Any)
            .expect("a read")
            .expect("a document");
        let check = || capped.check_capped_position(&capped.store.read_view(), &position, ReadTier::Any);
        insert(&capped, doc! { "_id": 2 }).expect("an insert");
        check().expect("the document is still there");
        insert(&capped, doc! { "_id": 3 }).expect("an insert");
        let lost = check().expect_err("1 was trimmed, though all behind it is there");
        assert_eq!(lost.code(), 136);
        assert_eq!(
            lost.to_string(),
            "CollectionScan died due to position in capped collection being deleted. Last seen record id: \
            RecordId(1)"
        );
    });
}
