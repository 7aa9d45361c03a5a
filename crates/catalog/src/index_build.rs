//! Building indexes on documents that are there already, while readers read and writers write.
//!
//! ```text
//!  register (writers kept out for a moment) ─▶ from here on writers maintain the new indexes
//!      └▶ batches: latch some documents, read them, add their entries ─▶ … ─▶ end of the collection
//!            └▶ writers kept out for a moment: are suspected duplicates still duplicates?
//!                  ├▶ yes: the indexes go, DuplicateKey
//!                  └▶ no: the indexes are ready
//! ```
//! A crash in between leaves indexes in the state `building` in the record; opening the catalog removes them.

use crate::change::Changes;
use crate::collection::Collection;
use crate::definition::IndexState;
use crate::index_keys::IndexEntryBuf;
use crate::keys::{self, IndexId};
use crate::waiters::{Waiters, give_way};
use crate::write::unique::{ReleasedKeys, UniqueProbe, duplicate};
use crate::{CatalogError, OperationContext};
use document::RawDocument;
use parking_lot::Mutex;
use query::checkpoint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use storage::{CursorOptions, Direction, KeyRange, Keyspace, LatchTable, ReadTier};

/// Documents of one batch: bounds how long their latches are held.
const BATCH_DOCUMENTS: usize = 128;
/// Bytes of documents of one batch.
const BATCH_BYTES: usize = 1 << 20;
/// Suspected duplicates kept in memory; a build that meets more reads its unique indexes once more at the
/// end.
const SUSPECTS_MAX: usize = 10_000;

/// One index build, for `currentOp` and for stopping it.
#[derive(Debug)]
pub struct BuildProgress {
    index_ids: Vec<IndexId>,
    names: Vec<String>,
    /// Indexes that go when the new ones are ready.
    replaced: Vec<IndexId>,
    done: AtomicU64,
    total: u64,
    cancelled: AtomicBool,
    /// Entries of unique indexes whose fields another document had when they were written. A leaf in the
    /// lock order.
    suspects: Mutex<Vec<(IndexId, IndexEntryBuf)>>,
    /// Not every suspect could be kept.
    overflowed: AtomicBool,
    finished: Waiters,
}

impl BuildProgress {
    fn new(indexes: Vec<(IndexId, String)>, replaced: Vec<IndexId>, total: u64) -> Arc<Self> {
        let (index_ids, names) = indexes.into_iter().unzip();
        Arc::new(BuildProgress {
            index_ids,
            names,
            replaced,
            done: AtomicU64::new(0),
            total,
            cancelled: AtomicBool::new(false),
            suspects: Mutex::default(),
            overflowed: AtomicBool::new(false),
            finished: Waiters::default(),
        })
    }

    /// The names of the indexes being built.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Documents read so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Documents to read: as many as there were at the beginning.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Asks the build to stop; it removes what it has made.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    pub(crate) fn index_ids(&self) -> &[IndexId] {
        &self.index_ids
    }

    pub(crate) const fn finished(&self) -> &Waiters {
        &self.finished
    }

    pub(crate) fn suspect(&self, index: IndexId, entry: &IndexEntryBuf) {
        let mut suspects = self.suspects.lock();
        if suspects.len() < SUSPECTS_MAX {
            suspects.push((index, entry.clone()));
        } else {
            self.overflowed.store(true, Ordering::Release);
        }
    }

    fn check_going_on(&self) -> Result<(), CatalogError> {
        if self.cancelled.load(Ordering::Acquire) {
            return Err(CatalogError::IndexBuildAborted(format!(
                "Index build aborted: {}",
                self.names.join(", ")
            )));
        }
        Ok(())
    }
}

/// Starts a build of indexes that the published definition already has in the state `Building`. The replaced
/// ones go at its end.
pub(crate) fn start(
    collection: &Collection,
    indexes: Vec<(IndexId, String)>,
    replaced: Vec<IndexId>,
) -> Arc<BuildProgress> {
    let build = BuildProgress::new(indexes, replaced, collection.document_count());
    collection.add_build(Arc::clone(&build));
    build
}

