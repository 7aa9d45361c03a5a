//! Index builds that a crash has ended go on, from wherever it was: nothing is scanned again but what was in
//! memory, and the index is that of the documents.
//!
//! A build without threads does one step in each poll. Its future is dropped, and with it everything that the
//! process has: that is the crash.

use super::*;
use crate::index_build::BuildOrder;
use crate::{BuildPhase, BuildProgress, IndexSelection, Writer, keys};
use document::doc;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::{Context, Waker};
use storage::{Keyspace, WriteUnit};

const DOCUMENTS: i32 = 30_000;
/// Documents that a poll reads at most.
const STEP: usize = 256;

/// Memory for some thousand entries.
fn options() -> StorageOptions {
    StorageOptions { build_threads: 0, build_memory_bytes: 256 << 10, ..StorageOptions::small() }
}

/// A data directory, opened again and again.
struct Machine {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Machine {
    fn with(documents: i32) -> Machine {
        let directory = tempfile::tempdir().expect("a directory");
        let machine = Machine { path: directory.path().join("data"), _directory: directory };
        let catalog = machine.open();
        let things = collection(&catalog, "c");
        for first in (0..documents).step_by(1_000) {
            let documents = buffers((first..first + 1_000).map(|id| document(id, 0)));
            let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
            block_on(things.insert_many(writing(&things), &documents, true));
        }
        machine
    }

    fn open(&self) -> Arc<Catalog> {
        Catalog::open(Store::open(&self.path, &options()).expect("a store")).expect("a catalog")
    }

    fn builds(&self) -> PathBuf {
        self.path.join("index-builds")
    }

    fn files(&self) -> Vec<String> {
        let mut names = Vec::new();
        for build in std::fs::read_dir(self.builds()).into_iter().flatten().flatten() {
            for file in std::fs::read_dir(build.path()).into_iter().flatten().flatten() {
                names.push(file.file_name().to_string_lossy().into_owned());
            }
        }
        names
    }

    /// What the next start finds beside the data, put aside.
    fn keep_files(&self) -> tempfile::TempDir {
        let kept = tempfile::tempdir().expect("a directory");
        copy(&self.builds(), kept.path());
        kept
    }

    fn put_back(&self, kept: &Path) {
        std::fs::remove_dir_all(self.builds()).expect("it is there");
        copy(kept, &self.builds());
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy")),
        }
    }
}

/// A document in one of its versions: in turn with a number, an array, neither.
fn document(id: i32, version: i32) -> Document {
    match (id + version) % 3 {
        0 => doc! { "_id": id, "a": (version * 7 + id % 50), "u": id },
        1 => doc! { "_id": id, "a": [version, (id % 9)], "u": id },
        _ => doc! { "_id": id, "u": id },
    }
}

fn specs() -> Vec<IndexSpec> {
    let specs =
        [doc! { "key": { "a": 1 }, "name": "a" }, doc! { "key": { "u": 1 }, "name": "u", "unique": true }];
    let parse = |spec: &Document| IndexSpec::parse(spec.to_buf().as_raw()).expect("a specification");
    specs.iter().map(parse).collect()
}

/// Changes, removes and adds documents everywhere in the collection, as long as the build does not keep
/// writers out: it does not go on meanwhile.
fn write_everywhere(things: &Collection, round: i32, changes: i32) {
    let is_done = |writing: std::pin::Pin<&mut dyn Future<Output = ()>>| {
        writing.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    for number in 0..changes {
        let id = (number * 7_919 + round * 31) % DOCUMENTS;
        let went_on = if number % 5 == 1 {
            let new = document(DOCUMENTS + round * 100_000 + number, round).to_buf();
            is_done(pin!(async { drop(things.insert(writing(things), new.as_raw()).await) }))
        } else {
            let key = Collection::document_key_of_id(RawValue::Int32(id));
            let decide = |found: Option<RawDocument<'_>>| {
                Ok::<_, WriteError>(match found {
                    Some(_) if number % 5 == 0 => Decision::Remove,
                    Some(_) => Decision::Replace(document(id, round).to_buf()),
                    None => Decision::Keep,
                })
            };
            is_done(pin!(async {
                things.update(writing(things), &key, decide).await.expect("a change");
            }))
        };
        if !went_on {
            return;
        }
    }
}

