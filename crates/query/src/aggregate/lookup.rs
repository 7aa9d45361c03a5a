//! `$lookup` and `$unionWith`: stages that read other collections.

use std::sync::Arc;

use document::{Document, DocumentBuf, DocumentBuilder, RawArray, RawDocument, RawValue, Value};

use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::expression::{Evaluated, Expression, ParseScope, Path, Variables, check_variable_name};
use crate::matcher::{MatchPath, Matcher};
use crate::memory::MemoryPart;

use super::chain::{Downstream, Flow, Pause, Stage, YieldPolicy};
use super::parse::wrapped;
use super::rewrite::{check_size, with_field};
use super::simple::MaterializedDocuments;
use super::{
    DocumentSource, ForeignCollections, ForeignRead, Pipeline, PipelineContext, PipelineSource, StagePlan,
};

type Plans = Result<Vec<StagePlan>, QueryError>;

/// A sub-pipeline and the collection it reads; none when it begins with `$documents`.
#[derive(Debug)]
struct Foreign {
    database: Option<String>,
    collection: Option<String>,
    /// The stages as `{"": [...]}`, to be compiled again where variables differ.
    stages: DocumentBuf,
}

impl Foreign {
    fn stages(&self) -> RawArray<'_> {
        self.stages
            .as_raw()
            .get("")
            .and_then(RawValue::as_array)
            .expect("the stages were wrapped as an array")
    }

    fn new(from: Option<(Option<String>, String)>, stages: Option<RawArray<'_>>) -> Self {
        let (database, collection) =
            from.map_or((None, None), |(database, collection)| (database, Some(collection)));
        Self { database, collection, stages: wrapped(stages.unwrap_or(RawArray::EMPTY)) }
    }

    /// Compiles the stages, refusing those that a sub-pipeline may not hold.
    fn compile(&self, name: &str, environment: &Environment) -> Result<Pipeline, QueryError> {
        let pipeline = Pipeline::parse(self.stages(), environment)?;
        if pipeline.output.is_some() {
            bail!(51047, "$out and $merge are not allowed within a {name} sub-pipeline");
        }
        match (&pipeline.source, &self.collection) {
            (PipelineSource::Collection, None) => Err(QueryError::failed_to_parse(format!(
                "{name} without a collection needs a pipeline that begins with $documents"
            ))),
            (PipelineSource::Report { name: source, .. }, _) => {
                Err(query_error!(51047, "{source} is not allowed within a {name} sub-pipeline"))
            }
            _ => Ok(pipeline),
        }
    }

    /// Opens a compiled sub-pipeline; `join` is a further filter on the collection.
    fn open(
        &self,
        mut pipeline: Pipeline,
        join: Option<Join<'_>>,
        environment: &Arc<Environment>,
        context: &PipelineContext,
    ) -> Result<Box<dyn DocumentSource>, QueryError> {
        let collection = match (&pipeline.source, &self.collection) {
            (PipelineSource::Documents(documents), _) => {
                let source = Box::new(MaterializedDocuments::new(Arc::clone(documents)));
                return over(&pipeline, source, environment, context);
            }
            (_, Some(collection)) => collection.as_str(),
            (_, None) => bail!(code::INTERNAL_ERROR, "a sub-pipeline has no source"),
        };
        let mut leading = pipeline.take_leading();
        let mut matcher = None;
        if let Some(join) = join {
            if leading.filter.is_empty() {
                matcher = Matcher::equal(join.foreign, &join.local);
            }
            if matcher.is_none() {
                leading.filter = both(join.filter(), &leading.filter);
            }
        }
        let source = reader(context)?.open(ForeignRead {
            database: self.database.as_deref(),
            collection,
            leading: &leading,
            matcher,
            environment,
        })?;
        over(&pipeline, source, environment, context)
    }
}

/// Puts a sub-pipeline's stages behind its source.
fn over(
    pipeline: &Pipeline,
    source: Box<dyn DocumentSource>,
    environment: &Arc<Environment>,
    context: &PipelineContext,
) -> Result<Box<dyn DocumentSource>, QueryError> {
    if pipeline.is_empty() {
        return Ok(source);
    }
    let context = PipelineContext { environment: Arc::clone(environment), ..context.clone() };
    pipeline.open(source, &context)
}

/// The join's filter comes before everything the sub-pipeline says.
fn both(join: DocumentBuf, filter: &DocumentBuf) -> DocumentBuf {
    if filter.is_empty() {
        return join;
    }
    let mut bytes = Vec::with_capacity(join.len() + filter.len() + 32);
    let mut out = DocumentBuilder::new(&mut bytes);
    let mut both = out.start_array("$and");
    both.push(join.as_raw()).push(filter.as_raw());
    both.finish();
    out.finish();
    DocumentBuf::trusted(bytes)
}

