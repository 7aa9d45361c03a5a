//! What a sorter gives back: its memory, merged with the runs it spilled.
//!
//! Each open run holds a file and a buffer, so only so many are read at once: before there are no more than
//! that, neighbours are merged into longer runs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use document::DocumentBuf;

use super::run::{RunReader, RunRecord, RunStore};
use super::sorter::SortEntry;
use crate::checkpoint;
use crate::error::QueryError;
use crate::memory::MemoryPart;

/// Runs that are read at once, at most.
pub(super) const FAN_IN: usize = 64;

/// Sorted documents, taken one by one.
pub struct Sorted {
    source: SortedInput,
    wanted: usize,
    /// What is in memory, until the last document is taken.
    _held: MemoryPart,
}

enum SortedInput {
    Memory(MemoryRun),
    Merge(Merge),
}

impl Sorted {
    pub(super) fn in_memory(entries: Vec<SortEntry>, held: MemoryPart, wanted: usize) -> Self {
        Sorted { source: SortedInput::Memory(MemoryRun::of(entries)), wanted, _held: held }
    }

    /// `spilled` runs and what is still in memory.
    pub(super) fn merged(
        runs: &mut dyn RunStore,
        mut spilled: usize,
        (entries, held): (Vec<SortEntry>, MemoryPart),
        wanted: usize,
    ) -> Result<Self, QueryError> {
        // One place is for what is in memory.
        while spilled >= FAN_IN {
            spilled = merge_neighbours(runs, spilled, wanted)?;
        }
        let mut readers = runs.open_runs(spilled)?;
        readers.push(Box::new(MemoryRun::of(entries)));
        Ok(Sorted { source: SortedInput::Merge(Merge::of(readers, wanted)?), wanted, _held: held })
    }

    /// The next document in order, or `None` at the end.
    ///
    /// # Errors
    /// When a spilled run cannot be read.
    #[expect(clippy::should_implement_trait, reason = "reading a run can fail, so this is no Iterator")]
    pub fn next(&mut self) -> Result<Option<DocumentBuf>, QueryError> {
        Ok(self.next_keyed()?.map(|(_, document)| document))
    }

    /// As [`Sorted::next`], with the document's sort key.
    ///
    /// # Errors
    /// As [`Sorted::next`].
    pub fn next_keyed(&mut self) -> Result<Option<(Vec<u8>, DocumentBuf)>, QueryError> {
        if self.wanted == 0 {
            return Ok(None);
        }
        self.wanted -= 1;
        let mut record = RunRecord::default();
        let found = match &mut self.source {
            SortedInput::Memory(run) => run.read_next(&mut record)?,
            SortedInput::Merge(merge) => merge.read_next(&mut record)?,
        };
        Ok(found.then(|| (record.key, DocumentBuf::trusted(record.document))))
    }
}

/// Merges each [`FAN_IN`] runs that follow each other into one, which keeps the order of equal keys. Returns
/// how many are left.
fn merge_neighbours(runs: &mut dyn RunStore, spilled: usize, wanted: usize) -> Result<usize, QueryError> {
    let mut unread = spilled;
    let mut written = 0;
    while unread > 0 {
        let readers = runs.open_runs(unread.min(FAN_IN))?;
        unread -= readers.len();
        runs.write_run(&mut Merge::of(readers, wanted)?)?;
        written += 1;
    }
    Ok(written)
}

/// The head of a run: earlier runs hold documents that came earlier, so their number decides between equal
/// keys.
type Head = (Vec<u8>, usize, Vec<u8>);

struct Merge {
    readers: Vec<Box<dyn RunReader>>,
    heads: BinaryHeap<Reverse<Head>>,
    wanted: usize,
}

impl Merge {
    fn of(readers: Vec<Box<dyn RunReader>>, wanted: usize) -> Result<Self, QueryError> {
        let mut merge = Merge { readers, heads: BinaryHeap::new(), wanted };
        for reader in 0..merge.readers.len() {
            merge.advance(reader)?;
        }
        Ok(merge)
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

impl RunReader for Merge {
    fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError> {
        let next = self.heads.pop().filter(|_| self.wanted > 0);
        let Some(Reverse((key, reader, document))) = next else { return Ok(false) };
        checkpoint::pass(1)?;
        self.wanted -= 1;
        (record.key, record.document) = (key, document);
        self.advance(reader)?;
        Ok(true)
    }
}

/// What is in memory, as a run.
pub(super) struct MemoryRun {
    entries: std::vec::IntoIter<SortEntry>,
}

impl MemoryRun {
    pub(super) fn of(entries: Vec<SortEntry>) -> Self {
        MemoryRun { entries: entries.into_iter() }
    }
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
