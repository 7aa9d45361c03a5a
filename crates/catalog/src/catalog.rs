//! The catalog: opening, looking up, creating, dropping and renaming.

use crate::collection::{Collection, KeyLatches};
use crate::definition::{CollectionDefinition, IndexState, UUID_SUBTYPE};
use crate::index_build::{delete_range, drop_from};
use crate::keys::{self, CollectionId};
use crate::namespace::{Namespace, check_database};
use crate::state::{CatalogState, Entry};
use crate::{CatalogError, CollectionOptions, OperationContext, Receipts};
use arc_swap::ArcSwap;
use document::{RawDocument, Value, doc};
use std::collections::HashSet;
use std::sync::Arc;
use storage::{Direction, ExclusiveGuard, Growth, Keyspace, ReadView, SharedLatch, Store, WriteUnit};

/// Views on views, at most.
const VIEW_DEPTH_MAX: usize = 20;

/// All databases of a store.
pub struct Catalog {
    store: Store,
    state: ArcSwap<CatalogState>,
    key_latches: Arc<KeyLatches>,
    /// Held by whoever changes the catalog. First in the lock order.
    latch: SharedLatch,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Catalog").field("state", &self.state.load()).finish()
    }
}

/// What `drop` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropReport {
    /// How many indexes the collection had; none for a view.
    pub indexes: Option<usize>,
}

impl Catalog {
    /// Loads the definitions from a store, and removes what a crash left of unfinished index builds.
    ///
    /// # Errors
    /// Storage errors; [`CatalogError::Damaged`] for a record that makes no sense.
    pub fn open(store: Store) -> Result<Arc<Self>, CatalogError> {
        let receipts = Receipts::default();
        let context = OperationContext::writing(&store, &receipts);
        let key_latches = Arc::new(KeyLatches::default());
        let mut state = CatalogState::default();
        for definition in load_records(context.view)? {
            let definition = without_unfinished_indexes(&store, definition)?;
            let namespace = definition.namespace.clone();
            let entry = match definition.options.view {
                Some(_) => Entry::View(Arc::new(definition)),
                None => {
                    let key_latches = Arc::clone(&key_latches);
                    Entry::Collection(Collection::open(store.clone(), key_latches, context.view, definition)?)
                }
            };
            state.insert(namespace, entry);
        }
        Ok(Arc::new(Catalog {
            store,
            state: ArcSwap::from_pointee(state),
            key_latches,
            latch: SharedLatch::new(),
        }))
    }

    /// The store below.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The names of this moment.
    pub fn state(&self) -> Arc<CatalogState> {
        self.state.load_full()
    }

    /// The collection of this name; `None` for a view too. Takes no lock and allocates nothing.
    #[inline]
    pub fn collection(&self, database: &str, collection: &str) -> Option<Arc<Collection>> {
        match self.state.load().get(database, collection)? {
            Entry::Collection(collection) => Some(Arc::clone(collection)),
            Entry::View(_) => None,
        }
    }

    /// The view of this name.
    pub fn view(&self, database: &str, name: &str) -> Option<Arc<CollectionDefinition>> {
        match self.state.load().get(database, name)? {
            Entry::View(definition) => Some(Arc::clone(definition)),
            Entry::Collection(_) => None,
        }
    }

    /// What this name stands for.
    pub fn entry(&self, database: &str, name: &str) -> Option<Entry> {
        self.state.load().get(database, name).cloned()
    }

    /// Keeps other changes of the catalog out. Whatever this one finds done already, others have done.
    pub(crate) async fn begin_change(&self, context: &OperationContext<'_>) -> ExclusiveGuard {
        context.receipts.observed();
        self.latch.exclusive().await
    }

    /// Swaps in a changed copy of the state. The caller holds the catalog's latch.
    fn change_state(&self, change: impl FnOnce(&mut CatalogState)) {
        let mut state = CatalogState::clone(&self.state.load());
        change(&mut state);
        self.state.store(Arc::new(state));
    }

