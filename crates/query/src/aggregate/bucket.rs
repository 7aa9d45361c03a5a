//! `$bucket` and `$bucketAuto`.

use std::sync::Arc;

use document::{Document, DocumentBuf, RawDocument, RawValue, Value, doc, doc_buf, quote};

use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::expression::{Expression, ParseScope, Variables};
use crate::sort::SortPattern;

use super::accumulator::AccumulatorSpec;
use super::group::{Group, GroupSpec, default_output, parse_fields};
use super::{PipelineContext, Stage, StagePlan, Step};

/// A `$bucket` is a `$group` whose key is the lower boundary, sorted by it.
pub(super) fn parse(operand: RawValue<'_>, environment: &Environment) -> Result<Vec<StagePlan>, QueryError> {
    let RawValue::Document(spec) = operand else {
        return Err(QueryError::new(
            40201,
            format!(
                "Argument to $bucket stage must be an object, but found type: {}.",
                operand.kind().alias()
            ),
        ));
    };
    let scope = ParseScope::new(environment);
    let (mut group_by, mut boundaries, mut default, mut fields) = (None, None, None, None);
    for element in spec.iter() {
        match element.name() {
            "groupBy" => group_by = Some(checked_group_by(element.value(), 40202)?),
            "boundaries" => boundaries = Some(parse_boundaries(element.value(), &scope)?),
            "default" => {
                default = Some(constant(
                    element.value(),
                    &scope,
                    40195,
                    "The $bucket 'default' field must be a constant value",
                )?)
            }
            "output" => fields = Some(parse_output(element.value(), 40196, &scope)?),
            unknown => {
                return Err(QueryError::new(40197, format!("Unrecognized option to $bucket: {unknown}.")));
            }
        }
    }
    let (Some(group_by), Some(boundaries)) = (group_by, boundaries) else {
        return Err(QueryError::new(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified."));
    };
    check_default(default.as_ref(), &boundaries)?;
    let key = bucket_key(&group_by, &boundaries, default);
    let key = key.to_buf();
    let id = Expression::parse(RawValue::Document(key.as_raw()), &scope)?;
    let fields = fields.map_or_else(|| default_output(&scope), Ok)?;
    let pattern = SortPattern::parse(doc_buf! { "_id": 1 }.as_raw())?;
    Ok(vec![
        StagePlan::Group(Arc::new(GroupSpec::new(id, fields))),
        StagePlan::Sort { pattern: Arc::new(pattern), limit: None },
    ])
}

fn checked_group_by(operand: RawValue<'_>, code: i32) -> Result<Value, QueryError> {
    let expression = match operand {
        RawValue::String(text) => text.starts_with('$'),
        RawValue::Document(document) => document.first().is_some_and(|first| first.name().starts_with('$')),
        _ => false,
    };
    if expression {
        return Ok(operand.to_value());
    }
    Err(QueryError::new(
        code,
        format!(
            "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found: {}.",
            operand.quoted()
        ),
    ))
}

fn constant(
    operand: RawValue<'_>,
    scope: &ParseScope<'_>,
    code: i32,
    message: &str,
) -> Result<Value, QueryError> {
    let expression = Expression::parse(operand, scope)?;
    match expression.as_constant() {
        Some(value) => Ok(value.clone().unwrap_or_default()),
        None => {
            Err(QueryError::new(code, format!("{message}, but found: {}.", quote::operand(Some(operand)))))
        }
    }
}

fn parse_boundaries(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Vec<Value>, QueryError> {
    let RawValue::Array(items) = operand else {
        return Err(QueryError::new(
            40200,
            format!(
                "The $bucket 'boundaries' field must be an array, but found type: {}.",
                operand.kind().alias()
            ),
        ));
    };
    let boundaries = items
        .iter()
        .map(|item| {
            constant(item, scope, 40191, "The $bucket 'boundaries' field must be an array of constant values")
        })
        .collect::<Result<Vec<_>, _>>()?;
    if boundaries.len() < 2 {
        return Err(QueryError::new(
            40192,
            format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
                boundaries.len()
            ),
        ));
    }
    for neighbours in boundaries.windows(2) {
        let [low, high] = neighbours else { continue };
        if document::canonical_type(low.kind()) != document::canonical_type(high.kind()) {
            return Err(QueryError::new(
                40193,
                "All values in the the 'boundaries' option to $bucket must have the same type.",
            ));
        }
        if low.compare(high).is_ge() {
            return Err(QueryError::new(
                40194,
                "The 'boundaries' option to $bucket must be sorted in ascending order.",
            ));
        }
    }
    Ok(boundaries)
}

fn check_default(default: Option<&Value>, boundaries: &[Value]) -> Result<(), QueryError> {
    let (Some(default), Some(lowest), Some(highest)) = (default, boundaries.first(), boundaries.last())
    else {
        return Ok(());
    };
    if default.compare(lowest).is_ge() && default.compare(highest).is_lt() {
        return Err(QueryError::new(
            40199,
            "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary.",
        ));
    }
    Ok(())
}

/// `{$switch: …}` with a branch for each bucket.
fn bucket_key(group_by: &Value, boundaries: &[Value], default: Option<Value>) -> Document {
    let literal = |value: &Value| doc! { "$literal": value.clone() };
    let branches = boundaries.windows(2).filter_map(|neighbours| match neighbours {
        [low, high] => Some(Value::Document(doc! {
            "case": { "$and": [
                { "$gte": [group_by.clone(), literal(low)] },
                { "$lt": [group_by.clone(), literal(high)] },
            ] },
            "then": literal(low),
        })),
        _ => None,
    });
    let mut switch = doc! { "branches": branches.collect::<Vec<Value>>() };
    if let Some(default) = default {
        switch.push("default", literal(&default));
    }
    doc! { "$switch": switch }
}

fn parse_output(
    operand: RawValue<'_>,
    code: i32,
    scope: &ParseScope<'_>,
) -> Result<Vec<(String, AccumulatorSpec)>, QueryError> {
    let RawValue::Document(output) = operand else {
        return Err(QueryError::new(
            code,
            format!("The 'output' field must be an object, but found type: {}.", operand.kind().alias()),
        ));
    };
    parse_fields(output, scope)
}

/// A parsed `$bucketAuto`.
#[derive(Debug)]
pub(crate) struct BucketAutoSpec {
    group_by: Expression,
    buckets: usize,
    fields: Vec<(String, AccumulatorSpec)>,
}

pub(super) fn parse_auto(
    operand: RawValue<'_>,
    environment: &Environment,
) -> Result<Vec<StagePlan>, QueryError> {
    let RawValue::Document(spec) = operand else {
        return Err(QueryError::new(
            40240,
            format!(
                "The argument to $bucketAuto must be an object, but found type: {}.",
                operand.kind().alias()
            ),
        ));
    };
    let scope = ParseScope::new(environment);
    let (mut group_by, mut buckets, mut fields) = (None, None, None);
    for element in spec.iter() {
        match element.name() {
            "groupBy" => {
                checked_group_by(element.value(), 40239)?;
                group_by = Some(Expression::parse(element.value(), &scope)?);
            }
            "buckets" => buckets = Some(bucket_count(element.value())?),
            "output" => fields = Some(parse_output(element.value(), 40244, &scope)?),
            "granularity" => {
                return Err(QueryError::new(
                    code::COMMAND_NOT_SUPPORTED,
                    "the 'granularity' option of $bucketAuto is not supported",
                ));
            }
            unknown => {
                return Err(QueryError::new(
                    40245,
                    format!("Unrecognized option to $bucketAuto: {unknown}."),
                ));
            }
        }
    }
    let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
        return Err(QueryError::new(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified."));
    };
    let fields = fields.map_or_else(|| default_output(&scope), Ok)?;
    Ok(vec![StagePlan::BucketAuto(Arc::new(BucketAutoSpec { group_by, buckets, fields }))])
}

fn bucket_count(operand: RawValue<'_>) -> Result<usize, QueryError> {
    if !operand.is_number() {
        return Err(QueryError::new(
            40241,
            format!(
                "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}.",
                operand.kind().alias()
            ),
        ));
    }
    let Some(count) = operand.as_i64_exact().and_then(|count| i32::try_from(count).ok()) else {
        return Err(QueryError::new(
            40242,
            "The $bucketAuto 'buckets' field must be representable as a 32-bit integer.",
        ));
    };
    usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
        QueryError::new(
            40243,
            format!("The $bucketAuto 'buckets' field must be greater than 0, but found: {count}."),
        )
    })
}

pub(super) struct BucketAutoStage {
    input: Box<dyn Stage>,
    spec: Arc<BucketAutoSpec>,
    context: PipelineContext,
    variables: Variables,
    bytes: usize,
    read: Vec<(Value, DocumentBuf)>,
    cut: Option<Cut>,
}

/// Where the sorted documents are cut.
struct Cut {
    /// Documents in buckets so far.
    start: usize,
    /// Buckets made so far.
    made: usize,
    /// Documents of a bucket.
    size: usize,
    /// Buckets that get one more.
    surplus: usize,
}

/// What a document takes beside its bytes while it waits to be sorted.
const ENTRY_BYTES: usize = size_of::<(Value, DocumentBuf)>();

impl BucketAutoStage {
    pub(super) fn new(input: Box<dyn Stage>, spec: &Arc<BucketAutoSpec>, context: &PipelineContext) -> Self {
        Self {
            input,
            spec: Arc::clone(spec),
            context: context.clone(),
            variables: Variables::new(),
            bytes: 0,
            read: Vec::new(),
            cut: None,
        }
    }

    fn take(&mut self, document: DocumentBuf) -> Result<(), QueryError> {
        let key = self.spec.group_by.evaluate(document.as_raw(), &mut self.variables)?.unwrap_or_default();
        self.bytes += ENTRY_BYTES + key.memory_bytes() + document.len();
        if self.bytes > self.context.memory_bytes {
            return Err(QueryError::new(
                code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Exceeded memory limit for $bucketAuto",
            ));
        }
        self.read.push((key, document));
        Ok(())
    }

    /// Sorts the documents, to be cut into buckets of about equal size.
    fn sort(&mut self) -> Cut {
        self.read.sort_by(|(left, _), (right, _)| left.compare(right));
        let (count, buckets) = (self.read.len(), self.spec.buckets);
        let surplus = if count > buckets { count % buckets } else { 0 };
        Cut { start: 0, made: 0, size: count.div_euclid(buckets).max(1), surplus }
    }

    /// The next bucket; equal keys stay together.
    fn next_bucket(&mut self) -> Result<Option<DocumentBuf>, QueryError> {
        let (sorted, wanted) = (&self.read, self.spec.buckets);
        let Some(cut) = self.cut.as_mut().filter(|cut| cut.start < sorted.len() && cut.made < wanted) else {
            return Ok(None);
        };
        let mut end = cut.start + cut.size + usize::from(cut.surplus > 0);
        cut.surplus = cut.surplus.saturating_sub(1);
        cut.made += 1;
        if cut.made == wanted {
            end = sorted.len();
        }
        let last = |end: usize| sorted.get(end - 1).map(|(key, _)| key);
        while end < sorted.len() && same_key(last(end), sorted.get(end).map(|(key, _)| key)) {
            end += 1;
        }
        let end = end.min(sorted.len());
        let upper = sorted.get(end).map(|(key, _)| key).or_else(|| last(end)).cloned();
        let members = sorted.get(cut.start..end).unwrap_or_default();
        cut.start = end;
        let lower = members.first().map(|(key, _)| key.clone()).unwrap_or_default();
        let first = members.first().map_or(RawDocument::EMPTY, |(_, document)| document.as_raw());
        let id = Value::Document(doc! { "min": lower, "max": (upper.unwrap_or_default()) });
        let fields = &self.spec.fields;
        let mut group = Group::start(id, fields, first, &mut self.variables)?;
        for (_, document) in members {
            group.add(fields, document.as_raw(), &mut self.variables, &self.context)?;
            group.check(&self.context)?;
        }
        group.finish(fields).map(Some)
    }
}

fn same_key(left: Option<&Value>, right: Option<&Value>) -> bool {
    left.zip(right).is_some_and(|(left, right)| left.compare(right).is_eq())
}

impl Stage for BucketAutoStage {
    fn next(&mut self) -> Result<Step, QueryError> {
        loop {
            if self.cut.is_some() {
                return Ok(self.next_bucket()?.map_or(Step::End, Step::Document));
            }
            match self.input.next()? {
                Step::Document(document) => self.take(document)?,
                Step::Yield => return Ok(Step::Yield),
                Step::End => self.cut = Some(self.sort()),
            }
        }
    }
}
