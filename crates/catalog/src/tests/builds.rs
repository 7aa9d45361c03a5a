//! Index builds on existing documents, with writers beside them, failing, and after a crash.

use super::*;
use crate::index_build;
use crate::keys;
use document::doc;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use storage::{Keyspace, WriteUnit};

fn fill(collection: &Collection, count: i32) {
    let documents = buffers((0..count).map(|id| doc! { "_id": id, "a": id % 100, "u": id }));
    let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
    let report = block_on(collection.insert_many(writing(collection), &documents, true));
    assert_eq!(report.inserted as i32, count);
}

#[test]
fn a_build_finds_what_is_there() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        fill(&things, 1000);
        insert(&things, doc! { "_id": "array", "a": [1, 2, 3], "u": -1 }).expect("an insert");
        index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
        index(&catalog, "c", doc! { "key": { "u": -1 }, "name": "u", "unique": true }).expect("an index");
        assert_eq!((entries(&things, "a"), entries(&things, "u")), (1003, 1001));
        assert!(things.definition().index("a").expect("the index").is_multikey());
        assert!(things.builds().is_empty());
        assert_valid(&things);
    });
}

#[test]
fn a_violation_leaves_nothing_behind() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        fill(&things, 300);
        assert_code(index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a", "unique": true }), 11000);
        assert_eq!(things.definition().indexes.len(), 1);
        let range = keys::indexes_range(things.id());
        let mut cursor =
            things.store.read_view().cursor(Keyspace::Indexes, range, Direction::Forward).expect("a cursor");
        assert_eq!(cursor.next().expect("a read"), None, "entries of the failed build");
        insert(&things, doc! { "_id": "p", "x": [1], "y": [2] }).expect("an insert");
        assert_code(index(&catalog, "c", doc! { "key": { "x": 1, "y": 1 }, "name": "xy" }), 171);
        assert_eq!(things.definition().indexes.len(), 1);
        assert_valid(&things);
    });
}

#[test]
fn writers_go_on_during_a_build() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        fill(&things, 3000);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (things, stop) = (&things, &stop);
                scope.spawn(move || {
                    let mut step = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let id = (step * 7 + writer) % 3000;
                        update(things, id, |found| {
                            found.map(|_| doc! { "_id": id, "a": [step, -step], "u": id })
                        })
                        .expect("an update");
                        let new = 10_000 + writer * 100_000 + step;
                        insert(things, doc! { "_id": new, "a": step, "u": new }).expect("an insert");
                        if step % 3 == 0 {
                            update(things, new, |_| None).expect("a delete");
                        }
                        step += 1;
                    }
                });
            }
            index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
            index(&catalog, "c", doc! { "key": { "u": 1 }, "name": "u", "unique": true }).expect("an index");
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(entries(&things, "u") as u64, things.document_count());
        assert_valid(&things);
    });
}

#[test]
fn a_build_whose_end_cannot_be_written_is_no_index() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        fill(&things, 1000);
        let spec = doc! { "key": { "u": 1 }, "name": "u", "unique": true };
        let specs = [IndexSpec::parse(spec.to_buf().as_raw()).expect("a specification")];
        let namespace = namespace("c");
        let mut building = pin!(catalog.create_indexes(changing(&catalog), &namespace, &specs));
        let mut task = Context::from_waker(Waker::noop());
        assert!(building.as_mut().poll(&mut task).is_pending(), "there is more than one batch");
        assert_eq!(things.builds().len(), 1);
        catalog.store().close().expect("a closed store");
        block_on(building).expect_err("nothing is written any more");
        assert!(things.builds().is_empty());
        assert!(things.definition().index("u").is_none(), "nobody maintains it");
        index(&catalog, "c", spec).expect_err("it is not there");
    });
}

#[test]
fn a_crash_in_a_build_leaves_no_index() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let store = Store::open(&path, &StorageOptions::small()).expect("a store");
    let catalog = Catalog::open(store).expect("a catalog");
    let things = collection(&catalog, "c");
    fill(&things, 50);
    // As far as a build gets before the process dies: registered, and some entries written.
    let mut definition = things.definition().copy().expect("a copy");
    let spec =
        IndexSpec::parse(doc! { "key": { "a": 1 }, "name": "a" }.to_buf().as_raw()).expect("a specification");
    let id = definition.add_index(spec, crate::IndexState::Building).expect("an index");
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Meta, &keys::record_key(things.id()), definition.to_record().as_bytes());
    things.store.commit(unit).wait().expect("a commit");
    things.publish(definition);
    let build = index_build::start(&things, vec![(id, "a".into())], Vec::new());
    block_on(index_build::fill(changing(&catalog), &things, &build)).expect("the entries");
    assert_eq!((entries(&things, "a"), build.done()), (50, 50));
    drop((things, catalog));
    let catalog =
        Catalog::open(Store::open(&path, &StorageOptions::small()).expect("a store")).expect("a catalog");
    let things = collection(&catalog, "c");
    assert!(things.definition().index("a").is_none());
    let range = keys::indexes_range(things.id());
    let mut cursor =
        things.store.read_view().cursor(Keyspace::Indexes, range, Direction::Forward).expect("a cursor");
    assert_eq!(cursor.next().expect("a read"), None);
    assert_valid(&things);
    index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
    assert!(things.definition().index("a").expect("the index").id > id, "ids are not used again");
}

