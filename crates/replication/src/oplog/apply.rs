//! Applying operations, through catalog's own door.
//!
//! The data may be newer than the operation: a member that starts again, or that has copied files while they
//! were written to, applies a part of the log once more. Afterwards they are what they would have been, for
//! each document, name and index is what the last operation about it says. What an operation is about and is
//! not there any more, is passed over.

use super::command::BuildStep;
use super::{
    MalformedEntry, Operation, OplogCommand, OplogEntry, OplogUpdate, Statement, StatementOrigin, Target,
    delta,
};
use crate::retryable::{CheckOutError, RetryObserver, RetryTable, RetryableWrite, WriterRole};
use catalog::{
    Catalog, CatalogEntry, CatalogError, Collection, CollectionOptions, Decision, IndexSelection, IndexSpec,
    Namespace, OperationContext, ReadError, WriteError, Writer,
};
use document::{DocumentBuf, DocumentBuilder, RawDocument};
use std::sync::Arc;
use uuid::Uuid;

/// Why an operation was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// It makes no sense.
    #[error(transparent)]
    Malformed(#[from] MalformedEntry),
    /// The catalog refuses it.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A document cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A document cannot be found.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Applies entries of the log, in their order.
#[derive(Debug)]
pub struct Applier<'a> {
    catalog: &'a Catalog,
    /// `None` where entries are not those of a log.
    sessions: Option<&'a RetryTable>,
    context: OperationContext<'a>,
}

impl<'a> Applier<'a> {
    /// For the data of `catalog`; the context's writer becomes [`Writer::Replication`]. A statement of a
    /// session waits until no command has that session.
    pub fn new(catalog: &'a Catalog, sessions: &'a RetryTable, context: OperationContext<'a>) -> Self {
        let context = OperationContext { writer: Writer::Replication, ..context };
        Applier { catalog, sessions: Some(sessions), context }
    }

    /// For single operations that are done anew, for who the context says: `applyOps`.
    pub fn of_operations(catalog: &'a Catalog, context: OperationContext<'a>) -> Self {
        Applier { catalog, sessions: None, context }
    }

    /// Applies one entry. Of an `applyOps`, parts may be applied when it fails: apply it again.
    ///
    /// # Errors
    /// What is wrong with it, or with the store.
    pub async fn apply(&self, entry: &OplogEntry) -> Result<(), ApplyError> {
        let parts = match &entry.operation {
            Operation::Command(OplogCommand::ApplyOps(parts)) => parts.as_slice(),
            Operation::Command(command) => return self.apply_command(command).await,
            operation => std::slice::from_ref(operation),
        };
        let write = match &entry.origin {
            Some(origin) => self.session_of(origin).await?,
            None => None,
        };
        for (position, part) in parts.iter().enumerate() {
            let origin = write.as_ref().zip(entry.origin.as_ref());
            let statement =
                origin.and_then(|(write, origin)| Some((write, (*origin.statements.get(position)?)?)));
            match statement {
                Some((write, statement)) => self.apply_once(part, write, statement, entry.wall).await?,
                None => self.apply_to_document(&self.context, part).await?,
            }
        }
        Ok(())
    }

    /// The session of a retryable write. `None` where a later write of it is known, or it is not kept.
    async fn session_of(&self, origin: &StatementOrigin) -> Result<Option<RetryableWrite>, ApplyError> {
        let Some(sessions) = self.sessions else { return Ok(None) };
        let write = sessions.check_out((origin.lsid.clone(), origin.txn_number), &self.context).await;
        match write {
            Err(CheckOutError::TooOld(_)) => Ok(None),
            Err(CheckOutError::Read(error)) => Err(error.into()),
            Err(CheckOutError::Catalog(error)) => Err(error.into()),
            Err(CheckOutError::Write(error)) => Err(error.into()),
            Ok(write) => Ok(write),
        }
    }

    /// Applies an operation that is a statement of a retryable write, and notes it in the same unit.
    async fn apply_once(
        &self,
        operation: &Operation,
        write: &RetryableWrite,
        statement: Statement,
        wall: i64,
    ) -> Result<(), ApplyError> {
        let context = &self.context;
        if write.executed(statement.id, context.view, context.tier)?.is_some() {
            return self.apply_to_document(context, operation).await;
        }
        let (id, role) = ([statement.id], WriterRole::Applier { wall });
        let observer = match operation {
            Operation::Insert { .. } if !statement.upserts => RetryObserver::of_inserts(write, &id, role),
            Operation::Delete { .. } => RetryObserver::of_removal(write, statement.id, statement.image, role),
            _ => RetryObserver::of_update(write, statement.id, statement.image, role),
        };
        let observed = OperationContext { observer: Some(&observer), ..*context };
        self.apply_to_document(&observed, operation).await
    }