    /// Creates a collection or, with `viewOn`, a view.
    ///
    /// # Errors
    /// `NamespaceExists`, `InvalidNamespace`, `DatabaseDifferCase`, what the validator's parser says.
    pub async fn create(
        &self,
        context: &OperationContext<'_>,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Entry, CatalogError> {
        namespace.check_creatable()?;
        let _guard = self.begin_change(context).await;
        if let Some(existing) = self.entry(namespace.database(), namespace.collection()) {
            if same_options(&existing.definition().options, &options) {
                return Ok(existing);
            }
            return Err(already_exists(namespace, &existing));
        }
        self.create_latched(context, namespace, options).await
    }

    /// The collection of this name, created with default options when it does not exist: the first insert.
    ///
    /// # Errors
    /// `CommandNotSupportedOnView` when the name is a view's; otherwise as [`Catalog::create`].
    pub async fn collection_or_create(
        &self,
        context: &OperationContext<'_>,
        database: &str,
        name: &str,
    ) -> Result<Arc<Collection>, CatalogError> {
        loop {
            if let Some(collection) = self.collection(database, name) {
                return Ok(collection);
            }
            let namespace = Namespace::new(database, name);
            namespace.check_creatable()?;
            let _guard = self.begin_change(context).await;
            match self.entry(database, name) {
                Some(Entry::Collection(collection)) => return Ok(collection),
                Some(Entry::View(_)) => {
                    return Err(CatalogError::CommandNotSupportedOnView(format!(
                        "Namespace {namespace} is a view, not a collection"
                    )));
                }
                None => {
                    let options = CollectionOptions::default();
                    if let Entry::Collection(collection) =
                        self.create_latched(context, &namespace, options).await?
                    {
                        return Ok(collection);
                    }
                }
            }
        }
    }

