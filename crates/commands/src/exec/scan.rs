//! One way to documents (a part of the collection or of an index) and how far it was walked.

use super::ahead::{Ahead, Front};
use super::seen::SeenDocuments;
use crate::error::{CommandError, CommandResult};
use catalog::{
    Collection, CollectionDefinition, DocumentCursor, EncodedRange, IndexCursor, IndexDefinition, ReadError,
};
use document::key::{Decoder, SortOrder, decode, encode_owned, successor};
use document::{Document, DocumentBuf, DocumentBuilder, RawDocument, Timestamp, Value};
use query::aggregate::{Pause, YieldPolicy};
use query::plan::{Access, FieldOrder, IndexScan, KeyCheck, KeyScan, ScanDirection};
use std::sync::Arc;
use storage::{CursorOptions, Direction, PinnedBytes, ReadTier, ReadView};

/// Error code of a walk whose index went away.
const QUERY_PLAN_KILLED: i32 = 175;

/// A document that a walk stands on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Located<'d> {
    /// The document's key in its collection; empty behind a sort.
    pub(crate) document_key: &'d [u8],
    /// The document; put together from the index entry when the plan is covered, empty when nothing of it is
    /// needed.
    pub(crate) document: RawDocument<'d>,
    /// Encoded fields and type bits of the index entry that led here.
    pub(crate) entry: Option<(&'d [u8], &'d [u8])>,
    /// What the plan's bounds were to prove, they prove: only the residual filter is left to check.
    pub(super) as_planned: bool,
}

impl<'d> Located<'d> {
    /// A document that was made or kept: it has no place in a collection.
    pub(crate) const fn of(document: RawDocument<'d>) -> Self {
        Located { document_key: &[], document, entry: None, as_planned: true }
    }
}

/// What to do after a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was taken; go on.
    Take,
    /// It does not count; go on with the very next one.
    Ignore,
    /// It was taken; pause.
    TakeAndStop,
    /// It was not taken: pause in front of it.
    Refuse,
}

/// What a scan has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ScanFigures {
    /// Index entries looked at.
    pub(crate) keys: u64,
    /// Documents read.
    pub(crate) documents: u64,
    /// Leaps over parts of an index.
    pub(crate) seeks: u64,
    /// Documents that came out behind the filter.
    pub(crate) returned: u64,
}

#[derive(Debug)]
enum ScanMethod {
    Lookup {
        document_key: Vec<u8>,
    },
    Documents {
        keys: KeyScan,
        direction: ScanDirection,
        /// Operations of the oplog before this are not wanted: the walk has not looked yet where they end.
        since: Option<Timestamp>,
    },
    Entries(Box<Entries>),
}

#[derive(Debug)]
struct Entries {
    index: Arc<IndexDefinition>,
    keys: KeyScan,
    scan: IndexScan,
    directions: Vec<SortOrder>,
    /// The index has arrays where it had them when it was planned: its bounds prove what they were to prove.
    as_planned: bool,
    /// Documents are put together from the entries.
    covered: bool,
    /// Not even that is needed.
    bare: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Start,
    /// Behind the remembered key.
    Behind,
    /// At the remembered key.
    At,
    End,
}

#[derive(Debug)]
enum OpenCursor {
    Documents(DocumentCursor),
    Entries(IndexCursor),
}

/// Where a scan stands.
#[derive(Debug)]
struct Position {
    mark: Mark,
    key: Vec<u8>,
    /// The cursor stands elsewhere and must seek the key.
    must_seek: bool,
    /// A tailable walk: where it ends it can go on later.
    tracked: bool,
}

/// One way to documents.
#[derive(Debug)]
pub(super) struct Scan {
    method: ScanMethod,
    position: Position,
    cursor: Option<OpenCursor>,
    /// How far the cursor reads.
    cursor_tier: ReadTier,
    ahead: Ahead,
    /// Documents may be met twice.
    pub(super) deduplicate: bool,
    pub(super) figures: ScanFigures,
}

