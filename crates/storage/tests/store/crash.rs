//! What is found after a crash: killed processes, copied and cut directories.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use storage::{Direction, KeyRange, Keyspace, OpenError, StorageOptions, Store};

use crate::{COUNT, commit, exists, journal};

const CHILD_DIRECTORY: &str = "HEDDLE_TEST_CRASH_DIRECTORY";
const CHILD_THREADS: usize = 4;

fn options() -> StorageOptions {
    crate::options_of(module_path!())
}

/// A child that another test starts holds every lock of this process until it has begun its own program.
fn open(path: &Path) -> Store {
    let patience = Instant::now() + Duration::from_secs(5);
    loop {
        match Store::open(path, &options()) {
            Err(OpenError::Locked { .. }) if Instant::now() < patience => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

fn documents(store: &Store) -> usize {
    let mut cursor =
        store.read_view().cursor(Keyspace::Documents, KeyRange::all(), Direction::Forward).unwrap();
    let mut count = 0;
    while cursor.next().unwrap().is_some() {
        count += 1;
    }
    count
}

/// A copy of a directory as it is now: what a killed process leaves, without its locks.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn newest_log(path: &Path) -> PathBuf {
    let files = std::fs::read_dir(path.join("engine")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|ending| ending == "log")).max().unwrap()
}

fn keep(file: &Path, kept: impl FnOnce(u64) -> u64) {
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(kept(file.metadata().unwrap().len())).unwrap();
}

#[test]
fn reopening_finds_documents_and_counters() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let store = open(directory.path());
        assert_eq!(store.counter(COUNT), 10 * (round - 1));
        for number in 0..10 {
            commit(&store, &format!("{round}/{number}")).unwrap();
        }
        if round == 2 {
            store.close().unwrap();
        }
    }
    let store = open(directory.path());
    assert_eq!((store.counter(COUNT), documents(&store)), (30, 30));
}

#[test]
fn a_copied_directory_has_every_applied_commit() {
    let (directory, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(directory.path());
    for number in 0..100 {
        commit(&store, &format!("{number}")).unwrap();
        if number == 50 {
            store.flush().unwrap();
        }
    }
    copy(directory.path(), image.path());
    let store = open(image.path());
    assert_eq!((store.counter(COUNT), documents(&store)), (100, 100));
}

/// Commits, lets the journal thread rest, commits more, cuts the log's end off and opens the image.
fn with_torn_tail(kept: impl FnOnce(u64) -> u64, check: impl FnOnce(Result<Store, OpenError>)) {
    let (directory, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let slow = StorageOptions { journal_interval: Duration::from_millis(500), ..options() };
    let store = Store::open(directory.path(), &slow).unwrap();
    for number in 0..50 {
        commit(&store, &format!("{number:02}")).unwrap();
    }
    store.sync_journal().unwrap();
    for number in 50..100 {
        commit(&store, &format!("{number:02}")).unwrap();
    }
    copy(directory.path(), image.path());
    keep(&newest_log(image.path()), kept);
    check(Store::open(image.path(), &options()));
}

#[test]
fn a_torn_tail_costs_only_what_was_torn() {
    with_torn_tail(
        |length| length - 5,
        |opened| {
            let store = opened.unwrap();
            assert_eq!((store.counter(COUNT), documents(&store)), (99, 99), "a cut entry is gone whole");
            assert!(exists(&store, "98") && !exists(&store, "99"));
            journal(&store, "next").unwrap();
            assert_eq!(store.counter(COUNT), 100);
        },
    );
}

#[test]
fn a_journal_that_lost_synced_entries_is_refused() {
    with_torn_tail(
        |length| length / 3,
        |opened| {
            let error = opened.expect_err("half of the log was synced");
            assert!(matches!(error, OpenError::JournalDamaged { .. } | OpenError::Corrupt { .. }), "{error}");
        },
    );
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let (directory, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(directory.path());
    commit(&store, "before").unwrap();
    let target = target.path().join("copy");
    store.checkpoint(&target).unwrap();
    commit(&store, "after").unwrap();
    let copy = open(&target);
    assert!(exists(&copy, "before") && !exists(&copy, "after"));
    assert_eq!(copy.counter(COUNT), 1);
    assert!(store.checkpoint(&target).is_err(), "the directory is not empty any more");
}

/// Not a test of its own: the process that `a_killed_process_loses_nothing_acknowledged` kills.
#[test]
fn child_that_is_killed() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else { return };
    let store = open(Path::new(&directory));
    let first = store.counter(COUNT);
    std::thread::scope(|scope| {
        for thread in 0..CHILD_THREADS {
            let store = &store;
            scope.spawn(move || {
                for number in 0.. {
                    let key = format!("{first}/{thread}/{number}");
                    let write = if number % 50 == 0 { journal } else { commit };
                    write(store, &key).unwrap();
                    println!("acknowledged {key}");
                }
            });
        }
    });
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 1..=4 {
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{module}::child_that_is_killed"), "--nocapture"])
            .env(CHILD_DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while seen < 500 * round {
            let line = lines.next().expect("the child writes until it is killed").unwrap();
            if let Some((_, key)) = line.split_once("acknowledged ") {
                acknowledged.push(key.to_owned());
                seen += 1;
            }
        }
        child.kill().unwrap();
        for line in lines.map_while(Result::ok) {
            // The last line may be cut; then nobody read the acknowledgement.
            if let Some((_, key)) = line.split_once("acknowledged ")
                && key.matches('/').count() == 2
            {
                acknowledged.push(key.to_owned());
            }
        }
        // What was read last may be a cut number; the one that is whole for certain comes before it.
        acknowledged.pop();
        child.wait().unwrap();
        let store = open(directory.path());
        for key in &acknowledged {
            assert!(exists(&store, key), "{key} was acknowledged in round {round} or before and is lost");
        }
        assert_eq!(store.counter(COUNT), documents(&store) as i64, "the counter is exact after a kill");
        store.close().unwrap();
    }
}
