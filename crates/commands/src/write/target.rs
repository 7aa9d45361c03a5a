//! The collection that is written to, and the insert half of an upsert.

use super::modify::not_on_a_view;
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::exec::{Filter, check_collation, parse_hint};
use crate::fields::Fields;
use catalog::{Collection, Entry, InsertReport, WriteError, WriteOptions};
use document::{DocumentBuf, RawDocument};
use query::Environment;
use query::sort::SortPattern;
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
    if let Some(collection) = context.server.catalog.collection(database, name) {
        return Ok(Some(collection));
    }
    if let Some(Entry::View(_)) = context.server.catalog.entry(database, name) {
        return Err(not_on_a_view(database, name));
    }
    match create {
        true => {
            context.offload().await;
            Ok(Some(context.server.catalog.collection_or_create(database, name).await?))
        }
        false => Ok(None),
    }
}

/// Inserts documents; from the first one on that cannot be inserted out of memory, where it may block.
pub(crate) async fn insert_documents(
    context: &CommandContext<'_>,
    collection: &Collection,
    documents: &[RawDocument<'_>],
    ordered: bool,
    options: &WriteOptions,
) -> InsertReport {
    let turns = context.turns();
    let within = |tier| WriteOptions { tier, ..*options };
    let mut report = collection.insert_many(documents, ordered, &within(turns.tier())).await;
    if let Some(settled) = report.would_block_at() {
        turns.offload().await;
        let left = documents.get(settled..).unwrap_or_default();
        let rest = collection.insert_many(left, ordered, &within(ReadTier::Any)).await;
        report.errors.retain(|(_, error)| !error.would_block());
        report.errors.extend(rest.errors.into_iter().map(|(position, error)| (settled + position, error)));
        report.inserted += rest.inserted;
        report.receipt = rest.receipt.or(report.receipt);
        report.commit_wait += rest.commit_wait;
    }
    context.commits.add(report.commit_wait);
    report
}

/// Inserts the document of an upsert. False when another one inserted a document with the same key first and the filter
/// asks for that key by equality, so that the statement finds it when it looks again.
///
/// # Errors
/// What the catalog refuses, a duplicate key the filter does not speak of included.
pub(crate) async fn insert_upserted(
    context: &CommandContext<'_>,
    collection: &Collection,
    filter: &Filter<'_>,
    document: &DocumentBuf,
    options: &WriteOptions,
) -> CommandResult<bool> {
    let mut report = insert_documents(context, collection, &[document.as_raw()], true, options).await;
    match report.errors.pop().map(|(_, error)| error) {
        None => Ok(true),
        Some(WriteError::DuplicateKey(duplicate)) => {
            let asked_for = |name: &str| filter.is_id_lookup() || filter.document().contains(name);
            let comes_again = duplicate.key_pattern.iter().all(|(name, _)| asked_for(name));
            if comes_again { Ok(false) } else { Err(WriteError::DuplicateKey(duplicate).into()) }
        }
        Some(error) => Err(error.into()),
    }
}

/// The filter of a statement with its `hint` and `collation`, which are taken from its fields. A malformed filter fails here,
/// whether or not there is a collection.
///
/// # Errors
/// Malformed filters and hints, collations that are not supported.
pub(crate) fn statement_filter<'f, 'c: 'f>(
    fields: &mut Fields<'c>,
    filter: RawDocument<'c>,
    sort: Option<RawDocument<'c>>,
    environment: &'f Environment,
) -> CommandResult<Filter<'f>> {
    let hint = parse_hint(fields.any("hint"))?;
    check_collation(fields.document("collation")?)?;
    let sort = sort.map(SortPattern::parse).transpose()?.unwrap_or_default();
    let filter = Filter::new(filter, environment, hint, Arc::new(sort));
    if !filter.is_id_lookup() {
        filter.matcher()?;
    }
    Ok(filter)
}
