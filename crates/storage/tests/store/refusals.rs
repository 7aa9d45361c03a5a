//! Directories a store must not open.

use storage::{OpenError, StorageOptions, Store};

use crate::{commit, exists};

fn open(path: &std::path::Path) -> Result<Store, OpenError> {
    Store::open(path, &StorageOptions::small())
}

#[test]
fn a_directory_in_use_is_refused_until_its_store_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(
        matches!(&error, OpenError::Locked { holder,
            .. } if holder.contains(&std::process::id().to_string())),
        "{error}"
    );
    commit(&store, "a").unwrap();
    drop(store);
    assert!(exists(&open(directory.path()).unwrap(), "a"));
}

#[test]
fn the_directory_is_free_when_the_last_handle_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let store = open(directory.path()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        // The write rouses both threads, which are at work when the store goes.
        commit(&store, &format!("{round}")).unwrap();
    }
}

#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    std::fs::write(directory.path().join("FORMAT"), "heddle storage format 3\nstate ready\n").unwrap();
    assert!(matches!(
        open(directory.path()).unwrap_err(),
        OpenError::NewerVersion { found: 3, supported: 2, .. }
    ));
}

#[test]
fn missing_engine_files_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    std::fs::remove_dir_all(directory.path().join("engine")).unwrap();
    assert!(matches!(open(directory.path()).unwrap_err(), OpenError::Corrupt { .. }));
}

#[test]
fn damaged_engine_files_are_damage() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    commit(&store, "a").unwrap();
    store.close().unwrap();
    drop(store);
    let tables =
        std::fs::read_dir(directory.path().join("engine")).unwrap().map(|entry| entry.unwrap().path());
    let tables: Vec<_> =
        tables.filter(|path| path.extension().is_some_and(|ending| ending == "sst")).collect();
    assert!(!tables.is_empty(), "closing flushes");
    for table in tables {
        std::fs::write(table, "not a table").unwrap();
    }
    let error = open(directory.path()).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

#[test]
fn contradicting_options_are_refused() {
    let options =
        StorageOptions { journal_interval: std::time::Duration::from_secs(5), ..StorageOptions::small() };
    let error = Store::in_memory(&options).unwrap_err();
    assert!(error.to_string().contains("journal_interval"), "{error}");
}
