//! The page of one run.

use crate::result::number::{amount, count};
use crate::result::page::{charts, highlights, page, warning};
use crate::result::table::Table;
use crate::result::{RunResult, describe, figures};
use maud::html as markup;

pub(crate) fn html(result: &RunResult) -> String {
    let total = result.total();
    let highest = [
        ("operations a second", amount(total.rate)),
        ("p50, ms", amount(total.latency.p50_ms)),
        ("p99, ms", amount(total.latency.p99_ms)),
        ("p99.9, ms", amount(total.latency.p999_ms)),
        ("longest, ms", amount(total.latency.max_ms)),
        ("errors", count(total.error_count())),
    ];
    let mut circumstances = describe::configuration(result);
    circumstances.extend(describe::circumstances(result));
    circumstances.extend(describe::machine(result));
    let body = markup! {
        p { (result.workload.description) }
        @if result.interrupted {
            (warning("This run was interrupted; these are the figures until then."))
        }
        @for text in &result.warnings { (warning(text)) }
        (highlights(&highest))
        @if result.repetitions.len() > 1 {
            p { "Over time, repetitions stand one after the other." }
        }
        (charts(&figures::of_run(result)))
        h2 { "Operations" }
        (describe::operations(result))
        @if let Some(errors) = describe::errors(result) {
            h2 { "Errors" }
            (errors)
        }
        @if let Some(repetitions) = describe::repetitions(result) {
            h2 { "Repetitions" }
            p { "Rates and latencies above are medians of these, the longest latency is the longest of all." }
            (repetitions)
        }
        h2 { "Circumstances" }
        (Table::pairs(circumstances))
    };
    page(&format!("{} – workload {}", result.label, result.workload.name), &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::page::tests::check_self_contained;
    use crate::result::sample;

    #[test]
    fn a_page_tells_everything_and_fetches_nothing() {
        let mut result = sample::full();
        result.label = "<i>mine</i>".into();
        let html = html(&result);
        check_self_contained(&html);
        for part in [
            "&lt;i&gt;mine",
            "Half reads",
            "97 % of its core",
            "IngressRequestRateLimitExceeded",
            "99.9 %",
            "Threads of the server",
            "A processor",
            "zipfian 0.99",
        ] {
            assert!(html.contains(part), "'{part}' is missing");
        }
        assert!(!html.contains("<i>"), "a label is text");
    }

    #[test]
    fn a_run_without_results_has_a_page() {
        let result = RunResult { interrupted: true, ..RunResult::default() };
        assert!(html(&result).contains("interrupted"));
    }
}
