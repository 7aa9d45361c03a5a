//! A part of a database's tables, opened to be read: each by itself, to know whether it is whole and which
//! keys are in what is not, or all that can be opened, to save what is in them.
//!
//! RocksDB's C interface opens databases, not single tables. So a directory is made with links to the tables
//! and a MANIFEST of just these (`version_log.rs`).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBRecoveryMode, Error, LogLevel, Options,
};
use rocksdb::{DBRawIterator, ReadOptions};

use super::errors::storage_error;
use super::raw;
use super::sealed::EngineFiles;
use super::version_log::{VersionLog, manifest_of, table_name};
use crate::error::StorageError;
use crate::files::remove_tree;
use crate::keyspace::Keyspace;
use crate::vault::Vault;

/// Of everything that is read here.
const CACHE_BYTES: usize = 32 << 20;
const OPEN_FILES_MAX: i32 = 256;
/// So often a range is halved in which a block ends that cannot be read.
const HALVINGS: usize = 160;

/// Keys that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DamagedKeys {
    /// The last key before them that can be read; `None`: there is none.
    pub(crate) after: Option<Vec<u8>>,
    /// The first key behind them that can be read; `None`: there is none.
    pub(crate) before: Option<Vec<u8>>,
    /// What RocksDB says.
    pub(crate) detail: String,
}

/// Is given keys and values.
type OnEntry<'f, E> = &'f mut dyn FnMut(&[u8], &[u8]) -> Result<(), E>;

/// Some of a database's tables.
pub(super) struct PartialDatabase {
    rocks: DB,
    /// Held for the database.
    _files: EngineFiles,
    directory: PathBuf,
}

impl Drop for PartialDatabase {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.directory) {
            tracing::debug!(%error, "links to tables could not be removed");
        }
    }
}

impl PartialDatabase {
    /// Of the tables in `engine` that are kept, and of the journals there if they are wanted. Links to them
    /// are made within `scratch`.
    ///
    /// # Errors
    /// What the file system and RocksDB say.
    pub(super) fn open(
        engine: &Path,
        scratch: &Path,
        vault: &Vault,
        log: &VersionLog,
        with_journals: bool,
        is_kept: impl Fn(u64) -> bool,
    ) -> Result<PartialDatabase, StorageError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let directory = scratch.join(format!("part{}", MADE.fetch_add(1, Ordering::Relaxed)));
        let io =
            |error: std::io::Error| StorageError::Engine(format!("{}: {error}", scratch.display()).into());
        remove_tree(&directory).map_err(io)?;
        std::fs::create_dir_all(&directory).map_err(io)?;
        for number in log.tables.keys().filter(|number| is_kept(**number)) {
            link(&engine.join(table_name(*number)), &directory.join(table_name(*number))).map_err(io)?;
        }
        for journal in super::examine::journals_of(engine).map_err(io)?.iter().filter(|_| with_journals) {
            let name = journal.1.file_name().unwrap_or_default();
            link(&journal.1, &directory.join(name)).map_err(io)?;
        }
        log.write_for(&directory, vault, is_kept).map_err(io)?;
        let files = EngineFiles::of(vault);
        let rocks = open_to_read(&directory, &files, log.families.values()).map_err(storage_error)?;
        Ok(PartialDatabase { rocks, _files: files, directory })
    }

    /// What RocksDB's own repair makes of the tables in a directory; it moves those that are damaged away.
    ///
    /// # Errors
    /// What the file system and RocksDB say.
    pub(super) fn put_in_order(directory: &Path, vault: &Vault) -> Result<VersionLog, StorageError> {
        let io =
            |error: std::io::Error| StorageError::Engine(format!("{}: {error}", directory.display()).into());
        let mut options = Options::default();
        options.set_log_level(LogLevel::Error);
        let files = EngineFiles::of(vault);
        files.install(&mut options);
        DB::repair(&options, directory).map_err(storage_error)?;
        let manifest = manifest_of(directory, vault).map_err(io)?;
        manifest.map_or_else(|| Ok(VersionLog::default()), |path| VersionLog::read(&path, vault).map_err(io))
    }

    /// The sequence number of the newest write in it.
    pub(super) fn sequence(&self) -> u64 {
        self.rocks.latest_sequence_number()
    }

    /// Whether every block of every table can be read; what RocksDB says of the first that cannot.
    pub(super) fn verify(&self) -> Result<(), String> {
        raw::verify_checksums(&self.rocks)
    }

    /// Whether a table can be opened at all.
    pub(super) fn opens(&self, family: &str) -> Result<(), String> {
        let Some(mut iterator) = self.iterator(family) else { return Ok(()) };
        iterator.seek_to_first();
        let first = iterator.valid();
        iterator.seek_to_last();
        if first || iterator.valid() {
            return Ok(());
        }
        iterator.status().map_err(|error| error.to_string())
    }

    fn iterator(&self, family: &str) -> Option<DBRawIterator<'_>> {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        let family = self.rocks.cf_handle(family)?;
        Some(self.rocks.raw_iterator_cf_opt(family, options))
    }

    /// Goes over what can be read behind `after` and before `before`, in the order of keys, and past what
    /// cannot.
    ///
    /// # Errors
    /// What `each` and `lost` say.
    pub(super) fn walk<E>(
        &self,
        keyspace: Keyspace,
        after: Option<&[u8]>,
        before: Option<&[u8]>,
        each: OnEntry<'_, E>,
        lost: &mut dyn FnMut(DamagedKeys) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(mut iterator) = self.iterator(keyspace.name()) else { return Ok(()) };
        let mut last: Option<Vec<u8>> = after.map(<[u8]>::to_vec);
        match after {
            Some(after) => iterator.seek([after, &[0]].concat()),
            None => iterator.seek_to_first(),
        }
        loop {
            while let Some((key, value)) = iterator.item() {
                if before.is_some_and(|before| key >= before) {
                    return Ok(());
                }
                each(key, value)?;
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
                iterator.next();
            }
            let Err(error) = iterator.status() else { return Ok(()) };
            let next = self.first_behind(keyspace, last.as_deref().unwrap_or_default());
            let next = next.filter(|next| before.is_none_or(|before| next.as_slice() < before));
            let end = next.clone().or_else(|| before.map(<[u8]>::to_vec));
            lost(DamagedKeys { after: last.clone(), before: end, detail: error.to_string() })?;
            let Some(next) = next else { return Ok(()) };
            let Some(again) = self.iterator(keyspace.name()) else { return Ok(()) };
            iterator = again;
            iterator.seek(next);
        }
    }

    /// The first key that can be read at or behind a probe; `Ok(None)`: there is none.
    fn probe(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(mut iterator) = self.iterator(keyspace.name()) else { return Ok(None) };
        iterator.seek(key);
        match iterator.key() {
            Some(found) => Ok(Some(found.to_vec())),
            None => iterator.status().map(|()| None),
        }
    }

    /// The first key behind the one after which a walk has failed that can be read. Blocks are ranges of
    /// keys: it is looked for ever further away, then between the nearest that can be read and the furthest
    /// that cannot.
    fn first_behind(&self, keyspace: Keyspace, last: &[u8]) -> Option<Vec<u8>> {
        let (mut bad, mut good) = ([last, &[0]].concat(), None);
        let further = (0..=last.len()).rev().filter_map(|length| next_prefix(last.get(..length)?));
        for probe in further {
            match self.probe(keyspace, &probe) {
                Err(_) => bad = probe,
                Ok(found) => {
                    good = Some((probe, found));
                    break;
                }
            }
        }
        // Nothing begins with bytes above these.
        let (mut good, mut found) = good.unwrap_or_else(|| (vec![u8::MAX; last.len() + KEY_ABOVE], None));
        for _ in 0..HALVINGS {
            let middle = between(&bad, &good);
            if middle <= bad || middle >= good {
                break;
            }
            match self.probe(keyspace, &middle) {
                Err(_) => bad = middle,
                Ok(found_here) => (good, found) = (middle, found_here),
            }
        }
        found
    }
}

