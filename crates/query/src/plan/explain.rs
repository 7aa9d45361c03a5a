//! Plans written out as MongoDB's `explain` writes them.

use document::{Document, Value, doc};

use super::{Access, FieldOrder, IndexBounds, IndexScan, Intervals, Plan, ScanDirection, bounds_text};
use crate::matcher::Matcher;

/// How a projection is carried out, for its stage's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectionKind {
    /// Top-level inclusions or exclusions only.
    Simple,
    /// Anything else.
    Default,
}

/// What happens to documents after the plan has found them.
#[derive(Debug, Clone, Default)]
pub struct ExplainOptions {
    /// The sort pattern.
    pub sort: Option<Document>,
    /// Bytes that a sort in memory may take.
    pub sort_memory_bytes: i64,
    /// The projection.
    pub projection: Option<(Document, ProjectionKind)>,
    /// Documents to skip.
    pub skip: Option<i64>,
    /// Documents to return at most.
    pub limit: Option<i64>,
    /// The command is a count.
    pub count: bool,
}

/// The `winningPlan` of a plan.
pub fn explain(plan: &Plan, options: &ExplainOptions) -> Document {
    let mut stage = access_stage(plan, options);
    if let Some(pattern) = options.sort.as_ref().filter(|_| !plan.sort_provided) {
        stage = sort_stage(pattern, options, stage);
    }
    if let Some(skip) = options.skip.filter(|skip| *skip > 0) {
        stage = doc! { "stage": "SKIP", "skipAmount": skip, "inputStage": stage };
    }
    if let Some((pattern, kind)) = &options.projection {
        let name = match kind {
            _ if plan.is_covered() => "PROJECTION_COVERED",
            ProjectionKind::Simple => "PROJECTION_SIMPLE",
            ProjectionKind::Default => "PROJECTION_DEFAULT",
        };
        stage = doc! { "stage": name, "transformBy": pattern.clone(), "inputStage": stage };
    }
    if let Some(limit) = options.limit.filter(|limit| *limit > 0) {
        stage = doc! { "stage": "LIMIT", "limitAmount": limit, "inputStage": stage };
    }
    if options.count && !matches!(&plan.access, Access::IndexScan(scan) if scan.covered) {
        stage = doc! { "stage": "COUNT", "inputStage": stage };
    }
    stage
}

fn sort_stage(pattern: &Document, options: &ExplainOptions, input: Document) -> Document {
    let mut stage = doc! {
        "stage": "SORT",
        "sortPattern": pattern.clone(),
        "memLimit": options.sort_memory_bytes,
    };
    if let Some(limit) = options.limit.filter(|limit| *limit > 0) {
        stage.push("limitAmount", limit + options.skip.unwrap_or_default());
    }
    stage.push("type", "simple");
    stage.push("inputStage", input);
    stage
}

fn access_stage(plan: &Plan, options: &ExplainOptions) -> Document {
    let residual = plan.residual.as_ref();
    match &plan.access {
        Access::Empty => doc! { "stage": "EOF" },
        Access::IdLookup { .. } | Access::CollectionScan { .. } => collection_stage(&plan.access, residual),
        Access::IndexScan(scan) if scan.covered => {
            let name = match (options.count, scan.distinct_fields) {
                (true, _) => "COUNT_SCAN",
                (_, Some(_)) => "DISTINCT_SCAN",
                _ => "IXSCAN",
            };
            index_stage(scan, name)
        }
        Access::IndexScan(scan) => fetch(residual, index_stage(scan, "IXSCAN")),
        Access::Union(branches) => {
            let inputs = branches.iter().map(|branch| Value::Document(branch_stage(branch))).collect();
            fetch(residual, doc! { "stage": "OR", "inputStages": Value::Array(inputs) })
        }
    }
}

fn fetch(residual: Option<&Matcher>, input: Document) -> Document {
    let mut stage = doc! { "stage": "FETCH" };
    push_filter(&mut stage, residual);
    stage.push("inputStage", input);
    stage
}

