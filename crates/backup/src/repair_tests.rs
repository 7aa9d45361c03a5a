//! Repairs of stores that are damaged in each way, without a server.

use crate::{RepairReport, RepairRequest, repair};
use catalog::{Catalog, CollectionOptions, IndexSpec, Namespace, OperationContext, Receipts};
use document::{RawDocument, RawValue, doc};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::{CounterId, Direction, KeyRange, Keyspace, OpenError, StorageOptions, Store, WriteUnit};
use tempfile::TempDir;

const DOCUMENTS: i32 = 600;

type NamedDamage<'d> = (&'d str, &'d dyn Fn(&Case));

struct Case {
    directory: TempDir,
}

fn options() -> StorageOptions {
    StorageOptions { build_threads: 2, ..StorageOptions::small() }
}

fn namespace(name: &str) -> Namespace {
    Namespace::new("test", name)
}

/// Does not compress.
fn text(number: i32) -> String {
    let mut state = u64::from(number.unsigned_abs()) + 1;
    let letters = (0..200).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(33 + (state >> 33) as u8 % 90)
    });
    letters.collect()
}

fn insert(catalog: &Arc<Catalog>, name: &str, numbers: std::ops::Range<i32>) {
    let store = catalog.store().clone();
    let receipts = Receipts::default();
    let context = OperationContext::writing(&store, &receipts);
    let collection = catalog.collection("test", name).unwrap();
    for number in numbers {
        let document =
            doc! { "_id": number, "n": number, "a": (number % 7), "text": (text(number).as_str()) };
        pollster::block_on(collection.insert(&context, document.to_buf().as_raw())).unwrap();
    }
}

fn create(catalog: &Arc<Catalog>, name: &str, given: document::Document) {
    let store = catalog.store().clone();
    let receipts = Receipts::default();
    let context = OperationContext::writing(&store, &receipts);
    let given = CollectionOptions::parse(given.to_buf().as_raw()).unwrap();
    pollster::block_on(catalog.create(&context, &namespace(name), given)).unwrap();
}

/// What a killed server leaves: documents in tables, and as many in the journal.
impl Case {
    fn new() -> Case {
        Case::with(|_| {})
    }

