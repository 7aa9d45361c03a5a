//! RocksDB's MANIFEST: which table files make up a database. Read where RocksDB itself would give up, and
//! written for a choice of the tables, so that what is left of a damaged store can be opened.
//!
//! ```text
//!  record (log_file.rs): fields, each a tag (varint) and what belongs to it; the family comes last
//!   1 comparator     2 log number     3 next file    4 last sequence    6 level, number: a table is gone
//!   103 level, number, size, smallest, largest, sequence numbers, (tag, bytes)…: a table is there
//!   200 family       201 name of a new one       8193 name of the database       from 8192: may be passed
//!   8199 (number, bytes synced): a journal is there               8200 (number): all before it may be gone
//! ```
//! Source: `db/version_edit.h` of the RocksDB that is built in; newer ones read what older ones wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::log_file::{DamagedBytes, LogItem, LogReader, LogWriter};
use crate::files::sync_names;
use crate::vault::Vault;

const COMPARATOR: u64 = 1;
const LOG_NUMBER: u64 = 2;
const NEXT_FILE: u64 = 3;
const LAST_SEQUENCE: u64 = 4;
const COMPACT_CURSOR: u64 = 5;
const DELETED_FILE: u64 = 6;
const PREVIOUS_LOG: u64 = 9;
const LOG_TO_KEEP: u64 = 10;
const NEW_FILE: u64 = 103;
const FAMILY: u64 = 200;
const FAMILY_ADDED: u64 = 201;
const FAMILY_DROPPED: u64 = 202;
const FAMILY_MAX: u64 = 203;
const IN_GROUP: u64 = 300;
const MAY_BE_PASSED: u64 = 8192;
const DATABASE_ID: u64 = 8193;
const JOURNAL_ADDED: u64 = 8199;
const JOURNALS_GONE: u64 = 8200;

/// Within a journal that is there.
const LAST_JOURNAL_FIELD: u64 = 1;
const SYNCED_BYTES: u64 = 2;

/// Within a new file.
const LAST_FIELD: u64 = 1;
const FILE_CHECKSUM: u64 = 7;
const FILE_CHECKSUM_NAME: u64 = 8;
/// What RocksDB calls CRC-32C.
const CRC32C: &[u8] = b"FileChecksumCrc32c";

const BYTEWISE: &[u8] = b"leveldb.BytewiseComparator";
/// Behind each key of RocksDB's own: sequence number and kind.
const KEY_TRAILER_BYTES: usize = 8;

/// A table that is part of the database.
#[derive(Debug, Clone)]
pub(super) struct TableEntry {
    pub(super) family: u64,
    pub(super) bytes: u64,
    pub(super) smallest: Vec<u8>,
    pub(super) largest: Vec<u8>,
    /// Of its newest write; less, or 0, in what compactions have made of it.
    pub(super) largest_sequence: u64,
    /// CRC-32C of the file as it was written.
    pub(super) checksum: Option<u32>,
    /// As it is in the MANIFEST, from its tag on.
    encoded: Vec<u8>,
}

/// A MANIFEST.
#[derive(Debug, Clone, Default)]
pub(super) struct VersionLog {
    /// Of the file; tables that were made since it was begun have larger ones.
    pub(super) number: u64,
    /// All tables that were ever part of the database since.
    pub(super) mentioned: BTreeSet<u64>,
    pub(super) families: BTreeMap<u64, String>,
    /// By number.
    pub(super) tables: BTreeMap<u64, TableEntry>,
    /// Journals that are older hold nothing of a family that is not in tables.
    pub(super) log_numbers: BTreeMap<u64, u64>,
    /// Journals without which RocksDB opens no database, and how many bytes of them were synced.
    pub(super) journals: BTreeMap<u64, u64>,
    /// Journals before this one may be gone.
    journals_from: u64,
    pub(super) next_file: u64,
    pub(super) last_sequence: u64,
    pub(super) database_id: Vec<u8>,
    /// What cannot be read of it.
    pub(super) damaged: Vec<DamagedBytes>,
}

