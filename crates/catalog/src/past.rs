//! Reading the past: whether a view in time has the names of today, and carrying a view on to a later time by
//! what has become of its documents since.

use crate::catalog::{Catalog, load_records};
use crate::change::Changes;
use crate::collection::Collection;
use crate::state::CatalogEntry;
use crate::write::index_changes;
use crate::{CatalogError, OperationContext, ReadError, Receipts, WriteError, Writer, keys};
use document::{DocumentBuf, RawDocument, RawValue};
use storage::{Keyspace, ReadTier, ReadView, WriteUnit};

const SNAPSHOT_UNAVAILABLE: i32 = 246;

impl Catalog {
    /// Fails where a name stood for something else at the time of the view, or for what is gone. What has
    /// come since is empty in it.
    ///
    /// # Errors
    /// `SnapshotUnavailable`; storage errors.
    pub fn check_names_of(&self, view: &ReadView, database: &str, name: &str) -> Result<(), CatalogError> {
        let known = self.entry(database, name);
        if let Some(CatalogEntry::Collection(collection)) = &known
            && let Some(record) = view.get(Keyspace::Meta, &keys::record_key(collection.id()))?
        {
            let text = |field: &str| RawDocument::trusted(&record).get(field).and_then(RawValue::as_str);
            let is_same = (text("db"), text("name")) == (Some(database), Some(name));
            return if is_same { Ok(()) } else { Err(unavailable(database, name)) };
        }
        let then = load_records(view)?;
        let is_it =
            |namespace: &crate::Namespace| (namespace.database(), namespace.collection()) == (database, name);
        let then = then.into_iter().find(|definition| is_it(&definition.namespace));
        match (known, then) {
            (None | Some(CatalogEntry::Collection(_)), None) => Ok(()),
            (Some(CatalogEntry::View(now)), Some(then)) if then.to_record() == now.to_record() => Ok(()),
            _ => Err(unavailable(database, name)),
        }
    }
}

fn unavailable(database: &str, name: &str) -> CatalogError {
    let message = format!(
        "Unable to read from a snapshot due to pending collection catalog changes to {database}.{name}; \
         please retry the operation"
    );
    CatalogError::Location { code: SNAPSHOT_UNAVAILABLE, message }
}

fn unreadable(error: ReadError) -> CatalogError {
    match error {
        ReadError::Storage(error) => error.into(),
        other => CatalogError::Location { code: other.code(), message: other.to_string() },
    }
}

impl Collection {
    /// The document with this `_id` in a view, and its document key, where it has one.
    ///
    /// # Errors
    /// Storage errors.
    pub fn find_in(
        &self,
        view: &ReadView,
        id: RawValue<'_>,
    ) -> Result<Option<(Vec<u8>, DocumentBuf)>, ReadError> {
        let Some(key) = self.find_document_key(view, id, ReadTier::Any)? else { return Ok(None) };
        let found = self.fetch(view, &key, ReadTier::Any)?;
        Ok(found.map(|bytes| (key, RawDocument::trusted(&bytes).to_buf())))
    }

    /// Puts into a unit what makes of a view a later one: what has become of documents, each named by its
    /// `_id`, in the order in which they came into the collection. It is not to be committed.
    ///
    /// # Errors
    /// Storage errors.
    pub fn carry_on<'d>(
        &self,
        view: &ReadView,
        documents: impl Iterator<Item = (RawValue<'d>, Option<RawDocument<'d>>)>,
    ) -> Result<WriteUnit, CatalogError> {
        let (receipts, definition) = (Receipts::default(), self.definition());
        let context = OperationContext {
            view,
            tier: ReadTier::Any,
            bypass_validation: true,
            writer: Writer::Replication,
            observer: None,
            connection: 0,
            receipts: &receipts,
        };
        let mut changes = Changes::new(&context);
        let mut next_record = if self.is_capped() { self.last_record(view)? + 1 } else { 0 };
        for (id, after) in documents {
            let before = self.find_in(view, id).map_err(unreadable)?;
            let key = match &before {
                Some((key, _)) => keys::row_key(self.id(), key),
                None if self.is_capped() => {
                    next_record += 1;
                    keys::row_key(self.id(), &(next_record - 1).to_be_bytes())
                }
                None => keys::row_key(self.id(), &Collection::document_key_of_id(id)),
            };
            let document_key = keys::behind_collection(&key);
            let entries_of = |document: RawDocument<'_>| {
                let indexes = definition.stored_indexes();
                let entries =
                    indexes.map(|index| index.generator.entries_for(&context, document, document_key));
                entries.map(|found| found.map(|found| found.entries)).collect::<Result<Vec<_>, WriteError>>()
            };
            match (before.as_ref().map(|(_, before)| before.as_raw()), after) {
                (None, None) => {}
                (None, Some(after)) => {
                    let entries = entries_of(after)?;
                    changes.insert(&definition, &key, (after, 0), entries.iter().flatten());
                }
                (Some(before), None) => {
                    let entries = entries_of(before)?;
                    changes.delete(&definition, &key, before, entries.iter().flatten());
                }
                (Some(before), Some(after)) => {
                    let differences = index_changes(&context, &definition, before, after, document_key)?;
                    let removed = differences.iter().flat_map(|change| &change.removed);
                    let added = differences.iter().flat_map(|change| &change.added);
                    changes.update(&definition, &key, (before, after, true), removed, added);
                }
            }
        }
        Ok(changes.seal())
    }
}