    fn with(more: impl FnOnce(&Arc<Catalog>)) -> Case {
        let case = Case { directory: tempfile::tempdir().unwrap() };
        let live = case.directory.path().join("live");
        let store = Store::open(&live, &options()).unwrap();
        let catalog = Catalog::open(store.clone()).unwrap();
        create(&catalog, "things", doc! {});
        create(&catalog, "capped", doc! { "capped": true, "size": 1_000_000 });
        create(&catalog, "view", doc! { "viewOn": "things", "pipeline": [] });
        let receipts = Receipts::default();
        let context = OperationContext::writing(&store, &receipts);
        let unique = doc! { "key": { "n": 1 }, "name": "n_1", "unique": true };
        let plain = doc! { "key": { "a": 1, "n": (-1) }, "name": "a_n" };
        let specs = [unique, plain].map(|spec| IndexSpec::parse(spec.to_buf().as_raw()).unwrap());
        pollster::block_on(catalog.create_indexes(&context, &namespace("things"), &specs)).unwrap();
        insert(&catalog, "things", 0..DOCUMENTS / 2);
        insert(&catalog, "capped", 0..20);
        store.flush().unwrap();
        insert(&catalog, "things", DOCUMENTS / 2..DOCUMENTS);
        insert(&catalog, "capped", 20..40);
        more(&catalog);
        store.sync_journal().unwrap();
        copy(&live, &case.data());
        case
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The engine's files with this ending, the largest first.
    fn files(&self, ending: &str) -> Vec<PathBuf> {
        let entries =
            std::fs::read_dir(self.data().join("engine")).unwrap().map(|entry| entry.unwrap().path());
        let is_meant = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().contains(ending);
        let mut files: Vec<PathBuf> = entries.filter(is_meant).collect();
        files.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
        files
    }

    fn repair(&self, leaves_set: bool) -> RepairReport {
        let data = self.data();
        let request = |is_dry| RepairRequest { data: &data, is_dry, leaves_set };
        let before = image(&self.data());
        let dry = repair(request(true), &options(), &mut |_| {}).unwrap();
        assert_eq!(image(&self.data()), before, "a dry run changes nothing");
        assert_eq!(dry.kept, None);
        let report = repair(request(false), &options(), &mut |_| {}).unwrap();
        assert!(dry.lost.iter().all(|line| report.lost.contains(line)), "{dry:?} {report:?}");
        assert!(!self.data().join("repairing").exists());
        if report.refused.is_none() {
            let kept = report.kept.clone().unwrap();
            let is_there = |name: &str| before.iter().filter(|(path, _)| path.starts_with(name)).count();
            let engine = image(&kept).iter().filter(|(path, _)| path.starts_with("engine")).count();
            assert_eq!(engine, is_there("engine"), "every file of before is kept");
            assert!(kept.join("REPAIR").exists());
        }
        report
    }

    /// The numbers of the documents that are there, of a store in which all else agrees.
    fn check(&self) -> Found {
        let store = Store::open(self.data(), &options()).unwrap();
        let catalog = Catalog::open(store.clone()).unwrap();
        let state = catalog.state();
        for collection in state.collections() {
            let report = pollster::block_on(collection.validate(|| store.pinned_view())).unwrap();
            assert!(report.is_valid(), "{collection:?}: {report:?}");
        }
        let names = state.databases().iter().flat_map(|database| state.entries(database)).collect::<Vec<_>>();
        let found = Found {
            names: names.iter().map(|(name, _)| name.to_string()).collect(),
            things: numbers(&store, &catalog, "test", "things"),
            capped: numbers(&store, &catalog, "test", "capped"),
            indexes: catalog
                .collection("test", "things")
                .map_or(0, |things| things.definition().indexes.len()),
        };
        // It is written to as before, and capped collections know their last record.
        if catalog.collection("test", "things").is_some() {
            insert(&catalog, "things", 5000..5001);
        }
        if catalog.collection("test", "capped").is_some() {
            insert(&catalog, "capped", 5000..5001);
            assert_eq!(numbers(&store, &catalog, "test", "capped").len(), found.capped.len() + 1);
        }
        create(&catalog, "fresh", doc! {});
        assert!(numbers(&store, &catalog, "test", "fresh").is_empty(), "an id is used twice");
        store.close().unwrap();
        found
    }
}

#[derive(Debug)]
struct Found {
    names: BTreeSet<String>,
    things: Vec<i32>,
    capped: Vec<i32>,
    indexes: usize,
}

fn numbers(store: &Store, catalog: &Catalog, database: &str, name: &str) -> Vec<i32> {
    let Some(collection) = catalog.collection(database, name) else { return Vec::new() };
    let range = KeyRange::prefix(collection.id().to_be_bytes());
    let mut cursor = store.read_view().cursor(Keyspace::Documents, range, Direction::Forward).unwrap();
    let mut found = Vec::new();
    while let Some((_, value)) = cursor.next().unwrap() {
        let document = RawDocument::parse(value).unwrap();
        let number = document.get("_id").and_then(RawValue::as_i64_exact).unwrap() as i32;
        assert_eq!(
            document.get("text").and_then(RawValue::as_str),
            Some(text(number).as_str()),
            "wrong data"
        );
        found.push(number);
    }
    found
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, &target).unwrap()),
        }
    }
}

/// Names and contents of all files but those of locks.
fn image(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => files
                .extend(image(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes))),
            false if name == "heddle.lock" => {}
            false => files.push((name, std::fs::read(&path).unwrap())),
        }
    }
    files.sort();
    files
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

fn flip(path: &Path, place: usize) {
    change(path, |bytes| bytes[place] ^= 0x10);
}

fn all(numbers: std::ops::Range<i32>) -> Vec<i32> {
    numbers.collect()
}

