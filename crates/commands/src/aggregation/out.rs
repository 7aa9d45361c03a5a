//! `$out`: the documents replace a collection as a whole.
//!
//! They go into a temporary collection with the options and indexes of the target, which then takes the
//! target's name: readers see the old documents or the new ones.

use super::RunningPipeline;
use super::destination::{DestinationCodes, namespace};
use crate::audit::{self, AuditedCreation};
use crate::calendar::rest_of_output;
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult};
use crate::exec::{Located, Pause, Slices, Verdict};
use crate::server::DataNode;
use crate::write::stamped;
use catalog::{
    Catalog, CatalogEntry, Collection, CollectionOptions, IndexSpec, Namespace, OperationContext, Receipts,
};
use document::{DocumentBuf, RawDocument};
use query::aggregate::Destination;
use query::checkpoint;
use query::update::EmptyTimestamps;
use std::sync::Arc;

/// How names of temporary collections begin.
const TEMPORARY_PREFIX: &str = "tmp.agg_out.";
/// Documents inserted at once, at most.
const BATCH_DOCUMENTS: usize = 1000;
/// Bytes of documents inserted at once, about.
const BATCH_BYTES: usize = 4 << 20;

const CODES: DestinationCodes =
    DestinationCodes { stage: "$out", internal_database: 31321, special_collection: 17385 };
/// `$out` into a capped collection.
const CAPPED_TARGET: i32 = 17152;

/// What the target is when `$out` begins; it must still be so at the end.
#[derive(Debug, PartialEq)]
struct Shape {
    options: document::Document,
    indexes: Vec<document::Document>,
}

impl Shape {
    fn of(collection: Option<&Arc<Collection>>) -> Self {
        let definition = collection.map(|collection| collection.definition());
        let options = definition.as_ref().map(|definition| definition.options.to_document());
        let indexes = definition.iter().flat_map(|definition| &definition.indexes);
        Shape {
            options: options.unwrap_or_default(),
            indexes: indexes.map(|index| index.spec.to_document()).collect(),
        }
    }
}

/// Runs the pipeline to its end and puts its documents in place of the destination's.
///
/// # Errors
/// Destinations that cannot be, what the pipeline raises, what the target's validator and unique indexes
/// refuse; the target is untouched then.
pub(crate) async fn out(
    context: &CommandContext<'_>,
    pipeline: &mut RunningPipeline,
    destination: &Destination,
    (writing, timestamps): (&OperationContext<'_>, EmptyTimestamps),
) -> CommandResult {
    let catalog = &context.server.node.catalog;
    let (target, existing) = namespace(catalog, context.database, destination, CODES)?;
    if existing.as_ref().is_some_and(|collection| collection.is_capped()) {
        let message = format!("namespace '{target}' is capped so it can't be used for $out");
        return Err(CommandError::new(CAPPED_TARGET, message));
    }
    let shape = Shape::of(existing.as_ref());
    let name = format!("{TEMPORARY_PREFIX}{}", ambient::uuid());
    let temporary = Namespace::new(target.database(), &name);
    let result = match fill(context, pipeline, &temporary, existing.as_ref(), (writing, timestamps)).await {
        Ok(()) => replace(catalog, writing, &temporary, &target, &shape).await,
        Err(error) => Err(error),
    };
    if result.is_ok() {
        audit::renamed(context, &temporary.to_string(), &target.to_string()).await;
    }
    if result.is_err() && catalog.collection(target.database(), &name).is_some() {
        // Also when the operation is to end.
        checkpoint::to_the_end(catalog.drop_collection(writing, &temporary)).await?;
        audit::dropped(context, &temporary, None, 0).await;
    }
    result
}

async fn fill(
    context: &CommandContext<'_>,
    pipeline: &mut RunningPipeline,
    temporary: &Namespace,
    target: Option<&Arc<Collection>>,
    (writing, timestamps): (&OperationContext<'_>, EmptyTimestamps),
) -> CommandResult {
    let catalog = &context.server.node.catalog;
    let like = target.map(|target| target.definition());
    let collection_options =
        like.as_ref().map_or_else(CollectionOptions::default, |like| like.options.clone());
    let audited = AuditedCreation::before(context, (temporary.database(), temporary.collection()));
    let made = catalog.create(writing, temporary, collection_options).await?;
    if let Some(creation) = audited {
        creation.done(context, None).await;
    }
    let CatalogEntry::Collection(collection) = made else {
        return Err(CommandError::internal("a temporary collection is a view"));
    };
    let indexes = like.iter().flat_map(|like| &like.indexes).filter(|index| !index.spec.is_id_index());
    let specs: Vec<IndexSpec> = indexes.map(|index| index.spec.clone()).collect();
    if !specs.is_empty() {
        catalog.create_indexes(writing, temporary, &specs).await?;
    }
    let mut slices = Slices::new(context.scheduling());
    loop {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let collect = |located: Located<'_>| {
            let document = stamped(located.document.to_buf(), timestamps);
            bytes += document.len();
            batch.push(document);
            let is_full = batch.len() >= BATCH_DOCUMENTS || bytes >= BATCH_BYTES;
            Ok(if is_full { Verdict::TakeAndStop } else { Verdict::Take })
        };
        let pause = slices.run(pipeline, collect).await?;
        insert(writing, &collection, &batch).await?;
        pay(context, batch.len(), bytes).await?;
        if pause == Pause::End {
            return Ok(());
        }
    }
}

/// Rests after a batch that was written, as long as the I/O budget and the calendar say.
///
/// # Errors
/// The reason for the operation's end.
pub(super) async fn pay(context: &CommandContext<'_>, documents: usize, bytes: usize) -> CommandResult {
    let rest = rest_of_output(context.server, documents as u64, bytes as u64);
    if rest.is_zero() {
        return Ok(());
    }
    context.server.sleep(context.interrupt(), ambient::now() + rest).await
}

async fn insert(
    writing: &OperationContext<'_>,
    collection: &Collection,
    batch: &[DocumentBuf],
) -> CommandResult {
    let documents: Vec<RawDocument<'_>> = batch.iter().map(DocumentBuf::as_raw).collect();
    match collection.insert_many(writing, &documents, true).await.errors.pop() {
        Some((_, error)) => Err(error.into()),
        None => Ok(()),
    }
}

async fn replace(
    catalog: &Catalog,
    writing: &OperationContext<'_>,
    temporary: &Namespace,
    target: &Namespace,
    shape: &Shape,
) -> CommandResult {
    let now = catalog.collection(target.database(), target.collection());
    if Shape::of(now.as_ref()) != *shape {
        let message =
            format!("options or indexes of target collection {target} changed while processing $out");
        return Err(CommandError::new(wire::ErrorCode::CommandFailed as i32, message));
    }
    Ok(catalog.rename(writing, temporary, target, true).await?)
}

/// Drops what `$out` stages left that did not come to their end because the server stopped. To be called
/// before clients are served; in a set by the primary.
///
/// # Errors
/// Storage errors.
pub async fn remove_unfinished_outputs(node: &DataNode) -> CommandResult {
    let (receipts, catalog) = (Receipts::default(), &node.catalog);
    let writing = node.writing(&receipts);
    let state = catalog.state();
    for database in state.databases() {
        for (namespace, _) in state.entries(&database) {
            if namespace.collection().starts_with(TEMPORARY_PREFIX) {
                tracing::warn!(%namespace, "dropping the temporary collection of an unfinished $out");
                catalog.drop_collection(&writing, &namespace).await?;
            }
        }
    }
    Ok(())
}