    async fn create_latched(
        &self,
        context: &OperationContext<'_>,
        namespace: &Namespace,
        options: CollectionOptions,
    ) -> Result<Entry, CatalogError> {
        let state = self.state();
        if let Some(existing) = state.database_differing_in_case(namespace.database()) {
            return Err(CatalogError::Location {
                code: 13297,
                message: format!(
                    "db already exists with different case already have: [{existing}] trying to create [{}]",
                    namespace.database()
                ),
            });
        }
        if let Some(view) = &options.view {
            check_view_cycle(&state, namespace, &view.view_on)?;
        }
        let id = self.next_id(context)?;
        let definition = CollectionDefinition::new(id, namespace.clone(), options)?;
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Meta, keys::NEXT_ID_KEY, &(id + 1).to_be_bytes());
        unit.put(Keyspace::Meta, &keys::record_key(id), definition.to_record().as_bytes());
        context.commit(&self.store, unit).await?;
        let entry = match definition.options.view {
            Some(_) => Entry::View(Arc::new(definition)),
            None => {
                let key_latches = Arc::clone(&self.key_latches);
                let store = self.store.clone();
                Entry::Collection(Collection::open(store, key_latches, context.view, definition)?)
            }
        };
        self.change_state(|state| state.insert(namespace.clone(), entry.clone()));
        Ok(entry)
    }

    /// The id for a new collection. The caller holds the catalog's latch and stores the next one.
    fn next_id(&self, context: &OperationContext<'_>) -> Result<CollectionId, CatalogError> {
        let stored = context.view.get(Keyspace::Meta, keys::NEXT_ID_KEY)?;
        let next = stored.and_then(|bytes| bytes.first_chunk().copied()).map_or(1, u32::from_be_bytes);
        if next == CollectionId::MAX {
            return Err(CatalogError::IllegalOperation("the store has given out all collection ids".into()));
        }
        Ok(next)
    }

    /// Drops a collection or view, with its documents and indexes.
    ///
    /// # Errors
    /// `NamespaceNotFound`.
    pub async fn drop_collection(
        &self,
        context: &OperationContext<'_>,
        namespace: &Namespace,
    ) -> Result<DropReport, CatalogError> {
        let _guard = self.begin_change(context).await;
        let entry = self.entry(namespace.database(), namespace.collection());
        let entry = entry.ok_or_else(|| CatalogError::NamespaceNotFound("ns not found".into()))?;
        let unit = WriteUnit::new();
        self.drop_entries(context, vec![(namespace.clone(), entry.clone())], unit, |_| {}).await?;
        let indexes = matches!(entry, Entry::Collection(_)).then(|| entry.definition().indexes.len());
        Ok(DropReport { indexes })
    }

    /// Drops everything in a database; whether there was anything.
    ///
    /// # Errors
    /// `InvalidNamespace`, storage errors.
    pub async fn drop_database(
        &self,
        context: &OperationContext<'_>,
        database: &str,
    ) -> Result<bool, CatalogError> {
        check_database(database)?;
        let _guard = self.begin_change(context).await;
        let entries = self.state().entries(database);
        if entries.is_empty() {
            return Ok(false);
        }
        self.drop_entries(context, entries, WriteUnit::new(), |_| {}).await?;
        Ok(true)
    }

    /// Commits `unit` with the removal of these names, and swaps in a state without them that `change` has also
    /// changed. The caller holds the catalog's latch.
    async fn drop_entries(
        &self,
        context: &OperationContext<'_>,
        entries: Vec<(Namespace, Entry)>,
        mut unit: WriteUnit,
        change: impl FnOnce(&mut CatalogState),
    ) -> Result<(), CatalogError> {
        let mut latches = Vec::new();
        for (_, entry) in &entries {
            if let Entry::Collection(collection) = entry {
                collection.builds().iter().for_each(|build| build.cancel());
                latches.push(collection.begin_change().await);
            }
        }
        for (_, entry) in &entries {
            remove_data(&mut unit, entry.definition().id);
        }
        // A name that changes beside it takes no more room than before.
        unit.set_growth(Growth::Shrinks);
        context.commit(&self.store, unit).await?;
        self.change_state(|state| {
            entries.iter().for_each(|(namespace, _)| state.remove(namespace));
            change(state);
        });
        for (_, entry) in &entries {
            if let Entry::Collection(collection) = entry {
                collection.mark_dropped();
                self.store.reclaim(Keyspace::Documents, keys::document_range(collection.id()));
                self.store.reclaim(Keyspace::Indexes, keys::indexes_range(collection.id()));
            }
        }
        Ok(())
    }

    /// Renames a collection, also into another database. Documents and indexes stay where they are.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `NamespaceExists` (unless `drop_target`), `IllegalOperation`, `InvalidNamespace`.
    pub async fn rename(
        &self,
        context: &OperationContext<'_>,
        from: &Namespace,
        to: &Namespace,
        drop_target: bool,
    ) -> Result<(), CatalogError> {
        to.check_creatable()?;
        if from == to {
            return Err(CatalogError::IllegalOperation("Can't rename a collection to itself".into()));
        }
        if from.is_system() || to.is_system() {
            return Err(CatalogError::IllegalOperation(format!(
                "error with target or source namespace: renaming system collections is not allowed: {from} to {to}"
            )));
        }
        let _guard = self.begin_change(context).await;
        let collection = match self.entry(from.database(), from.collection()) {
            Some(Entry::Collection(collection)) => collection,
            Some(Entry::View(_)) => {
                return Err(CatalogError::CommandNotSupportedOnView(format!("cannot rename view: {from}")));
            }
            None => {
                return Err(CatalogError::NamespaceNotFound(format!(
                    "Source collection {from} does not exist"
                )));
            }
        };
        let target = self.entry(to.database(), to.collection());
        match &target {
            Some(Entry::View(_)) => {
                return Err(CatalogError::NamespaceExists(format!(
                    "a view already exists with that name: {to}"
                )));
            }
            Some(Entry::Collection(_)) if !drop_target => {
                return Err(CatalogError::NamespaceExists("target namespace exists".into()));
            }
            _ => {}
        }
        let _source = collection.begin_change().await;
        let mut definition = collection.definition().copy()?;
        definition.namespace = to.clone();
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Meta, &keys::record_key(definition.id), definition.to_record().as_bytes());
        let dropped = target.map(|target| (to.clone(), target)).into_iter().collect();
        self.drop_entries(context, dropped, unit, |state| {
            collection.publish(definition);
            state.remove(from);
            state.insert(to.clone(), Entry::Collection(Arc::clone(&collection)));
        })
        .await
    }

    /// Stores and puts in force a changed view. The caller holds the catalog's latch.
    pub(crate) async fn replace_view(
        &self,
        context: &OperationContext<'_>,
        definition: CollectionDefinition,
    ) -> Result<(), CatalogError> {
        if let Some(view) = &definition.options.view {
            check_view_cycle(&self.state(), &definition.namespace, &view.view_on)?;
        }
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Meta, &keys::record_key(definition.id), definition.to_record().as_bytes());
        context.commit(&self.store, unit).await?;
        self.change_state(|state| {
            state.insert(definition.namespace.clone(), Entry::View(Arc::new(definition)));
        });
        Ok(())
    }
}

