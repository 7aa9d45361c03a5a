//! Index builds on existing documents, with writers beside them, failing, and after a crash.

use super::*;
use crate::index_build::{self, BuildOrder};
use crate::keys;
use crate::{BuildPhase, IndexSelection};
use document::doc;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use storage::{EngineMemory, Keyspace, StoreMemory, WriteUnit};

fn fill(collection: &Collection, count: i32) {
    let documents = buffers((0..count).map(|id| doc! { "_id": id, "a": id % 100, "u": id }));
    let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
    let report = block_on(collection.insert_many(writing(collection), &documents, true));
    assert_eq!(report.inserted as i32, count);
}

fn order(id: crate::IndexId, name: &str) -> BuildOrder {
    BuildOrder { indexes: vec![(id, name.to_owned())], replaced: Vec::new(), is_of_log: false }
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
                        let new = 10_000 + writer * 100_000_000 + step;
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
fn a_build_comes_to_its_end_beside_writers_who_are_faster() {
    on_both_engines(|catalog| {
        let things = collection(&catalog, "c");
        fill(&things, 3000);
        let spec = doc! { "key": { "u": 1 }, "name": "u" };
        let specs = [IndexSpec::parse(spec.to_buf().as_raw()).expect("a specification")];
        let namespace = namespace("c");
        let mut building = pin!(catalog.create_indexes(changing(&catalog), &namespace, &specs));
        let mut task = Context::from_waker(Waker::noop());
        let mut next = 10_000;
        let turns = (0..1_000).take_while(|_| {
            let is_pending = building.as_mut().poll(&mut task).is_pending();
            // More than are settled in a turn, and behind all others.
            for _ in 0..300 {
                let document = doc! { "_id": next, "u": next }.to_buf();
                let documents = [document.as_raw()];
                let mut inserting = pin!(things.insert_many(writing(&things), &documents, true));
                // At the very end they are kept out.
                if inserting.as_mut().poll(&mut task).is_pending() {
                    break;
                }
                next += 1;
            }
            is_pending
        });
        assert!(turns.count() < 1_000, "it is still at it");
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
        if catalog.store().path().is_some() {
            let index = things.definition().index("u").cloned().expect("it goes on at the next start");
            return assert!(!index.is_ready());
        }
        assert!(things.builds().is_empty());
        assert!(things.definition().index("u").is_none(), "nobody maintains it");
        index(&catalog, "c", spec).expect_err("it is not there");
    });
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
            let build = index_build::start(&things, order(id, name));
            let found = index_build::check_all_entries(changing(&catalog), &things, &build);
            assert_eq!(found.err().map(|error| error.code()), expect, "index {name}");
            things.remove_build(&build);
        }
    });
}

/// Options by which a build of some ten thousand documents does what one of millions does.
fn many_runs() -> StorageOptions {
    StorageOptions { build_threads: 3, build_memory_bytes: 192 << 10, ..StorageOptions::small() }
}

fn on_both_engines_in_runs(test: impl Fn(Arc<Catalog>, Option<&std::path::Path>)) {
    let memory = Store::in_memory(&many_runs()).expect("a store in memory");
    test(Catalog::open(memory).expect("an empty catalog"), None);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let store = Store::open(&path, &many_runs()).expect("a store in a directory");
    test(Catalog::open(store).expect("an empty catalog"), Some(&path));
}

/// What a document of this number looks like in its version of this moment: in turn with a number, an array,
/// a subdocument, nothing.
fn version(id: i32, random: &mut fastrand::Rng) -> Document {
    let text = "x".repeat(random.usize(0..30));
    match random.u8(0..5) {
        0 => doc! { "_id": id, "u": id, "a": (random.i32(0..50)), "s": text },
        1 => doc! { "_id": id, "u": id, "a": [(random.i32(0..9)), (random.i32(0..9))], "s": text },
        2 => doc! { "_id": id, "u": id, "a": { "b": (random.i32(0..9)) }, "s": text },
        3 => doc! { "_id": id, "u": id, "a": (f64::from(random.i32(0..50))), "s": text },
        _ => doc! { "_id": id, "u": id, "s": text },
    }
}

/// Writes to the collection until it is told to stop; the numbers of its documents end with its own.
fn write_at_random(things: &Collection, number: i32, seed: u64, stop: &AtomicBool) {
    let mut random = fastrand::Rng::with_seed(seed);
    while !stop.load(Ordering::Relaxed) {
        let id = random.i32(0..15_000) * 2 + number;
        let next = (random.u8(0..4) > 0).then(|| version(id, &mut random));
        update(things, id, |found| found.and(next.clone())).expect("an update");
        if let Some(document) = next {
            // It was there, or it comes.
            let _ = insert(things, document);
        }
    }
}

