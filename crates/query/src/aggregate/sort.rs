//! `$sort`.

use std::sync::Arc;

use document::{RawDocument, RawValue};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::sort::{SortLimits, SortPattern, Sorter};

use super::chain::{Downstream, Flow, Pause, Stage, YieldPolicy};
use super::{PipelineContext, StagePlan};

pub(super) fn parse(operand: RawValue<'_>, _: &Environment) -> Result<Vec<StagePlan>, QueryError> {
    let RawValue::Document(spec) = operand else {
        bail!(15973, "the $sort key specification must be an object");
    };
    let pattern = SortPattern::parse(spec)?;
    if pattern.is_empty() {
        bail!(15976, "$sort stage must have at least one sort key");
    }
    Ok(vec![StagePlan::Sort { pattern: Arc::new(pattern), limit: None }])
}

pub(super) struct SortStage {
    sorter: Sorter,
}

impl SortStage {
    pub(super) fn new(pattern: &Arc<SortPattern>, limit: Option<u64>, context: &PipelineContext) -> Self {
        let documents = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let limits = SortLimits { documents, memory_bytes: context.memory_bytes };
        let sorter = Sorter::new(Arc::clone(pattern), limits, context.spill.clone(), &context.memory);
        Self { sorter }
    }
}

impl Stage for SortStage {
    fn take(&mut self, document: RawDocument<'_>, _: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        self.sorter.push(document)
    }

    fn end(&mut self) -> Result<(), QueryError> {
        self.sorter.end();
        Ok(())
    }

    fn holds(&self) -> bool {
        self.sorter.holds()
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        match self.sorter.resume(policy)? {
            Pause::End if self.sorter.has_ended() => out.give_all(policy, || self.sorter.next()),
            pause => Ok(pause),
        }
    }
}
