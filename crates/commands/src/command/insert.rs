//! `insert`: documents into a collection, which is made when it does not exist.

use super::{Command, Execution, OnSecondary, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::error::{CommandError, CommandResult, code};
use crate::write::{
    BatchReply, before_batch, check_batch_size, check_writable, documents_of, empty_timestamps,
    insert_documents, is_long_write,
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
    context.fields.ignore(&["collectionUUID", "encryptionInformation", "stmtId", "stmtIds"]);
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
    insert(context, (database, name), &documents, ordered, &writing, &mut outcome).await?;
    context.server.counters.count(OperationClass::Insert, documents.len() as u64);
    context.server.counters.documents_inserted.add(outcome.count);
    outcome.write(reply);
    Ok(())
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
    documents: &[RawDocument<'_>],
    ordered: bool,
    writing: &OperationContext<'_>,
    outcome: &mut BatchReply,
) -> CommandResult {
    before_batch(context, documents.len()).await;
    let mut begin = 0;
    for _ in 0..DROPPED_RETRIES {
        let collection = match context.server.node.catalog.collection(database, name) {
            Some(collection) => collection,
            None => {
                context.offload().await;
                context.server.node.catalog.collection_or_create(writing, database, name).await?
            }
        };
        let rest = documents.get(begin..).unwrap_or_default();
        if is_long_write(&collection, rest.iter().map(|document| document.as_bytes().len()).sum()) {
            context.offload().await;
        }
        let report = insert_documents(context, &collection, rest, ordered, writing).await;
        outcome.count += report.inserted as u64;
        let mut dropped_at = None;
        for (position, error) in report.errors {
            match error {
                WriteError::QueryPlanKilled(_) => dropped_at = Some(begin + position),
                error => outcome.refused(begin + position, error)?,
            }
        }
        match dropped_at {
            Some(position) if !(ordered && outcome.has_errors()) => begin = position,
            _ => return Ok(()),
        }
    }
    let message = format!("collection {database}.{name} was dropped again and again while inserting");
    outcome.failed(begin, CommandError::new(code::QUERY_PLAN_KILLED, message))
}
