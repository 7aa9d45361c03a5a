//! Figures for `collStats` and `dbStats`.

use crate::collection::Collection;
use crate::keys;
use storage::Keyspace;

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
    /// Each index, `_id_` first. A clustered `_id_` takes no room of its own.
    pub indexes: Vec<IndexSize>,
}

impl CollectionStatistics {
    /// Estimated bytes of all indexes.
    pub fn index_bytes(&self) -> u64 {
        self.indexes.iter().map(|index| index.bytes).sum()
    }
}

impl Collection {
    /// The collection's figures.
    pub fn statistics(&self) -> CollectionStatistics {
        let (documents, data_bytes) = (self.document_count(), self.data_bytes());
        let definition = self.definition();
        let indexes = definition.indexes.iter().map(|index| IndexSize {
            name: index.spec.name.clone(),
            bytes: match index.clustered {
                true => 0,
                false => {
                    self.store.approximate_bytes(Keyspace::Indexes, &keys::index_range(self.id(), index.id))
                }
            },
            building: !index.is_ready(),
        });
        CollectionStatistics {
            documents,
            data_bytes,
            document_bytes_mean: data_bytes.checked_div(documents).unwrap_or(0),
            storage_bytes: self
                .store
                .approximate_bytes(Keyspace::Documents, &keys::document_range(self.id())),
            indexes: indexes.collect(),
        }
    }
}