/// The name of a table file.
pub(super) fn table_name(number: u64) -> String {
    format!("{number:06}.sst")
}

/// The MANIFEST that `CURRENT` names; where it names none, the newest one there is.
pub(super) fn manifest_of(engine: &Path, vault: &Vault) -> io::Result<Option<PathBuf>> {
    let named = vault.read(&engine.join("CURRENT")).unwrap_or_default();
    let named = named.strip_suffix(b"\n").and_then(|name| std::str::from_utf8(name).ok());
    if let Some(name) = named.filter(|name| name.starts_with("MANIFEST-") && engine.join(name).is_file()) {
        return Ok(Some(engine.join(name)));
    }
    let mut newest = None;
    for entry in std::fs::read_dir(engine)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("MANIFEST-").and_then(|number| number.parse::<u64>().ok());
        newest = newest.max(number.map(|number| (number, engine.join(&name))));
    }
    Ok(newest.map(|(_, path)| path))
}

/// Disks write so many bytes whole, or not at all.
const SECTOR_BYTES: u64 = 512;
/// So many zeros in a row are nothing that a record has.
const ZEROS_MIN: u64 = 16;

/// Whether bytes at the end of a file are a write of which some sectors did not reach the disk before the
/// power was lost: they are zeros. A flipped bit makes none.
fn is_torn(path: &Path, part: &DamagedBytes) -> io::Result<bool> {
    let bytes = std::fs::read(path)?;
    if part.to < bytes.len() as u64 {
        return Ok(false);
    }
    let mut from = part.from;
    while from < part.to {
        let end = (from / SECTOR_BYTES + 1) * SECTOR_BYTES;
        let end = end.min(part.to);
        let sector = bytes.get(from as usize..end as usize).unwrap_or_default();
        if end - from >= ZEROS_MIN && sector.iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
        from = end;
    }
    Ok(false)
}