/// Polls a build until `crashes` says so, between its steps; whether it did.
fn run_until<T>(
    building: impl Future<Output = Result<T, CatalogError>>,
    mut crashes: impl FnMut() -> bool,
) -> Option<Result<T, CatalogError>> {
    let mut building = pin!(building);
    let mut task = Context::from_waker(Waker::noop());
    loop {
        if let std::task::Poll::Ready(built) = building.as_mut().poll(&mut task) {
            return Some(built);
        }
        if crashes() {
            return None;
        }
    }
}

/// Begins a build and lets the process die when `crashes` says so, between its steps.
fn crash(machine: &Machine, mut crashes: impl FnMut(&Collection, &BuildProgress) -> bool) {
    let catalog = machine.open();
    let things = collection(&catalog, "c");
    let (namespace, specs) = (namespace("c"), specs());
    let building = catalog.create_indexes(changing(&catalog), &namespace, &specs);
    let ended = run_until(building, || things.builds().first().is_some_and(|build| crashes(&things, build)));
    assert!(ended.is_none(), "it has come to its end before the crash: {ended:?}");
}

/// Goes on with the build there is; how many documents its scan has read at most.
fn go_on(catalog: &Catalog, mut between: impl FnMut(&Collection)) -> usize {
    let (things, build) = catalog.waiting_index_builds().pop().expect("a build that can go on");
    let mut polls = 0;
    let going_on = catalog.go_on_with_index_build(changing(catalog), &things, &build);
    let built = run_until(going_on, || {
        polls += usize::from(build.phase() == BuildPhase::Scan);
        between(&things);
        false
    });
    assert!(built.expect("it comes to its end").expect("no duplicates"), "nobody else works on it");
    polls * STEP
}

#[track_caller]
fn assert_built(machine: &Machine, catalog: &Catalog) {
    let things = collection(catalog, "c");
    for name in ["a", "u"] {
        assert!(things.definition().index(name).expect("the index").is_ready(), "{name}");
    }
    assert!(things.definition().index("a").expect("the index").is_multikey());
    assert_eq!(entries(&things, "u") as u64, things.document_count());
    assert_valid(&things);
    for index in things.definition().indexes.iter() {
        assert_eq!(first_in(&things, keys::notes_range(things.id(), index.id)), None, "a note is left");
    }
    assert!(things.builds().is_empty() && catalog.waiting_index_builds().is_empty());
    assert_eq!(machine.files(), [""; 0], "files are left");
    insert(&things, doc! { "_id": "twice", "u": 7_001 }).expect_err("it is unique");
}

fn first_in(things: &Collection, range: storage::KeyRange) -> Option<Vec<u8>> {
    let view = things.store.read_view();
    let mut cursor = view.cursor(Keyspace::Indexes, range, Direction::Forward).expect("a cursor");
    cursor.next().expect("a read").map(|(key, _)| key.to_vec())
}

#[test]
fn a_scan_goes_on_where_it_was() {
    for share in [3, 6, 9] {
        let machine = Machine::with(DOCUMENTS);
        let (mut step, mut scanned) = (0, 0);
        crash(&machine, |things, build| {
            step += 1;
            if step % 10 == 0 {
                write_everywhere(things, step, 20);
            }
            scanned = build.done();
            build.phase() == BuildPhase::Scan && scanned >= DOCUMENTS as u64 * share / 10
        });
        let catalog = machine.open();
        let (things, build) = catalog.waiting_index_builds().pop().expect("a build that can go on");
        let saved = build.resumed_at().expect("it goes on");
        assert!(
            saved <= scanned && scanned - saved < 6_000,
            "no more is lost than is in memory: {saved} of {scanned}"
        );
        assert!(!things.definition().index("a").expect("the index").is_ready());
        // Nobody works on it yet, and writers leave notes.
        write_everywhere(&things, 100, 3_000);
        let mut round = 200;
        let read = go_on(&catalog, |things| {
            round += 1;
            write_everywhere(things, round, 3);
        });
        let left = things.document_count() as usize - saved as usize;
        assert!(read <= left + 4 * STEP, "{read} documents were read where {left} were left");
        drop((things, build));
        assert_built(&machine, &catalog);
    }
}