/// Bytes of the key that is taken to be above all.
const KEY_ABOVE: usize = 8;

/// The least key above all that begin with these bytes; `None` where there is none.
fn next_prefix(bytes: &[u8]) -> Option<Vec<u8>> {
    let kept = bytes.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = bytes.get(..=kept)?.to_vec();
    *next.last_mut()? += 1;
    Some(next)
}

/// The middle between two keys, as fractions of as many bytes as the longer one has and one more.
fn between(low: &[u8], high: &[u8]) -> Vec<u8> {
    let length = low.len().max(high.len()) + 1;
    let digit = |key: &[u8], at: usize| u16::from(key.get(at).copied().unwrap_or(0));
    let mut sum = vec![0u16; length];
    let mut carry = 0;
    for (at, place) in sum.iter_mut().enumerate().rev() {
        let added = digit(low, at) + digit(high, at) + carry;
        (*place, carry) = (added & 0xff, added >> 8);
    }
    let mut middle = Vec::with_capacity(length);
    for digit in sum {
        let whole = carry << 8 | digit;
        middle.push((whole >> 1) as u8);
        carry = whole & 1;
    }
    middle
}

fn open_to_read<'n>(
    path: &Path,
    files: &EngineFiles,
    families: impl Iterator<Item = &'n String>,
) -> Result<DB, Error> {
    let mut options = Options::default();
    options.set_paranoid_checks(false);
    options.set_wal_recovery_mode(DBRecoveryMode::SkipAnyCorruptedRecord);
    options.set_max_open_files(OPEN_FILES_MAX);
    options.set_log_level(LogLevel::Error);
    files.install(&mut options);
    let cache = Cache::new_lru_cache(CACHE_BYTES);
    let families = families.map(|name| {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&cache);
        let mut family = Options::default();
        family.set_block_based_table_factory(&table);
        ColumnFamilyDescriptor::new(name, family)
    });
    DB::open_cf_descriptors_read_only(&options, path, families.collect::<Vec<_>>(), false)
}

/// A second name for a file that never changes, where the file system has them; else a symbolic link.
pub(crate) fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::hard_link(from, to) {
        Err(_) => std::os::unix::fs::symlink(std::path::absolute(from)?, to),
        linked => linked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_lies_between() {
        for (low, high) in [(&b"a"[..], &b"b"[..]), (b"a", b"a\x01"), (b"", b"\xff\xff"), (b"abc", b"abd")] {
            let middle = between(low, high);
            assert!(low < middle.as_slice() && middle.as_slice() < high, "{low:?} {middle:?} {high:?}");
        }
    }

    #[test]
    fn the_next_prefix_is_above_all_that_begin_so() {
        assert_eq!(next_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(next_prefix(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(next_prefix(b"\xff"), None);
        assert_eq!(next_prefix(b""), None);
    }
}
