//! `$sort`.

use std::sync::Arc;

use document::{RawDocument, RawValue};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::sort::{SortLimits, SortPattern, Sorted, Sorter};

use super::chain::{Downstream, Flow, Pause, Stage, YieldPolicy};
use super::{PipelineContext, StagePlan};

pub(super) fn parse(operand: RawValue<'_>, _: &Environment) -> Result<Vec<StagePlan>, QueryError> {
    let RawValue::Document(spec) = operand else {
        return Err(QueryError::new(15973, "the $sort key specification must be an object"));
    };
    let pattern = SortPattern::parse(spec)?;
    if pattern.is_empty() {
        return Err(QueryError::new(15976, "$sort stage must have at least one sort key"));
    }
    Ok(vec![StagePlan::Sort { pattern: Arc::new(pattern), limit: None }])
}

pub(super) struct SortStage {
    state: SortPhase,
}

enum SortPhase {
    Reading(Sorter),
    Writing(Sorted),
    Done,
}

impl SortStage {
    pub(super) fn new(
        pattern: &Arc<SortPattern>,
        limit: Option<u64>,
        context: &PipelineContext,
    ) -> Result<Self, QueryError> {
        let limits = SortLimits {
            documents: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            memory_bytes: context.memory_bytes,
        };
        let runs = context.spill.as_ref().map(|spill| spill.runs()).transpose()?;
        Ok(Self {
            state: SortPhase::Reading(Sorter::new(Arc::clone(pattern), limits, runs, &context.memory)),
        })
    }
}

impl Stage for SortStage {
    fn take(&mut self, document: RawDocument<'_>, _: &mut Downstream<'_>) -> Result<Flow, QueryError> {
        if let SortPhase::Reading(sorter) = &mut self.state {
            sorter.push(document)?;
        }
        Ok(Flow::More)
    }

    fn end(&mut self) -> Result<(), QueryError> {
        if let SortPhase::Reading(sorter) = std::mem::replace(&mut self.state, SortPhase::Done) {
            self.state = SortPhase::Writing(sorter.finish()?);
        }
        Ok(())
    }

    fn holds(&self) -> bool {
        matches!(self.state, SortPhase::Writing(_))
    }

    fn resume(
        &mut self,
        policy: &mut dyn YieldPolicy,
        out: &mut Downstream<'_>,
    ) -> Result<Pause, QueryError> {
        let SortPhase::Writing(sorted) = &mut self.state else { return Ok(Pause::End) };
        let pause = out.give_all(policy, || sorted.next())?;
        if pause == Pause::End {
            self.state = SortPhase::Done;
        }
        Ok(pause)
    }
}
