//! Whether the engine's files are what they were when they were written: every byte of them is read, and
//! nothing is changed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::log_file::{LogItem, LogReader};
use super::partial::{DamagedKeys, PartialDatabase, link};
use super::version_log::{TableEntry, VersionLog, manifest_of, table_name};
use crate::check::{DamagedRange, FileDefect, Scratch};
use crate::files::{checksum_of, remove_tree};
use crate::keyspace::Keyspace;
use crate::vault::Vault;

/// Bytes before the first mutation of a batch: sequence number u64 LE and count u32 LE.
const BATCH_HEADER_BYTES: usize = 12;

/// What the engine's files say.
#[derive(Debug, Default)]
pub(crate) struct EngineFacts {
    /// The sequence number of the newest write that can be read.
    pub(crate) sequence: u64,
}

/// Reads all of the engine's files. `look` is told what is read before each of them.
///
/// # Errors
/// What the file system or `look` says.
pub(crate) fn examine<E: From<io::Error>>(
    engine: &Path,
    scratch: &Path,
    vault: &Vault,
    look: &mut dyn FnMut(&str) -> Result<(), E>,
    found: &mut Vec<FileDefect>,
) -> Result<EngineFacts, E> {
    look("CURRENT")?;
    let Some(manifest) = check_names(engine, vault, found)? else { return Ok(EngineFacts::default()) };
    let log = VersionLog::read(&manifest, vault)?;
    let name = file_name(&manifest);
    look(&name)?;
    let is_known = log.families.len() == Keyspace::ALL.len();
    found.extend(log.damaged.iter().map(|part| {
        let defect = format!("bytes {} to {}: {}", part.from, part.to, part.defect);
        FileDefect { is_harmless: part.is_cut && is_known, ..FileDefect::new(&name, defect) }
    }));
    check_identity(engine, vault, &log, found)?;
    super::text_files::check(engine, vault, found)?;
    for (number, table) in &log.tables {
        look(&table_name(*number))?;
        check_table(engine, scratch, vault, &log, (*number, table), look, found)?;
    }
    for (number, path) in journals_of(engine)? {
        if is_replayed(&log, number) {
            look(&file_name(&path))?;
        }
    }
    let journals = read_journals(engine, vault, &log)?;
    found.extend(forgotten_tables(engine, scratch, vault, &log, &journals)?);
    found.extend(journals.defects);
    Ok(EngineFacts { sequence: journals.newest.max(log.last_sequence) })
}

/// Whether something of a journal may not be in tables yet.
fn is_replayed(log: &VersionLog, journal: u64) -> bool {
    journal >= log.first_replayed()
}

/// What the journals of a database say.
pub(super) struct Journals {
    /// The first write in them that can be read.
    first: Option<u64>,
    /// The last write in them that can be read.
    pub(super) newest: u64,
    /// They begin behind what the MANIFEST knows to be in tables: something in between is gone.
    pub(super) begin_late: bool,
    pub(super) defects: Vec<FileDefect>,
}

/// Reads the journals that are replayed.
pub(super) fn read_journals(engine: &Path, vault: &Vault, log: &VersionLog) -> io::Result<Journals> {
    let mut journals = Journals { first: None, newest: 0, begin_late: false, defects: Vec::new() };
    journals.defects.extend(missing_journals(engine, vault, log)?);
    let mut before: Option<u64> = None;
    for (_, path) in journals_of(engine)?.into_iter().filter(|(number, _)| is_replayed(log, *number)) {
        let journal = read_journal(&path, vault)?;
        journals.defects.extend(journal.defects);
        if let Some(first) = journal.first
            && first > before.unwrap_or(log.last_sequence) + 1
        {
            let what = if before.is_some() { "the journal before it ends with" } else { "tables end with" };
            let end = before.unwrap_or(log.last_sequence);
            let defect = format!("it begins with write {first}, {what} {end}");
            journals.defects.push(FileDefect::new(&file_name(&path), defect));
            journals.begin_late |= before.is_none();
        }
        before = journal.last.or(before);
        journals.first = journals.first.or(journal.first);
        journals.newest = journals.newest.max(journal.last.unwrap_or(0));
    }
    Ok(journals)
}

