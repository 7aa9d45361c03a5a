//! `$bucket` and `$bucketAuto`.

use std::sync::Arc;

use document::key::encode_owned;
use document::{Document, DocumentBuf, RawDocument, RawValue, Value, doc, doc_buf, quote};

use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::expression::{Expression, ParseScope, Variables};
use crate::sort::{SortLimits, SortPattern, Sorter};

use super::accumulator::AccumulatorSpec;
use super::chain::{Downstream, Flow, Pause, Stage, YieldPolicy};
use super::group::{GroupSpec, GroupState, default_output, parse_fields};
use super::{PipelineContext, StagePlan};

/// A `$bucket` is a `$group` whose key is the lower boundary, sorted by it.
pub(super) fn parse(operand: RawValue<'_>, environment: &Environment) -> Result<Vec<StagePlan>, QueryError> {
    let RawValue::Document(spec) = operand else {
        bail!(
            40201,
            "Argument to $bucket stage must be an object, but found type: {}.",
            operand.kind().alias()
        );
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
            unknown => bail!(40197, "Unrecognized option to $bucket: {unknown}."),
        }
    }
    let (Some(group_by), Some(boundaries)) = (group_by, boundaries) else {
        bail!(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.");
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
    Err(query_error!(
        code,
        "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found: {}.",
        operand.quoted()
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
        None => Err(query_error!(code, "{message}, but found: {}.", quote::operand(Some(operand)))),
    }
}

fn parse_boundaries(operand: RawValue<'_>, scope: &ParseScope<'_>) -> Result<Vec<Value>, QueryError> {
    let RawValue::Array(items) = operand else {
        bail!(
            40200,
            "The $bucket 'boundaries' field must be an array, but found type: {}.",
            operand.kind().alias()
        );
    };
    let boundaries = items
        .iter()
        .map(|item| {
            constant(item, scope, 40191, "The $bucket 'boundaries' field must be an array of constant values")
        })
        .collect::<Result<Vec<_>, _>>()?;
    if boundaries.len() < 2 {
        bail!(
            40192,
            "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
            boundaries.len()
        );
    }
    for neighbours in boundaries.windows(2) {
        let [low, high] = neighbours else { unreachable!("windows of two") };
        if document::canonical_type(low.kind()) != document::canonical_type(high.kind()) {
            bail!(40193, "All values in the the 'boundaries' option to $bucket must have the same type.");
        }
        if low.compare(high).is_ge() {
            bail!(40194, "The 'boundaries' option to $bucket must be sorted in ascending order.");
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
        bail!(
            40199,
            "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to \
            the highest boundary."
        );
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
        bail!(code, "The 'output' field must be an object, but found type: {}.", operand.kind().alias());
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
        bail!(
            40240,
            "The argument to $bucketAuto must be an object, but found type: {}.",
            operand.kind().alias()
        );
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
                bail!(code::COMMAND_NOT_SUPPORTED, "the 'granularity' option of $bucketAuto is not supported")
            }
            unknown => bail!(40245, "Unrecognized option to $bucketAuto: {unknown}."),
        }
    }
    let (Some(group_by), Some(buckets)) = (group_by, buckets) else {
        bail!(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified.");
    };
    let fields = fields.map_or_else(|| default_output(&scope), Ok)?;
    Ok(vec![StagePlan::BucketAuto(Arc::new(BucketAutoSpec { group_by, buckets, fields }))])
}

fn bucket_count(operand: RawValue<'_>) -> Result<usize, QueryError> {
    if !operand.is_number() {
        bail!(
            40241,
            "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}.",
            operand.kind().alias()
        );
    }
    let Some(count) = operand.as_i64_exact().and_then(|count| i32::try_from(count).ok()) else {
        bail!(40242, "The $bucketAuto 'buckets' field must be representable as a 32-bit integer.");
    };
    usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
        query_error!(40243, "The $bucketAuto 'buckets' field must be greater than 0, but found: {count}.")
    })
}

pub(super) struct BucketAutoStage {
    spec: Arc<BucketAutoSpec>,
    context: PipelineContext,
    variables: Variables,
    sorter: Sorter,
    documents: usize,
    /// Since the input has ended.
    cut: Option<Cut>,
    key: Vec<u8>,
}

/// Where the sorted documents are cut: into buckets of about equal size.
struct Cut {
    /// Buckets begun so far.
    begun: usize,
    /// Documents of a bucket.
    size: usize,
    /// Buckets that get one more.
    surplus: usize,
    bucket: Option<Bucket>,
}

/// A bucket that is being filled.
struct Bucket {
    group: GroupState,
    /// Documents that it wants yet.
    wants: usize,
    lower: Value,
    /// The value of its last document, and how that is encoded.
    upper: Value,
    upper_key: Vec<u8>,
}

