//! What is committed and not applied, in the order of the log. Beyond its bound it knows only where entries
//! are, and they are read from the log again when it is their turn: who applies slowly takes no more memory.

use crate::effects::Committed;
use crate::entry::{LogIndex, LogPosition};
use crate::log::LogError;
use crate::membership::Membership;
use crate::optime::OpTime;
use crate::set::shared::ThreadWaker;
use crate::store_log::Oplog;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::ProposedGroup;

/// What readers are shown at once, at most.
const BATCH_ENTRIES_MAX: usize = 4_096;
/// The same in bytes, but for one entry alone.
const BATCH_BYTES_MAX: u64 = 16 << 20;

/// What is committed and not applied.
#[derive(Debug)]
pub(crate) enum Work {
    /// Of this member as the leader, up to this place; `None` where it has no entries.
    Group { group: ProposedGroup, through: Option<(LogPosition, OpTime)>, bytes: u64 },
    /// To be computed.
    Entries(Vec<Committed>),
}

/// A piece of the queue.
#[derive(Debug)]
enum Waiting {
    Group(ProposedGroup, Option<(LogPosition, OpTime)>, u64),
    Entries(VecDeque<Committed>),
    Logged(Logged),
}

/// Entries that are only in the log.
#[derive(Debug)]
struct Logged {
    indexes: Range<LogIndex>,
    /// Those from an entry on, where it changes them: no reader of the log could tell.
    memberships: VecDeque<(LogIndex, Membership)>,
}

/// From the driver to who applies.
#[derive(Debug)]
pub(crate) struct ApplyQueue {
    waiting: Mutex<State>,
    /// Of entries in memory; more are only known to be in the log.
    bytes_max: AtomicU64,
    pub(crate) waker: ThreadWaker,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Waiting>,
    bytes: u64,
    entries: u64,
}

/// How much waits to be applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unapplied {
    /// Operations, in memory or not.
    pub entries: u64,
    /// Bytes of those in memory.
    pub bytes: u64,
    /// The most that they may have.
    pub bytes_max: u64,
}

impl ApplyQueue {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let bytes_max = AtomicU64::new(bytes_max);
        ApplyQueue { waiting: Mutex::default(), bytes_max, waker: ThreadWaker::default() }
    }

    /// What is more stays in memory until it is applied.
    pub(crate) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Adds work; entries join those that wait already.
    pub(crate) fn push(&self, work: Work) {
        let mut state = self.waiting.lock();
        match work {
            Work::Group { group, through, bytes } => {
                state.bytes += bytes;
                state.pieces.push_back(Waiting::Group(group, through, bytes));
            }
            Work::Entries(entries) => {
                entries.into_iter().for_each(|entry| state.add(entry, self.bytes_max()));
            }
        }
        drop(state);
        self.waker.wake();
    }

    /// Whether a group of so many bytes may be logged: it stays in memory until it is applied.
    pub(crate) fn takes(&self, bytes: u64) -> bool {
        let waiting = self.waiting.lock().bytes;
        waiting == 0 || waiting + bytes <= self.bytes_max()
    }

    pub(crate) fn figures(&self) -> Unapplied {
        let state = self.waiting.lock();
        Unapplied { entries: state.entries, bytes: state.bytes, bytes_max: self.bytes_max() }
    }

    /// The next work, of entries as many as readers wait for. Only who applies takes.
    pub(crate) fn take(&self, log: &Oplog) -> Result<Option<Work>, LogError> {
        let indexes = match self.waiting.lock().pop() {
            Next::Nothing => return Ok(None),
            Next::Work(work) => return Ok(Some(work)),
            Next::InTheLog(indexes) => indexes,
        };
        let end = indexes.end.min(indexes.start + BATCH_ENTRIES_MAX as u64);
        let read = log.entries(indexes.start, end, BATCH_BYTES_MAX)?;
        let mut state = self.waiting.lock();
        state.entries -= read.len() as u64;
        let Some(Waiting::Logged(logged)) = state.pieces.front_mut() else {
            unreachable!("only who applies takes from the front");
        };
        let committed = read.into_iter().map(|entry| {
            let index = entry.position.index;
            let change = logged.memberships.pop_front_if(|(at, _)| *at == index);
            Committed { entry, membership: change.map(|(_, membership)| membership) }
        });
        let committed: Vec<Committed> = committed.collect();
        logged.indexes.start += committed.len() as u64;
        if logged.indexes.is_empty() {
            state.pieces.pop_front();
        }
        Ok(Some(Work::Entries(committed)))
    }
}

/// What is at the front of the queue.
enum Next {
    Nothing,
    Work(Work),
    InTheLog(Range<LogIndex>),
}

impl State {
    fn add(&mut self, committed: Committed, bytes_max: u64) {
        let (index, bytes) = (committed.entry.position.index, committed.entry.size());
        self.entries += 1;
        // Not again in memory for one entry's room.
        let room = match self.pieces.back() {
            Some(Waiting::Logged(_)) => bytes_max / 2,
            _ => bytes_max,
        };
        if self.bytes + bytes <= room || self.bytes == 0 {
            self.bytes += bytes;
            match self.pieces.back_mut() {
                Some(Waiting::Entries(entries)) => entries.push_back(committed),
                _ => self.pieces.push_back(Waiting::Entries(VecDeque::from([committed]))),
            }
            return;
        }
        let membership = committed.membership.map(|membership| (index, membership));
        match self.pieces.back_mut() {
            Some(Waiting::Logged(logged)) => {
                assert_eq!(logged.indexes.end, index, "what is committed comes in the order of the log");
                logged.indexes.end += 1;
                logged.memberships.extend(membership);
            }
            _ => self.pieces.push_back(Waiting::Logged(Logged {
                indexes: index..index + 1,
                memberships: membership.into_iter().collect(),
            })),
        }
    }

