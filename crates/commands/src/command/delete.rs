//! `delete`: a batch of statements, each removing one or all documents that match.

use super::{Command, Execution, OnSecondary, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::error::CommandResult;
use crate::exec::environment;
use crate::write::{
    BatchReply, DeleteStatement, Modification, Statement, StatementIds, before_batch, before_statement,
    begin_retryable, check_batch_size, check_one_document, check_writable, documents_of, modify_many,
    modify_one, observed, writable,
};
use catalog::OperationContext;
use document::DocumentBuilder;
use query::Environment;
use smallvec::SmallVec;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    execution: Execution::InlineFirst,
    class: OperationClass::Delete,
    api_version_1: true,
    takes_write_concern: true,
    takes_txn_number: true,
    ..Command::new("delete", "Removes documents.", Run::Later(|context, reply| Box::pin(run(context, reply))))
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let namespace = context.collection_namespace()?;
    let statements = context.fields.documents("deletes")?;
    let ordered = context.fields.boolean("ordered")?.unwrap_or(true);
    let variables = context.fields.document("let")?;
    let ignored = ["runtimeConstants", "collectionUUID", "bypassDocumentValidation", "encryptionInformation"];
    let ids = StatementIds::of_batch(&mut context.fields)?;
    context.fields.ignore(&ignored);
    context.fields.finish()?;
    let statements = statements.ok_or_else(|| context.fields.missing("deletes"))?;
    let statements = documents_of("delete.deletes", statements)?;
    before_batch(context, statements.len()).await;
    let statements: Statements<'_> = statements
        .iter()
        .map(|statement| DeleteStatement::parse(*statement))
        .collect::<CommandResult<_>>()?;
    check_batch_size(statements.len())?;
    check_writable(context.server, namespace)?;
    let environment = environment(context.server, variables)?;
    let writing = context.writing();
    let mut outcome = BatchReply::default();
    let mut retry = begin_retryable(context, &ids, statements.len()).await?;
    for (position, statement) in statements.iter().enumerate() {
        before_statement(context, position).await?;
        if let Some(retry) = &mut retry
            && let Some(executed) = Box::pin(retry.executed(context, position)).await?
        {
            outcome.repeated(position, executed.upserted);
            continue;
        }
        context.server.counters.count(OperationClass::Delete, 1);
        let observer = retry.as_deref().map(|retry| retry.of_removal(position, None));
        let writing = observed(writing, observer.as_ref());
        let applied = match check_one_document(retry.as_deref(), !statement.one, "limit=0") {
            Ok(()) => apply(context, namespace, statement, &environment, writing).await,
            Err(error) => Err(error),
        };
        match applied {
            Ok(deleted) => outcome.count += deleted,
            Err(error) => {
                outcome.failed(position, error)?;
                if ordered {
                    break;
                }
            }
        }
    }
    outcome.write(reply);
    retry.inspect(|retry| retry.write(&context.server.counters, reply));
    Ok(())
}

/// Most batches have one statement.
type Statements<'a> = SmallVec<[DeleteStatement<'a>; 1]>;

/// Runs one element of `deletes`; how many documents are gone.
async fn apply(
    context: &CommandContext<'_>,
    (database, name): (&str, &str),
    statement: &DeleteStatement<'_>,
    environment: &Environment,
    writing: OperationContext<'_>,
) -> CommandResult<u64> {
    let filter = context.scheduling().compute(|| statement.selection.compile(environment)).await?;
    let Some(collection) = writable(context, database, name, false).await? else { return Ok(0) };
    let wanted = Statement {
        collection: &collection,
        filter: &filter,
        modification: Modification::Remove,
        writing,
        keeps_versions: false,
    };
    Ok(match statement.one {
        true => u64::from(modify_one(context, &wanted).await?.is_some()),
        false => modify_many(context, &wanted).await?.0,
    })
}
