//! The one door: whatever changes the data or the catalog is told here as what it is, and put into a write
//! unit as bytes.
//!
//! ```text
//!  insert, update, delete ─┐             ┌─▶ ChangeObserver: lent, for this moment; may add to the unit
//!                          ├─▶ Changes ──┤
//!  create, drop, indexes ──┘             └─▶ WriteUnit: documents, entries, counters ─▶ commit ─▶ Receipts
//! ```
//! Nothing else in this crate puts anything into the store. Who keeps a log of changes, reports or examines
//! them, does it as an observer: it sees each change once, in the unit that makes it, and what it adds is
//! applied with it or not at all. Several changes may share a unit.

use crate::definition::{CollectionDefinition, IndexDefinition};
use crate::error::Uncommitted;
use crate::index_keys::IndexEntryBuf;
use crate::keys::{self, CollectionId, IndexId};
use crate::namespace::Namespace;
use crate::{OperationContext, Writer};
use document::RawDocument;
use query::checkpoint::End;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use storage::{CommitError, Growth, HeldLatches, KeyRange, Keyspace, QueuePlace, Store, WriteUnit};

/// A change, lent to those who are told of it. Definitions are those from the change on, of what is dropped
/// the last ones.
#[derive(Debug, Clone, Copy)]
pub enum Change<'c> {
    /// A document comes.
    Insert {
        /// Of the collection.
        definition: &'c CollectionDefinition,
        /// The document's key in it.
        document_key: &'c [u8],
        /// The document.
        document: RawDocument<'c>,
        /// Its place among those that the operation inserts.
        position: usize,
    },
    /// A document takes the place of another one with its `_id`.
    Update {
        /// Of the collection.
        definition: &'c CollectionDefinition,
        /// The document's key in it.
        document_key: &'c [u8],
        /// The document as it was.
        before: RawDocument<'c>,
        /// The document as it is.
        after: RawDocument<'c>,
        /// Whether it was given as a whole, and not made from the one before.
        replaces: bool,
    },
    /// A document goes, on demand or out of a full capped collection.
    Delete {
        /// Of the collection.
        definition: &'c CollectionDefinition,
        /// The document's key in it.
        document_key: &'c [u8],
        /// The document as it was.
        document: RawDocument<'c>,
    },
    /// A collection or view comes.
    Create(&'c CollectionDefinition),
    /// A collection or view goes, and all that is in it.
    Drop(&'c CollectionDefinition),
    /// A collection gets another name, that of its definition.
    Rename {
        /// What it was called.
        from: &'c Namespace,
        /// Of the collection.
        definition: &'c CollectionDefinition,
    },
    /// The options of a collection, of an index of it, or of a view change.
    Modify {
        /// It until then.
        before: &'c CollectionDefinition,
        /// It from now on.
        definition: &'c CollectionDefinition,
    },
    /// Indexes come: ready, or to be built.
    CreateIndexes {
        /// Of the collection.
        definition: &'c CollectionDefinition,
        /// Those that come.
        indexes: &'c [Arc<IndexDefinition>],
    },
    /// Indexes have been built.
    CommitIndexBuild {
        /// Of the collection.
        definition: &'c CollectionDefinition,
        /// Those that are ready now.
        indexes: &'c [Arc<IndexDefinition>],
        /// Those whose places they take.
        replaced: &'c [Arc<IndexDefinition>],
    },
    /// Indexes go, ready ones or some whose build is given up.
    DropIndexes {
        /// Of the collection.
        definition: &'c CollectionDefinition,
        /// Those that go.
        indexes: &'c [Arc<IndexDefinition>],
    },
}

impl<'c> Change<'c> {
    /// The collection or view that changes, or that has documents or indexes that do.
    pub const fn definition(&self) -> &'c CollectionDefinition {
        match *self {
            Change::Insert { definition, .. }
            | Change::Update { definition, .. }
            | Change::Delete { definition, .. }
            | Change::Create(definition)
            | Change::Drop(definition)
            | Change::Rename { definition, .. }
            | Change::Modify { definition, .. }
            | Change::CreateIndexes { definition, .. }
            | Change::CommitIndexBuild { definition, .. }
            | Change::DropIndexes { definition, .. } => definition,
        }
    }
}

