//! One collection: its definition of the moment, its latches, its counters.

use crate::change::Changes;
use crate::definition::CollectionDefinition;
use crate::index_build::BuildProgress;
use crate::keys::{self, CollectionId};
use crate::oplog::ALL_RECORDS;
use crate::waiters::Waiters;
use crate::{CatalogError, OperationContext, ReadError, WriteError};
use arc_swap::ArcSwap;
use document::RawDocument;
use parking_lot::Mutex;
use query::{QueryError, checkpoint};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use storage::{
    Direction, ExclusiveGuard, HeldLatches, Keyspace, LatchTable, ReadSource, ReadView, SharedLatch, Store,
};
use uuid::Uuid;

const INVALID_NAMESPACE: i32 = 73;

/// Latches of single keys, shared by all collections. Lock order: `documents` before `unique_keys`; an
/// operation takes from each table once.
#[derive(Default)]
pub(crate) struct KeyLatches {
    pub(crate) documents: LatchTable,
    pub(crate) unique_keys: LatchTable,
}

/// A collection. Lives as long as somebody holds it, also after it was dropped; then every operation fails.
///
/// Lock order: the catalog's latch, `latch`, `capped_latch`, [`KeyLatches`], `definition_latch`.
pub struct Collection {
    pub(crate) store: Store,
    pub(crate) key_latches: Arc<KeyLatches>,
    /// Of all collections: hidden documents that made way for others.
    pub(crate) made_way: Arc<AtomicU64>,
    id: CollectionId,
    uuid: Uuid,
    capped: bool,
    oplog: bool,
    definition: ArcSwap<CollectionDefinition>,
    /// Held shared by writers, exclusively by changes of the definition.
    latch: SharedLatch,
    /// Held exclusively by each writer of a capped collection: record ids become visible in their order.
    capped_latch: SharedLatch,
    /// Held exclusively while a writer records that an index became multikey.
    definition_latch: SharedLatch,
    /// What the definition says, for who looks a single document up.
    hides_expired: AtomicBool,
    dropped: AtomicBool,
    /// The record id the next document of a capped collection gets. Guarded by `capped_latch`.
    pub(crate) next_record: AtomicU64,
    inserted: Waiters,
    /// The last record of the oplog that readers see.
    pub(crate) shown_through: AtomicU64,
    /// Index builds under way. A leaf in the lock order.
    builds: Mutex<Vec<Arc<BuildProgress>>>,
}

/// What a writer holds while it writes. The latches move into the write unit.
pub(crate) struct Writing {
    pub(crate) definition: Arc<CollectionDefinition>,
    pub(crate) latches: HeldLatches,
}

impl std::fmt::Debug for Collection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let definition = self.definition.load();
        formatter
            .debug_struct("Collection")
            .field("id", &self.id)
            .field("namespace", &definition.namespace)
            .finish()
    }
}

impl Collection {
    pub(crate) fn open(
        store: Store,
        (key_latches, made_way): (Arc<KeyLatches>, Arc<AtomicU64>),
        view: &ReadView,
        definition: CollectionDefinition,
    ) -> Result<Arc<Self>, CatalogError> {
        let collection = Collection {
            store,
            key_latches,
            made_way,
            id: definition.id,
            uuid: definition.uuid,
            capped: definition.is_capped(),
            oplog: definition.is_oplog(),
            latch: SharedLatch::new(),
            capped_latch: SharedLatch::new(),
            definition_latch: SharedLatch::new(),
            hides_expired: AtomicBool::new(definition.options.hide_expired),
            dropped: AtomicBool::new(false),
            next_record: AtomicU64::new(1),
            inserted: Waiters::default(),
            shown_through: AtomicU64::new(ALL_RECORDS),
            builds: Mutex::default(),
            definition: ArcSwap::from_pointee(definition),
        };
        if collection.capped {
            let last = collection.last_record(view)?;
            collection.next_record.store(last + 1, Ordering::Relaxed);
        }
        Ok(Arc::new(collection))
    }