/// Fills the indexes. Afterwards [`finish`] or [`abandon`] is called with the collection's writers kept out.
pub(crate) async fn fill(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    let mut position = Some(Vec::new());
    while let Some(from) = position.take() {
        build.check_going_on()?;
        checkpoint::look()?;
        position = fill_slice(context, collection, build, &from).await?;
        if build.suspects.lock().len() >= SUSPECTS_MAX {
            // Most likely there are real duplicates, and the build fails early. Those cleared now may become
            // duplicates again, and the list is not kept: only a whole reading at the end is sure then.
            build.overflowed.store(true, Ordering::Release);
            check_suspects(context, collection, build)?;
        }
        give_way().await;
    }
    build.check_going_on()
}

/// Adds the entries of the documents from a document key on; returns where the next batch begins.
async fn fill_slice(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
    from: &[u8],
) -> Result<Option<Vec<u8>>, CatalogError> {
    let keys = batch_keys(context, collection, from)?;
    let Some(last) = keys.last() else { return Ok(None) };
    let next = [keys::behind_collection(last), &[0]].concat();
    let mut writing = collection.begin_write().await?;
    let hashes: Vec<u64> = keys.iter().map(|key| LatchTable::hash(key)).collect();
    writing.latches.add_keys(checkpoint::wait(collection.key_latches.documents.lock_many(hashes)).await?);
    let definition = &*writing.definition;
    let mut entries: Vec<(IndexId, bool, IndexEntryBuf)> = Vec::new();
    let mut additions = Vec::new();
    for key in &keys {
        // A document that is gone by now has no entries any more.
        let Some(bytes) = context.view.get(Keyspace::Documents, key)? else { continue };
        let document_key = keys::behind_collection(key);
        for index in definition.indexes.iter().filter(|index| build.index_ids.contains(&index.id)) {
            let found = index.generator.entries_for(context, RawDocument::trusted(&bytes), document_key)?;
            if crate::collection::adds_paths(&index.multikey, &found.multikey) {
                additions.push((index.id, found.multikey));
            }
            entries.extend(found.entries.into_iter().map(|entry| (index.id, index.keeps_unique(), entry)));
        }
    }
    if !additions.is_empty() {
        collection.record_multikey(context, &additions).await?;
    }
    let unique: Vec<u64> = entries
        .iter()
        .filter(|(_, unique, _)| *unique)
        .map(|(_, _, entry)| LatchTable::hash(entry.fields()))
        .collect();
    writing.latches.add_keys(checkpoint::wait(collection.key_latches.unique_keys.lock_many(unique)).await?);
    if context.keeps_rules() {
        note_suspects(context, collection, build, &entries)?;
    }
    if !entries.is_empty() {
        let mut changes = Changes::new(context);
        changes.fill_index(entries.iter().map(|(_, _, entry)| entry));
        changes.hold(writing.latches);
        changes.commit(&collection.store).await?;
    }
    build.done.fetch_add(keys.len() as u64, Ordering::Relaxed);
    Ok(Some(next))
}

fn batch_keys(
    context: &OperationContext<'_>,
    collection: &Collection,
    from: &[u8],
) -> Result<Vec<Vec<u8>>, CatalogError> {
    let lower = keys::row_key(collection.id(), from);
    let range = KeyRange { lower: Some(lower), upper: keys::document_range(collection.id()).upper };
    let options = CursorOptions { tier: ReadTier::Any, fill_cache: false };
    let mut cursor = context.view.cursor_with(Keyspace::Documents, range, Direction::Forward, options)?;
    let (mut keys, mut bytes) = (Vec::with_capacity(BATCH_DOCUMENTS), 0);
    while keys.len() < BATCH_DOCUMENTS && bytes < BATCH_BYTES {
        let Some((key, value)) = cursor.next()? else { break };
        bytes += value.len();
        keys.push(key.to_vec());
    }
    Ok(keys)
}

/// Looks for duplicates among the entries of a batch and in the index so far.
fn note_suspects(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
    entries: &[(IndexId, bool, IndexEntryBuf)],
) -> Result<(), CatalogError> {
    let none = ReleasedKeys::default();
    for &index in &build.index_ids {
        let mut own: Vec<&IndexEntryBuf> = entries
            .iter()
            .filter(|(id, unique, _)| *unique && *id == index)
            .map(|(_, _, entry)| entry)
            .collect();
        if own.is_empty() {
            continue;
        }
        own.sort_unstable();
        let mut probe = UniqueProbe::new(context, collection.id(), index)?;
        let mut previous: Option<&IndexEntryBuf> = None;
        for entry in own {
            if previous.is_some_and(|previous| previous.fields() == entry.fields())
                || probe.is_taken(entry, &none)?
            {
                build.suspect(index, entry);
            }
            previous = Some(entry);
        }
    }
    Ok(())
}

