//! `find`: the documents of a collection that pass a filter.
//!
//! A filter `{_id: value}` without anything that needs a plan takes a short way: encode the value, read the
//! document, append it.
//!
//! Source: MongoDB manual, "find" (database command), "Tailable Cursors".

use super::{Command, Execution, OnSecondary, Run, TimeLimit};
use crate::aggregation::views::{ViewFind, find_on_view, is_view};
use crate::context::{BatchContext, CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::cursors::{Batch, BatchEnd, BatchFuture, BatchProducer, ClientCursor, append_namespace};
use crate::error::{CommandError, CommandResult};
use crate::exec::{
    Executor, LONG_DOCUMENT, Query, ResultShape, ReturnKey, await_memory, check_collation, environment,
    exact_id, fill_batch, parse_hint, parse_sort,
};
use crate::failpoints::{FailPoint, wait_while_set};
use crate::fields::Fields;
use crate::parameters::Parameter;
use crate::scheduling::Scheduling;
use crate::server::DataNode;
use catalog::Collection;
use dispatch::concern::ReadConcerns;
use document::{DocumentBuilder, RawDocument, RawValue};
use query::Environment;
use query::matcher::Matcher;
use query::memory::Memory;
use query::plan::{Hint, NeededFields};
use query::projection::Projection;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;
use storage::ReadTier;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    read_concerns: ReadConcerns::All,
    execution: Execution::InlineFirst,
    class: OperationClass::Query,
    time_limit: TimeLimit::GivenOrDefault,
    api_version_1: true,
    unstable_fields: &[
        "awaitData",
        "max",
        "min",
        "noCursorTimeout",
        "oplogReplay",
        "returnKey",
        "showRecordId",
        "tailable",
    ],
    ..Command::new(
        "find",
        "Returns the documents of a collection that pass a filter.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

/// What the error of a find that runs says first.
fn failed(error: CommandError) -> CommandError {
    error.within("Executor error during find command")
}

/// Documents of the first batch when the client does not say.
const FIRST_BATCH_DOCUMENTS: usize = 101;

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let waits = context.server.failpoints.is_set(FailPoint::WaitInFindBeforeMakingBatch);
    if !waits && find_by_id(context, reply).await? {
        return Ok(());
    }
    // Boxed: the short way pays for a small future only.
    Box::pin(run_planned(context, reply)).await
}

/// Answers a find by `_id` that needs no plan. False, with nothing taken or written, for every other one.
async fn find_by_id(
    context: &mut CommandContext<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult<bool> {
    let Some((id, projection)) = short_request(&context.fields) else { return Ok(false) };
    let (database, name) = context.collection_namespace()?;
    let server = context.server;
    let Some(collection) = server.node.catalog.collection(database, name) else {
        return Ok(false);
    };
    if context.snapshot_time.is_some() {
        // Names are looked up in it.
        return Ok(false);
    }
    let projection = match projection.filter(|projection| !projection.is_empty()) {
        None => None,
        Some(spec) => {
            let environment = Environment::at(server.now_ms());
            let parse = || -> CommandResult<_> { Ok(Projection::parse(spec, &environment)?) };
            Some(context.scheduling().compute(parse).await?)
        }
    };
    if projection.as_ref().is_some_and(Projection::is_positional) {
        return Ok(false);
    }
    let view = context.source.view();
    let found = context
        .scheduling()
        .read(|tier| collection.get(view, id, tier))
        .await
        .map_err(|error| failed(error.into()))?;
    let found = match found {
        Some(bytes) if collection.hides(RawDocument::trusted(&bytes), server.now_ms())? => None,
        found => found,
    };
    let computes = projection.as_ref().is_some_and(Projection::computes);
    if computes || found.as_ref().is_some_and(|bytes| bytes.len() > LONG_DOCUMENT) {
        context.offload().await;
    }
    let mut cursor = reply.start_document("cursor");
    let mut batch = cursor.start_array("firstBatch");
    if let Some(bytes) = &found {
        let document = RawDocument::trusted(bytes);
        match projection {
            None => {
                batch.push(document);
            }
            Some(projection) => {
                let mut out = batch.start_document();
                let variables = &mut query::expression::Variables::new();
                let projected = projection.project_into(document, None, variables, &mut out);
                projected.map_err(|error| failed(error.into()))?;
            }
        }
        server.counters.documents_returned.add(1);
        server.counters.documents_scanned.add(1);
    }
    batch.finish();
    cursor.append("id", 0_i64);
    append_namespace(&mut cursor, database, name);
    Ok(true)
}

/// The `_id` and the projection of a find that has nothing else of importance.
#[inline]
fn short_request<'a>(fields: &Fields<'a>) -> Option<(RawValue<'a>, Option<RawDocument<'a>>)> {
    let mut id = None;
    let mut projection = None;
    for element in fields.rest() {
        match (element.name_bytes(), element.value()) {
            (b"filter", RawValue::Document(filter)) => id = exact_id(filter),
            (b"projection", RawValue::Document(spec)) => projection = Some(spec),
            (b"limit" | b"batchSize", RawValue::Int32(1..) | RawValue::Int64(1..)) => {}
            (b"limit" | b"skip", RawValue::Int32(0) | RawValue::Int64(0)) => {}
            (b"singleBatch", RawValue::Boolean(_)) => {}
            _ => return None,
        }
    }
    Some((id?, projection))
}

/// The arguments of a find.
#[derive(Debug, Default)]
pub(super) struct FindRequest<'a> {
    pub(super) filter: RawDocument<'a>,
    pub(super) sort: RawDocument<'a>,
    pub(super) projection: RawDocument<'a>,
    pub(super) hint: Option<Hint>,
    pub(super) min: Option<RawDocument<'a>>,
    pub(super) max: Option<RawDocument<'a>>,
    pub(super) skip: u64,
    pub(super) limit: Option<u64>,
    pub(super) batch_size: Option<usize>,
    pub(super) single_batch: bool,
    pub(super) return_key: bool,
    pub(super) show_record_id: bool,
    pub(super) tailable: bool,
    pub(super) await_data: bool,
    pub(super) no_timeout: bool,
    pub(super) allow_disk_use: bool,
    pub(super) variables: Option<RawDocument<'a>>,
}

