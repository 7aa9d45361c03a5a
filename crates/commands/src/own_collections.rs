//! What the server keeps for itself: `local.startup_log`, `admin.system.version` and
//! `config.system.sessions`, so that the three databases are there for whoever looks for them.
//!
//! Source: MongoDB manual, "The local Database", "config Database", "setFeatureCompatibilityVersion".

use crate::aggregation::remove_unfinished_outputs;
use crate::command::load_default_concerns;
use crate::error::CommandResult;
use crate::parameters::Parameter;
use crate::server::ServiceContext;
use catalog::{
    CappedLimits, CatalogEntry, Collection, CollectionOptions, IndexSpec, Namespace, OperationContext,
    Receipts, WriteError,
};
use dispatch::calendar_text;
use dispatch::command::{build_info, host_info};
use document::{Document, DocumentBuilder, RawDocument, Value, doc};
use std::sync::Arc;

/// Older starts are forgotten when the log of starts has so many bytes.
const STARTUP_LOG_BYTES: u64 = 10 << 20;

/// Notes this start and, unless it is the member of a set, makes the collections that are missing. To be
/// called before clients are served.
///
/// # Errors
/// Storage errors: a full disk, for one.
pub async fn prepare_own_collections(server: &Arc<ServiceContext>) -> CommandResult {
    let receipts = Receipts::default();
    note_start(server, &OperationContext::writing(&server.node.store, &receipts)).await?;
    match &server.node.retry_table {
        Some(_) => Ok(()),
        None => make_missing(server, &receipts).await,
    }
}

/// Makes the collections of the server that are missing, for all members of the set, and removes what the
/// primary before has left. To be called whenever this member has become the primary.
///
/// # Errors
/// Storage errors; it is the primary no more.
pub async fn prepare_replicated(server: &Arc<ServiceContext>) -> CommandResult {
    let receipts = Receipts::default();
    remove_unfinished_outputs(&server.node).await?;
    make_missing(server, &receipts).await?;
    if let Some(table) = &server.node.retry_table {
        table.create(&server.node.writing(&receipts)).await?;
    }
    load_default_concerns(&server.node)
}

/// Forgets sessions whose last retryable write is longer ago than sessions live; how many. To be called on
/// the primary every few minutes.
///
/// # Errors
/// Storage errors; it is the primary no more.
pub async fn expire_retryable_writes(server: &ServiceContext) -> CommandResult<usize> {
    let Some(table) = &server.node.retry_table else { return Ok(0) };
    let receipts = Receipts::default();
    let lifetime_ms = 60_000 * server.parameters.integer(Parameter::SessionTimeout);
    let expired = table.expire(server.now_ms() - lifetime_ms, &server.node.writing(&receipts)).await;
    expired.map_err(crate::write::failed_session)
}

async fn make_missing(server: &Arc<ServiceContext>, receipts: &Receipts) -> CommandResult {
    let writing = server.node.writing(receipts);
    keep_feature_version(server, &writing).await?;
    keep_sessions(server, &writing).await
}

async fn note_start(server: &Arc<ServiceContext>, writing: &OperationContext<'_>) -> CommandResult {
    let namespace = Namespace::new("local", "startup_log");
    let collection = match server.node.catalog.collection(namespace.database(), namespace.collection()) {
        Some(collection) => collection,
        None => {
            let capped = Some(CappedLimits { size_bytes_max: STARTUP_LOG_BYTES, documents_max: None });
            let options = CollectionOptions { capped, ..CollectionOptions::default() };
            match server.node.catalog.create(writing, &namespace, options).await? {
                CatalogEntry::Collection(collection) => collection,
                // Somebody has made a view of this name: starts are not noted.
                CatalogEntry::View(_) => return Ok(()),
            }
        }
    };
    insert(writing, &collection, &startup(server)).await
}

/// The entry of this start.
fn startup(server: &ServiceContext) -> Document {
    let now = server.now_ms();
    let host = host_info::host_name();
    let mut build = Vec::new();
    let mut builder = DocumentBuilder::new(&mut build);
    build_info::write(&mut builder);
    builder.finish();
    doc! {
        "_id": (format!("{host}-{now}")), "hostname": (host.as_str()), "startTime": (Value::DateTime(now)),
        "startTimeLocal": (calendar_text(now)), "cmdLine": (server.host.parsed_options.clone()),
        "pid": (i64::from(std::process::id())), "buildinfo": (RawDocument::trusted(&build).to_document()),
    }
}

async fn keep_feature_version(server: &Arc<ServiceContext>, writing: &OperationContext<'_>) -> CommandResult {
    let collection = server.node.catalog.collection_or_create(writing, "admin", "system.version").await?;
    let version = doc! { "_id": "featureCompatibilityVersion", "version": (build_info::FEATURE_VERSION) };
    insert(writing, &collection, &version).await
}

/// Sessions are kept in memory; clients find the collection with the index that it has elsewhere.
async fn keep_sessions(server: &Arc<ServiceContext>, writing: &OperationContext<'_>) -> CommandResult {
    let namespace = Namespace::new("config", "system.sessions");
    if server.node.catalog.entry(namespace.database(), namespace.collection()).is_some() {
        return Ok(());
    }
    let seconds = 60 * server.parameters.integer(Parameter::SessionTimeout);
    let index = doc! { "key": { "lastUse": 1 }, "name": "lsidTTLIndex", "expireAfterSeconds": seconds };
    let index = IndexSpec::parse(index.to_buf().as_raw())?;
    server.node.catalog.create_indexes(writing, &namespace, &[index]).await?;
    Ok(())
}

/// Inserts a document that may be there already.
async fn insert(
    writing: &OperationContext<'_>,
    collection: &Collection,
    document: &Document,
) -> CommandResult {
    let document = document.to_buf();
    let mut report = collection.insert_many(writing, &[document.as_raw()], true).await;
    match report.errors.pop() {
        None | Some((_, WriteError::DuplicateKey(_))) => Ok(()),
        Some((_, error)) => Err(error.into()),
    }
}
