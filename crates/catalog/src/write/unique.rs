//! Unique keys: finding the entry of another document with the same fields.

use crate::definition::{CollectionDefinition, IndexDefinition};
use crate::index_keys::IndexEntryBuf;
use crate::keys::{index_range, split_entry};
use crate::{DuplicateKey, OperationContext, WriteError};
use document::key::decode;
use document::{Document, Value};
use hashbrown::HashSet;
use storage::{Cursor, Direction, KeyRange, Keyspace, StorageError};

/// Entries of unique indexes that go with the unit in which others come: the store still has them.
pub(crate) type ReleasedKeys = HashSet<Vec<u8>>;

/// Looks up unique keys of one index. The latches of the keys are held before it is made.
pub(crate) struct UniqueProbe {
    cursor: Cursor,
}

impl UniqueProbe {
    pub(crate) fn new(
        context: &OperationContext<'_>,
        collection: u32,
        index: u32,
    ) -> Result<Self, StorageError> {
        let range: KeyRange = index_range(collection, index);
        let options = super::cursor_options(context.tier);
        let cursor = context.view.cursor_with(Keyspace::Indexes, range, Direction::Forward, options)?;
        Ok(UniqueProbe { cursor })
    }

    /// Whether a document other than the entry's own has the entry's fields, and has not released them.
    pub(crate) fn is_taken(
        &mut self,
        entry: &IndexEntryBuf,
        released: &ReleasedKeys,
    ) -> Result<bool, StorageError> {
        Ok(self.holder(entry, released)?.is_some())
    }

    /// The document key of that document.
    pub(crate) fn holder(
        &mut self,
        entry: &IndexEntryBuf,
        released: &ReleasedKeys,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let fields = entry.fields();
        self.cursor.seek(fields);
        while let Some((key, value)) = self.cursor.next()? {
            if !key.starts_with(fields) {
                return Ok(None);
            }
            // Values are prefix-free, so that an entry beginning with these fields has exactly these fields.
            let other = split_entry(key, value).map(|found| found.document_key);
            if other != entry.key.get(entry.fields_end..) && !released.contains(key) {
                return Ok(Some(other.unwrap_or_default().to_vec()));
            }
        }
        Ok(None)
    }
}

/// The error for an entry whose fields another document has, if it is known which.
pub(crate) fn duplicate(
    definition: &CollectionDefinition,
    index: &IndexDefinition,
    entry: &IndexEntryBuf,
    holder: Option<Vec<u8>>,
) -> WriteError {
    let split = split_entry(&entry.key, &entry.value).expect("an entry that was made here is whole");
    // Of one that was read from the index the fields may be damaged.
    let values = decode(split.fields, split.type_bits, &index.spec.directions()).ok();
    let names = index.spec.key.iter().map(|(name, _)| name);
    let key_value = names.zip(values.unwrap_or_default()).collect::<Document>();
    duplicate_key(definition, index, key_value, holder)
}

/// The error for an `_id` that exists, if it is known where.
pub(crate) fn duplicate_id(
    definition: &CollectionDefinition,
    id: Value,
    holder: Option<Vec<u8>>,
) -> WriteError {
    match definition.indexes.first() {
        Some(index) => duplicate_key(definition, index, Document::from_iter([("_id", id)]), holder),
        None => WriteError::BadValue("the collection has no _id index".into()),
    }
}

fn duplicate_key(
    definition: &CollectionDefinition,
    index: &IndexDefinition,
    key_value: Document,
    holder: Option<Vec<u8>>,
) -> WriteError {
    WriteError::DuplicateKey(Box::new(DuplicateKey {
        namespace: definition.namespace.to_string(),
        index: index.spec.name.clone(),
        key_pattern: index.spec.key.clone(),
        key_value,
        holder,
    }))
}