impl<'a> FindRequest<'a> {
    /// Takes the fields of a find.
    ///
    /// # Errors
    /// What is malformed or contradicts itself.
    pub(super) fn take(fields: &mut Fields<'a>) -> CommandResult<Self> {
        let count = |number: Option<i64>| number.map_or(0, i64::unsigned_abs);
        let request = FindRequest {
            filter: fields.document("filter")?.unwrap_or_default(),
            sort: fields.document("sort")?.unwrap_or_default(),
            projection: fields.document("projection")?.unwrap_or_default(),
            hint: parse_hint(fields.any("hint"))?,
            min: fields.document("min")?.filter(|key| !key.is_empty()),
            max: fields.document("max")?.filter(|key| !key.is_empty()),
            skip: count(fields.integer_at_least("skip", 0)?),
            limit: Some(count(fields.integer_at_least("limit", 0)?)).filter(|limit| *limit > 0),
            batch_size: fields
                .integer_at_least("batchSize", 0)?
                .map(|size| usize::try_from(size).unwrap_or(usize::MAX)),
            single_batch: fields.boolean("singleBatch")?.unwrap_or(false),
            return_key: fields.boolean("returnKey")?.unwrap_or(false),
            show_record_id: fields.boolean("showRecordId")?.unwrap_or(false),
            tailable: fields.boolean("tailable")?.unwrap_or(false),
            await_data: fields.boolean("awaitData")?.unwrap_or(false),
            no_timeout: fields.boolean("noCursorTimeout")?.unwrap_or(false),
            allow_disk_use: fields.boolean("allowDiskUse")?.unwrap_or(true),
            variables: fields.document("let")?,
        };
        check_collation(fields.document("collation")?)?;
        fields.boolean("allowPartialResults")?;
        fields.boolean("oplogReplay")?;
        fields.boolean("readOnce")?;
        fields.ignore(&["term", "allowSpeculativeMajorityRead", "includeQueryStatsMetrics"]);
        fields.finish()?;
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> CommandResult {
        if self.await_data && !self.tailable {
            return Err(CommandError::failed_to_parse(
                "Cannot set 'awaitData' without also setting 'tailable'",
            ));
        }
        if self.tailable && self.single_batch {
            return Err(CommandError::failed_to_parse(
                "Cannot use tailable option with the 'singleBatch' option",
            ));
        }
        let natural_forward = self
            .sort
            .get("$natural")
            .and_then(RawValue::as_i64_exact)
            .is_some_and(|direction| direction == 1);
        if self.tailable && !self.sort.is_empty() && !natural_forward {
            return Err(CommandError::bad_value(
                "cannot use tailable option with a sort other than {$natural: 1}",
            ));
        }
        Ok(())
    }

    /// What the executor is to do, and how documents are shown.
    ///
    /// # Errors
    /// What filter, sort and projection are refused for.
    pub(super) fn query(
        &self,
        context: &CommandContext<'_>,
        environment: &Environment,
    ) -> CommandResult<(Query, ResultShape)> {
        let server = context.server;
        let matcher = Matcher::parse(self.filter, environment)?;
        let (sort, natural) = parse_sort(self.sort)?;
        let projection = match self.projection.is_empty() {
            true => None,
            false => Some(Projection::parse(self.projection, environment)?),
        };
        let needs = match projection.as_ref().and_then(Projection::needs) {
            Some(paths) if !self.show_record_id => NeededFields::Only(paths),
            _ => NeededFields::All,
        };
        let hint = match (&self.hint, natural) {
            (Some(hint), None) => Some(hint.clone()),
            (None, natural) => natural,
            (Some(Hint::Natural(_)), Some(natural)) => Some(natural),
            (Some(_), Some(_)) => {
                return Err(CommandError::bad_value("cannot use a hint together with a sort by $natural"));
            }
        };
        let pool = &server.host.memory_pool;
        let memory = server.parameters.unsigned(Parameter::SortMemory);
        // Who does not sort holds nothing, and is spared a count that all threads share.
        let account = if sort.is_empty() { Memory::default() } else { context.memory(usize::MAX) };
        let mut output = ResultShape::new(projection, &matcher);
        output.show_record_id = self.show_record_id;
        let query = Query {
            matcher,
            sort,
            needs,
            hint,
            min: self.min.map(RawDocument::to_buf),
            max: self.max.map(RawDocument::to_buf),
            skip: self.skip,
            limit: self.limit,
            tailable: self.tailable,
            sort_memory_bytes: usize::try_from(memory).unwrap_or(usize::MAX).min(pool.most()),
            memory: account,
            spill: self.allow_disk_use.then(|| server.node.spill.within(pool)),
            no_table_scan: server.parameters.is_on(Parameter::NoTableScan),
            moment_ms: Some(environment.now_ms),
        };
        Ok((query, output))
    }
}

async fn run_planned(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let (database, name) = context.collection_namespace()?;
    let request = FindRequest::take(&mut context.fields)?;
    let environment = environment(context.server, request.variables)?;
    context.check_name(name)?;
    let Some(collection) = context.server.node.catalog.collection(database, name) else {
        if is_view(&context.server.node.catalog, database, name) {
            return find_view(context, reply, name, request, environment).await;
        }
        // The arguments are checked all the same.
        request.query(context, &environment)?;
        append_empty(context, reply, database, name);
        return Ok(());
    };
    let compile = || request.query(context, &environment);
    let (query, mut output) = context.scheduling().compute(compile).await?;
    if request.tailable && !collection.definition().is_capped() {
        return Err(CommandError::bad_value(format!(
            "error processing query: ns={database}.{name} tailable cursor requested on non capped collection"
        )));
    }
    let (sorted, hinted) =
        (!query.sort.is_empty(), matches!(query.hint, Some(Hint::Name(_) | Hint::Pattern(_))));
    if sorted {
        await_memory(context).await?;
    }
    let executor = Executor::open(context.source, &collection, query)?;
    if request.return_key {
        let plan = executor.plan();
        output.return_key = Some(ReturnKey::of(plan, hinted || sorted && plan.sort_provided));
    }
    let point = FailPoint::WaitInFindBeforeMakingBatch;
    if context.server.failpoints.is_set(point) {
        let namespace = format!("{database}.{name}");
        Box::pin(wait_while_set(context, point, Some(&namespace), || false)).await?;
    }
    let source = FindSource { executor, output, tailable: request.tailable, await_data: request.await_data };
    give_first_batch(context, reply, (database, name), source, &request).await
}

async fn give_first_batch(
    context: &CommandContext<'_>,
    reply: &mut DocumentBuilder<'_>,
    (database, name): (&str, &str),
    mut source: FindSource,
    request: &FindRequest<'_>,
) -> CommandResult {
    let mut cursor = reply.start_document("cursor");
    let limit = request.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS);
    let mut batch = Batch::new(cursor.start_array("firstBatch"), limit);
    let end = source.fill_and_save(&context.batch_context(None), &mut batch).await.map_err(failed)?;
    let returned = batch.count() as u64;
    drop(batch);
    context.server.counters.documents_returned.add(returned);
    // A tailable cursor that has seen no document has no position to go on from.
    let stays = end == BatchEnd::More
        && !request.single_batch
        && (!request.tailable || limit == 0 || source.executor.has_position());
    let id = match stays {
        false => 0,
        true => {
            let namespace = format!("{database}.{name}");
            let mut cursor =
                ClientCursor::new(namespace, context.generic.session, context.body, Box::new(source));
            cursor.owner = context.client.access.user_name();
            cursor.no_timeout = request.no_timeout;
            cursor.tailable = request.tailable;
            cursor.await_data = request.await_data;
            cursor.returned = returned;
            cursor.time_left = context.time_left();
            cursor.snapshot = context.snapshot();
            context.server.cursors.open(cursor)
        }
    };
    context.append_snapshot_time(&mut cursor);
    cursor.append("id", id);
    append_namespace(&mut cursor, database, name);
    Ok(())
}

