//! Old keys are left behind: tables are written anew one by one, and a key is forgotten when no file needs
//! it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use storage::{
    KeyRange, KeysForgotten, Keyspace, MasterKey, StorageOptions, Store, WriteUnit, rotate_master_key,
};

use crate::encrypted;

const ROWS: u32 = 20_000;

fn other() -> MasterKey {
    MasterKey::parse("QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=").unwrap()
}

/// With small tables, so that there are many.
fn options(master: MasterKey) -> StorageOptions {
    StorageOptions { master_key: Some(master), table_bytes: 256 << 10, ..encrypted() }
}

fn first() -> MasterKey {
    encrypted().master_key.expect("it is encrypted")
}

fn value(number: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(number));
    (0..200).map(|_| random.u8(..)).collect()
}

fn put(store: &Store, keyspace: Keyspace, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut unit = WriteUnit::new();
        unit.put(keyspace, &number.to_be_bytes(), &value(number));
        store.write_now(unit).unwrap();
    }
}

fn assert_has(store: &Store, keyspace: Keyspace, numbers: std::ops::Range<u32>) {
    let view = store.read_view();
    for number in numbers {
        assert_eq!(&*view.get(keyspace, &number.to_be_bytes()).unwrap().unwrap(), &value(number)[..]);
    }
}

/// The keys that the files below a directory have.
fn keys(directory: &Path) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(keys(&path));
        } else if let Some(header) = std::fs::read(&path).unwrap().first_chunk::<16>()
            && header.starts_with(b"heddle-E")
        {
            found.insert(u32::from_le_bytes(*header.last_chunk().unwrap()));
        }
    }
    found
}

fn keys_in_file(directory: &Path) -> usize {
    let text = std::fs::read_to_string(directory.join("encryption")).unwrap();
    text.lines().filter(|line| line.starts_with("key ")).count()
}

/// Two keyspaces in many tables with the first key, some rows in the journal alone, and then another key.
fn rotated() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let store = Store::open(&path, &options(first())).unwrap();
    put(&store, Keyspace::Documents, 0..ROWS);
    put(&store, Keyspace::Indexes, 0..ROWS / 4);
    store.flush().unwrap();
    for keyspace in [Keyspace::Documents, Keyspace::Indexes] {
        store.compact(keyspace, &KeyRange::all(), &mut || true).unwrap();
    }
    put(&store, Keyspace::Documents, ROWS..ROWS + 10);
    // In the journal alone, and in no range that is compacted.
    put(&store, Keyspace::Meta, 0..10);
    assert!(!store.has_old_keys());
    // As after a crash: a store that is closed leaves nothing in its journal.
    let crashed = directory.path().join("crashed");
    copy(&path, &crashed);
    store.close().unwrap();
    rotate_master_key(&crashed, Some(&first()), &other()).unwrap();
    (directory, crashed)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn assert_all_there(store: &Store) {
    assert_has(store, Keyspace::Documents, 0..ROWS + 10);
    assert_has(store, Keyspace::Indexes, 0..ROWS / 4);
    assert_has(store, Keyspace::Meta, 0..10);
}

#[test]
fn tables_are_written_anew_one_by_one_and_the_key_is_forgotten() {
    let (_directory, path) = rotated();
    let before = std::fs::read(path.join("encryption")).unwrap();
    let store = Store::open(&path, &options(other())).unwrap();
    assert!(store.has_old_keys());
    let tables = store.tables_of_old_keys().unwrap();
    assert!(tables.len() > 8, "{} tables", tables.len());
    assert!(matches!(store.forget_old_keys().unwrap(), KeysForgotten::NeededBy(_)));
    assert_eq!(keys_in_file(&path), 2, "tables need the old one");
    let mut left = tables.len();
    for table in &tables {
        store.rewrite_table(table, &mut || true).unwrap();
        let now = store.tables_of_old_keys().unwrap();
        assert!(now.len() <= left, "it never has more of them");
        assert!(!now.iter().any(|old| old.name == table.name), "{} is gone", table.name);
        left = now.len();
    }
    assert_eq!(left, 0);
    // A server goes on meanwhile.
    put(&store, Keyspace::Documents, 0..10);
    assert_eq!(store.forget_old_keys().unwrap(), KeysForgotten::Yes);
    assert_eq!((keys(&path), keys_in_file(&path)), (BTreeSet::from([2]), 1));
    assert_all_there(&store);
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path, &options(other())).unwrap();
    assert!(!store.has_old_keys());
    assert_all_there(&store);
    store.close().unwrap();
    drop(store);
    let defects = storage::check_files::<storage::OpenError>(&path, Some(&other()), |_| Ok(()));
    assert!(defects.unwrap().is_empty());
    // What somebody has kept of before opens nothing that is there now.
    std::fs::write(path.join("encryption"), before).unwrap();
    assert!(Store::open(&path, &options(first())).is_err());
}

