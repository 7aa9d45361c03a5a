//! The sorter: takes documents in any order, within a limit of bytes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use document::key::KeyBuilder;
use document::{DocumentBuf, RawDocument};

use super::merge::{MemoryRun, Merge, Runs};
use super::pattern::SortPattern;
use super::run::{RunReader, RunRecord, SpillStore};
use crate::aggregate::{Flow, Pause, YieldPolicy};
use crate::error::{QueryError, code};
use crate::memory::{Memory, MemoryPart};

/// What one sort may use.
#[derive(Debug, Clone, Copy)]
pub struct SortLimits {
    /// How many documents are wanted at most; `None` for all. Skipped documents count.
    pub documents: Option<usize>,
    /// Bytes of keys and documents held in memory (`internalQueryMaxBlockingSortMemoryUsageBytes`; MongoDB's
    /// default is 100 MiB).
    pub memory_bytes: usize,
}

impl Default for SortLimits {
    fn default() -> Self {
        SortLimits { documents: None, memory_bytes: 100 * 1024 * 1024 }
    }
}

/// What an entry takes besides its bytes.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// A document and its sort key.
#[derive(Debug)]
pub(super) struct SortEntry {
    pub(super) key: Box<[u8]>,
    /// Order of arrival: equal keys keep it.
    pub(super) sequence: u64,
    pub(super) document: DocumentBuf,
}

impl SortEntry {
    fn bytes(&self) -> usize {
        self.key.len() + self.document.len() + ENTRY_OVERHEAD_BYTES
    }
}

impl PartialEq for SortEntry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SortEntry {}

impl PartialOrd for SortEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SortEntry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key).then(self.sequence.cmp(&other.sequence))
    }
}

/// Collects documents and gives them back in order.
///
/// ```text
///   push, push, … ─▶ Flow::Pause: holds() ─▶ resume() ─▶ push, … ─▶ end() ─▶ resume() ─▶ next, next, …
/// ```
pub struct Sorter {
    pattern: Arc<SortPattern>,
    limits: SortLimits,
    spill: Option<Arc<dyn SpillStore>>,
    runs: Runs,
    spilled_runs: usize,
    phase: SorterPhase,
    /// With a limit a heap whose top is the worst kept document; without, an unsorted list.
    heap: BinaryHeap<SortEntry>,
    list: Vec<SortEntry>,
    used_bytes: usize,
    held: MemoryPart,
    next_sequence: u64,
    key: KeyBuilder,
}

enum SorterPhase {
    Input,
    /// The input has ended; runs may have to be merged.
    Ended,
    Memory(MemoryRun),
    Merge(Merge),
    Done,
}

impl Sorter {
    /// A sorter; `spill` is where it may put what exceeds its memory (`allowDiskUse`), without it the byte
    /// limit is final. `memory` is the operation's.
    pub fn new(
        pattern: Arc<SortPattern>,
        limits: SortLimits,
        spill: Option<Arc<dyn SpillStore>>,
        memory: &Memory,
    ) -> Self {
        Sorter {
            pattern,
            limits,
            spill,
            runs: Runs::default(),
            spilled_runs: 0,
            phase: SorterPhase::Input,
            heap: BinaryHeap::new(),
            list: Vec::new(),
            used_bytes: 0,
            held: memory.part(),
            next_sequence: 0,
            key: KeyBuilder::new(),
        }
    }

    /// Takes a document; it is copied only when it may be among the wanted ones. [`Flow::Pause`]: the sorter
    /// has work to do before the next one.
    ///
    /// # Errors
    /// 292 when the byte limit is passed and there is nowhere to spill to; 2 for parallel arrays.
    pub fn push(&mut self, document: RawDocument<'_>) -> Result<Flow, QueryError> {
        self.pattern.key_into(document, &mut self.key)?;
        if self.is_hopeless(self.key.key()) {
            return Ok(Flow::More);
        }
        self.keep(self.key.key().into(), document)
    }

    /// As [`Sorter::push`], with a key of the caller's own.
    ///
    /// # Errors
    /// As [`Sorter::push`].
    pub fn push_keyed(&mut self, key: &[u8], document: RawDocument<'_>) -> Result<Flow, QueryError> {
        if self.is_hopeless(key) { Ok(Flow::More) } else { self.keep(key.into(), document) }
    }

    /// Bytes of keys and documents in memory now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// How many sorted runs were written out.
    pub fn spilled_runs(&self) -> usize {
        self.spilled_runs
    }

    /// Ends the input.
    pub fn end(&mut self) {
        assert!(matches!(self.phase, SorterPhase::Input), "the input of a sort ends twice");
        self.phase = SorterPhase::Ended;
    }

    /// Whether the input has ended.
    pub fn has_ended(&self) -> bool {
        !matches!(self.phase, SorterPhase::Input)
    }