fn reader(context: &PipelineContext) -> Result<&Arc<dyn ForeignCollections>, QueryError> {
    context.foreign.as_ref().ok_or_else(|| {
        QueryError::new(
            code::ILLEGAL_OPERATION,
            "other collections cannot be read from where this pipeline runs",
        )
    })
}

/// A parsed `$lookup`.
#[derive(Debug)]
pub(crate) struct LookupSpec {
    foreign: Foreign,
    as_path: Path,
    /// `localField` and `foreignField`.
    fields: Option<(Path, MatchPath)>,
    bindings: Vec<(String, Expression)>,
    /// The sub-pipeline, when it is the same for every document.
    compiled: Option<Pipeline>,
}

impl LookupSpec {
    pub(super) fn collections(&self, found: &mut Vec<(Option<String>, String)>) {
        collections(&self.foreign, self.compiled.as_ref(), found);
    }
}

fn collections(foreign: &Foreign, compiled: Option<&Pipeline>, found: &mut Vec<(Option<String>, String)>) {
    if let Some(collection) = &foreign.collection {
        found.push((foreign.database.clone(), collection.clone()));
    }
    if let Some(pipeline) = compiled {
        found.extend(pipeline.foreign_collections());
    }
}

/// A parsed `$unionWith`.
#[derive(Debug)]
pub(crate) struct UnionSpec {
    foreign: Foreign,
    compiled: Pipeline,
}

impl UnionSpec {
    pub(super) fn collections(&self, found: &mut Vec<(Option<String>, String)>) {
        collections(&self.foreign, Some(&self.compiled), found);
    }
}

fn string_option<'a>(name: &str, value: RawValue<'a>) -> Result<&'a str, QueryError> {
    value.as_str().ok_or_else(|| {
        QueryError::failed_to_parse(format!(
            "$lookup argument '{name}: {}' must be a string, is type {}",
            value.quoted(),
            value.kind().alias()
        ))
    })
}

/// The fields of a `$lookup` as they are written.
#[derive(Default)]
struct LookupOptions<'a> {
    from: Option<(Option<String>, String)>,
    as_field: Option<&'a str>,
    local: Option<&'a str>,
    foreign: Option<&'a str>,
    stages: Option<RawArray<'a>>,
    bindings: Option<RawDocument<'a>>,
}

impl<'a> LookupOptions<'a> {
    fn read(spec: RawDocument<'a>) -> Result<Self, QueryError> {
        let mut options = Self::default();
        for element in spec.iter() {
            match (element.name(), element.value()) {
                ("from", RawValue::Document(namespace)) => options.from = Some(namespace_of(namespace)?),
                ("from", value) => options.from = Some((None, string_option("from", value)?.to_owned())),
                ("as", value) => options.as_field = Some(string_option("as", value)?),
                ("localField", value) => options.local = Some(string_option("localField", value)?),
                ("foreignField", value) => options.foreign = Some(string_option("foreignField", value)?),
                ("pipeline", RawValue::Array(stages)) => options.stages = Some(stages),
                ("pipeline", _) => bail!(type_mismatch, "'pipeline' option must be specified as an array"),
                ("let", RawValue::Document(bindings)) => options.bindings = Some(bindings),
                ("let", other) => bail!(
                    failed_to_parse,
                    "$lookup argument 'let: {}' must be an object, is type {}",
                    other.quoted(),
                    other.kind().alias()
                ),
                (unknown, _) => bail!(failed_to_parse, "unknown argument to $lookup: {unknown}"),
            }
        }
        Ok(options)
    }
}

/// `{db, coll}`.
fn namespace_of(namespace: RawDocument<'_>) -> Result<(Option<String>, String), QueryError> {
    let text = |name: &str| namespace.get(name).and_then(RawValue::as_str).map(str::to_owned);
    match text("coll") {
        Some(collection) => Ok((text("db"), collection)),
        None => Err(QueryError::failed_to_parse("a namespace given as an object needs the field 'coll'")),
    }
}

