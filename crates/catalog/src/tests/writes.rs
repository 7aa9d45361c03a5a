//! Inserts, updates and deletes of single documents and batches.

use super::*;
use crate::FoundDocuments;
use document::doc;
use query::{QueryError, checkpoint};
use std::pin::Pin;

#[test]
fn documents_come_back() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        insert(&things, doc! { "_id": 1, "a": "x" }).expect("an insert");
        insert(&things, doc! { "a": "y", "_id": 2 }).expect("an insert");
        insert(&things, doc! { "a": "z" }).expect("an insert");
        assert_eq!(get(&things, 1), Some(doc! { "_id": 1, "a": "x" }));
        assert_eq!(get(&things, 2), Some(doc! { "_id": 2, "a": "y" }), "_id comes first");
        assert_eq!(things.document_count(), 3);
        assert_write_code(insert(&things, doc! { "_id": 1.0 }), 11000);
        assert!(update(&things, 1, |_| Some(doc! { "_id": 1, "a": "longer" })).expect("an update"));
        assert!(
            !update(&things, 1, |found| found).expect("an update"),
            "an unchanged document is not written"
        );
        assert_write_code(update(&things, 1, |_| Some(doc! { "_id": 3 })), 66);
        assert!(update(&things, 2, |_| None).expect("a delete"));
        assert_eq!((get(&things, 2), things.document_count()), (None, 2));
        assert!(
            update(&things, 9, |found| found.is_none().then(|| doc! { "_id": 9, "new": true }))
                .expect("an upsert")
        );
        assert_eq!(get(&things, 9), Some(doc! { "_id": 9, "new": true }));
        assert_valid(&things);
    });
}

#[test]
fn a_duplicate_tells_its_key() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        index(&catalog, "things", doc! { "key": { "a": 1, "b": -1 }, "name": "ab", "unique": true })
            .expect("an index");
        insert(&things, doc! { "_id": 1, "a": 1, "b": "x" }).expect("an insert");
        let error = insert(&things, doc! { "_id": 2, "a": 1, "b": "x" }).expect_err("a duplicate");
        assert_eq!(
            error.to_string(),
            "E11000 duplicate key error collection: test.things index: ab dup key: { a: 1, b: \"x\" }"
        );
        let WriteError::DuplicateKey(duplicate) = error else { panic!("not a duplicate: {error}") };
        assert_eq!(duplicate.key_pattern, doc! { "a": 1, "b": -1 });
        assert_eq!(duplicate.key_value, doc! { "a": 1, "b": "x" });
        let error = insert(&things, doc! { "_id": 1 }).expect_err("a duplicate").to_string();
        assert_eq!(
            error,
            "E11000 duplicate key error collection: test.things index: _id_ dup key: { _id: 1 }"
        );
        insert(&things, doc! { "_id": 3, "a": 1, "b": "y" }).expect("another key");
        assert_write_code(update(&things, 3, |_| Some(doc! { "_id": 3, "a": 1, "b": "x" })), 11000);
        assert_eq!(
            get(&things, 3),
            Some(doc! { "_id": 3, "a": 1, "b": "y" }),
            "a refused update changes nothing"
        );
        assert!(
            update(&things, 1, |_| Some(doc! { "_id": 1, "a": 1, "b": "x", "c": 1 })).expect("its own key")
        );
        assert_eq!(entries(&things, "ab"), 2);
        assert_valid(&things);
    });
}

#[test]
fn batches_report_each_document() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        index(&catalog, "things", doc! { "key": { "u": 1 }, "name": "u", "unique": true, "sparse": true })
            .expect("an index");
        let batch = || {
            buffers([
                doc! { "_id": 1, "u": 1 },
                doc! { "_id": 1 },
                doc! { "_id": 2, "u": 1 },
                doc! { "_id": [1] },
                doc! { "_id": 3, "u": 3 },
            ])
        };
        let run = |ordered: bool| {
            let documents = batch();
            let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
            let report = block_on(things.insert_many(writing(&things), &documents, ordered));
            (report.inserted, report.errors.iter().map(|(at, error)| (*at, error.code())).collect::<Vec<_>>())
        };
        assert_eq!(run(true), (1, vec![(1, 11000)]));
        assert!(update(&things, 1, |_| None).expect("a delete"));
        assert_eq!(run(false), (2, vec![(1, 11000), (2, 11000), (3, 53)]));
        assert_eq!(all(&things), [doc! { "_id": 1, "u": 1 }, doc! { "_id": 3, "u": 3 }]);
        assert_valid(&things);
    });
}

