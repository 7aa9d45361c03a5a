//! What the executor is asked to do.

use super::spill::Spill;
use crate::error::{CommandError, CommandResult, code};
use catalog::CollectionDefinition;
use document::DocumentBuf;
use document::key::SortOrder;
use query::matcher::Matcher;
use query::memory::Memory;
use query::plan::{self, Hint, NeededFields, Plan, PlanRequest, ScanDirection, SortField};
use query::sort::SortPattern;
use std::sync::Arc;

/// One query over one collection.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    /// The filter.
    pub(crate) matcher: Matcher,
    /// The order; empty for any.
    pub(crate) sort: Arc<SortPattern>,
    /// What is read of each document behind the filter. Paths of the sort are added by the executor.
    pub(crate) needs: NeededFields,
    /// The client's choice of index.
    pub(crate) hint: Option<Hint>,
    /// The lowest index key, inclusive.
    pub(crate) min: Option<DocumentBuf>,
    /// The highest index key, exclusive.
    pub(crate) max: Option<DocumentBuf>,
    /// Documents left out in front.
    pub(crate) skip: u64,
    /// Documents wanted at most.
    pub(crate) limit: Option<u64>,
    /// The walk does not end where the collection ends (capped collections).
    pub(crate) tailable: bool,
    /// Bytes that a sort may hold in memory.
    pub(crate) sort_memory_bytes: usize,
    /// What the operation holds.
    pub(crate) memory: Memory,
    /// Where a sort may put what exceeds them.
    pub(crate) spill: Option<Spill>,
    /// A filter that no index serves is refused.
    pub(crate) no_table_scan: bool,
    /// The moment of the operation, at which documents are past their time where such are hidden, in
    /// milliseconds since 1970; `None` sees them all.
    pub(crate) moment_ms: Option<i64>,
}

impl Default for Query {
    fn default() -> Self {
        Query {
            matcher: Matcher::everything(),
            sort: Arc::default(),
            needs: NeededFields::All,
            hint: None,
            min: None,
            max: None,
            skip: 0,
            limit: None,
            tailable: false,
            sort_memory_bytes: query::sort::SortLimits::default().memory_bytes,
            memory: Memory::default(),
            spill: None,
            no_table_scan: false,
            moment_ms: None,
        }
    }
}

impl Query {
    /// Chooses how to run it.
    ///
    /// # Errors
    /// What the planner says about hint, min and max.
    pub(crate) fn plan(&self, definition: &CollectionDefinition) -> CommandResult<Plan> {
        self.with_request(definition, |request| {
            if request.no_table_scan && self.tailable {
                let message = "Running with 'notablescan', so tailable cursors (which always do a table \
                    scan) are not allowed";
                return Err(CommandError::new(code::NO_QUERY_EXECUTION_PLANS, message));
            }
            plan::plan(request).map_err(Into::into)
        })
    }

    /// A plan that meets each value of `path` once, where an index gives one.
    pub(crate) fn plan_distinct(&self, definition: &CollectionDefinition, path: &str) -> Option<Plan> {
        if self.sees_less_of(definition) {
            // The entry of a value does not tell whether its document is hidden.
            return None;
        }
        self.with_request(definition, |request| plan::plan_distinct(request, path))
    }

    /// Whether documents may be hidden from it.
    fn sees_less_of(&self, definition: &CollectionDefinition) -> bool {
        definition.options.hide_expired && self.moment_ms.is_some()
    }

    fn with_request<T>(
        &self,
        definition: &CollectionDefinition,
        choose: impl FnOnce(&PlanRequest<'_>) -> T,
    ) -> T {
        let parts = self.sort.parts().iter();
        let sort: Vec<SortField> = parts
            .map(|part| SortField {
                path: part.path.as_str().to_owned(),
                descending: part.direction == SortOrder::Descending,
            })
            .collect();
        let needs = match self.sees_less_of(definition) {
            // Whether a document is hidden, all of it tells.
            true => NeededFields::All,
            false => self.needs_with_sort(&sort),
        };
        let natural = Hint::Natural(ScanDirection::Forward);
        let hint = if self.tailable { self.hint.as_ref().or(Some(&natural)) } else { self.hint.as_ref() };
        choose(&PlanRequest {
            sort: &sort,
            needs: &needs,
            hint,
            min: self.min.as_ref().map(DocumentBuf::as_raw),
            max: self.max.as_ref().map(DocumentBuf::as_raw),
            no_table_scan: self.no_table_scan
                && !self.matcher.is_everything()
                && !definition.namespace.is_internal(),
            ..PlanRequest::new(&self.matcher, definition.index_descriptions())
        })
    }

    fn needs_with_sort(&self, sort: &[SortField]) -> NeededFields {
        let mut paths = match &self.needs {
            NeededFields::All => return NeededFields::All,
            NeededFields::Nothing if sort.is_empty() => return NeededFields::Nothing,
            NeededFields::Nothing => Vec::new(),
            NeededFields::Only(paths) => paths.clone(),
        };
        for field in sort {
            if !paths.contains(&field.path) {
                paths.push(field.path.clone());
            }
        }
        NeededFields::Only(paths)
    }
}
