//! A log on a simulated disk: written at once, durable after a sync, torn by a crash.

use crate::Bug;
use fastrand::Rng;
use replication::{Entry, HardState, Index, Log, LogError, LogWrite, Position, Term};
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    hard_state: HardState,
    pub(crate) compacted: Position,
    pub(crate) entries: Vec<Entry>,
}

impl Image {
    fn last(&self) -> Index {
        self.compacted.index + self.entries.len() as u64
    }

    pub(crate) fn entry(&self, index: Index) -> Option<&Entry> {
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
    Compact(Position),
}

#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) written: Image,
    pub(crate) durable: Image,
    unsynced: Vec<Change>,
    bug: Option<Bug>,
}

impl Disk {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Disk { bug, ..Disk::default() }
    }

    fn change(&mut self, change: Change) {
        self.written.apply(change.clone(), self.bug == Some(Bug::ForgottenTruncation));
        self.unsynced.push(change);
    }

    /// How many changes a sync that begins now makes durable.
    pub(crate) fn begin_sync(&self) -> usize {
        self.unsynced.len()
    }

    pub(crate) fn end_sync(&mut self, changes: usize) {
        for mut change in self.unsynced.drain(..changes.min(self.unsynced.len())) {
            if let (Some(Bug::VoteForgotten), Change::Write(write)) = (self.bug, &mut change)
                && let Some(state) = &mut write.hard_state
            {
                state.vote = 0;
            }
            self.durable.apply(change, self.bug == Some(Bug::ForgottenTruncation));
        }
    }

    /// Some first part of what was not synced is there by chance.
    pub(crate) fn crash(&mut self, random: &mut Rng) {
        let survivors = random.usize(..=self.unsynced.len());
        self.end_sync(survivors);
        self.unsynced.clear();
        self.written = self.durable.clone();
    }
}

/// A member's hold on its disk.
#[derive(Debug, Clone)]
pub(crate) struct DiskLog(pub(crate) Rc<RefCell<Disk>>);

impl Log for DiskLog {
    fn hard_state(&self) -> HardState {
        self.0.borrow().written.hard_state
    }

    fn compacted(&self) -> Position {
        self.0.borrow().written.compacted
    }

    fn last(&self) -> Index {
        self.0.borrow().written.last()
    }

    fn term(&self, index: Index) -> Result<Term, LogError> {
        let disk = self.0.borrow();
        if index == disk.written.compacted.index {
            return Ok(disk.written.compacted.term);
        }
        let entry = disk.written.entry(index);
        Ok(entry.unwrap_or_else(|| panic!("asked for the term of {index}, which is not there")).position.term)
    }

    fn entries(&self, first: Index, end: Index, bytes_max: u64) -> Result<Vec<Entry>, LogError> {
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
        Ok(entries)
    }

    fn write(&mut self, write: LogWrite) -> Result<(), LogError> {
        self.0.borrow_mut().change(Change::Write(write));
        Ok(())
    }

    fn compact(&mut self, through: Position) -> Result<(), LogError> {
        self.0.borrow_mut().change(Change::Compact(through));
        Ok(())
    }
}
