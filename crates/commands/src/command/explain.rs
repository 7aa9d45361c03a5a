//! `explain`: how a command would be run, and what running it costs.
//!
//! Writes are explained by their reads: nothing is changed.
//!
//! Source: MongoDB manual, "explain" (database command), "Explain Results".

use super::build_info::MONGODB_VERSION;
use super::count::CountRequest;
use super::distinct::DistinctRequest;
use super::find::FindRequest;
use super::host_info::host_name;
use super::{Command, OnSecondary, Run};
use crate::aggregation::views::{ViewFind, is_view};
use crate::aggregation::{AggregateRequest, AggregateTarget, check_strictly, explain_aggregate};
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use crate::exec::{Executor, Query, StatementFilter, Verdict, environment, execution_stats, run_all};
use crate::fields::Fields;
use crate::generic::GenericArguments;
use crate::parameters::Parameter;
use crate::server::ServiceContext;
use crate::write::{DeleteStatement, Selection, UpdateStatement};
use dispatch::concern::ReadConcerns;
use document::{Document, DocumentBuilder, RawArray, RawDocument, RawValue, Value, doc};
use query::plan::{ExplainOptions, Plan, ProjectionKind};
use query::projection::Projection;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    read_concerns: ReadConcerns::All,
    api_version_1: true,
    ..Command::new(
        "explain",
        "Tells how a command would be run.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Verbosity {
    QueryPlanner,
    ExecutionStats,
    AllPlansExecution,
}

/// A command that was understood as a query.
struct Explained {
    query: Query,
    /// `None`: the planner decides.
    plan: Option<Plan>,
    options: ExplainOptions,
    /// The stage that a write puts on top.
    write_stage: Option<&'static str>,
}

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let RawValue::Document(command) = context.fields.target() else {
        return Err(context.fields.wrong_type("explain", context.fields.target().kind(), &["object"]));
    };
    let verbosity = match context.fields.string("verbosity")? {
        None | Some("allPlansExecution") => Verbosity::AllPlansExecution,
        Some("queryPlanner") => Verbosity::QueryPlanner,
        Some("executionStats") => Verbosity::ExecutionStats,
        Some(_) => {
            return Err(CommandError::failed_to_parse(
                "verbosity string must be one of {'queryPlanner', 'executionStats', 'allPlansExecution'}",
            ));
        }
    };
    context.fields.finish()?;
    let mut fields = nested_fields(context.server, command)?;
    let name = command.first().expect("an explained command was looked at").name();
    if name == "aggregate" {
        let target = AggregateTarget::parse(&fields)?;
        let request = AggregateRequest::parse(&mut fields, true)?;
        check_strictly(request.pipeline, &context.generic)?;
        reply.append_fields(&explain_aggregate(context, target, &request)?);
    } else {
        explain_query(context, name, &mut fields, verbosity, reply).await?;
    }
    append_surroundings(context, command, reply);
    Ok(())
}

/// The fields of the explained command, without what every command has.
fn nested_fields<'a>(server: &ServiceContext, command: RawDocument<'a>) -> CommandResult<Fields<'a>> {
    let Some(first) = command.first() else {
        return Err(CommandError::failed_to_parse("explain command requires a nested object"));
    };
    let name = server.commands().get(first.name_bytes()).map_or("explain", |entry| entry.name);
    let mut fields = Fields::new(name, first.value());
    let mut generic = GenericArguments::default();
    for element in command.iter().skip(1) {
        if !generic.take(name, element)? {
            fields.add(element)?;
        }
    }
    Ok(fields)
}

async fn explain_query(
    context: &CommandContext<'_>,
    command: &str,
    fields: &mut Fields<'_>,
    verbosity: Verbosity,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let known = ["find", "count", "distinct", "update", "delete", "findAndModify", "findandmodify"];
    if !known.contains(&command) {
        let message = format!("Explain failed due to unknown command: {command}");
        return Err(CommandError::new(code::COMMAND_NOT_FOUND, message));
    }
    let collection_name = fields.collection_name()?;
    context.operation.set_namespace(context.database, collection_name);
    let catalog = &context.server.node.catalog;
    if is_view(catalog, context.database, collection_name) {
        return explain_view(context, command, collection_name, fields, reply);
    }
    let collection = catalog.collection(context.database, collection_name);
    let definition = collection.as_ref().map(|collection| collection.definition_for(context.source));
    let explained = understand(context, command, fields, definition.as_deref())?;
    let Explained { query, plan, options, write_stage } = explained;
    let plan = match (plan, &definition) {
        (Some(plan), _) => Some(plan),
        (None, Some(definition)) => Some(query.plan(definition)?),
        (None, None) => None,
    };
    let eof = || doc! { "stage": "EOF" };
    let mut winning = plan.as_ref().map_or_else(eof, |plan| query::plan::explain(plan, &options));
    if let Some(stage) = write_stage {
        winning = doc! { "stage": stage, "inputStage": winning };
    }
    reply.append("explainVersion", "1");
    let namespace = format!("{}.{collection_name}", context.database);
    reply.append_value("queryPlanner", &planner(&namespace, &query, &winning, &options).into());
    if verbosity == Verbosity::QueryPlanner {
        return Ok(());
    }
    let began = ambient::now();
    let mut executor = None;
    if let (Some(collection), Some(plan)) = (&collection, plan) {
        let executor = executor.insert(Executor::with_plan(context.source, collection, query, plan)?);
        run_all(executor, context.scheduling(), |_| Ok(Verdict::Take)).await?;
    }
    let time_ms = i64::try_from(ambient::elapsed(began).as_millis()).unwrap_or(i64::MAX);
    let counts_only = options.count || write_stage.is_some();
    let mut statistics = execution_stats(&winning, executor.as_ref(), counts_only, time_ms);
    if verbosity == Verbosity::AllPlansExecution {
        statistics.push("allPlansExecution", Vec::<Value>::new());
    }
    reply.append_value("executionStats", &statistics.into());
    Ok(())
}

