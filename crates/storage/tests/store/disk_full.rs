//! A full disk refuses commits whole, and commits succeed again once there is space.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use storage::{
    CommitError, Direction, KeyRange, Keyspace, OpenError, SpaceState, StorageOptions, Store, WriteUnit,
};

use crate::COUNT;

/// A small file system of its own, where this user may make one.
struct SmallDisk {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(bytes: u64) -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let options = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this user may not mount a small file system");
            return None;
        }
        Some(SmallDisk { path, _directory: directory })
    }

    fn free(&self) -> u64 {
        let volume = rustix::fs::statvfs(&self.path).unwrap();
        volume.f_bavail * volume.f_frsize
    }

    /// Another program takes all but so many bytes.
    fn fill_but(&self, bytes: u64) -> PathBuf {
        let filler = self.path.join(".filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        while self.free() > bytes {
            std::io::Write::write_all(&mut file, &[0; 4096]).unwrap();
        }
        filler
    }

    fn fill(&self) -> PathBuf {
        let filler = self.path.join(".filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.path).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} could not be unmounted", self.path.display());
        }
    }
}

fn commit(store: &Store, number: u32) -> Result<(), CommitError> {
    let mut unit = WriteUnit::new();
    unit.put(Keyspace::Documents, &number.to_be_bytes(), &[7; 4000]);
    unit.put(Keyspace::Indexes, &number.to_be_bytes(), b"");
    unit.add_counter(COUNT, 1);
    store.commit(unit).wait().map(drop)
}

fn keys(store: &Store, keyspace: Keyspace) -> Vec<u32> {
    let mut cursor = store.read_view().cursor(keyspace, KeyRange::all(), Direction::Forward).unwrap();
    let mut keys = Vec::new();
    while let Some((key, _)) = cursor.next().unwrap() {
        keys.push(u32::from_be_bytes(key.try_into().unwrap()));
    }
    keys
}

fn assert_consistent(store: &Store, acknowledged: &[u32]) {
    let documents = keys(store, Keyspace::Documents);
    assert_eq!(documents, keys(store, Keyspace::Indexes), "documents and index entries");
    assert_eq!(documents, acknowledged, "exactly what was acknowledged");
    assert_eq!(store.counter(COUNT), acknowledged.len() as i64);
}

fn options() -> StorageOptions {
    StorageOptions { memtable_bytes: 256 << 10, ..StorageOptions::small() }
}

fn open(path: &Path) -> Result<Store, OpenError> {
    Store::open(path, &options())
}

#[test]
fn commits_fail_whole_on_a_full_disk_and_go_on_when_there_is_space() {
    let Some(disk) = SmallDisk::mount(32 << 20) else { return };
    let store = open(&disk.path).unwrap();
    let mut acknowledged = Vec::new();
    let mut number = 0;
    let mut try_next = |acknowledged: &mut Vec<u32>| {
        number += 1;
        commit(&store, number).map(|()| acknowledged.push(number))
    };
    for _ in 0..100 {
        try_next(&mut acknowledged).unwrap();
    }
    let filler = disk.fill();
    let mut refusal = None;
    for _ in 0..5000 {
        if let Err(error) = try_next(&mut acknowledged) {
            refusal = Some(error);
            break;
        }
    }
    let refusal = refusal.expect("the disk is full");
    assert!(matches!(refusal, CommitError::NoSpace(_)), "{refusal}");
    assert_consistent(&store, &acknowledged);
    std::fs::remove_file(filler).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = try_next(&mut acknowledged) {
        assert!(matches!(error, CommitError::NoSpace(_)), "{error}");
        assert!(Instant::now() < deadline, "commits did not recover within a minute of free space: {error}");
        std::thread::sleep(Duration::from_millis(100));
    }
    for _ in 0..100 {
        try_next(&mut acknowledged).unwrap();
    }
    assert_consistent(&store, &acknowledged);
    store.close().unwrap();
    drop(store);
    assert_consistent(&open(&disk.path).unwrap(), &acknowledged);
}

#[test]
fn opening_on_a_full_disk_says_so() {
    let Some(disk) = SmallDisk::mount(1 << 20) else { return };
    disk.fill();
    let error = open(&disk.path).unwrap_err();
    assert!(matches!(error, OpenError::NoSpace { .. }), "{error}");
}

/// Documents that do not compress, spread over all keys, so that what is written in one round overlaps with
/// all other rounds.
fn put_round(store: &Store, round: u32, count: u32) {
    for number in 0..count {
        let mut value = vec![0; 16_000];
        fastrand::Rng::with_seed(u64::from(round) << 32 | u64::from(number)).fill(&mut value);
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, &(number << 8 | round).to_be_bytes(), &value);
        store.commit(unit).wait().unwrap();
    }
}

/// The least room that is free until then.
fn least_free(disk: &SmallDisk, until: impl Fn() -> bool) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut least = disk.free();
    while !until() {
        assert!(Instant::now() < deadline, "not within a minute; {least} bytes were free");
        least = least.min(disk.free());
        std::thread::sleep(Duration::from_millis(1));
    }
    least
}

#[test]
fn compactions_leave_a_quarter_of_the_reserve() {
    const MIB: u64 = 1 << 20;
    const ROUNDS: u32 = 11;
    let Some(disk) = SmallDisk::mount(160 * MIB) else { return };
    let options = StorageOptions { disk_reserve_bytes: Some(16 * MIB), ..StorageOptions::small() };
    let store = Store::open(&disk.path, &options).unwrap();
    store.defer_compaction(true).unwrap();
    for round in 0..ROUNDS {
        put_round(&store, round, 72);
        store.flush().unwrap();
    }
    let level0 = || store.statistics().engine.pressure.level0_files;
    assert_eq!(level0(), u64::from(ROUNDS));
    // 12 MiB on level 0, of which a compaction reads 10, and 11 free: with a quarter of the reserve left it
    // has no room.
    let filler = disk.fill_but(11 * MIB);
    store.defer_compaction(false).unwrap();
    let least = least_free(&disk, || level0() == 0);
    assert!(least >= 4 * MIB, "a quarter of the reserve was not compaction's: {least} bytes were free");
    std::fs::remove_file(filler).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while store.statistics().space.state != SpaceState::Normal {
        assert!(Instant::now() < deadline, "it does not go on: {:?}", store.statistics().space);
        std::thread::sleep(Duration::from_millis(10));
    }
    put_round(&store, ROUNDS, 10);
    store.close().unwrap();
}