/// Fails when a suspected duplicate still is one.
fn check_suspects(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    let suspects = std::mem::take(&mut *build.suspects.lock());
    let definition = collection.definition();
    for (id, entry) in suspects {
        let Some(index) = definition.index_by_id(id) else { continue };
        // The entry itself may be gone; what counts is whether two documents have its fields now.
        if count_entries(context.view, &entry)? > 1 {
            return Err(CatalogError::Write(duplicate(&definition, index, &entry)));
        }
    }
    Ok(())
}

fn count_entries(view: &storage::ReadView, entry: &IndexEntryBuf) -> Result<usize, CatalogError> {
    let mut cursor = view.cursor(Keyspace::Indexes, KeyRange::prefix(entry.fields()), Direction::Forward)?;
    let mut count = 0;
    while count < 2 && cursor.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Fails when two neighbouring entries of a unique index have the same fields.
pub(crate) fn check_all_entries(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    let definition = collection.definition();
    for index in build.index_ids.iter().filter_map(|&id| definition.index_by_id(id)) {
        if !index.spec.unique {
            continue;
        }
        let range = keys::index_range(collection.id(), index.id);
        let mut cursor = context.view.cursor(Keyspace::Indexes, range, Direction::Forward)?;
        let mut previous: Vec<u8> = Vec::new();
        let mut is_first = true;
        while let Some((key, value)) = cursor.next()? {
            let entry = keys::whole_entry(key, value)?;
            if !is_first && entry.fields == previous {
                let fields_end = keys::INDEX_PREFIX + entry.fields.len();
                let entry = IndexEntryBuf { key: key.to_vec(), value: value.to_vec(), fields_end };
                return Err(CatalogError::Write(duplicate(&definition, index, &entry)));
            }
            is_first = false;
            previous.clear();
            previous.extend_from_slice(entry.fields);
        }
    }
    Ok(())
}

/// The last step with writers kept out: no duplicates, then the indexes become ready.
pub(crate) async fn finish(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    check_suspects(context, collection, build)?;
    if build.overflowed.load(Ordering::Acquire) {
        check_all_entries(context, collection, build)?;
    }
    let mut definition = collection.definition().copy()?;
    for &id in &build.index_ids {
        definition
            .change_index(id, |index| (index.spec.clone(), IndexState::Ready, index.multikey.clone()))?;
    }
    let replaced = definition.take_indexes(|index| build.replaced.contains(&index.id));
    let mut changes = Changes::new(context);
    changes.commit_index_build(&definition, &build.index_ids, &replaced);
    changes.commit(&collection.store).await?;
    collection.publish(definition);
    Ok(())
}

/// Removes the indexes with writers kept out.
pub(crate) async fn abandon(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    let mut changes = Changes::new(context);
    changes.pass_gates();
    remove_indexes(changes, collection, &build.index_ids).await
}

/// Gives up indexes that cannot be removed from the store now, as a full disk may have it: nobody maintains
/// them any more, nor takes them for ready. The catalog's next opening removes what is left of them, unless
/// the collection's record was written anew; then only dropping the collection gives their room back.
pub(crate) fn forget(collection: &Collection, build: &BuildProgress) -> Result<(), CatalogError> {
    let mut definition = collection.definition().copy()?;
    definition.take_indexes(|index| build.index_ids.contains(&index.id));
    collection.publish(definition);
    Ok(())
}

/// Removes indexes and all their entries in one unit.
pub(crate) async fn remove_indexes(
    mut changes: Changes<'_>,
    collection: &Collection,
    ids: &[IndexId],
) -> Result<(), CatalogError> {
    let mut definition = collection.definition().copy()?;
    let dropped = definition.take_indexes(|index| ids.contains(&index.id));
    changes.drop_indexes(&definition, &dropped);
    changes.commit(&collection.store).await?;
    collection.publish(definition);
    for &id in ids {
        collection.store.reclaim(Keyspace::Indexes, keys::index_range(collection.id(), id));
    }
    Ok(())
}
