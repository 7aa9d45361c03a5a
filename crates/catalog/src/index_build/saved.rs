//! What is written down of a build, so that it goes on after a crash.
//!
//! ```text
//!  index-builds/<collection's id>-<first index's id>/
//!     state     a document (phase, ranges that are not scanned, runs with checksums) ‖ its CRC-32C, u32 LE
//!     run-N     sorted runs, whole and synced before the state names them
//!     table-N…  tables that were not taken in: removed when the build goes on
//! ```
//! The state counts only beside the store that it was written for: what the scan has seen was synced before,
//! so that the store is never older than a run, and every change since the registration has left its note.

use super::DIRECTORY;
use super::run::RunRecord;
use crate::definition::{CollectionDefinition, IndexState, UUID_SUBTYPE};
use crate::index_keys::MultikeyPaths;
use crate::keys::{CollectionId, IndexId};
use document::{Document, RawDocument, RawValue, Value};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use storage::files::{checksum, remove_tree, sync_names};
use storage::{KeyRange, Store, Vault};
use uuid::Uuid;

const STATE: &str = "state";
const FORMAT: i64 = 1;
/// BSON's subtype of bytes that are nothing else.
const BYTES: u8 = 0;

/// What a crash leaves of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedBuild {
    pub(super) collection: CollectionId,
    pub(super) uuid: Uuid,
    pub(super) indexes: Vec<IndexId>,
    /// Indexes that go when these are ready.
    pub(super) replaced: Vec<IndexId>,
    /// Whether the log of a set asked for it.
    pub(super) is_of_log: bool,
    /// The store's sequence number: one that is older is not the one this is about.
    pub(super) sequence: u64,
    pub(super) stage: SavedStage,
}

/// How far it had come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SavedStage {
    /// Documents were read, or runs merged.
    Scan(SavedScan),
    /// All entries were in the store; notes may have been settled since.
    Settle,
}

/// What was scanned already, and what was not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SavedScan {
    /// Documents that the runs have the entries of.
    pub(super) documents: u64,
    /// Ranges of the collection that no run covers; `None`: all of it.
    pub(super) left: Option<Vec<KeyRange>>,
    /// For each index its runs.
    pub(super) runs: Vec<Vec<RunRecord>>,
    /// Where arrays were met, for each index.
    pub(super) multikey: Vec<MultikeyPaths>,
}

impl SavedBuild {
    /// Where its files are.
    pub(super) fn directory(&self, store: &Store) -> Option<PathBuf> {
        directory_of(store, self.collection, self.indexes.first().copied())
    }

    /// Whether a collection has the indexes that it is about, not ready, and the store is no older.
    pub(crate) fn is_of(&self, definition: &CollectionDefinition, store: &Store) -> bool {
        let is_being_built = |&id: &IndexId| {
            definition.index_by_id(id).is_some_and(|index| index.state == IndexState::Building)
        };
        self.collection == definition.id
            && self.uuid == definition.uuid
            && self.sequence <= store.sequence()
            && self.indexes.iter().all(is_being_built)
    }

    /// Whether the index is one of its own.
    pub(crate) fn has(&self, index: IndexId) -> bool {
        self.indexes.contains(&index)
    }