#[test]
fn a_build_that_crashes_again_and_again_comes_to_its_end() {
    let machine = Machine::with(DOCUMENTS);
    crash(&machine, |_, build| build.done() > 2_000);
    let mut crashes = 0;
    loop {
        let catalog = machine.open();
        let (things, build) = catalog.waiting_index_builds().pop().expect("a build that can go on");
        write_everywhere(&things, crashes, 400);
        let mut steps = 0;
        let going_on = catalog.go_on_with_index_build(changing(&catalog), &things, &build);
        let ended = run_until(going_on, || {
            steps += 1;
            steps == 25
        });
        if let Some(built) = ended {
            assert!(built.expect("no duplicates"));
            break;
        }
        crashes += 1;
        assert!(crashes < 100, "it does not get further");
    }
    assert!(crashes > 3, "{crashes} crashes");
    assert_built(&machine, &machine.open());
}

/// Registers a build that nobody works on.
fn register(things: &Collection) -> Arc<BuildProgress> {
    let mut definition = things.definition().copy().expect("a copy");
    let mut add = |spec: IndexSpec| {
        let name = spec.name.clone();
        (definition.add_index(spec, crate::IndexState::Building).expect("an index"), name)
    };
    let indexes = specs().into_iter().map(&mut add).collect();
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Meta, &keys::record_key(things.id()), definition.to_record().as_bytes());
    things.store.commit(unit).wait().expect("a commit");
    things.publish(definition);
    crate::index_build::start(things, BuildOrder { indexes, replaced: Vec::new(), is_of_log: false })
}

#[test]
fn tables_that_were_taken_in_are_made_again_of_the_runs() {
    let machine = Machine::with(DOCUMENTS);
    let catalog = machine.open();
    let things = collection(&catalog, "c");
    let build = register(&things);
    let mut kept = None;
    let loading = crate::index_build::scan_and_load(changing(&catalog), &things, &build, None);
    let loaded = run_until(loading, || {
        write_everywhere(&things, 1, 2);
        kept = Some(machine.keep_files());
        false
    });
    loaded.expect("an end").expect("the entries");
    let is_in_the_store = first_in(&things, keys::index_range(things.id(), 1)).is_some();
    assert!(is_in_the_store && first_in(&things, keys::notes_range(things.id(), 1)).is_some());
    drop((build, things, catalog));
    // The process has died before it could write down that they are.
    machine.put_back(kept.expect("it has scanned").path());
    let build = std::fs::read_dir(machine.builds()).expect("it is there").flatten().next().expect("a build");
    std::fs::write(build.path().join("table-77-0.sst"), b"half a table").expect("a file");
    std::fs::write(build.path().join("run-99"), b"half a run").expect("a file");
    let catalog = machine.open();
    write_everywhere(&collection(&catalog, "c"), 2, 2_000);
    let read = go_on(&catalog, |things| write_everywhere(things, 3, 1));
    assert!(read < 6_000, "{read} documents were read for what was in memory");
    assert_built(&machine, &catalog);
}

#[test]
fn settled_notes_stay_settled() {
    let machine = Machine::with(DOCUMENTS);
    crash(&machine, |things, build| {
        match build.phase() {
            BuildPhase::Settle => {}
            _ if build.done() < 4_000 => write_everywhere(things, 5, 900),
            _ => {}
        }
        build.phase() == BuildPhase::Settle && build.done() > 300
    });
    let catalog = machine.open();
    let things = collection(&catalog, "c");
    assert!(first_in(&things, keys::notes_range(things.id(), 1)).is_some(), "there are notes left to settle");
    write_everywhere(&things, 6, 500);
    assert_eq!(go_on(&catalog, |things| write_everywhere(things, 7, 2)), 0, "nothing is read again");
    assert_built(&machine, &catalog);
}

#[test]
fn duplicates_that_were_suspects_before_the_crash_are_found() {
    let machine = Machine::with(DOCUMENTS);
    crash(&machine, |things, build| {
        if build.phase() == BuildPhase::Scan && build.done() < 1_000 {
            write_everywhere(things, 5, 900);
            for (id, u) in [(-5, 29_999), (-6, 28_888)] {
                let _ = insert(things, doc! { "_id": id, "u": u });
            }
        }
        build.phase() == BuildPhase::Settle && build.done() > 300
    });
    let catalog = machine.open();
    let (things, build) = catalog.waiting_index_builds().pop().expect("a build that can go on");
    let built = block_on(catalog.go_on_with_index_build(changing(&catalog), &things, &build));
    assert_code(built, 11000);
    assert!(things.definition().index("u").is_none() && things.definition().index("a").is_none());
    assert_eq!(first_in(&things, keys::indexes_range(things.id())), None, "entries of the failed build");
    assert_eq!(machine.files(), [""; 0]);
    assert!(things.builds().is_empty());
}