#[track_caller]
fn check_whole(found: &Found) {
    assert_eq!(found.things, all(0..DOCUMENTS));
    assert_eq!(found.capped, all(0..40));
    assert_eq!(found.indexes, 3);
    let expect = ["test.capped", "test.things", "test.view"].map(str::to_owned);
    assert_eq!(found.names, BTreeSet::from(expect));
}

#[test]
fn what_is_whole_stays_so_and_the_files_of_before_are_kept() {
    let case = Case::new();
    let report = case.repair(false);
    assert!(report.lost.is_empty() && report.notes.is_empty(), "{report:?}");
    assert_eq!(report.summary, "3 collections and views, 640 documents, 2 indexes beside _id_");
    check_whole(&case.check());
    let kept = report.kept.unwrap();
    assert!(kept.ends_with("damaged-000001"));
    Store::open(&kept, &options()).unwrap();
    let again = case.repair(false);
    assert!(again.kept.unwrap().ends_with("damaged-000002"));
}

#[test]
fn a_damaged_block_costs_its_documents_and_no_others() {
    let case = Case::new();
    let table = &case.files(".sst")[0];
    flip(table, table.metadata().unwrap().len() as usize / 3);
    let report = case.repair(false);
    let name = table.file_name().unwrap().to_str().unwrap();
    let [block, count] = report.lost.as_slice() else { panic!("{report:?}") };
    assert!(
        block.starts_with(&format!("{name}: a block cannot be read [documents: test.things _id ")),
        "{block}"
    );
    let found = case.check();
    let lost = DOCUMENTS - found.things.len() as i32;
    assert!((1..60).contains(&lost), "a block of 8 KiB: {lost}");
    assert_eq!(*count, format!("test.things: {} documents are there, 600 were counted", 600 - lost));
    assert_eq!((found.capped.len(), found.indexes), (40, 3));
}

#[test]
fn a_table_that_is_missing_costs_what_was_in_it() {
    let case = Case::new();
    let table = &case.files(".sst")[0];
    std::fs::remove_file(table).unwrap();
    let report = case.repair(false);
    let line = format!("{}: it is missing [documents: ", table.file_name().unwrap().to_str().unwrap());
    assert!(report.lost[0].starts_with(&line), "{report:?}");
    let found = case.check();
    assert_eq!(found.things, all(DOCUMENTS / 2..DOCUMENTS), "those of the journal are there");
    assert_eq!(found.indexes, 3);
}

#[test]
fn damage_of_what_is_made_anew_costs_nothing() {
    let case = Case::new();
    let documents = case.files(".sst")[0].clone();
    for table in case.files(".sst").into_iter().filter(|table| *table != documents) {
        let bytes = std::fs::read(&table).unwrap();
        if !bytes.windows(11).any(|window| window == b"nextIndexId") {
            flip(&table, bytes.len() / 4);
        }
    }
    let report = case.repair(false);
    assert!(report.lost.is_empty() && !report.notes.is_empty(), "{report:?}");
    check_whole(&case.check());
}

#[test]
fn tables_and_journals_are_enough_without_a_manifest() {
    let damages: [NamedDamage<'_>; 4] = [
        ("missing", &|case| std::fs::remove_file(&case.files("MANIFEST")[0]).unwrap()),
        ("flipped", &|case| flip(&case.files("MANIFEST")[0], 20)),
        ("cut", &|case| change(&case.files("MANIFEST")[0], |bytes| bytes.truncate(150))),
        ("without tables", &|case| {
            std::fs::remove_file(&case.files("MANIFEST")[0]).unwrap();
            case.files(".sst").iter().for_each(|table| std::fs::remove_file(table).unwrap());
        }),
    ];
    for (what, damage) in damages {
        let case = Case::new();
        damage(&case);
        let report = case.repair(false);
        assert!(report.lost[0].starts_with("MANIFEST: it is "), "{what}: {report:?}");
        if what != "without tables" {
            check_whole(&case.check());
        }
    }
    let case = Case::new();
    std::fs::remove_file(case.data().join("engine/CURRENT")).unwrap();
    assert!(case.repair(false).lost.is_empty(), "the MANIFEST is there");
    check_whole(&case.check());
}

