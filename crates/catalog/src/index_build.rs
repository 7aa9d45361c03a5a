//! Building indexes on documents that are there already, while readers read and writers write.
//!
//! ```text
//!  register (writers kept out for a moment) ─▶ from here on writers leave notes: what comes, what goes
//!      └▶ scan: parts of the collection, by several threads ─▶ sorted runs, in memory or in files
//!            └▶ load: runs, merged ─▶ tables, taken into the store at once (few entries: units)
//!                  └▶ settle: notes become part of the index, writers kept out for each batch
//!                        └▶ writers kept out for a moment: the last notes; suspected duplicates still there?
//!                              ├▶ yes: the indexes go, DuplicateKey
//!                              └▶ no: the indexes are ready
//! ```
//! Each document is read once, at any moment since the registration: an entry that no writer touched since
//! is the same in all versions of its document, and about one that was touched the note has the last word.
//!
//! A crash in between leaves indexes in the state `building` in the record, and what the build has written
//! down of itself (`saved.rs`): then it is there again when the catalog is opened, and goes on when it is
//! [claimed](BuildProgress::claim). Where nothing is written down the indexes are removed.

mod crew;
mod merge;
mod notes;
mod progress;
mod run;
mod saved;
mod scan;

use crate::change::Changes;
use crate::collection::Collection;
use crate::definition::IndexState;
use crate::index_keys::IndexEntryBuf;
use crate::keys::{self, IndexId};
use crate::waiters::give_way;
use crate::write::unique::{ReleasedKeys, UniqueProbe, duplicate};
use crate::{CatalogError, OperationContext};
use merge::{Merge, MergePlan};
use parking_lot::Mutex;
use query::checkpoint;
use run::Run;
use saved::SavedStage;
use scan::{Scan, Scanner};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{Direction, KeyRange, Keyspace, TableRows};

pub(crate) use progress::BuildOrder;
pub use progress::{BuildPace, BuildPhase, BuildProgress};
pub use saved::discard_saved_builds;
pub(crate) use saved::{SavedBuild, SavedScan, discard, find_saved};

/// Where a build keeps files, beside the data.
const DIRECTORY: &str = "index-builds";
/// Up to so many entries go into the store by units, which is quicker than a table and its sync.
const ENTRIES_BY_UNITS: usize = 10_000;
/// Entries of one such unit.
const UNIT_ENTRIES: usize = 256;
/// Bytes between two payments for what is written.
const PAID_EACH: usize = 1 << 20;
/// A thread for so many documents, and none of its own for fewer.
const DOCUMENTS_PER_THREAD: u64 = 20_000;
/// A thread's share of a merge: from so many entries on it is worth it.
const ENTRIES_PER_MERGE: usize = 20_000;
/// Starts a build of indexes that the published definition already has in the state `Building`. The replaced
/// ones go at its end.
pub(crate) fn start(collection: &Collection, order: BuildOrder) -> Arc<BuildProgress> {
    let build = BuildProgress::new(collection, order);
    collection.add_build(Arc::clone(&build));
    build
}

/// Has a build again that a process before this one has begun; the collection's definition has its indexes.
pub(crate) fn restore(collection: &Collection, saved: SavedBuild) {
    let definition = collection.definition();
    let name = |&id: &IndexId| Some((id, definition.index_by_id(id)?.spec.name.clone()));
    let indexes = saved.indexes.iter().filter_map(name).collect();
    let order = BuildOrder { indexes, replaced: saved.replaced, is_of_log: saved.is_of_log };
    let build = BuildProgress::of_saved(collection, order, saved.stage);
    tracing::info!(target: "INDEX", id = 8_800_200, namespace = %definition.namespace,
        indexes = ?build.names(), scanned = build.resumed_at(),
        "An index build that did not come to its end can go on");
    collection.add_build(build);
}

/// Fills the indexes. Afterwards [`finish`] or [`abandon`] is called with the collection's writers kept out.
pub(crate) async fn fill(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &Arc<BuildProgress>,
) -> Result<(), CatalogError> {
    match build.take_left() {
        // Nobody knows any more which entries were suspects.
        Some(SavedStage::Settle) => build.overflowed.store(context.keeps_rules(), Ordering::Release),
        Some(SavedStage::Scan(saved)) => scan_and_load(context, collection, build, Some(saved)).await?,
        None => scan_and_load(context, collection, build, None).await?,
    }
    build.begin(BuildPhase::Settle, 0);
    notes::settle_most(context, collection, build).await?;
    build.check_going_on()
}

