//! Taking data out of their set: of a backup that is restored.

use super::records::failed;
use super::{LocalState, LogOptions, StoreLog};
use crate::entry::{LogEntryKind, LogPosition};
use crate::log::{Log, LogError};
use crate::oplog::{Applier, OplogEntry};
use catalog::{Catalog, CatalogError, Namespace, OperationContext, Receipts, Writer};
use storage::{Keyspace, Store, WriteUnit};

/// All records of a member begin with `r`.
const FROM: &[u8] = b"r";
const TO: &[u8] = b"s";

/// Makes data that a member has had those of a server of no set: what it has promised, its log and its
/// configuration go, since others may have been promised something else meanwhile. A batch that was being
/// applied is applied to its end first; what is in the log behind that may be uncommitted and goes. Whether
/// they were a member's.
///
/// # Errors
/// What the store reports; a log that cannot be read. It can be done again.
pub async fn leave_set(store: &Store) -> Result<bool, LogError> {
    let local = LocalState::new(store.clone());
    if local.identity()?.is_none() {
        return Ok(false);
    }
    let catalog = Catalog::open(store.clone()).map_err(failed)?;
    let mut log = StoreLog::open(&catalog, LogOptions::default())?;
    let receipts = Receipts::default();
    let context =
        OperationContext { writer: Writer::Replication, ..OperationContext::writing(store, &receipts) };
    let applied = local.applied()?.unwrap_or_default().position.index;
    let applier = Applier::of_operations(&catalog, context);
    for index in applied + 1..=local.begun()?.min(log.last()) {
        for entry in log.entries(index, index + 1, u64::MAX)? {
            if let LogEntryKind::Operation(_) = entry.kind {
                let operation = OplogEntry::decode(&entry.data).map_err(failed)?;
                applier.apply(&operation).await.map_err(failed)?;
            }
        }
    }
    match catalog.drop_collection(&context, &Namespace::new("local", "system.replset")).await {
        Err(error) if !matches!(error, CatalogError::NamespaceNotFound(_)) => return Err(failed(error)),
        _ => {}
    }
    let mut unit = WriteUnit::new();
    log.reset(&mut unit, LogPosition::default());
    unit.delete_range(Keyspace::Meta, FROM, TO);
    log.commit(unit)?;
    store.sync_journal().map_err(failed)?;
    Ok(true)
}

/// As [`leave_set`], of data whose log cannot be read: all of the set's goes as it is, also what was being
/// applied.
///
/// # Errors
/// What the store reports. It can be done again.
pub async fn forget_set(store: &Store) -> Result<(), LogError> {
    let mut unit = WriteUnit::new();
    unit.delete_range(Keyspace::Meta, FROM, TO);
    store.write_now(unit).map_err(failed)?;
    let catalog = Catalog::open(store.clone()).map_err(failed)?;
    let receipts = Receipts::default();
    let context =
        OperationContext { writer: Writer::Replication, ..OperationContext::writing(store, &receipts) };
    catalog.remove_oplog(&context).await.map_err(failed)?;
    match catalog.drop_collection(&context, &Namespace::new("local", "system.replset")).await {
        Err(error) if !matches!(error, CatalogError::NamespaceNotFound(_)) => return Err(failed(error)),
        _ => {}
    }
    store.sync_journal().map_err(failed)
}