/// Journals that are gone or short although the MANIFEST has not let go of them. Of one that is in tables
/// nothing is needed: then only the end of the MANIFEST is lost that says so.
fn missing_journals(engine: &Path, vault: &Vault, log: &VersionLog) -> io::Result<Vec<FileDefect>> {
    let mut missing = Vec::new();
    for (number, synced) in &log.journals {
        let name = format!("{number:06}.log");
        let defect = match vault.length(&engine.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => "it is missing".to_owned(),
            Ok(found) if found >= *synced => continue,
            found => format!("it has {} bytes", found?),
        };
        let is_harmless = lets_go(log, *number);
        let needed = if is_harmless { ", and all of it is in tables" } else { "" };
        let defect = format!("{defect}, the MANIFEST has {synced} of it as synced{needed}");
        missing.push(FileDefect { is_harmless, ..FileDefect::new(&name, defect) });
    }
    Ok(missing)
}

/// Whether what can be read of a MANIFEST proves that nothing of a journal is needed.
fn lets_go(log: &VersionLog, journal: u64) -> bool {
    let is_known = Keyspace::ALL.len() == log.families.len()
        && log.families.keys().all(|family| log.log_numbers.contains_key(family));
    is_known && log.damaged.iter().all(|part| part.is_cut) && !is_replayed(log, journal)
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The journals of a database, by number.
pub(super) fn journals_of(engine: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut journals = Vec::new();
    for entry in std::fs::read_dir(engine)? {
        let path = entry?.path();
        let number = file_name(&path).strip_suffix(".log").and_then(|number| number.parse().ok());
        journals.extend(number.map(|number| (number, path)));
    }
    journals.sort_unstable();
    Ok(journals)
}

/// `CURRENT`, and the MANIFEST that it names or, where it is damaged, is taken instead.
fn check_names(engine: &Path, vault: &Vault, found: &mut Vec<FileDefect>) -> io::Result<Option<PathBuf>> {
    let manifest = manifest_of(engine, vault)?;
    let expected = manifest.as_deref().map(|path| format!("{}\n", file_name(path)));
    let current = match vault.read(&engine.join("CURRENT")) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            found.push(FileDefect::new("CURRENT", error.to_string()));
            return Ok(manifest);
        }
        current => current.ok(),
    };
    match (&current, &expected) {
        (None, _) => found.push(FileDefect::new("CURRENT", "it is missing".to_owned())),
        (Some(current), Some(expected)) if current == expected.as_bytes() => {}
        _ => found.push(FileDefect::new("CURRENT", "it names no MANIFEST that is there".to_owned())),
    }
    if manifest.is_none() {
        found.push(FileDefect::new(
            "MANIFEST",
            "it is missing: which tables belong together is not known".into(),
        ));
    }
    Ok(manifest)
}

fn check_identity(
    engine: &Path,
    vault: &Vault,
    log: &VersionLog,
    found: &mut Vec<FileDefect>,
) -> io::Result<()> {
    match vault.read(&engine.join("IDENTITY")) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            found.push(FileDefect::new("IDENTITY", error.to_string()));
        }
        Ok(identity) if !log.database_id.is_empty() && identity.trim_ascii_end() != log.database_id => {
            found.push(FileDefect::new("IDENTITY", "it is not the name that the MANIFEST has".to_owned()));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(())
}

fn check_table<E: From<io::Error>>(
    engine: &Path,
    scratch: &Path,
    vault: &Vault,
    log: &VersionLog,
    (number, table): (u64, &TableEntry),
    look: &mut dyn FnMut(&str) -> Result<(), E>,
    found: &mut Vec<FileDefect>,
) -> Result<(), E> {
    let name = table_name(number);
    let path = engine.join(&name);
    let Some(keyspace) = keyspace_of(log, table) else {
        found.push(FileDefect::new(&name, "it is of a keyspace that is not known".to_owned()));
        return Ok(());
    };
    let whole = |defect: String| FileDefect::new(&name, defect).with_range(whole_range(keyspace, table));
    let size = match vault.length(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            found.push(whole("it is missing".to_owned()));
            return Ok(());
        }
        length => length?,
    };
    if size != table.bytes {
        found.push(whole(format!("it has {size} bytes, and was written with {}", table.bytes)));
        return Ok(());
    }
    if let Some(expected) = table.checksum {
        let mut file = vault.open_leniently(&path)?;
        let (_, sum) = checksum_of(&mut file, |_| look(&name))?;
        if sum == expected && !file.is_damaged() {
            return Ok(());
        }
    }
    let damaged = damaged_in_table(engine, scratch, vault, log, number);
    match damaged {
        Ok(ranges) => found.extend(ranges.into_iter().map(|keys| {
            FileDefect::new(&name, keys.detail.clone()).with_range(DamagedRange::of(keyspace, keys))
        })),
        Err(error) => found.push(whole(error)),
    }
    if table.checksum.is_some() && !found.iter().any(|defect| defect.file == name) {
        found.push(whole("its checksum does not agree, though every block of it can be read".to_owned()));
    }
    Ok(())
}

