//! The door for changes: each passes it once, as what it is, and with what an observer adds to it.

use super::*;
use crate::{Change, ChangeObserver, IndexDefinition, IndexSelection};
use document::doc;
use parking_lot::Mutex;
use storage::{KeyRange, Keyspace, WriteUnit};

/// Where the observer keeps a log beside the catalog's records.
const LOG: &[u8] = b"log of changes";

/// Remembers what it is told, and writes it down in the unit as well.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<String>>);

impl ChangeObserver for Recorder {
    fn observe(&self, change: Change<'_>, unit: &mut WriteUnit) {
        let shown = describe(change);
        let mut told = self.0.lock();
        unit.put(Keyspace::Meta, &[LOG, &(told.len() as u32).to_be_bytes()].concat(), shown.as_bytes());
        told.push(shown);
    }
}

fn describe(change: Change<'_>) -> String {
    let a = |document: RawDocument<'_>| number(&document.to_document(), "a");
    let names = |indexes: &[Arc<IndexDefinition>]| {
        let shown = indexes.iter().map(|index| format!("{} {:?}", index.spec.name, index.state));
        shown.collect::<Vec<_>>().join(", ")
    };
    match change {
        Change::Insert { definition, document_key, document, .. } => {
            assert!(!document_key.is_empty());
            format!("insert {} {}", definition.namespace, a(document))
        }
        Change::Update { definition, before, after, .. } => {
            format!("update {} {} to {}", definition.namespace, a(before), a(after))
        }
        Change::Delete { definition, document, .. } => {
            format!("delete {} {}", definition.namespace, a(document))
        }
        Change::Create(definition) => format!("create {}", definition.namespace),
        Change::Drop(definition) => format!("drop {}", definition.namespace),
        Change::Rename { from, definition } => format!("rename {from} to {}", definition.namespace),
        Change::Modify { definition, .. } => format!("modify {}", definition.namespace),
        Change::CreateIndexes { indexes, .. } => format!("create indexes {}", names(indexes)),
        Change::CommitIndexBuild { indexes, replaced, .. } => {
            format!("built {} for {}", names(indexes), names(replaced))
        }
        Change::DropIndexes { indexes, .. } => format!("drop indexes {}", names(indexes)),
    }
}

/// Runs `make` with a context that is observed, and compares what the observer was told with what is expected
/// and with what it left in the store.
#[track_caller]
fn check(catalog: &Arc<Catalog>, make: impl Fn(&OperationContext<'_>), expect: &[&str]) {
    let recorder = Recorder::default();
    make(&OperationContext { observer: Some(&recorder), ..*changing(catalog) });
    let told = recorder.0.into_inner();
    assert_eq!(told, expect);
    let view = catalog.store().read_view();
    let mut cursor =
        view.cursor(Keyspace::Meta, KeyRange::prefix(LOG), Direction::Forward).expect("a cursor");
    let mut written = Vec::new();
    let mut unit = WriteUnit::new();
    while let Some((key, value)) = cursor.next().expect("an entry") {
        written.push(String::from_utf8(value.to_vec()).expect("text"));
        unit.delete(Keyspace::Meta, key);
    }
    assert_eq!(written, expect, "what is added to a unit is applied with it");
    catalog.store().commit(unit).wait().expect("a commit");
}

fn replace(context: &OperationContext<'_>, things: &Collection, id: i32, a: Option<i32>) {
    let decision = match a {
        Some(a) => Decision::Replace(doc! { "_id": id, "a": a }.to_buf()),
        None => Decision::Remove,
    };
    let key = Collection::document_key_of_id(RawValue::Int32(id));
    block_on(things.update(context, &key, |_| Ok::<_, WriteError>(decision))).expect("a change");
}

#[test]
fn each_write_is_told_once() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        let documents = buffers((0..3).map(|id| doc! { "_id": id, "a": id }));
        let raw: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
        let inserts = ["insert test.c 0", "insert test.c 1", "insert test.c 2"];
        check(&catalog, |context| drop(block_on(things.insert_many(context, &raw, true))), &inserts);
        check(&catalog, |context| drop(block_on(things.insert_many(context, &raw, false))), &[]);
        check(&catalog, |context| replace(context, &things, 1, Some(7)), &["update test.c 1 to 7"]);
        check(&catalog, |context| replace(context, &things, 1, Some(7)), &[]);
        check(&catalog, |context| replace(context, &things, 1, None), &["delete test.c 7"]);
        check(&catalog, |context| replace(context, &things, 1, None), &[]);
        check(&catalog, |context| replace(context, &things, 1, Some(8)), &["insert test.c 8"]);
        create(&catalog, "log", doc! { "capped": true, "size": 4096, "max": 2 }).expect("a collection");
        let log = collection(&catalog, "log");
        let trimmed = ["insert test.log 0", "insert test.log 1", "delete test.log 0", "insert test.log 2"];
        check(&catalog, |context| drop(block_on(log.insert_many(context, &raw, true))), &trimmed);
    });
}