    /// Applies an operation that belongs to no session, and is no `applyOps`.
    ///
    /// # Errors
    /// What is wrong with it, or with the store.
    pub async fn apply_operation(&self, operation: &Operation) -> Result<(), ApplyError> {
        match operation {
            Operation::Command(command) => self.apply_command(command).await,
            operation => self.apply_to_document(&self.context, operation).await,
        }
    }

    async fn apply_to_document(
        &self,
        context: &OperationContext<'_>,
        operation: &Operation,
    ) -> Result<(), ApplyError> {
        let (target, object) = match operation {
            Operation::Insert { target, document } => (target, document),
            Operation::Update { target, document_key, .. } | Operation::Delete { target, document_key } => {
                (target, document_key)
            }
            Operation::Command(_) | Operation::Noop(_) => return Ok(()),
        };
        if target.uuid.is_none() {
            return self.apply_to_view(target, operation).await;
        }
        let Some(collection) = self.collection(target) else { return Ok(()) };
        let id = object.as_raw().get("_id").ok_or_else(|| MalformedEntry::new("a document without _id"))?;
        let found = collection.find_document_key(context.view, id, context.tier)?;
        match (operation, found) {
            (Operation::Insert { document, .. }, found) if collection.is_capped() => {
                // It comes to the end, as it did then.
                if let Some(key) = found {
                    collection.delete(context, &key).await?;
                }
                collection.insert(context, document.as_raw()).await?;
            }
            (_, None) => {}
            (Operation::Insert { document, .. }, Some(key)) => {
                let decide =
                    |_: Option<RawDocument<'_>>| Ok::<_, ApplyError>(Decision::Replace(document.clone()));
                collection.update(context, &key, decide).await?;
            }
            (Operation::Update { update, .. }, Some(key)) => {
                collection.update(context, &key, |found| updated(found, update)).await?;
            }
            (_, Some(key)) => drop(collection.delete(context, &key).await?),
        }
        Ok(())
    }

    /// The collection that is meant, whatever its name is by now.
    fn collection(&self, target: &Target) -> Option<Arc<Collection>> {
        let named = self.catalog.collection(target.namespace.database(), target.namespace.collection());
        match named.filter(|named| Some(named.uuid()) == target.uuid) {
            Some(named) => Some(named),
            None => self.collection_by_uuid(target.uuid?),
        }
    }

    fn collection_by_uuid(&self, uuid: Uuid) -> Option<Arc<Collection>> {
        self.catalog.state().collections().find(|collection| collection.uuid() == uuid).cloned()
    }

    async fn apply_to_view(&self, target: &Target, operation: &Operation) -> Result<(), ApplyError> {
        if target.namespace.collection() != "system.views" {
            return Err(MalformedEntry::new("an operation on documents of a collection has no 'ui'").into());
        }
        let (object, view) = match operation {
            Operation::Insert { document, .. } => (document, Some(document)),
            Operation::Update { document_key, update: OplogUpdate::Replacement(document), .. } => {
                (document_key, Some(document))
            }
            Operation::Delete { document_key, .. } => (document_key, None),
            _ => return Err(MalformedEntry::new("a view is not told as a whole").into()),
        };
        let name = super::operation::text(object.as_raw(), "_id")?;
        let name = super::operation::namespace(name)?;
        match self.catalog.entry(name.database(), name.collection()) {
            Some(CatalogEntry::View(_)) => drop(self.catalog.drop_collection(&self.context, &name).await?),
            Some(CatalogEntry::Collection(_)) if view.is_some() => self.make_way(&name).await?,
            _ => {}
        }
        if let Some(view) = view {
            let options =
                CollectionOptions::parse(super::command::without(view.as_raw(), &["_id"]).as_raw())?;
            self.catalog.create(&self.context, &name, options).await?;
        }
        Ok(())
    }

    async fn apply_command(&self, command: &OplogCommand) -> Result<(), ApplyError> {
        match command {
            OplogCommand::Create { target, options } => self.create(target, options).await,
            OplogCommand::Drop(target) => self.drop_collection(target.uuid).await,
            OplogCommand::Rename { target, to, drop_target } => {
                self.drop_collection(*drop_target).await?;
                match self.collection(target) {
                    Some(collection) => self.rename(&collection, to).await,
                    None => Ok(()),
                }
            }
            OplogCommand::Modify { target, fields, .. } => match self.collection(target) {
                Some(collection) => self.modify(&collection, fields.as_raw()).await,
                None => Ok(()),
            },
            OplogCommand::CreateIndex { target, spec } => {
                self.create_indexes(target, std::slice::from_ref(spec)).await
            }
            OplogCommand::IndexBuild { target, step: BuildStep::Commit, specs, .. } => {
                self.create_indexes(target, specs).await
            }
            // Built where it is committed: so one that is given up has cost nothing.
            OplogCommand::IndexBuild { .. } => Ok(()),
            OplogCommand::DropIndex { target, spec } => match self.collection(target) {
                Some(collection) => {
                    let name = super::operation::text(spec.as_raw(), "name")?;
                    self.drop_index(&collection, name).await
                }
                None => Ok(()),
            },
            OplogCommand::ApplyOps(_) => unreachable!("applied by its parts"),
        }
    }