pub(super) fn keyspace_of(log: &VersionLog, table: &TableEntry) -> Option<Keyspace> {
    let name = log.families.get(&table.family)?;
    Keyspace::ALL.into_iter().find(|keyspace| keyspace.name() == name)
}

pub(super) fn whole_range(keyspace: Keyspace, table: &TableEntry) -> DamagedRange {
    DamagedRange { keyspace, from: Some(table.smallest.clone()), to: Some(table.largest.clone()) }
}

/// The keys of a table that cannot be read; the error tells why none can.
pub(super) fn damaged_in_table(
    engine: &Path,
    scratch: &Path,
    vault: &Vault,
    log: &VersionLog,
    number: u64,
) -> Result<Vec<DamagedKeys>, String> {
    let table = log.tables.get(&number).ok_or("it is not known")?;
    let keyspace = keyspace_of(log, table).ok_or("it is of a keyspace that is not known")?;
    let alone = PartialDatabase::open(engine, scratch, vault, log, false, |kept| kept == number);
    let alone = alone.map_err(|error| error.to_string())?;
    let Err(detail) = alone.verify() else { return Ok(Vec::new()) };
    alone.opens(keyspace.name())?;
    let mut damaged = Vec::new();
    let walked: Result<(), std::convert::Infallible> =
        alone.walk(keyspace, None, None, &mut |_, _| Ok(()), &mut |keys| {
            damaged.push(keys);
            Ok(())
        });
    walked.unwrap_or_else(|never| match never {});
    if damaged.is_empty() {
        // What helps to find keys, or tells of the table, and is read by nobody who reads all of it.
        let (after, before) = (Some(table.smallest.clone()), Some(table.largest.clone()));
        damaged.push(DamagedKeys { after, before, detail });
    }
    Ok(damaged)
}

/// What can be read of a journal.
struct Journal {
    /// The sequence numbers of the first and the last write.
    first: Option<u64>,
    last: Option<u64>,
    defects: Vec<FileDefect>,
}

fn read_journal(path: &Path, vault: &Vault) -> io::Result<Journal> {
    let name = file_name(path);
    let mut reader = LogReader::new(vault.open_leniently(path)?);
    let mut journal = Journal { first: None, last: None, defects: Vec::new() };
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Record(record) => {
                // What is behind a cut was written after it.
                journal.defects.iter_mut().for_each(|defect| defect.is_harmless = false);
                if let Some((first, last)) = writes_of(&record) {
                    journal.first.get_or_insert(first);
                    journal.last = Some(last);
                }
            }
            LogItem::Damaged(part) => {
                let after = journal.last.map_or_else(String::new, |last| format!(", behind write {last}"));
                let defect = format!("bytes {} to {}{after}: {}", part.from, part.to, part.defect);
                journal
                    .defects
                    .push(FileDefect { is_harmless: part.is_cut, ..FileDefect::new(&name, defect) });
            }
        }
    }
    if reader.file().is_damaged() {
        // What the end of a file says where something in it does not open is not to be relied on.
        journal.defects.iter_mut().for_each(|defect| defect.is_harmless = false);
        let defect = "a part of it does not open with its key".to_owned();
        journal.defects.push(FileDefect::new(&name, defect));
    }
    Ok(journal)
}

/// The sequence numbers of a batch's first and last mutation.
fn writes_of(record: &[u8]) -> Option<(u64, u64)> {
    let (first, rest) = record.get(..BATCH_HEADER_BYTES)?.split_first_chunk()?;
    let (first, count) = (u64::from_le_bytes(*first), u32::from_le_bytes(*rest.first_chunk()?));
    Some((first, (first + u64::from(count)).saturating_sub(1)))
}

/// The tables in a directory, by number.
pub(super) fn tables_in(engine: &Path) -> io::Result<BTreeSet<u64>> {
    let mut tables = BTreeSet::new();
    for entry in std::fs::read_dir(engine)? {
        let name = file_name(&entry?.path());
        tables.extend(name.strip_suffix(".sst").and_then(|number| number.parse::<u64>().ok()));
    }
    Ok(tables)
}

