//! A log on a simulated disk: written at once, durable after a sync, torn by a crash. It can have a real one
//! in a store beside it, which must say the same.

use crate::Bug;
use crate::stored::Stored;
use fastrand::Rng;
use replication::{HardState, Log, LogEntry, LogError, LogIndex, LogPosition, LogWrite, StoreLog, Term};
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    hard_state: HardState,
    pub(crate) compacted: LogPosition,
    pub(crate) entries: Vec<LogEntry>,
}

impl Image {
    fn last(&self) -> LogIndex {
        self.compacted.index + self.entries.len() as u64
    }

    pub(crate) fn entry(&self, index: LogIndex) -> Option<&LogEntry> {
        self.entries.get(index.checked_sub(self.compacted.index + 1)? as usize)
    }

    fn apply(&mut self, change: Change, keeps_tail: bool) {
        match change {
            Change::Write(write) => {
                if let Some(position) = write.reset {
                    self.compacted = position;
                    self.entries.clear();
                }
                self.hard_state = write.hard_state.unwrap_or(self.hard_state);
                for (place, entry) in write.entries.into_iter().enumerate() {
                    let at = (entry.position.index - self.compacted.index - 1) as usize;
                    assert!(at <= self.entries.len(), "a hole before {:?}", entry.position);
                    if place == 0 && !keeps_tail {
                        self.entries.truncate(at);
                    }
                    match self.entries.get_mut(at) {
                        Some(old) => *old = entry,
                        None => self.entries.push(entry),
                    }
                }
            }
            Change::Compact(position) if position.index > self.compacted.index => {
                let gone = (position.index - self.compacted.index) as usize;
                self.entries.drain(..gone.min(self.entries.len()));
                self.compacted = position;
            }
            Change::Compact(_) => {}
        }
    }
}

#[derive(Debug, Clone)]
enum Change {
    Write(LogWrite),
    Compact(LogPosition),
}

#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) written: Image,
    pub(crate) durable: Image,
    /// With how many batches of the store each of them ends.
    unsynced: Vec<(Change, usize)>,
    bug: Option<Bug>,
    stored: Option<Stored>,
}

impl Disk {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Disk { bug, ..Disk::default() }
    }

    /// With a store whose log keeps so many bytes of entries in memory.
    pub(crate) fn with_store(recent_bytes: u64) -> Self {
        Disk { stored: Some(Stored::new(recent_bytes)), ..Disk::default() }
    }

    fn change(&mut self, change: Change) {
        self.written.apply(change.clone(), self.bug == Some(Bug::ForgottenTruncation));
        let mut batches = 0;
        if let Some(stored) = &mut self.stored {
            match change.clone() {
                Change::Write(write) => stored.log.write(write).unwrap(),
                Change::Compact(through) => stored.log.compact(through).unwrap(),
            }
            batches = stored.unsynced();
        }
        self.unsynced.push((change, batches));
    }

    /// How many changes a sync that begins now makes durable.
    pub(crate) fn begin_sync(&self) -> usize {
        self.unsynced.len()
    }

    pub(crate) fn end_sync(&mut self, changes: usize) {
        let mut synced = 0;
        for (mut change, batches) in self.unsynced.drain(..changes.min(self.unsynced.len())) {
            synced = batches;
            if let (Some(Bug::VoteForgotten), Change::Write(write)) = (self.bug, &mut change)
                && let Some(state) = &mut write.hard_state
            {
                state.vote = 0;
            }
            self.durable.apply(change, self.bug == Some(Bug::ForgottenTruncation));
        }
        if let Some(stored) = &mut self.stored {
            stored.sync(synced);
            self.unsynced.iter_mut().for_each(|(_, batches)| *batches -= synced);
        }
    }

    /// Some first part of what was not synced is there by chance.
    pub(crate) fn crash(&mut self, random: &mut Rng) {
        let survivors = random.usize(..=self.unsynced.len());
        self.end_sync(survivors);
        self.unsynced.clear();
        if let Some(stored) = &mut self.stored {
            stored.crash();
            let found = stored.log.hard_state();
            let promised = self.durable.hard_state;
            assert_eq!((found.term, found.vote), (promised.term, promised.vote), "a promise is forgotten");
            assert!(found.committed <= promised.committed);
            // How much was committed may be forgotten.
            self.durable.hard_state.committed = found.committed;
            stored.check(&self.durable.entries);
        }
        self.written = self.durable.clone();
    }

    /// What the log in the store says, if there is one.
    fn ask<T>(&self, question: impl FnOnce(&StoreLog) -> T) -> Option<T> {
        self.stored.as_ref().map(|stored| question(&stored.log))
    }
}

/// A member's hold on its disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskLog(pub(crate) Rc<RefCell<Disk>>);

impl Log for DiskLog {
    fn hard_state(&self) -> HardState {
        let disk = self.0.borrow();
        let state = disk.written.hard_state;
        assert!(disk.ask(|log| log.hard_state()).is_none_or(|stored| stored == state));
        state
    }

    fn compacted(&self) -> LogPosition {
        let disk = self.0.borrow();
        let compacted = disk.written.compacted;
        assert!(disk.ask(|log| log.compacted()).is_none_or(|stored| stored == compacted));
        compacted
    }

    fn last(&self) -> LogIndex {
        let disk = self.0.borrow();
        let last = disk.written.last();
        assert!(disk.ask(|log| log.last()).is_none_or(|stored| stored == last));
        last
    }

    fn term(&self, index: LogIndex) -> Result<Term, LogError> {
        let disk = self.0.borrow();
        let entry = disk.written.entry(index).map(|entry| entry.position);
        let position = entry.or(Some(disk.written.compacted).filter(|compacted| compacted.index == index));
        let term =
            position.unwrap_or_else(|| panic!("asked for the term of {index}, which is not there")).term;
        assert!(disk.ask(|log| log.term(index).unwrap()).is_none_or(|stored| stored == term));
        Ok(term)
    }

    fn entries(&self, first: LogIndex, end: LogIndex, bytes_max: u64) -> Result<Vec<LogEntry>, LogError> {
        let disk = self.0.borrow();
        let mut bytes = 0;
        let mut entries = Vec::new();
        for index in first..end {
            let entry =
                disk.written.entry(index).unwrap_or_else(|| panic!("asked for {index}, which is gone"));
            bytes += entry.size();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        let stored = disk.ask(|log| log.entries(first, end, bytes_max).unwrap());
        assert!(stored.is_none_or(|stored| stored == entries), "the store has other entries from {first} on");
        Ok(entries)
    }

    fn write(&mut self, write: LogWrite) -> Result<(), LogError> {
        self.0.borrow_mut().change(Change::Write(write));
        Ok(())
    }

    fn compact(&mut self, through: LogPosition) -> Result<(), LogError> {
        self.0.borrow_mut().change(Change::Compact(through));
        Ok(())
    }
}
