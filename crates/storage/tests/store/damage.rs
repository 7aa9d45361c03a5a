//! A byte that is flipped in any file, or a file that is missing, is found; what is read is never wrong.

use std::path::{Path, PathBuf};

use storage::{
    CounterId, Direction, FileDefect, KeyRange, Keyspace, OpenError, Salvage, StorageOptions, Store,
    WriteUnit, check_files,
};
use tempfile::TempDir;

const DOCUMENTS: u32 = 600;

fn options() -> StorageOptions {
    crate::options_of(module_path!())
}

fn key(number: u32) -> [u8; 8] {
    (7 << 32 | u64::from(number)).to_be_bytes()
}

/// Does not compress, and tells whose it is.
fn value(number: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(number));
    (0..200).map(|_| random.u8(..)).collect()
}

fn put(store: &Store, numbers: impl Iterator<Item = u32>) {
    for number in numbers {
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Documents, &key(number), &value(number));
        unit.put(Keyspace::Indexes, &key(number), b"entry");
        store.write_now(unit).unwrap();
    }
}

/// What a killed server leaves: documents in tables, and as many in the journal.
fn killed() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let (live, left) = (directory.path().join("live"), directory.path().join("left"));
    let store = Store::open(&live, &options()).unwrap();
    put(&store, 0..DOCUMENTS / 2);
    store.flush().unwrap();
    put(&store, DOCUMENTS / 2..DOCUMENTS);
    store.sync_journal().unwrap();
    copy(&live, &left);
    directory
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

fn found(path: &Path) -> Vec<FileDefect> {
    check_files::<OpenError>(path, options().master_key.as_ref(), |_| Ok(())).unwrap()
}

/// The files of a data directory that are read by more than people, but that of the keys, without which
/// nothing is.
fn files(path: &Path) -> Vec<PathBuf> {
    let is_for_people =
        |name: &str| name.starts_with("LOG") || ["LOCK", "heddle.lock", "encryption"].contains(&name);
    let of = |directory: PathBuf| {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let mut files = [of(path.to_owned()), of(path.join("engine"))].concat();
    files.retain(|path| !is_for_people(path.file_name().unwrap().to_str().unwrap()));
    // Where a store is open, one may have gone since it was listed.
    files.retain(|path| path.metadata().is_ok_and(|found| found.len() > 0));
    files.sort();
    files
}

/// Every document that is read is the right one; how many are, or why not all.
fn read_all(path: &Path) -> Result<u32, String> {
    let store = Store::open(path, &options()).map_err(|error| error.to_string())?;
    let view = store.read_view();
    let mut read = 0;
    for number in 0..DOCUMENTS {
        let got = view.get(Keyspace::Documents, &key(number));
        match got.map_err(|error| error.to_string())? {
            Some(got) => assert_eq!(*got, *value(number), "document {number} is wrong"),
            None => continue,
        }
        read += 1;
    }
    let mut cursor = view.cursor(Keyspace::Documents, KeyRange::all(), Direction::Forward).unwrap();
    while let Some((key, got)) = cursor.next().map_err(|error| error.to_string())? {
        let number = u32::from_be_bytes(*key.last_chunk().unwrap());
        assert_eq!(got, value(number), "document {number} is wrong");
    }
    Ok(read)
}

#[test]
fn a_killed_server_leaves_nothing_that_is_damaged() {
    let directory = killed();
    let path = directory.path().join("left");
    assert_eq!(found(&path), Vec::new());
    assert_eq!(read_all(&path), Ok(DOCUMENTS));
    assert_eq!(found(&path), Vec::new(), "closed in order");
    assert!(!path.join("_check").exists(), "nothing is left of the check");
}

#[test]
fn a_flipped_byte_in_any_file_is_found_and_never_served() {
    let directory = killed();
    let path = directory.path().join("left");
    let mut random = fastrand::Rng::with_seed(7);
    let (mut tables, mut seen) = (0, Vec::new());
    for file in files(&path) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let whole = std::fs::read(&file).unwrap();
        // The ends, where a table has its footer and a log its last record, and some in between.
        let places = [0, whole.len() / 2, whole.len() - 1, whole.len() - whole.len().min(60)];
        let more: Vec<usize> = (0..4).map(|_| random.usize(..whole.len())).collect();
        for at in places.into_iter().chain(more) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << random.u8(..8);
            std::fs::write(&file, &flipped).unwrap();
            let defects = found(&path);
            let of_file =
                defects.iter().filter(|defect| defect.file == name || defect.file == "journal-mark");
            let is_told = of_file.clone().any(|defect| !defect.is_harmless);
            assert!(is_told, "byte {at} of {name} is not found: {defects:?}");
            if name.ends_with(".sst") {
                tables += 1;
                assert!(of_file.clone().all(|defect| defect.range.is_some()), "{defects:?}");
            }
            let started = directory.path().join("started");
            copy(&path, &started);
            // It panics on a wrong document.
            let read = read_all(&started);
            if name.ends_with(".log") || name.starts_with("MANIFEST") || name == "CURRENT" {
                assert!(read.is_err(), "byte {at} of {name}: the start goes on without a part of the data");
            }
            if let Ok(read) = read {
                assert_eq!(read, DOCUMENTS, "byte {at} of {name}: documents are missing and nobody says so");
            }
            std::fs::remove_dir_all(started).unwrap();
        }
        std::fs::write(&file, whole).unwrap();
        seen.push(name);
    }
    assert!(tables > 0 && seen.iter().any(|name| name.starts_with("OPTIONS")), "{seen:?}");
    assert!(found(&path).is_empty(), "all is whole again");
}

