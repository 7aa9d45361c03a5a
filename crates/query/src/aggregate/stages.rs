//! The one table of stages: name, where it may stand, documentation, parser.

use document::RawValue;

use crate::environment::Environment;
use crate::error::QueryError;

use super::{
    OutputStage, PipelineSource, StagePlan, bucket, facet, group, lookup, output, redact, simple, sort,
    unwind,
};

/// Everything that is known of one stage.
#[derive(Debug)]
pub struct StageEntry {
    /// Its name, with the dollar sign.
    pub name: &'static str,
    /// Where in a pipeline it may stand.
    pub position: StagePosition,
    /// Whether a sub-pipeline of `$facet` may hold it.
    pub in_facet: bool,
    /// One line for the documentation.
    pub documentation: &'static str,
    pub(crate) parse: StageParser,
}

/// Where in a pipeline a stage may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StagePosition {
    /// Anywhere.
    Any,
    /// First only: it is a source.
    First,
    /// Last only: it writes.
    Last,
}

/// The parser of a stage's operand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StageParser {
    /// A stage that becomes one or more plans.
    Plans(fn(RawValue<'_>, &Environment) -> Result<Vec<StagePlan>, QueryError>),
    /// `$documents`.
    Source(fn(RawValue<'_>, &Environment) -> Result<PipelineSource, QueryError>),
    /// A source whose documents `commands` supplies.
    Report,
    /// `$out` and `$merge`.
    Output(fn(RawValue<'_>, &Environment) -> Result<OutputStage, QueryError>),
}

const fn stage(
    name: &'static str,
    parse: fn(RawValue<'_>, &Environment) -> Result<Vec<StagePlan>, QueryError>,
    documentation: &'static str,
) -> StageEntry {
    StageEntry {
        name,
        position: StagePosition::Any,
        in_facet: true,
        documentation,
        parse: StageParser::Plans(parse),
    }
}

const fn report(name: &'static str, documentation: &'static str) -> StageEntry {
    StageEntry {
        name,
        position: StagePosition::First,
        in_facet: false,
        documentation,
        parse: StageParser::Report,
    }
}

const fn writer(
    name: &'static str,
    parse: fn(RawValue<'_>, &Environment) -> Result<OutputStage, QueryError>,
    documentation: &'static str,
) -> StageEntry {
    StageEntry {
        name,
        position: StagePosition::Last,
        in_facet: false,
        documentation,
        parse: StageParser::Output(parse),
    }
}

static STAGES: &[StageEntry] = &[
    stage(
        "$addFields",
        |operand, environment| simple::parse_addition("$addFields", operand, environment),
        "adds or replaces fields with computed values",
    ),
    stage("$bucket", bucket::parse, "groups documents by ranges between given boundaries"),
    stage("$bucketAuto", bucket::parse_auto, "groups documents into a number of ranges of about equal size"),
    StageEntry {
        name: "$changeStream",
        position: StagePosition::First,
        in_facet: false,
        documentation: "yields the changes of a collection; needs a replica set",
        parse: StageParser::Plans(|_, _| {
            let message = "The $changeStream stage is only supported on replica sets";
            Err(QueryError::new(40573, message))
        }),
    },
    report("$collStats", "reports statistics of the collection"),
    stage("$count", simple::parse_count, "yields one document with the number of documents"),
    report("$currentOp", "reports the operations in progress"),
    StageEntry {
        name: "$documents",
        position: StagePosition::First,
        in_facet: false,
        documentation: "yields the documents given in the pipeline itself",
        parse: StageParser::Source(simple::parse_documents),
    },
    StageEntry {
        name: "$facet",
        position: StagePosition::Any,
        in_facet: false,
        documentation: "runs several pipelines on the same documents",
        parse: StageParser::Plans(facet::parse),
    },
    stage("$group", group::parse, "groups documents by a key and accumulates values of each group"),
    report("$indexStats", "reports how often each index of the collection was used"),
    stage("$limit", simple::parse_limit, "yields at most so many documents"),
    report("$listLocalSessions", "reports the sessions this server knows"),
    report("$listSessions", "reports the sessions known to the deployment"),
    stage(
        "$lookup",
        lookup::parse,
        "adds an array of the documents of another collection that belong to each document",
    ),
    stage("$match", simple::parse_match, "yields the documents that a filter lets pass"),
    writer("$merge", output::parse_merge, "merges the documents into a collection"),
    writer("$out", output::parse_out, "replaces a collection by the documents"),
    report("$planCacheStats", "reports the cached query plans of the collection"),
    stage("$project", simple::parse_project, "shows, hides and computes fields"),
    stage("$redact", redact::parse, "cuts documents back, level by level"),
    stage(
        "$replaceRoot",
        simple::parse_replace_root,
        "replaces each document by one it contains or computes",
    ),
    stage(
        "$replaceWith",
        simple::parse_replace_with,
        "replaces each document by one it contains or computes; short for $replaceRoot",
    ),
    stage("$sample", simple::parse_sample, "yields so many documents at random"),
    stage(
        "$set",
        |operand, environment| simple::parse_addition("$set", operand, environment),
        "adds or replaces fields with computed values; the other name of $addFields",
    ),
    stage("$skip", simple::parse_skip, "leaves out so many documents"),
    stage("$sort", sort::parse, "sorts the documents"),
    stage(
        "$sortByCount",
        group::parse_sort_by_count,
        "groups documents by a key and sorts the groups by their size",
    ),
    stage("$unionWith", lookup::parse_union, "adds the documents of another collection"),
    stage("$unset", simple::parse_unset, "removes fields"),
    stage("$unwind", unwind::parse, "yields one document for each item of an array"),
];

/// Every stage, in the order of their names.
pub fn stage_entries() -> &'static [StageEntry] {
    STAGES
}

/// The stage called `name`.
///
/// # Errors
/// 40324 for any other name.
pub(crate) fn stage_entry(name: &str) -> Result<&'static StageEntry, QueryError> {
    STAGES
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| query_error!(40324, "Unrecognized pipeline stage name: '{name}'"))
}
