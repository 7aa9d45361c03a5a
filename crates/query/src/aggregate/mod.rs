//! Aggregation pipelines: parsed into a plan, opened over a source, run in slices.
//!
//! ```text
//!  [{$match}, {$group}, …] ──▶ parse: one table of stages ──▶ optimise ──▶ Pipeline (immutable, shared)
//!                                                                │ take_leading(): filter, sort, skip, limit
//!            planner and collection (commands)  ◀────────────────┘ for the planner
//!                     │ source: Box<dyn DocumentSource>
//!                     ▼
//!                 open(source, context) ──▶ DocumentSource: source ─lends─▶ stage ─▶ stage ─▶ sink
//! ```
//!
//! * *Source*: something that lends its documents, one after the other, to a sink for as long as a
//!   slice lasts: a walk over a collection, or a whole pipeline. It keeps its place, so that whoever runs it
//!   can check for kills and time limits in between.
//! * *Stage*: takes a document and hands on what it makes of it; what it cannot hand on at once it holds back
//!   (see [`chain`]).
//! * *Blocking* stages ($sort, $group, $bucketAuto, $sample) take all of their input before they hand on a
//!   document. Their memory is limited; $sort, $group and $bucketAuto spill to a [`SpillStore`] when the
//!   caller supplies one.
//! * Foreign collections ($lookup, $unionWith) are read through [`ForeignCollections`], which `commands`
//!   implements.
//! * $out and $merge are parsed here ([`OutputStage`]) and carried out by `commands`.
//!
//! A sub-pipeline with `let` variables is compiled for each document with the variables as constants, so that
//! its filters can be planned with their values.
//!
//! PipelineSource: MongoDB manual, "Aggregation Stages".

mod accumulator;
mod accumulator_parse;
mod bucket;
mod chain;
mod facet;
mod group;
mod lookup;
mod open;
mod optimise;
mod output;
mod parse;
mod ranked;
mod redact;
pub(crate) mod rewrite;
mod simple;
mod sort;
mod stages;
mod unwind;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use document::DocumentBuf;

pub use accumulator_parse::accumulator_names;
pub use chain::{DocumentSource, Flow, Pause, Sink, YieldPolicy};
pub use output::{Destination, OutputStage, WhenMatched, WhenNotMatched};
pub(crate) use parse::{only_field, stage_document};
pub use simple::MaterializedDocuments;
pub use stages::{StageEntry, StagePosition, stage_entries};
pub(crate) use stages::{StageParser, stage_entry};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::matcher::Matcher;
use crate::memory::Memory;
use crate::projection::Projection;
use crate::sort::{SortPattern, SpillStore};

use group::GroupSpec;
use lookup::{LookupSpec, UnionSpec};
use unwind::UnwindSpec;

/// Where a sub-pipeline's documents come from.
pub trait ForeignCollections: Send + Sync {
    /// Opens a read of another collection. A collection that does not exist is empty.
    ///
    /// # Errors
    /// What planning and reading raise.
    fn open(&self, read: ForeignRead<'_>) -> Result<Box<dyn DocumentSource>, QueryError>;
}

/// One read of another collection.
#[derive(Debug)]
pub struct ForeignRead<'a> {
    /// The database, when it is not the one of the aggregate command.
    pub database: Option<&'a str>,
    /// The collection.
    pub collection: &'a str,
    /// What the read has to filter, sort, skip and limit.
    pub leading: &'a Leading,
    /// What it has to filter, compiled: there is nothing of it in `leading` then.
    pub matcher: Option<Matcher>,
    /// The environment of the sub-pipeline: its filter may use these variables in `$expr`.
    pub environment: &'a Environment,
}

/// What a running pipeline may use.
#[derive(Clone)]
pub struct PipelineContext {
    /// The command's clock and variables.
    pub environment: Arc<Environment>,
    /// Reader of foreign collections; without one, $lookup and $unionWith are refused.
    pub foreign: Option<Arc<dyn ForeignCollections>>,
    /// Where to spill (`allowDiskUse`); without it the memory limit is final.
    pub spill: Option<Arc<dyn SpillStore>>,
    /// Bytes that one blocking stage may hold (MongoDB: 100 MB).
    pub memory_bytes: usize,
    /// What all stages hold together, and those of sub-pipelines.
    pub memory: Memory,
    /// Bytes that one accumulator of one group may hold (MongoDB: 100 MB; `internalQueryMaxPushBytes` and its
    /// kin).
    pub accumulator_bytes: usize,
}

