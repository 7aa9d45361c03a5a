//! Reading: documents by `_id` and by document key, walks over documents and over index entries.
//!
//! Cursors lend what they stand on and allocate nothing on a step.

use crate::ReadError;
use crate::collection::Collection;
use crate::definition::IndexDefinition;
use crate::keys::{self, DOCUMENT_PREFIX, IndexEntry, split_entry};
use document::key::encode_value;
use document::{RawDocument, RawValue};
use std::sync::Arc;
use storage::{
    AheadBatch, Cursor, CursorOptions, Direction, KeyRange, Keyspace, PinnedBytes, ReadTier, ReadView,
};

/// Document keys up to this length are looked up without an allocation.
const SHORT_KEY: usize = 60;

/// A range of document keys or of encoded index fields, as written by `document::key`: `lower` inclusive,
/// `upper` exclusive; `None` means unbounded.
#[derive(Debug, Clone, Copy, Default)]
pub struct EncodedRange<'r> {
    /// The first key seen.
    pub lower: Option<&'r [u8]>,
    /// The first key not seen any more.
    pub upper: Option<&'r [u8]>,
}

impl EncodedRange<'_> {
    pub(crate) fn behind(self, prefix: &[u8]) -> KeyRange {
        let lower = [prefix, self.lower.unwrap_or_default()].concat();
        let upper = match self.upper {
            Some(upper) => Some([prefix, upper].concat()),
            None => KeyRange::after_prefix(prefix),
        };
        KeyRange { lower: Some(lower), upper }
    }
}

impl Collection {
    /// The document key of an `_id` in a collection clustered by `_id`: the encoded value.
    pub fn document_key_of_id(id: RawValue<'_>) -> Vec<u8> {
        let mut key = Vec::with_capacity(32);
        encode_value(&mut key, id);
        key
    }

