//! Byte layouts of keys and index entries; drawn in `docs/design/catalog-layout.md`.

use crate::CatalogError;
use document::key::{SortOrder, decode};
use storage::{CounterId, KeyRange};

/// Identifies a collection on disk; never used again after the collection is gone.
pub type CollectionId = u32;
/// Identifies an index within its collection; never used again after the index is gone.
pub type IndexId = u32;

/// Bytes in front of a document key.
pub(crate) const DOCUMENT_PREFIX: usize = 4;
/// Bytes in front of an index entry's fields.
pub(crate) const INDEX_PREFIX: usize = 8;
/// The index id of `_id_`.
pub(crate) const ID_INDEX: IndexId = 0;

/// The record in `Keyspace::Meta` that tells the next collection id.
pub(crate) const NEXT_ID_KEY: &[u8] = b"n";
const RECORD_TAG: u8 = b'c';

/// The key of a collection's record in `Keyspace::Meta`.
pub(crate) fn record_key(collection: CollectionId) -> [u8; 5] {
    let [b0, b1, b2, b3] = collection.to_be_bytes();
    [RECORD_TAG, b0, b1, b2, b3]
}

/// The collection whose record has this key in `Keyspace::Meta`.
pub(crate) fn record_id(key: &[u8]) -> Option<CollectionId> {
    let id = key.strip_prefix(&[RECORD_TAG])?;
    Some(u32::from_be_bytes(id.try_into().ok()?))
}

/// All collection records.
pub(crate) fn record_range() -> KeyRange {
    KeyRange::prefix([RECORD_TAG])
}

/// The row key: that of a document in `Keyspace::Documents`.
pub(crate) fn row_key(collection: CollectionId, document_key: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(DOCUMENT_PREFIX + document_key.len());
    key.extend_from_slice(&collection.to_be_bytes());
    key.extend_from_slice(document_key);
    key
}

/// The document key within the key of a document in `Keyspace::Documents`.
#[inline]
pub(crate) fn behind_collection(key: &[u8]) -> &[u8] {
    key.get(DOCUMENT_PREFIX..).expect("the key of a document begins with its collection's id")
}

/// The collection of a document's or an index entry's stored key and, of a document, its `_id` as messages
/// quote it; otherwise the rest of the key as bytes. For those who look at damage.
pub fn describe_key(key: &[u8]) -> (CollectionId, String) {
    let Some((id, rest)) = key.split_first_chunk() else { return (0, format!("{key:02x?}")) };
    let described = match decode(rest, &[], &[SortOrder::Ascending]).as_deref() {
        Ok([id]) => format!("_id {}", id.quoted()),
        _ => format!("key {rest:02x?}"),
    };
    (u32::from_be_bytes(*id), described)
}

/// All documents of a collection.
pub(crate) fn document_range(collection: CollectionId) -> KeyRange {
    KeyRange::prefix(collection.to_be_bytes())
}

/// The bytes in front of every entry of an index.
pub(crate) fn index_prefix(collection: CollectionId, index: IndexId) -> [u8; INDEX_PREFIX] {
    let [c0, c1, c2, c3] = collection.to_be_bytes();
    let [i0, i1, i2, i3] = index.to_be_bytes();
    [c0, c1, c2, c3, i0, i1, i2, i3]
}

/// All entries of an index.
pub(crate) fn index_range(collection: CollectionId, index: IndexId) -> KeyRange {
    KeyRange::prefix(index_prefix(collection, index))
}

/// Set in an index's id: the keys of its notes instead of those of its entries.
const NOTES: u32 = 1 << 31;
/// What a note says first: the entry is there, its value behind this byte, or it is not.
const NOTE_ADDED: u8 = 1;
const NOTE_REMOVED: u8 = 0;

/// The bytes in front of the notes of an index: what writers did to entries of an index while it was built,
/// the last word about each. Key and value are those of the entry but for this prefix and a byte.
pub(crate) fn notes_prefix(collection: CollectionId, index: IndexId) -> [u8; INDEX_PREFIX] {
    assert!(index & NOTES == 0, "index {index} of collection {collection} has an id of notes");
    index_prefix(collection, index | NOTES)
}

/// All notes of an index.
pub(crate) fn notes_range(collection: CollectionId, index: IndexId) -> KeyRange {
    KeyRange::prefix(notes_prefix(collection, index))
}

/// Whether an entry's key is that of a note.
#[inline]
pub(crate) fn is_note(key: &[u8]) -> bool {
    key.get(DOCUMENT_PREFIX).is_some_and(|byte| byte & 0x80 != 0)
}

