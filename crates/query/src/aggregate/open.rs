//! From a plan to running stages.

use std::sync::Arc;

use crate::error::QueryError;
use crate::expression::Variables;

use super::bucket::BucketAutoStage;
use super::facet::FacetStage;
use super::group::GroupStage;
use super::lookup::{LookupStage, UnionStage};
use super::redact::RedactStage;
use super::simple::{
    CountStage, LimitStage, MatchStage, ProjectStage, ReplaceRootStage, SampleStage, SkipStage,
};
use super::sort::SortStage;
use super::unwind::UnwindStage;
use super::{Pipeline, PipelineContext, Stage, StagePlan};

impl Pipeline {
    /// Puts the stages on top of `source`.
    ///
    /// # Errors
    /// When a stage needs what the context does not offer.
    pub fn open(
        &self,
        source: Box<dyn Stage>,
        context: &PipelineContext,
    ) -> Result<Box<dyn Stage>, QueryError> {
        let mut top = source;
        for stage in &self.stages {
            top = open_stage(stage, top, context)?;
        }
        Ok(top)
    }
}

fn open_stage(
    plan: &StagePlan,
    input: Box<dyn Stage>,
    context: &PipelineContext,
) -> Result<Box<dyn Stage>, QueryError> {
    let variables = Variables::new();
    Ok(match plan {
        StagePlan::Match(filter) => Box::new(MatchStage { input, filter: Arc::clone(filter) }),
        StagePlan::Project(projection) => {
            Box::new(ProjectStage { input, projection: Arc::clone(projection), variables })
        }
        StagePlan::Sort { pattern, limit } => Box::new(SortStage::new(input, pattern, *limit, context)?),
        StagePlan::Skip(count) => Box::new(SkipStage { input, left: *count }),
        StagePlan::Limit(count) => Box::new(LimitStage { input, left: *count }),
        StagePlan::Count(name) => {
            Box::new(CountStage { input, name: Arc::clone(name), counted: 0, done: false })
        }
        StagePlan::Group(spec) => Box::new(GroupStage::new(input, spec, context)),
        StagePlan::Unwind(spec) => Box::new(UnwindStage::new(input, spec)),
        StagePlan::Lookup(spec) => Box::new(LookupStage::new(input, spec, context)?),
        StagePlan::Sample(size) => Box::new(SampleStage::new(input, *size, context)),
        StagePlan::Facet(spec) => Box::new(FacetStage::new(input, spec, context)?),
        StagePlan::ReplaceRoot(replace) => {
            Box::new(ReplaceRootStage { input, replace: Arc::clone(replace), variables })
        }
        StagePlan::Redact(expression) => {
            Box::new(RedactStage { input, expression: Arc::clone(expression), variables })
        }
        StagePlan::BucketAuto(spec) => Box::new(BucketAutoStage::new(input, spec, context)),
        StagePlan::UnionWith(spec) => Box::new(UnionStage::new(input, spec, context)?),
    })
}
