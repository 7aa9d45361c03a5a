//! `heddle bench compare` and `heddle bench report`: from JSON files to tables and pages.

use crate::error::BenchError;
use crate::result::comparison::Comparison;
use crate::result::output::{OutputOptions, check_directory, finish, save, save_json};
use crate::result::{RunResult, comparison_page};
use clap::Args;
use std::path::PathBuf;

/// `heddle bench compare`: several runs against one of them, with confidence intervals from their
/// repetitions.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// JSON files of runs
    #[arg(required = true, num_args = 2.., value_name = "FILE.json")]
    files: Vec<PathBuf>,
    /// Label or number of the run that the others are compared with; the first one by default
    #[arg(long)]
    base: Option<String>,
    #[command(flatten)]
    output: ComparisonOutput,
}

/// Files that a comparison can end in.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ComparisonOutput {
    /// Write the comparison to this file, as JSON (docs/bench-report.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with charts to this file; it needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// `heddle bench report`: draws the page of a run again.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// JSON file of a run
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    /// Where the page goes; beside the JSON file by default
    #[arg(long, short, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Write the figures of every second to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Compares the files' runs.
pub(crate) fn run_compare(arguments: &CompareArguments) -> Result<(), BenchError> {
    arguments.output.check()?;
    let results: Vec<RunResult> =
        arguments.files.iter().map(|path| RunResult::read(path)).collect::<Result<_, _>>()?;
    compare(&results, arguments.base.as_deref(), &arguments.output)
}

/// Prints a comparison and writes the files that are wanted.
pub(crate) fn compare(
    results: &[RunResult],
    base: Option<&str>,
    output: &ComparisonOutput,
) -> Result<(), BenchError> {
    let comparison = Comparison::new(results, base)?;
    print!("{}", comparison_page::text(&comparison));
    if let Some(path) = &output.json {
        save_json(path, &comparison)?;
    }
    match &output.html {
        Some(path) => save(path, &comparison_page::html(&comparison)),
        None => Ok(()),
    }
}

impl ComparisonOutput {
    /// Fails when a file could not be written later.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        [&self.json, &self.html].into_iter().flatten().try_for_each(|path| check_directory(path))
    }
}

/// Draws a run's page from its JSON file.
pub(crate) fn run_report(arguments: &ReportArguments) -> Result<(), BenchError> {
    let result = RunResult::read(&arguments.file)?;
    let html = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("html"));
    let options = OutputOptions { json: None, csv: arguments.csv.clone(), html: Some(html) };
    options.check()?;
    finish(&result, &options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample;

    #[test]
    fn files_become_pages() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        let files: Vec<PathBuf> = ["a", "b"].map(|name| path(&format!("{name}.json"))).to_vec();
        for file in &files {
            std::fs::write(file, serde_json::to_string(&sample::full()).expect("plain data"))
                .expect("writes");
        }
        let output = ComparisonOutput { json: Some(path("c.json")), html: Some(path("c.html")) };
        run_compare(&CompareArguments { files, base: Some("2".into()), output }).expect("two runs");
        let json = std::fs::read_to_string(path("c.json")).expect("written");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json.get("base"), Some(&1.into()));
        assert!(path("c.html").exists());
        let report = ReportArguments { file: path("a.json"), output: None, csv: Some(path("a.csv")) };
        run_report(&report).expect("a run");
        assert!(path("a.html").exists() && path("a.csv").exists());
    }

    #[test]
    fn a_missing_file_is_named() {
        let report = ReportArguments { file: "/nonexistent.json".into(), output: None, csv: None };
        let problem = run_report(&report).expect_err("no such file").to_string();
        assert!(problem.starts_with("/nonexistent.json: "), "{problem}");
    }
}
