//! Figures for `collStats` and `dbStats`.

use crate::collection::Collection;
use crate::keys;
use storage::{CursorOptions, Direction, Keyspace, ReadTier, ReadView};

/// What holds anything takes at least this much of a disk. Estimates are coarser.
const BYTES_MIN: u64 = 4096;
/// Bytes of a document's key that is not in memory: that of an `ObjectId`.
const KEY_BYTES_USUAL: u64 = keys::DOCUMENT_PREFIX as u64 + 13;

/// The size of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSize {
    /// The index's name.
    pub name: String,
    /// Estimated bytes on disk and in memtables.
    pub bytes: u64,
    /// Whether it is being built.
    pub building: bool,
}

/// The size of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionStatistics {
    /// Documents: exact.
    pub documents: u64,
    /// Bytes of BSON: exact.
    pub data_bytes: u64,
    /// Bytes of BSON per document; 0 when there are none.
    pub document_bytes_mean: u64,
    /// Estimated bytes of the documents on disk, compressed, and in memtables.
    pub storage_bytes: u64,
    /// Each index, `_id_` first. To a clustered `_id_` goes the share of the documents' room that their keys
    /// take.
    pub indexes: Vec<IndexSize>,
}

impl CollectionStatistics {
    /// Estimated bytes of all indexes.
    pub fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|index| index.bytes).sum()
    }
}

/// Estimated bytes of the documents, apart from and in their keys.
struct DocumentBytes {
    values: u64,
    keys: u64,
}

impl Collection {
    /// The collection's figures.
    pub fn statistics(&self, view: &ReadView) -> CollectionStatistics {
        let (documents, data_bytes) = (self.document_count(), self.data_bytes());
        let definition = self.definition();
        let stored = self.document_bytes(view, documents, data_bytes);
        let bytes_min = if documents > 0 { BYTES_MIN } else { 0 };
        let indexes = definition.indexes.iter().map(|index| IndexSize {
            name: index.spec.name.clone(),
            bytes: match index.clustered {
                true => stored.keys,
                false => {
                    let range = keys::index_range(self.id(), index.id);
                    self.store.range_bytes(Keyspace::Indexes, &range).total()
                }
            }
            .max(bytes_min),
            building: !index.is_ready(),
        });
        CollectionStatistics {
            documents,
            data_bytes,
            document_bytes_mean: data_bytes.checked_div(documents).unwrap_or(0),
            storage_bytes: stored.values.max(bytes_min),
            indexes: indexes.collect(),
        }
    }

    fn document_bytes(&self, view: &ReadView, documents: u64, data_bytes: u64) -> DocumentBytes {
        let room = self.store.range_bytes(Keyspace::Documents, &keys::document_range(self.id()));
        let key_bytes = documents.saturating_mul(self.key_bytes(view));
        let live = key_bytes.saturating_add(data_bytes);
        // Memtables keep what was overwritten, too: no more of it is counted than there is of live documents.
        let all = room.tables.saturating_add(room.memtables.min(live));
        let keys =
            (u128::from(all) * u128::from(key_bytes)).checked_div(u128::from(live)).unwrap_or(0) as u64;
        DocumentBytes { values: all - keys, keys }
    }

    /// The bytes of a document's key, as far as the first one tells.
    fn key_bytes(&self, view: &ReadView) -> u64 {
        let options = CursorOptions { tier: ReadTier::BlockCache, fill_cache: false };
        let range = keys::document_range(self.id());
        let first = view.cursor_with(Keyspace::Documents, range, Direction::Forward, options);
        let first = first.and_then(|mut first| Ok(first.next()?.map(|(key, _)| key.len() as u64)));
        first.ok().flatten().unwrap_or(KEY_BYTES_USUAL)
    }
}
