//! Views: stored pipelines that read commands run in front of what they ask for.

use super::{Origin, Reader, RunningPipeline, give_first_batch, pipeline_failed};
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use crate::exec::{Located, Slices, Verdict, run_all};
use catalog::{Catalog, CatalogEntry};
use document::{Document, DocumentBuf, DocumentBuilder, RawDocument, RawValue, Value, doc};
use query::Environment;
use query::aggregate::Pipeline;
use query::plan::Hint;
use std::sync::Arc;

/// Views on views, at most.
const VIEW_DEPTH_MAX: usize = 20;

/// What a name stands for in the end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resolved {
    /// The collection, which need not exist.
    pub(crate) collection: String,
    /// The stages of all views on the way, innermost first.
    pub(crate) stages: Vec<DocumentBuf>,
    /// How many views there were.
    depth: usize,
}

impl Resolved {
    /// Whether the name is a view's.
    pub(crate) const fn is_view(&self) -> bool {
        self.depth > 0
    }
}

/// Follows views down to a collection.
///
/// # Errors
/// `ViewDepthLimitExceeded`.
pub(crate) fn resolve(catalog: &Catalog, database: &str, name: &str) -> CommandResult<Resolved> {
    let state = catalog.state();
    let mut resolved = Resolved { collection: name.to_owned(), stages: Vec::new(), depth: 0 };
    while let Some(CatalogEntry::View(definition)) = state.get(database, &resolved.collection) {
        let view = definition.options.view.as_ref().expect("a view's definition has a source");
        if resolved.depth == VIEW_DEPTH_MAX {
            let message =
                format!("View depth too deep or view cycle detected; maximum depth is {VIEW_DEPTH_MAX}");
            return Err(CommandError::new(wire::ErrorCode::ViewDepthLimitExceeded as i32, message));
        }
        resolved.depth += 1;
        resolved.collection = view.view_on.clone();
        resolved.stages.splice(0..0, view.pipeline.iter().cloned());
    }
    Ok(resolved)
}

/// What `find` asks of a view.
#[derive(Debug, Default)]
pub(crate) struct ViewFind<'a> {
    pub(crate) filter: RawDocument<'a>,
    pub(crate) projection: RawDocument<'a>,
    pub(crate) sort: RawDocument<'a>,
    pub(crate) skip: u64,
    /// Zero means none.
    pub(crate) limit: u64,
    pub(crate) batch_size: Option<usize>,
    pub(crate) single_batch: bool,
    pub(crate) allow_disk_use: bool,
    pub(crate) hint: Option<Hint>,
}

impl ViewFind<'_> {
    /// The question as stages.
    ///
    /// # Errors
    /// `OptionNotSupportedOnView` and 168 for projections that only collections know.
    pub(crate) fn stages(&self) -> CommandResult<Vec<DocumentBuf>> {
        let mut stages = Vec::new();
        let count = |number: u64| Value::Int64(i64::try_from(number).unwrap_or(i64::MAX));
        push(&mut stages, "$match", self.filter);
        let natural = self.sort.first().is_some_and(|field| field.name_bytes() == b"$natural");
        if !natural {
            push(&mut stages, "$sort", self.sort);
        }
        if self.skip > 0 {
            stages.push(doc! { "$skip": (count(self.skip)) });
        }
        if self.limit > 0 {
            stages.push(doc! { "$limit": (count(self.limit)) });
        }
        check_projection(self.projection)?;
        push(&mut stages, "$project", self.projection);
        Ok(stages.iter().map(Document::to_buf).collect())
    }
}

fn push(stages: &mut Vec<Document>, name: &str, operand: RawDocument<'_>) {
    if !operand.is_empty() {
        let mut stage = Document::new();
        stage.push(name, operand.to_document());
        stages.push(stage);
    }
}