/// All entries of what is there, into the store.
pub(crate) async fn scan_and_load(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &Arc<BuildProgress>,
    saved: Option<SavedScan>,
) -> Result<(), CatalogError> {
    let threads = match usize::try_from(build.total() / DOCUMENTS_PER_THREAD).unwrap_or(usize::MAX) {
        0 => 0,
        most => collection.store.build_threads().min(most),
    };
    let scan = Arc::new(Scan::new(collection, build, (threads, context.keeps_rules()), saved)?);
    match threads {
        0 => {
            let mut scanner = Scanner::new(&scan, 0);
            while scanner.step()? {
                build.check_going_on()?;
                checkpoint::look()?;
                give_way().await;
            }
            scanner.finish();
        }
        _ => {
            let job = |scanner: Scanner| -> crew::Job { Box::new(|| scanner.run()) };
            let jobs = (0..threads).map(|number| job(Scanner::new(&scan, number)));
            crew::work(build, jobs.collect()).await?;
        }
    }
    let (multikey, runs) = scan.results();
    let additions: Vec<_> = scan.indexes.iter().map(|index| index.id).zip(multikey).collect();
    {
        // What changes definitions is kept out, as by writers.
        let _writing = collection.begin_write().await?;
        collection.record_multikey(context, &additions).await?;
    }
    load(context, collection, &scan, runs, threads).await
}

/// Makes the indexes of their runs.
async fn load(
    context: &OperationContext<'_>,
    collection: &Collection,
    scan: &Arc<Scan>,
    runs: Vec<Vec<Arc<Run>>>,
    threads: usize,
) -> Result<(), CatalogError> {
    let build = &scan.progress;
    let entries: usize = runs.iter().flatten().map(|run| run.entries()).sum();
    build.begin(BuildPhase::Load, entries as u64);
    let merges = scan.indexes.iter().zip(&runs).map(|(index, runs)| {
        let cuts = cuts(runs, threads);
        let uppers = cuts.iter().skip(1).cloned().map(Some).chain([None]);
        let ranges: Vec<_> = cuts.iter().cloned().zip(uppers).collect();
        ranges.into_iter().map(move |range| MergePlan {
            runs: runs.clone(),
            range,
            prefix: keys::index_prefix(collection.id(), index.id),
            index: index.id,
            finds_duplicates: scan.keeps_rules && index.is_to_be_unique(),
        })
    });
    let mut merges: Vec<MergePlan> = merges.flatten().collect();
    if entries <= ENTRIES_BY_UNITS {
        for merge in merges {
            fill_by_units(context, collection, build, merge.open(scan)?).await?;
        }
        // Without runs on the disk all is scanned again after a crash, which is right at any moment.
        let is_in_runs = runs.iter().flatten().any(|run| run.record().is_some());
        return if is_in_runs { build.save(&collection.store, SavedStage::Settle, true) } else { Ok(()) };
    }
    merges.reverse();
    let (left, tables) = (Arc::new(Mutex::new(merges)), Arc::new(Mutex::new(Vec::new())));
    let job = || -> crew::Job {
        let (scan, left, tables) = (Arc::clone(scan), Arc::clone(&left), Arc::clone(&tables));
        Box::new(move || {
            loop {
                let Some(plan) = left.lock().pop() else { return Ok(()) };
                let mut merge = plan.open(&scan)?;
                let path = scan.new_path("table");
                let mut rows = Paid { merge: &mut merge, scan: &scan, bytes: 0 };
                let written = scan.store.write_tables(Keyspace::Indexes, &mut rows, &path)?;
                tables.lock().extend(written);
            }
        })
    };
    match threads {
        0 => job()()?,
        _ => crew::work(build, (0..threads).map(|_| job()).collect()).await?,
    }
    drop(runs);
    let tables = std::mem::take(&mut *tables.lock());
    // Neither is the collection dropped meanwhile nor one of the indexes.
    let _writing = collection.begin_write().await?;
    build.check_going_on()?;
    collection.store.ingest(Keyspace::Indexes, &tables)?;
    // Before the first note is settled: merged again, the runs would bring back what a note has taken away.
    build.save(&collection.store, SavedStage::Settle, true)?;
    build.remove_files_but_state();
    Ok(())
}

/// The rows of a merge, held to the I/O budget and to what room there is.
struct Paid<'m> {
    merge: &'m mut Merge,
    scan: &'m Scan,
    bytes: usize,
}

