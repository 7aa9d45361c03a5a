//! What can still be read of a database that is damaged.
//!
//! ```text
//!  tables that open ──────────┐  all of them and the journals: what is newest of each key; it ends before
//!    (whole, or in part)      ├▶ and goes on behind ranges of keys in which a block cannot be read
//!  tables that are whole ─────┘  once more within these ranges: what others have of them, which may be older
//! ```

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::examine::{
    Journals, damaged_tables, file_name, forgotten_tables, journals_of, keyspace_of, read_journals,
    tables_in, whole_range,
};
use super::partial::{DamagedKeys, PartialDatabase, link};
use super::version_log::{VersionLog, manifest_of, table_name};
use crate::check::{DamagedRange, FileDefect};
use crate::error::StorageError;
use crate::files::remove_tree;
use crate::keyspace::Keyspace;
use crate::vault::Vault;

/// Is given keys and values, and how sure they are.
type OnFound<'f, E> = &'f mut dyn FnMut(&[u8], &[u8], Found) -> Result<(), E>;

/// A damaged database, opened to be read.
pub(crate) struct RocksSalvage {
    /// Everything that opens.
    all: PartialDatabase,
    /// What is whole; `None`: all is.
    whole: Option<PartialDatabase>,
    /// What cannot be read at all.
    pub(crate) defects: Vec<FileDefect>,
}

/// Something that was found, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The newest version.
    Newest,
    /// A newer one may have been in what cannot be read.
    PerhapsOlder,
}

impl RocksSalvage {
    /// Of the engine's files in `engine`; links to them are made within `scratch`. `synced` is up to which
    /// write the journal was on stable storage, as far as that is known.
    ///
    /// # Errors
    /// What the file system and RocksDB say: not even a part can be opened.
    pub(crate) fn open(
        engine: &Path,
        scratch: &Path,
        vault: &Vault,
        synced: Option<u64>,
    ) -> Result<RocksSalvage, StorageError> {
        let io = |error: io::Error| StorageError::Engine(format!("{}: {error}", engine.display()).into());
        let log = match manifest_of(engine, vault).map_err(io)? {
            Some(manifest) => VersionLog::read(&manifest, vault).map_err(io)?,
            None => VersionLog::default(),
        };
        let journals = read_journals(engine, vault, &log).map_err(io)?;
        let mut salvage =
            match reason_to_distrust(engine, scratch, vault, &log, &journals, synced).map_err(io)? {
                Some(reason) => Self::without_manifest(engine, scratch, vault, reason)?,
                None => Self::with_manifest(engine, scratch, vault, &log)?,
            };
        salvage.defects.extend(journals.defects);
        let newest = journals.newest.max(salvage.all.sequence());
        if let Some(synced) = synced.filter(|synced| *synced > newest) {
            salvage.defects.push(FileDefect::new(
                "journal-mark",
                format!("write {newest} is the last that there is, and {synced} was on stable storage"),
            ));
        }
        Ok(salvage)
    }

    fn with_manifest(
        engine: &Path,
        scratch: &Path,
        vault: &Vault,
        log: &VersionLog,
    ) -> Result<RocksSalvage, StorageError> {
        let io = |error: io::Error| StorageError::Engine(format!("{}: {error}", engine.display()).into());
        let damaged = damaged_tables(engine, scratch, vault, log).map_err(io)?;
        let (mut lost, mut defects) = (BTreeSet::new(), Vec::new());
        for number in &damaged {
            if let Err(reason) = opens_alone(engine, scratch, vault, log, *number) {
                lost.insert(*number);
                let range = log
                    .tables
                    .get(number)
                    .and_then(|table| Some(whole_range(keyspace_of(log, table)?, table)));
                let is_made_anew = range.as_ref().is_some_and(|range| !range.keyspace.is_salvaged());
                let reason = match engine.join(table_name(*number)).exists() {
                    true => format!("nothing of it can be read: {reason}"),
                    false => "it is missing".to_owned(),
                };
                let defect = FileDefect::new(&table_name(*number), reason);
                defects.push(FileDefect { range, is_harmless: is_made_anew, ..defect });
            } else if let Some(table) = log.tables.get(number)
                && let Some(keyspace) = keyspace_of(log, table).filter(|keyspace| !keyspace.is_salvaged())
            {
                let detail = "something in it cannot be read".to_owned();
                let defect = FileDefect::new(&table_name(*number), detail);
                defects.push(FileDefect {
                    range: Some(whole_range(keyspace, table)),
                    is_harmless: true,
                    ..defect
                });
            }
        }
        let all = PartialDatabase::open(engine, scratch, vault, log, true, |number| !lost.contains(&number))?;
        let is_whole = |number: u64| !damaged.contains(&number);
        let whole = (damaged.len() > lost.len())
            .then(|| PartialDatabase::open(engine, scratch, vault, log, true, is_whole))
            .transpose()?;
        Ok(RocksSalvage { all, whole, defects })
    }

