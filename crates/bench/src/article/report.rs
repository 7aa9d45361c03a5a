//! An experiment's results: on the terminal, and as files.

use crate::article::Settings;
use crate::article::chart::{self, Panel};
use crate::article::figures::RATE;
use crate::article::page;
use crate::article::plan::{Cell, Findings};
use crate::article::statement::{self, Evidence, Statement};
use crate::article::table::{Comparison, markdown};
use crate::chart::Figure;
use crate::error::BenchError;
use crate::result::{Machine, Table, Tool};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is known of an article without measuring.
#[derive(Debug)]
pub(crate) struct Article {
    /// `s0`, `s1`, `s3`: as files are called.
    pub(crate) experiment: &'static str,
    pub(crate) title: &'static str,
    /// What was measured there, and on what.
    pub(crate) about: &'static str,
    /// Whether its table stands in [`crate::article::published`].
    pub(crate) has_table: bool,
    pub(crate) statements: &'static [Statement],
}

impl Article {
    /// As readers know it.
    pub(crate) fn name(&self) -> String {
        self.experiment.to_uppercase()
    }
}

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
    pub(crate) article: &'static Article,
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
            format!("{} on {}: {}\n", self.article.experiment, Machine::here().line(), self.settings.line());
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
        if !self.article.statements.is_empty() {
            text.push_str(&format!("\n### What the article says\n\n{}", self.statements().markdown()));
        }
        text
    }

    /// The article's statements beside what was measured.
    pub(crate) fn statements(&self) -> Table {
        let evidence = Evidence { sections: &self.sections, findings: &self.findings };
        statement::table(self.article.statements, &evidence)
    }

    fn write(&self, directory: &Path, text: &str) -> Result<(), BenchError> {
        let save = |name: String, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).map_err(|error| BenchError::Output {
                path: path.display().to_string(),
                problem: error.to_string(),
            })
        };
        let name = self.article.experiment;
        save(format!("{name}.md"), text)?;
        save(format!("{name}.json"), &format!("{:#}\n", self.to_json()))?;
        for (number, section) in self.sections.iter().enumerate() {
            if let Some(figure) = self.sweep(number, section) {
                save(format!("{name}-{}.svg", section.kind), &figure.file()?)?;
            }
        }
        if let Some(figure) = self.overview() {
            save(format!("{name}.svg"), &figure.file()?)?;
        }
        save(format!("{name}.html"), &page::html(self)?)
    }

    /// A section by number of connections.
    pub(crate) fn sweep(&self, number: usize, section: &Section) -> Option<Figure> {
        chart::by_connections(section.title, section.panels, &self.findings.section(number))
    }

    /// All sections that have one number of connections each.
    pub(crate) fn overview(&self) -> Option<Figure> {
        let sections: Vec<(&str, Vec<&Cell>)> = (0..)
            .zip(&self.sections)
            .map(|(number, section)| (section.title, self.findings.section(number)))
            .collect();
        chart::by_section(RATE, &sections)
    }

    /// Every figure of every round. Figures are named as in the tables, with their units.
    fn to_json(&self) -> Value {
        let tool = Tool::here();
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let cells: Vec<Value> = self.findings.cells.iter().map(|cell| self.cell_to_json(cell)).collect();
        json!({
            "experiment": self.article.experiment, "version": tool.version, "commit": tool.commit, "unixTime": seconds,
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
        json!({ "kind": kind, "connections": cell.row.connections, "clients": cell.row.clients, "model": cell.subject.name(), "rounds": rounds })
    }
}