/// MongoDB's memory limit of one blocking stage, and of one accumulator, in bytes.
pub const DEFAULT_MEMORY_BYTES: usize = 100 * 1024 * 1024;

impl PipelineContext {
    /// A context without foreign collections and without disk.
    pub fn new(environment: Environment) -> Self {
        Self {
            environment: Arc::new(environment),
            foreign: None,
            spill: None,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            memory: Memory::default(),
            accumulator_bytes: DEFAULT_MEMORY_BYTES,
        }
    }
}

impl std::fmt::Debug for PipelineContext {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PipelineContext")
            .field("environment", &self.environment)
            .field("foreign", &self.foreign.is_some())
            .field("spill", &self.spill.is_some())
            .field("memory_bytes", &self.memory_bytes)
            .field("memory", &self.memory)
            .field("accumulator_bytes", &self.accumulator_bytes)
            .finish()
    }
}

/// What stands at the front of a pipeline and can be done while the collection is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Leading {
    /// All filters at the front as one; empty when there is none.
    pub filter: DocumentBuf,
    /// The order asked for.
    pub sort: Option<Arc<SortPattern>>,
    /// Documents to leave out, after sorting.
    pub skip: u64,
    /// Documents to yield at most, after skipping.
    pub limit: Option<u64>,
    /// How many of the stages that the client wrote this is.
    pub written_stages: usize,
}

/// Where a pipeline's documents come from.
#[derive(Debug, Clone, PartialEq)]
pub enum PipelineSource {
    /// The collection that the command names.
    Collection,
    /// `$documents`: the given documents.
    Documents(Arc<Vec<DocumentBuf>>),
    /// A stage that reports something of the server, such as `$indexStats`; `commands` supplies its
    /// documents.
    Report {
        /// The stage's name, with the dollar sign.
        name: &'static str,
        /// The stage's operand as `{"": operand}`.
        operand: DocumentBuf,
    },
}

/// A parsed and optimised pipeline.
#[derive(Debug, Clone)]
pub struct Pipeline {
    source: PipelineSource,
    stages: Vec<StagePlan>,
    /// How many of the stages that the client wrote each of them stands for.
    written: Vec<usize>,
    output: Option<OutputStage>,
}

/// A parsed stage.
#[derive(Debug, Clone)]
pub(crate) enum StagePlan {
    Match(Arc<simple::MatchFilter>),
    Project(Arc<Projection>),
    Sort { pattern: Arc<SortPattern>, limit: Option<u64> },
    Skip(u64),
    Limit(u64),
    Count(Arc<str>),
    Group(Arc<GroupSpec>),
    Unwind(Arc<UnwindSpec>),
    Lookup(Arc<LookupSpec>),
    Sample(u64),
    Facet(Arc<facet::FacetSpec>),
    ReplaceRoot(Arc<simple::ReplaceRoot>),
    Redact(Arc<crate::expression::Expression>),
    BucketAuto(Arc<bucket::BucketAutoSpec>),
    UnionWith(Arc<UnionSpec>),
}

impl Pipeline {
    /// Where the documents come from.
    pub fn source(&self) -> &PipelineSource {
        &self.source
    }

    /// Where the documents go, when the pipeline ends in `$out` or `$merge`.
    pub fn output(&self) -> Option<&OutputStage> {
        self.output.as_ref()
    }

    /// Whether the pipeline ends in `$out` or `$merge`.
    pub fn writes(&self) -> bool {
        self.output.is_some()
    }

    /// Whether nothing is left to do between source and output.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Every foreign collection that the pipeline reads, as `(database if another one, collection)`.
    pub fn foreign_collections(&self) -> Vec<(Option<String>, String)> {
        let mut found = Vec::new();
        for stage in &self.stages {
            match stage {
                StagePlan::Lookup(spec) => spec.collections(&mut found),
                StagePlan::UnionWith(spec) => spec.collections(&mut found),
                StagePlan::Facet(spec) => spec.collections(&mut found),
                _ => {}
            }
        }
        found
    }
}
