//! Giving back the room of what was deleted, on a thread that may take its time.
//!
//! A dropped collection is one range tombstone at first: its files go when compaction has passed, which on
//! an idle store is never. Here they are removed whole, and what is left of the range is compacted. While
//! the disk has little room, memtables are flushed too: tombstones free nothing before they are in a file.
//! And when all that was written is in tables, those with many deletions are compacted: nothing else would
//! come to do it.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::keyspace::{KeyRange, Keyspace};
use crate::space::SpaceState;
use crate::store::StoreInner;

/// Less than this is left to the compactions that come anyway, as long as there is room.
const RANGE_BYTES_MIN: u64 = 16 << 20;
/// As long as there is little, less than this is.
const RANGE_BYTES_MIN_LOW: u64 = 256 << 10;
/// Small ranges remembered for the day when there is little room.
const SMALL_RANGES_MAX: usize = 4096;
/// Ranges that wait at most. Further ones are left to the compactions that come anyway.
const RANGES_MAX: usize = 65_536;
/// Pause between looks whether a deletion is on stable storage.
const SYNC_PAUSE: Duration = Duration::from_millis(100);

/// A range of keys that are all deleted.
type Range = (Keyspace, KeyRange);

/// What the thread sleeps on.
#[derive(Default)]
pub(crate) struct Reclaim {
    state: Mutex<ReclaimState>,
    work: Condvar,
}

#[derive(Default)]
struct ReclaimState {
    stop: bool,
    flush: bool,
    /// Nothing is in memtables, and deletions in tables may be many.
    tidy: bool,
    /// See [`Store::defer_compaction`](crate::Store::defer_compaction).
    is_deferred: bool,
    /// The number of threads for flush and compaction that is to be brought into effect.
    jobs: Option<u32>,
    ranges: VecDeque<Range>,
    small: VecDeque<Range>,
}

enum ReclaimWork {
    Flush,
    Tidy,
    Jobs(u32),
    Range(Range),
}

impl ReclaimState {
    fn take(&mut self) -> Option<ReclaimWork> {
        match std::mem::take(&mut self.flush) {
            true => Some(ReclaimWork::Flush),
            false => {
                let jobs = self.jobs.take().map(ReclaimWork::Jobs);
                let range = || self.ranges.pop_front().map(ReclaimWork::Range);
                jobs.or_else(range).or_else(|| std::mem::take(&mut self.tidy).then_some(ReclaimWork::Tidy))
            }
        }
    }
}

impl Reclaim {
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.work.notify_all();
    }

    pub(crate) fn request_flush(&self) {
        self.state.lock().flush = true;
        self.work.notify_all();
    }

    /// Whether deletions in tables are left to be.
    pub(crate) fn defer(&self, is_deferred: bool) {
        self.state.lock().is_deferred = is_deferred;
    }

    pub(crate) fn is_deferred(&self) -> bool {
        self.state.lock().is_deferred
    }

    /// All that was written is in tables, and nothing more comes for now.
    pub(crate) fn request_tidying(&self) {
        self.state.lock().tidy = true;
        self.work.notify_all();
    }

    /// The engine notes it in a file, for which the governor is not to wait.
    pub(crate) fn request_jobs(&self, jobs: u32) {
        self.state.lock().jobs = Some(jobs);
        self.work.notify_all();
    }

    pub(crate) fn add(&self, range: Range) {
        let mut state = self.state.lock();
        if state.ranges.len() < RANGES_MAX {
            state.ranges.push_back(range);
            self.work.notify_all();
        }
    }

    /// There is little room: small ranges count.
    pub(crate) fn add_small_ones(&self) {
        let mut state = self.state.lock();
        let small = std::mem::take(&mut state.small);
        state.ranges.extend(joined(small.into()));
        self.work.notify_all();
    }

    fn put_aside(&self, range: Range) {
        let mut state = self.state.lock();
        if state.small.len() == SMALL_RANGES_MAX {
            state.small.pop_front();
        }
        state.small.push_back(range);
    }

    fn next(&self) -> Option<ReclaimWork> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(work) = state.take() {
                return Some(work);
            }
            self.work.wait(&mut state);
        }
    }

    /// Whether to go on after a pause.
    fn pause(&self) -> bool {
        let mut state = self.state.lock();
        if !state.stop {
            self.work.wait_for(&mut state, SYNC_PAUSE);
        }
        !state.stop
    }
}

