//! Tables of cells.

use crate::article::Subject;
use crate::article::figures::{Column, RATE};
use crate::article::plan::Cell;
use crate::report::median;
use crate::result::{Place, Table};
use std::collections::BTreeMap;

/// What rates are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// The same row under this subject.
    Subject(Subject),
    /// The best thread model of the same row.
    BestModel,
}

/// A column of ratios.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) heading: &'static str,
    pub(crate) base: Base,
    /// Base over this instead of this over base.
    pub(crate) inverse: bool,
}

impl Comparison {
    /// The median of the ratios within each round.
    fn ratio(&self, cell: &Cell, section: &[&Cell]) -> Option<f64> {
        let ratios: Vec<f64> = cell
            .rounds
            .iter()
            .filter_map(|(round, measurement)| {
                let own = measurement.figure(RATE)?;
                let base = self.base_rate(cell, section, *round)?;
                let ratio = if self.inverse { base / own } else { own / base };
                ratio.is_finite().then_some(ratio)
            })
            .collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    fn base_rate(&self, cell: &Cell, section: &[&Cell], round: u64) -> Option<f64> {
        let same_row = section.iter().filter(|other| other.row == cell.row);
        match self.base {
            Base::Subject(subject) => {
                same_row.clone().find(|other| other.subject == subject)?.figure_in(round, RATE)
            }
            Base::BestModel => same_row
                .filter(|other| other.subject.is_model())
                .filter_map(|other| other.figure_in(round, RATE))
                .reduce(f64::max),
        }
    }
}

/// The table of a section in Markdown, with the errors by name below it.
pub(crate) fn markdown(section: &[&Cell], comparisons: &[Comparison]) -> String {
    let errors = errors(section).into_iter().map(|error| format!("\n{error}\n"));
    table(section, comparisons, &|_, _| None).markdown() + &errors.collect::<String>()
}

/// Something that is to stand beside a figure, or beside the count of errors when no column is given.
pub(crate) type Beside<'b> = dyn Fn(&Cell, Option<Column>) -> Option<String> + 'b;

/// The table of a section.
pub(crate) fn table(section: &[&Cell], comparisons: &[Comparison], beside: &Beside<'_>) -> Table {
    let columns = columns(section);
    let mut table = Table::new(
        ["connections", "model"]
            .into_iter()
            .chain(columns.iter().map(|column| column.name))
            .chain(["errors"])
            .chain(comparisons.iter().map(|comparison| comparison.heading)),
    );
    table.text_columns = 2;
    for cell in section {
        let place = |text: String, column| Place { text, beside: beside(cell, column), ..Place::default() };
        let mut places: Vec<Place> =
            vec![cell.row.connections.to_string().into(), cell.subject.name().into()];
        places.extend(columns.iter().map(|&column| {
            let figure = cell.figure(column);
            place(figure.map_or("–".to_owned(), |value| format!("{value:.*}", column.decimals)), Some(column))
        }));
        places.push(place(count_of_errors(cell), None));
        places.extend(comparisons.iter().map(|comparison| {
            Place::from(comparison.ratio(cell, section).map_or("–".to_owned(), |ratio| format!("{ratio:.2}")))
        }));
        table.row(places);
    }
    table
}

/// Every column that some cell has, in the order of their first appearance.
fn columns(section: &[&Cell]) -> Vec<Column> {
    let mut columns = Vec::new();
    let all = section.iter().flat_map(|cell| &cell.rounds).flat_map(|(_, measurement)| &measurement.figures);
    for (column, _) in all {
        if !columns.contains(column) {
            columns.push(*column);
        }
    }
    columns
}

/// Failed requests of all rounds, and rounds that could not be measured.
fn count_of_errors(cell: &Cell) -> String {
    let errors: u64 = cell.rounds.iter().map(|(_, measurement)| measurement.error_count()).sum();
    match cell.rounds.iter().filter(|(_, measurement)| measurement.failure.is_some()).count() {
        0 => errors.to_string(),
        failures => format!("{errors}, not measured: {failures}"),
    }
}

/// What went wrong in each cell, a sentence each.
pub(crate) fn errors(section: &[&Cell]) -> Vec<String> {
    let mut sentences = Vec::new();
    for cell in section {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, measurement) in &cell.rounds {
            for (what, times) in &measurement.errors {
                *by_name.entry(what).or_default() += times;
            }
            if let Some(failure) = &measurement.failure {
                *by_name.entry(failure).or_default() += 1;
            }
        }
        for (what, times) in by_name {
            let place = format!("{} at {} connections", cell.subject.name(), cell.row.connections);
            sentences.push(format!("error in {place}: {what} ({times} times)"));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::article::figures::{LONGEST, Measurement};
    use crate::article::plan::Row;

    fn cell(subject: Subject, rates: &[f64]) -> Cell {
        let measurement = |&rate: &f64| Measurement::default().with(RATE, rate).with(LONGEST, rate / 2.0);
        let rounds = (0..).zip(rates.iter().map(measurement)).collect();
        Cell { row: Row { section: 0, connections: 64 }, subject, rounds }
    }

    fn check(comparison: Comparison, expect: &str) {
        let mut other_row = cell(Subject::EpollEcho, &[90_000.0]);
        other_row.row.connections = 8;
        let cells = [
            other_row,
            cell(Subject::EpollEcho, &[1_000.0, 2_000.0, 1_000.0]),
            cell(Subject::Reactor, &[500.0, 1_000.0, 900.0]),
            cell(Subject::Coroutine, &[750.0, 500.0, 900.0]),
        ];
        let table = markdown(&cells.iter().collect::<Vec<_>>(), &[comparison]);
        assert_eq!(table, expect, "found:\n{table}");
    }

    #[test]
    fn ratios_are_medians_of_the_ratios_of_each_round() {
        check(
            Comparison { heading: "of the echo", base: Base::Subject(Subject::EpollEcho), inverse: false },
            "| connections | model | requests/s | max ms | errors | of the echo |\n|---|---|---|---|---|---|\n\
             | 8 | epoll-echo | 90000 | 45000.0 | 0 | 1.00 |\n\
             | 64 | epoll-echo | 1000 | 1000.0 | 0 | 1.00 |\n| 64 | reactor | 900 | 500.0 | 0 | 0.50 |\n\
             | 64 | coroutine | 750 | 450.0 | 0 | 0.75 |\n",
        );
        check(
            Comparison { heading: "of the best", base: Base::BestModel, inverse: true },
            "| connections | model | requests/s | max ms | errors | of the best |\n|---|---|---|---|---|---|\n\
             | 8 | epoll-echo | 90000 | 45000.0 | 0 | – |\n\
             | 64 | epoll-echo | 1000 | 1000.0 | 0 | 0.75 |\n| 64 | reactor | 900 | 500.0 | 0 | 1.00 |\n\
             | 64 | coroutine | 750 | 450.0 | 0 | 1.00 |\n",
        );
    }

    #[test]
    fn other_figures_stand_beside_ours() {
        let cell = cell(Subject::Auto, &[1_000.0]);
        let beside = |_: &Cell, column: Option<Column>| match column {
            Some(RATE) => Some("198k".to_owned()),
            Some(_) => None,
            None => Some("7/s".to_owned()),
        };
        let found = table(&[&cell], &[], &beside).markdown();
        assert!(found.ends_with("| 64 | auto | 1000 (198k) | 500.0 | 0 (7/s) |\n"), "{found}");
    }

    #[test]
    fn errors_and_failures_are_told_below() {
        let mut cell = cell(Subject::Auto, &[1.0]);
        if let Some((_, measurement)) = cell.rounds.first_mut() {
            measurement.errors.insert("Overloaded".into(), 3);
        }
        cell.rounds.push((1, Measurement { failure: Some("it died".into()), ..Measurement::default() }));
        let table = markdown(&[&cell], &[]);
        assert!(table.contains("| 64 | auto | 1 | 0.5 | 3, not measured: 1 |\n"), "{table}");
        assert!(table.contains("error in auto at 64 connections: Overloaded (3 times)"), "{table}");
        assert!(table.contains("error in auto at 64 connections: it died (1 times)"), "{table}");
    }
}
