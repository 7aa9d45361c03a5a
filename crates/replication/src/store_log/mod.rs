//! The log in the store: operations are the documents of `local.oplog.rs`, whose record ids are their
//! indexes.
//!
//! ```text
//!  Keyspace::Documents  │ local.oplog.rs: 2 ins │ 3 upd │   │ 5 ins │ …   readers see what is applied
//!  Keyspace::Meta       │                       │       │ 4 │       │     elections, changes of the members
//!                       hard state, place before the first entry, segments
//! ```
//! Each write is one unit: after a crash the log is what some first part of its writes made.

mod leave;
mod local_state;
mod oplog;
mod recent;
mod records;
mod segments;
#[cfg(test)]
mod tests;

pub use leave::{forget_set, leave_set};
pub use local_state::{Identity, LocalState};
pub use oplog::Oplog;
pub(crate) use records::put_hard_state;

use crate::entry::{LogEntry, LogEntryKind, LogIndex, LogPosition, Term};
use crate::log::{HardState, Log, LogError, LogWrite};
use crate::oplog::{optime, placed};
use crate::optime::OpTime;
use bytes::Bytes;
use catalog::{Catalog, Collection, DocumentCursor, OperationContext, Receipts, Writer};
use document::RawDocument;
use recent::Recent;
use records::failed;
use segments::Segments;
use std::sync::Arc;
use std::time::Duration;
use storage::{Direction, Growth, ReadTier, ReadView, Store, WriteUnit};

/// How much of the log is kept, and how much of that in memory.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Bytes of operations, from which on the oldest may go: for a log that is made anew, later it is that of
    /// `replSetResizeOplog`.
    pub size_bytes: u64,
    /// What is younger stays in any case.
    pub retention: Option<Duration>,
    /// Bytes of the latest entries that are kept in memory.
    pub recent_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { size_bytes: 990 << 20, retention: None, recent_bytes: 32 << 20 }
    }
}

/// A member's log, for [`crate::Member`] alone; what others do with the oplog is [`StoreLog::oplog`].
#[derive(Debug)]
pub struct StoreLog {
    store: Store,
    oplog: Oplog,
    collection: Arc<Collection>,
    recent_bytes: u64,
    hard_state: HardState,
    /// Without what has changed since and may be forgotten.
    written: HardState,
    compacted: LogPosition,
    segments: Segments,
    recent: Recent,
}

impl StoreLog {
    /// The log of a store, made where there is none. Readers see nothing of it before
    /// [`Oplog::show_up_to`].
    ///
    /// # Errors
    /// A collection in the place of the oplog, damage, storage errors.
    pub fn open(catalog: &Arc<Catalog>, options: LogOptions) -> Result<Self, LogError> {
        let store = catalog.store().clone();
        let receipts = Receipts::default();
        // No client's limit holds: a member takes part also where its disk is nearly full.
        let writing = OperationContext::writing(&store, &receipts);
        let context = OperationContext { writer: Writer::Replication, ..writing };
        let made = pollster::block_on(catalog.create_oplog(&context, options.size_bytes));
        let collection = made.map_err(failed)?;
        let view = store.read_view();
        let compacted = records::compacted(&view)?;
        let hard_state = records::hard_state(&view)?;
        collection.show_records_through(compacted.index);
        let last_operation = last_operation(&collection, &view)?;
        let last = records::last_entry(&view)?.max(last_operation).unwrap_or(0).max(compacted.index);
        let segments = open_segments(&collection, &view, last)?;
        let oplog = Oplog::new(Arc::clone(catalog), Arc::clone(&collection), options.retention);
        Ok(StoreLog {
            oplog,
            collection,
            recent_bytes: options.recent_bytes,
            hard_state,
            written: hard_state,
            compacted,
            segments,
            recent: Recent::default(),
            store,
        })
    }

    /// What the end of the log takes in memory.
    pub(crate) fn recent_bytes(&self) -> u64 {
        self.recent.bytes()
    }

    /// The oplog, for readers and settings.
    pub fn oplog(&self) -> Oplog {
        self.oplog.clone()
    }

    /// Up to where the log may be compacted now, at `wall` after 1970: what is beyond its size and old
    /// enough, as far as the data are applied durably.
    pub fn trim_through(&self, durable: LogIndex, wall: Duration) -> Option<LogIndex> {
        self.segments.trim_through(self.oplog.limits(), durable, wall)
    }