/// `$`, `$elemMatch`, `$slice` and `$meta` need what a view's pipeline does not keep.
fn check_projection(projection: RawDocument<'_>) -> CommandResult {
    /// `InvalidPipelineOperator`.
    const INVALID_PIPELINE_OPERATOR: i32 = 168;
    for field in projection {
        let positional = field.name().ends_with(".$");
        let operator = match field.value() {
            RawValue::Document(operand) => operand.first().map(|first| first.name()),
            _ => None,
        };
        let refused = operator.filter(|name| matches!(*name, "$elemMatch" | "$slice" | "$meta"));
        if let Some(name) = refused.or(positional.then_some("$")) {
            let message = format!("{name} is not supported in the projection of a find on a view");
            return Err(CommandError::new(INVALID_PIPELINE_OPERATOR, message));
        }
    }
    Ok(())
}

/// Opens the pipeline of a view with these stages behind it.
///
/// # Errors
/// What parsing and planning raise.
pub(crate) fn open_view(
    context: &CommandContext<'_>,
    name: &str,
    stages: Vec<DocumentBuf>,
    hint: Option<Hint>,
    environment: Environment,
    allow_disk_use: bool,
) -> CommandResult<RunningPipeline> {
    let resolved = resolve(&context.server.node.catalog, context.database, name)?;
    let mut all = resolved.stages;
    all.extend(stages);
    let environment = Arc::new(environment);
    let pipeline = Pipeline::parse_documents(&all, &environment)?;
    let reader = Reader::new(context, context.source, allow_disk_use);
    let top = reader.open(pipeline, Origin::Collection(&resolved.collection), hint, &environment)?;
    Ok(RunningPipeline::new(top, reader.source()))
}

/// `find` on a view: runs it and appends the reply's `cursor`.
///
/// # Errors
/// What the pipeline raises; projections that views do not know.
pub(crate) async fn find_on_view(
    context: &CommandContext<'_>,
    reply: &mut DocumentBuilder<'_>,
    name: &str,
    find: ViewFind<'_>,
    environment: Environment,
) -> CommandResult {
    let stages = find.stages()?;
    context.offload_briefly().await;
    let pipeline = open_view(context, name, stages, find.hint, environment, find.allow_disk_use)?;
    let namespace = format!("{}.{name}", context.database);
    give_first_batch(context, reply, &namespace, pipeline, find.batch_size, find.single_batch).await
}

/// `count` on a view. A `limit` of zero means none.
///
/// # Errors
/// What the pipeline raises.
pub(crate) async fn count_on_view(
    context: &CommandContext<'_>,
    name: &str,
    find: ViewFind<'_>,
    environment: Environment,
) -> CommandResult<u64> {
    let mut stages = find.stages()?;
    stages.push(doc! { "$count": "count" }.to_buf());
    context.offload_briefly().await;
    let mut pipeline = open_view(context, name, stages, find.hint, environment, true)?;
    let counted = pipeline.next(&mut Slices::new(context.scheduling())).await.map_err(pipeline_failed)?;
    let count = counted.and_then(|counted| counted.as_raw().get("count").and_then(RawValue::as_i64_exact));
    Ok(count.map_or(0, i64::unsigned_abs))
}

/// Shows `each` every document of a view that passes the filter: `distinct` collects its values so.
///
/// # Errors
/// What the pipeline and `each` raise.
pub(crate) async fn each_of_view(
    context: &CommandContext<'_>,
    name: &str,
    filter: RawDocument<'_>,
    environment: Environment,
    mut each: impl FnMut(RawDocument<'_>) -> CommandResult,
) -> CommandResult {
    let find = ViewFind { filter, ..ViewFind::default() };
    context.offload_briefly().await;
    let mut pipeline = open_view(context, name, find.stages()?, None, environment, true)?;
    let show = |located: Located<'_>| each(located.document).map(|()| Verdict::Take);
    let shown = run_all(&mut pipeline, context.scheduling(), show).await;
    shown.map(drop).map_err(pipeline_failed)
}

/// Whether this name is a view's.
pub(crate) fn is_view(catalog: &Catalog, database: &str, name: &str) -> bool {
    matches!(catalog.state().get(database, name), Some(CatalogEntry::View(_)))
}

/// An option that reads on views do not have.
pub(crate) fn refuse_option(option: &str) -> CommandError {
    CommandError::new(code::OPTION_NOT_SUPPORTED_ON_VIEW, format!("{option} is not supported on views"))
}