    /// The document with this `_id`, as far as `tier` goes.
    ///
    /// # Errors
    /// Storage errors, [`storage::StorageError::WouldBlock`] among them.
    pub fn get(
        &self,
        view: &ReadView,
        id: RawValue<'_>,
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, ReadError> {
        if self.is_capped() {
            return match self.find_id_entry(view, id, tier)? {
                Some(document_key) => self.fetch(view, &document_key, tier),
                None => Ok(None),
            };
        }
        let mut key = Vec::with_capacity(48);
        key.extend_from_slice(&self.id().to_be_bytes());
        encode_value(&mut key, id);
        Ok(view.get_tier(Keyspace::Documents, &key, tier)?)
    }

    /// The document key of the document with this `_id`, whether clustered (then it need not exist) or not.
    ///
    /// # Errors
    /// Storage errors, [`storage::StorageError::WouldBlock`] among them.
    pub fn find_document_key(
        &self,
        view: &ReadView,
        id: RawValue<'_>,
        tier: ReadTier,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        match self.is_capped() {
            true => self.find_id_entry(view, id, tier),
            false => Ok(Some(Self::document_key_of_id(id))),
        }
    }

    fn find_id_entry(
        &self,
        view: &ReadView,
        id: RawValue<'_>,
        tier: ReadTier,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        let mut prefix = keys::index_prefix(self.id(), keys::ID_INDEX).to_vec();
        encode_value(&mut prefix, id);
        let options = CursorOptions { tier, ..CursorOptions::default() };
        let range = KeyRange::prefix(prefix);
        let mut cursor = view.cursor_with(Keyspace::Indexes, range, Direction::Forward, options)?;
        let entry = cursor.next()?.and_then(|(key, value)| split_entry(key, value));
        Ok(entry.map(|entry| entry.document_key.to_vec()))
    }

    /// The document with this document key, as far as `tier` goes.
    ///
    /// # Errors
    /// Storage errors, [`storage::StorageError::WouldBlock`] among them.
    #[inline]
    pub fn fetch(
        &self,
        view: &ReadView,
        document_key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, ReadError> {
        let mut short = [0; DOCUMENT_PREFIX + SHORT_KEY];
        if let Some(key) = short.get_mut(..DOCUMENT_PREFIX + document_key.len())
            && let Some((prefix, rest)) = key.split_first_chunk_mut::<DOCUMENT_PREFIX>()
        {
            *prefix = self.id().to_be_bytes();
            rest.copy_from_slice(document_key);
            return Ok(view.get_tier(Keyspace::Documents, key, tier)?);
        }
        Ok(view.get_tier(Keyspace::Documents, &keys::row_key(self.id(), document_key), tier)?)
    }

    /// Has the documents with these keys read into the caches by other threads: a hint.
    pub fn read_ahead(&self, view: &ReadView, document_keys: &[Vec<u8>]) -> Arc<AheadBatch> {
        let keys = document_keys.iter().map(|key| keys::row_key(self.id(), key));
        self.store.read_ahead(view, Keyspace::Documents, keys.collect())
    }

    /// A walk over the documents in the order of their document keys.
    ///
    /// # Errors
    /// Storage errors.
    pub fn documents(
        self: &Arc<Self>,
        view: &ReadView,
        range: EncodedRange<'_>,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<DocumentCursor, ReadError> {
        let mut range = range.behind(&self.id().to_be_bytes());
        if self.is_oplog() {
            self.bound(&mut range);
        }
        self.walk_documents(view, range, direction, options)
    }

    pub(crate) fn walk_documents(
        self: &Arc<Self>,
        view: &ReadView,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<DocumentCursor, ReadError> {
        self.check_alive()?;
        let prefix = self.id().to_be_bytes();
        let cursor = view.cursor_with(Keyspace::Documents, range, direction, options)?;
        Ok(DocumentCursor { collection: Arc::clone(self), cursor, seek_key: prefix.to_vec() })
    }

    /// A walk over the entries of an index. Of a clustered `_id_` index it makes entries up from the
    /// documents; their type bits are missing, so that such a walk covers no query.
    ///
    /// # Errors
    /// Storage errors.
    pub fn index_entries(
        self: &Arc<Self>,
        view: &ReadView,
        index: &IndexDefinition,
        range: EncodedRange<'_>,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<IndexCursor, ReadError> {
        self.check_alive()?;
        let (keyspace, prefix) = match index.clustered {
            true => (Keyspace::Documents, self.id().to_be_bytes().to_vec()),
            false => (Keyspace::Indexes, keys::index_prefix(self.id(), index.id).to_vec()),
        };
        let cursor = view.cursor_with(keyspace, range.behind(&prefix), direction, options)?;
        let (clustered, prefix_length) = (index.clustered, prefix.len());
        Ok(IndexCursor { collection: Arc::clone(self), cursor, seek_key: prefix, prefix_length, clustered })
    }

    /// Fails when the document at `last_seen` is gone: the position of a tailable cursor is lost, and
    /// documents behind it may have been trimmed before they were read.
    ///
    /// # Errors
    /// `CappedPositionLost`; storage errors, [`storage::StorageError::WouldBlock`] among them.
    pub fn check_capped_position(
        &self,
        view: &ReadView,
        last_seen: &[u8],
        tier: ReadTier,
    ) -> Result<(), ReadError> {
        let key = keys::row_key(self.id(), last_seen);
        if view.get_tier(Keyspace::Documents, &key, tier)?.is_some() {
            return Ok(());
        }
        let record = last_seen.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        Err(ReadError::CappedPositionLost(format!(
            "CollectionScan died due to position in capped collection being deleted. Last seen record id: \
            RecordId({record})"
        )))
    }
}

/// A walk over documents.
#[derive(Debug)]
pub struct DocumentCursor {
    collection: Arc<Collection>,
    cursor: Cursor,
    /// The collection's prefix; behind it the last key sought.
    seek_key: Vec<u8>,
}

impl DocumentCursor {
    /// The next document and its document key; `None` at the end of the range.
    ///
    /// # Errors
    /// `QueryPlanKilled` once the collection was dropped; storage errors.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<(&[u8], RawDocument<'_>)>, ReadError> {
        self.collection.check_alive()?;
        let Some((key, value)) = self.cursor.next()? else { return Ok(None) };
        Ok(Some((keys::behind_collection(key), RawDocument::trusted(value))))
    }

    /// Continues at this document key, inclusive, or the nearest behind it in the walk's direction.
    pub fn seek(&mut self, document_key: &[u8]) {
        self.seek_key.truncate(DOCUMENT_PREFIX);
        self.seek_key.extend_from_slice(document_key);
        self.cursor.seek(&self.seek_key);
    }
}

/// A walk over index entries.
#[derive(Debug)]
pub struct IndexCursor {
    collection: Arc<Collection>,
    cursor: Cursor,
    /// The index's prefix; behind it the last key sought.
    seek_key: Vec<u8>,
    prefix_length: usize,
    clustered: bool,
}

impl IndexCursor {
    /// The next entry; `None` at the end of the range.
    ///
    /// # Errors
    /// `QueryPlanKilled` once the collection was dropped; damaged entries; storage errors.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<IndexEntry<'_>>, ReadError> {
        self.collection.check_alive()?;
        let Some((key, value)) = self.cursor.next()? else { return Ok(None) };
        if self.clustered {
            let document_key = keys::behind_collection(key);
            return Ok(Some(IndexEntry { key, fields: document_key, type_bits: &[], document_key }));
        }
        match split_entry(key, value) {
            Some(entry) => Ok(Some(entry)),
            None => Err(ReadError::Damaged(format!(
                "an index entry of collection {} is damaged",
                self.collection.uuid()
            ))),
        }
    }

    /// Continues at the first entry whose bytes behind the index's prefix (fields, then document key) are not
    /// in front of `position` in the walk's direction. To go on behind an entry of a forward walk, seek its
    /// fields, document key and a zero byte.
    pub fn seek(&mut self, position: &[u8]) {
        self.seek_key.truncate(self.prefix_length);
        self.seek_key.extend_from_slice(position);
        self.cursor.seek(&self.seek_key);
    }
}