/// What a scan reads from.
pub(super) struct Reading<'r> {
    pub(super) collection: &'r Arc<Collection>,
    pub(super) view: &'r ReadView,
    /// How far reads may go. Where that is not enough the walk pauses in front of what it cannot read.
    pub(super) tier: ReadTier,
}

/// A longer document is filtered, changed and copied where that may take long.
pub(crate) const LONG_DOCUMENT: usize = 64 << 10;

impl Reading<'_> {
    /// Whether the walk goes elsewhere for this document.
    fn leaves(&self, document: RawDocument<'_>) -> bool {
        self.tier != ReadTier::Any && document.as_bytes().len() > LONG_DOCUMENT
    }
}

/// What a read gave, `None` when it would have had to go further than it may.
#[inline]
fn within_tier<T>(read: Result<T, ReadError>) -> CommandResult<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.would_block() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Position {
    #[inline]
    fn set(&mut self, mark: Mark, parts: [&[u8]; 2]) {
        self.mark = mark;
        self.key.clear();
        for part in parts {
            self.key.extend_from_slice(part);
        }
    }

    /// Counts a step that ended at this key, and keeps the key where it may be needed. True when the slice
    /// is over.
    #[inline]
    fn step(
        &mut self,
        policy: &mut (impl YieldPolicy + ?Sized),
        remembers: bool,
        mark: Mark,
        parts: [&[u8]; 2],
    ) -> bool {
        let over = policy.should_yield();
        if over || remembers {
            self.set(mark, parts);
        }
        over
    }

    /// Whether this is the key that was taken before the walk paused. Asked once after a seek.
    #[inline]
    fn is_behind(&mut self, fresh: &mut bool, parts: [&[u8]; 2]) -> bool {
        if !std::mem::take(fresh) || self.mark != Mark::Behind {
            return false;
        }
        let [first, second] = parts;
        self.key.strip_prefix(first).is_some_and(|rest| rest == second)
    }
}

impl Scan {
    /// The scan of one access that is no union.
    pub(super) fn new(
        access: &Access,
        definition: &CollectionDefinition,
        bare: bool,
        tailable: bool,
    ) -> CommandResult<Option<Self>> {
        let mut deduplicate = false;
        let method = match access {
            Access::Empty | Access::Union(_) => return Ok(None),
            Access::IdLookup { id } => {
                let mut document_key = Vec::with_capacity(32);
                encode_owned(&mut document_key, id);
                ScanMethod::Lookup { document_key }
            }
            Access::CollectionScan { direction, ids } => {
                let keys = match ids {
                    Some(ids) => KeyScan::of_ids(ids, *direction),
                    None => KeyScan { lower: Vec::new(), upper: None, checker: None },
                };
                ScanMethod::Documents { keys, direction: *direction, since: None }
            }
            Access::IndexScan(scan) if scan.index.clustered => {
                if let Some(index) = definition.index(&scan.index.name) {
                    index.count_use();
                }
                let (keys, direction) = (KeyScan::of_index(scan), scan.direction);
                ScanMethod::Documents { keys, direction, since: None }
            }
            Access::IndexScan(scan) => {
                deduplicate = scan.deduplicate;
                let index = definition.index(&scan.index.name).ok_or_else(|| dropped(&scan.index.name))?;
                index.count_use();
                ScanMethod::Entries(Box::new(Entries {
                    index: Arc::clone(index),
                    keys: KeyScan::of_index(scan),
                    directions: scan.index.key_directions(),
                    as_planned: true,
                    covered: scan.covered,
                    bare,
                    scan: scan.clone(),
                }))
            }
        };
        let position = Position { mark: Mark::Start, key: Vec::new(), must_seek: false, tracked: tailable };
        Ok(Some(Scan {
            method,
            position,
            cursor: None,
            cursor_tier: ReadTier::Any,
            ahead: Ahead::default(),
            deduplicate,
            figures: ScanFigures::default(),
        }))
    }

