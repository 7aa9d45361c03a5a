//! An experiment's results: on the terminal, and as files.

use super::arguments::Settings;
use super::column::{CONNECTIONS, Column, ERRORS, RATE};
use super::definition::{Comparison, Experiment, Kind};
use super::findings::{Cell, Findings, Measurement};
use super::trace::{self, Trace};
use crate::chart::{self, Axis, Line, Panel, Plot, Scale};
use crate::error::BenchError;
use crate::result::{Machine, Place, Table, Tool, save};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// An experiment that was carried out.
#[derive(Debug)]
pub(crate) struct Report<'s> {
    pub(crate) experiment: &'static Experiment,
    pub(crate) settings: &'s Settings,
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
        if let Some(directory) = &self.settings.asked.out {
            self.write(directory, &text)?;
        }
        if self.findings.interrupted {
            return Err(BenchError::Interrupted);
        }
        match self.findings.cells.iter().map(Cell::failures).sum::<usize>() {
            0 => Ok(()),
            failures => Err(BenchError::Usage(format!(
                "{failures} measurement(s) could not be made; the lines below the tables say why"
            ))),
        }
    }

    fn markdown(&self) -> String {
        let (name, machine) = (&self.experiment.name, Machine::here().line());
        let mut text = format!("{name} on {machine}: {}\n", self.settings.line());
        for kind in self.findings.kinds() {
            let cells = self.findings.of(&kind.name);
            let table = table(&cells, &kind.comparisons, &|_, _| None).markdown();
            text.push_str(&format!("\n### {}\n\n{table}", kind.title));
            errors(&cells).iter().for_each(|error| text.push_str(&format!("\n{error}\n")));
            for (title, table) in further_tables(&cells) {
                text.push_str(&format!("\n{title}\n\n{}", table.markdown()));
            }
        }
        if !self.experiment.statements.is_empty() {
            text.push_str(&format!("\n### What the article says\n\n{}", self.statements().markdown()));
        }
        text
    }

    /// The article's statements beside what was measured.
    pub(crate) fn statements(&self) -> Table {
        let mut table = Table::new(["claim", "the article", "here"]);
        table.text_columns = 3;
        table.prose = true;
        for statement in &self.experiment.statements {
            let ours = self.findings.answer(statement).unwrap_or_else(|| "not measured".to_owned());
            table.row([statement.claim.clone(), statement.theirs.clone(), ours]);
        }
        table
    }

    fn write(&self, directory: &Path, text: &str) -> Result<(), BenchError> {
        let name = &self.experiment.name;
        let save = |file: String, text: &str| save(&directory.join(file), text);
        save(format!("{name}.md"), text)?;
        save(format!("{name}.json"), &format!("{:#}\n", self.to_json()))?;
        for kind in self.findings.kinds() {
            let panels = self.charts(kind);
            if !panels.is_empty() {
                save(format!("{name}-{}.svg", kind.name), &chart::file(&panels))?;
            }
        }
        let panels = self.overview();
        if !panels.is_empty() {
            save(format!("{name}.svg"), &chart::file(&panels))?;
        }
        save(format!("{name}.html"), &self.html())
    }

    /// Every figure of every round. Figures are named as in the tables, with their units.
    fn to_json(&self) -> Value {
        let tool = Tool::here();
        let cells: Vec<Value> = self.findings.cells.iter().map(cell_to_json).collect();
        json!({
            "experiment": self.experiment.name, "version": tool.version, "commit": tool.commit,
            "unixTime": crate::workload::unix_milliseconds() / 1_000, "machine": Machine::here(),
            "settings": self.settings.to_json(), "interrupted": self.findings.interrupted, "cells": cells,
        })
    }

    /// The charts of a kind: by number of connections, and over time.
    pub(crate) fn charts(&self, kind: &Kind) -> Vec<Panel> {
        let mut panels = self.sweep(kind);
        panels.extend(trace::panels(&self.findings.of(&kind.name)));
        panels
    }

    /// The charts of a kind by number of connections; none when there are not several.
    fn sweep(&self, kind: &Kind) -> Vec<Panel> {
        let cells = self.findings.of(&kind.name);
        let mut counts: Vec<usize> = cells.iter().map(|cell| cell.row.connections).collect();
        counts.sort_unstable();
        counts.dedup();
        if counts.len() < 2 {
            return Vec::new();
        }
        let counts: Vec<f64> = counts.into_iter().map(|count| count as f64).collect();
        let x = Axis::of("connections", Scale::Logarithmic, counts.iter().copied()).with_ticks(counts);
        kind.charts.iter().map(|&column| lines_of(&kind.title, column, &cells, &x)).collect()
    }

    /// The charts of an experiment whose kinds each have one number of connections: bars for each kind, a bar
    /// for each subject. None when it is another kind of experiment, or has one subject only.
    pub(crate) fn overview(&self) -> Vec<Panel> {
        let kinds = self.findings.kinds();
        let has_one_row = |kind: &&Kind| {
            let cells = self.findings.of(&kind.name);
            cells.iter().all(|cell| cells.first().is_some_and(|first| first.row == cell.row))
        };
        let measured = self.findings.cells.iter().any(|cell| cell.figure(RATE).is_some());
        if kinds.iter().any(|kind| kind.is_long())
            || kinds.len() < 2
            || self.settings.subjects.len() < 2
            || !measured
            || !kinds.iter().all(has_one_row)
        {
            return Vec::new();
        }
        kinds.iter().map(|kind| bars_of(&kind.title, &self.findings.of(&kind.name))).collect()
    }
}

