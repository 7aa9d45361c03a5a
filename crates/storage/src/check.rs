//! Reading everything in a data directory that nobody uses, to know whether it is as it was written; and
//! saving what can be read where it is not.
//!
//! | file | how it is known to be whole |
//! |---|---|
//! | tables | CRC-32C of the file, in the MANIFEST since it was written; else the checksum of each block |
//! | MANIFEST, journals | the checksum of each record, the zeros between blocks, numbers that go on |
//! | `CURRENT`, `IDENTITY` | what they name is there and has the same name |
//! | `FORMAT`, `OPTIONS-*` | what they must be; CRC-32C in `checksums` |
//! | `journal-mark`, `checksums` | their own check bytes |
//! | `encryption` | each key in it opens with the master key |
//! | `disk-reserve` | nothing but zeros |
//!
//! `heddle.lock`, `LOCK` and the engine's own `LOG*` are read by nobody but people.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::counters;
use crate::directory::{self, DataDirectory};
use crate::engine::rocks::{DamagedKeys, examine, salvage};
use crate::error::{OpenError, StorageError};
use crate::files::{is_table_file, remove_tree};
use crate::keyspace::Keyspace;
use crate::vault::{KEYRING, MasterKey, Vault};

/// Keys that cannot be read, ends included as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRange {
    /// Of which keyspace they are.
    pub keyspace: Keyspace,
    /// The last key before them that can be read; `None`: there is none.
    pub from: Option<Vec<u8>>,
    /// The first key behind them that can be read; `None`: there is none.
    pub to: Option<Vec<u8>>,
}

impl DamagedRange {
    pub(crate) fn of(keyspace: Keyspace, keys: DamagedKeys) -> Self {
        DamagedRange { keyspace, from: keys.after, to: keys.before }
    }
}

/// Something that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDefect {
    /// The file, within the data directory or the engine's.
    pub file: String,
    /// What is wrong with it.
    pub defect: String,
    /// Which keys it concerns, where that is known.
    pub range: Option<DamagedRange>,
    /// It is what the death of the process or the machine leaves, and nothing that was acknowledged as synced
    /// is lost.
    pub is_harmless: bool,
}

impl FileDefect {
    pub(crate) fn new(file: &str, defect: String) -> Self {
        FileDefect { file: file.to_owned(), defect, range: None, is_harmless: false }
    }

    pub(crate) fn with_range(self, range: DamagedRange) -> Self {
        FileDefect { range: Some(range), ..self }
    }
}

/// Checks the files of a data directory without changing them. `look` is told which file is read next, and
/// ends it with an error. One that is encrypted needs its key.
///
/// # Errors
/// [`OpenError::Locked`] where a server uses it, [`OpenError::Unreadable`], those of [`Vault::of`], and what
/// `look` says.
pub fn check_files<E: From<OpenError>>(
    path: &Path,
    master: Option<&MasterKey>,
    mut look: impl FnMut(&str) -> Result<(), E>,
) -> Result<Vec<FileDefect>, E> {
    let mut found = Vec::new();
    let vault = Vault::of(path, master)?;
    let _lock = directory::lock_to_read(path)?;
    let unreadable = |source: io::Error| OpenError::Unreadable { path: path.to_owned(), source };
    directory::check_own_files(path, &mut found).map_err(unreadable)?;
    look("disk-reserve")?;
    check_reserve(path, &mut found).map_err(unreadable)?;
    let scratch = Scratch::make(path).map_err(unreadable)?;
    let engine = path.join(directory::ENGINE_DIRECTORY);
    if !engine.is_dir() {
        found.push(FileDefect::new(directory::ENGINE_DIRECTORY, "it is missing".to_owned()));
        return Ok(found);
    }
    let mut look = |file: &str| look(file).map_err(Ended::Told);
    let facts = examine::examine(&engine, scratch.path(), &vault, &mut look, &mut found).map_err(
        |ended| match ended {
            Ended::Told(error) => error,
            Ended::Io(source) => unreadable(source).into(),
        },
    )?;
    if let Some(synced) = directory::synced_of(path).filter(|synced| *synced > facts.sequence) {
        let defect = format!(
            "the journal ends with write {}, and {synced} was already on stable storage: the rest is lost",
            facts.sequence
        );
        found.push(FileDefect::new("journal-mark", defect));
    }
    Ok(found)
}

/// Why examining ended.
enum Ended<E> {
    Io(io::Error),
    Told(E),
}

impl<E> From<io::Error> for Ended<E> {
    fn from(error: io::Error) -> Self {
        Ended::Io(error)
    }
}

fn check_reserve(path: &Path, found: &mut Vec<FileDefect>) -> io::Result<()> {
    let mut file = match std::fs::File::open(path.join("disk-reserve")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut piece)?;
        let read = piece.get(..read).unwrap_or_default();
        if read.is_empty() {
            return Ok(());
        }
        if read.iter().any(|byte| *byte != 0) {
            found.push(FileDefect::new(
                "disk-reserve",
                "it has room set aside, and holds something".to_owned(),
            ));
            return Ok(());
        }
    }
}

