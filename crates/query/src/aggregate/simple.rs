//! The stages that handle one document at a time, or only count them.

use std::sync::Arc;

use document::{Document, DocumentBuf, DocumentBuilder, RawDocument, RawValue, Value, quote};

use crate::checkpoint;
use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::{Expression, ParseScope, Random, Variables, brief, type_name};
use crate::integer::whole_number_from_zero;
use crate::matcher::Matcher;
use crate::memory::MemoryPart;
use crate::projection::Projection;

use super::chain::{Downstream, Flow, Pause, Sink, Stage, YieldPolicy};
use super::rewrite::to_bounded;
use super::{DocumentSource, PipelineContext, PipelineSource, StagePlan};

type Plans = Result<Vec<StagePlan>, QueryError>;

/// A `$match` as it was written and as it runs.
#[derive(Debug)]
pub(crate) struct MatchFilter {
    pub(super) spec: DocumentBuf,
    matcher: Matcher,
}

impl MatchFilter {
    pub(super) fn parse(spec: DocumentBuf, environment: &Environment) -> Result<Self, QueryError> {
        let matcher = Matcher::parse_stage(spec.as_raw(), environment)?;
        Ok(Self { spec, matcher })
    }
}

/// A `$replaceRoot` and the name its errors carry.
#[derive(Debug)]
pub(crate) struct ReplaceRoot {
    expression: Expression,
    subject: &'static str,
}

pub(super) fn parse_match(operand: RawValue<'_>, environment: &Environment) -> Plans {
    let RawValue::Document(spec) = operand else {
        bail!(15959, "the match filter must be an expression in an object");
    };
    Ok(vec![StagePlan::Match(Arc::new(MatchFilter::parse(spec.to_buf(), environment)?))])
}

pub(super) fn parse_project(operand: RawValue<'_>, environment: &Environment) -> Plans {
    let RawValue::Document(spec) = operand else {
        bail!(15969, "$project specification must be an object");
    };
    let projection =
        Projection::parse_stage(spec, environment).map_err(|error| error.within("Invalid $project"))?;
    Ok(vec![StagePlan::Project(Arc::new(projection))])
}

pub(super) fn parse_addition(name: &str, operand: RawValue<'_>, environment: &Environment) -> Plans {
    let RawValue::Document(spec) = operand else {
        bail!(40272, "{name} specification stage must be an object, got {}", operand.kind().alias());
    };
    let projection = Projection::parse_addition(spec, environment)
        .map_err(|error| error.within(format!("Invalid {name}")))?;
    Ok(vec![StagePlan::Project(Arc::new(projection))])
}

pub(super) fn parse_unset(operand: RawValue<'_>, _: &Environment) -> Plans {
    let paths: Vec<&str> = match operand {
        RawValue::String(path) => vec![path],
        RawValue::Array(paths) => paths
            .iter()
            .map(|path| match path {
                RawValue::String(path) => Ok(path),
                _ => Err(QueryError::new(
                    31120,
                    "$unset specification must be a string or an array containing only string values",
                )),
            })
            .collect::<Result<_, _>>()?,
        _ => bail!(31002, "$unset specification must be a string or an array"),
    };
    if paths.is_empty() {
        bail!(31119, "$unset specification must be a string or an array with at least one field");
    }
    let projection = Projection::excluding(paths).map_err(|error| error.within("Invalid $unset"))?;
    Ok(vec![StagePlan::Project(Arc::new(projection))])
}

/// A number of documents, zero or more.
fn number_of_documents(stage: &str, code: i32, operand: RawValue<'_>) -> Result<u64, QueryError> {
    let count = whole_number_from_zero(stage, operand)
        .map_err(|error| query_error!(code, "invalid argument to {stage} stage: {}", error.message))?;
    Ok(count.unsigned_abs())
}

pub(super) fn parse_skip(operand: RawValue<'_>, _: &Environment) -> Plans {
    Ok(vec![StagePlan::Skip(number_of_documents("$skip", 5107200, operand)?)])
}

pub(super) fn parse_limit(operand: RawValue<'_>, _: &Environment) -> Plans {
    let count = number_of_documents("$limit", 5107201, operand)?;
    if count == 0 {
        bail!(15958, "the limit must be positive");
    }
    Ok(vec![StagePlan::Limit(count)])
}

pub(super) fn parse_count(operand: RawValue<'_>, _: &Environment) -> Plans {
    let RawValue::String(name) = operand else {
        bail!(40156, "the count field must be a non-empty string");
    };
    let refusal = match name {
        "" => Some((40157, "the count field must be a non-empty string")),
        _ if name.starts_with('$') => Some((40158, "the count field cannot be a $-prefixed path")),
        _ if name.contains('\0') => Some((40159, "the count field cannot contain a null byte")),
        _ if name.contains('.') => Some((40160, "the count field cannot contain '.'")),
        _ => None,
    };
    match refusal {
        Some((code, message)) => Err(QueryError::new(code, message)),
        None => Ok(vec![StagePlan::Count(name.into())]),
    }
}

