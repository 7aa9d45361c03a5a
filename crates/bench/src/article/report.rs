//! An experiment's results: on the terminal, and as files.

use crate::article::Settings;
use crate::article::chart::{self, Panel};
use crate::article::figures::RATE;
use crate::article::plan::{Cell, Findings};
use crate::article::published::Published;
use crate::article::table::{Comparison, errors, markdown, table};
use crate::chart::Figure;
use crate::error::BenchError;
use crate::result::{Machine, Page, amount};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// One table of an experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    /// Short name: on the command line, in the JSON file and in names of files.
    pub(crate) kind: &'static str,
    pub(crate) title: &'static str,
    pub(crate) comparisons: &'static [Comparison],
    /// The chart by number of connections, when there are several numbers.
    pub(crate) panels: &'static [Panel],
}

/// An experiment that was carried out.
#[derive(Debug)]
pub(crate) struct Report<'s> {
    /// `s0`, `s1`, `s3`.
    pub(crate) experiment: &'static str,
    pub(crate) settings: &'s Settings,
    pub(crate) sections: Vec<Section>,
    pub(crate) findings: Findings,
}

impl Report<'_> {
    /// Prints the tables and writes the files.
    ///
    /// # Errors
    /// When a file cannot be written, the experiment was interrupted, or a cell could not be measured.
    pub(crate) fn finish(&self) -> Result<(), BenchError> {
        let text = self.markdown();
        print!("{text}");
        if let Some(directory) = &self.settings.out {
            self.write(directory, &text)?;
        }
        if self.findings.interrupted {
            return Err(BenchError::Interrupted);
        }
        match self.findings.failures() {
            0 => Ok(()),
            failures => Err(BenchError::Usage(format!(
                "{failures} measurement(s) could not be made; the lines below the tables say why"
            ))),
        }
    }

    fn markdown(&self) -> String {
        let mut text =
            format!("{} on {}: {}\n", self.experiment, Machine::here().line(), self.settings.line());
        for (number, section) in self.sections.iter().enumerate() {
            let cells = self.findings.section(number);
            if !cells.is_empty() {
                text.push_str(&format!(
                    "\n### {}\n\n{}",
                    section.title,
                    markdown(&cells, section.comparisons)
                ));
            }
        }
        text
    }

    fn write(&self, directory: &Path, text: &str) -> Result<(), BenchError> {
        let save = |name: String, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(|error| BenchError::Output {
                path: path.display().to_string(),
                problem: error.to_string(),
            })
        };
        save(format!("{}.md", self.experiment), text)?;
        save(format!("{}.json", self.experiment), &format!("{:#}\n", self.to_json()))?;
        for (number, section) in self.sections.iter().enumerate() {
            if let Some(figure) = self.sweep(number, section) {
                save(format!("{}-{}.svg", self.experiment, section.kind), &figure.file()?)?;
            }
        }
        if let Some(figure) = self.overview() {
            save(format!("{}.svg", self.experiment), &figure.file()?)?;
        }
        save(format!("{}.html", self.experiment), &self.html()?)
    }

    /// A section by number of connections.
    fn sweep(&self, number: usize, section: &Section) -> Option<Figure> {
        chart::by_connections(section.title, section.panels, &self.findings.section(number))
    }

    /// All sections that have one number of connections each.
    fn overview(&self) -> Option<Figure> {
        let sections: Vec<(&str, Vec<&Cell>)> = (0..)
            .zip(&self.sections)
            .map(|(number, section)| (section.title, self.findings.section(number)))
            .collect();
        chart::by_section(RATE, &sections)
    }

    /// Everything on one page.
    fn html(&self) -> Result<String, BenchError> {
        let mut page = Page::new(&format!("heddle bench article {}", self.experiment));
        page.paragraph(&format!("{}; {}", Machine::here().line(), self.settings.line()));
        if self.findings.interrupted {
            page.warning("The experiment was interrupted; these are the figures until then.");
        }
        let published = Published::of(self.experiment);
        if let Some(explanation) = published.explanation() {
            page.paragraph(explanation);
        }
        page.charts(&self.overview().map(Figure::apart).unwrap_or_default())?;
        for (number, section) in self.sections.iter().enumerate() {
            let cells = self.findings.section(number);
            if cells.is_empty() {
                continue;
            }
            page.heading(section.title);
            page.charts(&self.sweep(number, section).map(Figure::apart).unwrap_or_default())?;
            page.table(&table(&cells, section.comparisons, &|cell, column| {
                let connections = cell.row.connections;
                match column {
                    Some(column) => published
                        .figure(section.kind, connections, cell.subject, column)
                        .map(|figure| format!("{}: {}", self.experiment.to_uppercase(), amount(figure))),
                    None => published
                        .errors(section.kind, connections, cell.subject)
                        .map(|errors| format!("{}: {}/s", self.experiment.to_uppercase(), amount(errors))),
                }
            }));
            let errors = errors(&cells);
            if !errors.is_empty() {
                page.list(&errors);
            }
        }
        Ok(page.html())
    }

    /// Every figure of every round. Figures are named as in the tables, with their units.
    fn to_json(&self) -> Value {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let cells: Vec<Value> = self.findings.cells.iter().map(|cell| self.cell_to_json(cell)).collect();
        json!({
            "experiment": self.experiment, "version": env!("CARGO_PKG_VERSION"), "unixTime": seconds,
            "machine": Machine::here(), "settings": self.settings.to_json(), "interrupted": self.findings.interrupted,
            "cells": cells,
        })
    }

    fn cell_to_json(&self, cell: &Cell) -> Value {
        let kind = self.sections.get(cell.row.section).map_or("", |section| section.kind);
        let rounds: Vec<Value> = cell
            .rounds
            .iter()
            .map(|(round, measurement)| {
                let figures: Map<String, Value> = measurement
                    .figures
                    .iter()
                    .map(|(column, value)| (column.name.to_owned(), json!(value)))
                    .collect();
                json!({ "round": round, "figures": figures, "errors": measurement.errors, "failure": measurement.failure })
            })
            .collect();
        json!({ "kind": kind, "connections": cell.row.connections, "model": cell.subject.name(), "rounds": rounds })
    }
}
