//! Updating and deleting documents under their latches: one, or several in one write unit.

use super::cursor_options;
use super::found::FoundDocuments;
use super::insert::UNIT_BYTES_MAX;
use super::latest::{Latest, Version};
use super::rules::{check_extent, check_id, check_validator};
use super::unique::{ReleasedKeys, UniqueProbe, duplicate};
use crate::change::Changes;
use crate::collection::{Collection, Writing};
use crate::definition::{CollectionDefinition, IndexDefinition};
use crate::index_keys::{IndexEntries, IndexEntryBuf};
use crate::{OperationContext, WriteError, keys};
use document::key::encode_value;
use document::{DocumentBuf, RawDocument};
use query::checkpoint;
use std::sync::Arc;
use std::time::Duration;
use storage::{Keyspace, LatchTable};

/// What is to become of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It stays as it is.
    Keep,
    /// This is made from it.
    Update(DocumentBuf),
    /// It is replaced as a whole (or inserted, when there is none).
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

/// What is to be done.
enum Planned {
    Nothing,
    Insert(DocumentBuf),
    /// It is among the changes.
    Replacement,
    /// It is among the changes.
    Removal,
    /// It needs a unit of its own: it takes keys of unique indexes of which another one has the latches, or
    /// it grows in a capped collection and may push others out.
    Alone,
}

/// Room for the entries of a document that is replaced.
const ENTRIES_BYTES: usize = 128;
/// How long documents are added to a unit: nobody else changes its documents meanwhile.
const UNIT_TIME_MAX: Duration = Duration::from_millis(5);
/// Documents between two looks at the clock.
const CHANGES_PER_LOOK: usize = 8;

/// The difference an update makes in one index.
pub(crate) struct IndexChange<'c> {
    index: &'c Arc<IndexDefinition>,
    pub(crate) removed: Vec<IndexEntryBuf>,
    pub(crate) added: Vec<IndexEntryBuf>,
    /// Those of `added` whose fields the old version did not have.
    fresh: Vec<usize>,
    entries: Option<IndexEntries>,
}