/// Tables that were made since the MANIFEST was begun, and that it never had.
fn unknown_tables(engine: &Path, log: &VersionLog) -> io::Result<BTreeSet<u64>> {
    let mut unknown = tables_in(engine)?;
    unknown.retain(|number| *number > log.number && !log.mentioned.contains(number));
    Ok(unknown)
}

/// Tables that were made since the MANIFEST was begun, that it never had, and whose writes are in no journal
/// any more: its end is lost. Of a flush or compaction that a crash has ended, journal or tables are there.
pub(super) fn forgotten_tables(
    engine: &Path,
    scratch: &Path,
    vault: &Vault,
    log: &VersionLog,
    journals: &Journals,
) -> io::Result<Vec<FileDefect>> {
    let unknown = unknown_tables(engine, log)?;
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    let directory = scratch.join("unknown");
    remove_tree(&directory)?;
    std::fs::create_dir_all(&directory)?;
    for name in unknown.into_iter().map(table_name) {
        link(&engine.join(&name), &directory.join(&name))?;
    }
    // Where none of them is whole, none was part of the database.
    let found = PartialDatabase::put_in_order(&directory, vault).unwrap_or_default();
    remove_tree(&directory)?;
    let is_forgotten = |table: &TableEntry| {
        let family = found.families.get(&table.family);
        let known = log.tables.values().filter(|known| log.families.get(&known.family) == family);
        let newest = known.map(|known| known.largest_sequence).max().unwrap_or(0);
        table.largest_sequence > newest && journals.first.is_none_or(|first| table.largest_sequence < first)
    };
    let forgotten = found.tables.iter().filter(|(_, table)| is_forgotten(table));
    let defects = forgotten.map(|(number, table)| {
        let defect = format!(
            "the MANIFEST does not know it, and no journal has what it holds up to write {}: the end of the \
            MANIFEST is lost",
            table.largest_sequence
        );
        FileDefect::new(&table_name(*number), defect)
    });
    Ok(defects.collect())
}

/// What is wrong with the journals that a start is about to replay, and with what they begin behind.
#[derive(Debug, Default)]
pub(crate) struct StartFacts {
    /// What is left out, and harmless ends.
    pub(crate) journals: Vec<FileDefect>,
    /// Why no server may start: something is lost, and nobody else says so.
    pub(crate) forbids: Option<FileDefect>,
}

/// Looks at what a start is about to replay, in the data directory `data`.
///
/// # Errors
/// What the file system says.
pub(crate) fn before_start(engine: &Path, data: &Path, vault: &Vault) -> io::Result<StartFacts> {
    let Some(manifest) = manifest_of(engine, vault)? else { return Ok(StartFacts::default()) };
    let mut log = VersionLog::read(&manifest, vault)?;
    log.remove_torn_end(&manifest, vault)?;
    let missing = missing_journals(engine, vault, &log)?;
    if !missing.is_empty() && missing.iter().all(|defect| defect.is_harmless) {
        log.let_go_of_journals(&manifest, vault)?;
    }
    let journals = read_journals(engine, vault, &log)?;
    let mut forbids = None;
    if !unknown_tables(engine, &log)?.is_empty() {
        let scratch = Scratch::make(data)?;
        forbids = forgotten_tables(engine, scratch.path(), vault, &log, &journals)?.into_iter().next();
    }
    if journals.begin_late {
        forbids = journals.defects.iter().find(|defect| !defect.is_harmless).cloned();
    }
    Ok(StartFacts { journals: journals.defects, forbids })
}

/// The checksum of each table as it was written, by the name of its file, where the engine has noted it.
///
/// # Errors
/// What the file system says.
pub(crate) fn table_checksums(engine: &Path, vault: &Vault) -> io::Result<Vec<(String, u32)>> {
    let Some(manifest) = manifest_of(engine, vault)? else { return Ok(Vec::new()) };
    let log = VersionLog::read(&manifest, vault)?;
    let noted = log.tables.iter().filter_map(|(number, table)| Some((table_name(*number), table.checksum?)));
    Ok(noted.collect())
}

/// Tables that are not whole, by number.
pub(super) fn damaged_tables(
    engine: &Path,
    scratch: &Path,
    vault: &Vault,
    log: &VersionLog,
) -> io::Result<BTreeSet<u64>> {
    let mut damaged = BTreeSet::new();
    for (number, table) in &log.tables {
        let mut found = Vec::new();
        let look = &mut |_: &str| io::Result::Ok(());
        check_table(engine, scratch, vault, log, (*number, table), look, &mut found)?;
        if !found.is_empty() {
            damaged.insert(*number);
        }
    }
    Ok(damaged)
}