    async fn create(&self, target: &Target, options: &DocumentBuf) -> Result<(), ApplyError> {
        if let Some(existing) = self.collection(target) {
            return self.rename(&existing, &target.namespace).await;
        }
        let uuid = target.uuid.ok_or_else(|| MalformedEntry::new("a collection is created without 'ui'"))?;
        let options = CollectionOptions::parse(options.as_raw())?;
        self.make_way(&target.namespace).await?;
        self.catalog.create_with_uuid(&self.context, &target.namespace, options, uuid).await?;
        Ok(())
    }

    async fn drop_collection(&self, uuid: Option<Uuid>) -> Result<(), ApplyError> {
        if let Some(collection) = uuid.and_then(|uuid| self.collection_by_uuid(uuid)) {
            let namespace = collection.definition().namespace.clone();
            self.catalog.drop_collection(&self.context, &namespace).await?;
        }
        Ok(())
    }

    async fn rename(&self, collection: &Collection, to: &Namespace) -> Result<(), ApplyError> {
        let from = collection.definition().namespace.clone();
        if from != *to {
            self.make_way(to).await?;
            self.catalog.rename(&self.context, &from, to, false).await?;
        }
        Ok(())
    }

    /// Frees a name from what will have it later in the log: a collection gets it back then, a view comes
    /// again.
    async fn make_way(&self, name: &Namespace) -> Result<(), ApplyError> {
        match self.catalog.entry(name.database(), name.collection()) {
            None => {}
            Some(CatalogEntry::View(_)) => drop(self.catalog.drop_collection(&self.context, name).await?),
            Some(CatalogEntry::Collection(collection)) => {
                let waiting = format!("tmp{}.rename", collection.uuid().simple());
                let waiting = Namespace::new(name.database(), &waiting);
                self.catalog.rename(&self.context, name, &waiting, false).await?;
            }
        }
        Ok(())
    }

    /// What is about an index is applied by itself: that one may be another one by now.
    async fn modify(&self, collection: &Collection, fields: RawDocument<'_>) -> Result<(), ApplyError> {
        let namespace = collection.definition().namespace.clone();
        for element in fields.iter() {
            let mut bytes = Vec::new();
            DocumentBuilder::new(&mut bytes).append_element(element);
            let field = RawDocument::trusted(&bytes);
            match self.catalog.coll_mod(&self.context, &namespace, field).await {
                Err(
                    CatalogError::IndexNotFound(_)
                    | CatalogError::InvalidOptions(_)
                    | CatalogError::Location { .. },
                ) if element.name() == "index" => {}
                modified => drop(modified?),
            }
        }
        Ok(())
    }

    async fn create_indexes(&self, target: &Target, specs: &[DocumentBuf]) -> Result<(), ApplyError> {
        let Some(collection) = self.collection(target) else { return Ok(()) };
        let specs = specs.iter().map(|spec| IndexSpec::parse(spec.as_raw()));
        let specs = specs.collect::<Result<Vec<_>, _>>()?;
        let definition = collection.definition();
        for index in &definition.indexes {
            // Whatever is in the way comes later in the log.
            let is_in_the_way = |spec: &IndexSpec| {
                index.spec != *spec && (index.spec.name == spec.name || index.spec.has_signature_of(spec))
            };
            if specs.iter().any(is_in_the_way) {
                self.drop_index(&collection, &index.spec.name).await?;
            }
        }
        self.catalog.create_indexes(&self.context, &definition.namespace, &specs).await?;
        Ok(())
    }

    async fn drop_index(&self, collection: &Collection, name: &str) -> Result<(), ApplyError> {
        let definition = collection.definition();
        if definition.index(name).is_some() {
            let selection = IndexSelection::Names(vec![name.to_owned()]);
            self.catalog.drop_indexes(&self.context, &definition.namespace, &selection).await?;
        }
        Ok(())
    }
}

fn updated(found: Option<RawDocument<'_>>, update: &OplogUpdate) -> Result<Decision, ApplyError> {
    Ok(match (found, update) {
        (None, _) => Decision::Keep,
        (Some(_), OplogUpdate::Replacement(document)) => Decision::Replace(document.clone()),
        (Some(found), OplogUpdate::Delta(delta)) => Decision::Update(delta::apply(found, delta.as_raw())?),
    })
}
