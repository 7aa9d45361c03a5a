//! What a run has done, written into the tree of stages that the planner shows.

use super::executor::Executor;
use super::scan::ScanFigures;
use document::{Document, Value, doc};

/// The `executionStages` of `explain`: the winning plan with the figures of its run.
fn execution_stages(winning: &Document, executor: Option<&Executor>, time_ms: i64) -> Document {
    let mut walk = FigureWriter {
        executor,
        scans: executor.map(Executor::scan_figures).unwrap_or_default().into_iter(),
        time_ms,
    };
    walk.stage(winning)
}

struct FigureWriter<'e> {
    executor: Option<&'e Executor>,
    /// Figures of the scans not met yet, in the order of the plan.
    scans: std::vec::IntoIter<ScanFigures>,
    time_ms: i64,
}

impl FigureWriter<'_> {
    fn stage(&mut self, planned: &Document) -> Document {
        let name = planned.get("stage").and_then(Value::as_str).unwrap_or_default();
        let mut shown = Document::new();
        let own = |field: &str| field == "stage" || field == "filter";
        for (field, value) in planned.iter().filter(|(field, _)| own(field)) {
            shown.push(field, value.clone());
        }
        let is_scan = matches!(
            name,
            "IXSCAN" | "COUNT_SCAN" | "DISTINCT_SCAN" | "COLLSCAN" | "CLUSTERED_IXSCAN" | "IDHACK"
        );
        let sum = self.executor.map(Executor::figures).unwrap_or_default();
        let figures = if is_scan { self.scans.next().unwrap_or_default() } else { sum };
        let returned = match name {
            "IXSCAN" => figures.keys,
            "FETCH" | "OR" => figures.returned,
            _ if is_scan => figures.returned,
            "SORT" => self.executor.map_or(0, |executor| executor.returned() + executor.skipped()),
            "COUNT" | "UPDATE" | "DELETE" => 0,
            _ => self.executor.map_or(0, Executor::returned),
        };
        self.push_common(&mut shown, returned, figures);
        for (field, value) in planned.iter().filter(|(field, _)| !own(field)) {
            match (field, value) {
                ("inputStage", Value::Document(input)) => {
                    push_figures(&mut shown, name, figures, self.executor);
                    shown.push(field, self.stage(input));
                }
                ("inputStages", Value::Array(inputs)) => {
                    let inputs = inputs.iter().filter_map(|input| match input {
                        Value::Document(input) => Some(Value::Document(self.stage(input))),
                        _ => None,
                    });
                    let inputs: Vec<Value> = inputs.collect();
                    shown.push(field, inputs);
                }
                _ => shown.push(field, value.clone()),
            }
        }
        if is_scan {
            push_figures(&mut shown, name, figures, self.executor);
        }
        shown
    }

    fn push_common(&self, shown: &mut Document, returned: u64, figures: ScanFigures) {
        let works = figures.keys.max(figures.documents).max(returned) + 1;
        shown.push("nReturned", number(returned));
        shown.push("executionTimeMillisEstimate", number(self.time_ms.unsigned_abs()));
        shown.push("works", number(works));
        shown.push("advanced", number(returned));
        shown.push("needTime", number(works.saturating_sub(returned + 1)));
        shown.push("needYield", 0);
        shown.push("saveState", 0);
        shown.push("restoreState", 0);
        shown.push("isEOF", 1);
    }
}

/// The figures that only some stages have.
fn push_figures(shown: &mut Document, name: &str, figures: ScanFigures, executor: Option<&Executor>) {
    match name {
        "IXSCAN" | "COUNT_SCAN" | "DISTINCT_SCAN" => {
            shown.push("keysExamined", number(figures.keys));
            shown.push("seeks", number(figures.seeks + 1));
            shown.push("dupsTested", 0);
            shown.push("dupsDropped", 0);
        }
        "IDHACK" => {
            shown.push("keysExamined", number(figures.keys));
            shown.push("docsExamined", number(figures.documents));
        }
        "COLLSCAN" | "CLUSTERED_IXSCAN" => shown.push("docsExamined", number(figures.documents)),
        "FETCH" => {
            shown.push("docsExamined", number(figures.documents));
            shown.push("alreadyHasObj", 0);
        }
        "COUNT" => {
            shown.push("nCounted", number(executor.map_or(0, Executor::returned)));
            shown.push("nSkipped", number(executor.map_or(0, Executor::skipped)));
        }
        "UPDATE" => {
            shown.push("nMatched", number(executor.map_or(0, Executor::returned)));
            shown.push("nWouldModify", number(executor.map_or(0, Executor::returned)));
            shown.push("nWouldUpsert", 0);
        }
        "DELETE" => shown.push("nWouldDelete", number(executor.map_or(0, Executor::returned))),
        "SORT" => {
            let sort = executor.map(Executor::sort_figures).unwrap_or_default();
            shown.push("totalDataSizeSorted", number(sort.bytes as u64));
            shown.push("usedDisk", sort.spilled_runs > 0);
            shown.push("spills", number(sort.spilled_runs as u64));
        }
        _ => {}
    }
}

/// A number as an int32 where it fits.
fn number(count: u64) -> Value {
    match i32::try_from(count) {
        Ok(count) => Value::Int32(count),
        Err(_) => Value::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
    }
}

/// The whole `executionStats`.
pub(crate) fn execution_stats(
    winning: &Document,
    executor: Option<&Executor>,
    counts_only: bool,
    time_ms: i64,
) -> Document {
    let figures = executor.map(Executor::figures).unwrap_or_default();
    let returned = if counts_only { 0 } else { executor.map_or(0, Executor::returned) };
    doc! {
        "executionSuccess": true,
        "nReturned": (number(returned)),
        "executionTimeMillis": (number(time_ms.unsigned_abs())),
        "totalKeysExamined": (number(figures.keys)),
        "totalDocsExamined": (number(figures.documents)),
        "executionStages": (execution_stages(winning, executor, time_ms)),
    }
}
