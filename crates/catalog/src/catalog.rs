//! The catalog: opening, looking up, creating, dropping and renaming.

use crate::change::Changes;
use crate::collection::{Collection, KeyLatches};
use crate::definition::{CollectionDefinition, IndexState, UUID_SUBTYPE};
use crate::index_build::{self, BuildPace, SavedBuild};
use crate::keys::{self, CollectionId};
use crate::namespace::{Namespace, check_database};
use crate::state::{CatalogEntry, CatalogState};
use crate::{CatalogError, CollectionOptions, OperationContext, Receipts};
use arc_swap::ArcSwap;
use document::{RawDocument, Value, doc};
use query::{QueryError, checkpoint};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use storage::{Direction, ExclusiveGuard, Keyspace, ReadView, SharedLatch, Store};
use uuid::Uuid;

/// Views on views, at most.
const VIEW_DEPTH_MAX: usize = 20;

/// All databases of a store.
pub struct Catalog {
    store: Store,
    state: ArcSwap<CatalogState>,
    key_latches: Arc<KeyLatches>,
    /// Hidden documents that made way for others, since the catalog was opened.
    made_way: Arc<AtomicU64>,
    /// Held by whoever changes the catalog. First in the lock order.
    latch: SharedLatch,
    /// What index builds keep to beside the I/O budget.
    build_pace: OnceLock<Arc<dyn BuildPace>>,
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

/// A collection that gets another name.
pub(crate) struct Renamed<'r> {
    collection: &'r Arc<Collection>,
    from: &'r Namespace,
    /// With the new name.
    definition: CollectionDefinition,
}

impl Catalog {
    /// Loads the definitions from a store. Index builds that a crash has ended are there again and wait to go
    /// on, where they have written down how far they were; what is left of others is removed.
    ///
    /// # Errors
    /// Storage errors; [`CatalogError::Damaged`] for a record that makes no sense.
    pub fn open(store: Store) -> Result<Arc<Self>, CatalogError> {
        let mut saved_builds = index_build::find_saved(&store);
        let receipts = Receipts::default();
        let context = OperationContext::writing(&store, &receipts);
        let (key_latches, made_way) = (Arc::new(KeyLatches::default()), Arc::new(AtomicU64::new(0)));
        let mut state = CatalogState::default();
        for definition in load_records(context.view)? {
            let (of_it, others) =
                saved_builds.into_iter().partition(|saved| saved.is_of(&definition, &store));
            saved_builds = others;
            let of_it: Vec<SavedBuild> = of_it;
            let definition = without_unfinished_indexes(&context, &store, definition, &of_it)?;
            let namespace = definition.namespace.clone();
            let entry = match definition.options.view {
                Some(_) => CatalogEntry::View(Arc::new(definition)),
                None => {
                    let shared = (Arc::clone(&key_latches), Arc::clone(&made_way));
                    let collection = Collection::open(store.clone(), shared, context.view, definition)?;
                    of_it.into_iter().for_each(|saved| index_build::restore(&collection, saved));
                    CatalogEntry::Collection(collection)
                }
            };
            state.insert(namespace, entry);
        }
        saved_builds.iter().for_each(|saved| index_build::discard(&store, saved));
        Ok(Arc::new(Catalog {
            store,
            state: ArcSwap::from_pointee(state),
            key_latches,
            made_way,
            latch: SharedLatch::new(),
            build_pace: OnceLock::new(),
        }))
    }

    /// Has index builds that begin from now on keep to a pace. Not those that a log asks for: who applies it
    /// waits for them. Only the first call counts.
    pub fn pace_index_builds(&self, pace: Arc<dyn BuildPace>) {
        let _ = self.build_pace.set(pace);
    }

    pub(crate) fn build_pace(&self, context: &OperationContext<'_>) -> Option<Arc<dyn BuildPace>> {
        self.build_pace.get().filter(|_| context.keeps_rules()).cloned()
    }

