//! Where results go: always to the terminal, and to the files that are named.

use crate::error::BenchError;
use crate::result::{RunResult, csv, run_page, terminal};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Files that a run can end in.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OutputOptions {
    /// Write everything that was measured to this file, as JSON (docs/bench-report.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the figures of every second to this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with charts to this file; it needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

impl OutputOptions {
    /// Fails when a file could not be written later: nobody wants to learn that after a run.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        [&self.json, &self.csv, &self.html].into_iter().flatten().try_for_each(|path| check_directory(path))
    }
}

/// Prints the result and writes the files that are wanted.
pub(crate) fn finish(result: &RunResult, options: &OutputOptions) -> Result<(), BenchError> {
    print!("{}", terminal::text(result));
    let written = [
        options.json.as_ref().map(|path| save_json(path, result)),
        options.csv.as_ref().map(|path| save(path, &csv::text(result))),
        options.html.as_ref().map(|path| save(path, &run_page::html(result))),
    ];
    written.into_iter().flatten().collect()
}

pub(crate) fn save(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(|error| BenchError::Output {
        path: path.display().to_string(),
        problem: error.to_string(),
    })?;
    eprintln!("written: {}", path.display());
    Ok(())
}

/// The same for what is told in JSON.
pub(crate) fn save_json(path: &Path, value: &impl Serialize) -> Result<(), BenchError> {
    let unusable = |error: serde_json::Error| BenchError::Output {
        path: path.display().to_string(),
        problem: error.to_string(),
    };
    let text = serde_json::to_string(value).map_err(unusable)?;
    save(path, &(text + "\n"))
}

/// Fails when there is no directory for this file.
pub(crate) fn check_directory(path: &Path) -> Result<(), BenchError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match directory.filter(|directory| !directory.is_dir()) {
        None => Ok(()),
        Some(missing) => {
            Err(BenchError::Usage(format!("{}: there is no directory {}", path.display(), missing.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample;

    #[test]
    fn every_file_that_is_wanted_is_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| Some(directory.path().join(name));
        let options = OutputOptions { json: path("run.json"), csv: path("run.csv"), html: path("run.html") };
        options.check().expect("the directory is there");
        finish(&sample::full(), &options).expect("writes");
        let read = |path: Option<PathBuf>| std::fs::read_to_string(path.expect("named")).expect("written");
        assert!(RunResult::from_json(&read(options.json)).expect("a result") == sample::full());
        assert!(read(options.csv).starts_with("repetition,"));
        assert!(read(options.html).starts_with("<!DOCTYPE html>"));
    }

    #[test]
    fn a_missing_directory_is_found_before_the_run() {
        let options = OutputOptions { csv: Some("/nonexistent/run.csv".into()), ..OutputOptions::default() };
        let problem = options.check().expect_err("no such directory").to_string();
        assert_eq!(problem, "/nonexistent/run.csv: there is no directory /nonexistent");
        assert!(matches!(finish(&sample::full(), &options), Err(BenchError::Output { .. })));
        let here = OutputOptions { csv: Some("run.csv".into()), ..OutputOptions::default() };
        assert!(here.check().is_ok());
    }
}
