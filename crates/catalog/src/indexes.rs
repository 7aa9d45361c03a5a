//! Creating and dropping indexes.

use crate::catalog::Catalog;
use crate::change::Changes;
use crate::collection::Collection;
use crate::definition::{CollectionDefinition, IndexState};
use crate::index_build::{self, BuildOrder, BuildProgress};
use crate::keys::{self, IndexId};
use crate::state::CatalogEntry;
use crate::{CatalogError, IndexSpec, Namespace, OperationContext};
use document::Document;
use query::checkpoint;
use std::sync::Arc;

/// Indexes of one collection at most, `_id_` included.
const INDEXES_MAX: usize = 64;

/// MongoDB's code for what has to wait for other work.
const CONFLICTING_OPERATION_IN_PROGRESS: i32 = 117;
/// MongoDB's code for the end of the server.
const INTERRUPTED_AT_SHUTDOWN: i32 = 11600;

/// What `createIndexes` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateIndexesReport {
    /// Indexes before.
    pub indexes_before: usize,
    /// Indexes after.
    pub indexes_after: usize,
    /// Whether the collection was made for the indexes.
    pub created_collection: bool,
}

/// Which indexes to drop.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexSelection {
    /// All but `_id_`.
    All,
    /// By name.
    Names(Vec<String>),
    /// By key pattern.
    Pattern(Document),
}

/// What the first step of a creation decided.
enum Plan {
    /// Everything requested exists.
    Nothing,
    /// A requested index is being built by someone else.
    WaitFor(Arc<BuildProgress>),
    /// The collection was empty: all are ready.
    Done,
    /// These are registered and wait to be filled.
    Build(Arc<BuildProgress>),
    /// A build that had some of them goes on, or is gone now. Then look again.
    GoOn(Option<Arc<BuildProgress>>),
}

impl Catalog {
    /// Creates indexes, building them when there are documents. Resolves when they are ready.
    ///
    /// # Errors
    /// `IndexOptionsConflict`, `IndexKeySpecsConflict`, `CannotCreateIndex`, `DuplicateKey`,
    /// `IndexBuildAborted` and those of documents that cannot be indexed. Nothing is left behind then.
    pub async fn create_indexes(
        &self,
        context: &OperationContext<'_>,
        namespace: &Namespace,
        specs: &[IndexSpec],
    ) -> Result<CreateIndexesReport, CatalogError> {
        namespace.check_readable()?;
        let existed = self.entry(namespace.database(), namespace.collection()).is_some();
        let (database, name) = (namespace.database(), namespace.collection());
        let collection = self.collection_or_create(context, database, name).await?;
        if collection.is_oplog() {
            return Err(CatalogError::CannotCreateIndex("cannot have an index on the oplog".into()));
        }
        let indexes_before = collection.definition().indexes.len();
        loop {
            match self.register_indexes(context, &collection, specs).await? {
                Plan::Nothing | Plan::Done => break,
                Plan::WaitFor(build) => checkpoint::wait(build.finished().after(0)).await?,
                Plan::Build(build) => {
                    build.keep_to(self.build_pace(context));
                    let built = build_indexes(context, &collection, &build).await;
                    built.map_err(|error| failed_build(&collection, error))?;
                    break;
                }
                Plan::GoOn(None) => {}
                Plan::GoOn(Some(build)) => {
                    build.keep_to(self.build_pace(context));
                    let built = build_indexes(context, &collection, &build).await;
                    built.map_err(|error| failed_build(&collection, error))?;
                }
            }
        }
        let indexes_after = collection.definition().indexes.len();
        Ok(CreateIndexesReport { indexes_before, indexes_after, created_collection: !existed })
    }