#[test]
fn indexes_are_rebuilt_beside_the_old_ones() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
        index(&catalog, "c", doc! { "key": { "u": 1 }, "name": "u", "unique": true }).expect("an index");
        fill(&things, 500);
        // An entry that no document has: what a rebuild is for.
        let definition = things.definition();
        let old = definition.index("a").expect("the index").id;
        let mut unit = WriteUnit::new();
        let stray = [keys::index_prefix(things.id(), old).as_slice(), b"stray"].concat();
        unit.put(Keyspace::Indexes, &stray, b"");
        things.store.commit(unit).wait().expect("a commit");
        let rebuilt =
            block_on(catalog.rebuild_indexes(changing(&catalog), &namespace("c"))).expect("new indexes");
        let names: Vec<_> = rebuilt.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["_id_", "a", "u"]);
        assert!(things.definition().index("a").expect("the index").id > old, "ids are not used again");
        assert_eq!((entries(&things, "a"), entries(&things, "u")), (500, 500));
        assert!(things.builds().is_empty());
        assert_valid(&things);
        assert!(insert(&things, doc! { "_id": "twice", "u": 7 }).is_err(), "it is unique still");
        assert_code(
            block_on(catalog.rebuild_indexes(changing(&catalog), &namespace("nothing"))).map(drop),
            26,
        );
    });
}

#[test]
fn a_crash_in_a_rebuild_leaves_the_old_indexes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let open =
        || Catalog::open(Store::open(&path, &StorageOptions::small()).expect("a store")).expect("a catalog");
    let catalog = open();
    let things = collection(&catalog, "c");
    index(&catalog, "c", doc! { "key": { "u": 1 }, "name": "u", "unique": true }).expect("an index");
    fill(&things, 50);
    let old = things.definition().index("u").expect("the index").id;
    // As far as a rebuild gets before the process dies.
    block_on(catalog.register_rebuild(changing(&catalog), &things)).expect("registered");
    let build = things.builds().remove(0);
    block_on(index_build::fill(changing(&catalog), &things, &build)).expect("the entries");
    drop((build, things, catalog));
    let catalog = open();
    let things = collection(&catalog, "c");
    let definition = things.definition();
    assert_eq!(definition.indexes.iter().map(|index| index.id).collect::<Vec<_>>(), [keys::ID_INDEX, old]);
    assert_eq!(entries(&things, "u"), 50);
    assert_valid(&things);
}

#[test]
fn validate_finds_damage() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).expect("an index");
        fill(&things, 10);
        let damage = |unit: WriteUnit| things.store.commit(unit).wait().expect("a commit");
        let key = keys::row_key(things.id(), &Collection::document_key_of_id(RawValue::Int32(3)));
        let mut unit = WriteUnit::new();
        unit.delete(Keyspace::Documents, &key);
        damage(unit);
        let report = block_on(things.validate(|| things.store.pinned_view())).expect("a report");
        assert_eq!(
            (report.is_valid(), report.records, report.errors.len()),
            (false, 9, 1),
            "the counter: {report:?}"
        );
        assert!(!report.indexes[1].errors.is_empty(), "an entry without document: {report:?}");
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, &key, doc! { "_id": 3, "a": 77, "u": 3 }.to_buf().as_bytes());
        damage(unit);
        let report = block_on(things.validate(|| things.store.pinned_view())).expect("a report");
        assert!(
            !report.errors.is_empty() && !report.indexes[1].errors.is_empty(),
            "another value: {report:?}"
        );
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, &key, b"\x09\x00\x00\x00nonsense");
        damage(unit);
        assert_eq!(
            block_on(things.validate(|| things.store.pinned_view())).expect("a report").invalid_documents,
            1
        );
    });
}

#[test]
fn a_whole_reading_finds_what_no_suspect_told() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        fill(&things, 300);
        for (name, expect) in [("u", None), ("a", Some(11000))] {
            index(&catalog, "c", doc! { "key": { name: 1 }, "name": name }).expect("an index");
            let mut definition = things.definition().copy().expect("a copy");
            let id = definition.index(name).expect("the index").id;
            definition
                .change_index(id, |index| {
                    let spec = crate::IndexSpec { unique: true, ..index.spec.clone() };
                    (spec, index.state, index.multikey.clone())
                })
                .expect("a change");
            things.publish(definition);
            let build = index_build::start(&things, vec![(id, name.to_owned())], Vec::new());
            let found = index_build::check_all_entries(changing(&catalog), &things, &build);
            assert_eq!(found.err().map(|error| error.code()), expect, "index {name}");
            things.remove_build(&build);
        }
    });
}
