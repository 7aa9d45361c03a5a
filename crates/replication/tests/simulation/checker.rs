//! What must hold, whatever happens: it knows what every member did.

use crate::disk::Image;
use document::{RawDocument, RawValue};
use replication::{Committed, LogEntry, LogEntryKind, LogIndex, LogPosition, MemberId, Term};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Checker {
    leaders: BTreeMap<Term, MemberId>,
    /// The one history: what some member was given to apply, from the index after [`FIRST`].
    pub(crate) committed: Vec<LogEntry>,
    /// For each of them a term in which it was committed.
    committed_in: Vec<Term>,
    timestamp: document::Timestamp,
    acknowledged: Vec<(LogPosition, u64)>,
    /// All that was acknowledged or read up to now is at or before this.
    pub(crate) seen: LogIndex,
    pub(crate) reads: usize,
}

/// Where the first data of a set are.
pub(crate) const FIRST: LogIndex = 1;

pub(crate) fn value(entry: &LogEntry) -> Option<u64> {
    let is_operation = matches!(entry.kind, LogEntryKind::Operation(_));
    let value = |entry: &LogEntry| {
        let document = RawDocument::parse(&entry.data).expect("an operation");
        document.get("value").and_then(RawValue::as_i64_exact).expect("a value") as u64
    };
    is_operation.then(|| value(entry))
}

impl Checker {
    /// Election safety, and leader completeness.
    pub(crate) fn leads(&mut self, member: MemberId, term: Term, log: &Image) {
        let first = *self.leaders.entry(term).or_insert(member);
        assert_eq!(first, member, "two leaders in term {term}");
        // An election can end late: what later terms have committed is not its matter.
        let earlier = self.committed.iter().zip(&self.committed_in).filter(|(_, in_term)| **in_term < term);
        for (entry, _) in earlier {
            let LogPosition { index, .. } = entry.position;
            match log.entry(index) {
                Some(own) => assert_eq!(own, entry, "leader {member} of term {term} has another entry"),
                None => assert!(
                    index <= log.compacted.index,
                    "leader {member} of term {term} does not have entry {index}"
                ),
            }
        }
    }

    /// State machine safety, and OpTimes that grow.
    pub(crate) fn committed(&mut self, member: MemberId, term: Term, Committed { entry, .. }: &Committed) {
        let place = (entry.position.index - FIRST - 1) as usize;
        match self.committed.get(place) {
            Some(known) => assert_eq!(known, entry, "member {member} applies another entry than others did"),
            None => {
                assert_eq!(place, self.committed.len(), "member {member} applies {:?}", entry.position);
                if let LogEntryKind::Operation(timestamp) = entry.kind {
                    assert!(timestamp > self.timestamp, "{timestamp:?} follows {:?}", self.timestamp);
                    self.timestamp = timestamp;
                }
                self.committed.push(entry.clone());
                self.committed_in.push(term);
            }
        }
    }

    pub(crate) fn acknowledged(&mut self, position: LogPosition, value: u64) {
        self.acknowledged.push((position, value));
        self.seen = self.seen.max(position.index);
    }

    /// A read that began when everything up to `floor` had been seen shows what was applied up to `index`.
    pub(crate) fn read(&mut self, member: MemberId, floor: LogIndex, index: LogIndex) {
        assert!(index >= floor, "a read on {member} shows {index}, {floor} had been seen before it began");
        self.seen = self.seen.max(index);
        self.reads += 1;
    }

    pub(crate) fn values(&self) -> Vec<u64> {
        self.committed.iter().filter_map(value).collect()
    }

    pub(crate) fn acknowledgements(&self) -> usize {
        self.acknowledged.len()
    }

    /// Nothing acknowledged is lost.
    pub(crate) fn nothing_lost(&self) {
        for (position, acknowledged) in &self.acknowledged {
            let entry = self.committed.get((position.index - FIRST - 1) as usize);
            let entry =
                entry.unwrap_or_else(|| panic!("{acknowledged} was acknowledged and is not committed"));
            assert_eq!(
                (entry.position, value(entry)),
                (*position, Some(*acknowledged)),
                "acknowledged, then lost"
            );
        }
    }
}

/// Log matching: where two logs have the same term at an index, they are equal up to there.
pub(crate) fn logs_match(one: &Image, other: &Image) {
    let both =
        |entry: &&LogEntry| other.entry(entry.position.index).is_some_and(|o| o.position == entry.position);
    let Some(last) = one.entries.iter().rev().find(both) else { return };
    for entry in one.entries.iter().take_while(|entry| entry.position.index <= last.position.index) {
        if let Some(same) = other.entry(entry.position.index) {
            assert_eq!(entry, same, "logs that agree at {:?} differ before", last.position);
        }
    }
}
