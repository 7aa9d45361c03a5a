//! A copy takes the place of a member's store, before that is opened.

use super::{COPY, CopyError, DIRECTORY, READY, RUBBISH, discard, remove};
use crate::entry::LogPosition;
use crate::log::{HardState, Log, LogError};
use crate::store_log::{self, Identity, LocalState, LogOptions, StoreLog};
use catalog::Catalog;
use document::ObjectId;
use std::path::Path;
use storage::{OpenError, Store, WriteUnit};

impl From<LogError> for CopyError {
    fn from(error: LogError) -> Self {
        CopyError(error.to_string())
    }
}

fn failed(error: impl std::fmt::Display) -> CopyError {
    CopyError(error.to_string())
}

/// How the store in a directory is opened.
pub type OpenStore<'o> = &'o dyn Fn(&Path) -> Result<Store, OpenError>;

/// What a member must not lose.
struct Own {
    identity: Identity,
    disk: Option<ObjectId>,
    promised: HardState,
}

/// Puts a copy that is whole in the place of the store in `data`; whether there was one. What a crash leaves
/// of it the next start ends.
///
/// # Errors
/// What the stores and the file system say. The copy stays, for another try.
pub fn adopt_copy(data: &Path, open: OpenStore<'_>) -> Result<bool, CopyError> {
    remove(&data.join(RUBBISH))?;
    let directory = data.join(DIRECTORY);
    if !directory.join(READY).exists() {
        return Ok(false);
    }
    let copy = directory.join(COPY);
    let is_there = copy.join("engine").exists();
    if is_there {
        // Its files were written with the keys that are here, or with none.
        storage::copy_keys(data, &copy)?;
        storage::mark_ready(&copy)?;
    }
    // A crash between the two renamings leaves no store: this one was judged before.
    if is_there && data.join("engine").exists() && !prepare(data, &copy, open)? {
        tracing::warn!("the copy of the data is of no use any more");
        discard(data)?;
        return Ok(false);
    }
    if is_there {
        // They are about the store that goes.
        catalog::discard_saved_builds(data).map_err(failed)?;
        storage::replace_engine(data, &copy).map_err(failed)?;
    }
    discard(data)?;
    tracing::info!("the copy of the data is this member's from now on");
    Ok(true)
}

/// Writes into the copy what is the member's own; whether the copy is of use.
pub(super) fn prepare(data: &Path, copy: &Path, open: OpenStore<'_>) -> Result<bool, CopyError> {
    let store = open(copy).map_err(failed)?;
    let local = LocalState::new(store.clone());
    let has_data = !local.identity()?.is_some_and(|identity| identity.is_arbiter);
    let applied = local.applied()?;
    let applied = applied.ok_or_else(|| CopyError("the copy is not of a member's data".to_owned()))?;
    let copied = log_of(&store)?;
    let (last, term) = (copied.last(), copied.term(copied.last())?);
    drop(copied);
    let is_of_use = match own(data, open, applied.position)? {
        Some(own) if has_data && applied.membership.members().contains(&own.identity.number) => {
            let mut unit = WriteUnit::new();
            LocalState::put_identity(&mut unit, &own.identity);
            if let Some(disk) = own.disk {
                LocalState::put_disk(&mut unit, disk);
            }
            let promised = own.promised;
            let vote = if promised.term >= term { promised.vote } else { 0 };
            let committed = applied.position.index.min(last);
            store_log::put_hard_state(
                &mut unit,
                HardState { term: promised.term.max(term), vote, committed },
            );
            store.write_now(unit).map_err(failed)?;
            store.sync_journal().map_err(failed)?;
            true
        }
        _ => false,
    };
    store.close().map_err(failed)?;
    Ok(is_of_use)
}

fn log_of(store: &Store) -> Result<StoreLog, CopyError> {
    let catalog = Catalog::open(store.clone()).map_err(failed)?;
    Ok(StoreLog::open(&catalog, LogOptions::default())?)
}

/// What is the member's own; `None` where the copy brings it nothing: its log has that entry.
fn own(data: &Path, open: OpenStore<'_>, copied: LogPosition) -> Result<Option<Own>, CopyError> {
    let store = open(data).map_err(failed)?;
    let local = LocalState::new(store.clone());
    let (identity, disk) = (local.identity()?, local.disk()?);
    let applied = local.applied()?.unwrap_or_default();
    let log = log_of(&store)?;
    let promised = log.hard_state();
    let is_within = (log.compacted().index..=log.last()).contains(&copied.index);
    let has_it = is_within && log.term(copied.index)? == copied.term;
    let is_newer = copied.index > promised.committed.max(applied.position.index);
    drop(log);
    store.close().map_err(failed)?;
    Ok(identity.filter(|_| is_newer && !has_it).map(|identity| Own { identity, disk, promised }))
}