#[test]
fn large_batches_span_units() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        let documents = buffers((0..3000).map(|id| doc! { "_id": id, "pad": "x".repeat(100) }));
        let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
        let report = block_on(things.insert_many(writing(&things), &documents, true));
        assert_eq!((report.inserted, report.errors.len(), things.document_count()), (3000, 0, 3000));
        assert_valid(&things);
    });
}

#[test]
fn index_entries_follow_their_documents() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        index(&catalog, "things", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
        insert(&things, doc! { "_id": 1, "a": [1, 2, 3] }).expect("an insert");
        let definition = things.definition();
        assert!(definition.index("a").expect("the index").is_multikey());
        assert_eq!(entries(&things, "a"), 3);
        update(&things, 1, |_| Some(doc! { "_id": 1, "a": [2, 2.0, 7] })).expect("an update");
        assert_eq!(entries(&things, "a"), 2, "2 and 2.0 are one key");
        update(&things, 1, |_| Some(doc! { "_id": 1, "a": 2i64 })).expect("an update");
        assert_valid(&things);
        update(&things, 1, |_| Some(doc! { "_id": 1, "a": 2.0 })).expect("an update of the type alone");
        assert_valid(&things);
        update(&things, 1, |_| None).expect("a delete");
        assert_eq!(entries(&things, "a"), 0);
        assert_valid(&things);
    });
}

#[test]
fn validators() {
    on_both_engines(|catalog| {
        create(&catalog, "strict", doc! { "validator": { "a": { "$gt": 0 } } }).expect("a collection");
        let strict = collection(&catalog, "strict");
        assert_write_code(insert(&strict, doc! { "_id": 1, "a": 0 }), 121);
        insert(&strict, doc! { "_id": 1, "a": 1 }).expect("a good document");
        assert_write_code(update(&strict, 1, |_| Some(doc! { "_id": 1, "a": -1 })), 121);
        let bypass = OperationContext { bypass_validation: true, ..*writing(&strict) };
        block_on(strict.insert(&bypass, doc! { "_id": 2, "a": -5 }.to_buf().as_raw())).expect("a bypass");
        let change = doc! { "validationLevel": "moderate" };
        block_on(catalog.coll_mod(changing(&catalog), &namespace("strict"), change.to_buf().as_raw()))
            .expect("collMod");
        update(&strict, 2, |_| Some(doc! { "_id": 2, "a": -6 })).expect("it did not pass before");
        assert_write_code(update(&strict, 1, |_| Some(doc! { "_id": 1, "a": -1 })), 121);
        let change = doc! { "validationAction": "warn" };
        block_on(catalog.coll_mod(changing(&catalog), &namespace("strict"), change.to_buf().as_raw()))
            .expect("collMod");
        insert(&strict, doc! { "_id": 3, "a": -1 }).expect("only a warning");
    });
}

#[test]
fn a_validator_that_is_ended_amid_the_old_document_has_not_found_it_invalid() {
    struct Ended;
    impl checkpoint::Watch for Ended {
        fn look(&self) -> Result<(), QueryError> {
            Err(QueryError::new(11601, "operation was interrupted"))
        }
        fn ended(self: Arc<Self>) -> Pin<Box<dyn Future<Output = QueryError> + Send>> {
            Box::pin(std::future::pending())
        }
    }
    on_both_engines(|catalog| {
        let positive = doc! { "$filter": { "input": "$a", "cond": { "$gt": ["$$this", 0] } } };
        let validator = doc! { "$expr": { "$ne": [positive, []] } };
        let options = doc! { "validator": validator, "validationLevel": "moderate" };
        create(&catalog, "moderate", options).expect("a collection");
        let moderate = collection(&catalog, "moderate");
        let mut long = vec![Value::Int32(0); 20_000];
        long.push(Value::Int32(1));
        insert(&moderate, doc! { "_id": 1, "a": Value::Array(long.into()) }).expect("a good document");
        let _watched = checkpoint::watch(Arc::new(Ended));
        assert_write_code(update(&moderate, 1, |_| Some(doc! { "_id": 1, "a": [-1] })), 11601);
    });
}