async fn find_view(
    context: &CommandContext<'_>,
    reply: &mut DocumentBuilder<'_>,
    name: &str,
    request: FindRequest<'_>,
    environment: Environment,
) -> CommandResult {
    let refused = [
        (request.tailable, "tailable"),
        (request.show_record_id, "showRecordId"),
        (request.return_key, "returnKey"),
        (request.min.is_some(), "min"),
        (request.max.is_some(), "max"),
    ];
    if let Some((_, option)) = refused.iter().find(|(given, _)| *given) {
        return Err(crate::aggregation::views::refuse_option(option));
    }
    let find = ViewFind {
        filter: request.filter,
        projection: request.projection,
        sort: request.sort,
        skip: request.skip,
        limit: request.limit.unwrap_or(0),
        batch_size: request.batch_size,
        single_batch: request.single_batch,
        allow_disk_use: request.allow_disk_use,
        hint: request.hint,
    };
    find_on_view(context, reply, name, find, environment).await
}

fn append_empty(context: &CommandContext<'_>, reply: &mut DocumentBuilder<'_>, database: &str, name: &str) {
    let mut cursor = reply.start_document("cursor");
    cursor.start_array("firstBatch").finish();
    context.append_snapshot_time(&mut cursor);
    cursor.append("id", 0_i64);
    append_namespace(&mut cursor, database, name);
}

