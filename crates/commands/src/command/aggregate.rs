//! `aggregate`: runs a pipeline.

use super::{Command, Execution, OnSecondary, Run, TimeLimit};
use crate::aggregation::{
    AggregateRequest, AggregateTarget, Origin, Reader, RunningPipeline, check_strictly, explain_aggregate,
    give_first_batch, merge, out, pipeline_failed, refuse_database, report_documents,
};
use crate::calendar::{WorkKind, await_window};
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::error::CommandResult;
use crate::exec::{await_memory, environment};
use catalog::OperationContext;
use dispatch::concern::ReadConcerns;
use document::{DocumentBuilder, RawDocument, RawValue};
use query::Environment;
use query::aggregate::{OutputStage, Pipeline, PipelineSource};
use std::sync::Arc;

pub(crate) static COMMAND: Command = Command {
    on_secondary: OnSecondary::IfAllowed,
    read_concerns: ReadConcerns::All,
    api_version_1: true,
    unstable_fields: &["explain"],
    latency_class: Some(OperationClass::Query),
    time_limit: TimeLimit::GivenOrDefault,
    execution_of: Some(execution_of),
    takes_write_concern: true,
    ..Command::new(
        "aggregate",
        "Runs an aggregation pipeline.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

fn execution_of(body: RawDocument<'_>) -> Execution {
    if reports_operations(body) { Execution::DiagnosticPool } else { Execution::BriefPool }
}

/// What shells send for `db.currentOp()`: the report, and stages that only shape it.
fn reports_operations(body: RawDocument<'_>) -> bool {
    const SHAPING: [&str; 8] =
        ["$match", "$project", "$addFields", "$set", "$unset", "$sort", "$limit", "$count"];
    let target = body.first().map(|first| first.value());
    let (true, Some(RawValue::Array(pipeline))) =
        (target.is_some_and(RawValue::is_number), body.get("pipeline"))
    else {
        return false;
    };
    let mut stages = pipeline.iter().map(|stage| stage.as_document().and_then(RawDocument::first));
    stages.next().flatten().is_some_and(|stage| stage.name() == "$currentOp")
        && stages.all(|stage| stage.is_some_and(|stage| SHAPING.contains(&stage.name())))
}

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let target = AggregateTarget::parse(&context.fields)?;
    match target {
        AggregateTarget::Collection(_) => {
            let (_, name) = context.collection_namespace()?;
            context.check_name(name)?;
        }
        AggregateTarget::Database => context.operation.set_namespace(context.database, "$cmd.aggregate"),
    }
    let request = AggregateRequest::parse(&mut context.fields, false)?;
    check_strictly(request.pipeline, &context.generic)?;
    if request.explain {
        context.offload().await;
        reply.append_fields(&explain_aggregate(context, target, &request)?);
        return Ok(());
    }
    let mut parsed = parse(context, target, &request).await?;
    // What cannot be run is told at once. `$$NOW` and views are those of when it begins.
    // In boxes: few pipelines come here, and all have room for what is in theirs.
    if parsed.pipeline.output().is_some() && Box::pin(await_window(context, WorkKind::Out)).await? {
        parsed = Box::pin(parse(context, target, &request)).await?;
    }
    let ParsedAggregate { pipeline, collection, environment } = parsed;
    await_memory(context).await?;
    let output = pipeline.output().cloned();
    let mut running = open(context, target, &request, pipeline, &collection, &environment)?;
    let namespace = target.namespace(context.database);
    match &output {
        Some(output) => {
            let written = write(context, &request, &mut running, output, &environment).await;
            written.map_err(pipeline_failed)?;
            let mut cursor = reply.start_document("cursor");
            cursor.start_array("firstBatch").finish();
            cursor.append("id", 0_i64).append("ns", namespace.as_str());
            Ok(())
        }
        None => give_first_batch(context, reply, &namespace, running, request.batch_size, false).await,
    }
}

/// A pipeline that can be run.
struct ParsedAggregate {
    pipeline: Pipeline,
    /// What it reads from.
    collection: String,
    environment: Arc<Environment>,
}

async fn parse(
    context: &CommandContext<'_>,
    target: AggregateTarget<'_>,
    request: &AggregateRequest<'_>,
) -> CommandResult<ParsedAggregate> {
    let environment = Arc::new(environment(context.server, request.variables)?);
    let (collection, stages) = target.stages(context.server, context.database, request)?;
    let parse = || Ok(Pipeline::parse_documents(&stages, &environment)?);
    let pipeline = context.scheduling().compute(parse).await?;
    check(context, target, &pipeline)?;
    Ok(ParsedAggregate { pipeline, collection, environment })
}

fn check(context: &CommandContext<'_>, target: AggregateTarget<'_>, pipeline: &Pipeline) -> CommandResult {
    target.check(context.database, pipeline)?;
    let foreign = pipeline.foreign_collections();
    match foreign.iter().find_map(|(database, collection)| Some((database.as_ref()?, collection))) {
        Some((database, collection)) => Err(refuse_database("$lookup", database, collection)),
        None => Ok(()),
    }
}

fn open(
    context: &CommandContext<'_>,
    target: AggregateTarget<'_>,
    request: &AggregateRequest<'_>,
    pipeline: Pipeline,
    collection: &str,
    environment: &Arc<Environment>,
) -> CommandResult<RunningPipeline> {
    let reader = Reader::new(context, context.source, request.allow_disk_use);
    let origin = match pipeline.source() {
        PipelineSource::Collection => Origin::Collection(collection),
        PipelineSource::Documents(documents) => Origin::Documents(Arc::clone(documents)),
        PipelineSource::Report { name, operand } => {
            Origin::Documents(Arc::new(report_documents(context, target, name, operand)?))
        }
    };
    let top = reader.open(pipeline, origin, request.hint.clone(), environment)?;
    Ok(RunningPipeline::new(top, reader.source()))
}

/// Runs the pipeline to its end, into a collection.
async fn write(
    context: &CommandContext<'_>,
    request: &AggregateRequest<'_>,
    running: &mut RunningPipeline,
    output: &OutputStage,
    environment: &Environment,
) -> CommandResult {
    let writing = OperationContext { bypass_validation: request.bypass_validation, ..context.writing() };
    match output {
        OutputStage::Out(destination) => {
            out(context, running, destination, (&writing, request.timestamps)).await
        }
        OutputStage::Merge { .. } => {
            merge(context, running, output, environment, (&writing, request.timestamps)).await
        }
    }
}
