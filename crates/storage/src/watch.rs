//! What was written since: the newest write of each key after a watched view. See `docs/design/views.md`.
//!
//! Noted while somebody watches and for as long; otherwise the leader looks at one number for each group.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::keyspace::Keyspace;
use crate::store::Store;
use crate::unit::{Mutation, WriteUnit};
use crate::view::ReadView;

/// Writes that are noted at most: about 25 MB.
const WRITES_MAX: usize = 1 << 19;
/// Removed ranges that are noted at most: each question looks at all of them.
const REMOVALS_MAX: usize = 1 << 10;
/// With each write that is noted so many are forgotten that nobody asks for any more, so that nobody forgets
/// many at once.
const FORGOTTEN_WITH_EACH: usize = 2;

/// The newest writes since the oldest watched view.
#[derive(Default)]
pub(crate) struct RecentWrites {
    /// Raised before a watched view is taken and read after a batch was written: one of the two sees the
    /// other.
    watchers: AtomicUsize,
    /// Clients choose keys. Two of the same hash count as one: that is a conflict too many, and never one too
    /// few.
    hasher: RandomState,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// How many watch from which sequence number on.
    watched_from: BTreeMap<u64, usize>,
    /// The newest write of a key, by its hash.
    newest: FxHashMap<u64, u64>,
    /// Every write in order, with the key's hash.
    writes: VecDeque<(u64, u64)>,
    /// In order as well.
    removals: VecDeque<Removal>,
    /// What was written up to here may not have been noted.
    complete_from: u64,
}

/// A range of keys that was removed.
struct Removal {
    sequence: u64,
    keyspace: Keyspace,
    range: Range<Box<[u8]>>,
}

impl RecentWrites {
    /// The batch of this sequence number is in the engine, and none of its units is settled.
    pub(crate) fn note(&self, units: &[WriteUnit], sequence: u64) {
        fence(Ordering::SeqCst);
        if self.watchers.load(Ordering::Relaxed) > 0 {
            self.note_watched(units, sequence);
        }
    }

    #[cold]
    fn note_watched(&self, units: &[WriteUnit], sequence: u64) {
        let mut noted = self.noted.lock();
        for mutation in units.iter().flat_map(|unit| unit.log().iter()) {
            match mutation {
                Mutation::Put { keyspace, key, .. } | Mutation::Delete { keyspace, key } => {
                    noted.add_write(self.hash(keyspace, key), sequence);
                }
                Mutation::DeleteRange { keyspace, from, to } => {
                    noted.add_removal(Removal { sequence, keyspace, range: Box::from(from)..Box::from(to) });
                }
            }
        }
    }

    fn hash(&self, keyspace: Keyspace, key: &[u8]) -> u64 {
        self.hasher.hash_one((keyspace as u8, key))
    }

    fn newest(&self, after: u64, keyspace: Keyspace, key: &[u8]) -> Result<Option<u64>, TooOld> {
        let hash = self.hash(keyspace, key);
        let noted = self.noted.lock();
        if after < noted.complete_from {
            return Err(TooOld { oldest: noted.complete_from });
        }
        let newest = noted.newest.get(&hash).copied().max(noted.newest_removal(keyspace, key));
        Ok(newest.filter(|newest| *newest > after))
    }
}

/// What was written since a view is not known any more.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("what is known goes back to sequence number {oldest}")]
pub struct TooOld {
    /// From here on it is known.
    pub oldest: u64,
}

impl Noted {
    fn add_write(&mut self, hash: u64, sequence: u64) {
        self.newest.insert(hash, sequence);
        self.writes.push_back((sequence, hash));
        let oldest = self.watched_from.keys().next().copied().unwrap_or(u64::MAX);
        for _ in 0..FORGOTTEN_WITH_EACH {
            let Some((written, hash)) = self.writes.front().copied() else { return };
            if written > oldest {
                if self.writes.len() <= WRITES_MAX {
                    return;
                }
                self.lose(written);
            }
            self.writes.pop_front();
            if self.newest.get(&hash) == Some(&written) {
                self.newest.remove(&hash);
            }
        }
    }

    fn add_removal(&mut self, removal: Removal) {
        self.removals.push_back(removal);
        if self.removals.len() > REMOVALS_MAX
            && let Some(forgotten) = self.removals.pop_front()
        {
            self.lose(forgotten.sequence);
        }
    }

    fn newest_removal(&self, keyspace: Keyspace, key: &[u8]) -> Option<u64> {
        let covers = |removal: &&Removal| {
            let range = &removal.range;
            removal.keyspace == keyspace && *range.start <= *key && *key < *range.end
        };
        self.removals.iter().rev().find(covers).map(|removal| removal.sequence)
    }

    fn lose(&mut self, sequence: u64) {
        self.complete_from = self.complete_from.max(sequence);
    }
}

/// A [view of a moment](Store::pinned_view) that can tell what was written since. While it lives, writers
/// note what they write.
#[derive(Debug)]
pub struct WatchedView {
    view: ReadView,
    watch: Watch,
}

struct Watch {
    writes: Arc<RecentWrites>,
    from: u64,
}

impl Store {
    /// A view of this moment, of which can be asked what was written since.
    pub fn watched_view(&self) -> WatchedView {
        // Before the view is taken, so that nothing is missed that it does not see.
        let watch = Watch::begin(&self.inner.recent_writes, self.inner.applied());
        WatchedView { view: self.pinned_view(), watch }
    }
}

impl WatchedView {
    /// What it sees.
    pub fn view(&self) -> &ReadView {
        &self.view
    }

    /// The sequence number of the newest write of `key` that the view does not see; `None` when there is
    /// none. Never reads the disk. A write under way may be missed: who is about to write the key holds its
    /// latch.
    ///
    /// # Errors
    /// When too much was written since for anybody to know.
    pub fn newest_sequence(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<u64>, TooOld> {
        self.watch.writes.newest(self.view.sequence(), keyspace, key)
    }
}

impl Watch {
    fn begin(writes: &Arc<RecentWrites>, from: u64) -> Watch {
        *writes.noted.lock().watched_from.entry(from).or_insert(0) += 1;
        writes.watchers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Watch { writes: Arc::clone(writes), from }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut noted = self.writes.noted.lock();
        if let Some(watchers) = noted.watched_from.get_mut(&self.from) {
            *watchers -= 1;
            if *watchers == 0 {
                noted.watched_from.remove(&self.from);
            }
        }
        self.writes.watchers.fetch_sub(1, Ordering::Relaxed);
        if noted.watched_from.is_empty() {
            let Noted { newest, writes, removals, .. } = &mut *noted;
            let forgotten = (std::mem::take(newest), std::mem::take(writes), std::mem::take(removals));
            drop(noted);
            // Without the lock: it may be much.
            drop(forgotten);
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watch").field("from", &self.from).finish_non_exhaustive()
    }
}