    fn pop(&mut self) -> Next {
        let entries = match self.pieces.pop_front() {
            None => return Next::Nothing,
            Some(Waiting::Group(group, through, bytes)) => {
                self.bytes -= bytes;
                return Next::Work(Work::Group { group, through, bytes });
            }
            Some(Waiting::Logged(logged)) => {
                let indexes = logged.indexes.clone();
                self.pieces.push_front(Waiting::Logged(logged));
                return Next::InTheLog(indexes);
            }
            Some(Waiting::Entries(entries)) => entries,
        };
        let mut bytes = 0;
        let mut fits = |committed: &Committed| {
            bytes += committed.entry.size();
            bytes <= BATCH_BYTES_MAX
        };
        let count = entries.iter().take(BATCH_ENTRIES_MAX).take_while(|entry| fits(entry)).count().max(1);
        let mut now = entries;
        let later = now.split_off(count.min(now.len()));
        if !later.is_empty() {
            self.pieces.push_front(Waiting::Entries(later));
        }
        self.entries -= now.len() as u64;
        self.bytes -= now.iter().map(|committed| committed.entry.size()).sum::<u64>();
        Next::Work(Work::Entries(now.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{LogEntry, LogEntryKind};
    use crate::log::{Log, LogWrite};
    use crate::{LogOptions, StoreLog};
    use catalog::Catalog;
    use document::{Timestamp, doc};
    use storage::{StorageOptions, Store};

    fn entry(index: LogIndex, bytes: usize) -> LogEntry {
        let timestamp = Timestamp { time: index as u32, increment: 1 };
        let wall = document::Value::DateTime(0);
        let document = doc! {
            "op": "n", "filler": ("x".repeat(bytes)), "ts": timestamp, "t": 1_i64, "v": 2_i64, "wall": wall,
        };
        let (kind, data) = match index % 10 {
            0 => (LogEntryKind::Membership, Vec::new()),
            _ => (LogEntryKind::Operation(timestamp), document.to_buf().into_bytes()),
        };
        LogEntry {
            position: LogPosition { term: 1, index },
            kind,
            data: data.into(),
            context: Default::default(),
        }
    }

    fn committed(entry: &LogEntry) -> Committed {
        let voters = entry.position.index;
        let membership = (entry.kind == LogEntryKind::Membership).then(|| Membership::of(&[voters]));
        Committed { entry: entry.clone(), membership }
    }

    fn all(queue: &ApplyQueue, log: &Oplog) -> Vec<Committed> {
        let mut taken = Vec::new();
        while let Some(work) = queue.take(log).expect("the log is read") {
            let Work::Entries(entries) = work else { panic!("a group of nobody's") };
            taken.extend(entries);
        }
        taken
    }

    #[test]
    fn who_applies_slowly_takes_no_more_memory_and_loses_nothing() {
        let store = Store::in_memory(&StorageOptions::small()).expect("a store in memory");
        let catalog = Catalog::open(store).expect("an empty catalog");
        let mut log = StoreLog::open(&catalog, LogOptions::default()).expect("a log");
        let entries: Vec<LogEntry> = (1..=200).map(|index| entry(index, 100)).collect();
        log.write(LogWrite { entries: entries.clone(), ..LogWrite::default() }).expect("a write");
        let oplog = log.oplog();
        const BYTES_MAX: u64 = 1_000;
        let queue = ApplyQueue::new(BYTES_MAX);
        let expected: Vec<Committed> = entries.iter().map(committed).collect();
        for some in expected[..150].chunks(7) {
            queue.push(Work::Entries(some.to_vec()));
            let Unapplied { bytes, .. } = queue.figures();
            assert!(bytes <= BYTES_MAX, "{bytes} bytes are kept");
        }
        assert!(!queue.takes(500), "a group stays in memory");
        let Some(Work::Entries(first)) = queue.take(&oplog).expect("the log is read") else {
            panic!("entries come first")
        };
        assert_eq!(
            queue.figures(),
            Unapplied { entries: 150 - first.len() as u64, bytes: 0, bytes_max: BYTES_MAX }
        );
        // There is room again, behind what is only in the log.
        queue.push(Work::Entries(expected[150..].to_vec()));
        let rest = all(&queue, &oplog);
        assert_eq!([first, rest].concat(), expected);
        assert_eq!(queue.figures(), Unapplied { entries: 0, bytes: 0, bytes_max: BYTES_MAX });
    }

    #[test]
    fn another_bound_counts_for_what_comes() {
        let entries: Vec<LogEntry> = (1..=30).map(|index| entry(index, 100)).collect();
        let (queue, size) = (ApplyQueue::new(1 << 20), entries[0].size());
        let push = |some: &[LogEntry]| queue.push(Work::Entries(some.iter().map(committed).collect()));
        push(&entries[..10]);
        let kept = queue.figures().bytes;
        assert!(kept >= 9 * size);
        queue.set_bytes_max(5 * size);
        push(&entries[10..20]);
        assert_eq!((queue.figures().bytes, queue.figures().entries), (kept, 20), "no more in memory");
        assert!(!queue.takes(size));
        queue.set_bytes_max(1 << 20);
        push(&entries[20..]);
        assert!(queue.takes(size) && queue.figures().bytes > kept);
    }
}