/// Builds an index of some megabytes, all builds together having so many bytes; the most runs on the disk at
/// a time, and the most that was held.
fn runs_of_a_build_within(bytes: u64) -> (usize, u64) {
    const DOCUMENTS: i32 = 40_000;
    let directory = tempfile::tempdir().expect("a directory");
    let options = StorageOptions { build_threads: 0, ..StorageOptions::small() };
    let store = Store::open(directory.path().join("data"), &options).expect("a store");
    let catalog = Catalog::open(store.clone()).expect("an empty catalog");
    let things = collection(&catalog, "c");
    for first in (0..DOCUMENTS).step_by(1_000) {
        let text = |id: i32| format!("{:0>200}", id.wrapping_mul(7_919) % 100_000);
        let documents = buffers((first..first + 1_000).map(|id| doc! { "_id": id, "s": text(id) }));
        let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
        block_on(things.insert_many(writing(&things), &documents, true));
    }
    let engine = EngineMemory { cache: u64::MAX, memtables: 1 << 30 };
    store.bound_memory(StoreMemory { rows: u64::MAX, builds: bytes, engine });
    let specs = [IndexSpec::parse(doc! { "key": { "s": 1 }, "name": "s" }.to_buf().as_raw()).expect("one")];
    let namespace = namespace("c");
    let mut building = pin!(catalog.create_indexes(changing(&catalog), &namespace, &specs));
    let mut task = Context::from_waker(Waker::noop());
    let (mut runs, mut held) = (0, 0);
    while building.as_mut().poll(&mut task).is_pending() {
        let builds = std::fs::read_dir(directory.path().join("data/index-builds")).expect("its directory");
        let files = builds.flatten().flat_map(|build| std::fs::read_dir(build.path()).expect("its files"));
        let is_run = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with("run");
        runs = runs.max(files.flatten().filter(is_run).count());
        held = held.max(store.memory().builds);
    }
    assert_eq!(entries(&things, "s") as i32, DOCUMENTS);
    assert_eq!(store.memory().builds, 0, "a build that is over holds nothing");
    (runs, held)
}

#[test]
fn a_build_that_has_less_memory_sorts_in_more_runs() {
    const MIB: u64 = 1 << 20;
    let (runs, held) = runs_of_a_build_within(u64::MAX);
    assert_eq!(runs, 0, "64 MiB are enough for all of it");
    assert!(held > 8 * MIB, "40,000 entries of 200 bytes, and {held} bytes are told");
    let (runs, held) = runs_of_a_build_within(0);
    assert!(runs >= 2, "{runs} runs of 4 MiB, which any build may hold");
    // Room for twice as much, as vectors grow.
    assert!((3 * MIB..10 * MIB).contains(&held), "{held} bytes");
}

#[test]
fn runs_and_notes_of_writers_make_a_whole_index() {
    for seed in 0..2 {
        on_both_engines_in_runs(|catalog, path| {
            let things = collection(&catalog, "c");
            let mut random = fastrand::Rng::with_seed(seed);
            for first in (0..60_000).step_by(1_000) {
                let documents = buffers((first..first + 1_000).map(|id| version(id, &mut random)));
                let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
                block_on(things.insert_many(writing(&things), &documents, true));
            }
            let before = things.store.pinned_view();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for number in 0..2 {
                    let (things, stop) = (&things, &stop);
                    scope.spawn(move || write_at_random(things, number, seed * 7 + number as u64, stop));
                }
                let specs = [
                    doc! { "key": { "a": 1, "s": -1 }, "name": "a" },
                    doc! { "key": { "u": 1 }, "name": "u", "unique": true },
                    doc! { "key": { "a.b": 1 }, "name": "sparse", "sparse": true },
                    doc! {
                        "key": { "a": "hashed" }, "name": "partial",
                        "partialFilterExpression": { "a": { "$type": "double" } }
                    },
                ];
                let specs: Vec<_> = specs
                    .iter()
                    .map(|spec| IndexSpec::parse(spec.to_buf().as_raw()).expect("a specification"))
                    .collect();
                let built = block_on(catalog.create_indexes(changing(&catalog), &namespace("c"), &specs));
                stop.store(true, Ordering::Relaxed);
                built.expect("four indexes");
            });
            assert_valid(&things);
            assert_eq!(entries(&things, "u") as u64, things.document_count());
            assert!(things.definition().index("a").expect("the index").is_multikey());
            assert!(!things.definition().index("u").expect("the index").is_multikey());
            let range = keys::indexes_range(things.id());
            let mut cursor = before.cursor(Keyspace::Indexes, range, Direction::Forward).expect("a cursor");
            assert_eq!(cursor.next().expect("a read"), None, "a view of before has no part of it");
            for index in things.definition().indexes.iter() {
                let range = keys::notes_range(things.id(), index.id);
                let view = things.store.read_view();
                let mut cursor = view.cursor(Keyspace::Indexes, range, Direction::Forward).expect("a cursor");
                assert_eq!(cursor.next().expect("a read"), None, "a note is left");
            }
            if let Some(path) = path {
                let left = std::fs::read_dir(path.join("index-builds")).expect("its directory").count();
                assert_eq!(left, 0, "files are left");
            }
        });
    }
}