/// The checksum of each table in a data directory or a checkpoint as it was written, by the name of its file
/// (`engine/…`).
///
/// # Errors
/// What the file system says.
pub fn table_checksums(directory: &Path, vault: &Vault) -> io::Result<Vec<(String, u32)>> {
    let engine = directory.join(directory::ENGINE_DIRECTORY);
    let noted = examine::table_checksums(&engine, vault)?;
    Ok(noted
        .into_iter()
        .map(|(name, sum)| (format!("{}/{name}", directory::ENGINE_DIRECTORY), sum))
        .collect())
}

/// Makes a data directory in `to`, which does not exist, with the same data as `from`: tables are linked,
/// what may be written to is copied. To be opened instead of it, to look at it.
///
/// # Errors
/// What the file system says.
pub fn stage(from: &Path, to: &Path) -> io::Result<()> {
    let (engine, staged) = (from.join(directory::ENGINE_DIRECTORY), to.join(directory::ENGINE_DIRECTORY));
    std::fs::create_dir_all(&staged)?;
    for entry in std::fs::read_dir(&engine)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if is_table_file(&name.to_string_lossy()) {
            crate::engine::rocks::link_table(&path, &staged.join(name))?;
        } else if path.is_file() && name != "LOCK" {
            std::fs::copy(&path, staged.join(name))?;
        }
    }
    for name in ["FORMAT", "journal-mark", KEYRING] {
        match std::fs::copy(from.join(name), to.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A directory for links and copies that is removed at the end: within the data directory, where links are
/// possible, or where temporary files are.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    const NAME: &str = "_check";

    /// Makes it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn make(data: &Path) -> io::Result<Scratch> {
        let beside = data.join(Self::NAME);
        if remove_tree(&beside).and_then(|()| std::fs::create_dir(&beside)).is_ok() {
            return Ok(Scratch(beside));
        }
        let elsewhere = std::env::temp_dir().join(format!("heddle{}-{}", Self::NAME, std::process::id()));
        remove_tree(&elsewhere)?;
        std::fs::create_dir(&elsewhere)?;
        Ok(Scratch(elsewhere))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "a directory of links could not be removed");
        }
    }
}

/// What can be read of a data directory that may be damaged. It holds its lock.
pub struct Salvage {
    engine: salvage::RocksSalvage,
    _scratch: Scratch,
    _directory: DataDirectory,
}

impl std::fmt::Debug for Salvage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Salvage").field("defects", &self.defects()).finish_non_exhaustive()
    }
}

/// Key, value, and whether a newer version may be lost.
pub type SalvagedEntry<'e> = (&'e [u8], &'e [u8], bool);

impl Salvage {
    /// Opens what can be opened.
    ///
    /// # Errors
    /// [`OpenError::Locked`], [`OpenError::NewerVersion`], those of [`Vault::of`]; [`OpenError::Corrupt`]
    /// where nothing can be read.
    pub fn open(path: &Path, master: Option<&MasterKey>) -> Result<Salvage, OpenError> {
        let directory = DataDirectory::open_damaged(path, master)?;
        let unreadable = |source: io::Error| OpenError::Unreadable { path: path.to_owned(), source };
        let scratch = Scratch::make(path).map_err(unreadable)?;
        let (engine, synced) = (directory.engine_path(), directory::synced_of(path));
        let opened = salvage::RocksSalvage::open(&engine, scratch.path(), directory.vault(), synced);
        let engine = opened.map_err(|error| match error {
            StorageError::NoSpace(detail) => {
                OpenError::NoSpace { path: path.to_owned(), detail: detail.to_string() }
            }
            error => OpenError::Corrupt { path: path.to_owned(), detail: error.to_string() },
        })?;
        Ok(Salvage { engine, _scratch: scratch, _directory: directory })
    }

    /// Tables of which nothing can be read, and what is wrong with journals and the MANIFEST.
    pub fn defects(&self) -> &[FileDefect] {
        &self.engine.defects
    }

    /// What the counters were, by their ids, as far as they can be read and are surely the newest.
    pub fn counters(&self) -> HashMap<u64, i64> {
        let mut values = HashMap::new();
        let walked = self.walk::<std::convert::Infallible>(
            Keyspace::Internal,
            &mut |(key, value, may_be_older)| {
                values.extend(counters::decode(key, value).filter(|_| !may_be_older));
                Ok(())
            },
            &mut |_, _| Ok(()),
        );
        walked.unwrap_or_else(|never| match never {});
        values
    }

    /// Goes over all that can be read of a keyspace: in the order of keys, what may be older behind what is
    /// not. `lost` is told of ranges in which something cannot be read, and why.
    ///
    /// # Errors
    /// What `each` and `lost` say.
    pub fn walk<E>(
        &self,
        keyspace: Keyspace,
        each: &mut dyn FnMut(SalvagedEntry<'_>) -> Result<(), E>,
        lost: &mut dyn FnMut(DamagedRange, String) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut each = |key: &[u8], value: &[u8], found: salvage::Found| {
            each((key, value, found == salvage::Found::PerhapsOlder))
        };
        self.engine.walk(keyspace, &mut each, lost)
    }
}