impl VersionLog {
    /// Reads a MANIFEST; of what is damaged it tells.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn read(path: &Path, vault: &Vault) -> io::Result<VersionLog> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix("MANIFEST-").and_then(|number| number.parse().ok()).unwrap_or(0);
        let families = BTreeMap::from([(0, "default".to_owned())]);
        let mut log = VersionLog { number, families, ..Self::default() };
        let mut reader = LogReader::new(vault.open_leniently(path)?);
        while let Some(item) = reader.next()? {
            match item {
                LogItem::Record(record) => {
                    if log.take(&record).is_none() {
                        let defect = "a record is not understood";
                        log.damaged.push(DamagedBytes { from: 0, to: 0, defect, is_cut: false });
                    }
                }
                LogItem::Damaged(part) => log.damaged.push(part),
            }
        }
        if reader.file().is_damaged() {
            // What the end of a file says where something in it does not open is not to be relied on.
            log.damaged.iter_mut().for_each(|part| part.is_cut = false);
            let defect = "a part of it does not open with its key";
            log.damaged.push(DamagedBytes { from: 0, to: 0, defect, is_cut: false });
        }
        // Of one that is encrypted nothing torn has been read.
        if let [part] = log.damaged.as_mut_slice()
            && !vault.is_on()
            && is_torn(path, part)?
        {
            part.is_cut = true;
            part.defect = "not all of its last record was written";
        }
        Ok(log)
    }

    /// Removes what a power loss has left of a last record. RocksDB passes over one that is too short, and
    /// opens no database where a part of it has come and another has not.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn remove_torn_end(&self, path: &Path, vault: &Vault) -> io::Result<()> {
        let [DamagedBytes { from, is_cut: true, .. }] = *self.damaged.as_slice() else { return Ok(()) };
        let file = path.display();
        tracing::info!(%file, from, "the MANIFEST ends with a write that was not completed");
        if vault.is_on() {
            let mut whole = Vec::new();
            vault.open(path)?.take(from).read_to_end(&mut whole)?;
            return replace(path, &whole, vault);
        }
        let file = File::options().write(true).open(path)?;
        file.set_len(from)?;
        file.sync_all()
    }

    fn add_journal(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let number = fields.number()?;
        let mut synced = None;
        loop {
            match fields.number()? {
                LAST_JOURNAL_FIELD => break,
                SYNCED_BYTES => synced = Some(fields.number()?),
                _ => return None,
            }
        }
        // Of one that was not synced nobody relies on its being there.
        if let Some(synced) = synced.filter(|_| number >= self.journals_from) {
            let bytes = self.journals.entry(number).or_default();
            *bytes = synced.max(*bytes);
        }
        Some(())
    }

    fn let_journals_go(&mut self, before: u64) {
        self.journals_from = self.journals_from.max(before);
        self.journals = self.journals.split_off(&self.journals_from);
    }

    /// The first journal that has something that may not be in tables.
    pub(super) fn first_replayed(&self) -> u64 {
        self.log_numbers.values().copied().min().unwrap_or(0)
    }

    /// Notes at the end of a MANIFEST that is otherwise whole that nothing of the journals is needed that are
    /// in tables: RocksDB opens no database where one is gone that the MANIFEST has not let go of.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn let_go_of_journals(&mut self, path: &Path, vault: &Vault) -> io::Result<()> {
        let first = self.first_replayed();
        let (mut record, mut number) = (Vec::new(), Vec::new());
        put_number(&mut number, first);
        put_number(&mut record, JOURNALS_GONE);
        put_bytes(&mut record, &number);
        let mut writer = LogWriter::behind(vault.length(path)?, Vec::new());
        writer.add(&record)?;
        let added = writer.into_inner();
        if vault.is_on() {
            replace(path, &[vault.read(path)?, added].concat(), vault)?;
        } else {
            let mut file = File::options().append(true).open(path)?;
            file.write_all(&added)?;
            file.sync_all()?;
        }
        self.let_journals_go(first);
        Ok(())
    }

    /// Takes in one record; `None` where it makes no sense.
    fn take(&mut self, record: &[u8]) -> Option<()> {
        let mut fields = Fields(record);
        let (mut family, mut log_number, mut name) = (0, None, None);
        let (mut added, mut gone) = (Vec::new(), Vec::new());
        while !fields.0.is_empty() {
            let from = fields.0;
            match fields.number()? {
                COMPARATOR => drop(fields.bytes()?),
                LOG_NUMBER => log_number = Some(fields.number()?),
                NEXT_FILE => self.next_file = fields.number()?,
                LAST_SEQUENCE => self.last_sequence = fields.number()?,
                PREVIOUS_LOG | LOG_TO_KEEP | FAMILY_MAX | IN_GROUP => drop(fields.number()?),
                COMPACT_CURSOR => {
                    fields.number()?;
                    fields.bytes()?;
                }
                DELETED_FILE => {
                    fields.number()?;
                    gone.push(fields.number()?);
                }
                NEW_FILE => {
                    let (number, mut table) = fields.table()?;
                    table.encoded = from.get(..from.len() - fields.0.len())?.to_vec();
                    added.push((number, table));
                }
                FAMILY => family = fields.number()?,
                FAMILY_ADDED => name = Some(String::from_utf8(fields.bytes()?.to_vec()).ok()?),
                FAMILY_DROPPED => return None,
                DATABASE_ID => self.database_id = fields.bytes()?.to_vec(),
                JOURNAL_ADDED => self.add_journal(Fields(fields.bytes()?))?,
                JOURNALS_GONE => self.let_journals_go(Fields(fields.bytes()?).number()?),
                MAY_BE_PASSED.. => drop(fields.bytes()?),
                _ => return None,
            }
        }
        self.mentioned.extend(added.iter().map(|(number, _)| *number));
        gone.iter().for_each(|number| drop(self.tables.remove(number)));
        self.tables.extend(added.into_iter().map(|(number, table)| (number, TableEntry { family, ..table })));
        self.families.extend(name.map(|name| (family, name)));
        self.log_numbers.extend(log_number.map(|number| (family, number)));
        Some(())
    }

    /// Writes a MANIFEST, and the `CURRENT` that names it, for a database of these tables only.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn write_for(
        &self,
        engine: &Path,
        vault: &Vault,
        is_kept: impl Fn(u64) -> bool,
    ) -> io::Result<()> {
        let number = self.next_file.max(2) + 1;
        let name = format!("MANIFEST-{number:06}");
        let mut writer = LogWriter::new(Vec::new());
        let mut first = Vec::new();
        put_number(&mut first, LOG_NUMBER);
        put_number(&mut first, self.log_numbers.get(&0).copied().unwrap_or(0));
        put_number(&mut first, NEXT_FILE);
        put_number(&mut first, number + 1);
        put_number(&mut first, LAST_SEQUENCE);
        put_number(&mut first, self.last_sequence);
        writer.add(&first)?;
        for (family, name) in self.families.iter().filter(|(family, _)| **family > 0) {
            let mut added = Vec::new();
            put_number(&mut added, COMPARATOR);
            put_bytes(&mut added, BYTEWISE);
            put_number(&mut added, LOG_NUMBER);
            put_number(&mut added, self.log_numbers.get(family).copied().unwrap_or(0));
            put_number(&mut added, FAMILY);
            put_number(&mut added, *family);
            put_number(&mut added, FAMILY_ADDED);
            put_bytes(&mut added, name.as_bytes());
            writer.add(&added)?;
        }
        for family in self.families.keys() {
            let mut tables = Vec::new();
            for table in
                self.tables.iter().filter(|(number, table)| table.family == *family && is_kept(**number))
            {
                tables.extend_from_slice(&table.1.encoded);
            }
            if *family > 0 {
                put_number(&mut tables, FAMILY);
                put_number(&mut tables, *family);
            }
            if !tables.is_empty() {
                writer.add(&tables)?;
            }
        }
        vault.write(&engine.join(&name), &writer.into_inner())?;
        vault.write(&engine.join("CURRENT"), format!("{name}\n").as_bytes())?;
        Ok(())
    }
}

