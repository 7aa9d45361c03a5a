//! Updates given as an aggregation pipeline, of the stages that make one document of one.

use document::{DocumentBuf, RawArray, RawDocument};

use crate::aggregate::{StageParser, StagePlan, only_field, stage_document, stage_entry};
use crate::environment::Environment;
use crate::error::{QueryError, code};
use crate::expression::Variables;

/// The stages in their order.
#[derive(Debug)]
pub(super) struct UpdatePipeline {
    stages: Vec<StagePlan>,
}

impl UpdatePipeline {
    pub(super) fn parse(stages: RawArray<'_>, environment: &Environment) -> Result<Self, QueryError> {
        let mut plans = Vec::new();
        for stage in stages.iter() {
            let stage = only_field(stage_document(stage)?)?;
            let name = check_name(stage.name())?;
            if !STAGES.contains(&name) {
                bail!(code::INVALID_OPTIONS, "{name} is not allowed to be used within an update");
            }
            let StageParser::Plans(parse) = stage_entry(name)?.parse else {
                unreachable!("{name} makes no document of a document");
            };
            plans.extend(parse(stage.value(), environment)?);
        }
        Ok(UpdatePipeline { stages: plans })
    }

    /// What the stages make of the document.
    pub(super) fn apply(&self, document: RawDocument<'_>) -> Result<DocumentBuf, QueryError> {
        let mut variables = Variables::new();
        let mut current = document.to_buf();
        for stage in &self.stages {
            current = match stage {
                StagePlan::Project(projection) => {
                    projection.project(current.as_raw(), None, &mut variables)?
                }
                StagePlan::ReplaceRoot(replace) => replace.root_of(current.as_raw(), &mut variables)?,
                other => unreachable!("an update has the stage {other:?}"),
            };
        }
        Ok(current)
    }
}

/// Refuses what is no list of stages, and names of stages that do not exist, whatever the stages say.
pub(super) fn check_names(stages: RawArray<'_>) -> Result<(), QueryError> {
    stages.iter().try_for_each(|stage| {
        let stage = only_field(stage_document(stage)?)?;
        check_name(stage.name()).map(drop)
    })
}

fn check_name(name: &str) -> Result<&str, QueryError> {
    if UNSUPPORTED_STAGES.contains(&name) { Ok(name) } else { Ok(stage_entry(name)?.name) }
}

/// Stages that make one document of one.
const STAGES: &[&str] = &["$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith"];

/// Stages that exist in MongoDB and not here.
const UNSUPPORTED_STAGES: &[&str] = &["$densify", "$fill", "$geoNear", "$graphLookup", "$setWindowFields"];
