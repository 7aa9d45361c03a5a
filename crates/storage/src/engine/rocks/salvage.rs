//! What can still be read of a database that is damaged.
//!
//! ```text
//!  tables that open ──────────┐  all of them and the journals: what is newest of each key; it ends before
//!    (whole, or in part)      ├▶ and goes on behind ranges of keys in which a block cannot be read
//!  tables that are whole ─────┘  once more within these ranges: what others have of them, which may be older
//! ```

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::examine::{damaged_tables, file_name, journals_of, keyspace_of, whole_range};
use super::partial::{DamagedKeys, PartialDatabase, link};
use super::version_log::{VersionLog, manifest_of, table_name};
use crate::check::{DamagedRange, FileDefect};
use crate::error::StorageError;
use crate::files::remove_tree;
use crate::keyspace::Keyspace;

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
    /// Of the engine's files in `engine`; links to them are made within `scratch`.
    ///
    /// # Errors
    /// What the file system and RocksDB say: not even a part can be opened.
    pub(crate) fn open(engine: &Path, scratch: &Path) -> Result<RocksSalvage, StorageError> {
        let io = |error: io::Error| StorageError::Engine(format!("{}: {error}", engine.display()).into());
        let log = match manifest_of(engine).map_err(io)? {
            Some(manifest) => VersionLog::read(&manifest).map_err(io)?,
            None => VersionLog::default(),
        };
        let is_known =
            log.damaged.iter().all(|part| part.is_cut) && log.families.len() == Keyspace::ALL.len();
        if !is_known {
            return Self::without_manifest(engine, scratch);
        }
        let damaged = damaged_tables(engine, scratch, &log).map_err(io)?;
        let (mut lost, mut defects) = (BTreeSet::new(), Vec::new());
        for number in &damaged {
            if let Err(reason) = opens_alone(engine, scratch, &log, *number) {
                lost.insert(*number);
                let range = log
                    .tables
                    .get(number)
                    .and_then(|table| Some(whole_range(keyspace_of(&log, table)?, table)));
                let defect =
                    FileDefect::new(&table_name(*number), format!("nothing of it can be read: {reason}"));
                defects.push(FileDefect { range, ..defect });
            }
        }
        let all = PartialDatabase::open(engine, scratch, &log, true, |number| !lost.contains(&number))?;
        let is_whole = |number: u64| !damaged.contains(&number);
        let whole = (damaged.len() > lost.len())
            .then(|| PartialDatabase::open(engine, scratch, &log, true, is_whole))
            .transpose()?;
        Ok(RocksSalvage { all, whole, defects })
    }

    /// Where it is not known which tables belong together, RocksDB's own repair puts in order all that are
    /// there; it leaves out those that are damaged themselves.
    fn without_manifest(engine: &Path, scratch: &Path) -> Result<RocksSalvage, StorageError> {
        let io = |error: io::Error| StorageError::Engine(format!("{}: {error}", engine.display()).into());
        let directory = scratch.join("all");
        remove_tree(&directory).map_err(io)?;
        std::fs::create_dir_all(&directory).map_err(io)?;
        let mut files: Vec<PathBuf> =
            journals_of(engine).map_err(io)?.into_iter().map(|(_, path)| path).collect();
        for entry in std::fs::read_dir(engine).map_err(io)? {
            let path = entry.map_err(io)?.path();
            files.extend(path.extension().is_some_and(|ending| ending == "sst").then_some(path));
        }
        for path in &files {
            link(path, &directory.join(file_name(path))).map_err(io)?;
        }
        let all = PartialDatabase::repaired(directory.clone())?;
        let mut defects = vec![FileDefect::new(
            "MANIFEST",
            "it is damaged: all tables that are there were taken, and what was deleted last may be back"
                .to_owned(),
        )];
        for path in &files {
            let name = file_name(path);
            if name.ends_with(".sst") && directory.join("lost").join(&name).exists() {
                defects.push(FileDefect::new(&name, "it is damaged, and nothing of it was taken".to_owned()));
            }
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

fn opens_alone(engine: &Path, scratch: &Path, log: &VersionLog, number: u64) -> Result<(), String> {
    let table = log.tables.get(&number).ok_or("it is not known")?;
    let name = log.families.get(&table.family).ok_or("it is of a keyspace that is not known")?;
    let alone = PartialDatabase::open(engine, scratch, log, false, |kept| kept == number);
    alone.map_err(|error| error.to_string())?.opens(name)
}
