//! What the log keeps in `Keyspace::Meta`, beside the catalog's records.
//!
//! ```text
//!  r h           hard state      term, vote, committed: u64 BE each
//!  r p           compacted       term, index
//!  r e <index>   entry without operation: term, kind (0: leader elected, 1: membership), length of the
//!                context, context, data
//!  r s <last>    segment that ends at this index: documents, bytes, timestamp of its last operation
//!  r i, r a, r c identity, applied mark, state of the set: documents (local_state.rs)
//! ```

use super::segments::Segment;
use crate::entry::{LogEntry, LogEntryKind, LogIndex, LogPosition};
use crate::log::{HardState, LogError};
use bytes::Bytes;
use document::Timestamp;
use std::ops::Range;
use storage::{KeyRange, Keyspace, ReadView, WriteUnit};

const TAG: u8 = b'r';
const HARD_STATE: &[u8] = b"rh";
const COMPACTED: &[u8] = b"rp";
const ENTRY: u8 = b'e';
const SEGMENT: u8 = b's';

const LEADER_ELECTED: u8 = 0;
const MEMBERSHIP: u8 = 1;

pub(super) fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> LogError {
    LogError(error.into())
}

fn damaged(what: &str) -> LogError {
    failed(format!("the record of {what} is damaged"))
}

fn numbered_key(kind: u8, index: LogIndex) -> [u8; 10] {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = index.to_be_bytes();
    [TAG, kind, b0, b1, b2, b3, b4, b5, b6, b7]
}

fn numbered_range(kind: u8, indexes: Range<LogIndex>) -> KeyRange {
    KeyRange::new(numbered_key(kind, indexes.start), numbered_key(kind, indexes.end))
}

/// The number at the end of a key.
fn number(key: &[u8]) -> Result<LogIndex, LogError> {
    key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes)).ok_or_else(|| damaged("an index"))
}

/// Takes a number from the front.
fn take(bytes: &mut &[u8], what: &str) -> Result<u64, LogError> {
    let (number, rest) = bytes.split_first_chunk().ok_or_else(|| damaged(what))?;
    *bytes = rest;
    Ok(u64::from_be_bytes(*number))
}

fn join<const N: usize>(numbers: [u64; N]) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_be_bytes).collect()
}

fn read(view: &ReadView, key: &[u8]) -> Result<Option<Vec<u8>>, LogError> {
    let found = view.get(Keyspace::Meta, key).map_err(failed)?;
    Ok(found.map(|bytes| bytes.to_vec()))
}

pub(super) fn hard_state(view: &ReadView) -> Result<HardState, LogError> {
    let Some(bytes) = read(view, HARD_STATE)? else { return Ok(HardState::default()) };
    let rest = &mut bytes.as_slice();
    let mut next = || take(rest, "the hard state");
    Ok(HardState { term: next()?, vote: next()?, committed: next()? })
}

pub(crate) fn put_hard_state(unit: &mut WriteUnit, state: HardState) {
    unit.put(Keyspace::Meta, HARD_STATE, &join([state.term, state.vote, state.committed]));
}

pub(super) fn compacted(view: &ReadView) -> Result<LogPosition, LogError> {
    let Some(bytes) = read(view, COMPACTED)? else { return Ok(LogPosition::default()) };
    let rest = &mut bytes.as_slice();
    let mut next = || take(rest, "the place before the first entry");
    Ok(LogPosition { term: next()?, index: next()? })
}

pub(super) fn put_compacted(unit: &mut WriteUnit, position: LogPosition) {
    unit.put(Keyspace::Meta, COMPACTED, &join([position.term, position.index]));
}

