//! Ranges of keys that were removed, for the rows that were kept before.
//!
//! A removal does not look for its rows. It is numbered and noted here, and each row says with which removals
//! its key has been compared: whoever finds one that is behind compares it with those that came since, once.

use std::collections::VecDeque;
use std::ops::Range;

use crate::sync::{AtomicU64, Mutex, Ordering};

/// Removals that are noted. Rows that nobody has asked for during so many count as removed.
const NOTED: usize = 128;

/// The removals since the store was opened, numbered from 1 on.
pub(crate) struct Removals {
    /// The number of the last one that has begun.
    begun: AtomicU64,
    /// The number of the last one that is over: the engine's answers show it.
    ended: AtomicU64,
    /// The last ones, up to `begun`, which changes under this lock only. Taken after a bucket's.
    ranges: Mutex<VecDeque<Range<Box<[u8]>>>>,
}

impl Removals {
    pub(crate) fn new() -> Removals {
        Removals { begun: AtomicU64::new(0), ended: AtomicU64::new(0), ranges: Mutex::new(VecDeque::new()) }
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// The removal of `from <= key < to` begins: rows of the range are found no more.
    pub(crate) fn begin(&self, from: &[u8], to: &[u8]) {
        let mut ranges = self.ranges.lock();
        if ranges.len() >= NOTED {
            ranges.pop_front();
        }
        ranges.push_back(Box::from(from)..Box::from(to));
        self.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// All that have begun are over, or have failed.
    pub(crate) fn end(&self) {
        self.ended.store(self.begun(), Ordering::Release);
    }

    /// Whether a removal after the one numbered `since` has the key in its range, as far as is known.
    #[cold]
    pub(crate) fn cover(&self, since: u64, key: &[u8]) -> bool {
        let ranges = self.ranges.lock();
        let later = usize::try_from(self.begun().saturating_sub(since)).unwrap_or(usize::MAX);
        let holds = |range: &Range<Box<[u8]>>| *range.start <= *key && *key < *range.end;
        later > ranges.len() || ranges.iter().rev().take(later).any(holds)
    }
}