    async fn register_indexes(
        &self,
        context: &OperationContext<'_>,
        collection: &Collection,
        specs: &[IndexSpec],
    ) -> Result<Plan, CatalogError> {
        let _guard = self.begin_change(context).await?;
        let _writers = collection.begin_change().await?.ok_or_else(|| dropped(collection))?;
        let mut definition = collection.definition().copy()?;
        let empty = collection.document_count() == 0;
        let state = if empty { IndexState::Ready } else { IndexState::Building };
        let mut added = Vec::new();
        for spec in specs {
            match existing_index(&definition, spec)? {
                Some(id) if added.iter().any(|(added, _)| *added == id) => {
                    return Err(CatalogError::IndexAlreadyExists(format!(
                        "Identical index already exists: {}",
                        spec.name
                    )));
                }
                Some(id) => {
                    if let Some(build) = collection.build(id) {
                        return go_on(context, collection, build, specs).await;
                    }
                }
                None => {
                    if context.keeps_rules() {
                        check_addition(&definition, spec)?;
                    }
                    added.push((definition.add_index(spec.clone(), state)?, spec.name.clone()));
                }
            }
        }
        if added.is_empty() {
            return Ok(Plan::Nothing);
        }
        let ids: Vec<IndexId> = added.iter().map(|(id, _)| *id).collect();
        let mut changes = Changes::new(context);
        changes.create_indexes(&definition, &ids);
        changes.commit(self.store()).await?;
        collection.publish(definition);
        if empty {
            return Ok(Plan::Done);
        }
        let order = BuildOrder { indexes: added, replaced: Vec::new(), is_of_log: !context.keeps_rules() };
        Ok(Plan::Build(index_build::start(collection, order)))
    }

    /// Builds all indexes anew but `_id_`, beside the old ones, which serve until the new ones take their
    /// places. Returns the specifications of all indexes.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `CommandNotSupportedOnView`, `ConflictingOperationInProgress` while an index is
    /// being built, and those of documents that cannot be indexed. The old indexes stay then.
    pub async fn rebuild_indexes(
        &self,
        context: &OperationContext<'_>,
        namespace: &Namespace,
    ) -> Result<Vec<IndexSpec>, CatalogError> {
        let collection = match self.entry(namespace.database(), namespace.collection()) {
            Some(CatalogEntry::Collection(collection)) => collection,
            Some(CatalogEntry::View(_)) => {
                return Err(CatalogError::CommandNotSupportedOnView(format!(
                    "can't re-index a view: {namespace}"
                )));
            }
            None => return Err(CatalogError::NamespaceNotFound("collection does not exist".into())),
        };
        if let Some(build) = self.register_rebuild(context, &collection).await? {
            build.keep_to(self.build_pace(context));
            build_indexes(context, &collection, &build).await?;
        }
        Ok(collection.definition().indexes.iter().map(|index| index.spec.clone()).collect())
    }

    pub(crate) async fn register_rebuild(
        &self,
        context: &OperationContext<'_>,
        collection: &Collection,
    ) -> Result<Option<Arc<BuildProgress>>, CatalogError> {
        let _guard = self.begin_change(context).await?;
        let _writers = collection.begin_change().await?.ok_or_else(|| dropped(collection))?;
        if !collection.builds().is_empty() {
            return Err(CatalogError::Location {
                code: CONFLICTING_OPERATION_IN_PROGRESS,
                message: format!(
                    "cannot perform operation: an index build is currently running for collection '{}'",
                    collection.definition().namespace
                ),
            });
        }
        let mut definition = collection.definition().copy()?;
        let old: Vec<_> =
            definition.indexes.iter().filter(|index| index.id != keys::ID_INDEX).cloned().collect();
        let mut added = Vec::new();
        for index in &old {
            added.push((
                definition.add_index(index.spec.clone(), IndexState::Building)?,
                index.spec.name.clone(),
            ));
        }
        if added.is_empty() {
            return Ok(None);
        }
        let ids: Vec<IndexId> = added.iter().map(|(id, _)| *id).collect();
        let mut changes = Changes::new(context);
        changes.create_indexes(&definition, &ids);
        changes.commit(self.store()).await?;
        collection.publish(definition);
        let replaced = old.iter().map(|index| index.id).collect();
        let order = BuildOrder { indexes: added, replaced, is_of_log: !context.keeps_rules() };
        Ok(Some(index_build::start(collection, order)))
    }