    /// Writes it down in the place of what was there before, on stable storage if it is `synced`.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn write(&self, directory: &Path, vault: &Vault, synced: bool) -> io::Result<()> {
        let document = self.to_document().to_buf();
        let mut bytes = document.as_bytes().to_vec();
        bytes.extend_from_slice(&checksum(document.as_bytes()).to_le_bytes());
        let (path, coming) = (directory.join(STATE), directory.join("state.new"));
        let file = vault.write(&coming, &bytes)?;
        if synced {
            file.sync_all()?;
        }
        std::fs::rename(&coming, &path)?;
        if synced { sync_names(directory) } else { Ok(()) }
    }

    fn read(directory: &Path, vault: &Vault) -> io::Result<SavedBuild> {
        let bytes = vault.read(&directory.join(STATE))?;
        let damaged = || io::Error::from(ErrorKind::InvalidData);
        let (document, sum) = bytes.split_last_chunk().ok_or_else(damaged)?;
        if checksum(document) != u32::from_le_bytes(*sum) {
            return Err(damaged());
        }
        let document = RawDocument::parse(document).map_err(|_| damaged())?;
        SavedBuild::from_document(document).ok_or_else(damaged)
    }

    fn to_document(&self) -> Document {
        let numbers =
            |ids: &[IndexId]| -> Vec<Value> { ids.iter().map(|&id| i64::from(id).into()).collect() };
        let mut document = Document::new();
        document.push("format", FORMAT);
        document.push("collection", i64::from(self.collection));
        document.push("uuid", Value::binary(UUID_SUBTYPE, self.uuid.as_bytes().to_vec()));
        document.push("indexes", numbers(&self.indexes));
        document.push("replaced", numbers(&self.replaced));
        document.push("isOfLog", self.is_of_log);
        document.push("sequence", self.sequence as i64);
        if let SavedStage::Scan(scan) = &self.stage {
            document.push("scan", scan.to_document());
        }
        document
    }

    fn from_document(document: RawDocument<'_>) -> Option<SavedBuild> {
        if document.get("format")?.as_i64_exact()? != FORMAT {
            return None;
        }
        let ids = |name: &str| -> Option<Vec<IndexId>> {
            let ids = document.get(name)?.as_array()?;
            ids.iter().map(|id| IndexId::try_from(id.as_i64_exact()?).ok()).collect()
        };
        let stage = match document.get("scan") {
            Some(scan) => SavedStage::Scan(SavedScan::from_document(scan.as_document()?)?),
            None => SavedStage::Settle,
        };
        Some(SavedBuild {
            collection: CollectionId::try_from(document.get("collection")?.as_i64_exact()?).ok()?,
            uuid: Uuid::from_slice(bytes_of(document.get("uuid")?)?).ok()?,
            indexes: ids("indexes")?,
            replaced: ids("replaced")?,
            is_of_log: document.get("isOfLog")?.as_bool()?,
            sequence: number_of(document, "sequence")?,
            stage,
        })
    }
}

impl SavedScan {
    fn to_document(&self) -> Document {
        let mut scan = Document::new();
        scan.push("documents", self.documents as i64);
        if let Some(left) = &self.left {
            scan.push(
                "left",
                left.iter().map(|range| Value::Document(range_document(range))).collect::<Vec<_>>(),
            );
        }
        let runs = self.runs.iter().map(|runs| {
            Value::from(runs.iter().map(|run| Value::Document(run_document(run))).collect::<Vec<_>>())
        });
        scan.push("runs", runs.collect::<Vec<_>>());
        let multikey = self.multikey.iter().map(|paths| {
            let paths = paths.iter().map(|path| Value::binary(BYTES, path.to_le_bytes().to_vec()));
            Value::from(paths.collect::<Vec<_>>())
        });
        scan.push("multikeyPaths", multikey.collect::<Vec<_>>());
        scan
    }

    fn from_document(scan: RawDocument<'_>) -> Option<SavedScan> {
        let left = match scan.get("left") {
            Some(left) => Some(
                left.as_array()?.iter().map(|range| range_of(range.as_document()?)).collect::<Option<_>>()?,
            ),
            None => None,
        };
        let runs = scan.get("runs")?.as_array()?.iter().map(|runs| {
            runs.as_array()?.iter().map(|run| run_of(run.as_document()?)).collect::<Option<Vec<_>>>()
        });
        let multikey = scan.get("multikeyPaths")?.as_array()?.iter().map(|paths| {
            let paths = paths.as_array()?.iter();
            paths
                .map(|path| Some(u128::from_le_bytes(bytes_of(path)?.try_into().ok()?)))
                .collect::<Option<_>>()
        });
        Some(SavedScan {
            documents: number_of(scan, "documents")?,
            left,
            runs: runs.collect::<Option<_>>()?,
            multikey: multikey.collect::<Option<_>>()?,
        })
    }
}

fn range_document(range: &KeyRange) -> Document {
    let mut document = Document::new();
    for (name, key) in [("from", &range.lower), ("to", &range.upper)] {
        if let Some(key) = key {
            document.push(name, Value::binary(BYTES, key.clone()));
        }
    }
    document
}

fn range_of(document: RawDocument<'_>) -> Option<KeyRange> {
    let key = |name: &str| match document.get(name) {
        Some(value) => bytes_of(value).map(|key| Some(key.to_vec())),
        None => Some(None),
    };
    Some(KeyRange { lower: key("from")?, upper: key("to")? })
}

fn run_document(run: &RunRecord) -> Document {
    let mut document = Document::new();
    document.push("file", run.file.as_str());
    document.push("entries", run.entries as i64);
    document.push("bytes", run.bytes as i64);
    document.push("crc32c", i64::from(run.checksum));
    document
}

