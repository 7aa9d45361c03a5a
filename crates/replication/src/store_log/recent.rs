//! The end of the log in memory: what followers that keep up are sent.

use crate::entry::{LogEntry, LogIndex};
use std::collections::VecDeque;
use std::ops::Range;

/// Entries one after the other, the last one that of the log.
#[derive(Debug, Default)]
pub(super) struct Recent {
    entries: VecDeque<LogEntry>,
    bytes: u64,
}

impl Recent {
    /// The index of the first one; that of the next entry where there is none.
    pub(super) fn first(&self, last: LogIndex) -> LogIndex {
        last + 1 - self.entries.len() as u64
    }

    pub(super) fn push(&mut self, entry: LogEntry, bytes_max: u64) {
        let follows = self.entries.back().is_none_or(|last| last.position.index + 1 == entry.position.index);
        assert!(follows, "{:?} follows {:?}", entry.position, self.entries.back().map(|last| last.position));
        self.bytes += entry.size();
        self.entries.push_back(entry);
        while self.bytes > bytes_max
            && let Some(gone) = self.entries.pop_front()
        {
            self.bytes -= gone.size();
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn get(&self, index: LogIndex) -> Option<&LogEntry> {
        let first = self.entries.front()?.position.index;
        self.entries.get(usize::try_from(index.checked_sub(first)?).ok()?)
    }

    pub(super) fn range(&self, indexes: Range<LogIndex>) -> impl Iterator<Item = &LogEntry> {
        indexes.map_while(|index| self.get(index))
    }

    /// Forgets the entries from this index on, and hands them out.
    pub(super) fn truncate(&mut self, from: LogIndex) -> Vec<LogEntry> {
        let mut gone = Vec::new();
        while let Some(last) = self.entries.pop_back_if(|last| last.position.index >= from) {
            self.bytes -= last.size();
            gone.push(last);
        }
        gone
    }

    /// Forgets the entries up to this index.
    pub(super) fn trim(&mut self, through: LogIndex) {
        while let Some(first) = self.entries.pop_front_if(|first| first.position.index <= through) {
            self.bytes -= first.size();
        }
    }
}
