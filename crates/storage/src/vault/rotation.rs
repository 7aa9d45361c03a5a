//! Leaving a key behind: what is encrypted with it is written anew, and then the key is forgotten.
//!
//! ```text
//!  header of a table ─▶ key that is not the newest ─▶ its range is compacted ─┐ until no table has one
//!                                                                             ▼
//!  every file below the data directory: none has an old key ─▶ `encryption` with the newest key alone
//! ```
//! What may have an old key is never more than what was there when the server started: every new file gets
//! the newest one. Links to old tables, which checkpoints make, are of tables of the store: once none of
//! these has an old key, no new link has one. So a walk that finds no such file afterwards has seen all that
//! there can be.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::cipher::{HEADER_BYTES, key_number};
use super::keyring::{forget_all_but, has_keys};
use super::{Keys, Vault};
use crate::directory::{DataDirectory, ENGINE_DIRECTORY};
use crate::engine::TableFile;
use crate::error::StorageError;
use crate::files::sync_names;
use crate::store::Store;

/// What became of old keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysForgotten {
    /// The directory has the newest key alone.
    Yes,
    /// This file still needs one.
    NeededBy(PathBuf),
}

/// The key that a file is encrypted with; `None`: it is not encrypted, or is not there any more.
fn key_of(path: &Path) -> io::Result<Option<u32>> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    match File::open(path).and_then(|file| file.take(HEADER_BYTES as u64).read_to_end(&mut header)) {
        Ok(_) => Ok(key_number(&header)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Keys {
    /// The newest key, where there are others too.
    fn newer_than_others(&self) -> Option<u32> {
        (self.keys.len() > 1).then(|| self.newest().0)
    }
}

impl Store {
    /// Whether files may have another key than those that are written now.
    pub fn has_old_keys(&self) -> bool {
        self.rotation().is_some()
    }

    fn rotation(&self) -> Option<(&DataDirectory, u32)> {
        let directory = self.inner.directory.as_ref()?;
        Some((directory, directory.vault().keys()?.newer_than_others()?))
    }

    /// Tables whose key is not the newest, by keyspace and first key. Reads the beginning of each table.
    ///
    /// # Errors
    /// What the engine or the file system reports.
    pub fn tables_of_old_keys(&self) -> Result<Vec<TableFile>, StorageError> {
        let inner = self.inner.open()?;
        let Some((directory, newest)) = self.rotation() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for table in inner.engine.table_files()? {
            let key = key_of(&directory.engine_path().join(&table.name)).map_err(unreadable)?;
            if key.is_some_and(|key| key != newest) {
                found.push(table);
            }
        }
        Ok(found)
    }

    /// Writes what a table holds anew, within the I/O budget, unless the table is gone. Blocks for as long
    /// as it takes, or as `goes_on` says, which is asked after each table. True when there was anything to
    /// do.
    ///
    /// # Errors
    /// What the engine or the file system reports.
    pub fn rewrite_table(
        &self,
        table: &TableFile,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, StorageError> {
        let inner = self.inner.open()?;
        if !inner.engine.table_files()?.iter().any(|live| live.name == table.name) {
            return Ok(false);
        }
        inner.engine.compact(table.keyspace, &table.range, goes_on)?;
        Ok(true)
    }

    /// Forgets all keys but the newest, if no file below the data directory has another one. The journal of
    /// before was written to tables by the start.
    ///
    /// # Errors
    /// What the engine or the file system reports; all keys are there then.
    pub fn forget_old_keys(&self) -> Result<KeysForgotten, StorageError> {
        let Some((directory, newest)) = self.rotation() else { return Ok(KeysForgotten::Yes) };
        if let Some(table) = self.tables_of_old_keys()?.first() {
            return Ok(KeysForgotten::NeededBy(directory.engine_path().join(&table.name)));
        }
        let engine = directory.engine_path();
        if let Some(file) = walk(directory.path(), &engine, directory.vault(), newest).map_err(unreadable)? {
            return Ok(KeysForgotten::NeededBy(file));
        }
        forget_all_but(directory.path(), newest).map_err(unreadable)?;
        Ok(KeysForgotten::Yes)
    }
}

fn unreadable(error: io::Error) -> StorageError {
    StorageError::Engine(error.to_string().into())
}

/// The first file that needs an old key. Directories with keys of their own need none of these.
fn walk(directory: &Path, engine: &Path, vault: &Vault, newest: u32) -> io::Result<Option<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type());
        let kind = match kind {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            kind => kind?,
        };
        if kind.is_dir() && !has_keys(&path) {
            if let Some(found) = walk(&path, engine, vault, newest)? {
                return Ok(Some(found));
            }
        } else if kind.is_file() && key_of(&path)?.is_some_and(|key| key != newest) {
            if directory != engine || !is_left_alone(&path) {
                return Ok(Some(path));
            }
            seal_anew(directory, &path, vault)?;
        }
    }
    Ok(None)
}

/// Files of the engine that it writes once, and reads at its start at most.
fn is_left_alone(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["IDENTITY", "checksums"].contains(&&*name)
        || name.starts_with("OPTIONS-") && !name.ends_with(".dbtmp")
        || name.starts_with("LOG.old.")
}

fn seal_anew(engine: &Path, path: &Path, vault: &Vault) -> io::Result<()> {
    debug_assert!(engine.ends_with(ENGINE_DIRECTORY), "files elsewhere belong to somebody");
    let bytes = match vault.read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        bytes => bytes?,
    };
    let draft = engine.join("sealed.new");
    vault.write(&draft, &bytes)?.sync_all()?;
    std::fs::rename(draft, path)?;
    sync_names(engine)
}
