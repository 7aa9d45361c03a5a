//! `update`: a batch of statements, each changing one or all documents that match.

use super::{Command, Execution, OnSecondary, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::error::{CommandError, CommandResult};
use crate::exec::environment;
use crate::write::{
    BatchReply, Modification, Statement, StatementIds, UpdateStatement, UpsertRounds, before_batch,
    before_statement, begin_retryable, check_batch_size, check_one_document, check_writable, documents_of,
    empty_timestamps, insert_upserted, modify_many, modify_one, observed, writable,
};
use catalog::OperationContext;
use document::{DocumentBuilder, RawDocument, RawValue, Value};
use query::Environment;
use query::update::{EmptyTimestamps, Update, check_upsert_filter};
use smallvec::SmallVec;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    execution: Execution::InlineFirst,
    class: OperationClass::Update,
    api_version_1: true,
    takes_write_concern: true,
    takes_txn_number: true,
    ..Command::new("update", "Changes documents.", Run::Later(|context, reply| Box::pin(run(context, reply))))
};

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let namespace = context.collection_namespace()?;
    let statements = context.fields.documents("updates")?;
    let ordered = context.fields.boolean("ordered")?.unwrap_or(true);
    let bypass = context.fields.flexible_boolean("bypassDocumentValidation")?.unwrap_or(false);
    let variables = context.fields.document("let")?;
    let timestamps = empty_timestamps(&mut context.fields)?;
    let ids = StatementIds::of_batch(&mut context.fields)?;
    context.fields.ignore(&["runtimeConstants", "collectionUUID", "encryptionInformation"]);
    context.fields.finish()?;
    let statements = statements.ok_or_else(|| context.fields.missing("updates"))?;
    let statements = documents_of("update.updates", statements)?;
    before_batch(context, statements.len()).await;
    let statements: Statements<'_> = statements
        .iter()
        .map(|statement| UpdateStatement::parse(*statement))
        .collect::<CommandResult<_>>()?;
    check_batch_size(statements.len())?;
    check_writable(context.server, namespace)?;
    let environment = environment(context.server, variables)?;
    let writing = OperationContext { bypass_validation: bypass, ..context.writing() };
    let mut outcome = BatchReply::of_updates();
    let mut retry = begin_retryable(context, &ids, statements.len()).await?;
    for (position, statement) in statements.iter().enumerate() {
        before_statement(context, position).await?;
        if let Some(retry) = &mut retry
            && let Some(executed) = Box::pin(retry.executed(context, position)).await?
        {
            outcome.repeated(position, executed.upserted);
            continue;
        }
        context.server.counters.count(OperationClass::Update, 1);
        let observer = retry.as_deref().map(|retry| retry.of_update(position, None));
        let writing = observed(writing, observer.as_ref());
        let applied = match check_one_document(retry.as_deref(), statement.multi, "multi=true") {
            Ok(()) => {
                let shared = (&environment, timestamps);
                apply(context, namespace, position, statement, shared, writing, &mut outcome).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = applied {
            outcome.failed(position, error)?;
            if ordered {
                break;
            }
        }
    }
    outcome.write(reply);
    retry.inspect(|retry| retry.write(&context.server.counters, reply));
    Ok(())
}

/// Most batches have one statement.
type Statements<'a> = SmallVec<[UpdateStatement<'a>; 1]>;

/// Runs one element of `updates`.
async fn apply(
    context: &CommandContext<'_>,
    (database, name): (&str, &str),
    position: usize,
    statement: &UpdateStatement<'_>,
    (shared, timestamps): (&Environment, EmptyTimestamps),
    writing: OperationContext<'_>,
    outcome: &mut BatchReply,
) -> CommandResult {
    let own = constants(statement.constants, statement.update, shared)?;
    let environment = own.as_ref().unwrap_or(shared);
    let compile = || -> CommandResult<_> {
        let filter = statement.selection.compile(environment)?;
        if statement.upsert {
            check_upsert_filter(filter.document())?;
        }
        let update = Update::parse_with(statement.update, statement.array_filters, environment, timestamps)?;
        Ok((filter, update))
    };
    let (filter, update) = context.scheduling().compute(compile).await?;
    if statement.multi && update.is_replacement() {
        return Err(CommandError::failed_to_parse(
            "multi update is not supported for replacement-style update",
        ));
    }
    let mut rounds = UpsertRounds::default();
    loop {
        let Some(collection) = writable(context, database, name, statement.upsert).await? else {
            return Ok(());
        };
        let modification = Modification::Update(&update);
        let wanted = Statement {
            collection: &collection,
            filter: &filter,
            modification,
            writing,
            keeps_versions: false,
        };
        let (matched, changed) = match statement.multi {
            true => modify_many(context, &wanted).await?,
            false => modify_one(context, &wanted).await?.map_or((0, 0), |one| (1, u64::from(one.changed))),
        };
        outcome.count += matched;
        *outcome.modified.get_or_insert(0) += changed;
        if matched > 0 || !statement.upsert {
            return Ok(());
        }
        let document = update.upsert(filter.document())?;
        if insert_upserted(context, &collection, &filter, &document, &writing).await? {
            outcome.count += 1;
            outcome.upserted(position, document.as_raw().get("_id").map_or(Value::Null, RawValue::to_value));
            return Ok(());
        }
        rounds.lost(context).await?;
    }
}

/// The environment of a statement with constants `c`, which are variables of its pipeline.
fn constants(
    constants: Option<RawDocument<'_>>,
    update: RawValue<'_>,
    shared: &Environment,
) -> CommandResult<Option<Environment>> {
    let Some(constants) = constants else { return Ok(None) };
    if !matches!(update, RawValue::Array(_)) {
        return Err(CommandError::new(51198, "Constant values may only be specified for pipeline updates"));
    }
    let constants = constants.iter().map(|field| (field.name().to_owned(), field.value().to_value()));
    Ok(Some(shared.with(constants)))
}
