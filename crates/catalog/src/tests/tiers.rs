//! Writes that read from memory only: they end with `WouldBlock`, half of nothing done, and succeed where
//! they may block.

use super::*;
use document::doc;
use tempfile::TempDir;

/// The context of a write that reads from memory only.
fn cached(collection: &Collection) -> &OperationContext<'_> {
    Box::leak(Box::new(OperationContext { tier: ReadTier::BlockCache, ..*writing(collection) }))
}

/// A catalog whose data is in files and none of it in the cache.
fn cold(fill: impl Fn(&Catalog)) -> (Arc<Catalog>, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Store::open(directory.path().join("data"), &StorageOptions::small()).expect("a store");
    let store = open();
    fill(&Catalog::open(store.clone()).expect("an empty catalog"));
    store.close().expect("closed");
    drop(store);
    (Catalog::open(open()).expect("the catalog"), directory)
}

fn with_unique_index(catalog: &Catalog) {
    create(catalog, "c", doc! {}).expect("a collection");
    index(catalog, "c", doc! { "key": { "a": 1 }, "name": "a", "unique": true }).expect("an index");
    let things = collection(catalog, "c");
    for id in 0..100 {
        insert(&things, doc! { "_id": id, "a": (id * 10) }).expect("an insert");
    }
}

fn set_a(
    things: &Collection,
    id: i32,
    a: i32,
    context: &OperationContext<'_>,
) -> Result<crate::UpdateReport, WriteError> {
    let key = Collection::document_key_of_id(RawValue::Int32(id));
    block_on(things.update(context, &key, |_| Ok(Decision::Replace(doc! { "_id": id, "a": a }.to_buf()))))
}

#[test]
fn updates_of_what_is_not_in_memory() {
    let (catalog, _directory) = cold(with_unique_index);
    let things = collection(&catalog, "c");
    let blocked = set_a(&things, 7, 71, cached(&things)).expect_err("the document is not in memory");
    assert!(blocked.would_block(), "{blocked}");
    get(&things, 7).expect("read from the disk");
    let blocked = set_a(&things, 7, 71, cached(&things)).expect_err("the unique index is not in memory");
    assert!(blocked.would_block(), "{blocked}");
    assert_eq!(get(&things, 7), Some(doc! { "_id": 7, "a": 70 }), "nothing was written");
    let context = writing(&things);
    assert!(
        set_a(&things, 7, 71, context).expect("an update").changed && !context.receipts.waited().is_zero()
    );
    assert!(set_a(&things, 7, 72, cached(&things)).expect("all of it is in memory now").changed);
    assert_write_code(set_a(&things, 7, 80, writing(&things)), 11000);
    assert_valid(&things);
}

#[test]
fn inserts_among_what_is_not_in_memory() {
    let (catalog, _directory) = cold(with_unique_index);
    let things = collection(&catalog, "c");
    let documents =
        buffers([doc! { "_id": 1, "a": 5 }, doc! { "_id": 101, "a": 15 }, doc! { "_id": 102, "a": 20 }]);
    let raw: Vec<RawDocument<'_>> = documents.iter().map(DocumentBuf::as_raw).collect();
    let report = block_on(things.insert_many(cached(&things), &raw, false));
    assert_eq!((report.would_block_at(), report.inserted, report.errors.len()), (Some(0), 0, 1));
    assert_eq!(things.document_count(), 100, "nothing was written");
    let report = block_on(things.insert_many(writing(&things), &raw, false));
    let refused: Vec<_> = report.errors.iter().map(|(position, error)| (*position, error.code())).collect();
    assert_eq!((report.inserted, refused), (1, vec![(0, 11000), (2, 11000)]), "each refusal is told once");
    let report = block_on(things.insert_many(cached(&things), &raw, false));
    assert_eq!((report.would_block_at(), report.errors.len()), (None, 3), "all of it is in memory now");
    assert_valid(&things);
}

#[test]
fn capped_collections_whose_head_is_not_in_memory() {
    let (catalog, _directory) = cold(|catalog| {
        // Opening reads the last document; each of this size has a block of its own.
        let pad = "x".repeat(100_000);
        let options = doc! { "capped": true, "size": 1_000_000, "max": 3 };
        create(catalog, "c", options).expect("a collection");
        let capped = collection(catalog, "c");
        for id in 1..=3 {
            insert(&capped, doc! { "_id": id, "pad": (pad.as_str()) }).expect("an insert");
        }
    });
    let capped = collection(&catalog, "c");
    let next = doc! { "_id": 4 }.to_buf();
    let blocked = block_on(capped.insert(cached(&capped), next.as_raw())).expect_err("nothing is in memory");
    assert!(blocked.would_block(), "{blocked}");
    assert_eq!(capped.document_count(), 3);
    block_on(capped.insert(writing(&capped), next.as_raw())).expect("an insert");
    let ids: Vec<_> = all(&capped).iter().map(|document| number(document, "_id")).collect();
    assert_eq!(ids, [2, 3, 4]);
}