#[test]
fn a_crash_at_the_end_leaves_nothing_but_the_end_to_do() {
    let machine = Machine::with(DOCUMENTS);
    let catalog = machine.open();
    let things = collection(&catalog, "c");
    // All but the last step.
    let build = register(&things);
    block_on(crate::index_build::fill(changing(&catalog), &things, &build)).expect("the entries");
    let kept = machine.keep_files();
    drop((build, things, catalog));
    let catalog = machine.open();
    write_everywhere(&collection(&catalog, "c"), 3, 100);
    assert_eq!(go_on(&catalog, |_| {}), 0, "nothing is read again");
    assert_built(&machine, &catalog);
    drop(catalog);
    // It was ready, and the process died before its files were gone.
    copy(kept.path(), &machine.builds());
    let catalog = machine.open();
    assert_built(&machine, &catalog);
}

#[test]
fn small_builds_and_those_whose_files_are_damaged_begin_anew() {
    let small = Machine::with(2_000);
    crash(&small, |_, build| build.done() > 500);
    let catalog = small.open();
    write_everywhere(&collection(&catalog, "c"), 3, 100);
    assert!(go_on(&catalog, |_| {}) >= 2_000, "all is read");
    let things = collection(&catalog, "c");
    assert_valid(&things);
    assert!(things.definition().index("u").expect("the index").is_ready());

    let damaged = Machine::with(DOCUMENTS);
    crash(&damaged, |_, build| build.done() > 20_000);
    let build = std::fs::read_dir(damaged.builds()).expect("it is there").flatten().next().expect("a build");
    let run = build.path().join("run-2");
    let mut bytes = std::fs::read(&run).expect("a run");
    bytes[1_000] ^= 1;
    std::fs::write(&run, bytes).expect("a file");
    let catalog = damaged.open();
    assert!(go_on(&catalog, |_| {}) >= DOCUMENTS as usize, "all is read");
    assert_built(&damaged, &catalog);
}

#[test]
fn without_its_state_a_build_leaves_no_entry_no_note_and_no_file() {
    for is_rebuild in [false, true] {
        let machine = Machine::with(DOCUMENTS);
        if is_rebuild {
            let catalog = machine.open();
            block_on(catalog.create_indexes(changing(&catalog), &namespace("c"), &specs())).expect("indexes");
            block_on(catalog.register_rebuild(changing(&catalog), &collection(&catalog, "c")))
                .expect("registered");
        } else {
            crash(&machine, |things, build| {
                write_everywhere(things, 1, 1);
                build.phase() == BuildPhase::Settle
            });
        }
        let _ = std::fs::remove_dir_all(machine.builds());
        let catalog = machine.open();
        let things = collection(&catalog, "c");
        assert!(catalog.waiting_index_builds().is_empty());
        let definition = things.definition();
        let ids: Vec<_> = definition.indexes.iter().map(|index| index.id).collect();
        assert_eq!(ids, if is_rebuild { vec![0, 1, 2] } else { vec![0] });
        for id in if is_rebuild { 3..5 } else { 1..3 } {
            assert_eq!(first_in(&things, keys::index_range(things.id(), id)), None);
            assert_eq!(first_in(&things, keys::notes_range(things.id(), id)), None);
        }
        assert_valid(&things);
        index(&catalog, "c", doc! { "key": { "b": 1 }, "name": "b" }).expect("an index");
        let id = things.definition().index("b").expect("the index").id;
        assert!(id >= 3, "ids are not used again");
    }
}

#[test]
fn a_rebuild_goes_on_beside_the_old_indexes() {
    let machine = Machine::with(DOCUMENTS);
    let catalog = machine.open();
    block_on(catalog.create_indexes(changing(&catalog), &namespace("c"), &specs())).expect("indexes");
    let namespace = namespace("c");
    let things = collection(&catalog, "c");
    let rebuilding = catalog.rebuild_indexes(changing(&catalog), &namespace);
    let ended = run_until(rebuilding, || things.builds().first().is_some_and(|build| build.done() > 20_000));
    assert!(ended.is_none());
    drop((things, catalog));
    let catalog = machine.open();
    let things = collection(&catalog, "c");
    assert_eq!(things.definition().index("u").expect("the old index").id, 2);
    write_everywhere(&things, 9, 500);
    assert!(go_on(&catalog, |things| write_everywhere(things, 10, 1)) < 15_000);
    let ids: Vec<_> = things.definition().indexes.iter().map(|index| index.id).collect();
    assert_eq!(ids, [0, 3, 4]);
    assert_built(&machine, &catalog);
}