    /// The walk goes over the oplog, and operations before this one are not wanted.
    pub(super) fn begin_at(&mut self, timestamp: Timestamp) {
        if let ScanMethod::Documents { since, .. } = &mut self.method {
            *since = Some(timestamp);
        }
    }

    /// Looks where the walk over the oplog begins or ends. Where nothing is wanted that is the last
    /// operation, from which a tailable walk goes on. False when that is not in memory.
    fn find_start(&mut self, reading: &Reading<'_>) -> CommandResult<bool> {
        let ScanMethod::Documents { keys, since, .. } = &mut self.method else { return Ok(true) };
        let Some(timestamp) = *since else { return Ok(true) };
        let found = reading.collection.record_since(reading.view, timestamp, reading.tier);
        let Some(found) = within_tier(found)? else { return Ok(false) };
        if let Some((record, _)) = found {
            keys.lower = record.to_be_bytes().to_vec();
        }
        *since = None;
        Ok(true)
    }

    /// Whether the walk follows an index.
    pub(super) const fn walks_an_index(&self) -> bool {
        matches!(self.method, ScanMethod::Entries(_))
    }

    /// Lets go of the cursor; the next run seeks the position.
    pub(super) fn save(&mut self) {
        self.cursor = None;
        self.ahead.let_go();
    }

    /// Where a tailable walk stands: the key of the last document it saw.
    pub(super) fn last_seen(&self) -> Option<&[u8]> {
        (self.position.mark == Mark::Behind).then_some(&self.position.key)
    }

    /// Walks on until something makes it pause.
    pub(super) fn run(
        &mut self,
        reading: &Reading<'_>,
        policy: &mut (impl YieldPolicy + ?Sized),
        seen: &mut Option<SeenDocuments>,
        visit: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        if self.position.mark == Mark::End {
            return Ok(Pause::End);
        }
        if self.cursor_tier != reading.tier {
            self.save();
            self.cursor_tier = reading.tier;
        }
        let pause = match &self.method {
            ScanMethod::Lookup { .. } => self.run_lookup(reading, seen, visit),
            ScanMethod::Documents { .. } => self.run_documents(reading, policy, seen, visit),
            ScanMethod::Entries(_) => self.run_entries(reading, policy, seen, visit),
        }?;
        if matches!(pause, Pause::End | Pause::WouldBlock) {
            self.save();
        }
        if pause == Pause::End && !self.position.tracked {
            self.position.mark = Mark::End;
        }
        Ok(pause)
    }

    fn run_lookup(
        &mut self,
        reading: &Reading<'_>,
        seen: &mut Option<SeenDocuments>,
        visit: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        let ScanMethod::Lookup { document_key } = &self.method else {
            unreachable!("another way than {:?}", self.method)
        };
        reading.collection.check_alive()?;
        if self.position.mark == Mark::Behind || seen.as_ref().is_some_and(|seen| seen.contains(document_key))
        {
            return Ok(Pause::End);
        }
        let fetched = reading.collection.fetch(reading.view, document_key, reading.tier);
        let Some(found) = within_tier(fetched)? else { return Ok(Pause::WouldBlock) };
        let Some(bytes) = found else { return Ok(Pause::End) };
        let document = RawDocument::trusted(&bytes);
        if reading.leaves(document) {
            return Ok(Pause::WouldBlock);
        }
        self.figures.keys += 1;
        self.figures.documents += 1;
        let verdict = visit(Located { document_key, document, entry: None, as_planned: true })?;
        if verdict == Verdict::Refuse {
            return Ok(Pause::Stopped);
        }
        self.position.mark = Mark::Behind;
        remember(seen, document_key);
        Ok(if verdict == Verdict::TakeAndStop { Pause::Stopped } else { Pause::End })
    }