fn cell_to_json(cell: &Cell) -> Value {
    let round = |(round, measurement): &(u32, Measurement)| {
        let figures =
            measurement.figures.iter().map(|(column, value)| (column.name.to_owned(), json!(value)));
        let figures: Map<String, Value> = figures.collect();
        let (errors, failure) = (&measurement.errors, &measurement.failure);
        let mut found = json!({ "round": round, "figures": figures, "errors": errors, "failure": failure });
        if let Value::Object(found) = &mut found
            && !measurement.traces.is_empty()
        {
            found.insert("seconds".to_owned(), measurement.traces.iter().map(Trace::to_json).collect());
        }
        found
    };
    let rounds: Vec<Value> = cell.rounds.iter().map(round).collect();
    json!({
        "kind": cell.row.kind.name, "connections": cell.row.connections, "clients": cell.row.clients,
        "model": cell.subject.name(), "rounds": rounds,
    })
}

/// The lines of all subjects, each by number of connections.
fn lines_of(title: &str, column: Column, cells: &[&Cell], x: &Axis) -> Panel {
    let mut lines: Vec<Line> = Vec::new();
    for cell in cells {
        let (name, colour) = (cell.subject.name(), cell.subject.colour());
        let point = (cell.row.connections as f64, cell.figure(column));
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => {
                let (name, points) = (name.to_owned(), vec![point]);
                lines.push(Line { name, colour, points, marks: true, steps: false });
            }
        }
    }
    for line in &mut lines {
        line.points.retain(|(_, value)| value.is_some());
        line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    let values = lines.iter().flat_map(|line| &line.points).filter_map(|&(_, value)| value);
    // Latencies differ by powers of ten.
    let scale = if column.is_latency() { Scale::Logarithmic } else { Scale::Linear };
    let y = Axis::upright(scale, values);
    Panel { title: format!("{title}: {}", column.name), plot: Plot::Lines { x: x.clone(), y, lines } }
}

fn bars_of(title: &str, cells: &[&Cell]) -> Panel {
    let bar =
        |cell: &&Cell| Some((cell.subject.name().to_owned(), cell.subject.colour(), cell.figure(RATE)?));
    let bars: Vec<_> = cells.iter().filter_map(bar).collect();
    let y = Axis::upright(Scale::Linear, bars.iter().map(|&(.., value)| value));
    Panel { title: format!("{title}: {}", RATE.name), plot: Plot::Bars { y, bars } }
}

/// The table of a kind; `beside` says what is to stand beside our figures.
pub(crate) fn table(
    cells: &[&Cell],
    comparisons: &[Comparison],
    beside: &dyn Fn(&Cell, Column) -> Option<String>,
) -> Table {
    // Every column that some cell has, in the order of their first appearance.
    let mut columns: Vec<Column> = Vec::new();
    for (column, _) in cells.iter().flat_map(|cell| cell.measurements()).flat_map(|round| &round.figures) {
        if !columns.contains(column) {
            columns.push(*column);
        }
    }
    columns.push(ERRORS);
    let mut table = Table::new(["connections", "model"]);
    table.headings.extend(columns.iter().map(|column| column.name.to_owned()));
    table.headings.extend(comparisons.iter().map(|comparison| comparison.heading.clone()));
    table.text_columns = 2;
    for cell in cells {
        let place = |column: Column| {
            let mut text = or_dash(cell.figure(column), column.decimals);
            let failures = cell.failures();
            if column == ERRORS && failures > 0 {
                text.push_str(&format!(", not measured: {failures}"));
            }
            Place { text, beside: beside(cell, column), ..Place::default() }
        };
        let mut places = vec![place(CONNECTIONS), cell.subject.name().into()];
        places.extend(columns.iter().map(|&column| place(column)));
        let ratio = |comparison: &Comparison| or_dash(comparison.figure(cell, cells), 2).into();
        places.extend(comparisons.iter().map(ratio));
        table.row(places);
    }
    table
}

fn or_dash(value: Option<f64>, decimals: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
}

/// What cells tell beside their figures, under titles.
pub(crate) fn further_tables<'c>(cells: &[&'c Cell]) -> Vec<&'c (String, Table)> {
    cells.iter().flat_map(|cell| cell.measurements()).flat_map(|round| &round.tables).collect()
}

