//! The oplog: a capped collection whose owner gives each document its record id.
//!
//! The owner, the log of a replica set, puts and removes documents by units of its own, of which nobody is
//! told, and says up to which record readers see them. Clients only read. There is no index, not even of
//! `_id`; the documents are in the order of their `ts`.

use crate::catalog::Catalog;
use crate::collection::Collection;
use crate::definition::CollectionDefinition;
use crate::keys;
use crate::namespace::Namespace;
use crate::options::CappedLimits;
use crate::read::{DocumentCursor, EncodedRange};
use crate::state::CatalogEntry;
use crate::{CatalogError, CollectionOptions, OperationContext, ReadError};
use document::{RawDocument, RawValue, Timestamp};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier, ReadView, WriteUnit};

const DROP_REFUSED: i32 = 5_255_000;

/// Everything shows: nobody owns the oplog, or it is no oplog.
pub(crate) const ALL_RECORDS: u64 = u64::MAX;

/// The name of the oplog.
fn namespace() -> Namespace {
    Namespace::new("local", "oplog.rs")
}

impl CollectionDefinition {
    /// Whether this is the oplog. A capped collection of that name that a client has made has an index.
    pub fn is_oplog(&self) -> bool {
        self.indexes.is_empty() && self.is_capped() && self.namespace == namespace()
    }
}

impl CatalogEntry {
    fn is_oplog(&self) -> bool {
        matches!(self, CatalogEntry::Collection(collection) if collection.is_oplog())
    }

    pub(crate) fn check_droppable(&self) -> Result<(), CatalogError> {
        match self.is_oplog() {
            true => Err(CatalogError::Location {
                code: DROP_REFUSED,
                message: "can't drop live oplog while replicating".into(),
            }),
            false => Ok(()),
        }
    }

    pub(crate) fn check_renamable(&self) -> Result<(), CatalogError> {
        self.refuse_oplog("can't rename live oplog while replicating")
    }

    pub(crate) fn check_replaceable(&self) -> Result<(), CatalogError> {
        self.refuse_oplog("can't rename to live oplog while replicating")
    }

    fn refuse_oplog(&self, why: &str) -> Result<(), CatalogError> {
        match self.is_oplog() {
            true => Err(CatalogError::IllegalOperation(why.into())),
            false => Ok(()),
        }
    }
}

impl Catalog {
    /// The oplog. Where there is none, it is made, with room for so many bytes.
    ///
    /// # Errors
    /// `NamespaceExists` for a collection of another kind with its name; storage errors.
    pub async fn create_oplog(
        &self,
        context: &OperationContext<'_>,
        size_bytes: u64,
    ) -> Result<Arc<Collection>, CatalogError> {
        let _guard = self.begin_change(context).await?;
        let namespace = namespace();
        match self.entry(namespace.database(), namespace.collection()) {
            Some(CatalogEntry::Collection(oplog)) if oplog.is_oplog() => return Ok(oplog),
            Some(_) => {
                return Err(CatalogError::NamespaceExists(format!(
                    "{namespace} is not the oplog of a replica set: drop it first"
                )));
            }
            None => {}
        }
        let limits = CappedLimits { size_bytes_max: size_bytes, documents_max: None };
        let options = CollectionOptions { capped: Some(limits), ..CollectionOptions::default() };
        let id = self.next_id(context)?;
        let definition = CollectionDefinition::unindexed(id, ambient::uuid(), namespace, options)?;
        match self.add(context, definition).await? {
            CatalogEntry::Collection(oplog) => Ok(oplog),
            CatalogEntry::View(_) => unreachable!("made as a collection"),
        }
    }
}

impl Catalog {
    /// Removes the oplog of data that are to be nobody's any more.
    ///
    /// # Errors
    /// Storage errors.
    pub async fn remove_oplog(&self, context: &OperationContext<'_>) -> Result<(), CatalogError> {
        let _guard = self.begin_change(context).await?;
        let namespace = namespace();
        match self.entry(namespace.database(), namespace.collection()) {
            Some(entry) if entry.is_oplog() => {
                self.drop_entries(context, vec![(namespace, entry)], None).await
            }
            _ => Ok(()),
        }
    }
}

impl Collection {
    /// Puts documents under record ids that are not taken.
    pub fn put_records<'d>(
        &self,
        unit: &mut WriteUnit,
        records: impl IntoIterator<Item = (u64, RawDocument<'d>)>,
    ) {
        assert!(self.is_oplog(), "{self:?} gives its record ids itself");
        let (mut documents, mut bytes) = (0, 0);
        for (record, document) in records {
            let document = document.as_bytes();
            unit.put(Keyspace::Documents, &keys::row_key(self.id(), &record.to_be_bytes()), document);
            documents += 1;
            bytes += document.len() as i64;
        }
        self.count(unit, documents, bytes);
    }

