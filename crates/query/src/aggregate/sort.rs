//! `$sort`.

use std::sync::Arc;

use document::RawValue;

use crate::environment::Environment;
use crate::error::QueryError;
use crate::sort::{SortLimits, SortPattern, Sorted, Sorter};

use super::{PipelineContext, Stage, StagePlan, Step};

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
    input: Box<dyn Stage>,
    state: State,
}

enum State {
    Reading(Sorter),
    Writing(Sorted),
    Done,
}

impl SortStage {
    pub(super) fn new(
        input: Box<dyn Stage>,
        pattern: &Arc<SortPattern>,
        limit: Option<u64>,
        context: &PipelineContext,
    ) -> Result<Self, QueryError> {
        let limits = SortLimits {
            documents: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            memory_bytes: context.memory_bytes,
        };
        let runs = context.spill.as_ref().map(|spill| spill.runs()).transpose()?;
        Ok(Self { input, state: State::Reading(Sorter::new(Arc::clone(pattern), limits, runs)) })
    }
}

impl Stage for SortStage {
    fn next(&mut self) -> Result<Step, QueryError> {
        if let State::Reading(sorter) = &mut self.state {
            loop {
                match self.input.next()? {
                    Step::Document(document) => sorter.push_owned(document)?,
                    Step::Yield => return Ok(Step::Yield),
                    Step::End => break,
                }
            }
            if let State::Reading(sorter) = std::mem::replace(&mut self.state, State::Done) {
                self.state = State::Writing(sorter.finish()?);
            }
        }
        match &mut self.state {
            State::Writing(sorted) => Ok(sorted.next()?.map_or(Step::End, Step::Document)),
            _ => Ok(Step::End),
        }
    }
}