    fn run_documents(
        &mut self,
        reading: &Reading<'_>,
        policy: &mut (impl YieldPolicy + ?Sized),
        seen: &mut Option<SeenDocuments>,
        visit: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        if !self.find_start(reading)? {
            return Ok(Pause::WouldBlock);
        }
        let mut fresh = self.ready(reading)?;
        let remembers = self.remembers(reading);
        let Scan {
            method: ScanMethod::Documents { keys, .. },
            position,
            cursor: Some(OpenCursor::Documents(cursor)),
            ahead,
            figures,
            ..
        } = self
        else {
            // Taken for the end, what is left would be missing from the answer.
            panic!("a walk has no cursor of its own kind: {self:?}");
        };
        loop {
            let Some(next) = within_tier(cursor.next())? else { return Ok(Pause::WouldBlock) };
            let Some((key, document)) = next else { return Ok(Pause::End) };
            if fresh && position.is_behind(&mut fresh, [key, &[]]) {
                continue;
            }
            if let Some(checker) = &mut keys.checker {
                match checker.check(key) {
                    KeyCheck::Inside => {}
                    KeyCheck::Outside => {
                        if position.step(policy, remembers, Mark::Behind, [key, &[]]) {
                            return Ok(Pause::Sliced);
                        }
                        continue;
                    }
                    KeyCheck::Seek(target) => {
                        figures.seeks += 1;
                        let began = ahead.begin_read(reading.tier);
                        cursor.seek(target);
                        ahead.end_read(began);
                        if position.step(policy, remembers, Mark::At, [target, &[]]) {
                            return Ok(Pause::Sliced);
                        }
                        continue;
                    }
                    KeyCheck::Done => return Ok(Pause::End),
                }
                if ahead.is_due() {
                    let front = (!ahead.has_front()).then(|| Front::Points { at: key.to_vec() });
                    ahead.ask(reading, front, Some(checker))?;
                }
            }
            if seen.as_ref().is_some_and(|seen| seen.contains(key)) {
                if position.step(policy, remembers, Mark::Behind, [key, &[]]) {
                    return Ok(Pause::Sliced);
                }
                continue;
            }
            if reading.leaves(document) {
                // The walk comes back to this document.
                position.set(Mark::At, [key, &[]]);
                return Ok(Pause::WouldBlock);
            }
            figures.documents += 1;
            match visit(Located { document_key: key, document, entry: None, as_planned: true })? {
                Verdict::Take | Verdict::Ignore => {
                    remember(seen, key);
                    if position.step(policy, remembers, Mark::Behind, [key, &[]]) {
                        return Ok(Pause::Sliced);
                    }
                }
                Verdict::TakeAndStop => {
                    remember(seen, key);
                    position.set(Mark::Behind, [key, &[]]);
                    return Ok(Pause::Stopped);
                }
                Verdict::Refuse => {
                    position.set(Mark::At, [key, &[]]);
                    position.must_seek = true;
                    return Ok(Pause::Stopped);
                }
            }
        }
    }

