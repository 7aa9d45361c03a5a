//! Updating and deleting one document under its latch.

use super::cursor_options;
use super::latest::{Latest, Version};
use super::rules::{check_extent, check_id, check_validator};
use super::unique::{UniqueProbe, Uniqueness, duplicate};
use crate::change::Changes;
use crate::collection::{Collection, Writing};
use crate::definition::{CollectionDefinition, IndexDefinition};
use crate::index_keys::{Entries, Entry};
use crate::{OperationContext, WriteError, keys};
use document::key::encode_value;
use document::{DocumentBuf, RawDocument};
use std::sync::Arc;
use storage::{Keyspace, LatchTable};

/// What is to become of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It stays as it is.
    Keep,
    /// It is replaced (or inserted, when there is none).
    Replace(DocumentBuf),
    /// It is deleted.
    Remove,
}

/// What became of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpdateReport {
    /// Whether the document existed.
    pub existed: bool,
    /// Whether something was written: replaced, inserted or deleted.
    pub changed: bool,
}

/// What is to be done, short of doing it.
enum Planned<'o> {
    Nothing,
    Insert(DocumentBuf),
    Replacement(Changes<'o>),
    Removal(Changes<'o>),
}

/// The difference an update makes in one index.
struct IndexChange<'c> {
    index: &'c Arc<IndexDefinition>,
    removed: Vec<Entry>,
    added: Vec<Entry>,
    /// Those of `added` whose fields the old version did not have.
    fresh: Vec<usize>,
    entries: Option<Entries>,
}

impl Collection {
    /// Changes the document with this key: `decide` sees its latest version, under the document's latch, and says
    /// what is to become of it. It sees `None` when there is no such document; replacing nothing inserts (an
    /// upsert by `_id`; not in capped collections).
    ///
    /// Drive it to its end: dropped halfway, the change may have been made or not.
    ///
    /// # Errors
    /// What `decide` says, or a [`WriteError`].
    pub async fn update<E: From<WriteError>>(
        &self,
        context: &OperationContext<'_>,
        document_key: &[u8],
        decide: impl FnOnce(Option<RawDocument<'_>>) -> Result<Decision, E>,
    ) -> Result<UpdateReport, E> {
        let mut writing = self.begin_write().await?;
        let key = keys::document_key(self.id(), document_key);
        let Latest { latch, version, place } = self.latest(context, &key).await?;
        let old = version.as_ref().map(Version::document);
        let existed = old.is_some();
        let planned = match (decide(old), old) {
            (Err(error), _) => Err(error),
            (Ok(Decision::Keep), _) | (Ok(Decision::Remove), None) => Ok(Planned::Nothing),
            (Ok(Decision::Replace(new)), Some(old)) if new.as_raw().as_bytes() == old.as_bytes() => {
                Ok(Planned::Nothing)
            }
            (Ok(Decision::Replace(new)), Some(old)) => {
                match self.replacement(context, &mut writing, &key, old, new.as_raw()).await {
                    // Nothing is told of the old version: the caller does it again.
                    Err(error) if error.would_block() => return Err(error.into()),
                    changes => changes.map(Planned::Replacement).map_err(E::from),
                }
            }
            (Ok(Decision::Replace(new)), None) => Ok(Planned::Insert(new)),
            (Ok(Decision::Remove), Some(old)) => {
                let mut changes = Changes::new(context);
                let removed = self.remove(&writing.definition, &key, old, &mut changes);
                removed.map(|()| Planned::Removal(changes)).map_err(E::from)
            }
        };
        // Whoever keeps the old bytes may write the new ones in their place.
        drop(version);
        let mut changes = match planned {
            Ok(Planned::Replacement(changes)) if !self.is_capped() => {
                writing.latches.add_document(latch);
                changes
            }
            Ok(Planned::Replacement(changes) | Planned::Removal(changes)) => {
                writing.latches.add_key(latch);
                changes
            }
            Ok(Planned::Insert(new)) => {
                writing.latches.add_key(latch);
                self.insert_latched(context, &mut writing, new.as_raw(), &key).await?;
                return Ok(UpdateReport { existed, changed: true });
            }
            Ok(Planned::Nothing) => {
                drop((latch, writing));
                self.stored(context, place).await.map_err(WriteError::from)?;
                return Ok(UpdateReport { existed, changed: false });
            }
            Err(error) => {
                drop((latch, writing));
                // A key may be another document's.
                context.receipts.observed();
                self.stored(context, place).await.map_err(WriteError::from)?;
                return Err(error);
            }
        };
        if let Some(place) = place {
            changes.follow(place);
        }
        changes.hold(std::mem::take(&mut writing.latches));
        changes.commit(&self.store).await.map_err(WriteError::from)?;
        Ok(UpdateReport { existed, changed: true })
    }

    /// Deletes the document with this key; whether it existed tells the report.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn delete(
        &self,
        context: &OperationContext<'_>,
        document_key: &[u8],
    ) -> Result<UpdateReport, WriteError> {
        self.update(context, document_key, |found| {
            Ok(if found.is_some() { Decision::Remove } else { Decision::Keep })
        })
        .await
    }

