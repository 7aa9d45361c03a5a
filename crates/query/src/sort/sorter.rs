//! The sorter: takes documents in any order, within a limit of bytes.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use document::key::KeyBuilder;
use document::{DocumentBuf, RawDocument};

use super::merge::{Merge, Runs, Source};
use super::pattern::SortPattern;
use super::run::SpillStore;
use crate::aggregate::{Flow, Pause, YieldPolicy};
use crate::checkpoint;
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
/// Documents that are sorted in one go.
pub(super) const CHUNK: usize = 4096;

/// A document and its sort key.
#[derive(Debug)]
pub(super) struct SortEntry {
    /// The first bytes of the key, zeros behind a shorter one: few keys have to be compared further.
    pub(super) beginning: u64,
    pub(super) key: Vec<u8>,
    /// Order of arrival: equal keys keep it.
    sequence: u64,
    pub(super) document: DocumentBuf,
}

impl SortEntry {
    pub(super) fn new(key: Vec<u8>, sequence: u64, document: DocumentBuf) -> Self {
        let beginning = match key.first_chunk() {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => key.iter().rev().fold(0, |rest, byte| rest >> 8 | u64::from(*byte) << 56),
        };
        SortEntry { beginning, key, sequence, document }
    }

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
        self.beginning
            .cmp(&other.beginning)
            .then_with(|| self.key.cmp(&other.key))
            .then(self.sequence.cmp(&other.sequence))
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
    /// With a limit, the documents in memory: the top is the worst.
    heap: BinaryHeap<SortEntry>,
    /// Without one, those that came last, as they came, and those before them.
    chunk: Vec<SortEntry>,
    sorted: Vec<Source>,
    /// Memory is full: what is in it is to be written out.
    spills: bool,
    used_bytes: usize,
    held: MemoryPart,
    next_sequence: u64,
    key: KeyBuilder,
}

enum SorterPhase {
    Input,
    /// The input has ended; runs may have to be merged.
    Ended,
    Sorted(Merge),
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
            chunk: Vec::new(),
            sorted: Vec::new(),
            spills: false,
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
            SorterPhase::Input => self.spills || self.chunk.len() >= CHUNK || self.runs.is_writing(),
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
            SorterPhase::Sorted(_) | SorterPhase::Done => return Ok(Pause::End),
        };
        if (ended || self.spills || self.chunk.len() >= CHUNK) && !self.sort(policy)? {
            return Ok(Pause::Sliced);
        }
        if let Some(spill) = &self.spill {
            if std::mem::take(&mut self.spills) {
                self.used_bytes = 0;
                self.spilled_runs += 1;
                self.runs.add(std::mem::take(&mut self.sorted), &**spill)?;
            }
            if !self.runs.work(policy, &**spill, (wanted, ended))? {
                return Ok(Pause::Sliced);
            }
        }
        // What was put aside has been written.
        self.held.set(self.used_bytes);
        if ended {
            let (runs, in_memory) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.sorted));
            self.phase = SorterPhase::Sorted(runs.merged(in_memory, wanted)?);
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
        let next = match &mut self.phase {
            SorterPhase::Sorted(merge) => merge.next()?,
            SorterPhase::Done => None,
            SorterPhase::Input | SorterPhase::Ended => panic!("a sort gives documents before it is sorted"),
        };
        if next.is_none() {
            self.phase = SorterPhase::Done;
            self.held.set(0);
        }
        Ok(next.map(|entry| (entry.key, entry.document)))
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

    fn keep(&mut self, key: Vec<u8>, document: RawDocument<'_>) -> Result<Flow, QueryError> {
        assert!(matches!(self.phase, SorterPhase::Input), "a sort takes a document behind its end");
        assert!(!self.spills && self.chunk.len() < CHUNK, "a sort takes a document before its work is done");
        let entry = SortEntry::new(key, self.next_sequence, document.to_buf());
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
            None => self.chunk.push(entry),
        }
        self.held.set(self.used_bytes);
        if self.held.is_over(self.limits.memory_bytes) {
            if self.spill.is_none() {
                bail!(
                    code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                    "Sort exceeded memory limit of {} bytes, but did not opt in to external sorting.",
                    self.limits.memory_bytes
                );
            }
            self.spills = true;
        }
        Ok(if self.spills || self.chunk.len() >= CHUNK { Flow::Pause } else { Flow::More })
    }

    /// Sorts what came since this was done last, for as long as the slice lasts; true when all of it is.
    fn sort(&mut self, policy: &mut (impl YieldPolicy + ?Sized)) -> Result<bool, QueryError> {
        while let Some(worst) = self.heap.pop() {
            checkpoint::pass(comparisons(1, self.heap.len()))?;
            self.chunk.push(worst);
            if policy.should_yield() {
                return Ok(false);
            }
        }
        if self.chunk.is_empty() {
            return Ok(true);
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        if self.limits.documents.is_none() {
            checkpoint::pass(comparisons(chunk.len(), chunk.len()))?;
            chunk.sort_unstable_by(|one, other| other.cmp(one));
        }
        self.sorted.push(Source::Memory(chunk));
        Ok(!policy.should_yield())
    }
}

/// About how many times keys are compared to bring so many of them into the order of `all`.
fn comparisons(keys: usize, all: usize) -> usize {
    keys * (1 + all.checked_ilog2().unwrap_or(0) as usize)
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