pub(super) fn parse(operand: RawValue<'_>, environment: &Environment) -> Plans {
    let RawValue::Document(spec) = operand else {
        bail!(
            failed_to_parse,
            "the $lookup stage specification must be an object, but found {}",
            operand.kind().alias()
        );
    };
    let options = LookupOptions::read(spec)?;
    let as_path = options
        .as_field
        .ok_or_else(|| QueryError::failed_to_parse("must specify 'as' field for a $lookup"))?;
    if options.from.is_none() && options.stages.is_none() {
        bail!(failed_to_parse, "must specify 'pipeline' when 'from' is empty");
    }
    let fields = match (options.local, options.foreign) {
        (Some(local), Some(foreign)) => {
            Path::parse(foreign)?;
            Some((Path::parse(local)?, MatchPath::new(foreign)))
        }
        (None, None) if options.stages.is_some() => None,
        (None, None) => bail!(
            failed_to_parse,
            "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified"
        ),
        _ => bail!(
            failed_to_parse,
            "$lookup requires both or neither of 'localField' and 'foreignField' to be specified"
        ),
    };
    if options.bindings.is_some() && options.stages.is_none() {
        bail!(failed_to_parse, "$lookup with a 'let' argument must also specify 'pipeline'");
    }
    let bindings = parse_bindings(options.bindings, environment)?;
    let foreign = Foreign::new(options.from, options.stages);
    // Compiled with null for the variables, an invalid sub-pipeline is refused at once.
    let compiled =
        foreign.compile("$lookup", &bound(environment, bindings.iter().map(|(name, _)| (name, None))))?;
    let compiled = bindings.is_empty().then_some(compiled);
    let spec = LookupSpec { foreign, as_path: Path::parse(as_path)?, fields, bindings, compiled };
    Ok(vec![StagePlan::Lookup(Arc::new(spec))])
}

fn parse_bindings(
    bindings: Option<RawDocument<'_>>,
    environment: &Environment,
) -> Result<Vec<(String, Expression)>, QueryError> {
    let scope = ParseScope::new(environment);
    bindings
        .iter()
        .flat_map(|bindings| bindings.iter())
        .map(|element| {
            check_variable_name(element.name())?;
            Ok((element.name().to_owned(), Expression::parse(element.value(), &scope)?))
        })
        .collect()
}

/// The environment with these variables too; they hide outer ones of the same name.
fn bound<'n>(
    environment: &Environment,
    values: impl Iterator<Item = (&'n String, Evaluated)>,
) -> Environment {
    // A missing value travels as undefined, which a variable of this kind reads as missing.
    environment.with(values.map(|(name, value)| (name.clone(), value.unwrap_or(Value::Undefined))))
}

pub(super) fn parse_union(operand: RawValue<'_>, environment: &Environment) -> Plans {
    let foreign = match operand {
        RawValue::String(collection) => Foreign::new(Some((None, collection.to_owned())), None),
        RawValue::Document(spec) => {
            let (mut from, mut stages) = (None, None);
            for element in spec.iter() {
                match (element.name(), element.value()) {
                    ("coll", RawValue::String(collection)) => from = Some((None, collection.to_owned())),
                    ("pipeline", RawValue::Array(array)) => stages = Some(array),
                    (name @ ("coll" | "pipeline"), other) => bail!(
                        type_mismatch,
                        "BSON field '$unionWith.{name}' is the wrong type '{}'",
                        other.kind().alias()
                    ),
                    (unknown, _) => bail!(40415, "BSON field '$unionWith.{unknown}' is an unknown field."),
                }
            }
            Foreign::new(from, stages)
        }
        other => bail!(
            failed_to_parse,
            "the $unionWith stage specification must be an object or string, but found {}",
            other.kind().alias()
        ),
    };
    let compiled = foreign.compile("$unionWith", environment)?;
    Ok(vec![StagePlan::UnionWith(Arc::new(UnionSpec { foreign, compiled }))])
}

pub(super) struct LookupStage {
    spec: Arc<LookupSpec>,
    context: PipelineContext,
    variables: Variables,
    /// The document whose foreign documents are being read.
    current: Option<Current>,
    /// The result of a sub-pipeline that is the same for every document, once it is known.
    shared: Option<(Vec<DocumentBuf>, MemoryPart)>,
}

struct Current {
    document: DocumentBuf,
    foreign: Box<dyn DocumentSource>,
    found: Vec<DocumentBuf>,
    held: MemoryPart,
}

impl LookupStage {
    pub(super) fn new(spec: &Arc<LookupSpec>, context: &PipelineContext) -> Result<Self, QueryError> {
        if spec.foreign.collection.is_some() {
            reader(context)?;
        }
        Ok(Self {
            spec: Arc::clone(spec),
            context: context.clone(),
            variables: Variables::new(),
            current: None,
            shared: None,
        })
    }

    fn begin(&mut self, document: RawDocument<'_>) -> Result<Current, QueryError> {
        let spec = &self.spec;
        let join = spec
            .fields
            .as_ref()
            .map(|(local, foreign)| Join { local: local.of_document(document).unwrap_or_default(), foreign });
        let (pipeline, environment) = match &spec.compiled {
            Some(pipeline) => (pipeline.clone(), Arc::clone(&self.context.environment)),
            None => {
                let mut values = Vec::with_capacity(spec.bindings.len());
                for (name, expression) in &spec.bindings {
                    values.push((name, expression.evaluate(document, &mut self.variables)?));
                }
                let environment = bound(&self.context.environment, values.into_iter());
                (spec.foreign.compile("$lookup", &environment)?, Arc::new(environment))
            }
        };
        let foreign = spec.foreign.open(pipeline, join, &environment, &self.context)?;
        Ok(Current {
            document: document.to_buf(),
            foreign,
            found: Vec::new(),
            held: self.context.memory.part(),
        })
    }