fn push_filter(stage: &mut Document, residual: Option<&Matcher>) {
    if let Some(filter) = residual {
        stage.push("filter", filter.to_document());
    }
}

fn branch_stage(access: &Access) -> Document {
    match access {
        Access::IndexScan(scan) => index_stage(scan, "IXSCAN"),
        other => collection_stage(other, None),
    }
}

/// The stages that read the collection itself.
fn collection_stage(access: &Access, residual: Option<&Matcher>) -> Document {
    match access {
        Access::IdLookup { .. } => {
            let mut stage = doc! { "stage": "IDHACK" };
            push_filter(&mut stage, residual);
            stage
        }
        Access::CollectionScan { direction, ids: None } => {
            let mut stage = doc! { "stage": "COLLSCAN" };
            push_filter(&mut stage, residual);
            stage.push("direction", direction.name());
            stage
        }
        Access::CollectionScan { direction, ids: Some(ids) } => {
            let mut stage = doc! { "stage": "CLUSTERED_IXSCAN" };
            push_filter(&mut stage, residual);
            stage.push("keyPattern", doc! { "_id": 1 });
            stage.push("indexName", "_id_");
            stage.push("direction", direction.name());
            stage.push("indexBounds", doc! { "_id": interval_texts(ids) });
            stage
        }
        Access::Empty | Access::IndexScan(_) | Access::Union(_) => doc! { "stage": "EOF" },
    }
}

fn index_stage(scan: &IndexScan, name: &str) -> Document {
    let index = &scan.index;
    let multikey_paths: Document = index
        .fields
        .iter()
        .map(|field| {
            let paths = field
                .multikey
                .iter()
                .map(|components| Value::String(ancestor(field.path.dotted(), *components)));
            (field.path.dotted(), Value::Array(paths.collect()))
        })
        .collect();
    doc! {
        "stage": name,
        "keyPattern": index.key_pattern(),
        "indexName": index.name.as_str(),
        "isMultiKey": index.is_multikey(),
        "multiKeyPaths": multikey_paths,
        "isUnique": index.unique,
        "isSparse": index.sparse,
        "isPartial": index.partial.is_some(),
        "indexVersion": 2,
        "direction": scan.direction.name(),
        "indexBounds": bounds_document(scan),
    }
}

/// The first components of a path.
fn ancestor(path: &str, components: usize) -> String {
    path.split('.').take(components).collect::<Vec<_>>().join(".")
}

fn interval_texts(intervals: &Intervals) -> Value {
    Value::Array(
        intervals.as_slice().iter().map(|interval| Value::String(bounds_text::interval(interval))).collect(),
    )
}

/// The intervals as a scan from high to low values meets them.
fn falling_texts(intervals: &Intervals) -> Value {
    let texts = intervals.as_slice().iter().rev().map(bounds_text::falling_interval);
    Value::Array(texts.map(Value::String).collect())
}

fn bounds_document(scan: &IndexScan) -> Document {
    match &scan.bounds {
        IndexBounds::Fields(bounds) => scan
            .index
            .fields
            .iter()
            .zip(bounds)
            .map(|(field, intervals)| {
                let falling =
                    (field.order == FieldOrder::Descending) != (scan.direction == ScanDirection::Backward);
                let texts = if falling { falling_texts(intervals) } else { interval_texts(intervals) };
                (field.path.dotted(), texts)
            })
            .collect(),
        IndexBounds::Keys { from, to } => {
            let key = |values: &Option<Vec<Value>>| -> Document {
                let names = scan.index.fields.iter().map(|field| field.path.dotted());
                names.zip(values.iter().flatten().cloned()).collect()
            };
            doc! {
                "startKey": key(from), "startKeyInclusive": true, "endKey": key(to), "endKeyInclusive": false
            }
        }
    }
}
