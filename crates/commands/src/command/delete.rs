//! `delete`: a batch of statements, each removing one or all documents that match.

use super::{CommandEntry, Execution, Run};
use crate::context::CommandContext;
use crate::counters::OperationClass;
use crate::error::{CommandError, CommandResult};
use crate::exec::environment;
use crate::fields::Fields;
use crate::write::{
    BatchReply, Modification, Statement, before_statement, check_batch_size, documents_of, modify_many,
    modify_one, statement_filter, writable, write_options,
};
use catalog::WriteOptions;
use document::{DocumentBuilder, RawDocument};
use query::Environment;

pub(crate) static COMMAND: CommandEntry = CommandEntry {
    execution: Execution::InlineFirst,
    class: OperationClass::Delete,
    api_version_1: true,
    takes_write_concern: true,
    ..CommandEntry::new(
        "delete",
        "Removes documents.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let namespace = context.collection_namespace()?;
    let statements = context.fields.documents("deletes")?.ok_or_else(|| context.fields.missing("deletes"))?;
    let ordered = context.fields.flexible_boolean("ordered")?.unwrap_or(true);
    let variables = context.fields.document("let")?;
    let ignored = [
        "runtimeConstants",
        "collectionUUID",
        "bypassDocumentValidation",
        "encryptionInformation",
        "stmtId",
        "stmtIds",
    ];
    context.fields.ignore(&ignored);
    context.fields.finish()?;
    let statements = documents_of("delete.deletes", statements)?;
    check_batch_size(statements.len())?;
    let environment = environment(context.server, variables)?;
    let options = write_options(context, false);
    let mut outcome = BatchReply::default();
    for (position, statement) in statements.iter().enumerate() {
        before_statement(context, position, statements.len()).await?;
        context.server.counters.count(OperationClass::Delete, 1);
        match apply(context, namespace, *statement, &environment, options).await {
            Ok(deleted) => outcome.count += deleted,
            Err(error) => {
                outcome.failed(position, error)?;
                if ordered {
                    break;
                }
            }
        }
    }
    context.server.counters.documents_deleted.add(outcome.count);
    outcome.write(reply);
    Ok(())
}

/// Runs one element of `deletes`; how many documents are gone.
async fn apply(
    context: &CommandContext<'_>,
    (database, name): (&str, &str),
    statement: RawDocument<'_>,
    environment: &Environment,
    options: WriteOptions,
) -> CommandResult<u64> {
    let mut fields = Fields::nested("delete.deletes", statement)?;
    let filter = fields.document("q")?.ok_or_else(|| fields.missing("q"))?;
    let filter = statement_filter(&mut fields, filter, None, environment)?;
    let one = match fields.integer("limit")?.ok_or_else(|| fields.missing("limit"))? {
        0 => false,
        1 => true,
        other => {
            let message = format!("The limit field in delete objects must be 0 or 1. Got {other}");
            return Err(CommandError::failed_to_parse(message));
        }
    };
    fields.ignore(&["sampleId"]);
    fields.finish()?;
    let Some(collection) = writable(context, database, name, false).await? else { return Ok(0) };
    let wanted = Statement {
        collection: &collection,
        filter: &filter,
        modification: Modification::Remove,
        options,
        keeps_versions: false,
    };
    Ok(match one {
        true => u64::from(modify_one(context, &wanted).await?.is_some()),
        false => modify_many(context, &wanted).await?.0,
    })
}