/// How many index entries are read, or why not all.
fn entries(path: &Path) -> Result<u32, String> {
    let store = Store::open(path, &options()).map_err(|error| error.to_string())?;
    let view = store.read_view();
    let mut cursor = view.cursor(Keyspace::Indexes, KeyRange::all(), Direction::Forward).unwrap();
    let mut read = 0;
    while let Some((_, value)) = cursor.next().map_err(|error| error.to_string())? {
        assert_eq!(value, b"entry");
        read += 1;
    }
    Ok(read)
}

#[test]
fn a_file_that_is_cut_or_gone_is_found_and_a_start_refused_or_nothing_lost() {
    let directory = killed();
    let path = directory.path().join("left");
    let started = directory.path().join("started");
    for file in files(&path) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let whole = std::fs::read(&file).unwrap();
        let lengths = [0, 1, whole.len() / 2, whole.len().saturating_sub(1)];
        for length in lengths.into_iter().map(Some).chain([None]) {
            match length {
                Some(length) => std::fs::write(&file, &whole[..length]).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let what =
                length.map_or("gone".to_owned(), |length| format!("cut to {length} of {}", whole.len()));
            let is_found = found(&path).iter().any(|defect| !defect.is_harmless);
            let mut starts = true;
            for count in [read_all, entries] {
                copy(&path, &started);
                match count(&started) {
                    Ok(read) => assert_eq!(
                        read, DOCUMENTS,
                        "{name} is {what}: something is missing and nobody says so"
                    ),
                    Err(_) => starts = false,
                }
                std::fs::remove_dir_all(&started).unwrap();
            }
            assert!(starts || is_found, "{name} is {what}: the check finds nothing, and a start is refused");
            // The engine makes some anew; without a mark less is known, and nothing is lost.
            let is_data = ["MANIFEST", "CURRENT", "FORMAT"].iter().any(|kind| name.starts_with(kind));
            if is_data || name.ends_with(".sst") || name.ends_with(".log") {
                // The end of the MANIFEST may be what the journal has as well.
                let is_known = is_found || (name.starts_with("MANIFEST") && starts);
                assert!(is_known, "{name} is {what}, and the check does not find it");
            }
            std::fs::write(&file, &whole).unwrap();
        }
    }
}

