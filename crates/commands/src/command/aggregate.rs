//! `aggregate`: runs a pipeline.

use super::current_op::reports_idle;
use super::{Command, Execution, Run, TimeLimit};
use crate::aggregation::{
    AggregateRequest, AggregateTarget, Origin, Reader, RunningPipeline, check_strictly, explain_aggregate,
    give_first_batch, merge, out, pipeline_failed, refuse_database, report_documents,
};
use crate::context::{CommandContext, OnDataNode};
use crate::counters::OperationClass;
use crate::error::CommandResult;
use crate::exec::environment;
use catalog::OperationContext;
use dispatch::command::CommandPlace;
use document::{DocumentBuilder, Element, RawDocument, RawValue};
use query::Environment;
use query::aggregate::{OutputStage, Pipeline, PipelineSource};
use std::sync::Arc;

pub(crate) static COMMAND: Command = Command {
    api_version_1: true,
    unstable_fields: &["explain"],
    latency_class: Some(OperationClass::Query),
    time_limit: TimeLimit::GivenOrDefault,
    place: Some(place),
    takes_write_concern: true,
    ..Command::new(
        "aggregate",
        "Runs an aggregation pipeline.",
        Run::Later(|context, reply| Box::pin(run(context, reply))),
    )
};

/// A report on the operations is a diagnostic one; what the client has computed from it may be too long for a
/// loop.
fn place(body: RawDocument<'_>) -> CommandPlace {
    let report = report_of_operations(body);
    let is_short = |report: &OperationsReport<'_>| !report.is_shaped && !reports_idle(report.operand);
    let execution = match report.as_ref().is_some_and(is_short) {
        true => Execution::Diagnostic,
        false => Execution::Pool,
    };
    CommandPlace { execution, on_lane: report.is_some() }
}

/// `$currentOp` in an aggregation.
struct OperationsReport<'a> {
    operand: RawDocument<'a>,
    /// Stages follow.
    is_shaped: bool,
}

/// What shells send for `db.currentOp()`, if this aggregation is that: the report and stages that only shape
/// it.
fn report_of_operations(body: RawDocument<'_>) -> Option<OperationsReport<'_>> {
    const SHAPING: [&str; 8] =
        ["$match", "$project", "$addFields", "$set", "$unset", "$sort", "$limit", "$count"];
    let target = body.first().map(|first| first.value());
    let (true, Some(RawValue::Array(pipeline))) =
        (target.is_some_and(RawValue::is_number), body.get("pipeline"))
    else {
        return None;
    };
    let mut stages = pipeline.iter().map(|stage| stage.as_document().and_then(RawDocument::first));
    let report = stages.next().flatten().filter(|stage| stage.name() == "$currentOp")?;
    let operand = report.value().as_document()?;
    let mut is_shaped = false;
    let shapes = |stage: Option<Element<'_>>| {
        is_shaped = true;
        stage.is_some_and(|stage| SHAPING.contains(&stage.name()))
    };
    stages.all(shapes).then_some(OperationsReport { operand, is_shaped })
}

async fn run(context: &mut CommandContext<'_>, reply: &mut DocumentBuilder<'_>) -> CommandResult {
    let target = AggregateTarget::parse(&context.fields)?;
    match target {
        AggregateTarget::Collection(_) => {
            context.collection_namespace()?;
        }
        AggregateTarget::Database => context.operation.set_namespace(context.database, "$cmd.aggregate"),
    }
    let request = AggregateRequest::parse(&mut context.fields, false)?;
    check_strictly(request.pipeline, &context.generic)?;
    if request.explain {
        reply.append_fields(&explain_aggregate(context.server, context.database, target, &request)?);
        return Ok(());
    }
    let environment = Arc::new(environment(context.server, request.variables)?);
    let (collection, stages) = target.stages(context.server, context.database, &request)?;
    let pipeline = Pipeline::parse_documents(&stages, &environment)?;
    check(context, target, &pipeline)?;
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
    let reader = Reader::new(context.server, context.source, context.database, request.allow_disk_use);
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
