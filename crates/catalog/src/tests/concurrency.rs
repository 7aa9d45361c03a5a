//! Many threads on the same documents, keys and names.

use super::*;
use document::doc;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: i32 = 6;

#[test]
fn one_insert_of_a_key_wins() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        index(&catalog, "c", doc! { "key": { "u": 1 }, "name": "u", "unique": true }).expect("an index");
        let (ids_won, keys_won) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (things, ids_won, keys_won) = (&things, &ids_won, &keys_won);
                scope.spawn(move || {
                    for round in 0..100 {
                        let same_id =
                            insert(things, doc! { "_id": round, "u": 1_000_000 * (thread + 1) + round });
                        ids_won.fetch_add(usize::from(same_id.is_ok()), Ordering::Relaxed);
                        let id = 1_000_000 * (thread + 1) + round;
                        let same_key = insert(things, doc! { "_id": id, "u": -1 - round });
                        keys_won.fetch_add(usize::from(same_key.is_ok()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((ids_won.into_inner(), keys_won.into_inner()), (100, 100));
        assert_eq!(things.document_count(), 200);
        assert_valid(&things);
    });
}

#[test]
fn no_update_is_lost() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        index(&catalog, "c", doc! { "key": { "n": 1 }, "name": "n" }).expect("an index");
        insert(&things, doc! { "_id": 1, "n": 0 }).expect("an insert");
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                let things = &things;
                scope.spawn(move || {
                    for _ in 0..200 {
                        update(things, 1, |found| {
                            let count = number(&found.expect("the document"), "n");
                            Some(doc! { "_id": 1, "n": count + 1 })
                        })
                        .expect("an update");
                    }
                });
            }
        });
        assert_eq!(number(&get(&things, 1).expect("the document"), "n"), i64::from(THREADS) * 200);
        assert_eq!(entries(&things, "n"), 1);
        assert_valid(&things);
    });
}

#[test]
fn batches_with_common_keys_do_not_deadlock() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        index(&catalog, "c", doc! { "key": { "u": 1 }, "name": "u", "unique": true }).expect("an index");
        let inserted = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (things, inserted) = (&things, &inserted);
                scope.spawn(move || {
                    let order: Vec<i32> =
                        if thread % 2 == 0 { (0..200).collect() } else { (0..200).rev().collect() };
                    let documents = buffers(order.iter().map(|&id| doc! { "_id": id, "u": 200 - id }));
                    let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
                    let report = block_on(things.insert_many(writing(things), &documents, false));
                    inserted.fetch_add(report.inserted, Ordering::Relaxed);
                    assert_eq!(report.inserted + report.errors.len(), 200);
                });
            }
        });
        assert_eq!((inserted.into_inner(), things.document_count()), (200, 200));
        assert_valid(&things);
    });
}

#[test]
fn implicit_creation_makes_one_collection() {
    on_both_engines(|catalog| {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let catalog = &catalog;
                scope.spawn(move || {
                    insert(&collection(catalog, "c"), doc! { "_id": thread }).expect("an insert")
                });
            }
        });
        assert_eq!(collection(&catalog, "c").document_count(), THREADS as u64);
    });
}

#[test]
fn drops_and_renames_between_writes() {
    on_both_engines(|catalog| {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let catalog = &catalog;
                scope.spawn(move || {
                    for round in 0..200 {
                        match insert(
                            &collection(catalog, "c"),
                            doc! { "_id": thread * 1000 + round, "a": round },
                        ) {
                            Ok(()) => {}
                            Err(error) => assert_eq!(error.code(), 175, "{error}"),
                        }
                    }
                });
            }
            for round in 0..20 {
                let _ = index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" });
                let from = namespace("c");
                match round % 2 {
                    0 => drop(block_on(catalog.drop_collection(changing(&catalog), &from))),
                    _ => drop(block_on(catalog.rename(changing(&catalog), &from, &namespace("kept"), true))),
                }
            }
        });
        for name in ["c", "kept"] {
            if let Some(collection) = catalog.collection("test", name) {
                assert_valid(&collection);
            }
        }
        assert!(catalog.state().collections().count() <= 2);
    });
}
