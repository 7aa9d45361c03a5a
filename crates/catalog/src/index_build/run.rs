//! Sorted runs of index entries, in memory or in files.
//!
//! ```text
//!  file: ( key's length u32 LE ‖ value's length u32 LE ‖ key ‖ value )*      key: behind the index's prefix
//!         └ a mark in memory every 64 KiB: key, offset
//! ```
//! In the store's vault. A file is synced when it is whole. It stays until the directory of its build goes: a
//! build that goes on after a crash reads it again, and makes the marks anew while it compares the checksum.

use crate::{CatalogError, keys};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::files::extend_checksum;
use storage::{BuildPart, KeyValue, StorageError, Vault, VaultReader};

/// What is written and read at a time.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of a file between two marks.
const MARK_BYTES: u64 = 64 << 10;
/// What an entry takes beside its bytes.
const SLOT_BYTES: usize = size_of::<Slot>();

/// One entry in a buffer: the first bytes of its key decide most comparisons.
#[derive(Debug, Clone, Copy)]
struct Slot {
    head: u64,
    offset: u32,
    key: u32,
    value: u32,
}

/// Entries in memory.
#[derive(Debug, Default)]
pub(super) struct EntryBuffer {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    account: Option<BuildPart>,
}

impl EntryBuffer {
    /// A buffer that keeps account of what it holds, when it is told to [settle](EntryBuffer::settle).
    pub(super) fn with_account(account: BuildPart) -> EntryBuffer {
        EntryBuffer { account: Some(account), ..EntryBuffer::default() }
    }

    /// Whether an entry of so many bytes still finds a place.
    pub(super) fn has_place(&self, bytes: usize) -> bool {
        u32::try_from(self.bytes.len() + bytes).is_ok()
    }

    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        let offset = u32::try_from(self.bytes.len()).expect("a buffer without a place is put aside");
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.slots.push(Slot { head: head(key), offset, key: key.len() as u32, value: value.len() as u32 });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What its entries take.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len() + self.slots.len() * SLOT_BYTES
    }

    /// What it holds of memory, room for further entries included.
    fn room(&self) -> usize {
        self.bytes.capacity() + self.slots.capacity() * SLOT_BYTES
    }

    /// Tells its account what it holds.
    pub(super) fn settle(&mut self) {
        let room = self.room();
        if let Some(account) = &mut self.account {
            account.set(room);
        }
    }

    /// Gives back what is more than so many bytes of the room that it has for further entries.
    pub(super) fn keep(&mut self, bytes: usize) {
        if self.room() > bytes {
            self.bytes.shrink_to(bytes / 2);
            self.slots.shrink_to(bytes / 2 / SLOT_BYTES);
        }
        self.settle();
    }

    pub(super) fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |slot: &Slot| part(bytes, slot.offset, slot.key);
        self.slots.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))));
    }

    fn entry(&self, position: usize) -> Option<KeyValue<'_>> {
        let slot = self.slots.get(position)?;
        Some((
            part(&self.bytes, slot.offset, slot.key),
            part(&self.bytes, slot.offset + slot.key, slot.value),
        ))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.slots.clear();
    }

    /// Writes the sorted entries to a file, which is on stable storage then, and forgets them.
    pub(super) fn spill(&mut self, path: PathBuf, vault: &Vault) -> Result<FileRun, CatalogError> {
        let run = self.write(path, vault).map_err(|error| unusable(&error))?;
        self.clear();
        Ok(run)
    }

    fn write(&self, path: PathBuf, vault: &Vault) -> std::io::Result<FileRun> {
        let file = Checksummed { file: vault.create(&path)?, checksum: 0 };
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        let mut run = FileRun::new(path, vault);
        for (key, value) in (0..self.len()).filter_map(|position| self.entry(position)) {
            run.note((key, value)).expect("an entry of this build is whole");
            writer.write_all(&(key.len() as u32).to_le_bytes())?;
            writer.write_all(&(value.len() as u32).to_le_bytes())?;
            writer.write_all(key)?;
            writer.write_all(value)?;
        }
        let written = writer.into_inner().map_err(|error| error.into_error())?;
        run.checksum = written.checksum;
        written.file.finish()?.sync_all()?;
        Ok(run)
    }
}

/// A file, and the checksum of what has passed on its way.
struct Checksummed<F> {
    file: F,
    checksum: u32,
}