/// What went wrong in each cell, a sentence each.
pub(crate) fn errors(cells: &[&Cell]) -> Vec<String> {
    let mut sentences = Vec::new();
    for cell in cells {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for round in cell.measurements() {
            let failure = round.failure.as_ref().map(|failure| (failure, &1));
            for (what, times) in round.errors.iter().chain(failure) {
                *by_name.entry(what).or_default() += times;
            }
        }
        let place = format!("{} at {} connections", cell.subject.name(), cell.row.connections);
        sentences.extend(
            by_name.into_iter().map(|(what, times)| format!("error in {place}: {what} ({times} times)")),
        );
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::super::Subject;
    use super::super::arguments::tests::settings;
    use super::super::definition::S0;
    use super::super::findings::tests::{cell, row};
    use super::*;

    fn report(cells: Vec<Cell>) -> Report<'static> {
        let settings = Box::leak(Box::new(settings(&[])));
        Report { experiment: &S0, settings, findings: Findings { cells, interrupted: false } }
    }

    #[test]
    fn a_chart_names_every_subject_and_follows_the_colour_scheme() {
        let cells = vec![
            cell(Subject::Reactor, 64, &[90_000.0]),
            cell(Subject::Reactor, 1_000, &[70_000.0]),
            cell(Subject::EpollEcho, 64, &[180_000.0]),
            cell(Subject::EpollEcho, 1_000, &[150_000.0]),
        ];
        let report = report(cells);
        let svg = chart::file(&report.sweep(&S0.kinds[0]));
        for part in ["reactor", "epoll-echo", ": requests/s", ": p99 ms", "prefers-color-scheme:dark"] {
            assert!(svg.contains(part), "'{part}' is missing in {svg}");
        }
        assert!(svg.len() < 30_000, "{} bytes are not small", svg.len());
    }

    #[test]
    fn kinds_with_one_row_each_are_bars() {
        let one = report(vec![cell(Subject::Reactor, 64, &[1.0])]);
        assert!(one.sweep(&S0.kinds[0]).is_empty() && one.overview().is_empty());
        let slow = |connections| Cell {
            row: row(1, connections, connections),
            ..cell(Subject::Auto, connections, &[9.0])
        };
        let cells = || vec![cell(Subject::Reactor, 64, &[90_000.0]), slow(64)];
        let svg = chart::file(&report(cells()).overview());
        assert!(svg.contains("Fast: find by _id: requests/s") && svg.contains("Slow: "), "{svg}");
        let sweep = cells().into_iter().chain([slow(65)]).collect();
        assert!(report(sweep).overview().is_empty(), "a sweep has lines instead");
    }

    #[test]
    fn ratios_are_medians_of_the_ratios_of_each_round() {
        let cells = [
            cell(Subject::EpollEcho, 8, &[90_000.0]),
            cell(Subject::EpollEcho, 64, &[1_000.0, 2_000.0, 1_000.0]),
            cell(Subject::Reactor, 64, &[500.0, 1_000.0, 900.0]),
            cell(Subject::Coroutine, 64, &[750.0, 500.0, 900.0]),
        ];
        let cells: Vec<&Cell> = cells.iter().collect();
        let check = |base, inverse, expect: [&str; 4]| {
            let comparisons = [Comparison { heading: "of it".to_owned(), base, inverse }];
            let found = table(&cells, &comparisons, &|_, _| None);
            let last: Vec<&str> = found.rows.iter().map(|row| row[6].text.as_str()).collect();
            assert_eq!(last, expect, "{}", found.markdown());
        };
        check(Some(Subject::EpollEcho), false, ["1.00", "1.00", "0.50", "0.75"]);
        check(None, true, ["–", "0.75", "1.00", "1.00"]);
    }

    #[test]
    fn other_figures_and_errors_stand_beside_and_below() {
        let mut cell = cell(Subject::Auto, 64, &[1_000.0]);
        let beside = |_: &Cell, column: Column| match column {
            CONNECTIONS => Some("70".to_owned()),
            RATE => Some("198k".to_owned()),
            ERRORS => Some("7/s".to_owned()),
            _ => None,
        };
        let found = table(&[&cell], &[], &beside).markdown();
        let row: Vec<&str> = found.lines().last().unwrap_or_default().split('|').map(str::trim).collect();
        assert_eq!(row, ["", "64 (70)", "auto", "1000 (198k)", "1000.00", "500.0", "0 (7/s)", ""]);
        cell.rounds[0].1.errors.insert("Overloaded".into(), 3);
        cell.rounds.push((1, Measurement { failure: Some("it died".into()), ..Measurement::default() }));
        let text = report(vec![cell]).markdown();
        for part in [
            "| 3, not measured: 1 |",
            "error in auto at 64 connections: Overloaded (3 times)",
            "error in auto at 64 connections: it died (1 times)",
            "| synchronous 24,000 of 30,000, adaptive all | not measured |",
        ] {
            assert!(text.contains(part), "'{part}' is missing in {text}");
        }
    }
}