    fn run_entries(
        &mut self,
        reading: &Reading<'_>,
        policy: &mut (impl YieldPolicy + ?Sized),
        seen: &mut Option<SeenDocuments>,
        visit: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        let mut fresh = self.ready(reading)?;
        let remembers = self.remembers(reading);
        if self.deduplicate && seen.is_none() {
            *seen = Some(SeenDocuments::default());
        }
        let Scan {
            method: ScanMethod::Entries(entries),
            position,
            cursor: Some(OpenCursor::Entries(cursor)),
            ahead,
            figures,
            ..
        } = self
        else {
            // Taken for the end, what is left would be missing from the answer.
            panic!("a walk has no cursor of its own kind: {self:?}");
        };
        loop {
            let Some(next) = within_tier(cursor.next())? else { return Ok(Pause::WouldBlock) };
            let Some(entry) = next else { return Ok(Pause::End) };
            let at = [entry.fields, entry.document_key];
            if fresh && position.is_behind(&mut fresh, at) {
                continue;
            }
            figures.keys += 1;
            if let Some(checker) = &mut entries.keys.checker {
                match checker.check(behind_prefix(&entry)) {
                    KeyCheck::Inside => {}
                    KeyCheck::Outside => {
                        if position.step(policy, remembers, Mark::Behind, at) {
                            return Ok(Pause::Sliced);
                        }
                        continue;
                    }
                    KeyCheck::Seek(target) => {
                        figures.seeks += 1;
                        cursor.seek(target);
                        if position.step(policy, remembers, Mark::At, [target, &[]]) {
                            return Ok(Pause::Sliced);
                        }
                        continue;
                    }
                    KeyCheck::Done => return Ok(Pause::End),
                }
            }
            let known = seen.as_ref().is_some_and(|seen| seen.contains(entry.document_key));
            if ahead.is_due() {
                let front = if ahead.has_front() { None } else { Some(entries.front(reading, at)?) };
                ahead.ask(reading, front, entries.keys.checker.as_mut())?;
            }
            let began = if entries.is_followed() { ahead.begin_read(reading.tier) } else { None };
            let held = if known { EntryDocument::Gone } else { entries.hold(reading, &entry, figures)? };
            ahead.end_read(began);
            if matches!(held, EntryDocument::NotInMemory) {
                // The walk comes back to this entry.
                figures.keys -= 1;
                position.set(Mark::At, at);
                return Ok(Pause::WouldBlock);
            }
            let verdict = match held.document() {
                None => Verdict::Ignore,
                Some(document) => visit(Located {
                    document_key: entry.document_key,
                    document,
                    entry: Some((entry.fields, entry.type_bits)),
                    as_planned: entries.as_planned,
                })?,
            };
            if verdict == Verdict::Refuse {
                position.set(Mark::At, at);
                position.must_seek = true;
                return Ok(Pause::Stopped);
            }
            if !matches!(held, EntryDocument::Gone) {
                remember(seen, entry.document_key);
            }
            let over = policy.should_yield();
            let pauses = over || verdict == Verdict::TakeAndStop;
            if pauses || remembers {
                position.set(Mark::Behind, at);
            }
            if verdict != Verdict::Ignore
                && let Some(count) = entries.scan.distinct_fields
                && let Some(target) = entries.behind_group(entry.fields, count)?
            {
                figures.seeks += 1;
                cursor.seek(&target);
                if pauses || remembers {
                    position.set(Mark::At, [&target, &[]]);
                }
            }
            if verdict == Verdict::TakeAndStop {
                return Ok(Pause::Stopped);
            }
            if over {
                return Ok(Pause::Sliced);
            }
        }
    }

    /// Whether the position is kept at every step: the walk may have to pause between any two.
    fn remembers(&self, reading: &Reading<'_>) -> bool {
        self.position.tracked || reading.tier == ReadTier::BlockCache
    }

    /// Opens the cursor when it is not, and brings it to the position. True when the next key may be one that
    /// was taken.
    fn ready(&mut self, reading: &Reading<'_>) -> CommandResult<bool> {
        let must_seek = std::mem::take(&mut self.position.must_seek) || self.cursor.is_none();
        if self.cursor.is_none() {
            self.open(reading)?;
        }
        if !must_seek || self.position.mark == Mark::Start {
            return Ok(false);
        }
        match &mut self.cursor {
            Some(OpenCursor::Documents(cursor)) => cursor.seek(&self.position.key),
            Some(OpenCursor::Entries(cursor)) => cursor.seek(&self.position.key),
            None => {
                assert!(matches!(self.method, ScanMethod::Lookup { .. }), "a walk has no cursor: {self:?}")
            }
        }
        Ok(true)
    }