#[test]
fn a_key_is_kept_as_long_as_any_file_needs_it() {
    let (_directory, path) = rotated();
    let copied = path.join("kept").join("deeper");
    std::fs::create_dir_all(&copied).unwrap();
    let table = std::fs::read_dir(path.join("engine")).unwrap().map(|entry| entry.unwrap().path());
    let table = table.into_iter().find(|path| path.extension().is_some_and(|end| end == "sst")).unwrap();
    std::fs::hard_link(&table, copied.join("linked")).unwrap();
    let store = Store::open(&path, &options(other())).unwrap();
    for table in store.tables_of_old_keys().unwrap() {
        store.rewrite_table(&table, &mut || true).unwrap();
    }
    assert_eq!(store.forget_old_keys().unwrap(), KeysForgotten::NeededBy(copied.join("linked")));
    assert_eq!(keys_in_file(&path), 2);
    // With keys of its own it is no business of this directory.
    std::fs::copy(path.join("encryption"), copied.join("encryption")).unwrap();
    assert_eq!(store.forget_old_keys().unwrap(), KeysForgotten::Yes);
    assert_all_there(&store);
    store.close().unwrap();
}

#[test]
fn a_checkpoint_that_is_under_way_keeps_the_key() {
    let (_directory, path) = rotated();
    let store = Store::open(&path, &options(other())).unwrap();
    let checkpoint = path.join("checkpoint");
    store.checkpoint(&checkpoint).unwrap();
    // As a backup that has not copied the keys yet.
    let _ = std::fs::remove_file(checkpoint.join("encryption"));
    for table in store.tables_of_old_keys().unwrap() {
        store.rewrite_table(&table, &mut || true).unwrap();
    }
    let kept = store.forget_old_keys().unwrap();
    assert!(matches!(&kept, KeysForgotten::NeededBy(file) if file.starts_with(&checkpoint)), "{kept:?}");
    std::fs::remove_dir_all(&checkpoint).unwrap();
    assert_eq!(store.forget_old_keys().unwrap(), KeysForgotten::Yes);
    store.close().unwrap();
}

#[test]
fn it_goes_on_after_an_end_in_between() {
    let (_directory, path) = rotated();
    let store = Store::open(&path, &options(other())).unwrap();
    let tables = store.tables_of_old_keys().unwrap();
    let half = &tables[..tables.len() / 2];
    for table in half {
        store.rewrite_table(table, &mut || true).unwrap();
    }
    let left = store.tables_of_old_keys().unwrap().len();
    assert!(0 < left && left < tables.len(), "{left} of {}", tables.len());
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path, &options(other())).unwrap();
    assert!(store.has_old_keys());
    assert!(store.tables_of_old_keys().unwrap().len() <= left, "what was done stays done");
    for table in store.tables_of_old_keys().unwrap() {
        store.rewrite_table(&table, &mut || true).unwrap();
    }
    assert_eq!(store.forget_old_keys().unwrap(), KeysForgotten::Yes);
    assert_all_there(&store);
    store.close().unwrap();
}

#[test]
fn a_journal_of_before_is_written_to_tables() {
    let directory = tempfile::tempdir().unwrap();
    let (path, crashed) = (directory.path().join("data"), directory.path().join("crashed"));
    let store = Store::open(&path, &options(first())).unwrap();
    put(&store, Keyspace::Meta, 0..10);
    copy(&path, &crashed);
    store.close().unwrap();
    rotate_master_key(&crashed, Some(&first()), &other()).unwrap();
    let store = Store::open(&crashed, &options(other())).unwrap();
    assert!(store.tables_of_old_keys().unwrap().is_empty(), "it is in the journal alone");
    assert_eq!(store.forget_old_keys().unwrap(), KeysForgotten::Yes);
    assert_eq!((keys(&crashed), keys_in_file(&crashed)), (BTreeSet::from([2]), 1));
    assert_has(&store, Keyspace::Meta, 0..10);
    store.close().unwrap();
}