#[test]
fn each_change_of_the_catalog_is_told_once() {
    on_both_engines(|catalog| {
        let c = namespace("c");
        let create = |context: &OperationContext<'_>| {
            block_on(catalog.create(context, &c, CollectionOptions::default())).expect("created");
        };
        check(&catalog, create, &["create test.c"]);
        check(&catalog, create, &[]);
        let index = |context: &OperationContext<'_>, name: &str, key: Document| {
            let spec = doc! { "key": key, "name": name }.to_buf();
            let spec = IndexSpec::parse(spec.as_raw()).expect("a specification");
            block_on(catalog.create_indexes(context, &c, &[spec])).expect("an index");
        };
        check(&catalog, |context| index(context, "early", doc! { "a": 1 }), &["create indexes early Ready"]);
        insert(&collection(&catalog, "c"), doc! { "_id": 1, "a": 1 }).expect("an insert");
        let built = ["create indexes late Building", "built late Ready for "];
        check(&catalog, |context| index(context, "late", doc! { "b": 1 }), &built);
        let rebuild = |context: &OperationContext<'_>| {
            block_on(catalog.rebuild_indexes(context, &c)).expect("rebuilt");
        };
        let rebuilt = [
            "create indexes early Building, late Building",
            "built early Ready, late Ready for early Ready, late Ready",
        ];
        check(&catalog, rebuild, &rebuilt);
        let modify = |context: &OperationContext<'_>| {
            let hidden = doc! { "index": { "name": "late", "hidden": true } }.to_buf();
            block_on(catalog.coll_mod(context, &c, hidden.as_raw())).expect("changed");
        };
        check(&catalog, modify, &["modify test.c"]);
        let drop_indexes = |context: &OperationContext<'_>| {
            let late = IndexSelection::Names(vec!["late".to_owned()]);
            block_on(catalog.drop_indexes(context, &c, &late)).expect("dropped");
        };
        check(&catalog, drop_indexes, &["drop indexes late Ready"]);
        super::create(&catalog, "d", doc! {}).expect("created");
        let rename = |context: &OperationContext<'_>| {
            block_on(catalog.rename(context, &c, &namespace("d"), true)).expect("renamed");
        };
        check(&catalog, rename, &["drop test.d", "rename test.c to test.d"]);
        super::create(&catalog, "v", doc! { "viewOn": "d", "pipeline": [] }).expect("created");
        let view = |context: &OperationContext<'_>| {
            let on = doc! { "viewOn": "e", "pipeline": [] }.to_buf();
            block_on(catalog.coll_mod(context, &namespace("v"), on.as_raw())).expect("changed");
        };
        check(&catalog, view, &["modify test.v"]);
        let drop_one = |context: &OperationContext<'_>| {
            block_on(catalog.drop_collection(context, &namespace("v"))).expect("dropped");
        };
        check(&catalog, drop_one, &["drop test.v"]);
        let drop_all = |context: &OperationContext<'_>| {
            block_on(catalog.drop_database(context, "test")).expect("dropped");
        };
        check(&catalog, drop_all, &["drop test.d"]);
    });
}

#[test]
fn an_index_that_cannot_be_built_is_told_of_twice() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        (0..2).for_each(|id| insert(&things, doc! { "_id": id, "a": 1 }).expect("an insert"));
        let unique = doc! { "key": { "a": 1 }, "name": "a", "unique": true }.to_buf();
        let unique = [IndexSpec::parse(unique.as_raw()).expect("a specification")];
        let build = |context: &OperationContext<'_>| {
            assert_code(block_on(catalog.create_indexes(context, &namespace("c"), &unique)), 11000);
        };
        check(&catalog, build, &["create indexes a Building", "drop indexes a Building"]);
    });
}
