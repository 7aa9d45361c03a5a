//! The collection that is written to, and the insert half of an upsert.

use super::modify::not_on_a_view;
use crate::audit::collection_or_create;
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use crate::exec::StatementFilter;
use crate::server::ServiceContext;
use catalog::{
    CatalogEntry, CatalogError, Collection, InsertReport, Namespace, OperationContext, WriteError,
};
use document::{DocumentBuf, RawDocument};
use query::update::asks_for_key;
use replication::retryable;
use std::sync::Arc;
use storage::ReadTier;

/// The collection of this name; made when `create` is set and there is none.
///
/// # Errors
/// `CommandNotSupportedOnView`; what making a collection refuses.
pub(crate) async fn writable(
    context: &CommandContext<'_>,
    database: &str,
    name: &str,
    create: bool,
) -> CommandResult<Option<Arc<Collection>>> {
    if let Some(collection) = context.server.node.catalog.collection(database, name) {
        return Ok(Some(collection));
    }
    if let Some(CatalogEntry::View(_)) = context.server.node.catalog.entry(database, name) {
        return Err(not_on_a_view(database, name));
    }
    match create {
        true => {
            context.offload().await;
            Ok(Some(collection_or_create(context, &context.writing(), (database, name)).await?))
        }
        false => {
            context.receipts.observed();
            Ok(None)
        }
    }
}

/// Inserts documents from the `first` one on; from the one on that cannot be inserted out of memory, where it
/// may block.
pub(crate) async fn insert_documents(
    context: &CommandContext<'_>,
    collection: &Collection,
    (documents, first): (&[RawDocument<'_>], usize),
    ordered: bool,
    writing: &OperationContext<'_>,
) -> InsertReport {
    let scheduling = context.scheduling();
    let within = |tier| OperationContext { tier, ..*writing };
    let mut report = collection.insert_from(&within(scheduling.tier()), documents, first, ordered).await;
    if let Some(settled) = report.would_block_at() {
        scheduling.offload_briefly().await;
        let rest = collection.insert_from(&within(ReadTier::Any), documents, settled, ordered).await;
        report.errors.retain(|(_, error)| !error.would_block());
        report.errors.extend(rest.errors);
        report.inserted += rest.inserted;
    }
    report
}

/// Inserts the document of an upsert. False when another one inserted a document with the same key first and
/// the filter asks for exactly that key, so that the statement finds it when it looks again.
///
/// # Errors
/// What the catalog refuses, duplicate keys included that the filter does not ask for.
pub(crate) async fn insert_upserted(
    context: &CommandContext<'_>,
    collection: &Collection,
    filter: &StatementFilter<'_>,
    document: &DocumentBuf,
    writing: &OperationContext<'_>,
) -> CommandResult<bool> {
    let mut report = insert_documents(context, collection, (&[document.as_raw()], 0), true, writing).await;
    match report.errors.pop().map(|(_, error)| error) {
        None => Ok(true),
        Some(WriteError::DuplicateKey(duplicate))
            if asks_for_key(filter.document(), &duplicate.key_value) =>
        {
            Ok(false)
        }
        Some(error) => Err(error.into()),
    }
}

/// The rounds of an upsert: it begins again when another one inserted the document first.
#[derive(Debug, Default)]
pub(crate) struct UpsertRounds {
    lost: usize,
}

impl UpsertRounds {
    /// Another one was faster. Every lost round is one that somebody else won, so that a number of them in a
    /// row means that the filter does not find the document that has its key.
    ///
    /// # Errors
    /// The operation is to end; `WriteConflict` after very many rounds.
    pub(crate) async fn lost(&mut self, context: &CommandContext<'_>) -> CommandResult {
        const MAX: usize = 10_000;
        self.lost += 1;
        if self.lost == MAX {
            let message = "the upsert met other inserts of the same document again and again";
            return Err(CommandError::new(code::WRITE_CONFLICT, message));
        }
        context.scheduling().end_slice().await
    }
}

/// Refuses collections that a member of a set keeps of its sessions: it counts on what it has put there.
///
/// # Errors
/// `IllegalOperation`.
pub(crate) fn check_not_of_sessions(
    server: &ServiceContext,
    (database, name): (&str, &str),
) -> CommandResult {
    let is_of_sessions = database == retryable::DATABASE
        && [retryable::TRANSACTIONS, retryable::IMAGES].contains(&name)
        && server.node.retry_table.is_some();
    match is_of_sessions {
        true => {
            let message = format!("{database}.{name} is kept by the server alone");
            Err(CommandError::new(code::ILLEGAL_OPERATION, message))
        }
        false => Ok(()),
    }
}

/// Refuses collections that clients do not write to.
///
/// # Errors
/// `InvalidNamespace`.
pub(crate) fn check_writable(server: &ServiceContext, (database, name): (&str, &str)) -> CommandResult {
    if name.starts_with("system.") {
        Namespace::new(database, name).check_writable()?;
    }
    check_not_of_sessions(server, (database, name))?;
    let is_oplog = database == "local"
        && server.node.catalog.collection(database, name).is_some_and(|collection| collection.is_oplog());
    match is_oplog {
        true => Err(CatalogError::InvalidNamespace(format!("cannot write to {database}.{name}")).into()),
        false => Ok(()),
    }
}