impl Collection {
    /// Changes the document with this key: `decide` sees its latest version, under the document's latch, and
    /// says what is to become of it. It sees `None` when there is no such document; replacing nothing inserts
    /// (an upsert by `_id`; not in capped collections).
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
        let key = keys::row_key(self.id(), document_key);
        let Latest { latch, version, place } = self.latest(context, &key).await?;
        let old = version.as_ref().map(Version::document);
        let existed = old.is_some();
        let decision = decide(old);
        let bytes = match &decision {
            Ok(Decision::Update(new) | Decision::Replace(new)) => new.len() + ENTRIES_BYTES,
            _ => 0,
        };
        let mut changes = Changes::with_capacity(context, bytes);
        let planned = match decision {
            Ok(decision) => {
                match self.plan(context, &mut writing, (&key, old), decision, &mut changes, None).await {
                    // Nothing is told of the old version: the caller does it again.
                    Err(error) if error.would_block() => return Err(error.into()),
                    planned => planned.map_err(E::from),
                }
            }
            Err(error) => Err(error),
        };
        // Whoever keeps the old bytes may write the new ones in their place.
        drop(version);
        match planned {
            Ok(Planned::Replacement) if !self.is_capped() => writing.latches.add_document(latch),
            Ok(Planned::Replacement | Planned::Removal) => writing.latches.add_key(latch),
            Ok(Planned::Insert(new)) => {
                writing.latches.add_key(latch);
                self.insert_latched(context, &mut writing, new.as_raw(), &key).await?;
                return Ok(UpdateReport { existed, changed: true });
            }
            Ok(Planned::Nothing | Planned::Alone) => {
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
        }
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

    /// Changes found documents in one write unit, from this position on, each as [`Collection::update`] does.
    /// `decide` is also told whether it sees what the walk saw. Tells how many are settled; an error is that
    /// of the next one. The unit may end early without one. When nothing is settled then, the first one is to
    /// be changed by itself: it is inserted, takes keys of unique indexes that others want as well, or grows
    /// in a capped collection.
    ///
    /// Drive it to its end: dropped halfway, the changes may have been made or not.
    pub async fn update_many<E: From<WriteError>>(
        &self,
        context: &OperationContext<'_>,
        found: &FoundDocuments,
        position: usize,
        mut decide: impl FnMut(Option<RawDocument<'_>>, bool) -> Result<Decision, E>,
    ) -> (usize, Result<(), E>) {
        let mut writing = match self.begin_write().await {
            Ok(writing) => writing,
            Err(error) => return (0, Err(error.into())),
        };
        let hashes = found.from(position).map(|found| LatchTable::hash(found.row_key)).collect();
        match checkpoint::wait(self.key_latches.documents.lock_many(hashes)).await {
            Ok(latches) => writing.latches.add_keys(latches),
            Err(end) => return (0, Err(WriteError::from(end).into())),
        }
        // From here on nobody else writes them.
        let sequence = context.view.sequence();
        let mut changes = Changes::with_capacity(context, found.byte_len());
        let mut released = ReleasedKeys::default();
        let (mut settled, mut result, began) = (0usize, Ok(()), ambient::now());
        for found in found.from(position) {
            let seen = found.seen.filter(|(_, as_of)| {
                *as_of == sequence || self.store.written_at_most(found.row_key) <= *as_of
            });
            let seen = seen.map(|(document, _)| document);
            let change = (found.row_key, seen, &mut released);
            match self.add_change(context, &mut writing, change, &mut decide, &mut changes).await {
                Ok(Planned::Alone | Planned::Insert(_)) => break,
                Ok(Planned::Replacement | Planned::Removal) => {}
                Ok(Planned::Nothing) => context.receipts.observed(),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            settled += 1;
            let looks = settled.is_multiple_of(CHANGES_PER_LOOK);
            if changes.byte_len() >= UNIT_BYTES_MAX || looks && ambient::elapsed(began) >= UNIT_TIME_MAX {
                break;
            }
        }
        if changes.byte_len() > 0 {
            changes.hold(std::mem::take(&mut writing.latches));
            if let Err(error) = changes.commit(&self.store).await {
                return (0, Err(WriteError::from(error).into()));
            }
        }
        (settled, result)
    }

    /// Adds to a unit the change of a document whose latch is held, and whose latest version may be known.
    async fn add_change<E: From<WriteError>>(
        &self,
        context: &OperationContext<'_>,
        writing: &mut Writing,
        (key, seen, released): (&[u8], Option<RawDocument<'_>>, &mut ReleasedKeys),
        decide: &mut impl FnMut(Option<RawDocument<'_>>, bool) -> Result<Decision, E>,
        changes: &mut Changes<'_>,
    ) -> Result<Planned, E> {
        let stored = match seen {
            Some(_) => None,
            None => {
                context.view.get_tier(Keyspace::Documents, key, context.tier).map_err(WriteError::from)?
            }
        };
        let old = seen.or_else(|| stored.as_ref().map(|bytes| RawDocument::trusted(bytes)));
        let decision = decide(old, seen.is_some())?;
        Ok(self.plan(context, writing, (key, old), decision, changes, Some(released)).await?)
    }

    /// Adds to the changes what becomes of a document, unless it is inserted. Others in the same unit have
    /// released keys; without such a list there are none.
    async fn plan(
        &self,
        context: &OperationContext<'_>,
        writing: &mut Writing,
        (key, old): (&[u8], Option<RawDocument<'_>>),
        decision: Decision,
        changes: &mut Changes<'_>,
        company: Option<&mut ReleasedKeys>,
    ) -> Result<Planned, WriteError> {
        let (old, new, replaces) = match (old, decision) {
            (_, Decision::Keep) | (None, Decision::Remove) => return Ok(Planned::Nothing),
            (None, Decision::Update(new) | Decision::Replace(new)) => return Ok(Planned::Insert(new)),
            (Some(old), Decision::Remove) => {
                self.remove(context, &writing.definition, key, old, changes)?;
                return Ok(Planned::Removal);
            }
            (Some(old), Decision::Update(new)) => (old, new, false),
            (Some(old), Decision::Replace(new)) => (old, new, true),
        };
        let new = new.as_raw();
        if new.as_bytes() == old.as_bytes() {
            return Ok(Planned::Nothing);
        }
        let definition = &*Arc::clone(&writing.definition);
        let growth = new.as_bytes().len().saturating_sub(old.as_bytes().len()) as u64;
        if company.is_some() && definition.is_capped() && growth > 0 {
            return Ok(Planned::Alone);
        }
        check_same_id(old, new)?;
        if context.keeps_rules() && !context.bypass_validation {
            check_validator(definition, Some(old), new)?;
        }
        let entries = index_changes(context, definition, old, new, keys::behind_collection(key))?;
        let fresh = fresh_hashes(&entries);
        if !fresh.is_empty() && context.keeps_rules() {
            let latches = &self.key_latches.unique_keys;
            let held = match company {
                // Who waits has no other latches of keys: two that do could wait for each other.
                Some(_) => match latches.try_lock_many(fresh) {
                    Some(held) => held,
                    None => return Ok(Planned::Alone),
                },
                None => checkpoint::wait(latches.lock_many(fresh)).await?,
            };
            writing.latches.add_keys(held);
            let none = ReleasedKeys::default();
            self.check_fresh(context, definition, &entries, company.as_deref().unwrap_or(&none))?;
        }
        self.record_changed_paths(context, &entries).await?;
        if definition.is_capped() && context.keeps_rules() {
            self.trim_for_growth(context, definition, key, growth, changes)?;
        }
        let removed = entries.iter().flat_map(|change| &change.removed);
        let added = entries.iter().flat_map(|change| &change.added);
        changes.update(definition, key, (old, new, replaces), removed, added);
        if let Some(released) = company {
            let unique = entries.iter().filter(|change| change.index.keeps_unique());
            released.extend(unique.flat_map(|change| &change.removed).map(|entry| entry.key.clone()));
        }
        Ok(Planned::Replacement)
    }

    /// A capped collection that grows by an update loses its head as by an insert, but never the updated
    /// document.
    fn trim_for_growth(
        &self,
        context: &OperationContext<'_>,
        definition: &CollectionDefinition,
        key: &[u8],
        growth: u64,
        changes: &mut Changes<'_>,
    ) -> Result<(), WriteError> {
        let limits = definition.options.capped.expect("a collection that is trimmed has limits");
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
                    self.remove(context, definition, head, RawDocument::trusted(value), changes)?;
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
        released: &ReleasedKeys,
    ) -> Result<(), WriteError> {
        for change in changes.iter().filter(|change| change.index.keeps_unique() && !change.fresh.is_empty())
        {
            let mut probe = UniqueProbe::new(context, self.id(), change.index.id)?;
            for entry in change.fresh.iter().filter_map(|&position| change.added.get(position)) {
                if let Some(holder) = probe.holder(entry, released)? {
                    return Err(duplicate(definition, change.index, entry, Some(holder)));
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
    if let (Some(before), Some(after)) = (old.first(), new.first())
        && after.name_bytes() == b"_id"
        && before.raw() == after.raw()
    {
        return Ok(());
    }
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

pub(crate) fn index_changes<'c>(
    context: &OperationContext<'_>,
    definition: &'c CollectionDefinition,
    old: RawDocument<'_>,
    new: RawDocument<'_>,
    document_key: &[u8],
) -> Result<Vec<IndexChange<'c>>, WriteError> {
    let mut changes = Vec::new();
    for index in definition.stored_indexes().filter(|index| !index.generator.ignores_change(old, new)) {
        let before = index.generator.entries_for(context, old, document_key)?;
        let mut after = index.generator.entries_for(context, new, document_key)?;
        let removed = before
            .entries
            .iter()
            .filter(|entry| after.entries.binary_search_by(|other| other.key.cmp(&entry.key)).is_err())
            .cloned()
            .collect();
        let same_key =
            |entry: &IndexEntryBuf| before.entries.binary_search_by(|other| other.key.cmp(&entry.key)).ok();
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