    fn open(&mut self, reading: &Reading<'_>) -> CommandResult {
        let options = CursorOptions { tier: reading.tier, ..CursorOptions::default() };
        let Reading { collection, view, .. } = reading;
        self.cursor = Some(match &mut self.method {
            ScanMethod::Lookup { .. } => return Ok(()),
            ScanMethod::Documents { keys, direction, .. } => {
                let range = range_of(keys);
                OpenCursor::Documents(collection.documents(
                    view,
                    range,
                    storage_direction(*direction),
                    options,
                )?)
            }
            ScanMethod::Entries(entries) => {
                let direction = storage_direction(entries.scan.direction);
                let range = range_of(&entries.keys);
                let cursor = collection.index_entries(view, &entries.index, range, direction, options)?;
                // The definition of after the opening accounts for all that the cursor sees.
                let definition = collection.definition();
                let Some(index) = definition.index_by_id(entries.index.id) else {
                    return Err(dropped(&entries.index.spec.name));
                };
                let mut parts = entries.scan.index.fields.iter().zip(&index.multikey);
                if !parts.all(|(part, arrays)| part.has_arrays_at(*arrays)) {
                    entries.as_planned = false;
                    entries.covered = false;
                    self.deduplicate = true;
                }
                OpenCursor::Entries(cursor)
            }
        });
        Ok(())
    }
}

/// The document of an entry.
enum EntryDocument {
    Read(PinnedBytes),
    Assembled(DocumentBuf),
    /// Nothing of it is needed.
    Bare,
    /// There is none any more, or it was met before.
    Gone,
    /// It would have to be read from further away than the slice may read.
    NotInMemory,
}

impl EntryDocument {
    fn document(&self) -> Option<RawDocument<'_>> {
        match self {
            EntryDocument::Read(bytes) => Some(RawDocument::trusted(bytes)),
            EntryDocument::Assembled(document) => Some(document.as_raw()),
            EntryDocument::Bare => Some(RawDocument::EMPTY),
            EntryDocument::Gone | EntryDocument::NotInMemory => None,
        }
    }
}

impl Entries {
    /// Whether each entry leads to a document, which is read.
    const fn is_followed(&self) -> bool {
        !self.covered && self.scan.distinct_fields.is_none()
    }

    /// A second walk, that begins behind this entry.
    fn front(&self, reading: &Reading<'_>, at: [&[u8]; 2]) -> CommandResult<Front> {
        let options = CursorOptions { tier: reading.tier, ..CursorOptions::default() };
        let (range, direction) = (range_of(&self.keys), storage_direction(self.scan.direction));
        let mut cursor =
            reading.collection.index_entries(reading.view, &self.index, range, direction, options)?;
        cursor.seek(&at.concat());
        // The entry itself.
        let _ = cursor.next()?;
        Ok(Front::Entries(Box::new(cursor)))
    }

    fn hold(
        &self,
        reading: &Reading<'_>,
        entry: &catalog::IndexEntry<'_>,
        figures: &mut ScanFigures,
    ) -> CommandResult<EntryDocument> {
        if self.covered {
            if self.bare {
                return Ok(EntryDocument::Bare);
            }
            let values = decode(entry.fields, entry.type_bits, &self.directions).map_err(unreadable)?;
            // A null key stands for a missing field too: only the document tells.
            if !values.iter().any(|value| matches!(value, Value::Null)) {
                return Ok(EntryDocument::Assembled(self.assemble(values)));
            }
        }
        let fetched = reading.collection.fetch(reading.view, entry.document_key, reading.tier);
        let Some(found) = within_tier(fetched)? else { return Ok(EntryDocument::NotInMemory) };
        let Some(bytes) = found else { return Ok(EntryDocument::Gone) };
        if reading.leaves(RawDocument::trusted(&bytes)) {
            return Ok(EntryDocument::NotInMemory);
        }
        figures.documents += 1;
        Ok(EntryDocument::Read(bytes))
    }

