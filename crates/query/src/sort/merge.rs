//! Merging: of what was spilled into longer runs, and of all that is left into what the sorter gives back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::run::{RunReader, RunRecord, RunWriter, SortedRun, SpillStore};
use super::sorter::SortEntry;
use crate::aggregate::YieldPolicy;
use crate::checkpoint;
use crate::error::QueryError;

/// Runs that are read at once, at most: each holds a file and a buffer.
pub(super) const FAN_IN: usize = 64;

/// The runs of one sort, in the order in which their documents came.
///
/// As soon as there are [`FAN_IN`] of one level they become one of the next level, so that there are never
/// more than that of each level, and each document is written once for each level.
#[derive(Default)]
pub(super) struct Runs {
    complete: Vec<(u32, Box<dyn SortedRun>)>,
    writing: Option<Writing>,
}

/// A run that is being written.
struct Writing {
    level: u32,
    from: Box<dyn RunReader>,
    to: Box<dyn RunWriter>,
    record: RunRecord,
}

impl Runs {
    pub(super) const fn is_empty(&self) -> bool {
        self.complete.is_empty()
    }

    /// Whether a run is being written: nothing may be added meanwhile.
    pub(super) const fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Begins a run of these records.
    pub(super) fn add(&mut self, records: MemoryRun, spill: &dyn SpillStore) -> Result<(), QueryError> {
        self.write(0, Box::new(records), spill)
    }

    fn write(
        &mut self,
        level: u32,
        from: Box<dyn RunReader>,
        spill: &dyn SpillStore,
    ) -> Result<(), QueryError> {
        assert!(self.writing.is_none(), "two runs are written at once");
        self.writing = Some(Writing { level, from, to: spill.create_run()?, record: RunRecord::default() });
        Ok(())
    }

    /// Goes on writing, and merges what is to be merged, for as long as the slice lasts; true when nothing is
    /// left to be done. After the `last` run there are fewer than [`FAN_IN`] of them then.
    pub(super) fn work(
        &mut self,
        policy: &mut (impl YieldPolicy + ?Sized),
        spill: &dyn SpillStore,
        (wanted, last): (usize, bool),
    ) -> Result<bool, QueryError> {
        loop {
            if let Some(writing) = &mut self.writing {
                while writing.from.read_next(&mut writing.record)? {
                    checkpoint::pass_bytes(writing.record.document.len())?;
                    writing.to.write(&writing.record)?;
                    if policy.should_yield() {
                        return Ok(false);
                    }
                }
            }
            if let Some(Writing { level, to, .. }) = self.writing.take() {
                self.complete.push((level, to.finish()?));
            }
            let count = self.due(last);
            if count == 0 {
                return Ok(true);
            }
            let level = self.complete.last().map_or(0, |(level, _)| level + 1);
            let merged = self.complete.split_off(self.complete.len() - count);
            self.write(level, Box::new(Merge::of(open(merged)?, wanted)?), spill)?;
        }
    }

    /// How many of the youngest runs are to become one.
    fn due(&self, last: bool) -> usize {
        let youngest = self.complete.last().map(|(level, _)| *level);
        let of_level = self.complete.iter().rev().take_while(|(level, _)| Some(*level) == youngest).count();
        if of_level >= FAN_IN {
            return of_level;
        }
        // One place is for what is in memory.
        match self.complete.len() {
            all if last && all >= FAN_IN => (all - FAN_IN + 2).min(FAN_IN),
            _ => 0,
        }
    }

    /// All runs and what is in memory, in order.
    pub(super) fn merged(self, in_memory: MemoryRun, wanted: usize) -> Result<Merge, QueryError> {
        assert!(self.complete.len() < FAN_IN && self.writing.is_none(), "a sort's runs are not merged yet");
        let mut readers = open(self.complete)?;
        readers.push(Box::new(in_memory));
        Merge::of(readers, wanted)
    }
}

fn open(runs: Vec<(u32, Box<dyn SortedRun>)>) -> Result<Vec<Box<dyn RunReader>>, QueryError> {
    runs.into_iter().map(|(_, run)| run.open()).collect()
}

/// The head of a run: earlier runs hold documents that came earlier, so their number decides between equal
/// keys.
type Head = (Vec<u8>, usize, Vec<u8>);

pub(super) struct Merge {
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
