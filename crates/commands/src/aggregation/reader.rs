//! Opening the sources of a pipeline: collections, views, documents of the pipeline itself, reports.

use super::views;
use crate::context::{CommandContext, check_name};
use crate::error::{CommandError, CommandResult, code};
use crate::exec::{Executor, Query, Spill};
use crate::parameters::Parameter;
use catalog::Catalog;
use document::{Document, DocumentBuf, Value, doc};
use parking_lot::Mutex;
use query::aggregate::{
    DEFAULT_MEMORY_BYTES, DocumentSource, ForeignCollections, ForeignRead, Leading, MaterializedDocuments,
    Pause, Pipeline, PipelineContext, Sink, YieldPolicy,
};
use query::matcher::Matcher;
use query::memory::Memory;
use query::plan::{Hint, NeededFields};
use query::sort::SpillStore;
use query::{Environment, QueryError};
use std::sync::Arc;
use storage::ReadSource;

/// Reads collections and views of one database for one pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    catalog: Arc<Catalog>,
    database: Arc<str>,
    source: SharedSource,
    spill: Option<Spill>,
    sort_memory_bytes: usize,
    stage_memory_bytes: usize,
    no_table_scan: bool,
    memory: Memory,
}

/// What all reads of a pipeline read from, those that are opened later as well. Each batch may have another
/// one.
pub(crate) type SharedSource = Arc<Mutex<ReadSource>>;

/// A read of a collection as the source of a pipeline.
struct CollectionRead {
    executor: Executor,
    source: SharedSource,
    was_put_aside: bool,
}

impl DocumentSource for CollectionRead {
    fn run(&mut self, policy: &mut dyn YieldPolicy, sink: &mut Sink<'_>) -> Result<Pause, QueryError> {
        if std::mem::take(&mut self.was_put_aside) {
            self.executor.read_from(&self.source.lock());
        }
        self.executor.show(policy, sink)
    }

    fn save(&mut self) {
        self.executor.save();
        self.was_put_aside = true;
    }
}

/// A pipeline may hold what so many of its stages may: one that gives what it has gathered, and the next that
/// gathers it.
const HOLDERS: usize = 2;

/// Where the documents of a pipeline come from, when they do not come from a collection.
#[derive(Debug)]
pub(crate) enum Origin<'o> {
    /// A collection, which need not exist.
    Collection(&'o str),
    /// Documents that are there already.
    Documents(Arc<Vec<DocumentBuf>>),
}

impl Reader {
    /// A reader for one command.
    pub(crate) fn new(context: &CommandContext<'_>, source: &ReadSource, allow_disk_use: bool) -> Self {
        let server = context.server;
        let bytes = |parameter| usize::try_from(server.parameters.unsigned(parameter)).unwrap_or(usize::MAX);
        let pool = &server.host.memory_pool;
        // One stage may hold what there is for all of them, and no more.
        let bounded = |parameter| bytes(parameter).min(pool.most());
        let (sort_memory_bytes, stage_memory_bytes) =
            (bounded(Parameter::SortMemory), bounded(Parameter::GroupMemory));
        Reader {
            catalog: Arc::clone(&server.node.catalog),
            database: context.database.into(),
            source: Arc::new(Mutex::new(source.clone())),
            spill: allow_disk_use.then(|| server.node.spill.within(pool)),
            no_table_scan: server.parameters.is_on(Parameter::NoTableScan),
            sort_memory_bytes,
            stage_memory_bytes,
            memory: context.memory(HOLDERS.saturating_mul(stage_memory_bytes.max(sort_memory_bytes))),
        }
    }

    /// What its reads read from.
    pub(crate) const fn source(&self) -> &SharedSource {
        &self.source
    }

    /// Opens a pipeline over its origin; what the executor can do of it, it does.
    ///
    /// # Errors
    /// What planning says, stages that need what is not there.
    pub(crate) fn open(
        &self,
        mut pipeline: Pipeline,
        origin: Origin<'_>,
        hint: Option<Hint>,
        environment: &Arc<Environment>,
    ) -> CommandResult<Box<dyn DocumentSource>> {
        let context = self.context(environment);
        let source: Box<dyn DocumentSource> = match origin {
            Origin::Documents(documents) => Box::new(MaterializedDocuments::new(documents)),
            Origin::Collection(name) => {
                let leading = pipeline.take_leading();
                let matcher = Matcher::parse(leading.filter.as_raw(), environment)?;
                let mut query = self.query(&leading, needs(&pipeline), hint, matcher);
                query.moment_ms = Some(environment.now_ms);
                self.open_collection(name, query)?
            }
        };
        Ok(pipeline.open(source, &context)?)
    }