    /// Where it is not known which tables belong together, RocksDB's own repair puts in order all that are
    /// there; it leaves out those that are damaged themselves. The journals come on top: it would lose what
    /// they have of keyspaces that have no table yet.
    fn without_manifest(
        engine: &Path,
        scratch: &Path,
        vault: &Vault,
        reason: &str,
    ) -> Result<RocksSalvage, StorageError> {
        let io = |error: io::Error| StorageError::Engine(format!("{}: {error}", engine.display()).into());
        let directory = scratch.join("tables");
        remove_tree(&directory).map_err(io)?;
        std::fs::create_dir_all(&directory).map_err(io)?;
        let tables = tables_in(engine).map_err(io)?;
        for number in &tables {
            let name = table_name(*number);
            link(&engine.join(&name), &directory.join(&name)).map_err(io)?;
        }
        let mut log = match tables.is_empty() {
            true => VersionLog::default(),
            false => PartialDatabase::put_in_order(&directory, vault)?,
        };
        for (family, keyspace) in (0u64..).zip(Keyspace::ALL) {
            log.families.entry(family).or_insert_with(|| keyspace.name().to_owned());
        }
        log.log_numbers.clear();
        let next = tables.last().copied().max(journals_of(engine).map_err(io)?.last().map(|last| last.0));
        log.next_file = log.next_file.max(next.unwrap_or(0) + 1);
        for (_, journal) in journals_of(engine).map_err(io)? {
            link(&journal, &directory.join(file_name(&journal))).map_err(io)?;
        }
        let all = PartialDatabase::open(&directory, scratch, vault, &log, true, |_| true)?;
        let detail =
            format!("{reason}: all tables that are there were taken, and what was deleted last may be back");
        let mut defects = vec![FileDefect::new("MANIFEST", detail)];
        for number in tables.iter().filter(|number| !log.tables.contains_key(number)) {
            let detail = "it is damaged, and nothing of it was taken".to_owned();
            defects.push(FileDefect::new(&table_name(*number), detail));
        }
        Ok(RocksSalvage { all, whole: None, defects })
    }

    /// Goes over all that can be read of a keyspace, in the order of keys; within what is lost, over what
    /// others have of it.
    ///
    /// # Errors
    /// What `each` and `lost` say.
    pub(crate) fn walk<E>(
        &self,
        keyspace: Keyspace,
        each: OnFound<'_, E>,
        lost: &mut dyn FnMut(DamagedRange, String) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut ranges: Vec<DamagedKeys> = Vec::new();
        self.all.walk(
            keyspace,
            None,
            None,
            &mut |key, value| each(key, value, Found::Newest),
            &mut |keys| {
                ranges.push(keys);
                Ok(())
            },
        )?;
        for keys in ranges {
            if let Some(whole) = &self.whole {
                whole.walk(
                    keyspace,
                    keys.after.as_deref(),
                    keys.before.as_deref(),
                    &mut |key, value| each(key, value, Found::PerhapsOlder),
                    &mut |_| Ok(()),
                )?;
            }
            let detail = keys.detail.clone();
            lost(DamagedRange::of(keyspace, keys), detail)?;
        }
        Ok(())
    }
}

/// Why the MANIFEST does not tell which tables belong together; `None`: it does.
fn reason_to_distrust(
    engine: &Path,
    scratch: &Path,
    vault: &Vault,
    log: &VersionLog,
    journals: &Journals,
    synced: Option<u64>,
) -> io::Result<Option<&'static str>> {
    if log.families.len() < Keyspace::ALL.len() && log.damaged.is_empty() {
        return Ok(Some("it is missing or empty"));
    }
    if log.families.len() < Keyspace::ALL.len() || log.damaged.iter().any(|part| !part.is_cut) {
        return Ok(Some("it is damaged"));
    }
    if !forgotten_tables(engine, scratch, vault, log, journals)?.is_empty() {
        return Ok(Some("its end is lost"));
    }
    // A table that it does not name is what a crash leaves, unless something else shows that it is cut.
    let there = tables_in(engine)?;
    let has_more = there.iter().any(|number| !log.tables.contains_key(number));
    let lacks = log.tables.keys().any(|number| !there.contains(number));
    let newest = journals.newest.max(log.last_sequence);
    let ends_early = journals.begin_late || synced.is_some_and(|synced| synced > newest);
    Ok((has_more && (lacks || ends_early)).then_some("it is older than the other files"))
}

fn opens_alone(
    engine: &Path,
    scratch: &Path,
    vault: &Vault,
    log: &VersionLog,
    number: u64,
) -> Result<(), String> {
    let table = log.tables.get(&number).ok_or("it is not known")?;
    let name = log.families.get(&table.family).ok_or("it is of a keyspace that is not known")?;
    let alone = PartialDatabase::open(engine, scratch, vault, log, false, |kept| kept == number);
    alone.map_err(|error| error.to_string())?.opens(name)
}