/// Whether `create` of something that exists changes nothing.
fn same_options(existing: &CollectionOptions, requested: &CollectionOptions) -> bool {
    existing.to_document() == requested.to_document()
}

fn already_exists(namespace: &Namespace, existing: &Entry) -> CatalogError {
    CatalogError::NamespaceExists(match existing {
        Entry::Collection(collection) => {
            let uuid = collection.uuid().as_bytes().to_vec();
            let mut options = doc! { "uuid": (Value::binary(UUID_SUBTYPE, uuid)) };
            options.extend(collection.definition().options.to_document());
            format!("namespace {namespace} already exists, but with different options: {}", options.quoted())
        }
        Entry::View(_) => format!("A view already exists. NS: {namespace}"),
    })
}

fn remove_data(unit: &mut WriteUnit, id: CollectionId) {
    unit.delete(Keyspace::Meta, &keys::record_key(id));
    delete_range(unit, Keyspace::Documents, &keys::document_range(id));
    delete_range(unit, Keyspace::Indexes, &keys::indexes_range(id));
    unit.remove_counter(keys::documents_counter(id));
    unit.remove_counter(keys::bytes_counter(id));
}

fn load_records(view: &ReadView) -> Result<Vec<CollectionDefinition>, CatalogError> {
    let mut cursor = view.cursor(Keyspace::Meta, keys::record_range(), Direction::Forward)?;
    let mut definitions = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        let damaged = |defect: String| CatalogError::Damaged { record: format!("{key:02x?}"), defect };
        let record = RawDocument::parse(value).map_err(|error| damaged(error.to_string()))?;
        definitions.push(CollectionDefinition::from_record(record).map_err(damaged)?);
    }
    Ok(definitions)
}

fn without_unfinished_indexes(
    store: &Store,
    mut definition: CollectionDefinition,
) -> Result<CollectionDefinition, CatalogError> {
    let unfinished = definition.indexes.iter().filter(|index| index.state == IndexState::Building);
    let (ids, names): (Vec<_>, Vec<_>) = unfinished.map(|index| (index.id, index.spec.name.clone())).unzip();
    if ids.is_empty() {
        return Ok(definition);
    }
    tracing::warn!(namespace = %definition.namespace, indexes = ?names, "removing indexes whose build did not finish");
    let mut unit = WriteUnit::new();
    drop_from(&mut definition, &ids, &mut unit);
    unit.put(Keyspace::Meta, &keys::record_key(definition.id), definition.to_record().as_bytes());
    unit.set_growth(Growth::Shrinks);
    store.commit(unit).wait()?;
    Ok(definition)
}

/// Fails when a view would, through other views, read itself, or through too many of them.
fn check_view_cycle(state: &CatalogState, namespace: &Namespace, view_on: &str) -> Result<(), CatalogError> {
    let mut seen = HashSet::from([namespace.collection().to_owned()]);
    let mut next = view_on.to_owned();
    for _ in 0..VIEW_DEPTH_MAX {
        if !seen.insert(next.clone()) {
            return Err(CatalogError::Location {
                code: 5024,
                message: format!("View cycle detected: {namespace} reads itself through {next}"),
            });
        }
        match state.get(namespace.database(), &next) {
            Some(Entry::View(definition)) => {
                next = definition.options.view.as_ref().map(|view| view.view_on.clone()).unwrap_or_default();
            }
            _ => return Ok(()),
        }
    }
    Err(CatalogError::ViewDepthLimitExceeded(format!(
        "View depth limit exceeded; maximum depth is {VIEW_DEPTH_MAX}"
    )))
}
