//! Sizes before anything is flushed, after it, and after a restart.

use super::*;
use document::doc;

const DOCUMENTS: i32 = 2000;

fn filled(catalog: &Catalog) -> Arc<Collection> {
    let things = collection(catalog, "c");
    for id in 0..DOCUMENTS {
        let text = format!("{:0>100}", id.wrapping_mul(0x9e37_79b9_u32 as i32));
        insert(&things, doc! { "_id": id, "a": text, "b": id }).expect("an insert");
    }
    things
}

#[track_caller]
fn assert_plausible(things: &Collection) {
    let figures = things.statistics(&things.store.read_view());
    assert_eq!(figures.documents, DOCUMENTS as u64);
    assert_eq!(figures.document_bytes_mean, figures.data_bytes / figures.documents);
    let stored = figures.storage_bytes;
    assert!((figures.data_bytes / 20..figures.data_bytes * 3 / 2).contains(&stored), "{figures:?}");
    for index in &figures.indexes {
        assert!((1..=figures.data_bytes * 2).contains(&index.bytes), "{figures:?}");
    }
}

#[test]
fn sizes_are_known_before_the_first_flush_and_after_a_restart() {
    on_both_engines(|catalog| {
        let things = filled(&catalog);
        index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
        assert_plausible(&things);
        let of_text = things.statistics(&things.store.read_view()).indexes[1].bytes;
        assert!(
            of_text > 100 * DOCUMENTS as u64 / 4,
            "2000 entries of 100 bytes: {:?}",
            things.statistics(&things.store.read_view())
        );
    });
    let directory = tempfile::tempdir().expect("a directory");
    let open = || {
        let store = Store::open(directory.path(), &StorageOptions::small()).expect("a store");
        Catalog::open(store).expect("a catalog")
    };
    let catalog = open();
    assert_plausible(&filled(&catalog));
    catalog.store().close().expect("a closed store");
    drop(catalog);
    assert_plausible(&open().collection("test", "c").expect("the collection"));
}

#[test]
fn an_empty_collection_takes_nothing_and_one_document_something() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a", "sparse": true }).expect("an index");
        let empty = things.statistics(&things.store.read_view());
        assert_eq!((empty.storage_bytes, empty.index_bytes()), (0, 0));
        insert(&things, doc! { "_id": 1 }).expect("an insert");
        let figures = things.statistics(&things.store.read_view());
        assert!(figures.storage_bytes > 0, "{figures:?}");
        assert!(figures.indexes.iter().all(|index| index.bytes > 0), "{figures:?}");
    });
}

#[test]
fn what_was_overwritten_is_not_counted() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        insert(&things, doc! { "_id": 1, "n": 0, "text": ("x".repeat(1000)) }).expect("an insert");
        for n in 1..200 {
            update(&things, 1, |_| Some(doc! { "_id": 1, "n": n, "text": ("x".repeat(1000)) }))
                .expect("an update");
        }
        let figures = things.statistics(&things.store.read_view());
        assert!(figures.storage_bytes < 10_000, "one document of about a kilobyte: {figures:?}");
    });
}