/// The thread: works until [`Reclaim::stop`].
pub(crate) fn run(store: &StoreInner) {
    while let Some(work) = store.reclaim.next() {
        work.run(store);
    }
}

/// One piece of the thread's work, for a store without threads.
pub(crate) fn run_once(store: &StoreInner) {
    let work = store.reclaim.state.lock().take();
    if let Some(work) = work {
        work.run(store);
    }
}

impl ReclaimWork {
    fn run(self, store: &StoreInner) {
        let done = match &self {
            ReclaimWork::Flush => store.engine.flush(),
            ReclaimWork::Tidy => tidy(store),
            ReclaimWork::Jobs(jobs) => store.engine.set_background_jobs(*jobs),
            ReclaimWork::Range((keyspace, range)) => reclaim(store, *keyspace, range),
        };
        if let Err(error) = done {
            tracing::debug!(%error, "work in the background is not done now");
        }
    }
}

/// Ends what an idle store holds of deleted keys. Whoever writes again comes first.
fn tidy(store: &StoreInner) -> Result<(), crate::StorageError> {
    let applied = store.applied();
    let mut goes_on = || {
        let state = store.reclaim.state.lock();
        let is_needed = state.stop || state.flush || state.jobs.is_some() || !state.ranges.is_empty();
        !is_needed && !state.is_deferred && store.applied() == applied
    };
    if goes_on() { store.engine.compact_deletions(&mut goes_on) } else { Ok(()) }
}

fn reclaim(store: &StoreInner, keyspace: Keyspace, range: &KeyRange) -> Result<(), crate::StorageError> {
    let there_is_room = store.space.state() == SpaceState::Normal;
    let bytes_min = if there_is_room { RANGE_BYTES_MIN } else { RANGE_BYTES_MIN_LOW };
    let is_worth_it = || store.engine.range_bytes(keyspace, range).tables >= bytes_min;
    if !is_worth_it() {
        if there_is_room {
            store.reclaim.put_aside((keyspace, range.clone()));
        }
        return Ok(());
    }
    if !deletion_is_stable(store) {
        return Ok(());
    }
    store.engine.drop_files(keyspace, range)?;
    if is_worth_it() { store.engine.compact(keyspace, range, &mut || true) } else { Ok(()) }
}

/// Makes one of ranges that lie side by side: what was dropped together is compacted together.
fn joined(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable_by(|(one, a), (other, b)| (*one as u8, &a.lower).cmp(&(*other as u8, &b.lower)));
    let mut joined: Vec<Range> = Vec::with_capacity(ranges.len());
    for (keyspace, range) in ranges {
        match joined.last_mut() {
            Some((last, before))
                if *last == keyspace && before.upper.is_some() && before.upper >= range.lower =>
            {
                before.upper = range.upper.max(before.upper.take());
            }
            _ => joined.push((keyspace, range)),
        }
    }
    joined
}

/// Waits until everything applied is on stable storage: files go at once, and must not go before what deletes
/// their keys stays.
fn deletion_is_stable(store: &StoreInner) -> bool {
    let applied = store.applied();
    loop {
        store.journal.sync_now(store);
        if store.journal.synced() >= applied {
            return true;
        }
        if store.breakdown().is_some() || !store.reclaim.pause() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        let range = |keyspace, lower: u8, upper: u8| (keyspace, KeyRange::new([lower], [upper]));
        let (documents, indexes) = (Keyspace::Documents, Keyspace::Indexes);
        let ranges = vec![
            range(documents, 3, 4),
            range(indexes, 2, 3),
            range(documents, 1, 2),
            range(documents, 2, 3),
            range(documents, 6, 9),
            range(documents, 7, 8),
        ];
        let expected = [range(documents, 1, 4), range(documents, 6, 9), range(indexes, 2, 3)];
        assert_eq!(joined(ranges), expected);
    }
}