impl Cut {
    fn new(documents: usize, buckets: usize) -> Self {
        let surplus = if documents > buckets { documents % buckets } else { 0 };
        Cut { begun: 0, size: documents.div_euclid(buckets).max(1), surplus, bucket: None }
    }

    /// Takes the bucket out that has no room for a document with this key. Equal keys stay together.
    fn full(&mut self, key: &[u8], buckets: usize) -> Option<Bucket> {
        let is_last = self.begun == buckets;
        self.bucket.take_if(|bucket| bucket.wants == 0 && !is_last && bucket.upper_key != key)
    }

    fn begin(&mut self, group: GroupState, lower: Value, key: Vec<u8>) -> &mut Bucket {
        let wants = self.size + usize::from(self.surplus > 0);
        self.surplus = self.surplus.saturating_sub(1);
        self.begun += 1;
        self.bucket.insert(Bucket { group, wants, upper: lower.clone(), lower, upper_key: key })
    }
}

impl BucketAutoStage {
    pub(super) fn new(spec: &Arc<BucketAutoSpec>, context: &PipelineContext) -> Self {
        let limits = SortLimits { documents: None, memory_bytes: context.memory_bytes };
        Self {
            spec: Arc::clone(spec),
            context: context.clone(),
            variables: Variables::new(),
            sorter: Sorter::new(Arc::default(), limits, context.spill.clone(), &context.memory),
            documents: 0,
            cut: None,
            key: Vec::new(),
        }
    }

    /// Takes the next document in order, and gives the bucket that is complete before it.
    fn cut(&mut self, key: Vec<u8>, document: RawDocument<'_>) -> Result<Option<DocumentBuf>, QueryError> {
        let Some(cut) = &mut self.cut else {
            panic!("documents are cut into buckets before they are sorted")
        };
        let (spec, variables) = (&self.spec, &mut self.variables);
        let full = cut.full(&key, spec.buckets);
        let is_known = cut.bucket.as_ref().is_some_and(|bucket| bucket.upper_key == key);
        let value = match is_known {
            true => None,
            false => Some(spec.group_by.evaluate(document, variables)?.unwrap_or_default()),
        };
        let done = full.map(|bucket| bucket.finish(&spec.fields, value.clone())).transpose()?;
        let bucket = match &mut cut.bucket {
            Some(bucket) => {
                if let Some(value) = value {
                    (bucket.upper, bucket.upper_key) = (value, key);
                }
                bucket
            }
            None => {
                let group = GroupState::start(Value::Null, &spec.fields, document, variables)?;
                cut.begin(group, value.expect("a bucket begins with a value of its own"), key)
            }
        };
        bucket.wants = bucket.wants.saturating_sub(1);
        bucket.group.add(&spec.fields, document, variables, &self.context)?;
        bucket.group.check(&self.context)?;
        Ok(done)
    }
}

impl Bucket {
    /// The bucket as a document. `next`: the lowest value of the one behind it.
    fn finish(
        self,
        fields: &[(String, AccumulatorSpec)],
        next: Option<Value>,
    ) -> Result<DocumentBuf, QueryError> {
        let id = doc! { "min": (self.lower), "max": (next.unwrap_or(self.upper)) };
        self.group.named(Value::Document(id)).finish(fields)
    }
}

impl Stage for BucketAutoStage {
    fn take(&mut self, document: RawDocument<'_>, _: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        let value = self.spec.group_by.evaluate(document, &mut self.variables)?.unwrap_or_default();
        self.key.clear();
        encode_owned(&mut self.key, &value);
        self.documents += 1;
        self.sorter.push_keyed(&self.key, document)
    }

    fn end(&mut self) -> Result<(), QueryError> {
        self.cut = Some(Cut::new(self.documents, self.spec.buckets));
        self.sorter.end();
        Ok(())
    }

    fn holds(&self) -> bool {
        self.sorter.holds() || self.cut.is_some()
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        let pause = self.sorter.resume(policy)?;
        if pause != Pause::End {
            return Ok(pause);
        }
        while let Some(cut) = &mut self.cut {
            let made = match self.sorter.next_keyed()? {
                Some((key, document)) => self.cut(key, document.as_raw())?,
                None => {
                    let last = cut.bucket.take();
                    self.cut = None;
                    last.map(|bucket| bucket.finish(&self.spec.fields, None)).transpose()?
                }
            };
            if let Some(bucket) = made
                && out.give(bucket.as_raw())? == Flow::Pause
            {
                return Ok(Pause::Stopped);
            }
            if policy.should_yield() {
                return Ok(Pause::Sliced);
            }
        }
        Ok(Pause::End)
    }
}