impl<F: Write> Write for Checksummed<F> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.checksum = extend_checksum(self.checksum, bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl<F: Read> Read for Checksummed<F> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.checksum = extend_checksum(self.checksum, bytes.get(..read).unwrap_or_default());
        Ok(read)
    }
}

#[inline]
fn part(bytes: &[u8], offset: u32, length: u32) -> &[u8] {
    bytes.get(offset as usize..(offset + length) as usize).expect("a slot lies within its buffer")
}

#[inline]
fn head(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(key).for_each(|(byte, of_key)| *byte = *of_key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// A key's bytes without those of the document key.
fn fields((key, value): KeyValue<'_>) -> Option<Vec<u8>> {
    let length = key.len().checked_sub(keys::document_key_length(value)?)?;
    key.get(..length).map(<[u8]>::to_vec)
}

/// Where in a file an entry begins.
#[derive(Debug)]
struct Mark {
    key: Vec<u8>,
    fields: Vec<u8>,
    offset: u64,
}

/// A run in a file.
#[derive(Debug)]
pub(super) struct FileRun {
    path: PathBuf,
    vault: Vault,
    marks: Vec<Mark>,
    entries: usize,
    pub(super) bytes: u64,
    checksum: u32,
}

/// What is written down of a run in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunRecord {
    /// The file's name in the directory of its build.
    pub(super) file: String,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
}

#[derive(Debug)]
pub(super) enum Run {
    Memory(EntryBuffer),
    File(FileRun),
}

impl Run {
    pub(super) fn entries(&self) -> usize {
        match self {
            Run::Memory(buffer) => buffer.len(),
            Run::File(run) => run.entries,
        }
    }

    /// What to write down of it; `None` for one that goes with its process.
    pub(super) fn record(&self) -> Option<RunRecord> {
        match self {
            Run::Memory(_) => None,
            Run::File(run) => Some(run.record()),
        }
    }

    /// The fields of about `count` entries, evenly over the run.
    pub(super) fn sample(&self, count: usize) -> Vec<Vec<u8>> {
        match self {
            Run::Memory(buffer) => {
                let step = (buffer.len() / count.max(1)).max(1);
                let positions = (0..buffer.len()).step_by(step);
                positions.filter_map(|position| fields(buffer.entry(position)?)).collect()
            }
            Run::File(run) => {
                let step = (run.marks.len() / count.max(1)).max(1);
                run.marks.iter().step_by(step).map(|mark| mark.fields.clone()).collect()
            }
        }
    }
}

/// Reads a run from a key on.
pub(super) enum RunReader {
    Memory { run: Arc<Run>, next: usize },
    File(FileReader<VaultReader>),
}

/// Reads the entries of a file one after the other.
pub(super) struct FileReader<R> {
    reader: BufReader<R>,
    key: Vec<u8>,
    value: Vec<u8>,
    is_over: bool,
}

impl<R: Read> FileReader<R> {
    /// At the first entry.
    fn new(file: R, buffer_bytes: usize) -> std::io::Result<Self> {
        let reader = BufReader::with_capacity(buffer_bytes, file);
        let mut reader = FileReader { reader, key: Vec::new(), value: Vec::new(), is_over: false };
        reader.advance()?;
        Ok(reader)
    }

    fn current(&self) -> Option<KeyValue<'_>> {
        (!self.is_over).then_some((&self.key, &self.value))
    }

    fn advance(&mut self) -> std::io::Result<()> {
        let mut lengths = [0; 8];
        match self.reader.read_exact(&mut lengths) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.is_over = true;
                return Ok(());
            }
            other => other?,
        }
        let [k0, k1, k2, k3, v0, v1, v2, v3] = lengths;
        let (key, value) = (u32::from_le_bytes([k0, k1, k2, k3]), u32::from_le_bytes([v0, v1, v2, v3]));
        fill(&mut self.reader, &mut self.key, key as usize)?;
        fill(&mut self.reader, &mut self.value, value as usize)
    }
}