    /// Whether there is work to do, or something to give back.
    pub fn holds(&self) -> bool {
        match self.phase {
            SorterPhase::Input => self.runs.is_writing(),
            SorterPhase::Done => false,
            _ => true,
        }
    }

    /// Does the work that is due, for as long as the slice lasts. [`Pause::End`]: the next document is
    /// wanted, or, when the input has ended, can be given back.
    ///
    /// # Errors
    /// When runs cannot be written or read.
    pub fn resume(&mut self, policy: &mut (impl YieldPolicy + ?Sized)) -> Result<Pause, QueryError> {
        let wanted = self.limits.documents.unwrap_or(usize::MAX);
        let ended = match self.phase {
            SorterPhase::Input => false,
            SorterPhase::Ended => true,
            SorterPhase::Memory(_) | SorterPhase::Merge(_) | SorterPhase::Done => return Ok(Pause::End),
        };
        if let Some(spill) = &self.spill
            && !self.runs.work(policy, &**spill, (wanted, ended))?
        {
            return Ok(Pause::Sliced);
        }
        // What was put aside has been written.
        self.held.set(self.used_bytes);
        if ended {
            let in_memory = MemoryRun::of(self.take_sorted());
            let runs = std::mem::take(&mut self.runs);
            self.phase = match runs.is_empty() {
                true => SorterPhase::Memory(in_memory),
                false => SorterPhase::Merge(runs.merged(in_memory, wanted)?),
            };
        }
        Ok(Pause::End)
    }

    /// The next document in order, or `None` at the end.
    ///
    /// # Errors
    /// When a spilled run cannot be read.
    #[expect(clippy::should_implement_trait, reason = "reading a run can fail, so this is no Iterator")]
    pub fn next(&mut self) -> Result<Option<DocumentBuf>, QueryError> {
        Ok(self.next_keyed()?.map(|(_, document)| document))
    }

    /// As [`Sorter::next`], with the document's sort key.
    ///
    /// # Errors
    /// As [`Sorter::next`].
    pub fn next_keyed(&mut self) -> Result<Option<(Vec<u8>, DocumentBuf)>, QueryError> {
        let mut record = RunRecord::default();
        let found = match &mut self.phase {
            SorterPhase::Memory(run) => run.read_next(&mut record)?,
            SorterPhase::Merge(merge) => merge.read_next(&mut record)?,
            SorterPhase::Done => false,
            SorterPhase::Input | SorterPhase::Ended => panic!("a sort gives documents before it is sorted"),
        };
        if !found {
            self.phase = SorterPhase::Done;
            self.held.set(0);
        }
        Ok(found.then(|| (record.key, DocumentBuf::trusted(record.document))))
    }

    /// Whether a full heap already holds only better documents than one with this key.
    fn is_hopeless(&self, key: &[u8]) -> bool {
        match self.limits.documents {
            Some(0) => true,
            Some(wanted) if self.heap.len() >= wanted => {
                self.heap.peek().is_some_and(|worst| *key >= *worst.key)
            }
            _ => false,
        }
    }

    fn keep(&mut self, key: Box<[u8]>, document: RawDocument<'_>) -> Result<Flow, QueryError> {
        assert!(matches!(self.phase, SorterPhase::Input), "a sort takes a document behind its end");
        let entry = SortEntry { key, sequence: self.next_sequence, document: document.to_buf() };
        self.next_sequence += 1;
        self.used_bytes += entry.bytes();
        match self.limits.documents {
            Some(wanted) => {
                self.heap.push(entry);
                if self.heap.len() > wanted
                    && let Some(worst) = self.heap.pop()
                {
                    self.used_bytes -= worst.bytes();
                }
            }
            None => self.list.push(entry),
        }
        self.held.set(self.used_bytes);
        if !self.held.is_over(self.limits.memory_bytes) {
            return Ok(Flow::More);
        }
        self.spill()?;
        Ok(Flow::Pause)
    }

    fn spill(&mut self) -> Result<(), QueryError> {
        let entries = self.take_sorted();
        let Some(spill) = &self.spill else {
            bail!(
                code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Sort exceeded memory limit of {} bytes, but did not opt in to external sorting.",
                self.limits.memory_bytes
            );
        };
        self.spilled_runs += 1;
        self.runs.add(MemoryRun::of(entries), &**spill)
    }

    fn take_sorted(&mut self) -> Vec<SortEntry> {
        self.used_bytes = 0;
        if self.limits.documents.is_some() {
            return std::mem::take(&mut self.heap).into_sorted_vec();
        }
        let mut entries = std::mem::take(&mut self.list);
        entries.sort_unstable();
        entries
    }
}

impl std::fmt::Debug for Sorter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Sorter")
            .field("pattern", &self.pattern)
            .field("limits", &self.limits)
            .field("used_bytes", &self.used_bytes)
            .field("spilled_runs", &self.spilled_runs)
            .finish_non_exhaustive()
    }
}