impl TableRows for Paid<'_> {
    fn next(&mut self) -> Result<Option<storage::KeyValue<'_>>, storage::StorageError> {
        if self.bytes >= PAID_EACH {
            self.scan.pay(self.bytes as u64)?;
            self.bytes = 0;
            // It reads from runs, and holds nothing of the store.
            if self.scan.progress.is_to_pause() {
                self.scan.progress.pause();
            }
        }
        let row = self.merge.next()?;
        // What all keys begin with takes no room in a table.
        self.bytes += row.map_or(0, |(key, value)| key.len() - keys::INDEX_PREFIX + value.len());
        Ok(row)
    }
}

/// Keys from which on others may merge, the first of them below all: no two entries with the same fields are
/// on different sides of one.
fn cuts(runs: &[Arc<Run>], threads: usize) -> Vec<Vec<u8>> {
    let entries: usize = runs.iter().map(|run| run.entries()).sum();
    let parts = (entries / ENTRIES_PER_MERGE).min(2 * threads).max(1);
    let mut samples: Vec<Vec<u8>> = runs.iter().flat_map(|run| run.sample(16 * parts)).collect();
    samples.sort_unstable();
    let mut cuts = vec![Vec::new()];
    for part in 1..parts {
        let sample = samples.get(part * samples.len() / parts).cloned().unwrap_or_default();
        if cuts.last().is_some_and(|last| *last < sample) {
            cuts.push(sample);
        }
    }
    cuts
}

/// Puts entries into the store as writers do.
async fn fill_by_units(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
    mut merge: Merge,
) -> Result<(), CatalogError> {
    loop {
        build.check_going_on()?;
        checkpoint::look()?;
        let writing = collection.begin_write().await?;
        let mut changes = Changes::new(context);
        let mut count = 0;
        while count < UNIT_ENTRIES
            && let Some((key, value)) = merge.next()?
        {
            changes.fill_index(key, value);
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        changes.hold(writing.latches);
        changes.commit(&collection.store).await?;
        give_way().await;
    }
}

/// Looks for duplicates among entries that come and in the index so far.
fn note_suspects(
    context: &OperationContext<'_>,
    collection: &Collection,
    build: &BuildProgress,
    (index, mut coming): (IndexId, Vec<&IndexEntryBuf>),
) -> Result<(), CatalogError> {
    let none = ReleasedKeys::default();
    coming.sort_unstable();
    let mut probe = UniqueProbe::new(context, collection.id(), index)?;
    let mut previous: Option<&IndexEntryBuf> = None;
    for entry in coming {
        if previous.is_some_and(|previous| previous.fields() == entry.fields())
            || probe.is_taken(entry, &none)?
        {
            build.suspect(index, entry);
        }
        previous = Some(entry);
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
            return Err(CatalogError::Write(duplicate(&definition, index, &entry, None)));
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
    for index in build.index_ids().iter().filter_map(|&id| definition.index_by_id(id)) {
        if !index.is_to_be_unique() {
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
                return Err(CatalogError::Write(duplicate(&definition, index, &entry, None)));
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
    notes::settle_rest(context, collection, build).await?;
    check_suspects(context, collection, build)?;
    if build.overflowed.load(Ordering::Acquire) {
        check_all_entries(context, collection, build)?;
    }
    let mut definition = collection.definition().copy()?;
    for &id in build.index_ids() {
        definition
            .change_index(id, |index| (index.spec.clone(), IndexState::Ready, index.multikey.clone()))?;
    }
    let replaced = definition.take_indexes(|index| build.replaced.contains(&index.id));
    let mut changes = Changes::new(context);
    changes.commit_index_build(&definition, build.index_ids(), &replaced);
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
    remove_indexes(changes, collection, build.index_ids()).await
}

/// Gives up indexes that cannot be removed from the store now, as a full disk may have it: nobody maintains
/// them any more, nor takes them for ready. The catalog's next opening removes what is left of them, unless
/// the collection's record was written anew; then only dropping the collection gives their room back.
pub(crate) fn forget(collection: &Collection, build: &BuildProgress) -> Result<(), CatalogError> {
    let mut definition = collection.definition().copy()?;
    definition.take_indexes(|index| build.index_ids().contains(&index.id));
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
        collection.store.reclaim(Keyspace::Indexes, keys::notes_range(collection.id(), id));
    }
    Ok(())
}