#[test]
fn a_manifest_that_is_cut_anywhere_costs_nothing_in_silence() {
    const WRITES: CounterId = CounterId(7);
    let directory = tempfile::tempdir().unwrap();
    let [live, path, started] = ["live", "left", "started"].map(|name| directory.path().join(name));
    let store = Store::open(&live, &options()).unwrap();
    for part in 0..3 {
        put(&store, part * DOCUMENTS / 3..(part + 1) * DOCUMENTS / 3);
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Meta, b"part", &[part as u8]);
        unit.add_counter(WRITES, 1);
        store.write_now(unit).unwrap();
        if part < 2 {
            store.flush().unwrap();
        }
    }
    store.sync_journal().unwrap();
    copy(&live, &path);
    let is_manifest = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST");
    let manifest = files(&path).into_iter().find(is_manifest).unwrap();
    let whole = std::fs::read(&manifest).unwrap();
    let mut refused = 0;
    for length in (0..whole.len()).step_by(11).chain([whole.len() - 1]) {
        std::fs::write(&manifest, &whole[..length]).unwrap();
        copy(&path, &started);
        let told = found(&path);
        let is_found = told.iter().any(|defect| !defect.is_harmless);
        match Store::open(&started, &options()) {
            Err(error) => {
                assert!(is_found, "cut to {length}: the check finds nothing, and a start says {error}");
                let is_damage = matches!(error, OpenError::Corrupt { .. } | OpenError::JournalDamaged { .. });
                assert!(is_damage, "{length}: {error}");
                refused += 1;
            }
            Ok(store) => {
                assert!(!is_found, "cut to {length}: a start goes on, and the check says {told:?}");
                assert_eq!(store.counter(WRITES), 3, "cut to {length}: an old counter");
                let part = store.read_view().get(Keyspace::Meta, b"part").unwrap();
                assert_eq!(part.as_deref(), Some(&[2][..]), "cut to {length}");
                // It keeps the files in use.
                drop(part);
                drop(store);
                assert_eq!(read_all(&started), Ok(DOCUMENTS), "cut to {length}");
                assert_eq!(entries(&started), Ok(DOCUMENTS), "cut to {length}");
            }
        }
        std::fs::remove_dir_all(&started).unwrap();
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn a_manifest_whose_last_record_did_not_come_whole_is_no_damage() {
    let directory = killed();
    let path = directory.path().join("left");
    let is_manifest = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST");
    let manifest = files(&path).into_iter().find(is_manifest).unwrap();
    let mut torn = std::fs::read(&manifest).unwrap();
    // A record of 600 bytes, of which the sectors behind the first one are zeros.
    torn.extend([1, 2, 3, 4, 88, 2, 1]);
    torn.resize(torn.len().next_multiple_of(512), b'a');
    torn.resize(torn.len() + 600, 0);
    std::fs::write(&manifest, &torn).unwrap();
    assert!(found(&path).iter().all(|defect| defect.is_harmless), "{:?}", found(&path));
    let started = directory.path().join("started");
    copy(&path, &started);
    assert_eq!((read_all(&started), entries(&started)), (Ok(DOCUMENTS), Ok(DOCUMENTS)));
    let end = torn.len();
    torn[end - 600..].fill(b'a');
    std::fs::write(&manifest, &torn).unwrap();
    assert!(found(&path).iter().any(|defect| !defect.is_harmless), "what is no zeros is damage");
    assert!(read_all(&path).is_err());
}

#[test]
fn a_missing_file_is_found() {
    let directory = killed();
    let path = directory.path().join("left");
    for file in files(&path) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        // The engine makes these anew; without a mark less is known, and nothing is lost.
        if ["OPTIONS", "IDENTITY", "checksums", "journal-mark", "disk-reserve"]
            .iter()
            .any(|harmless| name.starts_with(harmless))
        {
            continue;
        }
        let aside = directory.path().join("aside");
        std::fs::rename(&file, &aside).unwrap();
        assert!(found(&path).iter().any(|defect| !defect.is_harmless), "{name} is missing");
        std::fs::rename(&aside, &file).unwrap();
    }
}