/// Puts these bytes into the place of an encrypted MANIFEST, of which no part is written again.
fn replace(path: &Path, bytes: &[u8], vault: &Vault) -> io::Result<()> {
    let draft = path.with_file_name("manifest.new");
    vault.write(&draft, bytes)?.sync_all()?;
    std::fs::rename(draft, path)?;
    path.parent().map_or(Ok(()), sync_names)
}

fn put_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put_number(into, bytes.len() as u64);
    into.extend_from_slice(bytes);
}

/// What is left of a record.
struct Fields<'r>(&'r [u8]);

impl<'r> Fields<'r> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'r [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A key without what RocksDB puts behind it.
    fn key(&mut self) -> Option<Vec<u8>> {
        let key = self.bytes()?;
        Some(key.get(..key.len().checked_sub(KEY_TRAILER_BYTES)?)?.to_vec())
    }

    fn table(&mut self) -> Option<(u64, TableEntry)> {
        self.number()?;
        let (number, bytes) = (self.number()?, self.number()?);
        let (smallest, largest) = (self.key()?, self.key()?);
        self.number()?;
        let largest_sequence = self.number()?;
        let (mut sum, mut is_crc32c) = (None, false);
        loop {
            match self.number()? {
                LAST_FIELD => break,
                FILE_CHECKSUM => sum = self.bytes()?.first_chunk().copied().map(u32::from_be_bytes),
                FILE_CHECKSUM_NAME => is_crc32c = self.bytes()? == CRC32C,
                _ => drop(self.bytes()?),
            }
        }
        let checksum = sum.filter(|_| is_crc32c);
        let encoded = Vec::new();
        Some((
            number,
            TableEntry { family: 0, bytes, smallest, largest, largest_sequence, checksum, encoded },
        ))
    }
}