/// The value of a note about an entry of this value.
pub(crate) fn note_value(is_added: bool, value: &[u8]) -> Vec<u8> {
    [&[if is_added { NOTE_ADDED } else { NOTE_REMOVED }], value].concat()
}

/// Takes a note's value apart: whether the entry is there, and its value; `None` when it is damaged.
pub(crate) fn split_note(value: &[u8]) -> Option<(bool, &[u8])> {
    match value.split_first()? {
        (&NOTE_ADDED, value) => Some((true, value)),
        (&NOTE_REMOVED, value) => Some((false, value)),
        _ => None,
    }
}

/// All entries and notes of all indexes of a collection.
pub(crate) fn indexes_range(collection: CollectionId) -> KeyRange {
    KeyRange::prefix(collection.to_be_bytes())
}

/// The counter of a collection's documents.
pub(crate) fn documents_counter(collection: CollectionId) -> CounterId {
    CounterId(u64::from(collection) << 8)
}

/// The counter of a collection's bytes of BSON.
pub(crate) fn bytes_counter(collection: CollectionId) -> CounterId {
    CounterId(u64::from(collection) << 8 | 1)
}

/// Writes an entry's value: the document key's length (LEB128), then the type bits.
pub(crate) fn write_entry_value(value: &mut Vec<u8>, document_key_length: usize, type_bits: &[u8]) {
    let mut rest = document_key_length;
    while rest >= 0x80 {
        value.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    value.push(rest as u8);
    value.extend_from_slice(type_bits);
}

/// The parts of one index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// The whole key as stored, from the collection id on: where a cursor continues.
    pub key: &'a [u8],
    /// The encoded fields (see `document::key`).
    pub fields: &'a [u8],
    /// What makes the decoded fields exact.
    pub type_bits: &'a [u8],
    /// The key of the document the entry belongs to.
    pub document_key: &'a [u8],
}

/// The length of the document key of an entry with this value, and what is behind it.
#[inline]
fn split_value(value: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0usize;
    let mut shift = 0;
    let mut bytes = value.iter();
    loop {
        let byte = *bytes.next()?;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some((length, bytes.as_slice()));
        }
    }
}

/// The length of the document key of an entry with this value; `None` when it is damaged.
#[inline]
pub(crate) fn document_key_length(value: &[u8]) -> Option<usize> {
    split_value(value).map(|(length, _)| length)
}

/// Takes an index entry apart; `None` when it is damaged.
#[inline]
pub(crate) fn split_entry<'a>(key: &'a [u8], value: &'a [u8]) -> Option<IndexEntry<'a>> {
    let (length, type_bits) = split_value(value)?;
    let body = key.get(INDEX_PREFIX..)?;
    let (fields, document_key) = body.split_at_checked(body.len().checked_sub(length)?)?;
    Some(IndexEntry { key, fields, type_bits, document_key })
}

/// Takes an index entry apart where all of them count: a damaged one is not passed over.
pub(crate) fn whole_entry<'a>(key: &'a [u8], value: &'a [u8]) -> Result<IndexEntry<'a>, CatalogError> {
    split_entry(key, value).ok_or_else(|| CatalogError::Damaged {
        record: format!("{key:02x?}"),
        defect: "an index entry makes no sense".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fields: &[u8], document_key: &[u8], type_bits: &[u8]) {
        let key = [&index_prefix(7, 2)[..], fields, document_key].concat();
        let mut value = Vec::new();
        write_entry_value(&mut value, document_key.len(), type_bits);
        let entry = split_entry(&key, &value).expect("a whole entry");
        assert_eq!(entry, IndexEntry { key: &key, fields, type_bits, document_key });
    }

    #[test]
    fn entries_come_apart() {
        check(b"fields", b"id", b"");
        check(b"", b"", b"\x01\x02");
        check(b"f", &[9; 127], b"t");
        check(b"f", &[9; 128], b"t");
        check(b"f", &[9; 70_000], b"t");
    }

    #[test]
    fn damage_is_noticed() {
        assert_eq!(split_entry(b"1234567", b"\x00"), None, "a key shorter than its prefix");
        assert_eq!(split_entry(b"12345678", b"\x01"), None, "a document key longer than the entry");
        assert_eq!(split_entry(b"12345678", b""), None, "no value");
        assert_eq!(split_entry(b"12345678", &[0xff; 12]), None, "an endless length");
    }
}