#[test]
fn keyspaces_without_a_table_are_read_from_the_journal() {
    let case = Case { directory: tempfile::tempdir().unwrap() };
    let store = Store::open(case.directory.path().join("live"), &options()).unwrap();
    let catalog = Catalog::open(store.clone()).unwrap();
    create(&catalog, "things", doc! {});
    insert(&catalog, "things", 0..50);
    store.sync_journal().unwrap();
    copy(&case.directory.path().join("live"), &case.data());
    assert!(case.files(".sst").is_empty(), "nothing is in tables");
    std::fs::remove_file(&case.files("MANIFEST")[0]).unwrap();
    case.repair(false);
    assert_eq!(case.check().things, all(0..50));
}

#[test]
fn a_damaged_journal_is_read_behind_the_damage() {
    let case = Case::new();
    let journal = &case.files(".log")[0];
    let middle = journal.metadata().unwrap().len() as usize / 2;
    flip(journal, middle);
    let report = case.repair(false);
    let line = format!("{}: bytes ", journal.file_name().unwrap().to_str().unwrap());
    assert!(report.lost[0].starts_with(&line), "{report:?}");
    let found = case.check();
    assert!(found.things.len() < DOCUMENTS as usize, "{found:?}");
    assert_eq!(found.things.last(), Some(&(DOCUMENTS - 1)), "what is behind the damage is there");
    assert!(report.lost.iter().any(|line| line.contains("600 were counted")), "{report:?}");
}

#[test]
fn a_journal_that_ends_within_a_record_lost_nothing_that_was_synced() {
    let case = Case::new();
    std::fs::remove_file(case.data().join("journal-mark")).unwrap();
    change(&case.files(".log")[0], |bytes| bytes.truncate(bytes.len() - 3));
    let report = case.repair(false);
    assert!(report.lost.is_empty() && report.notes.len() == 1, "{report:?}");
    assert_eq!(case.check().capped, all(0..39), "the last insert is gone whole");
    let case = Case::new();
    change(&case.files(".log")[0], |bytes| bytes.truncate(bytes.len() - 3));
    let report = case.repair(false);
    assert!(report.lost[0].starts_with("journal-mark: write "), "the mark knows better: {report:?}");
}

#[test]
fn damaged_files_of_the_directory_itself_cost_nothing() {
    let damages: [&dyn Fn(&Case); 4] = [
        &|case| std::fs::remove_file(case.data().join("FORMAT")).unwrap(),
        &|case| flip(&case.data().join("FORMAT"), 3),
        &|case| flip(&case.data().join("journal-mark"), 3),
        &|case| case.files("OPTIONS").iter().for_each(|file| flip(file, 100)),
    ];
    for damage in damages {
        let case = Case::new();
        damage(&case);
        assert!(case.repair(false).lost.is_empty());
        check_whole(&case.check());
    }
    let case = Case::new();
    std::fs::write(case.data().join("FORMAT"), "heddle storage format 7\nstate ready\n").unwrap();
    let request = RepairRequest { data: &case.data(), is_dry: false, leaves_set: false };
    let newer = repair(request, &options(), &mut |_| {});
    assert!(newer.is_err_and(|error| error.to_string().contains("format version 7")));
}

/// Writes behind the back of the catalog.
fn meddle(catalog: &Catalog, meddle: impl FnOnce(&mut WriteUnit)) {
    let mut unit = WriteUnit::new();
    meddle(&mut unit);
    catalog.store().write_now(unit).unwrap();
}

