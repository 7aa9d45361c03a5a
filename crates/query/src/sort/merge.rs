//! What a sorter gives back: its memory, merged with the runs it spilled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use document::DocumentBuf;

use super::run::{RunReader, RunRecord, RunStore};
use super::sorter::Entry;
use crate::error::QueryError;

/// Sorted documents, taken one by one.
pub struct Sorted {
    source: Source,
    wanted: usize,
}

enum Source {
    Memory(std::vec::IntoIter<Entry>),
    Merge(Merge),
}

impl Sorted {
    pub(super) fn in_memory(entries: Vec<Entry>, wanted: usize) -> Self {
        Sorted { source: Source::Memory(entries.into_iter()), wanted }
    }

    pub(super) fn merged(
        mut runs: Box<dyn RunStore>,
        entries: Vec<Entry>,
        wanted: usize,
    ) -> Result<Self, QueryError> {
        let mut readers = runs.open_runs()?;
        readers.push(Box::new(MemoryRun { entries: entries.into_iter() }));
        let mut merge = Merge { readers, heads: BinaryHeap::new(), _runs: runs };
        for reader in 0..merge.readers.len() {
            merge.advance(reader)?;
        }
        Ok(Sorted { source: Source::Merge(merge), wanted })
    }

    /// The next document in order, or `None` at the end.
    ///
    /// # Errors
    /// When a spilled run cannot be read.
    #[expect(clippy::should_implement_trait, reason = "reading a run can fail, so this is no Iterator")]
    pub fn next(&mut self) -> Result<Option<DocumentBuf>, QueryError> {
        if self.wanted == 0 {
            return Ok(None);
        }
        self.wanted -= 1;
        match &mut self.source {
            Source::Memory(entries) => Ok(entries.next().map(|entry| entry.document)),
            Source::Merge(merge) => merge.next(),
        }
    }
}

/// The head of a run: earlier runs hold documents that came earlier, so their number decides between equal keys.
type Head = (Vec<u8>, usize, Vec<u8>);

struct Merge {
    readers: Vec<Box<dyn RunReader>>,
    heads: BinaryHeap<Reverse<Head>>,
    /// Kept until the last run is read.
    _runs: Box<dyn RunStore>,
}

impl Merge {
    fn next(&mut self) -> Result<Option<DocumentBuf>, QueryError> {
        let Some(Reverse((_, reader, document))) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(reader)?;
        Ok(Some(DocumentBuf::trusted(document)))
    }

    fn advance(&mut self, position: usize) -> Result<(), QueryError> {
        let mut record = RunRecord::default();
        if let Some(reader) = self.readers.get_mut(position)
            && reader.read_next(&mut record)?
        {
            self.heads.push(Reverse((record.key, position, record.document)));
        }
        Ok(())
    }
}

/// What was still in memory at the end, as the last run.
struct MemoryRun {
    entries: std::vec::IntoIter<Entry>,
}

impl RunReader for MemoryRun {
    fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError> {
        let Some(entry) = self.entries.next() else {
            return Ok(false);
        };
        record.key = entry.key.into_vec();
        record.document = entry.document.into_bytes();
        Ok(true)
    }
}

impl std::fmt::Debug for Sorted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sorted").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}
