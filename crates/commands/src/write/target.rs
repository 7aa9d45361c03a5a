//! The collection that is written to, and the insert half of an upsert.

use super::modify::not_on_a_view;
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::exec::{Filter, check_collation, parse_hint};
use crate::fields::Fields;
use catalog::{Collection, Entry, WriteError, WriteOptions};
use document::{DocumentBuf, RawDocument};
use query::Environment;
use query::sort::SortPattern;
use std::sync::Arc;

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
        true => Ok(Some(context.server.catalog.collection_or_create(database, name).await?)),
        false => Ok(None),
    }
}

/// Inserts the document of an upsert. False when another one inserted a document with the same key first and the filter
/// asks for that key by equality, so that the statement finds it when it looks again.
///
/// # Errors
/// What the catalog refuses, a duplicate key the filter does not speak of included.
pub(crate) async fn insert_upserted(
    collection: &Collection,
    filter: &Filter<'_>,
    document: &DocumentBuf,
    options: &WriteOptions,
) -> CommandResult<bool> {
    match collection.insert(document.as_raw(), options).await {
        Ok(_) => Ok(true),
        Err(WriteError::DuplicateKey(duplicate)) => {
            let asked_for = |name: &str| filter.is_id_lookup() || filter.document().contains(name);
            let comes_again = duplicate.key_pattern.iter().all(|(name, _)| asked_for(name));
            if comes_again { Ok(false) } else { Err(WriteError::DuplicateKey(duplicate).into()) }
        }
        Err(error) => Err(error.into()),
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