    /// The part of the document that the entry tells; of a hashed field it does not tell the value.
    fn assemble(&self, values: Vec<Value>) -> DocumentBuf {
        let fields = &self.scan.index.fields;
        let told = fields.iter().zip(values).filter(|(field, _)| field.order != FieldOrder::Hashed);
        if fields.iter().any(|field| field.path.dotted().contains('.')) {
            let mut document = Document::new();
            for (field, value) in told {
                insert_at(&mut document, field.path.dotted(), value);
            }
            return document.to_buf();
        }
        let mut bytes = Vec::with_capacity(64);
        let mut builder = DocumentBuilder::new(&mut bytes);
        for (field, value) in told {
            builder.append_value(field.path.dotted(), &value);
        }
        builder.finish();
        DocumentBuf::trusted(bytes)
    }

    /// Where the entries with other values in the first `count` fields begin, in the direction of the walk.
    fn behind_group(&self, fields: &[u8], count: usize) -> CommandResult<Option<Vec<u8>>> {
        let mut decoder = Decoder::new(fields, &[]);
        for direction in self.directions.iter().take(count) {
            decoder.skip(*direction).map_err(unreadable)?;
        }
        let (group, _) = fields.split_at(fields.len() - decoder.rest().len());
        Ok(match self.scan.direction {
            ScanDirection::Forward => successor(group),
            ScanDirection::Backward => Some(group.to_vec()),
        })
    }
}

fn unreadable(error: impl std::fmt::Display) -> CommandError {
    CommandError::internal(format!("an index entry cannot be read: {error}"))
}

/// The bytes of an entry behind collection and index: fields, then document key.
pub(super) fn behind_prefix<'e>(entry: &catalog::IndexEntry<'e>) -> &'e [u8] {
    let length = entry.fields.len() + entry.document_key.len();
    entry.key.split_at(entry.key.len() - length).1
}

fn insert_at(document: &mut Document, path: &str, value: Value) {
    let Some((head, rest)) = path.split_once('.') else {
        document.insert(path, value);
        return;
    };
    if !matches!(document.get(head), Some(Value::Document(_))) {
        document.insert(head, Value::Document(Document::new()));
    }
    if let Some(Value::Document(inner)) = document.get_mut(head) {
        insert_at(inner, rest, value);
    }
}

fn remember(seen: &mut Option<SeenDocuments>, document_key: &[u8]) {
    if let Some(seen) = seen {
        seen.insert(document_key);
    }
}

fn range_of(keys: &KeyScan) -> EncodedRange<'_> {
    EncodedRange { lower: Some(&keys.lower), upper: keys.upper.as_deref() }
}

const fn storage_direction(direction: ScanDirection) -> Direction {
    match direction {
        ScanDirection::Forward => Direction::Forward,
        ScanDirection::Backward => Direction::Backward,
    }
}

fn dropped(index: &str) -> CommandError {
    CommandError::new(QUERY_PLAN_KILLED, format!("index '{index}' dropped"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Slice;
    use crate::testing::{TestClient, server};
    use document::doc;

    #[test]
    #[should_panic(expected = "a walk has no cursor of its own kind")]
    fn a_missing_cursor_is_not_the_end() {
        let server = server();
        TestClient::of(&server).run(doc! { "insert": "c", "documents": [{ "_id": 1 }] });
        let collection = server.node.catalog.collection("test", "c").expect("the collection");
        let (definition, view) = (collection.definition(), server.node.store.pinned_view());
        let everything = Access::CollectionScan { direction: ScanDirection::Forward, ids: None };
        let scan = Scan::new(&everything, &definition, false, false).expect("a scan");
        let mut scan = scan.expect("it is no union");
        let index = definition.index("_id_").expect("the index");
        let range = EncodedRange { lower: None, upper: None };
        let entries =
            collection.index_entries(&view, index, range, Direction::Forward, CursorOptions::default());
        scan.cursor = Some(OpenCursor::Entries(entries.expect("a cursor")));
        let reading = Reading { collection: &collection, view: &view, tier: ReadTier::Any };
        let mut slice = Slice::of_steps(10, ReadTier::Any);
        let pause = scan.run(&reading, &mut slice, &mut None, &mut |_| Ok(Verdict::Take));
        assert!(pause.is_err(), "it is said to be over: {pause:?}");
    }
}
