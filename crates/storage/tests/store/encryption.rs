//! What an encrypted store has on the disk, and who can open it.

use std::path::{Path, PathBuf};

use storage::{
    Direction, KeyRange, Keyspace, MasterKey, OpenError, StorageError, StorageOptions, Store, TableRows,
    WriteUnit, check_files, rotate_master_key,
};

use crate::encrypted;

/// In each key and value; it does not compress away.
const MARKER: &[u8] = b"MARKER/of/what/is/secret";

fn other() -> MasterKey {
    MasterKey::parse("QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=").unwrap()
}

fn key(number: u32) -> Vec<u8> {
    [MARKER, &number.to_be_bytes()].concat()
}

fn put(store: &Store, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, &key(number), &[MARKER, &number.to_le_bytes()].concat());
        store.write_now(unit).unwrap();
    }
}

fn assert_has(store: &Store, keyspace: Keyspace, numbers: std::ops::Range<u32>) {
    let view = store.read_view();
    let mut cursor = view.cursor(keyspace, KeyRange::all(), Direction::Forward).unwrap();
    for number in numbers {
        assert_eq!(view.get(keyspace, &key(number)).unwrap().unwrap()[MARKER.len()..], number.to_le_bytes());
        assert_eq!(cursor.next().unwrap().unwrap().0, key(number));
    }
    assert!(cursor.next().unwrap().is_none());
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files
}

/// No file has the marker, nor what is in every table, log or list of options in the clear.
fn assert_nothing_in_clear(directory: &Path) {
    let words = [MARKER, b"rocksdb.", b"MANIFEST-", b"documents", b"leveldb.BytewiseComparator", b"RocksDB"];
    for file in files(directory) {
        let bytes = std::fs::read(&file).unwrap();
        for word in words {
            let word_text = String::from_utf8_lossy(word);
            let is_there = bytes.windows(word.len()).any(|part| part == word);
            assert!(!is_there, "{} has '{word_text}' in the clear", file.display());
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        let is_of_engine = file.parent().unwrap().ends_with("engine") && name != "LOCK";
        assert!(!is_of_engine || bytes.starts_with(b"heddle-E"), "{} is not encrypted", file.display());
    }
}

struct Rows(std::ops::Range<u32>, Vec<u8>, Vec<u8>);

impl TableRows for Rows {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>, StorageError> {
        let Some(number) = self.0.next() else { return Ok(None) };
        (self.1, self.2) = (key(number), [MARKER, &number.to_le_bytes()].concat());
        Ok(Some((&self.1, &self.2)))
    }
}

#[test]
fn nothing_is_in_the_clear_in_any_file_whatever_was_done() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copied) = (directory.path().join("data"), directory.path().join("copy"));
    let store = Store::open(&path, &encrypted()).unwrap();
    put(&store, 0..500);
    assert_nothing_in_clear(&path);
    store.flush().unwrap();
    put(&store, 500..1000);
    store.flush().unwrap();
    store.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
    let tables =
        store.write_tables(Keyspace::Indexes, &mut Rows(0..700, vec![], vec![]), &path.join("t")).unwrap();
    assert_nothing_in_clear(&path);
    store.ingest(Keyspace::Indexes, &tables).unwrap();
    put(&store, 1000..1500);
    store.sync_journal().unwrap();
    store.checkpoint(&copied).unwrap();
    for directory in [&path, &copied] {
        assert_nothing_in_clear(directory);
    }
    let copy = Store::open(&copied, &encrypted()).unwrap();
    assert_has(&copy, Keyspace::Documents, 0..1500);
    assert_has(&copy, Keyspace::Indexes, 0..700);
    drop(copy);
    store.close().unwrap();
    drop(store);
    for _ in 0..2 {
        let store = Store::open(&path, &encrypted()).unwrap();
        assert_has(&store, Keyspace::Documents, 0..1500);
        assert_has(&store, Keyspace::Indexes, 0..700);
        store.close().unwrap();
    }
    assert_nothing_in_clear(&path);
    let master = encrypted().master_key;
    for directory in [&path, &copied] {
        assert_eq!(check_files::<OpenError>(directory, master.as_ref(), |_| Ok(())).unwrap(), Vec::new());
    }
}

