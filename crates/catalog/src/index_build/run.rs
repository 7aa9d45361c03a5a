//! Sorted runs of index entries, in memory or in files.
//!
//! ```text
//!  file: ( key's length u32 LE ‖ value's length u32 LE ‖ key ‖ value )*      key: behind the index's prefix
//!         └ a mark in memory every 64 KiB: key, offset
//! ```

use crate::{CatalogError, keys};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::{KeyValue, StorageError};

const BUFFER_BYTES: usize = 256 << 10;
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
}

impl EntryBuffer {
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

    /// What it holds of memory.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.len() + self.slots.len() * SLOT_BYTES
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

    /// Writes the sorted entries to a file and forgets them.
    pub(super) fn spill(&mut self, path: PathBuf) -> Result<FileRun, CatalogError> {
        // Before the file is there, so that none is left when writing it fails.
        let mut run = FileRun { path, marks: Vec::new(), entries: self.len(), bytes: 0 };
        self.write(&mut run).map_err(|error| unusable(&error))?;
        self.clear();
        Ok(run)
    }

    fn write(&self, run: &mut FileRun) -> std::io::Result<()> {
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, File::create(&run.path)?);
        let mut marked = None;
        for (key, value) in (0..self.len()).filter_map(|position| self.entry(position)) {
            if marked.is_none_or(|marked| run.bytes >= marked + MARK_BYTES) {
                let fields = fields((key, value)).expect("an entry of this build is whole");
                run.marks.push(Mark { key: key.to_vec(), fields, offset: run.bytes });
                marked = Some(run.bytes);
            }
            writer.write_all(&(key.len() as u32).to_le_bytes())?;
            writer.write_all(&(value.len() as u32).to_le_bytes())?;
            writer.write_all(key)?;
            writer.write_all(value)?;
            run.bytes += (8 + key.len() + value.len()) as u64;
        }
        writer.into_inner().map_err(|error| error.into_error()).map(drop)
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

/// A run in a file, which goes with it.
#[derive(Debug)]
pub(super) struct FileRun {
    path: PathBuf,
    marks: Vec<Mark>,
    entries: usize,
    pub(super) bytes: u64,
}

impl Drop for FileRun {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
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
    File { reader: BufReader<File>, key: Vec<u8>, value: Vec<u8>, is_over: bool, _run: Arc<Run> },
}

impl RunReader {
    pub(super) fn open(run: &Arc<Run>, from: &[u8]) -> Result<RunReader, StorageError> {
        let mut reader = match &**run {
            Run::Memory(buffer) => {
                let key = |slot: &Slot| part(&buffer.bytes, slot.offset, slot.key);
                let next = buffer.slots.partition_point(|slot| key(slot) < from);
                return Ok(RunReader::Memory { run: Arc::clone(run), next });
            }
            Run::File(file) => RunReader::of_file(run, &file.path, file.start(from)).map_err(failed)?,
        };
        while reader.current().is_some_and(|(key, _)| key < from) {
            reader.advance()?;
        }
        Ok(reader)
    }

    fn of_file(run: &Arc<Run>, path: &Path, offset: u64) -> std::io::Result<RunReader> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let (key, value) = (Vec::new(), Vec::new());
        let mut reader = RunReader::File { reader, key, value, is_over: false, _run: Arc::clone(run) };
        reader.read()?;
        Ok(reader)
    }

    #[inline]
    pub(super) fn current(&self) -> Option<KeyValue<'_>> {
        match self {
            RunReader::Memory { run, next } => match &**run {
                Run::Memory(buffer) => buffer.entry(*next),
                Run::File(_) => None,
            },
            RunReader::File { is_over: true, .. } => None,
            RunReader::File { key, value, .. } => Some((key, value)),
        }
    }

    #[inline]
    pub(super) fn advance(&mut self) -> Result<(), StorageError> {
        match self {
            RunReader::Memory { next, .. } => {
                *next += 1;
                Ok(())
            }
            RunReader::File { .. } => self.read().map_err(failed),
        }
    }

    fn read(&mut self) -> std::io::Result<()> {
        let RunReader::File { reader, key, value, is_over, .. } = self else { return Ok(()) };
        let mut length = [0; 4];
        match reader.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                *is_over = true;
                return Ok(());
            }
            other => other?,
        }
        key.resize(u32::from_le_bytes(length) as usize, 0);
        reader.read_exact(&mut length)?;
        value.resize(u32::from_le_bytes(length) as usize, 0);
        reader.read_exact(key)?;
        reader.read_exact(value)
    }
}

impl FileRun {
    /// Where to begin to read for entries from a key on.
    fn start(&self, from: &[u8]) -> u64 {
        let before = self.marks.partition_point(|mark| mark.key.as_slice() <= from);
        before.checked_sub(1).and_then(|mark| self.marks.get(mark)).map_or(0, |mark| mark.offset)
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
        let mut reader = RunReader::open(run, from).expect("a readable run");
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
        let file = Arc::new(Run::File(buffer.spill(directory.path().join("run")).expect("a run")));
        assert!(buffer.is_empty());
        assert!(file.sample(4).len() >= 4, "there are several marks");
        keys.sort();
        for from in [&[][..], &[1, 2, 3], &[3; 30], &keys[777].clone(), &keys[19_999].clone()] {
            let expect = &keys[keys.partition_point(|key| key.as_slice() < from)..];
            assert_eq!((&rest(&memory, from)[..], &rest(&file, from)[..]), (expect, expect), "from {from:?}");
        }
        drop(file);
        assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 0, "no file is left");
    }
}
