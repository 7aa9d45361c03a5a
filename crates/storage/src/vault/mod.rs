//! Encryption at rest: every file that holds data is written and read through here, or through RocksDB's file
//! system in `engine/rocks/sealed.rs`, which seals and opens by the same code.
//!
//! ```text
//!  master key (from outside) ─▶ keys of the directory (`keyring.rs`) ─▶ key of a file (`cipher.rs`)
//!                                     in <dbpath>/encryption               ├▶ pages or records (`writer.rs`)
//!                                                                          └▶ `reader.rs`
//! ```
//! A [`Vault`] without keys leaves files as they are.
//!
//! # Invariants
//!
//! * A key and a nonce meet once: each file has a key of its own, each part of it a number, and no part that
//!   was written is written again.
//! * What does not open is never served: it is an error, or the end of a file that a crash has torn.
//! * With keys, no file is read that is not encrypted.

mod cipher;
mod keyring;
mod reader;
mod rotation;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

pub(crate) use cipher::SealLayout;
pub(crate) use keyring::has_keys;
pub use keyring::{InvalidMasterKey, MasterKey, rotate_master_key};
pub(crate) use reader::PageFile;
pub use reader::VaultReader;
pub use rotation::KeysForgotten;
pub(crate) use writer::Sealer;
pub use writer::VaultWriter;

use crate::directory::DataDirectory;
use crate::store::Store;
use cipher::{DataKey, HEADER_BYTES};

/// Within a data directory and its backups: the keys of its files.
pub const KEYRING: &str = "encryption";

/// The keys of a data directory, in the clear.
pub(crate) struct Keys {
    /// The id of the master key.
    master: String,
    keys: BTreeMap<u32, DataKey>,
}

impl Keys {
    fn of(&self, number: u32) -> Option<&DataKey> {
        self.keys.get(&number)
    }

    fn newest(&self) -> (u32, &DataKey) {
        let (number, key) = self.keys.last_key_value().expect("a data directory with keys has one");
        (*number, key)
    }
}

impl Store {
    /// How files beside its own are to be written: as these.
    pub fn vault(&self) -> Vault {
        self.inner.directory.as_ref().map(DataDirectory::vault).cloned().unwrap_or_default()
    }
}

/// How the files of a data directory are written and read. Clones are the same.
#[derive(Clone, Default)]
pub struct Vault(Option<Arc<Keys>>);

impl std::fmt::Debug for Vault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Vault").field(&self.key_id()).finish()
    }
}

impl Vault {
    fn keys(&self) -> Option<&Keys> {
        self.0.as_deref()
    }

    /// Whether files are encrypted.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The id of the master key; `None`: nothing is encrypted.
    pub fn key_id(&self) -> Option<&str> {
        self.keys().map(|keys| keys.master.as_str())
    }

    /// Begins a file that is not there, or is to be replaced.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(&self, path: &Path) -> io::Result<VaultWriter> {
        self.write_to(File::create(path)?)
    }

    /// The same for an empty file.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_to(&self, file: File) -> io::Result<VaultWriter> {
        VaultWriter::new(file, self.keys())
    }

    /// Writes a file. Nothing is synced.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<File> {
        let mut writer = self.create(path)?;
        writer.write_all(bytes)?;
        writer.finish()
    }

    /// Opens a file to read it.
    ///
    /// # Errors
    /// What the file system says; `InvalidData`: it is damaged, or not encrypted though it is to be.
    pub fn open(&self, path: &Path) -> io::Result<VaultReader> {
        self.read_from(File::open(path)?)
    }

    /// The same for a file that is open, from its beginning on.
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn read_from(&self, file: File) -> io::Result<VaultReader> {
        VaultReader::new(file, self.keys(), false)
    }

    /// As [`Vault::open`], and zeros are read in the place of what is damaged.
    pub(crate) fn open_leniently(&self, path: &Path) -> io::Result<VaultReader> {
        VaultReader::new(File::open(path)?, self.keys(), true)
    }

    /// All of a file.
    ///
    /// # Errors
    /// As [`Vault::open`].
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if self.0.is_none() {
            return std::fs::read(path);
        }
        let mut bytes = Vec::new();
        self.open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// What a file holds, in bytes, as its beginning and its size say. One that is not encrypted holds what
    /// it has.
    ///
    /// # Errors
    /// What the file system says.
    pub fn length(&self, path: &Path) -> io::Result<u64> {
        match self.keys() {
            None => Ok(std::fs::metadata(path)?.len()),
            keys => reader::length_of(File::open(path)?, keys),
        }
    }

    /// What turns the bytes of a new file into those on the disk, and its beginning; `None` without keys.
    pub(crate) fn sealer(&self, layout: SealLayout) -> Option<(Sealer, [u8; HEADER_BYTES])> {
        self.keys().map(|keys| Sealer::new(keys, layout))
    }

    /// Opens a file in pages to read it anywhere; `None` where it is in records, or without keys.
    pub(crate) fn page_file(&self, path: &Path) -> io::Result<Option<PageFile>> {
        self.keys().map_or(Ok(None), |keys| reader::page_file(File::open(path)?, keys))
    }
}