    /// Drops indexes; how many there were before. Builds of dropped indexes are stopped.
    ///
    /// # Errors
    /// `NamespaceNotFound`, `IndexNotFound`, `AmbiguousIndexKeyPattern`, `InvalidOptions` for `_id_`.
    pub async fn drop_indexes(
        &self,
        context: &OperationContext<'_>,
        namespace: &Namespace,
        selection: &IndexSelection,
    ) -> Result<usize, CatalogError> {
        let _guard = self.begin_change(context).await?;
        let collection = match self.entry(namespace.database(), namespace.collection()) {
            Some(CatalogEntry::Collection(collection)) => collection,
            Some(CatalogEntry::View(_)) => {
                return Err(CatalogError::CommandNotSupportedOnView(format!(
                    "Namespace {namespace} is a view, not a collection"
                )));
            }
            None => return Err(CatalogError::NamespaceNotFound(format!("ns not found {namespace}"))),
        };
        let _writers = collection.begin_change().await?.ok_or_else(|| dropped(&collection))?;
        let definition = collection.definition();
        let mut ids = select(&definition, selection)?;
        let builds: Vec<_> = ids.iter().filter_map(|&id| collection.build(id)).collect();
        // Where nobody works on a build, nobody else removes the rest of it.
        let (unworked, worked): (Vec<_>, Vec<_>) = builds.into_iter().partition(|build| build.claim());
        worked.iter().for_each(|build| build.cancel());
        ids.extend(unworked.iter().flat_map(|build| build.index_ids()));
        if !ids.is_empty() {
            let removed = index_build::remove_indexes(Changes::new(context), &collection, &ids).await;
            end_unworked(&collection, &unworked, removed)?;
        }
        Ok(definition.indexes.len())
    }
}

impl Catalog {
    /// Asks all index builds to stop: what they are for is not decided here any more.
    pub fn cancel_index_builds(&self) {
        for collection in self.state().collections() {
            collection.builds().iter().for_each(|build| build.cancel());
        }
    }
}

impl Catalog {
    /// Index builds that a process before this one has begun and nobody works on.
    pub fn waiting_index_builds(&self) -> Vec<(Arc<Collection>, Arc<BuildProgress>)> {
        let state = self.state();
        let of = |collection: &Arc<Collection>| {
            let waiting = collection.builds().into_iter().filter(|build| build.waits());
            waiting.map(|build| (Arc::clone(collection), build)).collect::<Vec<_>>()
        };
        state.collections().flat_map(of).collect()
    }

    /// Goes on with such a build, unless somebody else does, and resolves when its indexes are ready. False
    /// when there was nothing to do.
    ///
    /// # Errors
    /// As [`Catalog::create_indexes`]. Nothing is left behind then, unless the server ends: then it goes on
    /// once more.
    pub async fn go_on_with_index_build(
        &self,
        context: &OperationContext<'_>,
        collection: &Collection,
        build: &Arc<BuildProgress>,
    ) -> Result<bool, CatalogError> {
        if !build.claim() {
            return Ok(false);
        }
        build.keep_to(self.build_pace(context));
        build.serve_nobody();
        let built = build_indexes(context, collection, build).await;
        built.map(|()| true).map_err(|error| failed_build(collection, error))
    }

    /// Gives up such a build, unless somebody works on it, and tells no observer: it is of this server alone.
    ///
    /// # Errors
    /// Storage errors.
    pub async fn give_up_index_build(
        &self,
        context: &OperationContext<'_>,
        collection: &Collection,
        build: &Arc<BuildProgress>,
    ) -> Result<(), CatalogError> {
        if !build.claim() {
            return Ok(());
        }
        let untold = OperationContext { observer: None, ..*context };
        let given_up = give_up(&untold, collection, build).await;
        end_build(collection, build);
        given_up
    }
}