/// Is told of every change when it is put into its write unit, which may be refused yet.
pub trait ChangeObserver: std::fmt::Debug + Send + Sync {
    /// Sees a change, and may add to the unit that makes it. Called with latches held: it must not wait.
    fn observe(&self, change: Change<'_>, unit: &mut WriteUnit);

    /// Changes begin to be put into another unit. The one before it is whole, or refused.
    fn begin_unit(&self) {}

    /// All changes of the unit have been seen: it is to be committed. Upkeep of indexes is committed in units
    /// of its own, of which nothing is told.
    fn end_unit(&self, _unit: &mut WriteUnit) {}

    /// The unit that was ended last is applied.
    fn committed(&self) {}
}

/// Changes on their way into one write unit.
pub(crate) struct Changes<'o> {
    context: &'o OperationContext<'o>,
    unit: WriteUnit,
    counted: Counted,
    /// Bytes that the documents' changes add; `None` when there are none.
    growth: Option<i64>,
    /// Whether the observer knows of the unit.
    is_told: bool,
}

/// What is to be added to the counters of the collection that was changed last.
#[derive(Default)]
struct Counted {
    collection: CollectionId,
    documents: i64,
    bytes: i64,
}

impl<'o> Changes<'o> {
    pub(crate) fn new(context: &'o OperationContext<'o>) -> Self {
        Changes::with_capacity(context, 0)
    }

    /// With room for so many bytes of documents and entries.
    pub(crate) fn with_capacity(context: &'o OperationContext<'o>, bytes: usize) -> Self {
        Changes {
            context,
            unit: WriteUnit::with_capacity(bytes),
            counted: Counted::default(),
            growth: None,
            is_told: false,
        }
    }

    #[inline]
    fn tell(&mut self, change: Change<'_>) {
        if let Some(observer) = self.context.observer {
            if !std::mem::replace(&mut self.is_told, true) {
                observer.begin_unit();
            }
            observer.observe(change, &mut self.unit);
        }
    }

    fn count(&mut self, collection: CollectionId, documents: i64, bytes: i64) {
        if self.counted.collection != collection {
            self.add_counted();
            self.counted.collection = collection;
        }
        self.counted.documents += documents;
        self.counted.bytes += bytes;
    }

    fn add_counted(&mut self) {
        let Counted { collection, documents, bytes } = std::mem::take(&mut self.counted);
        self.unit.add_counter(keys::documents_counter(collection), documents);
        self.unit.add_counter(keys::bytes_counter(collection), bytes);
    }

    fn put_entry(&mut self, entry: &IndexEntryBuf) -> i64 {
        match keys::is_note(&entry.key) {
            false => self.unit.put(Keyspace::Indexes, &entry.key, &entry.value),
            true => self.unit.put(Keyspace::Indexes, &entry.key, &keys::note_value(true, &entry.value)),
        }
        entry_bytes(entry)
    }

    fn delete_entry(&mut self, entry: &IndexEntryBuf) -> i64 {
        match keys::is_note(&entry.key) {
            false => self.unit.delete(Keyspace::Indexes, &entry.key),
            true => self.unit.put(Keyspace::Indexes, &entry.key, &keys::note_value(false, &entry.value)),
        }
        entry_bytes(entry)
    }

    /// A document comes, with its entries; where it is among those of the operation. `key` is its own in the
    /// store, as below.
    pub(crate) fn insert<'e>(
        &mut self,
        definition: &CollectionDefinition,
        key: &[u8],
        (document, position): (RawDocument<'_>, usize),
        entries: impl Iterator<Item = &'e IndexEntryBuf>,
    ) {
        let bytes = length(document);
        self.unit.put(Keyspace::Documents, key, document.as_bytes());
        let entries: i64 = entries.map(|entry| self.put_entry(entry)).sum();
        *self.growth.get_or_insert(0) += bytes + entries;
        self.count(definition.id, 1, bytes);
        let document_key = keys::behind_collection(key);
        self.tell(Change::Insert { definition, document_key, document, position });
    }