    pub(crate) fn last_record(&self, view: &ReadView) -> Result<u64, CatalogError> {
        let range = keys::document_range(self.id);
        let mut cursor = view.cursor(Keyspace::Documents, range, Direction::Backward)?;
        let Some((key, _)) = cursor.next()? else { return Ok(0) };
        // Taken for 0, the next insert would write over the first document.
        let record = keys::behind_collection(key).first_chunk().ok_or_else(|| CatalogError::Damaged {
            record: format!("{key:02x?}"),
            defect: "the key of a document in a capped collection has eight bytes".into(),
        })?;
        Ok(u64::from_be_bytes(*record))
    }

    /// The collection's id on disk.
    pub const fn id(&self) -> CollectionId {
        self.id
    }

    /// Whether documents are kept in the order of insertion and within limits. Never changes.
    pub const fn is_capped(&self) -> bool {
        self.capped
    }

    /// Whether this is the oplog of a replica set, which only its owner writes to. Never changes.
    pub const fn is_oplog(&self) -> bool {
        self.oplog
    }

    /// Whether no operation of a client sees what is past its time.
    #[inline]
    pub fn hides_expired(&self) -> bool {
        self.hides_expired.load(Ordering::Acquire)
    }

    /// Whether this document of it is past its time and hidden at this moment, in milliseconds since 1970.
    ///
    /// # Errors
    /// What the partial filter of a TTL index says.
    pub fn hides(&self, document: RawDocument<'_>, moment_ms: i64) -> Result<bool, WriteError> {
        match self.hides_expired().then(|| self.definition().hidden_at(moment_ms)).flatten() {
            Some(hidden) => hidden.has(document),
            None => Ok(false),
        }
    }

    /// The collection's UUID.
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The definition of this moment. Open a view or cursor first and ask then: whatever the view sees, the
    /// definition accounts for (multikey paths in particular).
    #[inline]
    pub fn definition(&self) -> Arc<CollectionDefinition> {
        self.definition.load_full()
    }

    /// The number of documents.
    pub fn document_count(&self) -> u64 {
        u64::try_from(self.store.counter(keys::documents_counter(self.id))).unwrap_or(0)
    }

    /// The bytes of BSON of all documents.
    pub fn data_bytes(&self) -> u64 {
        u64::try_from(self.store.counter(keys::bytes_counter(self.id))).unwrap_or(0)
    }

    /// Rewrites the tables that hold the collection without what was replaced or removed. Blocks; told to
    /// end, it does so between two tables.
    ///
    /// # Errors
    /// Storage errors, the end of the operation.
    pub fn compact(&self) -> Result<(), CatalogError> {
        let mut ended = Ok(());
        let mut goes_on = || {
            ended = checkpoint::look();
            ended.is_ok()
        };
        self.store.compact(Keyspace::Documents, &keys::document_range(self.id), &mut goes_on)?;
        self.store.compact(Keyspace::Indexes, &keys::indexes_range(self.id), &mut goes_on)?;
        Ok(ended?)
    }

    /// Whether the collection was dropped.
    #[inline]
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Counts inserts, for those who wait for more data (tailable cursors). A drop counts too.
    pub const fn inserted(&self) -> &Waiters {
        &self.inserted
    }

    /// Index builds under way, for `currentOp`.
    pub fn builds(&self) -> Vec<Arc<BuildProgress>> {
        self.builds.lock().clone()
    }

    pub(crate) fn build(&self, index: keys::IndexId) -> Option<Arc<BuildProgress>> {
        self.builds.lock().iter().find(|build| build.index_ids().contains(&index)).cloned()
    }

    pub(crate) fn add_build(&self, build: Arc<BuildProgress>) {
        self.builds.lock().push(build);
    }

    pub(crate) fn remove_build(&self, build: &Arc<BuildProgress>) {
        self.builds.lock().retain(|other| !Arc::ptr_eq(other, build));
    }

