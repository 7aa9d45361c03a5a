//! Backups of stores, without a server.

use crate::{BackupError, BackupReport, BackupRequest, check_backup, check_data, restore, take};
use std::path::{Path, PathBuf};
use storage::{Keyspace, OpenError, StorageOptions, Store, WriteUnit};
use tempfile::TempDir;

struct Case {
    directory: TempDir,
    store: Store,
}

impl Case {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("data"), &StorageOptions::small()).unwrap();
        Case { directory, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            let mut unit = WriteUnit::new();
            unit.put(Keyspace::Documents, &number.to_be_bytes(), &[number as u8; 300]);
            self.store.write_now(unit).unwrap();
        }
    }

    fn take(&self, keep: Option<usize>) -> Result<BackupReport, BackupError> {
        let request = BackupRequest { directory: &self.path("backups"), keep, release: "test" };
        take(&self.store, request, &mut |_| Ok(()))
    }

    fn restore(&self, generation: Option<u64>, name: &str) -> Result<u32, BackupError> {
        restore(&self.path("backups"), generation, &self.path(name), &StorageOptions::small(), &mut |_| {})?;
        let store = Store::open(self.path(name), &StorageOptions::small()).unwrap();
        let view = store.read_view();
        let found = |number: u32| view.exists(Keyspace::Documents, &number.to_be_bytes()).unwrap();
        Ok((0..10_000).take_while(|number| found(*number)).count() as u32)
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

#[test]
fn each_generation_is_restored_as_it_was_and_shares_what_has_not_changed() {
    let case = Case::new();
    case.put(0..500);
    let first = case.take(None).unwrap();
    assert!(first.bytes_shared == 0 && first.bytes_linked > 0, "{first:?}");
    case.put(500..510);
    let second = case.take(None).unwrap();
    // What was written in between is a small table.
    assert!(second.bytes_shared > 5 * second.bytes_linked && second.bytes_linked > 0, "{second:?}");
    case.put(510..600);
    assert_eq!(case.restore(Some(1), "one").unwrap(), 500);
    assert_eq!(case.restore(None, "two").unwrap(), 510);
    let report = check_data(&case.path("data"), None, None, &mut |_| {});
    assert!(matches!(report, Err(BackupError::Open(OpenError::Locked { .. }))), "a server uses it");
    assert!(check_data(&case.path("two"), None, None, &mut |_| {}).unwrap().is_clean());
    assert!(!case.path("data/backup-checkpoint").exists(), "nothing is left of it");
}

#[test]
fn only_so_many_generations_are_kept() {
    let case = Case::new();
    for count in 1..=4 {
        case.put(0..count);
        case.take(Some(2)).unwrap();
    }
    assert!(!case.path("backups/generation-000002").exists());
    assert_eq!(case.restore(Some(3), "three").unwrap(), 3);
    assert!(matches!(case.restore(Some(2), "gone"), Err(BackupError::Refused(_))));
}

#[test]
fn a_backup_that_is_ended_leaves_nothing() {
    let case = Case::new();
    case.put(0..100);
    let request = BackupRequest { directory: &case.path("backups"), keep: None, release: "test" };
    for ends_at in 0..8 {
        let mut looks = 0;
        let ended = take(&case.store, request, &mut |_| {
            looks += 1;
            if looks > ends_at { Err(BackupError::Ended) } else { Ok(()) }
        });
        assert!(matches!(ended, Err(BackupError::Ended)), "{ended:?}");
        let left: Vec<PathBuf> = files(&case.path("backups"));
        assert_eq!(left, [case.path("backups/lock")], "look {ends_at}");
        assert!(!case.path("data/backup-checkpoint").exists());
    }
}

#[test]
fn what_a_killed_backup_has_left_is_no_backup_and_goes() {
    let case = Case::new();
    case.put(0..10);
    std::fs::create_dir_all(case.path("backups/incomplete-000001/engine")).unwrap();
    let none = case.restore(None, "none");
    assert!(matches!(none, Err(BackupError::Refused(_))), "{none:?}");
    case.take(None).unwrap();
    assert!(!case.path("backups/incomplete-000001").exists());
}

#[test]
fn every_flipped_byte_and_missing_file_of_a_backup_is_found() {
    let case = Case::new();
    case.put(0..300);
    case.take(None).unwrap();
    let backups = case.path("backups");
    assert!(check_backup(&backups, None, None, None, &mut |_| {}).unwrap().is_clean());
    let is_found = |what: &str| {
        let report = check_backup(&backups, None, None, None, &mut |_| {});
        assert!(report.is_err() || report.is_ok_and(|report| !report.is_clean()), "{what}: not found");
        assert!(case.restore(None, "damaged").is_err(), "{what}: restored");
        assert!(!case.path("damaged").exists(), "{what}: nothing was begun");
    };
    for file in files(&case.path("backups/generation-000001")) {
        let whole = std::fs::read(&file).unwrap();
        for at in [0, whole.len() / 2, whole.len().saturating_sub(1)] {
            let mut flipped = whole.clone();
            let Some(byte) = flipped.get_mut(at) else { continue };
            *byte ^= 4;
            // Not in place: it may be the server's file as well.
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, flipped).unwrap();
            is_found(&format!("byte {at} of {}", file.display()));
        }
        std::fs::remove_file(&file).unwrap();
        is_found(&format!("{} is missing", file.display()));
        std::fs::write(&file, whole).unwrap();
    }
    assert_eq!(case.restore(None, "whole").unwrap(), 300);
}

#[test]
fn a_restore_that_was_ended_keeps_a_server_from_starting_and_is_done_again() {
    let case = Case::new();
    case.put(0..50);
    case.take(None).unwrap();
    let half = case.path("half");
    std::fs::create_dir_all(half.join("restoring/store/engine")).unwrap();
    std::fs::create_dir_all(half.join("engine")).unwrap();
    let opened = Store::open(&half, &StorageOptions::small());
    assert!(opened.is_err(), "it is not whole");
    std::fs::write(half.join("FORMAT"), "heddle storage format 1\nstate ready\n").unwrap();
    let opened = Store::open(&half, &StorageOptions::small()).err().unwrap();
    assert!(matches!(opened, OpenError::Unfinished { work: "heddle restore", .. }), "{opened}");
    assert_eq!(case.restore(None, "half").unwrap(), 50);
    let again = case.restore(None, "half");
    assert!(matches!(again, Err(BackupError::Refused(_))), "it is not empty: {again:?}");
}

#[test]
fn somebody_elses_directory_is_no_backup_directory() {
    let case = Case::new();
    std::fs::create_dir(case.path("backups")).unwrap();
    std::fs::write(case.path("backups/letter"), "x").unwrap();
    assert!(matches!(case.take(None), Err(BackupError::Refused(_))));
    let within = case.path("data/backups");
    let request = BackupRequest { directory: &within, keep: None, release: "test" };
    assert!(matches!(take(&case.store, request, &mut |_| Ok(())), Err(BackupError::Refused(_))));
}