pub(super) fn parse_sample(operand: RawValue<'_>, _: &Environment) -> Plans {
    let RawValue::Document(spec) = operand else {
        bail!(28745, "the $sample stage specification must be an object");
    };
    let mut size = None;
    for element in spec.iter() {
        if element.name() != "size" {
            bail!(28748, "unrecognized option to $sample: {}", element.name());
        }
        if !element.value().is_number() {
            bail!(28746, "size argument to $sample must be a number");
        }
        size = element.value().as_number().map(|number| number.to_i64_saturating());
    }
    let size = size.ok_or_else(|| QueryError::new(28749, "$sample stage must specify a size"))?;
    match u64::try_from(size) {
        Ok(size) => Ok(vec![StagePlan::Sample(size)]),
        Err(_) => Err(QueryError::new(28747, "size argument to $sample must be a positive integer")),
    }
}

pub(super) fn parse_replace_root(operand: RawValue<'_>, environment: &Environment) -> Plans {
    let RawValue::Document(spec) = operand else {
        bail!(
            40229,
            "expected an object as specification for $replaceRoot stage, got {}",
            operand.kind().alias()
        );
    };
    let mut root = None;
    for element in spec.iter() {
        if element.name() != "newRoot" {
            bail!(
                40230,
                "unrecognized option to $replaceRoot stage: {}, only valid option is 'newRoot'.",
                element.name()
            );
        }
        root = Some(element.value());
    }
    let root =
        root.ok_or_else(|| QueryError::new(40231, "no newRoot specified for the $replaceRoot stage"))?;
    replace_root(root, "'newRoot' expression ", environment)
}

pub(super) fn parse_replace_with(operand: RawValue<'_>, environment: &Environment) -> Plans {
    replace_root(operand, "'replacement document' ", environment)
}

fn replace_root(operand: RawValue<'_>, subject: &'static str, environment: &Environment) -> Plans {
    let expression = Expression::parse(operand, &ParseScope::new(environment))?;
    Ok(vec![StagePlan::ReplaceRoot(Arc::new(ReplaceRoot { expression, subject }))])
}

pub(super) fn parse_documents(
    operand: RawValue<'_>,
    environment: &Environment,
) -> Result<PipelineSource, QueryError> {
    let expression = Expression::parse(operand, &ParseScope::new(environment))?;
    let value = expression.evaluate(RawDocument::EMPTY, &mut Variables::new())?;
    let Some(Value::Array(items)) = value else {
        bail!(5858203, "an array is expected by $documents");
    };
    let documents = items
        .into_iter()
        .map(|item| match item {
            Value::Document(document) => Ok(document.to_buf()),
            _ => Err(QueryError::new(40228, "$documents: all documents in the array must be objects")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(PipelineSource::Documents(Arc::new(documents)))
}

/// A source over documents that are there already.
#[derive(Debug)]
pub struct MaterializedDocuments {
    documents: Arc<Vec<DocumentBuf>>,
    next: usize,
}

impl MaterializedDocuments {
    /// Yields the documents in order.
    pub fn new(documents: Arc<Vec<DocumentBuf>>) -> Self {
        Self { documents, next: 0 }
    }
}

impl DocumentSource for MaterializedDocuments {
    fn run(&mut self, policy: &mut dyn YieldPolicy, sink: &mut Sink<'_>) -> Result<Pause, QueryError> {
        while let Some(document) = self.documents.get(self.next) {
            self.next += 1;
            if sink(document.as_raw())? == Flow::Pause {
                return Ok(Pause::Stopped);
            }
            if policy.should_yield() {
                return Ok(Pause::Sliced);
            }
        }
        Ok(Pause::End)
    }

    fn save(&mut self) {}
}

pub(super) struct MatchStage {
    pub(super) filter: Arc<MatchFilter>,
}

impl Stage for MatchStage {
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        checkpoint::pass_bytes(document.as_bytes().len())?;
        if self.filter.matcher.matches(document)? { out.give(document) } else { Ok(Flow::More) }
    }
}

pub(super) struct ProjectStage {
    pub(super) projection: Arc<Projection>,
    pub(super) variables: Variables,
    /// The document last made, for its memory.
    pub(super) made: Vec<u8>,
}

/// A buffer that grew larger is not kept for the next document.
const KEPT_BUFFER_BYTES: usize = 64 << 10;

impl Stage for ProjectStage {
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        checkpoint::pass_bytes(document.as_bytes().len())?;
        self.made.clear();
        self.made.shrink_to(KEPT_BUFFER_BYTES);
        let mut builder = DocumentBuilder::new(&mut self.made);
        self.projection.project_into(document, None, &mut self.variables, &mut builder)?;
        builder.finish();
        out.give(RawDocument::trusted(&self.made))
    }
}

pub(super) struct SkipStage {
    pub(super) left: u64,
}

impl Stage for SkipStage {
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        if self.left == 0 {
            return out.give(document);
        }
        self.left -= 1;
        Ok(Flow::More)
    }
}

