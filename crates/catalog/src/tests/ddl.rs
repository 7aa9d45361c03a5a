//! Creating, dropping, renaming, collMod, and what a reopened catalog knows.

use super::*;
use crate::{CatalogEntry, IndexSelection};
use document::doc;

#[test]
fn creating() {
    on_both_engines(|catalog| {
        create(&catalog, "c", doc! {}).expect("a collection");
        create(&catalog, "c", doc! {}).expect("creating again with the same options changes nothing");
        assert_code(create(&catalog, "c", doc! { "capped": true, "size": 5000 }), 48);
        assert_code(create(&catalog, "sys$tem", doc! {}), 73);
        assert_code(create(&catalog, "v", doc! { "validator": { "$bogus": 1 } }), 2);
        assert!(catalog.collection("test", "v").is_none(), "a refused collection is not there");
        let upper = Namespace::new("TEST", "c");
        assert_code(block_on(catalog.create(changing(&catalog), &upper, Default::default())), 13297);
        create(&catalog, "view", doc! { "viewOn": "c", "pipeline": [] }).expect("a view");
        assert!(catalog.collection("test", "view").is_none());
        assert_eq!(
            catalog.view("test", "view").expect("the view").options.view.as_ref().expect("options").view_on,
            "c"
        );
        assert_code(block_on(catalog.collection_or_create(changing(&catalog), "test", "view")), 166);
        create(&catalog, "above", doc! { "viewOn": "view" }).expect("a view of a view");
        let cycle = doc! { "viewOn": "above" };
        assert_code(
            block_on(catalog.coll_mod(changing(&catalog), &namespace("view"), cycle.to_buf().as_raw())),
            5024,
        );
        let names: Vec<_> =
            catalog.state().entries("test").into_iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, ["test.above", "test.c", "test.view"]);
    });
}

#[test]
fn dropping() {
    on_both_engines(|catalog| {
        assert_code(block_on(catalog.drop_collection(changing(&catalog), &namespace("c"))), 26);
        let first = collection(&catalog, "c");
        index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
        insert(&first, doc! { "_id": 1, "a": 1 }).expect("an insert");
        let view = first.store.read_view();
        let mut cursor = first
            .documents(&view, Default::default(), Direction::Forward, CursorOptions::default())
            .expect("a cursor");
        let report = block_on(catalog.drop_collection(changing(&catalog), &namespace("c"))).expect("a drop");
        assert_eq!(report.indexes, Some(2));
        assert!(catalog.collection("test", "c").is_none());
        assert_write_code(insert(&first, doc! { "_id": 2 }), 175);
        assert_eq!(cursor.next().expect_err("a dropped collection").code(), 175);
        let second = collection(&catalog, "c");
        assert!(second.id() > first.id(), "ids are not used again");
        assert_eq!((second.document_count(), all(&second).len()), (0, 0));
        insert(&second, doc! { "_id": 1 }).expect("an insert");
        collection(&catalog, "d");
        assert!(block_on(catalog.drop_database(changing(&catalog), "test")).expect("a drop"));
        assert!(!block_on(catalog.drop_database(changing(&catalog), "test")).expect("nothing to drop"));
        assert!(catalog.state().databases().is_empty());
    });
}

#[test]
fn renaming() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "a");
        insert(&things, doc! { "_id": 1 }).expect("an insert");
        let other = Namespace::new("other", "b");
        assert_code(block_on(catalog.rename(changing(&catalog), &namespace("nothing"), &other, false)), 26);
        assert_code(
            block_on(catalog.rename(changing(&catalog), &namespace("a"), &namespace("a"), false)),
            20,
        );
        block_on(catalog.rename(changing(&catalog), &namespace("a"), &other, false))
            .expect("a rename across databases");
        assert!(catalog.collection("test", "a").is_none());
        let renamed = catalog.collection("other", "b").expect("the collection");
        assert_eq!((renamed.uuid(), get(&renamed, 1)), (things.uuid(), Some(doc! { "_id": 1 })));
        assert_eq!(renamed.definition().namespace, other);
        let target = collection(&catalog, "target");
        insert(&target, doc! { "_id": 7 }).expect("an insert");
        assert_code(block_on(catalog.rename(changing(&catalog), &other, &namespace("target"), false)), 48);
        block_on(catalog.rename(changing(&catalog), &other, &namespace("target"), true))
            .expect("a rename over the target");
        assert!(target.is_dropped());
        assert_eq!(all(&collection(&catalog, "target")), [doc! { "_id": 1 }]);
        assert!(catalog.state().entries("other").is_empty());
    });
}

