//! From a plan to running stages.

use std::sync::Arc;

use crate::error::QueryError;
use crate::expression::Variables;

use super::bucket::BucketAutoStage;
use super::chain::{Chain, DocumentSource, Running, Stage};
use super::facet::FacetStage;
use super::group::GroupStage;
use super::lookup::{LookupStage, UnionStage};
use super::redact::RedactStage;
use super::simple::{
    CountStage, LimitStage, MatchStage, ProjectStage, ReplaceRootStage, SampleStage, SkipStage,
};
use super::sort::SortStage;
use super::unwind::UnwindStage;
use super::{Pipeline, PipelineContext, StagePlan};

impl Pipeline {
    /// Puts the stages behind `source`.
    ///
    /// # Errors
    /// When a stage needs what the context does not offer.
    pub fn open(
        &self,
        source: Box<dyn DocumentSource>,
        context: &PipelineContext,
    ) -> Result<Box<dyn DocumentSource>, QueryError> {
        if self.stages.is_empty() {
            return Ok(source);
        }
        Ok(Box::new(Running::new(source, self.open_stages(context)?)))
    }

    pub(super) fn open_stages(&self, context: &PipelineContext) -> Result<Chain, QueryError> {
        Chain::open(&self.stages, context)
    }
}

impl StagePlan {
    /// Opens the stage; these are the plans of those `behind` it.
    pub(super) fn open(
        &self,
        behind: &[StagePlan],
        context: &PipelineContext,
    ) -> Result<Box<dyn Stage>, QueryError> {
        let variables = Variables::new();
        Ok(match self {
            StagePlan::Match(filter) => Box::new(MatchStage { filter: Arc::clone(filter) }),
            StagePlan::Project(projection) => {
                Box::new(ProjectStage { projection: Arc::clone(projection), variables, made: Vec::new() })
            }
            StagePlan::Sort { pattern, limit } => Box::new(SortStage::new(pattern, *limit, context)),
            StagePlan::Skip(count) => Box::new(SkipStage { left: *count }),
            StagePlan::Limit(count) => Box::new(LimitStage { left: *count }),
            StagePlan::Count(name) => Box::new(CountStage { name: Arc::clone(name), counted: 0, due: false }),
            StagePlan::Group(spec) => Box::new(GroupStage::new(spec, context)),
            StagePlan::Unwind(spec) => {
                let multiplies =
                    |plan: &StagePlan| matches!(plan, StagePlan::Unwind(_) | StagePlan::Facet(_));
                Box::new(UnwindStage::new(spec, !behind.iter().any(multiplies)))
            }
            StagePlan::Lookup(spec) => Box::new(LookupStage::new(spec, context)?),
            StagePlan::Sample(size) => Box::new(SampleStage::new(*size, context)),
            StagePlan::Facet(spec) => Box::new(FacetStage::new(spec, context)?),
            StagePlan::ReplaceRoot(replace) => {
                Box::new(ReplaceRootStage { replace: Arc::clone(replace), variables })
            }
            StagePlan::Redact(expression) => {
                Box::new(RedactStage { expression: Arc::clone(expression), variables })
            }
            StagePlan::BucketAuto(spec) => Box::new(BucketAutoStage::new(spec, context)),
            StagePlan::UnionWith(spec) => Box::new(UnionStage::new(spec, context)?),
        })
    }
}
