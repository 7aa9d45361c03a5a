//! What recovery would have to replay: how much of the journal is not in table files yet, and since when.
//!
//! ```text
//!  journal:   │ file 1        │ file 2     │ file 3 ─▶
//!  keyspaces:      a━━━━━━━━━━━━━━━━━━━━━━━━━━━▶   the oldest write of `a` in no table: a start
//!                                  b━━━━━━━━━━━▶   replays file 1 from its beginning on
//! ```
//! RocksDB begins a file of the log with each memtable it seals, and a start replays whole files. It tells
//! none of this cheaply; the governor, which looks at the memtables every few milliseconds anyway, works it
//! out, as exactly as it looks often.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::engine::Memtables;
use crate::keyspace::Keyspace;

/// A place in the journal, counted from when the store was opened, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JournalPlace {
    bytes: u64,
    at: Instant,
}

/// The unflushed writes of one keyspace.
#[derive(Debug, Default)]
struct KeyspaceTail {
    /// The first write of the memtable that is written to.
    active: Option<JournalPlace>,
    /// The first writes of sealed ones, oldest first.
    sealed: VecDeque<JournalPlace>,
    /// As the engine counts them.
    seals: u64,
}

impl KeyspaceTail {
    fn oldest(&self) -> Option<JournalPlace> {
        self.sealed.front().copied().or(self.active)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct JournalTail {
    keyspaces: [KeyspaceTail; Keyspace::ALL.len()],
    /// Where the files of the log begin that may be needed, the oldest first.
    files: VecDeque<u64>,
    last: JournalPlace,
}

impl JournalTail {
    pub(crate) fn new(now: Instant) -> JournalTail {
        JournalTail {
            keyspaces: Default::default(),
            files: VecDeque::from([0]),
            last: JournalPlace { bytes: 0, at: now },
        }
    }

    /// Takes note of the memtables as they are now.
    pub(crate) fn observe(&mut self, memtables: &Memtables, now: Instant) {
        let before = self.last;
        let mut began_file = false;
        for (tail, memtable) in self.keyspaces.iter_mut().zip(&memtables.of) {
            for _ in tail.seals..memtable.sealed {
                tail.sealed.push_back(tail.active.take().unwrap_or(before));
                began_file = true;
            }
            tail.seals = memtable.sealed;
            while tail.sealed.len() as u64 > memtable.immutables {
                tail.sealed.pop_front();
            }
            match memtable.active_entries {
                0 => tail.active = None,
                _ => {
                    tail.active.get_or_insert(before);
                }
            }
        }
        if began_file {
            self.files.push_back(before.bytes);
        }
        self.last = JournalPlace { bytes: memtables.journal_bytes, at: now };
        let needed = self.oldest().map_or(self.last.bytes, |oldest| oldest.bytes);
        while self.files.get(1).is_some_and(|next| *next <= needed) {
            self.files.pop_front();
        }
    }

    fn oldest(&self) -> Option<JournalPlace> {
        self.keyspaces.iter().filter_map(KeyspaceTail::oldest).min_by_key(|place| place.bytes)
    }

    /// Bytes that recovery would read now.
    pub(crate) fn bytes(&self) -> u64 {
        match self.oldest() {
            None => 0,
            Some(_) => self.last.bytes.saturating_sub(self.files.front().copied().unwrap_or(0)),
        }
    }

    /// When the oldest write was made that is only in the journal and in memory.
    pub(crate) fn oldest_at(&self) -> Option<Instant> {
        self.oldest().map(|place| place.at)
    }

    /// When the oldest write was made of those that nobody has set aside to be flushed.
    pub(crate) fn oldest_active_at(&self) -> Option<Instant> {
        self.keyspaces.iter().filter_map(|tail| tail.active).map(|place| place.at).min()
    }

    /// Whether everything is in tables.
    pub(crate) fn is_empty(&self) -> bool {
        self.oldest().is_none()
    }

    /// Whether a memtable that was sealed is not in a table yet.
    pub(crate) fn awaits_flush(&self) -> bool {
        self.keyspaces.iter().any(|tail| !tail.sealed.is_empty())
    }

    /// The keyspaces whose memtable has writes from so long ago.
    pub(crate) fn older_than(&self, age: Duration, now: Instant) -> impl Iterator<Item = Keyspace> {
        self.active_from(move |place| now.saturating_duration_since(place.at) >= age)
    }

    /// The keyspaces whose memtable must be flushed before the oldest file of the log can go.
    pub(crate) fn in_oldest_file(&self) -> impl Iterator<Item = Keyspace> {
        let second = self.files.get(1).copied().unwrap_or(u64::MAX);
        self.active_from(move |place| place.bytes < second)
    }

    fn active_from(&self, is_old: impl Fn(JournalPlace) -> bool) -> impl Iterator<Item = Keyspace> {
        let active = Keyspace::ALL.into_iter().zip(self.keyspaces.iter().map(|tail| tail.active));
        active.filter(move |(_, place)| place.is_some_and(&is_old)).map(|(keyspace, _)| keyspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MemtableState;

    /// The memtables of documents and internals after so many bytes of journal.
    fn memtables(journal_bytes: u64, documents: (u64, u64, u64), internal: (u64, u64, u64)) -> Memtables {
        let mut memtables = Memtables { journal_bytes, ..Memtables::default() };
        for (keyspace, (active_entries, immutables, sealed)) in
            [(Keyspace::Documents, documents), (Keyspace::Internal, internal)]
        {
            memtables.of[keyspace as usize] =
                MemtableState { active_entries, immutables, sealed, ..MemtableState::default() };
        }
        memtables
    }

    #[test]
    fn the_oldest_unflushed_write_holds_its_file_of_the_log() {
        let began = Instant::now();
        let at = |second| began + Duration::from_secs(second);
        let mut tail = JournalTail::new(began);
        assert_eq!((tail.bytes(), tail.oldest_at()), (0, None));
        tail.observe(&memtables(100, (1, 0, 0), (0, 0, 0)), at(1));
        assert_eq!((tail.bytes(), tail.oldest_at()), (100, Some(at(0))));
        // A file begins with the memtable that was sealed; both are there until it is flushed.
        tail.observe(&memtables(150, (0, 1, 1), (1, 0, 0)), at(2));
        assert_eq!(tail.bytes(), 150);
        tail.observe(&memtables(170, (5, 1, 1), (2, 0, 0)), at(3));
        assert_eq!(tail.older_than(Duration::from_secs(2), at(3)).collect::<Vec<_>>(), [Keyspace::Internal]);
        tail.observe(&memtables(200, (6, 0, 1), (3, 0, 0)), at(4));
        assert_eq!((tail.bytes(), tail.oldest_at()), (100, Some(at(1))), "file 2 begins at 100");
        assert_eq!(
            tail.in_oldest_file().collect::<Vec<_>>(),
            [Keyspace::Internal, Keyspace::Documents],
            "both have writes in it"
        );
        tail.observe(&memtables(200, (0, 1, 2), (0, 1, 1)), at(5));
        tail.observe(&memtables(200, (0, 0, 2), (0, 0, 1)), at(6));
        assert_eq!((tail.bytes(), tail.oldest_at()), (0, None), "everything is in tables");
    }

    #[test]
    fn a_keyspace_that_is_hardly_written_is_the_one_to_flush() {
        let began = Instant::now();
        let mut tail = JournalTail::new(began);
        tail.observe(&memtables(10, (1, 0, 0), (1, 0, 0)), began);
        for seals in 1..5 {
            tail.observe(&memtables(10 + 100 * seals, (1, 0, seals), (1, 0, 0)), began);
        }
        assert_eq!(tail.bytes(), 410, "its first write holds the whole log");
        assert_eq!(tail.in_oldest_file().collect::<Vec<_>>(), [Keyspace::Internal]);
        tail.observe(&memtables(410, (1, 0, 4), (0, 0, 1)), began);
        assert!(tail.bytes() <= 100, "{} are left", tail.bytes());
    }
}