#[test]
fn cursors_seek_and_turn() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        for id in 0..10 {
            insert(&things, doc! { "_id": id, "a": id % 3 }).expect("an insert");
        }
        let view = things.store.read_view();
        let mut cursor = things
            .documents(&view, Default::default(), Direction::Backward, CursorOptions::default())
            .expect("a cursor");
        cursor.seek(&Collection::document_key_of_id(RawValue::Int32(4)));
        let (key, document) = cursor.next().expect("a read").expect("a document");
        assert_eq!(key, Collection::document_key_of_id(RawValue::Int32(4)));
        assert_eq!(number(&document.to_document(), "_id"), 4);
        let next = cursor.next().expect("a read").expect("a document").1.to_document();
        assert_eq!(number(&next, "_id"), 3);
    });
}

#[test]
fn a_store_that_fails_leaves_no_document_of_a_batch_untold() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        let documents = buffers((0..1200).map(|id| match id {
            700 => doc! { "_id": [1] },
            id => doc! { "_id": id },
        }));
        let documents: Vec<RawDocument<'_>> = documents.iter().map(DocumentBuf::as_raw).collect();
        catalog.store().close().expect("a closed store");
        let told = |ordered: bool| -> Vec<(usize, bool)> {
            let report = block_on(things.insert_many(writing(&things), &documents, ordered));
            assert_eq!(report.inserted, 0);
            let failed =
                |error: &WriteError| matches!(error, WriteError::Commit(storage::CommitError::Closed));
            report.errors.iter().map(|(position, error)| (*position, failed(error))).collect()
        };
        assert_eq!(told(true), [(0, true)], "the first one ends an ordered batch");
        let all: Vec<_> = (0..1200).map(|position| (position, true)).collect();
        assert_eq!(told(false), all);
        let documents = &documents[690..710];
        let report = block_on(things.insert_many(writing(&things), documents, true));
        let positions: Vec<usize> = report.errors.iter().map(|(position, _)| *position).collect();
        assert_eq!(positions, [0], "what was wrong with a later one is not told: the unit failed before");
        let report = block_on(things.insert_many(writing(&things), documents, false));
        let codes: Vec<(usize, bool)> =
            report.errors.iter().map(|(position, error)| (*position, error.code() == 53)).collect();
        assert_eq!(codes, (0..20).map(|position| (position, position == 10)).collect::<Vec<_>>());
    });
}

#[test]
fn what_was_written_since_it_was_found_is_read_again() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "things");
        for id in 0..3 {
            insert(&things, doc! { "_id": id, "n": 0 }).expect("an insert");
        }
        let mut found = FoundDocuments::default();
        let as_of = things.store.read_view().sequence();
        for id in 0..4 {
            let seen = get(&things, id).map(|seen| seen.to_buf());
            let seen = seen.as_ref().map(|seen| (seen.as_raw(), as_of));
            found.push(&things, &Collection::document_key_of_id(RawValue::Int32(id)), seen);
        }
        update(&things, 1, |_| Some(doc! { "_id": 1, "n": 10 })).expect("an update");
        update(&things, 2, |_| None).expect("a delete");
        let mut shown = Vec::new();
        let add_one = |document: Option<RawDocument<'_>>, is_as_seen: bool| {
            let document = document.map(RawDocument::to_document);
            shown.push((document.as_ref().map(|document| number(document, "n")), is_as_seen));
            let Some(document) = document else { return Ok::<_, WriteError>(Decision::Keep) };
            let (id, n) = (number(&document, "_id") as i32, number(&document, "n") as i32);
            Ok(Decision::Replace(doc! { "_id": id, "n": (n + 1) }.to_buf()))
        };
        let (settled, result) = block_on(things.update_many(writing(&things), &found, 0, add_one));
        result.expect("a unit");
        assert_eq!(settled, 4);
        assert_eq!(shown, [(Some(0), true), (Some(10), false), (None, false), (None, false)]);
        assert_eq!(all(&things), [doc! { "_id": 0, "n": 1 }, doc! { "_id": 1, "n": 11 }]);
        assert_valid(&things);
    });
}
