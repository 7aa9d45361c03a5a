//! What stands on the terminal after a run.

use crate::result::RunResult;
use crate::result::describe;
use crate::result::table::Table;

/// The result in at most about a hundred columns.
pub(crate) fn text(result: &RunResult) -> String {
    let mut text = format!("\n{}\n", result.label);
    text.push_str(&indented(&Table::pairs(describe::configuration(result)).text()));
    text.push('\n');
    text.push_str(&describe::operations(result).text());
    if let Some(repetitions) = describe::repetitions(result) {
        text.push('\n');
        text.push_str(&repetitions.text());
    }
    if let Some(errors) = describe::errors(result) {
        text.push_str("\nerrors\n");
        text.push_str(&indented(&errors.text()));
    }
    text.push('\n');
    text.push_str(&indented(&Table::pairs(describe::circumstances(result)).text()));
    for warning in &result.warnings {
        text.push_str(&format!("\nwarning: {warning}\n"));
    }
    if result.interrupted {
        text.push_str("\ninterrupted: these are the figures until then\n");
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample;

    #[test]
    fn everything_has_its_place() {
        let found = text(&sample::full());
        let expect = include_str!("terminal_expected.txt");
        assert_eq!(found.trim(), expect.trim(), "found:\n{found}");
        let longest = found.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(100), "a line has {longest:?} columns");
    }

    #[test]
    fn a_quiet_run_has_a_short_text() {
        let mut result = sample::with_rates("quiet", &[1_000.0]);
        result.warnings.clear();
        for repetition in &mut result.repetitions {
            repetition.total.errors.clear();
            repetition.kinds.truncate(1);
            repetition.kinds.iter_mut().for_each(|kind| kind.errors.clear());
        }
        let found = text(&result);
        for part in ["errors\n  ", "warning", "repetition", "total"] {
            assert!(!found.contains(part), "'{part}' has no place in\n{found}");
        }
    }

    #[test]
    fn an_interrupted_run_says_so() {
        let mut result = sample::full();
        result.interrupted = true;
        result.repetitions.clear();
        assert!(text(&result).contains("interrupted: these are the figures until then"));
    }
}