/// What to do about an index that is there and not ready.
async fn go_on(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: Arc<BuildProgress>,
    specs: &[IndexSpec],
) -> Result<Plan, CatalogError> {
    if !build.claim() {
        build.serve();
        return Ok(Plan::WaitFor(build));
    }
    let is_asked_for = |name: &String| specs.iter().any(|spec| spec.name == *name);
    // A log commits the indexes that it names, and no others with them.
    if context.keeps_rules() || build.names().iter().all(is_asked_for) {
        return Ok(Plan::GoOn(Some(build)));
    }
    let removed = index_build::remove_indexes(Changes::new(context), collection, build.index_ids()).await;
    end_unworked(collection, &[build], removed)?;
    Ok(Plan::GoOn(None))
}

/// Ends builds that were claimed for the removal of their indexes. If that has failed, they wait as before.
fn end_unworked(
    collection: &Collection,
    builds: &[Arc<BuildProgress>],
    removed: Result<(), CatalogError>,
) -> Result<(), CatalogError> {
    match &removed {
        Ok(()) => builds.iter().for_each(|build| end_build(collection, build)),
        Err(_) => builds.iter().for_each(|build| build.give_back()),
    }
    removed
}

async fn build_indexes(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &Arc<BuildProgress>,
) -> Result<(), CatalogError> {
    let built = match index_build::fill(context, collection, build).await {
        Ok(()) => finish(context, collection, build).await,
        Err(error) => Err(error),
    };
    if let Err(error) = built {
        if error.code() == INTERRUPTED_AT_SHUTDOWN && build.is_kept() {
            tracing::info!(target: "INDEX", id = 8_800_201, namespace = %collection.definition().namespace,
                indexes = ?build.names(), "An index build goes on at the next start");
            return Err(error);
        }
        // Also when the operation is to end.
        let given_up = checkpoint::to_the_end(give_up(context, collection, build)).await;
        end_build(collection, build);
        return given_up.and(Err(error));
    }
    end_build(collection, build);
    Ok(())
}

/// Nobody works on it any more.
fn end_build(collection: &Collection, build: &Arc<BuildProgress>) {
    build.remove_files();
    collection.remove_build(build);
    build.finished().notify();
}

async fn finish(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    let _writers = collection.begin_change().await?.ok_or_else(|| dropped(collection))?;
    index_build::finish(context, collection, build).await
}

/// Removes what a build has done. Fails when the collection's data and all its indexes went with it.
async fn give_up(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    let _writers = collection.begin_change().await?.ok_or_else(|| dropped(collection))?;
    let mut abandoned = index_build::abandon(context, collection, build).await;
    if abandoned.is_err() && context.observer.is_some() {
        // Who must not tell of it any more removes what it has; nobody else has these indexes.
        let untold = OperationContext { observer: None, ..*context };
        abandoned = index_build::abandon(&untold, collection, build).await;
    }
    if let Err(failure) = abandoned {
        tracing::warn!(%failure, indexes = ?build.names(), "an index build leaves its entries");
        index_build::forget(collection, build)?;
    }
    Ok(())
}

/// Tells of which build an error is that lies in the collection's documents.
fn failed_build(collection: &Collection, error: CatalogError) -> CatalogError {
    match error {
        CatalogError::Write(_) | CatalogError::Query(_) | CatalogError::Location { .. } => {
            CatalogError::IndexBuildFailed {
                context: format!(
                    "Index build failed: {}: Collection {} ( {} )",
                    ambient::uuid(),
                    collection.definition().namespace,
                    collection.uuid()
                ),
                cause: Box::new(error),
            }
        }
        other => other,
    }
}

fn dropped(collection: &Collection) -> CatalogError {
    CatalogError::IndexBuildAborted(format!(
        "Index build aborted: collection dropped: {}",
        collection.definition().namespace
    ))
}