/// Reads the explained command as a query.
fn understand(
    context: &CommandContext<'_>,
    command: &str,
    fields: &mut Fields<'_>,
    definition: Option<&catalog::CollectionDefinition>,
) -> CommandResult<Explained> {
    match command {
        "find" => of_find(context, fields),
        "count" => {
            let request = CountRequest::take(fields)?;
            let query = request.query(context.server, &environment(context.server, None)?)?;
            let options = ExplainOptions { count: true, ..window(&query) };
            Ok(Explained { query, plan: None, options, write_stage: None })
        }
        "distinct" => {
            let request = DistinctRequest::take(fields)?;
            let environment = environment(context.server, None)?;
            let (query, plan) = match definition {
                Some(definition) => {
                    let planned = request.query(context.server, definition, &environment);
                    planned.map(|(query, plan)| (query, Some(plan)))?
                }
                None => (Query::default(), None),
            };
            Ok(Explained { query, plan, options: ExplainOptions::default(), write_stage: None })
        }
        "update" => of_statement(context, fields, "updates", "UPDATE"),
        "delete" => of_statement(context, fields, "deletes", "DELETE"),
        _ => of_find_and_modify(context, fields),
    }
}

fn of_find(context: &CommandContext<'_>, fields: &mut Fields<'_>) -> CommandResult<Explained> {
    let request = FindRequest::take(fields)?;
    let environment = environment(context.server, request.variables)?;
    let (query, _) = request.query(context, &environment)?;
    let mut options = window(&query);
    if !request.projection.is_empty() {
        let projection = Projection::parse(request.projection, &environment)?;
        let kind = if projection.is_simple() { ProjectionKind::Simple } else { ProjectionKind::Default };
        options.projection = Some((request.projection.to_document(), kind));
    }
    Ok(Explained { query, plan: None, options, write_stage: None })
}

/// The first statement of an update or delete; more than one cannot be explained.
fn of_statement(
    context: &CommandContext<'_>,
    fields: &mut Fields<'_>,
    list: &'static str,
    stage: &'static str,
) -> CommandResult<Explained> {
    let environment = environment(context.server, fields.document("let")?)?;
    let statements = fields.array(list)?.ok_or_else(|| fields.missing(list))?;
    fields.ignore(&["ordered", "bypassDocumentValidation"]);
    fields.finish()?;
    let statement = only_statement(statements)?;
    let (selection, one) = match stage {
        "DELETE" => {
            let statement = DeleteStatement::parse(statement)?;
            (statement.selection, statement.one)
        }
        _ => {
            let statement = UpdateStatement::parse(statement)?;
            (statement.selection, !statement.multi)
        }
    };
    of_filter(context, &selection.compile(&environment)?, one, stage)
}

