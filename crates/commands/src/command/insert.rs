//! `insert`: documents into a collection, which is made when it does not exist.

use super::{Command, Execution, OnSecondary, Run};
use crate::audit::collection_or_create;
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::error::{CommandError, CommandResult, code};
use crate::write::{
    BatchReply, Retry, StatementIds, before_batch, begin_retryable, check_batch_size, check_writable,
    documents_of, empty_timestamps, insert_documents, is_long_write,
};
use catalog::{OperationContext, WriteError};
use document::{DocumentBuf, DocumentBuilder, RawDocument};
use query::update::EmptyTimestamps;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    execution: Execution::InlineFirst,
    class: OperationClass::Insert,
    api_version_1: true,
    takes_write_concern: true,
    takes_txn_number: true,
    ..Command::new("insert", "Inserts documents.", Run::Later(|context, reply| Box::pin(run(context, reply))))
};

/// How often a collection is looked up anew because it was dropped while documents were inserted.
const DROPPED_RETRIES: usize = 10;

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let documents = context.fields.documents("documents")?;
    let ordered = context.fields.boolean("ordered")?.unwrap_or(true);
    let bypass = context.fields.flexible_boolean("bypassDocumentValidation")?.unwrap_or(false);
    let timestamps = empty_timestamps(&mut context.fields)?;
    let ids = StatementIds::of_batch(&mut context.fields)?;
    context.fields.ignore(&["collectionUUID", "encryptionInformation"]);
    context.fields.finish()?;
    let documents = documents.ok_or_else(|| context.fields.missing("documents"))?;
    let received = documents_of("insert.documents", documents)?;
    check_batch_size(received.len())?;
    check_writable(context.server, (database, name))?;
    let stamped = match timestamps {
        EmptyTimestamps::Replaced => stamped(&received),
        EmptyTimestamps::Kept => Vec::new(),
    };
    let mut documents = received;
    for (position, stamped) in &stamped {
        if let Some(document) = documents.get_mut(*position) {
            *document = stamped.as_raw();
        }
    }
    let writing = OperationContext { bypass_validation: bypass, ..context.writing() };
    let mut outcome = BatchReply::default();
    let mut retry = begin_retryable(context, &ids, documents.len()).await?;
    context.server.counters.count(OperationClass::Insert, documents.len() as u64);
    match &mut retry {
        None => {
            insert(context, (database, name), (&documents, None), ordered, &writing, &mut outcome).await?
        }
        Some(retry) => {
            let once = insert_once(context, (&documents, ordered), &writing, retry, &mut outcome);
            Box::pin(once).await?;
        }
    }
    outcome.write(reply);
    retry.inspect(|retry| retry.write(&context.server.counters, reply));
    Ok(())
}

/// Inserts those documents that were not inserted when the command came before.
async fn insert_once(
    context: &CommandContext<'_>,
    (documents, ordered): (&[RawDocument<'_>], bool),
    writing: &OperationContext<'_>,
    retry: &mut Retry,
    outcome: &mut BatchReply,
) -> CommandResult {
    let (mut left, mut places, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    for (position, document) in documents.iter().enumerate() {
        match retry.executed(context, position).await? {
            Some(_) => outcome.repeated(position, None),
            None => {
                left.push(*document);
                places.push(position);
                ids.push(retry.id(position));
            }
        }
    }
    let observer = retry.of_inserts(&ids);
    let writing = OperationContext { observer: Some(&observer), ..*writing };
    let namespace = context.collection_namespace()?;
    insert(context, namespace, (&left, Some(&places)), ordered, &writing, outcome).await
}

/// The documents that have empty timestamps, with the current time in place of them.
fn stamped(received: &[RawDocument<'_>]) -> Vec<(usize, DocumentBuf)> {
    let positions = received.iter().enumerate();
    positions
        .filter_map(|(position, document)| Some((position, document.with_current_timestamps()?)))
        .collect()
}

async fn insert(
    context: &CommandContext<'_>,
    (database, name): (&str, &str),
    (documents, places): (&[RawDocument<'_>], Option<&[usize]>),
    ordered: bool,
    writing: &OperationContext<'_>,
    outcome: &mut BatchReply,
) -> CommandResult {
    // Where the client has put the document.
    let place = |position: usize| match places {
        None => position,
        Some(places) => *places.get(position).expect("every document has a place"),
    };
    before_batch(context, documents.len()).await;
    let mut begin = 0;
    for _ in 0..DROPPED_RETRIES {
        let collection = match context.server.node.catalog.collection(database, name) {
            Some(collection) => collection,
            None => {
                context.offload().await;
                collection_or_create(context, writing, (database, name)).await?
            }
        };
        let rest = documents.get(begin..).expect("an insert goes on at one of its documents");
        if is_long_write(&collection, rest.iter().map(|document| document.as_bytes().len()).sum()) {
            context.offload().await;
        }
        let report = insert_documents(context, &collection, (documents, begin), ordered, writing).await;
        outcome.count += report.inserted as u64;
        context.server.counters.documents_inserted.add(report.inserted as u64);
        let mut dropped_at = None;
        for (position, error) in report.errors {
            match error {
                WriteError::QueryPlanKilled(_) => dropped_at = Some(position),
                error => outcome.refused(place(position), error)?,
            }
        }
        match dropped_at {
            Some(position) if !(ordered && outcome.has_errors()) => begin = position,
            _ => return Ok(()),
        }
    }
    let message = format!("collection {database}.{name} was dropped again and again while inserting");
    outcome.failed(place(begin), CommandError::new(code::QUERY_PLAN_KILLED, message))
}
