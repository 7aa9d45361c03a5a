//! Databases, collections and indexes; a document and its index entries are one write unit.
//!
//! # Vocabulary
//!
//! * *namespace*: `database.collection`; stands for a *collection* or a *view*.
//! * *definition*: what a collection is at one moment; immutable, replaced as a whole.
//! * *document key*: the bytes that find a document in its collection: the encoded `_id`, or in a capped
//!   collection the *record id*, which counts insertions.
//! * *entry*: one key of an index: encoded fields, then the document key.
//! * *multikey*: an index is so at the paths where it met arrays, and then may hold several entries of one
//!   document.
//!
//! ```text
//!  Catalog ─ArcSwap─▶ CatalogState ─(db, name)─▶ Collection ─ArcSwap─▶ CollectionDefinition, IndexDefinition
//!     │ create, drop, rename, collMod,               │ insert, update, delete, validate      (key generator)
//!     ▼ createIndexes, dropIndexes                   ▼ get, documents, index entries
//!  Keyspace::Meta: one record per collection     Keyspace::Documents, Keyspace::Indexes, counters
//! ```
//! The layouts are drawn in `docs/design/catalog-layout.md`.
//!
//! # Invariants
//!
//! * A document, its index entries and the collection's counters change in one write unit: all or nothing.
//! * Looking up a name takes no lock and allocates nothing; steps of cursors allocate nothing.
//! * Whatever a view shows of an index, the definition loaded after it knows: multikey paths are durable and
//!   published before the first entry that needs them.
//! * Latches are taken in one order (see [`Collection`]) and given up when its unit is applied: no write
//!   waits for the journal.
//! * Whatever changes goes through one door (`change.rs`), which tells what it is beside the bytes.
//! * Whatever an operation commits is in its [`Receipts`], also when it fails afterwards.
//! * Ids of collections, and of indexes in a collection, are never used again.
//! * After a crash no index is ready that is half built: a build goes on from what it has written down, or
//!   its indexes are removed at opening.
//! * Record ids of a capped collection become visible in ascending order.
//!
//! # Not here
//!
//! Choosing an index and running a plan (`query`, `commands`), replies and their error code names
//! (`commands`), applying collations (stored only), when documents expire that have a TTL index (`commands`).

mod catalog;
mod change;
mod collection;
mod collmod;
mod definition;
mod error;
mod expiry;
mod index_build;
mod index_keys;
mod index_spec;
mod indexes;
mod keys;
mod namespace;
mod operation;
mod oplog;
mod options;
mod past;
mod read;
mod salvage;
mod state;
mod statistics;
#[cfg(test)]
mod tests;
mod validate;
mod waiters;
mod write;

pub use catalog::{Catalog, DropReport};
pub use change::{Change, ChangeObserver};
pub use collection::Collection;
pub use definition::{CollectionDefinition, IndexDefinition, IndexState};
pub use error::{CatalogError, DuplicateKey, ReadError, WriteError};
pub use expiry::{ExpiryError, ExpiryFigures, ExpiryStep, ExpiryWalk, HiddenDocuments};
pub use index_build::{BuildPace, BuildPhase, BuildProgress, discard_saved_builds};
pub use index_keys::{MultikeyPaths, is_multikey};
pub use index_spec::{FieldKind, IndexField, IndexSpec};
pub use indexes::{CreateIndexesReport, IndexSelection};
pub use keys::{CollectionId, IndexEntry, IndexId, describe_key};
pub use namespace::{MAX_DATABASE_NAME, MAX_NAMESPACE, Namespace, check_database, is_internal_database};
pub use operation::{OperationContext, Receipts, Writer};
pub use options::{CappedLimits, CollectionOptions, ValidationAction, ValidationLevel, ViewOptions};
pub use read::{DocumentCursor, EncodedRange, IndexCursor};
pub use salvage::{SalvageReport, copy_salvaged};
pub use state::{CatalogEntry, CatalogState, NameCounts};
pub use statistics::{CollectionStatistics, IndexSize};
pub use validate::{IndexValidation, ValidationReport};
pub use waiters::{Waiters, give_way};
pub use write::{Decision, FoundDocuments, InsertReport, UpdateReport};