/// A find between its batches.
#[derive(Debug)]
struct FindSource {
    executor: Executor,
    output: ResultShape,
    tailable: bool,
    await_data: bool,
}

impl FindSource {
    async fn fill_and_save(
        &mut self,
        context: &BatchContext<'_>,
        batch: &mut Batch<'_>,
    ) -> CommandResult<BatchEnd> {
        self.executor.read_from(context.source);
        let before = self.executor.figures();
        let filled = self.fill_or_wait(context, batch).await;
        self.executor.save();
        let after = self.executor.figures();
        context.server.counters.keys_scanned.add(after.keys - before.keys);
        context.server.counters.documents_scanned.add(after.documents - before.documents);
        filled
    }

    async fn fill_or_wait(
        &mut self,
        context: &BatchContext<'_>,
        batch: &mut Batch<'_>,
    ) -> CommandResult<BatchEnd> {
        let scheduling = Scheduling::of_batch(context);
        if !self.tailable {
            return fill_batch(&mut self.executor, &mut self.output, scheduling, batch).await;
        }
        let collection: Arc<Collection> = Arc::clone(self.executor.collection());
        loop {
            let seen = collection.inserted().generation();
            collection.check_alive()?;
            match self.executor.check_capped_position(scheduling.tier()) {
                Err(error) if error.would_block() => {
                    scheduling.offload_briefly().await;
                    self.executor.check_capped_position(ReadTier::Any)?;
                }
                checked => checked?,
            }
            let end = fill_batch(&mut self.executor, &mut self.output, scheduling, batch).await?;
            let waits = end == BatchEnd::Exhausted && batch.count() == 0 && self.await_data;
            let until = context.await_until.filter(|until| waits && *until > ambient::now());
            let Some(until) = until else { return Ok(BatchEnd::More) };
            self.executor.save();
            wait_for_insert(context, &collection, seen, until).await?;
            self.executor.read_from(context.source);
        }
    }
}

impl BatchProducer<DataNode> for FindSource {
    fn begins_inline(&self) -> bool {
        true
    }

    fn fill<'a>(&'a mut self, context: &'a BatchContext<'a>, batch: &'a mut Batch<'_>) -> BatchFuture<'a> {
        Box::pin(self.fill_and_save(context, batch))
    }
}

/// Waits for an insert, for the time to pass, or for the operation's end.
async fn wait_for_insert(
    context: &BatchContext<'_>,
    collection: &Arc<Collection>,
    seen: u64,
    until: Instant,
) -> CommandResult {
    let mut arrival = pin!(collection.inserted().after(seen));
    let mut sleep = pin!(context.server.sleep_until(until));
    let either = poll_fn(|task| match arrival.as_mut().poll(task) {
        Poll::Ready(_) => Poll::Ready(()),
        Poll::Pending => sleep.as_mut().poll(task),
    });
    context.client.interrupt.wait_for(either).await
}