fn run_of(document: RawDocument<'_>) -> Option<RunRecord> {
    Some(RunRecord {
        file: document.get("file")?.as_str()?.to_owned(),
        entries: number_of(document, "entries")?,
        bytes: number_of(document, "bytes")?,
        checksum: u32::try_from(number_of(document, "crc32c")?).ok()?,
    })
}

fn number_of(document: RawDocument<'_>, name: &str) -> Option<u64> {
    u64::try_from(document.get(name)?.as_i64_exact()?).ok()
}

fn bytes_of(value: RawValue<'_>) -> Option<&[u8]> {
    match value {
        RawValue::Binary { bytes, .. } => Some(bytes),
        _ => None,
    }
}

/// Where the files of a build are; `None` where there are none.
pub(super) fn directory_of(
    store: &Store,
    collection: CollectionId,
    first: Option<IndexId>,
) -> Option<PathBuf> {
    Some(store.path()?.join(DIRECTORY).join(format!("{collection}-{}", first.unwrap_or_default())))
}

/// The builds that a process before this one has not ended. What cannot be read, or is no build's, goes.
pub(crate) fn find_saved(store: &Store) -> Vec<SavedBuild> {
    let Some(directory) = store.path().map(|path| path.join(DIRECTORY)) else { return Vec::new() };
    let vault = store.vault();
    let mut found = Vec::new();
    for path in std::fs::read_dir(&directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        match SavedBuild::read(&path, &vault) {
            Ok(build) if build.directory(store).as_ref() == Some(&path) => found.push(build),
            _ => remove(&path),
        }
    }
    found
}

/// Removes what is written down of index builds in a data directory that nobody has open: another store is to
/// take the place of the one that they are about.
///
/// # Errors
/// What the file system says.
pub fn discard_saved_builds(data: &Path) -> io::Result<()> {
    remove_tree(&data.join(DIRECTORY))
}

/// Removes what is left of a build that does not go on.
pub(crate) fn discard(store: &Store, build: &SavedBuild) {
    if let Some(directory) = build.directory(store) {
        remove(&directory);
    }
}

/// Removes a build's directory, or what stands in its place.
pub(super) fn remove(path: &Path) {
    let removed = match path.is_dir() {
        true => remove_tree(path),
        false => std::fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "files of an old index build stay");
        }
        _ => {}
    }
}

/// Removes all files of a build but its state and those that are named.
pub(super) fn remove_unnamed(directory: &Path, named: &[&str]) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name != STATE && !named.iter().any(|named| name == *named) {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> SavedBuild {
        let run = RunRecord { file: "run-3".into(), entries: 7, bytes: 1 << 40, checksum: u32::MAX };
        let scan = SavedScan {
            documents: 12,
            left: Some(vec![KeyRange { lower: Some(vec![1, 2]), upper: None }, KeyRange::all()]),
            runs: vec![vec![run.clone(), run], Vec::new()],
            multikey: vec![vec![1 << 127, 0], vec![3]],
        };
        SavedBuild {
            collection: 4,
            uuid: Uuid::from_u128(9),
            indexes: vec![2, 3],
            replaced: vec![1],
            is_of_log: true,
            sequence: 77,
            stage: SavedStage::Scan(scan),
        }
    }

    #[test]
    fn a_state_comes_back_whole_or_not_at_all() {
        let directory = tempfile::tempdir().expect("a directory");
        let whole = example();
        let fresh = SavedBuild { stage: SavedStage::Scan(SavedScan::default()), ..example() };
        let settling = SavedBuild { stage: SavedStage::Settle, is_of_log: false, ..example() };
        for state in [fresh, settling, whole] {
            state.write(directory.path(), &Vault::default(), true).expect("a file");
            assert_eq!(SavedBuild::read(directory.path(), &Vault::default()).expect("the state"), state);
        }
        let path = directory.path().join(STATE);
        let bytes = std::fs::read(&path).expect("a file");
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            std::fs::write(&path, &damaged).expect("a file");
            assert!(
                SavedBuild::read(directory.path(), &Vault::default()).is_err(),
                "byte {place} is another one"
            );
            std::fs::write(&path, &bytes[..place]).expect("a file");
            assert!(SavedBuild::read(directory.path(), &Vault::default()).is_err(), "{place} bytes of it");
        }
    }
}