#[test]
fn the_keys_of_a_damaged_block_are_told_and_all_others_saved() {
    let directory = killed();
    let path = directory.path().join("left");
    let tables =
        files(&path).into_iter().filter(|file| file.extension().is_some_and(|ending| ending == "sst"));
    let table = tables.max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 0x40;
    std::fs::write(&table, bytes).unwrap();
    let defects = found(&path);
    let [FileDefect { range: Some(range), .. }] = defects.as_slice() else { panic!("{defects:?}") };
    assert_eq!(range.keyspace, Keyspace::Documents);
    let number = |key: &Option<Vec<u8>>| u32::from_be_bytes(*key.as_ref().unwrap().last_chunk().unwrap());
    let (from, to) = (number(&range.from), number(&range.to));
    // An encrypted page may be of two blocks.
    let blocks = if options().master_key.is_some() { 2 } else { 1 };
    assert!(from < to && to - from < blocks * 60, "{blocks} blocks of 8 KiB: {from} to {to}");
    let salvage = Salvage::open(&path, options().master_key.as_ref()).unwrap();
    let mut saved = Vec::new();
    let mut lost = Vec::new();
    let walked: Result<(), String> = salvage.walk(
        Keyspace::Documents,
        &mut |(key, got, _)| {
            let number = u32::from_be_bytes(*key.last_chunk().unwrap());
            assert_eq!(got, value(number));
            saved.push(number);
            Ok(())
        },
        &mut |range, _| {
            lost.push((number(&range.from), number(&range.to)));
            Ok(())
        },
    );
    walked.unwrap();
    assert_eq!(lost, [(from, to)]);
    let expect: Vec<u32> = (0..DOCUMENTS).filter(|number| *number <= from || *number >= to).collect();
    assert_eq!(saved, expect, "the journal's are saved as well");
}

#[test]
fn a_directory_in_use_is_not_checked() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &options()).unwrap();
    let checked = check_files::<OpenError>(directory.path(), options().master_key.as_ref(), |_| Ok(()));
    assert!(matches!(checked, Err(OpenError::Locked { .. })), "{checked:?}");
    drop(store);
    check_files::<OpenError>(directory.path(), options().master_key.as_ref(), |_| Ok(())).unwrap();
}

#[test]
fn a_damaged_block_of_range_deletions_brings_nothing_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("left");
    let store = Store::open(&path, &options()).unwrap();
    put(&store, 0..DOCUMENTS);
    store.compact(Keyspace::Documents, &KeyRange::all(), &mut || true).unwrap();
    // Tables that hold nothing else, and would go at once with what they delete if they were compacted.
    store.defer_compaction(true).unwrap();
    let tables =
        || files(&path).into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "sst"));
    let before: Vec<PathBuf> = tables().collect();
    let mut unit = WriteUnit::new();
    unit.delete_range(Keyspace::Documents, &key(10), &key(DOCUMENTS - 10));
    store.write_now(unit).unwrap();
    store.close().unwrap();
    drop(store);
    let table = tables().find(|table| !before.contains(table)).expect("a table of range deletions");
    let name = table.file_name().unwrap().to_str().unwrap().to_owned();
    let whole = std::fs::read(&table).unwrap();
    assert!(whole.len() < 4096, "{} bytes", whole.len());
    let mut refused = 0;
    for at in (0..whole.len()).step_by(11) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        std::fs::write(&table, &flipped).unwrap();
        let defects = found(&path);
        let is_told = defects.iter().any(|defect| defect.file == name && !defect.is_harmless);
        assert!(is_told, "byte {at} of {}: {defects:?}", whole.len());
        let started = directory.path().join("started");
        copy(&path, &started);
        match read_all(&started) {
            Ok(read) => assert_eq!(read, 20, "byte {at}: what was deleted is back"),
            Err(_) => refused += 1,
        }
        std::fs::remove_dir_all(started).unwrap();
    }
    assert!(refused > 0, "the block was met");
}