#[test]
fn index_conflicts() {
    on_both_engines(|catalog| {
        let spec = |extra: Document| {
            let mut spec = doc! { "key": { "a": 1 }, "name": "a_1" };
            extra.into_iter().for_each(|(name, value)| drop(spec.insert(name, value)));
            index(&catalog, "c", spec)
        };
        spec(doc! {}).expect("an index");
        spec(doc! {}).expect("the same again");
        assert_code(spec(doc! { "key": { "b": 1 } }), 86);
        assert_code(spec(doc! { "unique": true }), 86);
        assert_code(spec(doc! { "expireAfterSeconds": 5 }), 85);
        assert_code(spec(doc! { "name": "other" }), 85);
        spec(doc! { "name": "other", "unique": true }).expect("unique and not unique beside each other");
        spec(doc! { "key": { "_id": 1 }, "name": "_id_" }).expect("it exists");
        let drop_one = |selection: IndexSelection| {
            block_on(catalog.drop_indexes(changing(&catalog), &namespace("c"), &selection))
        };
        assert_code(drop_one(IndexSelection::Names(vec!["_id_".into()])), 72);
        assert_code(drop_one(IndexSelection::Names(vec!["nothing".into()])), 27);
        assert_code(drop_one(IndexSelection::Pattern(doc! { "z": 1 })), 27);
        assert_code(drop_one(IndexSelection::Pattern(doc! { "a": 1 })), 181);
        assert_eq!(drop_one(IndexSelection::Names(vec!["other".into()])).expect("a drop"), 3);
        assert_eq!(drop_one(IndexSelection::Pattern(doc! { "a": 1.0 })).expect("a drop"), 2);
        assert_eq!(drop_one(IndexSelection::All).expect("nothing but _id_"), 1);
        assert_code(
            block_on(catalog.drop_indexes(changing(&catalog), &namespace("nothing"), &IndexSelection::All)),
            26,
        );
    });
}

#[test]
fn modifying() {
    on_both_engines(|catalog| {
        index(&catalog, "c", doc! { "key": { "t": 1 }, "name": "t", "expireAfterSeconds": 10 })
            .expect("an index");
        let modify = |change: Document| {
            block_on(catalog.coll_mod(changing(&catalog), &namespace("c"), change.to_buf().as_raw()))
        };
        let reply = modify(doc! { "index": { "name": "t", "expireAfterSeconds": 20 } }).expect("collMod");
        assert_eq!(reply, doc! { "expireAfterSeconds_old": 10i64, "expireAfterSeconds_new": 20i64 });
        let reply = modify(doc! { "index": { "keyPattern": { "t": 1 }, "hidden": true } }).expect("collMod");
        assert_eq!(reply, doc! { "hidden_old": false, "hidden_new": true });
        assert_code(modify(doc! { "index": { "name": "x", "hidden": true } }), 27);
        assert_code(modify(doc! { "index": { "name": "_id_", "hidden": true } }), 2);
        assert_code(modify(doc! { "bogus": 1 }), 40415);
        assert_code(modify(doc! { "cappedSize": 10000 }), 72);
        let things = collection(&catalog, "c");
        insert(&things, doc! { "_id": 1, "t": 5 }).expect("an insert");
        insert(&things, doc! { "_id": 2, "t": 5 }).expect("an insert");
        assert_code(modify(doc! { "index": { "name": "t", "unique": true } }), 72);
        modify(doc! { "index": { "name": "t", "prepareUnique": true } }).expect("collMod");
        assert_write_code(insert(&things, doc! { "_id": 3, "t": 5 }), 11000);
        assert_code(modify(doc! { "index": { "name": "t", "unique": true } }), 359);
        update(&things, 2, |_| None).expect("a delete");
        modify(doc! { "index": { "name": "t", "unique": true } }).expect("collMod");
        assert!(things.definition().index("t").expect("the index").spec.unique);
    });
}

#[test]
fn a_reopened_catalog_knows_everything() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || {
        let store = Store::open(directory.path().join("data"), &StorageOptions::small()).expect("a store");
        Catalog::open(store).expect("a catalog")
    };
    let catalog = open();
    create(&catalog, "capped", doc! { "capped": true, "size": 5000 }).expect("a collection");
    create(&catalog, "view", doc! { "viewOn": "c" }).expect("a view");
    index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
    let things = collection(&catalog, "c");
    insert(&things, doc! { "_id": 1, "a": [1, 2] }).expect("an insert");
    insert(&collection(&catalog, "capped"), doc! { "_id": 1 }).expect("an insert");
    let (uuid, id) = (things.uuid(), things.id());
    drop(things);
    drop(catalog);
    let catalog = open();
    let things = catalog.collection("test", "c").expect("the collection");
    assert_eq!((things.uuid(), things.id(), things.document_count()), (uuid, id, 1));
    assert!(things.definition().index("a").expect("the index").is_multikey());
    assert!(matches!(catalog.entry("test", "view"), Some(CatalogEntry::View(_))));
    let capped = collection(&catalog, "capped");
    insert(&capped, doc! { "_id": 2 }).expect("an insert");
    assert_eq!(all(&capped), [doc! { "_id": 1 }, doc! { "_id": 2 }]);
    assert!(collection(&catalog, "new").id() > id);
    assert_valid(&things);
    assert_valid(&capped);
}

#[test]
fn what_an_index_becomes_can_be_opened_again() {
    on_both_engines(|catalog| {
        index(&catalog, "c", doc! { "key": { "a": "hashed" }, "name": "h" }).expect("an index");
        let fields = doc! { "index": { "name": "h", "prepareUnique": true } }.to_buf();
        let changed = block_on(catalog.coll_mod(changing(&catalog), &namespace("c"), fields.as_raw()));
        assert_code(changed, 16764);
        let again = Catalog::open(catalog.store().clone()).map(drop);
        assert!(again.is_ok(), "{again:?}");
    });
}
