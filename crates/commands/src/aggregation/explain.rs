//! `explain` of a pipeline: how its front is read, and the stages behind.

use super::reader::needs;
use super::{AggregateRequest, AggregateTarget, Reader, views};
use crate::context::CommandContext;
use crate::error::CommandResult;
use crate::exec::environment;
use crate::server::ServiceContext;
use document::{Document, DocumentBuf, RawDocument, RawValue, Value, doc};
use query::aggregate::{Leading, Pipeline, PipelineSource};
use query::matcher::Matcher;
use query::plan::{ExplainOptions, explain};
use std::sync::Arc;

/// `{stages: [{$cursor: {queryPlanner}}, …]}`, or a plain `{queryPlanner}` when reading the collection does
/// everything.
///
/// # Errors
/// What parsing and planning raise.
pub(crate) fn explain_aggregate(
    context: &CommandContext<'_>,
    target: AggregateTarget<'_>,
    request: &AggregateRequest<'_>,
) -> CommandResult<Document> {
    let (server, database) = (context.server, context.database);
    let environment = Arc::new(environment(server, request.variables)?);
    let (collection, stages) = target.stages(server, database, request)?;
    let mut pipeline = Pipeline::parse_documents(&stages, &environment)?;
    target.check(database, &pipeline)?;
    if *pipeline.source() != PipelineSource::Collection {
        return Ok(doc! { "explainVersion": "1", "stages": (shown(&stages)) });
    }
    let leading = pipeline.take_leading();
    let reader = Reader::new(context, &server.node.newest, request.allow_disk_use);
    let matcher = Matcher::parse(leading.filter.as_raw(), &environment)?;
    let mut query = reader.query(&leading, needs(&pipeline), request.hint.clone(), matcher);
    query.moment_ms = Some(environment.now_ms);
    let winning = match server.node.catalog.collection(database, &collection) {
        None => doc! { "stage": "EOF" },
        Some(found) => {
            let plan = query.plan(&found.definition())?;
            explain(&plan, &options(&leading, query.sort_memory_bytes))
        }
    };
    let planner = doc! {
        "namespace": (format!("{database}.{collection}")), "parsedQuery": (query.matcher.to_document()),
        "indexFilterSet": false, "winningPlan": winning, "rejectedPlans": [],
    };
    if pipeline.is_empty() && !pipeline.writes() {
        return Ok(doc! { "explainVersion": "1", "queryPlanner": planner });
    }
    let mut behind: Vec<Value> = vec![doc! { "$cursor": { "queryPlanner": planner } }.into()];
    behind.extend(shown(stages.get(leading.written_stages..).unwrap_or_default()));
    Ok(doc! { "explainVersion": "1", "stages": behind })
}

fn shown(stages: &[DocumentBuf]) -> Vec<Value> {
    stages.iter().map(|stage| Value::Document(stage.as_raw().to_document())).collect()
}

fn options(leading: &Leading, sort_memory_bytes: usize) -> ExplainOptions {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    ExplainOptions {
        sort: leading.sort.as_ref().map(|sort| sort.to_spec().as_raw().to_document()),
        sort_memory_bytes: i64::try_from(sort_memory_bytes).unwrap_or(i64::MAX),
        skip: Some(number(leading.skip)),
        limit: leading.limit.map(number),
        ..ExplainOptions::default()
    }
}

impl AggregateTarget<'_> {
    /// The collection that is read in the end, and all stages, those of views first.
    ///
    /// # Errors
    /// `TypeMismatch` for stages that are no documents, `ViewDepthLimitExceeded`.
    pub(crate) fn stages(
        &self,
        server: &ServiceContext,
        database: &str,
        request: &AggregateRequest<'_>,
    ) -> CommandResult<(String, Vec<DocumentBuf>)> {
        let (collection, mut stages) = match self {
            AggregateTarget::Database => (String::new(), Vec::new()),
            // It reports of the view itself.
            AggregateTarget::Collection(name) if begins_with(request, "$collStats") => {
                ((*name).to_owned(), Vec::new())
            }
            AggregateTarget::Collection(name) => {
                let resolved = views::resolve(&server.node.catalog, database, name)?;
                (resolved.collection, resolved.stages)
            }
        };
        for stage in request.pipeline.iter() {
            let RawValue::Document(stage) = stage else {
                return Err(crate::error::CommandError::type_mismatch(
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            stages.push(stage.to_buf());
        }
        Ok((collection, stages))
    }
}

/// Whether this is the name of the first stage.
fn begins_with(request: &AggregateRequest<'_>, stage: &str) -> bool {
    let first = request.pipeline.iter().next().and_then(RawValue::as_document);
    first.and_then(RawDocument::first).is_some_and(|element| element.name() == stage)
}