/// The index that makes creating `spec` unnecessary.
fn existing_index(
    definition: &CollectionDefinition,
    spec: &IndexSpec,
) -> Result<Option<IndexId>, CatalogError> {
    let requested = || spec.to_document().quoted();
    if let Some(existing) = definition.index(&spec.name) {
        if !existing.spec.has_signature_of(spec) && !spec.is_id_index() {
            return Err(CatalogError::IndexKeySpecsConflict(format!(
                "An existing index has the same name as the requested index. When index names are not \
                 specified, they are auto generated and can cause conflicts. Please refer to our \
                 documentation. Requested index: {}, existing index: {}",
                requested(),
                existing.spec.to_document().quoted()
            )));
        }
        if !existing.spec.has_options_of(spec) {
            return Err(CatalogError::IndexOptionsConflict(format!(
                "An equivalent index already exists with the same name but different options. Requested \
                index: {}, existing index: {}",
                requested(),
                existing.spec.to_document().quoted()
            )));
        }
        return Ok(Some(existing.id));
    }
    match definition.indexes.iter().find(|existing| existing.spec.has_signature_of(spec)) {
        None => Ok(None),
        Some(existing) if existing.spec.has_options_of(spec) => Err(CatalogError::IndexOptionsConflict(
            format!("Index already exists with a different name: {}", existing.spec.name),
        )),
        Some(existing) => Err(CatalogError::IndexOptionsConflict(format!(
            "An equivalent index already exists with a different name and options. Requested index: {}, \
            existing index: {}",
            requested(),
            existing.spec.to_document().quoted()
        ))),
    }
}

fn check_addition(definition: &CollectionDefinition, spec: &IndexSpec) -> Result<(), CatalogError> {
    if definition.indexes.len() >= INDEXES_MAX {
        return Err(CatalogError::CannotCreateIndex(format!(
            "add index fails, too many indexes for {} key:{}",
            definition.namespace,
            spec.key.quoted()
        )));
    }
    if definition.is_capped() && spec.expire_after_seconds.is_some() {
        return Err(CatalogError::CannotCreateIndex("Cannot create TTL index on a capped collection".into()));
    }
    Ok(())
}

fn select(
    definition: &CollectionDefinition,
    selection: &IndexSelection,
) -> Result<Vec<IndexId>, CatalogError> {
    match selection {
        IndexSelection::All => {
            Ok(definition.indexes.iter().map(|index| index.id).filter(|&id| id != keys::ID_INDEX).collect())
        }
        IndexSelection::Names(names) => {
            let mut ids = Vec::new();
            for name in names {
                let known = ids.len();
                // While it is built anew, an index is there twice.
                for index in definition.indexes.iter().filter(|index| index.spec.name == *name) {
                    ids.push(droppable(index.id)?);
                }
                if ids.len() == known {
                    let message = format!("index not found with name [{name}]");
                    return Err(CatalogError::IndexNotFound(message));
                }
            }
            Ok(ids)
        }
        IndexSelection::Pattern(pattern) => match definition.indexes_by_pattern(pattern).as_slice() {
            [] => {
                Err(CatalogError::IndexNotFound(format!("can't find index with key: {}", pattern.quoted())))
            }
            [index] => Ok(vec![droppable(index.id)?]),
            several => Err(CatalogError::AmbiguousIndexKeyPattern(format!(
                "{} indexes found for key: {}, identify by name instead. Conflicting indexes: {}",
                several.len(),
                pattern.quoted(),
                several.iter().map(|index| index.spec.name.as_str()).collect::<Vec<_>>().join(", ")
            ))),
        },
    }
}

fn droppable(id: IndexId) -> Result<IndexId, CatalogError> {
    if id == keys::ID_INDEX {
        return Err(CatalogError::InvalidOptions("cannot drop _id index".into()));
    }
    Ok(id)
}