fn only_statement(statements: RawArray<'_>) -> CommandResult<RawDocument<'_>> {
    let mut statements = statements.iter();
    match (statements.next(), statements.next()) {
        (Some(RawValue::Document(statement)), None) => Ok(statement),
        _ => Err(CommandError::invalid_options("explained write batches must be of size 1")),
    }
}

fn of_find_and_modify(context: &CommandContext<'_>, fields: &mut Fields<'_>) -> CommandResult<Explained> {
    let environment = environment(context.server, fields.document("let")?)?;
    let filter = fields.document("query")?.unwrap_or_default();
    let sort = fields.document("sort")?;
    let selection = Selection::take(fields, filter, sort)?;
    let removes = fields.flexible_boolean("remove")?.unwrap_or(false);
    let known =
        ["update", "new", "fields", "projection", "upsert", "arrayFilters", "bypassDocumentValidation"];
    fields.ignore(&known);
    fields.finish()?;
    of_filter(context, &selection.compile(&environment)?, true, if removes { "DELETE" } else { "UPDATE" })
}

fn of_filter(
    context: &CommandContext<'_>,
    filter: &StatementFilter<'_>,
    one: bool,
    stage: &'static str,
) -> CommandResult<Explained> {
    let query = Query { limit: one.then_some(1), ..filter.query(context)? };
    let options = ExplainOptions { limit: None, ..window(&query) };
    Ok(Explained { query, plan: None, options, write_stage: Some(stage) })
}

/// What stands above the plan: sort, skip, limit.
fn window(query: &Query) -> ExplainOptions {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let sort = &query.sort;
    ExplainOptions {
        sort: (!sort.is_empty()).then(|| sort.to_spec().as_raw().to_document()),
        sort_memory_bytes: i64::try_from(query.sort_memory_bytes).unwrap_or(i64::MAX),
        skip: Some(number(query.skip)),
        limit: query.limit.map(number),
        ..ExplainOptions::default()
    }
}

/// A query on a view is an aggregation.
fn explain_view(
    context: &CommandContext<'_>,
    command: &str,
    name: &str,
    fields: &mut Fields<'_>,
    reply: &mut DocumentBuilder<'_>,
) -> CommandResult {
    let stages = match command {
        "find" => {
            let request = FindRequest::take(fields)?;
            ViewFind {
                filter: request.filter,
                projection: request.projection,
                sort: request.sort,
                skip: request.skip,
                limit: request.limit.unwrap_or(0),
                ..ViewFind::default()
            }
            .stages()?
        }
        "count" => {
            let request = CountRequest::take(fields)?;
            let (skip, limit) = (request.skip, request.limit.unwrap_or(0));
            ViewFind { filter: request.filter, skip, limit, ..ViewFind::default() }.stages()?
        }
        "distinct" => {
            let request = DistinctRequest::take(fields)?;
            ViewFind { filter: request.filter, ..ViewFind::default() }.stages()?
        }
        _ => {
            let message = format!("Namespace {}.{name} is a view, not a collection", context.database);
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED_ON_VIEW, message));
        }
    };
    let stages = stages.iter().map(|stage| Value::Document(stage.as_raw().to_document()));
    let pipeline = doc! { "pipeline": (stages.collect::<Vec<_>>()) }.to_buf();
    let mut fields = Fields::nested("aggregate", pipeline.as_raw())?;
    let request = AggregateRequest::parse(&mut fields, true)?;
    let target = AggregateTarget::Collection(name);
    reply.append_fields(&explain_aggregate(context, target, &request)?);
    Ok(())
}

fn planner(namespace: &str, query: &Query, winning: &Document, options: &ExplainOptions) -> Document {
    let parsed = query.matcher.to_document();
    let mut shape = Vec::new();
    write_shape(&parsed, &mut shape);
    if let Some(sort) = &options.sort {
        shape.extend_from_slice(sort.to_buf().as_bytes());
    }
    if let Some((projection, _)) = &options.projection {
        shape.extend_from_slice(projection.to_buf().as_bytes());
    }
    let query_hash = hexadecimal(&shape);
    shape.extend_from_slice(namespace.as_bytes());
    doc! {
        "namespace": namespace,
        "indexFilterSet": false,
        "parsedQuery": parsed,
        "queryHash": query_hash,
        "planCacheKey": (hexadecimal(&shape)),
        "maxIndexedOrSolutionsReached": false,
        "maxIndexedAndSolutionsReached": false,
        "maxScansToExplodeReached": false,
        "winningPlan": (winning.clone()),
        "rejectedPlans": [],
    }
}

/// The names of fields and operators without the values: what queries of one shape have in common.
fn write_shape(document: &Document, shape: &mut Vec<u8>) {
    for (name, value) in document.iter() {
        shape.extend_from_slice(name.as_bytes());
        shape.push(0);
        match value {
            Value::Document(inner) => write_shape(inner, shape),
            Value::Array(branches) if matches!(name, "$and" | "$or" | "$nor") => {
                for branch in branches {
                    if let Value::Document(branch) = branch {
                        write_shape(branch, shape);
                    }
                }
            }
            _ => {}
        }
        shape.push(1);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    format!("{:08X}", document::key::stable_hash(bytes) as u32)
}

/// What every explanation ends with: the command, the server, its parameters.
fn append_surroundings(
    context: &CommandContext<'_>,
    command: RawDocument<'_>,
    reply: &mut DocumentBuilder<'_>,
) {
    let mut shown = reply.start_document("command");
    shown.append_all(command);
    if !command.contains("$db") {
        shown.append("$db", context.database);
    }
    shown.finish();
    let port = context.server.parameters.integer(Parameter::Port);
    let mut server = reply.start_document("serverInfo");
    server.append("host", host_name().as_str()).append("port", i32::try_from(port).unwrap_or(0));
    server.append("version", MONGODB_VERSION).append("gitVersion", env!("CARGO_PKG_VERSION"));
    server.finish();
    let mut parameters = reply.start_document("serverParameters");
    let memory = context.server.parameters.integer(Parameter::SortMemory);
    parameters.append("internalQueryMaxBlockingSortMemoryUsageBytes", memory);
}