    /// Of all operations in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.total().1
    }

    fn commit(&self, unit: WriteUnit) -> Result<(), LogError> {
        self.store.write_now(unit).map(drop).map_err(failed)
    }

    fn reset(&mut self, unit: &mut WriteUnit, position: LogPosition) {
        let (documents, bytes) = self.segments.total();
        let all = 0..LogIndex::MAX;
        self.collection.remove_records(unit, all.clone(), documents, bytes);
        records::remove_entries(unit, all.clone());
        records::remove_segments(unit, all);
        records::put_compacted(unit, position);
        self.segments = Segments::default();
        self.segments.open.last = position.index;
        self.recent = Recent::default();
        self.compacted = position;
    }

    /// Removes the entries from this index on.
    fn truncate(&mut self, unit: &mut WriteUnit, from: LogIndex) -> Result<(), LogError> {
        assert!(from > self.compacted.index, "entry {from} is gone, {:?} was compacted", self.compacted);
        let end = self.last() + 1;
        let mut gone = self.recent.truncate(from);
        if gone.len() as u64 != end - from {
            gone = self.oplog.entries(from, end, u64::MAX)?;
        }
        let (documents, bytes) = figures(&gone);
        self.collection.remove_records(unit, from..end, documents, bytes);
        records::remove_entries(unit, from..end);
        records::remove_segments(unit, from..end);
        self.segments.truncate(from, documents, bytes);
        Ok(())
    }

    fn append(&mut self, unit: &mut WriteUnit, entries: Vec<LogEntry>) -> Result<(), LogError> {
        let Some(first) = entries.first().map(|entry| entry.position.index) else { return Ok(()) };
        if first <= self.last() {
            self.truncate(unit, first)?;
        }
        assert_eq!(first, self.last() + 1, "a hole before entry {first}");
        let mut documents = Vec::with_capacity(entries.len());
        for entry in &entries {
            match entry.kind {
                LogEntryKind::Operation(timestamp) => {
                    documents.push((entry.position.index, document_of(entry)?));
                    self.segments.open.timestamp = timestamp;
                }
                LogEntryKind::LeaderElected | LogEntryKind::Membership => records::put_entry(unit, entry),
            }
        }
        self.collection.put_records(unit, documents);
        let (documents, bytes) = figures(&entries);
        let open = &mut self.segments.open;
        open.documents += documents;
        open.bytes += bytes;
        open.last += entries.len() as u64;
        if let Some(closed) = self.segments.close(self.oplog.limits().segment_bytes()) {
            records::put_segment(unit, &closed);
        }
        for entry in entries {
            self.recent.push(entry, self.recent_bytes);
        }
        Ok(())
    }
}

impl Log for StoreLog {
    fn hard_state(&self) -> HardState {
        self.hard_state
    }

    fn compacted(&self) -> LogPosition {
        self.compacted
    }

    fn last(&self) -> LogIndex {
        self.segments.open.last
    }

    fn term(&self, index: LogIndex) -> Result<Term, LogError> {
        if index == self.compacted.index {
            return Ok(self.compacted.term);
        }
        if let Some(entry) = self.recent.get(index) {
            return Ok(entry.position.term);
        }
        let view = self.store.read_view();
        let document = self.collection.fetch(&view, &index.to_be_bytes(), ReadTier::Any).map_err(failed)?;
        if let Some(document) = document {
            return Ok(place(&document)?.term);
        }
        let entry = records::entry(&view, index)?;
        entry.map(|entry| entry.position.term).ok_or_else(|| missing(index))
    }

    fn entries(&self, first: LogIndex, end: LogIndex, bytes_max: u64) -> Result<Vec<LogEntry>, LogError> {
        if self.recent.first(self.last()) > first {
            return self.oplog.entries(first, end, bytes_max);
        }
        let mut bytes = 0;
        let fitting = self.recent.range(first..end).take_while(|entry| {
            bytes += entry.size();
            bytes <= bytes_max || entry.position.index == first
        });
        Ok(fitting.cloned().collect())
    }

    fn check(&self, entry: &LogEntry) -> Result<(), LogError> {
        match entry.kind {
            LogEntryKind::Operation(_) => {
                let document = RawDocument::parse(&entry.data).map_err(failed)?;
                document_of(entry)?;
                // Nor do the fields of these names say anything else.
                let named = optime(document).map_err(failed)?;
                if named == place(&entry.data)? { Ok(()) } else { Err(failed("an operation has two places")) }
            }
            LogEntryKind::LeaderElected if !entry.data.is_empty() => Err(failed("an election has no data")),
            LogEntryKind::LeaderElected | LogEntryKind::Membership => Ok(()),
        }
    }

    fn write(&mut self, write: LogWrite) -> Result<(), LogError> {
        let LogWrite { reset, hard_state, entries } = write;
        let state = hard_state.unwrap_or(self.hard_state);
        let keeps_promises = (state.term, state.vote) == (self.written.term, self.written.vote);
        self.hard_state = state;
        if reset.is_none() && entries.is_empty() && keeps_promises {
            // That more is committed may be forgotten: the next write tells.
            return Ok(());
        }
        let bytes = entries.iter().map(|entry| entry.size() as usize + 32).sum();
        let mut unit = WriteUnit::with_capacity(bytes);
        if let Some(position) = reset {
            self.reset(&mut unit, position);
        }
        if state != self.written {
            records::put_hard_state(&mut unit, state);
        }
        self.append(&mut unit, entries)?;
        self.commit(unit)?;
        self.written = state;
        Ok(())
    }

