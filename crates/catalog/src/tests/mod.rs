//! Tests of the whole crate on both engines.

mod builds;
mod builds_after_crashes;
mod capped;
mod changes;
mod concurrency;
mod ddl;
mod dropped;
mod expiry;
mod handover;
mod model;
mod oplog;
mod proposals;
mod sizes;
mod tiers;
mod writes;

use crate::{
    Catalog, CatalogError, Collection, CollectionOptions, Decision, IndexSpec, Namespace, OperationContext,
    WriteError,
};
use document::{Document, DocumentBuf, RawDocument, RawValue, Value};
pub(crate) use pollster::block_on;
use std::sync::Arc;
use storage::{CursorOptions, Direction, ReadTier, StorageOptions, Store};

/// Runs a test on a store in memory and on one in a directory.
fn on_both_engines(test: impl Fn(Arc<Catalog>)) {
    let options = StorageOptions::small();
    test(Catalog::open(Store::in_memory(&options).expect("a store in memory")).expect("an empty catalog"));
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(directory.path().join("data"), &options).expect("a store in a directory");
    test(Catalog::open(store).expect("an empty catalog"));
}

/// The context of a write; it and its receipts outlive whatever a test does with them.
fn writing(collection: &Collection) -> &OperationContext<'_> {
    Box::leak(Box::new(OperationContext::writing(&collection.store, Box::leak(Box::default()))))
}

/// The context of a change of the catalog.
fn changing(catalog: &Catalog) -> &OperationContext<'_> {
    Box::leak(Box::new(OperationContext::writing(catalog.store(), Box::leak(Box::default()))))
}

fn namespace(name: &str) -> Namespace {
    Namespace::new("test", name)
}

fn collection(catalog: &Catalog, name: &str) -> Arc<Collection> {
    block_on(catalog.collection_or_create(changing(catalog), "test", name)).expect("a collection")
}

fn create(catalog: &Catalog, name: &str, options: Document) -> Result<(), CatalogError> {
    let options = CollectionOptions::parse(options.to_buf().as_raw())?;
    block_on(catalog.create(changing(catalog), &namespace(name), options)).map(drop)
}

fn insert(collection: &Collection, document: Document) -> Result<(), WriteError> {
    block_on(collection.insert(writing(collection), document.to_buf().as_raw())).map(drop)
}

fn index(catalog: &Catalog, name: &str, spec: Document) -> Result<(), CatalogError> {
    let spec = IndexSpec::parse(spec.to_buf().as_raw())?;
    block_on(catalog.create_indexes(changing(catalog), &namespace(name), &[spec])).map(drop)
}

/// Replaces the document with this `_id` by what `change` makes of it.
fn update(
    collection: &Collection,
    id: i32,
    change: impl FnOnce(Option<Document>) -> Option<Document>,
) -> Result<bool, WriteError> {
    let key = Collection::document_key_of_id(RawValue::Int32(id));
    let report = block_on(collection.update(writing(collection), &key, |found: Option<RawDocument<'_>>| {
        let before = found.map(RawDocument::to_document);
        Ok::<_, WriteError>(match change(before) {
            Some(after) => Decision::Replace(after.to_buf()),
            None => Decision::Remove,
        })
    }))?;
    Ok(report.changed)
}

fn get(collection: &Collection, id: i32) -> Option<Document> {
    let found =
        collection.get(&collection.store.read_view(), RawValue::Int32(id), ReadTier::Any).expect("a read");
    found.map(|bytes| RawDocument::trusted(&bytes).to_document())
}

/// All documents in the order of their document keys.
fn all(collection: &Arc<Collection>) -> Vec<Document> {
    let view = collection.store.read_view();
    let mut cursor = collection
        .documents(&view, Default::default(), Direction::Forward, CursorOptions::default())
        .expect("a cursor");
    let mut found = Vec::new();
    while let Some((_, document)) = cursor.next().expect("a document") {
        found.push(document.to_document());
    }
    found
}

/// How many entries an index has.
fn entries(collection: &Arc<Collection>, name: &str) -> usize {
    let view = collection.store.read_view();
    let definition = collection.definition();
    let index = definition.index(name).expect("the index");
    let mut cursor = collection
        .index_entries(&view, index, Default::default(), Direction::Forward, CursorOptions::default())
        .expect("a cursor");
    let mut count = 0;
    while cursor.next().expect("an entry").is_some() {
        count += 1;
    }
    count
}

#[track_caller]
fn assert_valid(collection: &Collection) {
    let report = block_on(collection.validate(|| collection.store.pinned_view())).expect("a report");
    assert!(report.is_valid(), "the collection is not valid: {report:#?}");
}

#[track_caller]
fn assert_code<T: std::fmt::Debug>(result: Result<T, CatalogError>, code: i32) {
    match result {
        Err(error) => assert_eq!(error.code(), code, "{error}"),
        Ok(value) => panic!("expected code {code}, got {value:?}"),
    }
}

#[track_caller]
fn assert_write_code<T: std::fmt::Debug>(result: Result<T, WriteError>, code: i32) {
    match result {
        Err(error) => assert_eq!(error.code(), code, "{error}"),
        Ok(value) => panic!("expected code {code}, got {value:?}"),
    }
}

fn number(document: &Document, name: &str) -> i64 {
    document
        .get(name)
        .and_then(Value::as_i64_exact)
        .unwrap_or_else(|| panic!("no number {name} in {document:?}"))
}

fn buffers(documents: impl IntoIterator<Item = Document>) -> Vec<DocumentBuf> {
    documents.into_iter().map(|document| document.to_buf()).collect()
}