    fn joined(&self, document: RawDocument<'_>, found: &[DocumentBuf]) -> Result<DocumentBuf, QueryError> {
        check_size(with_field(document, &self.spec.as_path, &mut |out, name| {
            let mut array = out.start_array(name);
            for document in found {
                array.push(document.as_raw());
            }
            array.finish();
        }))
    }
}

impl Current {
    /// Collects the foreign documents.
    fn read(
        &mut self,
        policy: &mut dyn YieldPolicy,
        collection: Option<&str>,
        most_bytes: usize,
    ) -> Result<Pause, QueryError> {
        let Current { foreign, found, held, .. } = self;
        foreign.run(policy, &mut |document| {
            held.set(held.bytes() + document.as_bytes().len());
            if held.is_over(most_bytes) {
                bail!(
                    4568,
                    "Total size of documents in {} matching pipeline's $lookup stage exceeds \
                    {most_bytes} bytes",
                    collection.unwrap_or_default()
                );
            }
            found.push(document.to_buf());
            Ok(Flow::More)
        })
    }
}

/// What joins a document with foreign ones: equality with the local value, or with any item of it.
struct Join<'j> {
    local: Value,
    foreign: &'j MatchPath,
}

impl Join<'_> {
    fn filter(self) -> DocumentBuf {
        let foreign = self.foreign.dotted();
        let equals = |value: Value| {
            let mut filter = Document::new();
            filter.push(foreign, document::doc! { "$eq": value });
            filter
        };
        let filter = match self.local {
            Value::Array(items) => {
                // In `$in` a regular expression would be a pattern; here it is a value to equal.
                if items.iter().any(|item| matches!(item, Value::Regex(_))) {
                    let either: Vec<Value> =
                        items.into_iter().map(|item| Value::Document(equals(item))).collect();
                    document::doc! { "$or": either }
                } else {
                    let mut filter = Document::new();
                    filter.push(foreign, document::doc! { "$in": items });
                    filter
                }
            }
            other => equals(other),
        };
        filter.to_buf()
    }
}

impl Stage for LookupStage {
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        if let Some((shared, _)) = &self.shared {
            return out.give(self.joined(document, shared)?.as_raw());
        }
        self.current = Some(self.begin(document)?);
        Ok(Flow::Pause)
    }

    fn holds(&self) -> bool {
        self.current.is_some()
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        let Some(mut current) = self.current.take() else { return Ok(Pause::End) };
        let collection = self.spec.foreign.collection.as_deref();
        let pause = current.read(policy, collection, self.context.memory_bytes)?;
        if pause != Pause::End {
            self.current = Some(current);
            return Ok(pause);
        }
        let joined = self.joined(current.document.as_raw(), &current.found)?;
        if self.spec.compiled.is_some() && self.spec.fields.is_none() {
            self.shared = Some((current.found, current.held));
        }
        out.give(joined.as_raw())?;
        Ok(if policy.should_yield() { Pause::Sliced } else { Pause::End })
    }

    fn save(&mut self) {
        self.current.iter_mut().for_each(|current| current.foreign.save());
    }
}

pub(super) struct UnionStage {
    spec: Arc<UnionSpec>,
    context: PipelineContext,
    /// The foreign documents, once those of the input have been.
    foreign: Option<Box<dyn DocumentSource>>,
}

impl UnionStage {
    pub(super) fn new(spec: &Arc<UnionSpec>, context: &PipelineContext) -> Result<Self, QueryError> {
        if spec.foreign.collection.is_some() {
            reader(context)?;
        }
        Ok(Self { spec: Arc::clone(spec), context: context.clone(), foreign: None })
    }
}

impl Stage for UnionStage {
    fn take(&mut self, document: RawDocument<'_>, out: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        out.give(document)
    }

    fn end(&mut self) -> Result<(), QueryError> {
        let (foreign, environment) = (&self.spec.foreign, &self.context.environment);
        self.foreign = Some(foreign.open(self.spec.compiled.clone(), None, environment, &self.context)?);
        Ok(())
    }

    fn holds(&self) -> bool {
        self.foreign.is_some()
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        let Some(foreign) = &mut self.foreign else { return Ok(Pause::End) };
        let pause = foreign.run(policy, &mut |document| out.give(document))?;
        if pause == Pause::End {
            self.foreign = None;
        }
        Ok(pause)
    }

    fn save(&mut self) {
        self.foreign.iter_mut().for_each(|foreign| foreign.save());
    }
}