/// All that is in a directory, but what only tells who was there.
fn image(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut image: Vec<_> =
        files(path).into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect();
    image.sort();
    image
}

#[test]
fn another_key_or_none_opens_nothing_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = Store::open(path, &encrypted()).unwrap();
    put(&store, 0..10);
    drop(store);
    let before = image(path);
    let with = |master_key| {
        let options = StorageOptions { master_key, ..StorageOptions::small() };
        Store::open(path, &options).err().unwrap()
    };
    assert!(matches!(with(None), OpenError::Encrypted { .. }));
    assert!(matches!(with(Some(other())), OpenError::WrongKey { .. }));
    assert!(matches!(check_files::<OpenError>(path, None, |_| Ok(())), Err(OpenError::Encrypted { .. })));
    assert_eq!(image(path), before);
    std::fs::rename(path.join("encryption"), path.join("aside")).unwrap();
    for master_key in [None, encrypted().master_key] {
        let error = with(master_key);
        assert!(
            matches!(&error, OpenError::Corrupt { detail, .. } if detail.contains("is missing")),
            "{error}"
        );
    }
    std::fs::rename(path.join("aside"), path.join("encryption")).unwrap();
    assert_has(&Store::open(path, &encrypted()).unwrap(), Keyspace::Documents, 0..10);
}

#[test]
fn what_is_not_encrypted_is_not_opened_with_a_key() {
    let directory = tempfile::tempdir().unwrap();
    drop(Store::open(directory.path(), &StorageOptions::small()).unwrap());
    let format = std::fs::read_to_string(directory.path().join("FORMAT")).unwrap();
    assert_eq!(format, "heddle storage format 1\nstate ready\n", "an older release opens it");
    let before = image(directory.path());
    let error = Store::open(directory.path(), &encrypted()).err().unwrap();
    assert!(matches!(error, OpenError::NotEncrypted { .. }), "{error}");
    assert_eq!(image(directory.path()), before);
    let new = tempfile::tempdir().unwrap();
    drop(Store::open(new.path(), &encrypted()).unwrap());
    let format = std::fs::read_to_string(new.path().join("FORMAT")).unwrap();
    assert_eq!(format, "heddle storage format 2\nstate ready\n", "an older release does not");
}

#[test]
fn a_first_start_that_died_goes_on_with_its_keys() {
    let directory = tempfile::tempdir().unwrap();
    drop(Store::open(directory.path(), &encrypted()).unwrap());
    for name in ["FORMAT", "journal-mark", "heddle.lock"] {
        std::fs::remove_file(directory.path().join(name)).unwrap();
    }
    std::fs::remove_dir_all(directory.path().join("engine")).unwrap();
    let keys = std::fs::read(directory.path().join("encryption")).unwrap();
    let store = Store::open(directory.path(), &encrypted()).unwrap();
    put(&store, 0..10);
    assert_eq!(std::fs::read(directory.path().join("encryption")).unwrap(), keys);
}

#[test]
fn after_a_rotation_all_is_read_with_the_new_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let store = Store::open(path, &encrypted()).unwrap();
    put(&store, 0..100);
    store.flush().unwrap();
    put(&store, 100..200);
    drop(store);
    rotate_master_key(path, encrypted().master_key.as_ref(), &other()).unwrap();
    let rotated = StorageOptions { master_key: Some(other()), ..StorageOptions::small() };
    assert!(matches!(Store::open(path, &encrypted()), Err(OpenError::WrongKey { .. })));
    let store = Store::open(path, &rotated).unwrap();
    assert_has(&store, Keyspace::Documents, 0..200);
    put(&store, 200..300);
    store.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
    assert_has(&store, Keyspace::Documents, 0..300);
}