#[test]
fn collections_without_a_definition_are_found() {
    let mut id = 0;
    let case = Case::with(|catalog| {
        id = catalog.collection("test", "things").unwrap().id();
        meddle(catalog, |unit| {
            unit.put(Keyspace::Meta, &[&b"c"[..], &id.to_be_bytes()].concat(), b"\x05\0\0\0\0");
        });
    });
    let report = case.repair(false);
    let lost = format!("the definition of collection {id}, or it was dropped: its 600 documents are in");
    assert!(report.lost.iter().any(|line| line.starts_with(&lost)), "{report:?}");
    let found = case.check();
    assert!(found.names.contains(&format!("lost_and_found.collection-{id}")), "{found:?}");
    let case = Case::with(|catalog| {
        id = catalog.collection("test", "capped").unwrap().id();
        meddle(catalog, |unit| {
            unit.delete(Keyspace::Meta, &[&b"c"[..], &id.to_be_bytes()].concat());
            unit.delete(Keyspace::Meta, b"n");
        });
    });
    let report = case.repair(false);
    assert!(report.lost.iter().any(|line| line.contains("its 40 documents are in")), "{report:?}");
    case.check();
}

#[test]
fn entries_without_document_and_documents_without_entry_are_mended_and_counters_set_right() {
    let case = Case::with(|catalog| {
        let things = catalog.collection("test", "things").unwrap();
        let id = things.id();
        let view = catalog.store().read_view();
        let range = KeyRange::prefix(id.to_be_bytes());
        let mut cursor = view.cursor(Keyspace::Indexes, range.clone(), Direction::Forward).unwrap();
        let entry = cursor.next().unwrap().unwrap().0.to_vec();
        let mut cursor = view.cursor(Keyspace::Documents, range, Direction::Backward).unwrap();
        let document = cursor.next().unwrap().unwrap().0.to_vec();
        meddle(catalog, |unit| {
            unit.delete(Keyspace::Indexes, &entry);
            unit.delete(Keyspace::Documents, &document);
            unit.put(Keyspace::Indexes, &[&id.to_be_bytes()[..], b"\0\0\0\x01nonsense"].concat(), b"\x01");
            unit.add_counter(CounterId(u64::from(id) << 8), 7);
        });
    });
    let report = case.repair(false);
    assert!(report.lost.is_empty(), "{report:?}");
    assert_eq!(report.notes, ["test.things: 599 documents are there, 607 were counted"]);
    assert_eq!(case.check().things, all(0..DOCUMENTS - 1));
}

#[test]
fn what_a_unique_index_has_twice_is_kept_elsewhere() {
    let case = Case::with(|catalog| {
        let id = catalog.collection("test", "things").unwrap().id();
        let view = catalog.store().read_view();
        let range = KeyRange::prefix(id.to_be_bytes());
        let mut cursor = view.cursor(Keyspace::Documents, range, Direction::Backward).unwrap();
        let (key, value) = cursor.next().unwrap().unwrap();
        let (key, mut value) = (key.to_vec(), value.to_vec());
        // "n", the second field, becomes that of another document.
        let at = value.windows(3).position(|window| window == b"\x10n\0").unwrap() + 3;
        value[at] = value[at].wrapping_sub(1);
        meddle(catalog, |unit| unit.put(Keyspace::Documents, &key, &value));
    });
    let report = case.repair(false);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].starts_with("test.things, index n_1: 1 documents have keys of others and are in"));
    let found = case.check();
    assert_eq!((found.things.len(), found.indexes), (599, 3));
    assert!(found.names.iter().any(|name| name.starts_with("lost_and_found.collection-")), "{found:?}");
}