    fn compact(&mut self, through: LogPosition) -> Result<(), LogError> {
        let before = self.compacted.index;
        if through.index <= before {
            return Ok(());
        }
        assert!(
            through.index <= self.last(),
            "compacting up to {through:?}, the log ends at {}",
            self.last()
        );
        let whole = self.segments.whole_through(through.index);
        let part = whole.last.max(before) + 1..through.index + 1;
        let (documents, bytes) = match part.is_empty() {
            true => (0, 0),
            false => figures(&self.oplog.entries(part.start, part.end, u64::MAX)?),
        };
        let mut unit = WriteUnit::new();
        let gone = 0..through.index + 1;
        self.collection.remove_records(
            &mut unit,
            gone.clone(),
            whole.documents + documents,
            whole.bytes + bytes,
        );
        records::remove_entries(&mut unit, gone.clone());
        records::remove_segments(&mut unit, gone.clone());
        if let Some(smaller) = self.segments.trim(through.index, documents, bytes) {
            records::put_segment(&mut unit, &smaller);
        }
        records::put_compacted(&mut unit, through);
        unit.set_growth(Growth::Shrinks);
        self.recent.trim(through.index);
        self.compacted = through;
        self.commit(unit)?;
        self.collection.reclaim_records(gone);
        Ok(())
    }
}

fn last_operation(collection: &Arc<Collection>, view: &ReadView) -> Result<Option<LogIndex>, LogError> {
    let mut cursor = collection.records(view, 0..LogIndex::MAX, Direction::Backward).map_err(failed)?;
    let last = cursor.next().map_err(failed)?;
    last.map(|(key, _)| index_of(key)).transpose()
}

/// The open segment has what the collection has beside the closed ones.
fn open_segments(
    collection: &Arc<Collection>,
    view: &ReadView,
    last: LogIndex,
) -> Result<Segments, LogError> {
    let mut segments = Segments { closed: records::segments(view)?.into(), ..Segments::default() };
    let (documents, bytes) = segments.total();
    let open = &mut segments.open;
    open.last = last;
    let rest = |all: u64, closed: u64| {
        all.checked_sub(closed).ok_or_else(|| failed("the counters of the oplog do not go with its segments"))
    };
    open.documents = rest(collection.document_count(), documents)?;
    open.bytes = rest(collection.data_bytes(), bytes)?;
    let mut cursor = collection.records(view, 0..LogIndex::MAX, Direction::Backward).map_err(failed)?;
    if let Some((_, document)) = cursor.next().map_err(failed)? {
        open.timestamp = place(document.as_bytes())?.timestamp;
    }
    Ok(segments)
}

/// How many operations there are, and their bytes.
fn figures(entries: &[LogEntry]) -> (u64, u64) {
    let operations = entries.iter().filter(|entry| matches!(entry.kind, LogEntryKind::Operation(_)));
    operations.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.data.len() as u64))
}

fn next_operation(operations: &mut DocumentCursor, index: LogIndex) -> Result<LogEntry, LogError> {
    let (key, document) = operations.next().map_err(failed)?.ok_or_else(|| missing(index))?;
    if index_of(key)? != index {
        return Err(missing(index));
    }
    let OpTime { timestamp, term } = place(document.as_bytes())?;
    Ok(LogEntry {
        position: LogPosition { term, index },
        kind: LogEntryKind::Operation(timestamp),
        data: Bytes::copy_from_slice(document.as_bytes()),
        context: Bytes::new(),
    })
}

/// An operation as it is stored: what tells its place must tell the same as the entry.
fn document_of(entry: &LogEntry) -> Result<RawDocument<'_>, LogError> {
    let OpTime { timestamp, term } = place(&entry.data)?;
    let is_its_own = entry.kind == LogEntryKind::Operation(timestamp) && term == entry.position.term;
    match is_its_own {
        true => Ok(RawDocument::trusted(&entry.data)),
        false => {
            Err(failed(format!("{:?} holds an operation of {timestamp:?}, term {term}", entry.position)))
        }
    }
}

/// `ts` and `t` of an operation.
fn place(operation: &[u8]) -> Result<OpTime, LogError> {
    placed(operation).ok_or_else(|| failed("an operation of the oplog has no place"))
}

fn index_of(key: &[u8]) -> Result<LogIndex, LogError> {
    let index = key.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    index.ok_or_else(|| failed("the key of a document of the oplog is no index"))
}

fn missing(index: LogIndex) -> LogError {
    failed(format!("entry {index} is missing"))
}