/// Puts an entry that is no operation.
pub(super) fn put_entry(unit: &mut WriteUnit, entry: &LogEntry) {
    let kind = match entry.kind {
        LogEntryKind::LeaderElected => LEADER_ELECTED,
        LogEntryKind::Membership => MEMBERSHIP,
        LogEntryKind::Operation(_) => unreachable!("an operation is a document of the oplog"),
    };
    let mut value = join([entry.position.term, u64::from(kind), entry.context.len() as u64]);
    value.extend_from_slice(&entry.context);
    value.extend_from_slice(&entry.data);
    unit.put(Keyspace::Meta, &numbered_key(ENTRY, entry.position.index), &value);
}

fn decode_entry(index: LogIndex, mut value: &[u8]) -> Result<LogEntry, LogError> {
    let what = "an entry";
    let (term, kind) = (take(&mut value, what)?, take(&mut value, what)?);
    let context = usize::try_from(take(&mut value, what)?).map_err(failed)?;
    let (context, data) = value.split_at_checked(context).ok_or_else(|| damaged(what))?;
    let kind = match u8::try_from(kind) {
        Ok(LEADER_ELECTED) => LogEntryKind::LeaderElected,
        Ok(MEMBERSHIP) => LogEntryKind::Membership,
        _ => return Err(damaged(what)),
    };
    let position = LogPosition { term, index };
    let (data, context) = (Bytes::copy_from_slice(data), Bytes::copy_from_slice(context));
    Ok(LogEntry { position, kind, data, context })
}

/// The entry at an index, where it is no operation.
pub(super) fn entry(view: &ReadView, index: LogIndex) -> Result<Option<LogEntry>, LogError> {
    let found = read(view, &numbered_key(ENTRY, index))?;
    found.map(|value| decode_entry(index, &value)).transpose()
}

/// The entries that are no operations, in their order.
pub(super) fn entries(view: &ReadView, indexes: Range<LogIndex>) -> Result<Vec<LogEntry>, LogError> {
    let range = numbered_range(ENTRY, indexes);
    let mut cursor = view.cursor(Keyspace::Meta, range, storage::Direction::Forward).map_err(failed)?;
    let mut entries = Vec::new();
    while let Some((key, value)) = cursor.next().map_err(failed)? {
        entries.push(decode_entry(number(key)?, value)?);
    }
    Ok(entries)
}

/// The index of the last entry that is no operation.
pub(super) fn last_entry(view: &ReadView) -> Result<Option<LogIndex>, LogError> {
    let range = numbered_range(ENTRY, 0..LogIndex::MAX);
    let mut cursor = view.cursor(Keyspace::Meta, range, storage::Direction::Backward).map_err(failed)?;
    let last = cursor.next().map_err(failed)?;
    last.map(|(key, _)| number(key)).transpose()
}

pub(super) fn remove_entries(unit: &mut WriteUnit, indexes: Range<LogIndex>) {
    unit.delete_range(Keyspace::Meta, &numbered_key(ENTRY, indexes.start), &numbered_key(ENTRY, indexes.end));
}

pub(super) fn put_segment(unit: &mut WriteUnit, segment: &Segment) {
    let value = join([segment.documents, segment.bytes, segment.timestamp.as_u64()]);
    unit.put(Keyspace::Meta, &numbered_key(SEGMENT, segment.last), &value);
}

pub(super) fn remove_segments(unit: &mut WriteUnit, ends: Range<LogIndex>) {
    unit.delete_range(Keyspace::Meta, &numbered_key(SEGMENT, ends.start), &numbered_key(SEGMENT, ends.end));
}

pub(super) fn segments(view: &ReadView) -> Result<Vec<Segment>, LogError> {
    let range = numbered_range(SEGMENT, 0..LogIndex::MAX);
    let mut cursor = view.cursor(Keyspace::Meta, range, storage::Direction::Forward).map_err(failed)?;
    let mut segments = Vec::new();
    while let Some((key, mut value)) = cursor.next().map_err(failed)? {
        let mut next = || take(&mut value, "a segment");
        let (documents, bytes, timestamp) = (next()?, next()?, Timestamp::from_u64(next()?));
        segments.push(Segment { last: number(key)?, documents, bytes, timestamp });
    }
    Ok(segments)
}