#[test]
fn who_asks_for_the_index_again_has_the_build_go_on() {
    let machine = Machine::with(DOCUMENTS);
    crash(&machine, |_, build| build.done() > 20_000);
    let catalog = machine.open();
    let things = collection(&catalog, "c");
    let build = things.builds().pop().expect("a build");
    let (namespace, mut polls) = (namespace("c"), 0);
    let asked = &specs()[..1];
    let building = catalog.create_indexes(changing(&catalog), &namespace, asked);
    let built = run_until(building, || {
        polls += usize::from(build.phase() == BuildPhase::Scan);
        false
    });
    built.expect("an end").expect("no error");
    assert!(polls * STEP < 15_000, "{polls} steps");
    drop(build);
    assert_built(&machine, &catalog);
}

#[test]
fn a_log_commits_the_indexes_that_it_names() {
    for names_all in [true, false] {
        let machine = Machine::with(DOCUMENTS);
        crash(&machine, |_, build| build.done() > 20_000);
        let catalog = machine.open();
        let things = collection(&catalog, "c");
        let context = OperationContext { writer: Writer::Replication, ..*changing(&catalog) };
        let asked = &specs()[..if names_all { 2 } else { 1 }];
        let (namespace, mut polls) = (namespace("c"), 0);
        let building = catalog.create_indexes(&context, &namespace, asked);
        run_until(building, || {
            polls +=
                usize::from(things.builds().first().is_some_and(|build| build.phase() == BuildPhase::Scan));
            false
        })
        .expect("an end")
        .expect("indexes");
        assert_eq!(polls * STEP < 15_000, names_all, "{polls} steps");
        assert_eq!(
            things.definition().index("u").is_some(),
            names_all,
            "an index that the log does not name"
        );
        assert!(things.definition().index("a").expect("the index").is_ready());
        assert_valid(&things);
        assert_eq!(machine.files(), [""; 0]);
    }
}

#[test]
fn what_waits_is_dropped_and_given_up_with_all_that_it_has() {
    for how in ["drop index", "drop collection", "give up"] {
        let machine = Machine::with(DOCUMENTS);
        crash(&machine, |things, build| {
            write_everywhere(things, 1, 1);
            build.done() > 20_000
        });
        let catalog = machine.open();
        let things = collection(&catalog, "c");
        let build = things.builds().pop().expect("a build");
        match how {
            "drop index" => {
                let selection = IndexSelection::Names(vec!["u".into()]);
                block_on(catalog.drop_indexes(changing(&catalog), &namespace("c"), &selection))
                    .expect("a drop");
            }
            "drop collection" => {
                block_on(catalog.drop_collection(changing(&catalog), &namespace("c"))).expect("a drop");
            }
            _ => {
                block_on(catalog.give_up_index_build(changing(&catalog), &things, &build)).expect("given up")
            }
        }
        assert_eq!(first_in(&things, keys::indexes_range(things.id())), None, "{how}");
        assert_eq!(machine.files(), [""; 0], "{how}");
        assert!(things.builds().is_empty() && catalog.waiting_index_builds().is_empty(), "{how}");
        drop((things, build, catalog));
        assert!(machine.open().waiting_index_builds().is_empty(), "{how}");
    }
}

#[test]
fn a_state_is_of_its_store_alone() {
    let machine = Machine::with(DOCUMENTS);
    crash(&machine, |_, build| build.done() > 20_000);
    let catalog = machine.open();
    let things = collection(&catalog, "c");
    let saved = crate::index_build::find_saved(catalog.store()).pop().expect("a state");
    let definition = things.definition();
    assert!(saved.is_of(&definition, catalog.store()));
    let other = Store::in_memory(&options()).expect("a store");
    assert!(!saved.is_of(&definition, &other), "that store is older than what was scanned");
    let mut renamed = definition.copy().expect("a copy");
    renamed.uuid = uuid::Uuid::from_u128(3);
    assert!(!saved.is_of(&renamed, catalog.store()), "another collection");
    let mut ready = definition.copy().expect("a copy");
    ready
        .change_index(1, |index| (index.spec.clone(), crate::IndexState::Ready, index.multikey.clone()))
        .expect("a change");
    assert!(!saved.is_of(&ready, catalog.store()), "it is ready");
}
