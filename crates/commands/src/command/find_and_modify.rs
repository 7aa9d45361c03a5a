//! `findAndModify`: changes or removes one document and returns it as it was or as it is now.

use super::{Command, Execution, OnSecondary, Run};
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::cursors::check_size;
use crate::error::{CommandError, CommandResult};
use crate::exec::{StatementFilter, environment};
use crate::write::{
    Modification, Modified, Retry, Selection, Statement, StatementIds, UpsertRounds, array_filters,
    begin_retryable, check_writable, empty_timestamps, insert_upserted, modify_one, observed, writable,
};
use catalog::{Collection, OperationContext};
use document::{DocumentBuf, DocumentBuilder, RawArray, RawDocument, RawValue, Value};
use query::Environment;
use query::expression::Variables;
use query::projection::Projection;
use query::update::{EmptyTimestamps, Update, check_upsert_filter};
use replication::oplog::Image;
use replication::retryable::{Executed, RetryObserver};
use std::sync::Arc;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::Never,
    latency_class: Some(OperationClass::Update),
    execution: Execution::InlineFirst,
    aliases: &["findandmodify"],
    api_version_1: true,
    takes_write_concern: true,
    takes_txn_number: true,
    ..Command::new(
        "findAndModify",
        "Changes or removes one document and returns it.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

/// What the errors of finding and changing begin with.
const EXECUTION: &str = "Plan executor error during findAndModify";

/// The command's own fields.
struct FindAndModify<'a> {
    selection: Selection<'a>,
    projection: Option<RawDocument<'a>>,
    update: Option<RawValue<'a>>,
    array_filters: Option<RawArray<'a>>,
    remove: bool,
    returns_new: bool,
    upsert: bool,
    bypass_validation: bool,
    timestamps: EmptyTimestamps,
    ids: StatementIds,
}

/// What happened.
struct Found {
    count: i32,
    /// `None` for a removal, which does not tell.
    updated_existing: Option<bool>,
    upserted: Option<Value>,
    value: Option<DocumentBuf>,
}

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let namespace = context.collection_namespace()?;
    let variables = context.fields.document("let")?;
    let request = FindAndModify::parse(context)?;
    check_writable(context.server, namespace)?;
    let environment = environment(context.server, variables)?;
    let mut retry = begin_retryable(context, &request.ids, 1).await?;
    let executed = match &mut retry {
        Some(retry) => Box::pin(retry.executed(context, 0)).await?,
        None => None,
    };
    let outcome = match (executed, retry.as_deref()) {
        (Some(executed), Some(retry)) => {
            Box::pin(request.repeated(context, &environment, retry, executed)).await?
        }
        (_, retry) => {
            let observer = retry.map(|retry| request.observer(retry));
            let writing = observed(context.writing(), observer.as_ref());
            request.run(context, namespace, &environment, writing).await?
        }
    };
    let mut last = reply.start_document("lastErrorObject");
    last.append("n", outcome.count);
    if let Some(existing) = outcome.updated_existing {
        last.append("updatedExisting", existing);
    }
    if let Some(id) = &outcome.upserted {
        last.append_value("upserted", id);
    }
    last.finish();
    match outcome.value {
        None => reply.append("value", RawValue::Null),
        Some(document) => reply.append("value", &document),
    };
    retry.inspect(|retry| retry.write_one(&context.server.counters, reply));
    Ok(())
}

