//! Moving filters forward, joining neighbours, and handing the front of a pipeline to the planner.

use std::sync::Arc;

use document::{DocumentBuf, DocumentBuilder};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::Dependencies;
use crate::projection::ProjectionMode;

use super::simple::MatchFilter;
use super::{Leading, Pipeline, StagePlan};

impl Pipeline {
    /// Applies what pays: filters move in front of sorts, neighbouring filters, skips and limits become one,
    /// and a limit behind a sort bounds the sort.
    pub(super) fn optimise(&mut self, environment: &Environment) -> Result<(), QueryError> {
        let mut places = Vec::with_capacity(self.stages.len());
        for stage in std::mem::take(&mut self.stages).into_iter().zip(std::mem::take(&mut self.written)) {
            push_joined(&mut places, stage);
        }
        for (place, written) in places {
            self.stages.push(place.into_stage(environment)?);
            self.written.push(written);
        }
        bound_sorts(&mut self.stages);
        Ok(())
    }

    /// Takes off the front what can be done while the collection is read. What is left is to be opened over
    /// that read.
    pub fn take_leading(&mut self) -> Leading {
        let mut leading = Leading::default();
        let mut taken = 0;
        let mut stages = self.stages.iter().peekable();
        if let Some(StagePlan::Match(filter)) = stages.peek() {
            leading.filter = filter.spec.clone();
            stages.next();
            taken += 1;
        }
        let mut sort_limit = None;
        if let Some(StagePlan::Sort { pattern, limit }) = stages.peek() {
            leading.sort = Some(Arc::clone(pattern));
            sort_limit = *limit;
            stages.next();
            taken += 1;
        }
        if let Some(StagePlan::Skip(skip)) = stages.peek() {
            leading.skip = *skip;
            stages.next();
            taken += 1;
        }
        if let Some(StagePlan::Limit(limit)) = stages.peek() {
            leading.limit = Some(*limit);
            taken += 1;
        }
        // A bounded sort keeps its bound even when the limit itself stands further back.
        if let Some(bound) = sort_limit {
            let bound = bound.saturating_sub(leading.skip);
            leading.limit = Some(leading.limit.map_or(bound, |limit| limit.min(bound)));
        }
        self.stages.drain(..taken);
        leading.written_stages = self.written.drain(..taken).sum();
        leading
    }

    /// The dotted paths that are all the stages read of a document; `None` when the whole document may be
    /// needed.
    ///
    /// Asked after [`Pipeline::take_leading`], whose filter and sort are not counted.
    pub fn needed_fields(&self) -> Option<Vec<String>> {
        let mut found = Dependencies::default();
        for stage in &self.stages {
            match stage {
                StagePlan::Skip(_) | StagePlan::Limit(_) | StagePlan::Sample(_) => {}
                StagePlan::Count(_) => return Some(found.paths),
                StagePlan::Sort { pattern, .. } => {
                    pattern.parts().iter().for_each(|part| found.add(part.path.as_str()));
                }
                StagePlan::Unwind(spec) if spec.index_path.is_none() => found.add(spec.path.dotted()),
                StagePlan::Group(spec) => {
                    spec.dependencies(&mut found);
                    return (!found.whole).then_some(found.paths);
                }
                StagePlan::Project(projection) if projection.mode() == ProjectionMode::Inclusion => {
                    projection.needs()?.into_iter().for_each(|path| found.add(path));
                    return Some(found.paths);
                }
                _ => return None,
            }
        }
        None
    }
}

/// A stage, or filters that become one.
enum StageOrFilters {
    Stage(StagePlan),
    Filters(Vec<Arc<MatchFilter>>),
}

impl StageOrFilters {
    fn into_stage(self, environment: &Environment) -> Result<StagePlan, QueryError> {
        match self {
            StageOrFilters::Stage(stage) => Ok(stage),
            StageOrFilters::Filters(filters) => match <[Arc<MatchFilter>; 1]>::try_from(filters) {
                Ok([only]) => Ok(StagePlan::Match(only)),
                // Parsed again once, however many there are.
                Err(filters) => {
                    Ok(StagePlan::Match(Arc::new(MatchFilter::parse(all(&filters), environment)?)))
                }
            },
        }
    }
}

/// Adds a stage, and how many written ones it stands for.
fn push_joined(done: &mut Vec<(StageOrFilters, usize)>, (stage, written): (StagePlan, usize)) {
    let joined = match (stage, done.last_mut()) {
        (StagePlan::Match(filter), Some((StageOrFilters::Stage(StagePlan::Sort { limit: None, .. }), _))) => {
            // The filter may join another one in front of the sort.
            let sort = done.pop();
            push_joined(done, (StagePlan::Match(filter), written));
            return done.extend(sort);
        }
        (StagePlan::Match(filter), Some((StageOrFilters::Filters(before), joined))) => {
            before.push(filter);
            joined
        }
        (StagePlan::Limit(limit), Some((StageOrFilters::Stage(StagePlan::Limit(before)), joined))) => {
            *before = limit.min(*before);
            joined
        }
        (StagePlan::Skip(skip), Some((StageOrFilters::Stage(StagePlan::Skip(before)), joined))) => {
            *before = before.saturating_add(skip);
            joined
        }
        (StagePlan::Match(filter), _) => return done.push((StageOrFilters::Filters(vec![filter]), written)),
        (stage, _) => return done.push((StageOrFilters::Stage(stage), written)),
    };
    *joined += written;
}

/// The filters as one.
fn all(filters: &[Arc<MatchFilter>]) -> DocumentBuf {
    let mut bytes = Vec::with_capacity(filters.iter().map(|filter| filter.spec.len() + 16).sum());
    let mut builder = DocumentBuilder::new(&mut bytes);
    let mut joined = builder.start_array("$and");
    for filter in filters {
        joined.push(filter.spec.as_raw());
    }
    joined.finish();
    builder.finish();
    DocumentBuf::trusted(bytes)
}

/// A sort needs to keep only what the limit behind it, and the skip between them, let through. Stages that
/// change neither number nor order of documents may stand between.
fn bound_sorts(stages: &mut [StagePlan]) {
    for position in 0..stages.len() {
        let Some((StagePlan::Sort { limit, .. }, behind)) =
            stages.get_mut(position..).and_then(|rest| rest.split_first_mut())
        else {
            continue;
        };
        let mut skipped: u64 = 0;
        for stage in behind {
            match stage {
                StagePlan::Skip(skip) => skipped = skipped.saturating_add(*skip),
                StagePlan::Limit(wanted) => {
                    *limit = Some(wanted.saturating_add(skipped));
                    break;
                }
                StagePlan::Project(_) | StagePlan::ReplaceRoot(_) | StagePlan::Lookup(_) => {}
                _ => break,
            }
        }
    }
}