    /// Takes what a writer needs. The definition stays in force until the latches are given up.
    pub(crate) async fn begin_write(&self) -> Result<Writing, WriteError> {
        let shared = match self.latch.try_shared() {
            Some(guard) => guard,
            None => checkpoint::wait(self.latch.shared()).await?,
        };
        if self.is_dropped() {
            return Err(WriteError::QueryPlanKilled(self.dropped_message()));
        }
        if self.oplog {
            return Err(WriteError::Location {
                code: INVALID_NAMESPACE,
                message: format!("cannot write to {}", self.definition().namespace),
            });
        }
        let mut latches = HeldLatches::default();
        latches.add_shared(shared);
        if self.capped {
            latches.add_exclusive(checkpoint::wait(self.capped_latch.exclusive()).await?);
        }
        Ok(Writing { definition: self.definition(), latches })
    }

    /// Keeps writers out. `None` when the collection was dropped meanwhile.
    ///
    /// # Errors
    /// The operation's end.
    pub(crate) async fn begin_change(&self) -> Result<Option<ExclusiveGuard>, QueryError> {
        let guard = checkpoint::wait(self.latch.exclusive()).await?;
        Ok((!self.is_dropped()).then_some(guard))
    }

    /// The definition for a reader of this source: without indexes that are younger than what it reads from.
    pub fn definition_for(&self, source: &ReadSource) -> Arc<CollectionDefinition> {
        match source {
            ReadSource::View(view) | ReadSource::Past(view) => {
                CollectionDefinition::as_of(self.definition(), view.sequence())
            }
            ReadSource::Latest(_) | ReadSource::Released => self.definition(),
        }
    }

    /// Puts a new definition in force. What it says is in the store.
    pub(crate) fn publish(&self, mut definition: CollectionDefinition) {
        definition.note_completed(&self.definition.load(), self.store.read_view().sequence());
        self.hides_expired.store(definition.options.hide_expired, Ordering::Release);
        self.definition.store(Arc::new(definition));
    }

    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
        for build in self.builds() {
            build.cancel();
            if build.claim() {
                build.remove_files();
                self.remove_build(&build);
            }
        }
        self.inserted.notify();
    }

    /// Fails when the collection was dropped: what a reader checks between steps.
    ///
    /// # Errors
    /// `QueryPlanKilled`.
    #[inline]
    pub fn check_alive(&self) -> Result<(), ReadError> {
        if self.is_dropped() { Err(ReadError::QueryPlanKilled(self.dropped_message())) } else { Ok(()) }
    }

    fn dropped_message(&self) -> String {
        format!("collection dropped. UUID {}", self.uuid)
    }

    /// Records new multikey paths before the first entry that needs them becomes visible.
    pub(crate) async fn record_multikey(
        &self,
        context: &OperationContext<'_>,
        additions: &[(keys::IndexId, Vec<u128>)],
    ) -> Result<(), WriteError> {
        let _guard = checkpoint::wait(self.definition_latch.exclusive()).await?;
        let mut definition = self.definition().copy().map_err(internal)?;
        let mut changed = false;
        for (id, paths) in additions {
            changed |= definition.index_by_id(*id).is_some_and(|index| adds_paths(&index.multikey, paths));
            definition
                .change_index(*id, |index| {
                    let union = index.multikey.iter().zip(paths).map(|(old, new)| old | new).collect();
                    (index.spec.clone(), index.state, union)
                })
                .map_err(internal)?;
        }
        if changed {
            let mut changes = Changes::new(context);
            changes.widen_multikey(&definition);
            changes.commit(&self.store).await?;
            self.publish(definition);
        }
        Ok(())
    }
}

/// Whether `paths` has a position that `known` lacks.
pub(crate) fn adds_paths(known: &[u128], paths: &[u128]) -> bool {
    known.iter().zip(paths).any(|(known, found)| found & !known != 0)
}

/// A definition that was valid when it was made and is not when it is copied: a defect of this program.
fn internal(error: CatalogError) -> WriteError {
    WriteError::Location { code: error.code(), message: error.to_string() }
}