/// Reads so many bytes; a length that is damaged takes no more memory than there is to be read.
#[inline]
fn fill(reader: &mut impl Read, bytes: &mut Vec<u8>, length: usize) -> std::io::Result<()> {
    if length <= BUFFER_BYTES {
        bytes.resize(length, 0);
        return reader.read_exact(bytes);
    }
    bytes.clear();
    match reader.take(length as u64).read_to_end(bytes)? {
        read if read == length => Ok(()),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

impl RunReader {
    /// `buffer_bytes`: what is read of a file at a time.
    pub(super) fn open(run: &Arc<Run>, from: &[u8], buffer_bytes: usize) -> Result<RunReader, StorageError> {
        let mut reader = match &**run {
            Run::Memory(buffer) => {
                let key = |slot: &Slot| part(&buffer.bytes, slot.offset, slot.key);
                let next = buffer.slots.partition_point(|slot| key(slot) < from);
                return Ok(RunReader::Memory { run: Arc::clone(run), next });
            }
            Run::File(run) => RunReader::File(run.reader(run.start(from), buffer_bytes).map_err(failed)?),
        };
        while reader.current().is_some_and(|(key, _)| key < from) {
            reader.advance()?;
        }
        Ok(reader)
    }

    #[inline]
    pub(super) fn current(&self) -> Option<KeyValue<'_>> {
        match self {
            RunReader::Memory { run, next } => match &**run {
                Run::Memory(buffer) => buffer.entry(*next),
                Run::File(_) => None,
            },
            RunReader::File(reader) => reader.current(),
        }
    }

    #[inline]
    pub(super) fn advance(&mut self) -> Result<(), StorageError> {
        match self {
            RunReader::Memory { next, .. } => {
                *next += 1;
                Ok(())
            }
            RunReader::File(reader) => reader.advance().map_err(failed),
        }
    }
}

impl FileRun {
    fn new(path: PathBuf, vault: &Vault) -> FileRun {
        FileRun { path, vault: vault.clone(), marks: Vec::new(), entries: 0, bytes: 0, checksum: 0 }
    }

    /// Counts an entry that follows those so far; `None` where it is damaged.
    fn note(&mut self, (key, value): KeyValue<'_>) -> Option<()> {
        if self.marks.last().is_none_or(|last| self.bytes >= last.offset + MARK_BYTES) {
            let fields = fields((key, value))?;
            self.marks.push(Mark { key: key.to_vec(), fields, offset: self.bytes });
        }
        self.entries += 1;
        self.bytes += (8 + key.len() + value.len()) as u64;
        Some(())
    }

    /// What to write down of it.
    pub(super) fn record(&self) -> RunRecord {
        let file = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        RunRecord {
            file: file.unwrap_or_default(),
            entries: self.entries as u64,
            bytes: self.bytes,
            checksum: self.checksum,
        }
    }

    /// Reads a run of a process that is gone, all of it.
    ///
    /// # Errors
    /// It is not there, or not as it was written.
    pub(super) fn reopen(directory: &Path, record: &RunRecord, vault: &Vault) -> std::io::Result<FileRun> {
        let path = directory.join(&record.file);
        let file = Checksummed { file: vault.open(&path)?, checksum: 0 };
        let mut run = FileRun::new(path, vault);
        let mut reader = FileReader::new(file, BUFFER_BYTES)?;
        while let Some(entry) = reader.current() {
            run.note(entry).ok_or(ErrorKind::InvalidData)?;
            reader.advance()?;
        }
        run.checksum = reader.reader.get_ref().checksum;
        match run.record() == *record {
            true => Ok(run),
            false => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Where to begin to read for entries from a key on.
    fn start(&self, from: &[u8]) -> u64 {
        let before = self.marks.partition_point(|mark| mark.key.as_slice() <= from);
        before.checked_sub(1).and_then(|mark| self.marks.get(mark)).map_or(0, |mark| mark.offset)
    }

    fn reader(&self, offset: u64, buffer_bytes: usize) -> std::io::Result<FileReader<VaultReader>> {
        let mut file = self.vault.open(&self.path)?;
        file.seek_to(offset)?;
        FileReader::new(file, buffer_bytes)
    }
}

fn failed(error: std::io::Error) -> StorageError {
    let words = Arc::from(format!("an index build could not use its file on disk: {error}"));
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StorageError::NoSpace(words),
        _ => StorageError::Engine(words),
    }
}

pub(super) fn unusable(error: &std::io::Error) -> CatalogError {
    CatalogError::from(failed(std::io::Error::new(error.kind(), error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(run: &Arc<Run>, from: &[u8]) -> Vec<Vec<u8>> {
        let mut reader = RunReader::open(run, from, 1000).expect("a readable run");
        let mut keys = Vec::new();
        while let Some((key, value)) = reader.current() {
            assert_eq!(value, [0], "the length of its document key");
            keys.push(key.to_vec());
            reader.advance().expect("a readable run");
        }
        keys
    }

    #[test]
    fn runs_are_sorted_and_read_from_any_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut random = fastrand::Rng::with_seed(7);
        let mut keys: Vec<Vec<u8>> =
            (0..20_000u32).map(|_| (0..random.usize(0..20)).map(|_| random.u8(0..4)).collect()).collect();
        let filled = || {
            let mut buffer = EntryBuffer::default();
            keys.iter().for_each(|key| buffer.push(key, &[0]));
            buffer.sort();
            buffer
        };
        let memory = Arc::new(Run::Memory(filled()));
        let mut buffer = filled();
        let file = Arc::new(Run::File(
            buffer.spill(directory.path().join("run"), &Vault::default()).expect("a run"),
        ));
        assert!(buffer.is_empty());
        assert!(file.sample(4).len() >= 4, "there are several marks");
        keys.sort();
        for from in [&[][..], &[1, 2, 3], &[3; 30], &keys[777].clone(), &keys[19_999].clone()] {
            let expect = &keys[keys.partition_point(|key| key.as_slice() < from)..];
            assert_eq!((&rest(&memory, from)[..], &rest(&file, from)[..]), (expect, expect), "from {from:?}");
        }
        let Run::File(run) = &*file else { panic!("it is in a file") };
        let again =
            FileRun::reopen(directory.path(), &run.record(), &Vault::default()).expect("the same run");
        assert_eq!((again.marks.len(), again.record()), (run.marks.len(), run.record()));
        let again = Arc::new(Run::File(again));
        assert_eq!(rest(&again, &keys[777]), rest(&file, &keys[777]));
    }

    #[test]
    fn the_runs_of_an_encrypted_store_are_encrypted() {
        const WORD: &[u8] = b"a word that tells";
        let directory = tempfile::tempdir().expect("a directory");
        let key = storage::MasterKey::parse("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=").expect("a key");
        let options = storage::StorageOptions { master_key: Some(key), ..storage::StorageOptions::small() };
        let store = storage::Store::open(directory.path().join("data"), &options).expect("it opens");
        let vault = store.vault();
        let mut buffer = EntryBuffer::default();
        let key = |number: u32| [WORD, &number.to_be_bytes()].concat();
        (0..20_000).for_each(|number| buffer.push(&key(number), &[0]));
        buffer.sort();
        let path = directory.path().join("run");
        let run = buffer.spill(path.clone(), &vault).expect("a run");
        let bytes = std::fs::read(&path).expect("its bytes");
        assert!(!bytes.windows(WORD.len()).any(|part| part == WORD));
        assert!(FileRun::reopen(directory.path(), &run.record(), &Vault::default()).is_err());
        let again = FileRun::reopen(directory.path(), &run.record(), &vault).expect("the same run");
        for run in [run, again] {
            let run = Arc::new(Run::File(run));
            for from in [0, 1, 7_777, 19_999] {
                let expect: Vec<_> = (from..20_000).map(key).collect();
                assert_eq!(rest(&run, &key(from)), expect, "from {from}");
            }
        }
    }

    #[test]
    fn a_run_that_is_not_as_it_was_written_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("run");
        let mut buffer = EntryBuffer::default();
        (0..20_000u32).for_each(|key| buffer.push(&key.to_be_bytes(), &[0]));
        let record = buffer.spill(path.clone(), &Vault::default()).expect("a run").record();
        let whole = std::fs::read(&path).expect("its bytes");
        let reopen = || FileRun::reopen(directory.path(), &record, &Vault::default());
        reopen().expect("it is whole");
        for damage in [0, 3, 7, 9, 100_000, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[damage] ^= 0x40;
            std::fs::write(&path, &bytes).expect("a file");
            assert!(reopen().is_err(), "byte {damage} is another one");
        }
        for length in [0, 8, 13 * 5_000, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).expect("a file");
            assert!(reopen().is_err(), "{length} bytes of it");
        }
        std::fs::remove_file(&path).expect("it is there");
        assert!(reopen().is_err(), "it is gone");
    }
}