    /// A document takes the place of another one, as a whole or made from it; these entries go and those
    /// come.
    pub(crate) fn update<'e>(
        &mut self,
        definition: &CollectionDefinition,
        key: &[u8],
        (before, after, replaces): (RawDocument<'_>, RawDocument<'_>, bool),
        removed: impl Iterator<Item = &'e IndexEntryBuf>,
        added: impl Iterator<Item = &'e IndexEntryBuf>,
    ) {
        let bytes = length(after) - length(before);
        self.unit.put(Keyspace::Documents, key, after.as_bytes());
        let removed: i64 = removed.map(|entry| self.delete_entry(entry)).sum();
        let added: i64 = added.map(|entry| self.put_entry(entry)).sum();
        *self.growth.get_or_insert(0) += bytes + added - removed;
        self.count(definition.id, 0, bytes);
        let document_key = keys::behind_collection(key);
        self.tell(Change::Update { definition, document_key, before, after, replaces });
    }

    /// A document goes, with its entries.
    pub(crate) fn delete<'e>(
        &mut self,
        definition: &CollectionDefinition,
        key: &[u8],
        document: RawDocument<'_>,
        entries: impl Iterator<Item = &'e IndexEntryBuf>,
    ) {
        let bytes = length(document);
        self.unit.delete(Keyspace::Documents, key);
        let entries: i64 = entries.map(|entry| self.delete_entry(entry)).sum();
        *self.growth.get_or_insert(0) -= bytes + entries;
        self.count(definition.id, -1, -bytes);
        self.tell(Change::Delete { definition, document_key: keys::behind_collection(key), document });
    }

    fn record(&mut self, definition: &CollectionDefinition) {
        let record = definition.to_record();
        self.unit.put(Keyspace::Meta, &keys::record_key(definition.id), record.as_bytes());
    }

    /// A collection or view comes, with the next id there is.
    pub(crate) fn create(&mut self, definition: &CollectionDefinition) {
        self.unit.put(Keyspace::Meta, keys::NEXT_ID_KEY, &(definition.id + 1).to_be_bytes());
        self.record(definition);
        self.tell(Change::Create(definition));
    }

    /// A collection or view goes, and all that is in it.
    pub(crate) fn drop(&mut self, definition: &CollectionDefinition) {
        let id = definition.id;
        self.unit.delete(Keyspace::Meta, &keys::record_key(id));
        self.delete_range(Keyspace::Documents, &keys::document_range(id));
        self.delete_range(Keyspace::Indexes, &keys::indexes_range(id));
        self.unit.remove_counter(keys::documents_counter(id));
        self.unit.remove_counter(keys::bytes_counter(id));
        self.unit.set_growth(Growth::Shrinks);
        self.tell(Change::Drop(definition));
    }

    /// A collection gets another name.
    pub(crate) fn rename(&mut self, from: &Namespace, definition: &CollectionDefinition) {
        self.record(definition);
        // A name takes no more room than the one before.
        self.unit.set_growth(Growth::Shrinks);
        self.tell(Change::Rename { from, definition });
    }

    /// Options change.
    pub(crate) fn modify(&mut self, before: &CollectionDefinition, definition: &CollectionDefinition) {
        self.record(definition);
        self.tell(Change::Modify { before, definition });
    }

    /// Indexes come that the definition has already.
    pub(crate) fn create_indexes(&mut self, definition: &CollectionDefinition, ids: &[IndexId]) {
        self.record(definition);
        self.tell(Change::CreateIndexes { definition, indexes: &of_ids(definition, ids) });
    }

    /// Indexes are ready, and so they are in the definition; others have gone from it.
    pub(crate) fn commit_index_build(
        &mut self,
        definition: &CollectionDefinition,
        ids: &[IndexId],
        replaced: &[Arc<IndexDefinition>],
    ) {
        self.delete_indexes(definition.id, replaced);
        for &id in ids {
            self.delete_range(Keyspace::Indexes, &keys::notes_range(definition.id, id));
        }
        self.record(definition);
        self.tell(Change::CommitIndexBuild { definition, indexes: &of_ids(definition, ids), replaced });
    }

    /// Indexes go that have gone from the definition.
    pub(crate) fn drop_indexes(
        &mut self,
        definition: &CollectionDefinition,
        indexes: &[Arc<IndexDefinition>],
    ) {
        self.delete_indexes(definition.id, indexes);
        self.record(definition);
        self.unit.set_growth(Growth::Shrinks);
        self.tell(Change::DropIndexes { definition, indexes });
    }

    /// Upkeep, of which nobody is told: more paths of indexes are multikey.
    pub(crate) fn widen_multikey(&mut self, definition: &CollectionDefinition) {
        self.record(definition);
        // A few bits; whether the document may come that they are about is decided with its own unit.
        self.unit.set_growth(Growth::Keeps);
    }

    /// Upkeep, of which nobody is told: entries of documents that were there before their index.
    pub(crate) fn fill_index(&mut self, key: &[u8], value: &[u8]) {
        self.unit.put(Keyspace::Indexes, key, value);
    }

    /// Upkeep, of which nobody is told: what a note says becomes part of its index, and the note goes.
    pub(crate) fn settle_note(&mut self, note: &[u8], entry: &IndexEntryBuf, is_added: bool) {
        match is_added {
            true => self.unit.put(Keyspace::Indexes, &entry.key, &entry.value),
            false => self.unit.delete(Keyspace::Indexes, &entry.key),
        }
        self.unit.delete(Keyspace::Indexes, note);
    }

    fn delete_indexes(&mut self, collection: CollectionId, indexes: &[Arc<IndexDefinition>]) {
        for index in indexes {
            self.delete_range(Keyspace::Indexes, &keys::index_range(collection, index.id));
            if !index.is_ready() {
                self.delete_range(Keyspace::Indexes, &keys::notes_range(collection, index.id));
            }
        }
    }

    fn delete_range(&mut self, keyspace: Keyspace, range: &KeyRange) {
        if let (Some(lower), Some(upper)) = (&range.lower, &range.upper) {
            self.unit.delete_range(keyspace, lower, upper);
        }
    }

    /// The size of what is in the unit so far.
    pub(crate) fn byte_len(&self) -> usize {
        self.unit.byte_len()
    }

    /// Gives the unit latches to hold until it is applied; see [`WriteUnit::hold`].
    pub(crate) fn hold(&mut self, latches: HeldLatches) {
        self.unit.hold(latches);
    }

    /// Says that the unit takes back what another one began, and waits at no gate for that.
    pub(crate) fn pass_gates(&mut self) {
        self.unit.pass_gates();
    }

    /// Says that the changes go on from an enqueued unit; see [`WriteUnit::follow`].
    pub(crate) fn follow(&mut self, place: QueuePlace) {
        self.unit.follow(place);
    }

    /// The whole unit.
    pub(crate) fn seal(mut self) -> WriteUnit {
        self.add_counted();
        self.unit.set_connection(self.context.connection);
        match (self.context.writer, self.growth) {
            // It was accepted, and what makes room may be behind it.
            (Writer::Replication, _) => self.unit.set_growth(Growth::Shrinks),
            (Writer::Client, Some(bytes)) => self.unit.set_growth(Growth::of(bytes)),
            (Writer::Client, None) => {}
        }
        if let Some(observer) = self.observer() {
            observer.end_unit(&mut self.unit);
        }
        self.unit
    }

    /// Who has been told of something in the unit.
    fn observer(&self) -> Option<&'o dyn ChangeObserver> {
        self.context.observer.filter(|_| self.is_told)
    }

    /// Commits the changes and waits until they are applied; the receipt is in the context then. Until they
    /// are enqueued, the end of the operation takes them back; from then on it is not asked any more.
    pub(crate) async fn commit(self, store: &Store) -> Result<(), Uncommitted> {
        let (receipts, observer, began) = (self.context.receipts, self.observer(), ambient::now());
        let (mut commit, mut end) = (store.commit(self.seal()), End::default());
        let committed = poll_fn(|task| match Pin::new(&mut commit).poll(task) {
            Poll::Ready(committed) => Poll::Ready(committed.map_err(Uncommitted::Refused)),
            Poll::Pending if commit.is_held() => {
                end.poll(task).map(|reason| Err(Uncommitted::Withdrawn(reason)))
            }
            Poll::Pending => Poll::Pending,
        });
        let receipt = committed.await?;
        receipts.add(receipt, ambient::elapsed(began));
        observer.inspect(|observer| observer.committed());
        Ok(())
    }

    /// The same on a thread that serves nobody else.
    pub(crate) fn commit_and_block(self, store: &Store) -> Result<(), CommitError> {
        let (receipts, observer, began) = (self.context.receipts, self.observer(), ambient::now());
        let receipt = store.commit(self.seal()).wait()?;
        receipts.add(receipt, ambient::elapsed(began));
        observer.inspect(|observer| observer.committed());
        Ok(())
    }
}

fn length(document: RawDocument<'_>) -> i64 {
    document.as_bytes().len() as i64
}

fn entry_bytes(entry: &IndexEntryBuf) -> i64 {
    (entry.key.len() + entry.value.len()) as i64
}

fn of_ids(definition: &CollectionDefinition, ids: &[IndexId]) -> Vec<Arc<IndexDefinition>> {
    ids.iter().filter_map(|&id| definition.index_by_id(id)).cloned().collect()
}
