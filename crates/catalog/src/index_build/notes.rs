//! What writers noted while an index was built becomes part of it.
//!
//! A note is the last word about one entry, and written in the unit that changes the document. Each batch of
//! them is settled with writers kept out: a millisecond each time, where latches of as many documents took
//! far longer to come by than that.

use super::{BuildProgress, note_suspects};
use crate::change::Changes;
use crate::collection::Collection;
use crate::index_keys::IndexEntryBuf;
use crate::keys::{self, IndexId};
use crate::waiters::give_way;
use crate::{CatalogError, OperationContext};
use query::checkpoint;
use storage::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier, ReadView};

/// Notes of one unit: bounds how long writers are kept out each time.
const BATCH_NOTES: usize = 256;
/// Bytes of notes of one unit.
const BATCH_BYTES: usize = 256 << 10;
/// When a pass has found no more than this, the rest is settled with writers kept out all the time.
const FEW_NOTES: usize = 1000;

/// Notes on their way: where the next batch begins, and what was found.
struct Batch {
    found: Vec<(Vec<u8>, Vec<u8>)>,
    next: Option<Vec<u8>>,
}

/// Settles notes, beside writers, until there are few.
pub(super) async fn settle_most(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    let mut before = usize::MAX;
    loop {
        let mut settled = 0;
        for &index in build.index_ids() {
            settled += settle(context, collection, (build, index), true).await?;
        }
        // Writers that are nearly as fast as this are kept out for the rest, too: it would not end.
        if settled <= FEW_NOTES || settled > before / 2 {
            return Ok(());
        }
        before = settled;
    }
}

/// Settles all notes, with writers kept out.
pub(super) async fn settle_rest(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
) -> Result<(), CatalogError> {
    for &index in build.index_ids() {
        settle(context, collection, (build, index), false).await?;
    }
    Ok(())
}

async fn settle(
    context: &OperationContext<'_>,
    collection: &Collection,
    (build, index): (&BuildProgress, IndexId),
    beside_writers: bool,
) -> Result<usize, CatalogError> {
    // Those that there are now: who follows writers that add at the end does not come to it.
    let listing = collection.store.pinned_view();
    let mut next = Some(keys::notes_prefix(collection.id(), index).to_vec());
    let mut settled = 0;
    while let Some(from) = next.take() {
        build.check_going_on()?;
        checkpoint::look()?;
        let writers = match beside_writers {
            true => Some(collection.begin_change().await?.ok_or_else(|| build.aborted())?),
            false => None,
        };
        let batch = read_batch((context.view, &listing), collection, index, from)?;
        settle_batch(context, collection, (build, index), &batch).await?;
        settled += batch.found.len();
        build.advance(batch.found.len() as u64);
        next = batch.next;
        drop(writers);
        give_way().await;
    }
    Ok(settled)
}

/// Of the notes in the listing, as they are now.
fn read_batch(
    (view, listing): (&ReadView, &ReadView),
    collection: &Collection,
    index: IndexId,
    from: Vec<u8>,
) -> Result<Batch, CatalogError> {
    let range = KeyRange { lower: Some(from), upper: keys::notes_range(collection.id(), index).upper };
    let options = CursorOptions { tier: ReadTier::Any, fill_cache: false };
    let mut cursor = listing.cursor_with(Keyspace::Indexes, range, Direction::Forward, options)?;
    let mut batch = Batch { found: Vec::new(), next: None };
    let mut bytes = 0;
    while let Some((key, _)) = cursor.next()? {
        // Who drops an index that is being built removes its notes.
        let Some(value) = view.get(Keyspace::Indexes, key)? else { continue };
        bytes += key.len() + value.len();
        batch.found.push((key.to_vec(), value.to_vec()));
        if batch.found.len() == BATCH_NOTES || bytes >= BATCH_BYTES {
            batch.next = Some([key, &[0]].concat());
            break;
        }
    }
    Ok(batch)
}

/// The entry that a note is about, and whether it is there.
fn entry_of(
    collection: &Collection,
    index: IndexId,
    note: &[u8],
    value: &[u8],
) -> Result<(IndexEntryBuf, bool), CatalogError> {
    let damaged = || CatalogError::Damaged {
        record: format!("{note:02x?}"),
        defect: "a note about an index entry makes no sense".into(),
    };
    let (is_added, value) = keys::split_note(value).ok_or_else(damaged)?;
    let mut key = note.to_vec();
    let prefix = keys::index_prefix(collection.id(), index);
    key.get_mut(..prefix.len()).ok_or_else(damaged)?.copy_from_slice(&prefix);
    let fields = keys::split_entry(&key, value).ok_or_else(damaged)?.fields.len();
    Ok((IndexEntryBuf { key, value: value.to_vec(), fields_end: prefix.len() + fields }, is_added))
}

async fn settle_batch(
    context: &OperationContext<'_>,
    collection: &Collection,
    (build, index): (&BuildProgress, IndexId),
    batch: &Batch,
) -> Result<(), CatalogError> {
    if batch.found.is_empty() {
        return Ok(());
    }
    let entries = batch.found.iter().map(|(note, value)| entry_of(collection, index, note, value));
    let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
    let definition = collection.definition();
    if context.keeps_rules() && definition.index_by_id(index).is_some_and(|index| index.is_to_be_unique()) {
        let added = entries.iter().filter(|(_, is_added)| *is_added).map(|(entry, _)| entry);
        note_suspects(context, collection, build, (index, added.collect()))?;
    }
    let mut changes = Changes::new(context);
    for ((note, _), (entry, is_added)) in batch.found.iter().zip(&entries) {
        changes.settle_note(note, entry, *is_added);
    }
    Ok(changes.commit(&collection.store).await?)
}
