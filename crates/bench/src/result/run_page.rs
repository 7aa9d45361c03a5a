//! The page of one run.

use crate::error::BenchError;
use crate::result::number::{amount, count};
use crate::result::page::Page;
use crate::result::table::Table;
use crate::result::{RunResult, describe, figures};

/// The whole file.
///
/// # Errors
/// When a chart cannot be drawn.
pub(crate) fn html(result: &RunResult) -> Result<String, BenchError> {
    let mut page = Page::new(&format!("{} – workload {}", result.label, result.workload.name));
    page.paragraph(&result.workload.description);
    if result.interrupted {
        page.warning("This run was interrupted; these are the figures until then.");
    }
    for warning in &result.warnings {
        page.warning(warning);
    }
    let total = result.total();
    page.highlights(&[
        ("operations a second", amount(total.rate)),
        ("p50, ms", amount(total.p50_ms)),
        ("p99, ms", amount(total.p99_ms)),
        ("p99.9, ms", amount(total.p999_ms)),
        ("longest, ms", amount(total.max_ms)),
        ("errors", count(total.errors)),
    ]);
    if result.repetitions.len() > 1 {
        page.paragraph("Over time, repetitions stand one after the other.");
    }
    page.charts(&figures::of_run(result))?;
    page.heading("Operations");
    page.table(&describe::operations(result));
    if let Some(errors) = describe::errors(result) {
        page.heading("Errors");
        page.table(&errors);
    }
    if let Some(repetitions) = describe::repetitions(result) {
        page.heading("Repetitions");
        page.paragraph(
            "Rates and latencies above are medians of these, the longest latency is the longest of all.",
        );
        page.table(&repetitions);
    }
    page.heading("Circumstances");
    let mut pairs = describe::configuration(result);
    pairs.extend(describe::circumstances(result));
    pairs.extend(describe::machine(result));
    page.table(&Table::pairs(pairs));
    Ok(page.html())
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
        let html = html(&result).expect("draws");
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
        assert!(html(&result).expect("draws").contains("interrupted"));
    }
}