impl<'a> FindAndModify<'a> {
    fn parse(context: &mut CommandContext<'a>) -> CommandResult<Self> {
        let fields = &mut context.fields;
        let filter = fields.document("query")?.unwrap_or_default();
        let sort = fields.document("sort")?;
        // The older name of `projection`.
        let older = fields.document("fields")?;
        let request = FindAndModify {
            selection: Selection::take(fields, filter, sort)?,
            projection: fields.document("projection")?.or(older).filter(|projection| !projection.is_empty()),
            update: fields
                .any("update")
                .filter(|update| !matches!(update, RawValue::Null | RawValue::Undefined)),
            array_filters: array_filters("findAndModify", fields)?,
            remove: fields.flexible_boolean("remove")?.unwrap_or(false),
            returns_new: fields.flexible_boolean("new")?.unwrap_or(false),
            upsert: fields.flexible_boolean("upsert")?.unwrap_or(false),
            bypass_validation: fields.flexible_boolean("bypassDocumentValidation")?.unwrap_or(false),
            timestamps: empty_timestamps(fields)?,
            ids: StatementIds::of_one(fields)?,
        };
        fields.ignore(&["runtimeConstants", "collectionUUID", "encryptionInformation", "sampleId"]);
        fields.finish()?;
        request.update.map_or(Ok(()), Update::check_form)?;
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> CommandResult {
        let refused = |message: &'static str| Err(CommandError::failed_to_parse(message));
        match (self.remove, &self.update) {
            (true, Some(_)) => refused("Cannot specify both an update and remove=true"),
            (true, None) if self.upsert => refused("Cannot specify both upsert=true and remove=true"),
            (true, None) if self.returns_new => refused(
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
            ),
            (true, None) if self.array_filters.is_some() => {
                refused("Cannot specify arrayFilters and remove=true")
            }
            (false, None) => refused("Either an update or remove=true must be specified"),
            _ => Ok(()),
        }
    }

    async fn run(
        self,
        context: &CommandContext<'_>,
        (database, name): (&str, &str),
        environment: &Environment,
        writing: OperationContext<'_>,
    ) -> CommandResult<Found> {
        let compile = || -> CommandResult<_> {
            let projection = self.projection.map(|spec| Projection::parse(spec, environment)).transpose()?;
            let parse = |update| Update::parse_with(update, self.array_filters, environment, self.timestamps);
            let update = self.update.map(parse).transpose()?;
            Ok((projection, update, self.selection.compile(environment)?))
        };
        let (projection, update, filter) = context.scheduling().compute(compile).await?;
        if self.upsert {
            check_upsert_filter(filter.document())?;
        }
        let changing = Changing {
            request: &self,
            filter: &filter,
            update: update.as_ref(),
            projection: projection.as_ref(),
            writing: OperationContext { bypass_validation: self.bypass_validation, ..writing },
        };
        let mut rounds = UpsertRounds::default();
        loop {
            let collection = writable(context, database, name, self.upsert).await?;
            let round = changing.round(context, collection.as_ref()).await;
            match round.map_err(|error| error.within(EXECUTION))? {
                Some(outcome) => return Ok(outcome),
                None => rounds.lost(context).await?,
            }
        }
    }

    /// The version of the document that it is answered with.
    const fn image(&self) -> Image {
        if self.returns_new { Image::After } else { Image::Before }
    }

    fn observer<'r>(&self, retry: &'r Retry) -> RetryObserver<'r> {
        match self.remove {
            true => retry.of_removal(0, Some(Image::Before)),
            false => retry.of_update(0, Some(self.image())),
        }
    }

    /// The answer that was given when the command came before.
    async fn repeated(
        &self,
        context: &CommandContext<'_>,
        environment: &Environment,
        retry: &Retry,
        executed: Executed,
    ) -> CommandResult<Found> {
        let projection = self.projection.map(|spec| Projection::parse(spec, environment)).transpose()?;
        let value = match executed.upserted.is_some() && !self.returns_new {
            true => None,
            false => {
                let image = retry.image(context, self.image()).await?;
                Some(project(projection.as_ref(), image)?)
            }
        };
        let updated_existing = (!self.remove).then_some(executed.upserted.is_none());
        Ok(Found { count: 1, updated_existing, upserted: executed.upserted, value })
    }

    fn found(&self, modified: Modified, projection: Option<&Projection>) -> CommandResult<Found> {
        let shown = if self.returns_new { modified.after } else { modified.before };
        let value = shown.map(|document| project(projection, document)).transpose()?;
        Ok(Found { count: 1, updated_existing: (!self.remove).then_some(true), upserted: None, value })
    }
}

/// A request with all that was compiled for it.
struct Changing<'r> {
    request: &'r FindAndModify<'r>,
    filter: &'r StatementFilter<'r>,
    update: Option<&'r Update>,
    projection: Option<&'r Projection>,
    writing: OperationContext<'r>,
}

impl Changing<'_> {
    /// Changes, removes or upserts a document; `None` when another one was faster with the same upsert.
    async fn round(
        &self,
        context: &CommandContext<'_>,
        collection: Option<&Arc<Collection>>,
    ) -> CommandResult<Option<Found>> {
        if let Some(collection) = collection {
            let modification = self.update.map_or(Modification::Remove, Modification::Update);
            let wanted = Statement {
                collection,
                filter: self.filter,
                modification,
                writing: self.writing,
                keeps_versions: true,
            };
            if let Some(modified) = modify_one(context, &wanted).await? {
                return self.request.found(modified, self.projection).map(Some);
            }
        }
        let Some((collection, update)) = collection.zip(self.update).filter(|_| self.request.upsert) else {
            let updated_existing = (!self.request.remove).then_some(false);
            return Ok(Some(Found { count: 0, updated_existing, upserted: None, value: None }));
        };
        let document = update.upsert(self.filter.document())?;
        if !insert_upserted(context, collection, self.filter, &document, &self.writing).await? {
            return Ok(None);
        }
        let upserted = document.as_raw().get("_id").map(RawValue::to_value);
        let value = self.request.returns_new.then(|| project(self.projection, document)).transpose()?;
        Ok(Some(Found { count: 1, updated_existing: Some(false), upserted, value }))
    }
}

fn project(projection: Option<&Projection>, document: DocumentBuf) -> CommandResult<DocumentBuf> {
    match projection {
        None => Ok(document),
        Some(projection) => {
            let shown = projection.project(document.as_raw(), None, &mut Variables::new())?;
            check_size(shown.len())?;
            Ok(shown)
        }
    }
}