pub(super) struct LimitStage {
    pub(super) left: u64,
}

impl Stage for LimitStage {
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        self.left = self.left.saturating_sub(1);
        let flow = out.give(document)?;
        Ok(if self.left == 0 { Flow::Pause } else { flow })
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}

pub(super) struct CountStage {
    pub(super) name: Arc<str>,
    pub(super) counted: i64,
    pub(super) due: bool,
}

impl Stage for CountStage {
    fn take(&mut self, _: RawDocument<'_>, _: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        self.counted += 1;
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), QueryError> {
        self.due = self.counted > 0;
        Ok(())
    }

    fn holds(&self) -> bool {
        self.due
    }

    fn resume(&mut self, _: &mut dyn YieldPolicy, out: &mut Downstream<'_>) -> Result<Pause, QueryError> {
        self.due = false;
        let mut count = Document::new();
        count.push(&*self.name, i32::try_from(self.counted).map_or(Value::Int64(self.counted), Value::Int32));
        out.give(count.to_buf().as_raw())?;
        Ok(Pause::End)
    }
}

pub(super) struct ReplaceRootStage {
    pub(super) replace: Arc<ReplaceRoot>,
    pub(super) variables: Variables,
}

impl Stage for ReplaceRootStage {
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        if let Some(path) = self.replace.expression.as_path()
            && let Ok(Some(RawValue::Document(root))) = path.borrowed(document)
        {
            return out.give(root);
        }
        out.give(self.replace.root_of(document, &mut self.variables)?.as_raw())
    }
}

impl ReplaceRoot {
    /// The document that takes the place of this one.
    pub(crate) fn root_of(
        &self,
        document: RawDocument<'_>,
        variables: &mut Variables,
    ) -> Result<DocumentBuf, QueryError> {
        match self.expression.evaluate(document, variables)? {
            Some(Value::Document(root)) => to_bounded(&root),
            other => bail!(
                40228,
                "{} must evaluate to an object, but resulting value was: {}. Type of resulting value: '{}'. \
                Input document: {}",
                self.subject,
                brief(&other),
                type_name(&other),
                quote::operand(Some(RawValue::Document(document)))
            ),
        }
    }
}

/// Keeps a uniform sample of the documents seen so far.
///
/// PipelineSource: Vitter, "Random Sampling with a Reservoir", algorithm R (1985).
pub(super) struct SampleStage {
    size: u64,
    seen: u64,
    held: MemoryPart,
    memory_bytes: usize,
    kept: Vec<DocumentBuf>,
    random: Random,
    ended: bool,
}

impl SampleStage {
    pub(super) fn new(size: u64, context: &PipelineContext) -> Self {
        Self {
            size,
            seen: 0,
            held: context.memory.part(),
            memory_bytes: context.memory_bytes,
            kept: Vec::new(),
            random: Random::default(),
            ended: false,
        }
    }

    fn offer(&mut self, document: RawDocument<'_>) -> Result<(), QueryError> {
        self.seen += 1;
        if self.seen <= self.size {
            self.held.set(self.held.bytes() + document.as_bytes().len());
            self.kept.push(document.to_buf());
        } else {
            let place = self.random.below(self.seen);
            if let Some(kept) = usize::try_from(place).ok().and_then(|place| self.kept.get_mut(place)) {
                self.held.set(self.held.bytes() + document.as_bytes().len() - kept.len());
                *kept = document.to_buf();
            }
        }
        if self.held.is_over(self.memory_bytes) {
            bail!(
                crate::error::code::QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED,
                "Exceeded memory limit for $sample of {} bytes",
                self.memory_bytes
            );
        }
        Ok(())
    }

    /// A reservoir is not in random order; its documents are shuffled before they leave.
    fn shuffle(&mut self) {
        for place in (1..self.kept.len()).rev() {
            let other = self.random.below(place as u64 + 1) as usize;
            self.kept.swap(place, other);
        }
    }
}

impl Stage for SampleStage {
    fn take(&mut self, document: RawDocument<'_>, _: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        self.offer(document)?;
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), QueryError> {
        self.shuffle();
        self.ended = true;
        Ok(())
    }

    fn holds(&self) -> bool {
        self.ended && !self.kept.is_empty()
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        out.give_all(policy, || Ok(self.kept.pop()))
    }

    fn is_done(&self) -> bool {
        // Nothing is wanted of an empty sample.
        self.size == 0
    }
}