    /// Documents that were past their time and hidden, and were deleted for another one's sake, since the
    /// catalog was opened.
    pub fn made_way(&self) -> u64 {
        self.made_way.load(Ordering::Relaxed)
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
            CatalogEntry::Collection(collection) => Some(Arc::clone(collection)),
            CatalogEntry::View(_) => None,
        }
    }

    /// The view of this name.
    pub fn view(&self, database: &str, name: &str) -> Option<Arc<CollectionDefinition>> {
        match self.state.load().get(database, name)? {
            CatalogEntry::View(definition) => Some(Arc::clone(definition)),
            CatalogEntry::Collection(_) => None,
        }
    }

    /// What this name stands for.
    pub fn entry(&self, database: &str, name: &str) -> Option<CatalogEntry> {
        self.state.load().get(database, name).cloned()
    }

    /// Keeps other changes of the catalog out. Whatever this one finds done already, others have done.
    ///
    /// # Errors
    /// The operation's end.
    pub(crate) async fn begin_change(
        &self,
        context: &OperationContext<'_>,
    ) -> Result<ExclusiveGuard, QueryError> {
        context.receipts.observed();
        checkpoint::wait(self.latch.exclusive()).await
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
    ) -> Result<CatalogEntry, CatalogError> {
        self.create_with_uuid(context, namespace, options, ambient::uuid()).await
    }

    /// The same with a UUID that is given, for what exists elsewhere.
    ///
    /// # Errors
    /// As [`Catalog::create`].
    pub async fn create_with_uuid(
        &self,
        context: &OperationContext<'_>,
        namespace: &Namespace,
        options: CollectionOptions,
        uuid: Uuid,
    ) -> Result<CatalogEntry, CatalogError> {
        namespace.check_creatable()?;
        let _guard = self.begin_change(context).await?;
        if let Some(existing) = self.entry(namespace.database(), namespace.collection()) {
            if same_options(&existing.definition().options, &options) {
                return Ok(existing);
            }
            return Err(already_exists(namespace, &existing));
        }
        self.create_latched(context, namespace, options, uuid).await
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
            let _guard = self.begin_change(context).await?;
            match self.entry(database, name) {
                Some(CatalogEntry::Collection(collection)) => return Ok(collection),
                Some(CatalogEntry::View(_)) => {
                    return Err(CatalogError::CommandNotSupportedOnView(format!(
                        "Namespace {namespace} is a view, not a collection"
                    )));
                }
                None => {
                    let options = CollectionOptions::default();
                    if let CatalogEntry::Collection(collection) =
                        self.create_latched(context, &namespace, options, ambient::uuid()).await?
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
        uuid: Uuid,
    ) -> Result<CatalogEntry, CatalogError> {
        let state = self.state();
        if context.keeps_rules()
            && let Some(existing) = state.database_differing_in_case(namespace.database())
        {
            return Err(CatalogError::Location {
                code: 13297,
                message: format!(
                    "db already exists with different case already have: [{existing}] trying to create [{}]",
                    namespace.database()
                ),
            });
        }
        if context.keeps_rules()
            && let Some(view) = &options.view
        {
            check_view_cycle(&state, namespace, &view.view_on)?;
        }
        let id = self.next_id(context)?;
        self.add(context, CollectionDefinition::new(id, uuid, namespace.clone(), options)?).await
    }

    /// Stores a new definition. The caller holds the catalog's latch.
    pub(crate) async fn add(
        &self,
        context: &OperationContext<'_>,
        definition: CollectionDefinition,
    ) -> Result<CatalogEntry, CatalogError> {
        let namespace = definition.namespace.clone();
        // Opened before it is stored: what cannot be opened is not there.
        let entry = match definition.options.view {
            Some(_) => CatalogEntry::View(Arc::new(definition)),
            None => {
                let shared = (Arc::clone(&self.key_latches), Arc::clone(&self.made_way));
                let opened = Collection::open(self.store.clone(), shared, context.view, definition)?;
                CatalogEntry::Collection(opened)
            }
        };
        let mut changes = Changes::new(context);
        changes.create(&entry.definition());
        changes.commit(&self.store).await?;
        self.change_state(|state| state.insert(namespace, entry.clone()));
        Ok(entry)
    }

    /// The id for a new collection. The caller holds the catalog's latch and stores the next one.
    pub(crate) fn next_id(&self, context: &OperationContext<'_>) -> Result<CollectionId, CatalogError> {
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
        let _guard = self.begin_change(context).await?;
        let entry = self.entry(namespace.database(), namespace.collection());
        let entry = entry.ok_or_else(|| CatalogError::NamespaceNotFound("ns not found".into()))?;
        entry.check_droppable()?;
        self.drop_entries(context, vec![(namespace.clone(), entry.clone())], None).await?;
        let indexes = matches!(entry, CatalogEntry::Collection(_)).then(|| entry.definition().indexes.len());
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
        let _guard = self.begin_change(context).await?;
        let entries = self.state().entries(database);
        if entries.is_empty() {
            return Ok(false);
        }
        if entries.iter().any(|(_, entry)| entry.check_droppable().is_err()) {
            return Err(CatalogError::IllegalOperation(format!(
                "Cannot drop '{database}' database while replication is active"
            )));
        }
        self.drop_entries(context, entries, None).await?;
        Ok(true)
    }

    /// Drops these names and renames a collection, in one unit. The caller holds the catalog's latch.
    pub(crate) async fn drop_entries(
        &self,
        context: &OperationContext<'_>,
        entries: Vec<(Namespace, CatalogEntry)>,
        renamed: Option<Renamed<'_>>,
    ) -> Result<(), CatalogError> {
        let mut latches = Vec::new();
        for (_, entry) in &entries {
            if let CatalogEntry::Collection(collection) = entry {
                latches.push(collection.begin_change().await?);
            }
        }
        let mut changes = Changes::new(context);
        for (_, entry) in &entries {
            changes.drop(&entry.definition());
        }
        if let Some(Renamed { from, definition, .. }) = &renamed {
            changes.rename(from, definition);
        }
        changes.commit(&self.store).await?;
        self.change_state(|state| {
            entries.iter().for_each(|(namespace, _)| state.remove(namespace));
            if let Some(Renamed { collection, from, definition }) = renamed {
                let to = definition.namespace.clone();
                collection.publish(definition);
                state.remove(from);
                state.insert(to, CatalogEntry::Collection(Arc::clone(collection)));
            }
        });
        for (_, entry) in &entries {
            if let CatalogEntry::Collection(collection) = entry {
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
                "error with target or source namespace: renaming system collections is not allowed: {from} \
                to {to}"
            )));
        }
        let _guard = self.begin_change(context).await?;
        let source = self.entry(from.database(), from.collection());
        if let Some(source) = &source {
            source.check_renamable()?;
        }
        let collection = match source {
            Some(CatalogEntry::Collection(collection)) => collection,
            Some(CatalogEntry::View(_)) => {
                return Err(CatalogError::CommandNotSupportedOnView(format!("cannot rename view: {from}")));
            }
            None => {
                return Err(CatalogError::NamespaceNotFound(format!(
                    "Source collection {from} does not exist"
                )));
            }
        };
        let target = self.entry(to.database(), to.collection());
        if let Some(target) = &target {
            target.check_replaceable()?;
        }
        match &target {
            Some(CatalogEntry::View(_)) => {
                return Err(CatalogError::NamespaceExists(format!(
                    "a view already exists with that name: {to}"
                )));
            }
            Some(CatalogEntry::Collection(_)) if !drop_target => {
                return Err(CatalogError::NamespaceExists("target namespace exists".into()));
            }
            _ => {}
        }
        let _source = collection.begin_change().await?;
        let mut definition = collection.definition().copy()?;
        definition.namespace = to.clone();
        let dropped = target.map(|target| (to.clone(), target)).into_iter().collect();
        let renamed = Renamed { collection: &collection, from, definition };
        self.drop_entries(context, dropped, Some(renamed)).await
    }

    /// Stores and puts in force a changed view. The caller holds the catalog's latch.
    pub(crate) async fn replace_view(
        &self,
        context: &OperationContext<'_>,
        before: &CollectionDefinition,
        definition: CollectionDefinition,
    ) -> Result<(), CatalogError> {
        if let Some(view) = &definition.options.view {
            check_view_cycle(&self.state(), &definition.namespace, &view.view_on)?;
        }
        let mut changes = Changes::new(context);
        changes.modify(before, &definition);
        changes.commit(&self.store).await?;
        self.change_state(|state| {
            state.insert(definition.namespace.clone(), CatalogEntry::View(Arc::new(definition)));
        });
        Ok(())
    }
}