#[test]
fn a_member_that_lost_something_is_not_repaired_unless_it_leaves_its_set() {
    let as_member = |catalog: &Arc<Catalog>| {
        let store = catalog.store().clone();
        let receipts = Receipts::default();
        let context = OperationContext::writing(&store, &receipts);
        let oplog = pollster::block_on(catalog.create_oplog(&context, 1 << 20)).unwrap();
        let mut unit = WriteUnit::new();
        let entry = doc! { "ts": 1, "text": "entry" };
        oplog.put_records(&mut unit, [(1, entry.to_buf().as_raw())]);
        unit.put(Keyspace::Meta, b"rh", &[0; 24]);
        store.write_now(unit).unwrap();
    };
    let case = Case::with(as_member);
    let report = case.repair(false);
    assert!(report.lost.is_empty() && report.refused.is_none(), "all of it is there: {report:?}");
    let store = Store::open(case.data(), &options()).unwrap();
    assert!(store.read_view().exists(Keyspace::Meta, b"rh").unwrap(), "it is a member still");
    drop(store);
    let case = Case::with(as_member);
    let table = &case.files(".sst")[0];
    flip(table, table.metadata().unwrap().len() as usize / 3);
    let before = image(&case.data());
    let report = case.repair(false);
    assert!(report.refused.is_some() && !report.lost.is_empty() && report.kept.is_none(), "{report:?}");
    assert_eq!(image(&case.data()), before, "nothing was changed");
    let report = case.repair(true);
    assert!(report.refused.is_none(), "{report:?}");
    let store = Store::open(case.data(), &options()).unwrap();
    assert!(!store.read_view().exists(Keyspace::Meta, b"rh").unwrap(), "it is none any more");
    drop(store);
    assert!(!case.check().names.contains("local.oplog.rs"));
}

#[test]
fn a_directory_in_use_and_one_of_nobody_are_not_repaired() {
    let case = Case::new();
    let data = case.data();
    let request = RepairRequest { data: &data, is_dry: false, leaves_set: false };
    let store = Store::open(&data, &options()).unwrap();
    let in_use = repair(request, &options(), &mut |_| {});
    assert!(matches!(in_use, Err(crate::BackupError::Open(OpenError::Locked { .. }))), "{in_use:?}");
    drop(store);
    let nobody = case.directory.path().join("nobody");
    std::fs::create_dir(&nobody).unwrap();
    assert!(repair(RepairRequest { data: &nobody, ..request }, &options(), &mut |_| {}).is_err());
    assert_eq!(image(&nobody), Vec::new());
}

#[test]
fn no_server_starts_where_a_repair_ended_halfway_and_it_goes_on_from_there() {
    let states: [&dyn Fn(&Path); 4] = [
        &|_| {},
        &|data| std::fs::create_dir(data.join("damaged-000001")).unwrap(),
        &|data| {
            std::fs::create_dir(data.join("damaged-000001")).unwrap();
            std::fs::rename(data.join("engine"), data.join("damaged-000001/engine")).unwrap();
            std::fs::rename(data.join("FORMAT"), data.join("damaged-000001/FORMAT")).unwrap();
        },
        &|data| {
            std::fs::create_dir(data.join("damaged-000001")).unwrap();
            std::fs::rename(data.join("engine"), data.join("damaged-000001/engine")).unwrap();
            std::fs::rename(data.join("FORMAT"), data.join("damaged-000001/FORMAT")).unwrap();
            std::fs::write(data.join("damaged-000001/REPAIR"), "lost: a thing\n").unwrap();
            std::fs::rename(data.join("repairing/store/engine"), data.join("engine")).unwrap();
        },
    ];
    for state in states {
        let case = Case::new();
        let data = case.data();
        let work = data.join("repairing");
        let other = Case::new();
        copy(&other.data(), &work.join("store"));
        std::fs::write(work.join("whole"), "lost: a thing\nthere: so much\n").unwrap();
        state(&data);
        let opened = Store::open(&data, &options()).err().unwrap();
        assert!(matches!(opened, OpenError::Unfinished { work: "heddle repair", .. }), "{opened}");
        let request = RepairRequest { data: &data, is_dry: false, leaves_set: false };
        let report = repair(request, &options(), &mut |_| {}).unwrap();
        assert_eq!(
            (report.lost.as_slice(), report.summary.as_str()),
            (&["a thing".to_owned()][..], "so much")
        );
        assert!(report.kept.unwrap().ends_with("damaged-000001"));
        assert!(data.join("damaged-000001/engine").exists() && data.join("damaged-000001/REPAIR").exists());
        check_whole(&case.check());
    }
}