    /// Removes all documents within a range of record ids, which are so many, of so many bytes.
    pub fn remove_records(&self, unit: &mut WriteUnit, records: Range<u64>, documents: u64, bytes: u64) {
        assert!(self.is_oplog(), "{self:?} gives its record ids itself");
        if let KeyRange { lower: Some(lower), upper: Some(upper) } = self.record_range(records) {
            unit.delete_range(Keyspace::Documents, &lower, &upper);
        }
        self.count(unit, -(documents as i64), -(bytes as i64));
    }

    fn count(&self, unit: &mut WriteUnit, documents: i64, bytes: i64) {
        unit.add_counter(keys::documents_counter(self.id()), documents);
        unit.add_counter(keys::bytes_counter(self.id()), bytes);
    }

    /// Gives back the room of records that were removed and never come again.
    pub fn reclaim_records(&self, records: Range<u64>) {
        self.store.reclaim(Keyspace::Documents, self.record_range(records));
    }

    fn record_range(&self, records: Range<u64>) -> KeyRange {
        let key = |record: u64| keys::row_key(self.id(), &record.to_be_bytes());
        KeyRange::new(key(records.start), key(records.end))
    }

    /// A walk over a range of record ids, whether readers see them or not.
    ///
    /// # Errors
    /// Storage errors.
    pub fn records(
        self: &Arc<Self>,
        view: &ReadView,
        records: Range<u64>,
        direction: Direction,
    ) -> Result<DocumentCursor, ReadError> {
        let (lower, upper) = (records.start.to_be_bytes(), records.end.to_be_bytes());
        let range = EncodedRange { lower: Some(&lower), upper: Some(&upper) };
        self.walk_documents(view, range.behind(&self.id().to_be_bytes()), direction, CursorOptions::default())
    }

    /// Readers see the documents up to this record id, and those who wait for more look again.
    pub fn show_records_through(&self, record: u64) {
        self.shown_through.store(record, Ordering::Release);
        self.inserted().notify();
    }

    /// Takes from a range what readers do not see yet.
    pub(crate) fn bound(&self, range: &mut KeyRange) {
        let through = self.shown_through.load(Ordering::Acquire);
        if through != ALL_RECORDS {
            let end = keys::row_key(self.id(), &(through + 1).to_be_bytes());
            range.upper =
                Some(range.upper.take().map_or_else(|| end.clone(), |upper| upper.min(end.clone())));
        }
    }

    /// The first record that readers see whose `ts` is not before this one, the last one where all are; found
    /// by a binary search.
    ///
    /// # Errors
    /// A document without `ts`; storage errors, [`storage::StorageError::WouldBlock`] among them.
    pub fn record_since(
        self: &Arc<Self>,
        view: &ReadView,
        timestamp: Timestamp,
        tier: ReadTier,
    ) -> Result<Option<(u64, Timestamp)>, ReadError> {
        let options = CursorOptions { tier, ..CursorOptions::default() };
        let open = |direction| self.documents(view, EncodedRange::default(), direction, options);
        let mut cursor = open(Direction::Forward)?;
        let Some(first) = self.place(cursor.next()?)? else { return Ok(None) };
        let last = self.place(open(Direction::Backward)?.next()?)?.unwrap_or(first);
        if first.1 >= timestamp || last.1 < timestamp {
            return Ok(Some(if first.1 >= timestamp { first } else { last }));
        }
        // All up to `before` are earlier. Of those from `end` on the first one is `found`, which is not.
        let (mut before, mut end, mut found) = (first.0, last.0, last);
        while before + 1 < end {
            let middle = before + (end - before) / 2;
            cursor.seek(&middle.to_be_bytes());
            match self.place(cursor.next()?)? {
                Some((record, earlier)) if earlier < timestamp => before = record,
                Some(later) => (end, found) = (middle, later),
                None => end = middle,
            }
        }
        Ok(Some(found))
    }

    fn place(&self, found: Option<(&[u8], RawDocument<'_>)>) -> Result<Option<(u64, Timestamp)>, ReadError> {
        let Some((key, document)) = found else { return Ok(None) };
        let record = key.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        match (record, document.get("ts")) {
            (Some(record), Some(RawValue::Timestamp(timestamp))) => Ok(Some((record, timestamp))),
            _ => Err(ReadError::Damaged(format!("the oplog has a document without a place: {key:02x?}"))),
        }
    }
}