/// Whether `create` of something that exists changes nothing.
fn same_options(existing: &CollectionOptions, requested: &CollectionOptions) -> bool {
    existing.to_document() == requested.to_document()
}

fn already_exists(namespace: &Namespace, existing: &CatalogEntry) -> CatalogError {
    CatalogError::NamespaceExists(match existing {
        CatalogEntry::Collection(collection) => {
            let uuid = collection.uuid().as_bytes().to_vec();
            let mut options = doc! { "uuid": (Value::binary(UUID_SUBTYPE, uuid)) };
            options.extend(collection.definition().options.to_document());
            format!("namespace {namespace} already exists, but with different options: {}", options.quoted())
        }
        CatalogEntry::View(_) => format!("A view already exists. NS: {namespace}"),
    })
}

pub(crate) fn load_records(view: &ReadView) -> Result<Vec<CollectionDefinition>, CatalogError> {
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
    context: &OperationContext<'_>,
    store: &Store,
    mut definition: CollectionDefinition,
    go_on: &[SavedBuild],
) -> Result<CollectionDefinition, CatalogError> {
    let goes_on = |id| go_on.iter().any(|saved| saved.has(id));
    let unfinished =
        definition.take_indexes(|index| index.state == IndexState::Building && !goes_on(index.id));
    if unfinished.is_empty() {
        return Ok(definition);
    }
    let names: Vec<_> = unfinished.iter().map(|index| index.spec.name.as_str()).collect();
    tracing::warn!(namespace = %definition.namespace, indexes = ?names,
        "removing indexes whose build did not finish");
    let mut changes = Changes::new(context);
    changes.drop_indexes(&definition, &unfinished);
    changes.commit_and_block(store)?;
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
            Some(CatalogEntry::View(definition)) => {
                let view = definition.options.view.as_ref().expect("a view's definition has a source");
                next.clone_from(&view.view_on);
            }
            _ => return Ok(()),
        }
    }
    Err(CatalogError::ViewDepthLimitExceeded(format!(
        "View depth limit exceeded; maximum depth is {VIEW_DEPTH_MAX}"
    )))
}