#[test]
fn duplicates_in_different_runs_are_found_and_nothing_is_left() {
    on_both_engines_in_runs(|catalog, path| {
        let things = collection(&catalog, "c");
        fill(&things, 60_000);
        insert(&things, doc! { "_id": -7, "u": 59_999 }).expect("an insert");
        let unique = || doc! { "key": { "u": 1 }, "name": "u", "unique": true };
        assert_code(index(&catalog, "c", unique()), 11000);
        assert!(things.definition().index("u").is_none());
        let range = keys::indexes_range(things.id());
        let view = things.store.read_view();
        let mut cursor = view.cursor(Keyspace::Indexes, range, Direction::Forward).expect("a cursor");
        assert_eq!(cursor.next().expect("a read"), None, "entries of the failed build");
        if let Some(path) = path {
            let left = std::fs::read_dir(path.join("index-builds")).expect("its directory").count();
            assert_eq!(left, 0, "files are left");
        }
        update(&things, -7, |_| None).expect("a delete");
        index(&catalog, "c", unique()).expect("there is no duplicate any more");
        assert_valid(&things);
    });
}

#[test]
fn a_build_of_a_dropped_collection_or_index_ends_and_leaves_nothing() {
    on_both_engines_in_runs(|catalog, _| {
        let things = collection(&catalog, "c");
        fill(&things, 60_000);
        std::thread::scope(|scope| {
            let building =
                scope.spawn(|| index(&catalog, "c", doc! { "key": { "a": 1 }, "name": "a" }).map(drop));
            while things.builds().is_empty() && !building.is_finished() {
                std::thread::yield_now();
            }
            let selection = IndexSelection::Names(vec!["a".into()]);
            block_on(catalog.drop_indexes(changing(&catalog), &namespace("c"), &selection)).expect("a drop");
            let _ = building.join().expect("no panic");
        });
        let range = keys::indexes_range(things.id());
        let view = things.store.read_view();
        let mut cursor = view.cursor(Keyspace::Indexes, range, Direction::Forward).expect("a cursor");
        assert_eq!(cursor.next().expect("a read"), None, "entries of an index that is dropped");
        assert_valid(&things);
    });
}

#[test]
fn a_build_tells_how_far_it_is() {
    on_both_engines_in_runs(|catalog, _| {
        let things = collection(&catalog, "c");
        fill(&things, 60_000);
        let namespace = namespace("c");
        let spec = doc! { "key": { "a": 1 }, "name": "a" };
        let specs = [IndexSpec::parse(spec.to_buf().as_raw()).expect("a specification")];
        let mut building = pin!(catalog.create_indexes(changing(&catalog), &namespace, &specs));
        let mut task = Context::from_waker(Waker::noop());
        let (mut phases, mut polls) = (Vec::new(), 0);
        while building.as_mut().poll(&mut task).is_pending() {
            let Some(build) = things.builds().pop() else { continue };
            let (phase, done, total) = (build.phase(), build.done(), build.total());
            assert!(phase == BuildPhase::Settle || done <= total, "{phase:?}: {done} of {total}");
            if phases.last() != Some(&phase) {
                phases.push(phase);
            }
            polls += 1;
        }
        assert!(polls > 0 && phases.is_sorted_by_key(|phase| *phase as u8), "{phases:?}");
        assert_eq!(phases.first(), Some(&BuildPhase::Scan));
        assert_valid(&things);
    });
}