    /// The changes that put a document in the place of another one, latches for unique keys included.
    async fn replacement<'o>(
        &self,
        context: &'o OperationContext<'o>,
        writing: &mut Writing,
        key: &[u8],
        old: RawDocument<'_>,
        new: RawDocument<'_>,
    ) -> Result<Changes<'o>, WriteError> {
        let definition = &*Arc::clone(&writing.definition);
        check_same_id(old, new)?;
        if !context.bypass_validation {
            check_validator(definition, Some(old), new)?;
        }
        let document_key = keys::behind_collection(key);
        let entries = index_changes(definition, old, new, document_key)?;
        let fresh = fresh_hashes(&entries);
        if !fresh.is_empty() {
            writing.latches.add_keys(self.key_latches.unique_keys.lock_many(&fresh).await);
        }
        self.check_fresh(context, definition, &entries)?;
        self.record_changed_paths(context, &entries).await?;
        let mut changes = Changes::with_capacity(context, new.as_bytes().len() + 128);
        if definition.is_capped() {
            let growth = new.as_bytes().len().saturating_sub(old.as_bytes().len()) as u64;
            self.trim_for_growth(context, definition, key, growth, &mut changes)?;
        }
        let removed = entries.iter().flat_map(|change| &change.removed);
        let added = entries.iter().flat_map(|change| &change.added);
        changes.update(definition, key, (old, new), removed, added);
        Ok(changes)
    }

    /// A capped collection that grows by an update loses its head as by an insert, but never the updated document.
    fn trim_for_growth(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        key: &[u8],
        growth: u64,
        changes: &mut Changes<'_>,
    ) -> Result<(), WriteError> {
        let Some(limits) = definition.options.capped else { return Ok(()) };
        let mut size = self.data_bytes() + growth;
        if growth == 0 || size <= limits.size_bytes_max {
            return Ok(());
        }
        let range = keys::document_range(self.id());
        let forward = storage::Direction::Forward;
        let options = cursor_options(context.tier);
        let mut cursor = context.view.cursor_with(Keyspace::Documents, range, forward, options)?;
        while size > limits.size_bytes_max {
            match cursor.next()? {
                Some((head, value)) if head < key => {
                    size = size.saturating_sub(value.len() as u64);
                    self.remove(definition, head, RawDocument::trusted(value), changes)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn check_fresh(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        changes: &[IndexChange<'_>],
    ) -> Result<(), WriteError> {
        for change in changes.iter().filter(|change| change.index.keeps_unique() && !change.fresh.is_empty())
        {
            let mut probe = UniqueProbe::new(context, self.id(), change.index.id)?;
            for entry in change.fresh.iter().filter_map(|&position| change.added.get(position)) {
                match probe.check(change.index, entry)? {
                    Uniqueness::Free => {}
                    Uniqueness::Taken => return Err(duplicate(definition, change.index, entry)),
                    Uniqueness::Suspect => {
                        self.building(change.index.id).suspect(change.index.id, entry);
                    }
                }
            }
        }
        Ok(())
    }

    async fn record_changed_paths(
        &self,
        context: &OperationContext<'_>,
        changes: &[IndexChange<'_>],
    ) -> Result<(), WriteError> {
        let additions: Vec<_> = changes
            .iter()
            .filter_map(|change| {
                let paths = &change.entries.as_ref()?.multikey;
                crate::collection::adds_paths(&change.index.multikey, paths)
                    .then(|| (change.index.id, paths.clone()))
            })
            .collect();
        if additions.is_empty() { Ok(()) } else { self.record_multikey(context, &additions).await }
    }
}

fn check_same_id(old: RawDocument<'_>, new: RawDocument<'_>) -> Result<(), WriteError> {
    check_extent(new)?;
    let id = new.get("_id").ok_or_else(|| WriteError::InvalidIdField("the document has no _id".into()))?;
    let (mut before, mut after) = (Vec::with_capacity(16), Vec::with_capacity(16));
    encode_value(&mut after, id);
    if let Some(id) = old.get("_id") {
        encode_value(&mut before, id);
    }
    if before == after {
        return Ok(());
    }
    check_id(id)?;
    Err(WriteError::ImmutableField(format!(
        "After applying the update, the (immutable) field '_id' was found to have been altered to _id: {}",
        id.quoted()
    )))
}

fn index_changes<'c>(
    definition: &'c CollectionDefinition,
    old: RawDocument<'_>,
    new: RawDocument<'_>,
    document_key: &[u8],
) -> Result<Vec<IndexChange<'c>>, WriteError> {
    let mut changes = Vec::new();
    for index in definition.stored_indexes().filter(|index| !index.generator.ignores_change(old, new)) {
        let before = index.generator.entries(old, document_key)?;
        let mut after = index.generator.entries(new, document_key)?;
        let removed = before
            .entries
            .iter()
            .filter(|entry| after.entries.binary_search_by(|other| other.key.cmp(&entry.key)).is_err())
            .cloned()
            .collect();
        let same_key =
            |entry: &Entry| before.entries.binary_search_by(|other| other.key.cmp(&entry.key)).ok();
        let mut added = std::mem::take(&mut after.entries);
        added.retain(|entry| {
            same_key(entry)
                .and_then(|position| before.entries.get(position))
                .is_none_or(|other| other.value != entry.value)
        });
        let fresh = added.iter().enumerate().filter(|(_, entry)| same_key(entry).is_none());
        let fresh = fresh.map(|(position, _)| position).collect();
        changes.push(IndexChange { index, removed, added, fresh, entries: Some(after) });
    }
    Ok(changes)
}

fn fresh_hashes(changes: &[IndexChange<'_>]) -> Vec<u64> {
    let unique = changes.iter().filter(|change| change.index.keeps_unique());
    let fresh =
        unique.flat_map(|change| change.fresh.iter().filter_map(|&position| change.added.get(position)));
    fresh.map(|entry| LatchTable::hash(entry.fields())).collect()
}