    fn context(&self, environment: &Arc<Environment>) -> PipelineContext {
        PipelineContext {
            environment: Arc::clone(environment),
            foreign: Some(Arc::new(self.clone())),
            spill: self.spill.clone().map(|spill| -> Arc<dyn SpillStore> { Arc::new(spill) }),
            memory_bytes: self.stage_memory_bytes,
            memory: self.memory.clone(),
            accumulator_bytes: DEFAULT_MEMORY_BYTES,
        }
    }

    fn open_collection(&self, name: &str, query: Query) -> CommandResult<Box<dyn DocumentSource>> {
        check_name(&self.catalog, &self.source.lock(), &self.database, name)?;
        match self.catalog.collection(&self.database, name) {
            Some(collection) => {
                let executor = Executor::open(&self.source.lock(), &collection, query)?;
                let source = Arc::clone(&self.source);
                Ok(Box::new(CollectionRead { executor, source, was_put_aside: false }))
            }
            None => Ok(Box::new(MaterializedDocuments::new(Arc::default()))),
        }
    }

    /// The executor's part of a pipeline.
    pub(super) fn query(
        &self,
        leading: &Leading,
        needs: NeededFields,
        hint: Option<Hint>,
        matcher: Matcher,
    ) -> Query {
        Query {
            matcher,
            sort: leading.sort.clone().unwrap_or_default(),
            needs,
            hint,
            skip: leading.skip,
            limit: leading.limit,
            sort_memory_bytes: self.sort_memory_bytes,
            memory: self.memory.clone(),
            spill: self.spill.clone(),
            no_table_scan: self.no_table_scan,
            ..Query::default()
        }
    }

    fn open_foreign(&self, read: &ForeignRead<'_>) -> CommandResult<Box<dyn DocumentSource>> {
        if let Some(database) = read.database {
            return Err(refuse_database("$lookup", database, read.collection));
        }
        let resolved = views::resolve(&self.catalog, &self.database, read.collection)?;
        if !resolved.is_view() {
            let matcher = match &read.matcher {
                Some(matcher) => matcher.clone(),
                None => Matcher::parse(read.leading.filter.as_raw(), read.environment)?,
            };
            let collection = &resolved.collection;
            let mut query = self.query(read.leading, NeededFields::All, None, matcher);
            query.moment_ms = Some(read.environment.now_ms);
            return self.open_collection(collection, query);
        }
        let mut stages = resolved.stages;
        stages
            .extend(read.matcher.as_ref().map(|matcher| doc! { "$match": (matcher.to_document()) }.to_buf()));
        stages.extend(stages_of(read.leading));
        let environment = Arc::new(read.environment.clone());
        let pipeline = Pipeline::parse_documents(&stages, &environment)?;
        self.open(pipeline, Origin::Collection(&resolved.collection), None, &environment)
    }
}

/// What a pipeline reads of the documents, after its front was taken off.
pub(super) fn needs(pipeline: &Pipeline) -> NeededFields {
    match pipeline.needed_fields() {
        None => NeededFields::All,
        Some(paths) if paths.is_empty() => NeededFields::Nothing,
        Some(paths) => NeededFields::Only(paths),
    }
}

/// A read's filter, order, skip and limit as stages, to be put behind those of a view.
fn stages_of(leading: &Leading) -> Vec<DocumentBuf> {
    let mut stages: Vec<Document> = Vec::new();
    if !leading.filter.is_empty() {
        stages.push(doc! { "$match": (leading.filter.as_raw().to_document()) });
    }
    if let Some(sort) = &leading.sort {
        stages.push(doc! { "$sort": (sort.to_spec().as_raw().to_document()) });
    }
    let count = |number: u64| Value::Int64(i64::try_from(number).unwrap_or(i64::MAX));
    if leading.skip > 0 {
        stages.push(doc! { "$skip": (count(leading.skip)) });
    }
    match leading.limit {
        Some(0) => stages.push(doc! { "$match": { "$alwaysFalse": 1 } }),
        Some(limit) => stages.push(doc! { "$limit": (count(limit)) }),
        None => {}
    }
    stages.iter().map(Document::to_buf).collect()
}

/// The refusal of `{db, coll}` in stages that read: a pipeline reads its own database.
pub(crate) fn refuse_database(stage: &str, database: &str, collection: &str) -> CommandError {
    CommandError::new(
        code::FAILED_TO_PARSE,
        format!(
            "{stage} with syntax {{from: {{db:<>, coll:<>}},..}} is not supported for db: {database} and \
            coll: {collection}"
        ),
    )
}

impl ForeignCollections for Reader {
    fn open(&self, read: ForeignRead<'_>) -> Result<Box<dyn DocumentSource>, QueryError> {
        self.open_foreign(&read).map_err(|error| QueryError::new(error.code, error.message))
    }
}
