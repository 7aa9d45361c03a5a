//! Merging: of what was spilled into longer runs, and of all that is left into what the sorter gives back.

use document::DocumentBuf;

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
    from: Merge,
    to: Box<dyn RunWriter>,
}

impl Runs {
    /// Whether a run is being written: nothing may be added meanwhile.
    pub(super) const fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Begins a run of what is in memory.
    pub(super) fn add(&mut self, in_memory: Vec<Source>, spill: &dyn SpillStore) -> Result<(), QueryError> {
        self.write(0, Merge::of(in_memory, usize::MAX)?, spill)
    }

    fn write(&mut self, level: u32, from: Merge, spill: &dyn SpillStore) -> Result<(), QueryError> {
        assert!(self.writing.is_none(), "two runs are written at once");
        self.writing = Some(Writing { level, from, to: spill.create_run()? });
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
                while let Some(entry) = writing.from.next()? {
                    checkpoint::pass_bytes(entry.document.len())?;
                    writing.to.write(&RunRecord { key: entry.key, document: entry.document.into_bytes() })?;
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
            self.write(level, Merge::of(open(merged)?, wanted)?, spill)?;
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
    pub(super) fn merged(self, in_memory: Vec<Source>, wanted: usize) -> Result<Merge, QueryError> {
        assert!(self.complete.len() < FAN_IN && self.writing.is_none(), "a sort's runs are not merged yet");
        let mut sources = open(self.complete)?;
        sources.extend(in_memory);
        Merge::of(sources, wanted)
    }
}

fn open(runs: Vec<(u32, Box<dyn SortedRun>)>) -> Result<Vec<Source>, QueryError> {
    runs.into_iter().map(|(_, run)| run.open().map(Source::Run)).collect()
}

/// Entries in order.
pub(super) enum Source {
    /// A part of what is in memory, the last entry first.
    Memory(Vec<SortEntry>),
    Run(Box<dyn RunReader>),
}

impl Source {
    #[inline]
    fn next(&mut self) -> Result<Option<SortEntry>, QueryError> {
        match self {
            Source::Memory(entries) => Ok(entries.pop()),
            Source::Run(reader) => {
                let mut record = RunRecord::default();
                let found = reader.read_next(&mut record)?;
                Ok(found.then(|| SortEntry::new(record.key, 0, DocumentBuf::trusted(record.document))))
            }
        }
    }
}

/// Several sources as one. A tree of losers: where two subtrees meet stays the later one of their winners, so
/// that keys are compared as often as the tree is high behind each entry.
pub(super) struct Merge {
    sources: Vec<Source>,
    /// The first entry of each source; `None` where it is over.
    heads: Vec<Option<SortEntry>>,
    /// Node n has the children 2n and 2n+1, the sources are behind the nodes; in the place of node 0: the
    /// winner.
    tree: Vec<Place>,
    wanted: usize,
}

/// A source in the tree.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Of its head's key: few keys have to be compared further.
    beginning: u64,
    source: usize,
}

/// Where nobody has come by yet.
const NOBODY: Place = Place { beginning: 0, source: usize::MAX };

impl Merge {
    fn of(sources: Vec<Source>, wanted: usize) -> Result<Self, QueryError> {
        let heads = sources.iter().map(|_| None).collect();
        let mut merge = Merge { heads, tree: vec![NOBODY; sources.len()], sources, wanted };
        for source in 0..merge.sources.len() {
            merge.advance(source)?;
        }
        Ok(merge)
    }

    /// The next entry in order.
    pub(super) fn next(&mut self) -> Result<Option<SortEntry>, QueryError> {
        match self.tree.first() {
            Some(winner) if self.wanted > 0 => {
                self.wanted -= 1;
                self.advance(winner.source)
            }
            _ => Ok(None),
        }
    }

    /// Takes the head of a source, whose next one rises as far as it wins.
    fn advance(&mut self, source: usize) -> Result<Option<SortEntry>, QueryError> {
        let (Some(from), Some(head)) = (self.sources.get_mut(source), self.heads.get_mut(source)) else {
            panic!("a merge has no source {source}");
        };
        let next = from.next()?;
        let mut place = Place { beginning: next.as_ref().map_or(u64::MAX, |next| next.beginning), source };
        let taken = std::mem::replace(head, next);
        let mut node = (self.tree.len() + source) / 2;
        while let Some(met) = self.tree.get_mut(node).filter(|_| node > 0) {
            if met.source == NOBODY.source {
                *met = place;
                return Ok(taken);
            }
            if met.beginning < place.beginning
                || met.beginning == place.beginning && met.wins(place, &self.heads)
            {
                std::mem::swap(met, &mut place);
            }
            node /= 2;
        }
        if let Some(winner) = self.tree.first_mut() {
            *winner = place;
        }
        Ok(taken)
    }
}

impl Place {
    /// Over one whose head's key begins alike. Earlier sources hold documents that came earlier, so their
    /// number decides between equal keys.
    fn wins(self, other: Place, heads: &[Option<SortEntry>]) -> bool {
        let key = |place: Place| heads.get(place.source).and_then(Option::as_ref).map(|head| &head.key);
        match (key(self), key(other)) {
            (Some(own), Some(others)) => (own, self.source) < (others, other.source),
            (own, _) => own.is_some(),
        }
    }
}
