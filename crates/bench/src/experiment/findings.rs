//! What cells yield, in which order they are measured, and how rounds become one figure.

use super::Subject;
use super::column::{CONNECTIONS, Column, ERRORS, FAILED, RATE, STOLEN};
use super::definition::{Comparison, Kind, Side, Statement};
use super::measure::Measured;
use super::trace::Trace;
use crate::error::BenchError;
use crate::generator::Outcome;
use crate::process::MachineTime;
use crate::result::{Table, median, plain};
use std::collections::BTreeMap;

/// One cell in one round.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measurement {
    pub(crate) figures: Vec<(Column, f64)>,
    /// Requests that were answered well, of which errors are counted beside.
    pub(crate) answered: u64,
    /// Failed requests by what was wrong with them.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Why there are no figures.
    pub(crate) failure: Option<String>,
    /// Second by second.
    pub(crate) traces: Vec<Trace>,
    /// Further tables under their titles.
    pub(crate) tables: Vec<(String, Table)>,
}

impl Measurement {
    /// Counts what a group saw.
    pub(crate) fn counting(mut self, outcome: &Outcome) -> Self {
        self.answered += outcome.timed();
        for (what, times) in outcome.errors() {
            *self.errors.entry(what.to_string()).or_default() += times;
        }
        self
    }

    pub(crate) fn with(mut self, figures: impl IntoIterator<Item = (Column, f64)>) -> Self {
        self.figures.extend(figures);
        self
    }

    pub(crate) fn tracing(mut self, traces: impl IntoIterator<Item = Trace>) -> Self {
        self.traces.extend(traces);
        self
    }

    pub(crate) fn figure(&self, column: Column) -> Option<f64> {
        self.figures.iter().find(|(kind, _)| *kind == column).map(|&(_, value)| value)
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// One row of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) kind: &'static Kind,
    pub(crate) connections: usize,
    /// Connections before `--scale` and the machine's limits: what the article's row is found by.
    pub(crate) clients: usize,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        (&self.kind.name, self.connections, self.clients)
            == (&other.kind.name, other.connections, other.clients)
    }
}

/// All rounds of one row under one subject.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) row: Row,
    pub(crate) subject: Subject,
    /// Measurements with the rounds they belong to.
    pub(crate) rounds: Vec<(u32, Measurement)>,
}

impl Cell {
    pub(crate) fn measurements(&self) -> impl Iterator<Item = &Measurement> + Clone {
        self.rounds.iter().map(|(_, measurement)| measurement)
    }

    /// The figure of all rounds; `None` when no round has one.
    pub(crate) fn figure(&self, column: Column) -> Option<f64> {
        let errors: u64 = self.measurements().map(Measurement::error_count).sum();
        match column {
            CONNECTIONS => Some(self.row.connections as f64),
            ERRORS => Some(errors as f64),
            FAILED => {
                let all = errors + self.measurements().map(|round| round.answered).sum::<u64>();
                (all > 0).then(|| 100.0 * errors as f64 / all as f64)
            }
            _ => column.over_rounds(self.measurements().filter_map(|round| round.figure(column))),
        }
    }

    /// Measurements that could not be made.
    pub(crate) fn failures(&self) -> usize {
        self.measurements().filter(|round| round.failure.is_some()).count()
    }
}

/// The median of the ratios, within each round, of the best of some cells to the best of others.
pub(crate) fn ratio(ours: &[&Cell], others: &[&Cell], column: Column) -> Option<f64> {
    let best = |cells: &[&Cell]| {
        let mut best: BTreeMap<u32, f64> = BTreeMap::new();
        for (round, measurement) in cells.iter().flat_map(|cell| &cell.rounds) {
            let Some(figure) = measurement.figure(column) else { continue };
            best.entry(*round).and_modify(|best| *best = best.max(figure)).or_insert(figure);
        }
        best
    };
    let (ours, others) = (best(ours), best(others));
    let ratios = ours.iter().filter_map(|(round, own)| Some(own / others.get(round)?));
    let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    (!ratios.is_empty()).then(|| median(ratios))
}

impl Comparison {
    /// What a cell has in this column, `cells` being those of its kind.
    pub(crate) fn figure(&self, cell: &Cell, cells: &[&Cell]) -> Option<f64> {
        let is_base = |other: &&&Cell| match self.base {
            _ if other.row != cell.row => false,
            Some(subject) => other.subject.name() == subject.name(),
            None => other.subject.is_database(),
        };
        let base: Vec<&Cell> = cells.iter().filter(is_base).copied().collect();
        if self.inverse { ratio(&base, &[cell], RATE) } else { ratio(&[cell], &base, RATE) }
    }
}

impl Side {
    fn cells<'f>(&self, cells: &[&'f Cell]) -> Vec<&'f Cell> {
        let most = cells.iter().map(|cell| (cell.row.connections, cell.row.clients)).max();
        let is_meant = |cell: &&&Cell| {
            let is_row = match self.clients {
                Some(clients) => cell.row.clients == clients,
                None => self.best || Some((cell.row.connections, cell.row.clients)) == most,
            };
            is_row && self.models.iter().any(|model| model.name() == cell.subject.name())
        };
        cells.iter().filter(is_meant).copied().collect()
    }

    fn name(&self) -> String {
        let names: Vec<&str> = self.models.iter().map(|model| model.name()).collect();
        format!("{}{}", if self.best { "the best of " } else { "" }, names.join(" or "))
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// In the order of rows, then of subjects.
    pub(crate) cells: Vec<Cell>,
    pub(crate) interrupted: bool,
}

impl Findings {
    /// Measures every row in every round: the subjects come one after the other, each round beginning with
    /// another one, so that none is always the first on a machine that has cooled down. Progress goes to
    /// standard error. Servers that die or do not come up leave an empty cell; an interrupt ends with what
    /// there is.
    pub(crate) fn gather(
        rows: &[Row],
        subjects: &[Subject],
        rounds: u32,
        measure: &mut dyn FnMut(Row, Subject, u32) -> Measured,
    ) -> Result<Self, BenchError> {
        let cell = |row: &Row, subject: &Subject| Cell { row: *row, subject: *subject, rounds: Vec::new() };
        let cells = rows.iter().flat_map(|row| subjects.iter().map(move |subject| cell(row, subject)));
        let mut findings = Findings { cells: cells.collect(), interrupted: false };
        'rounds: for round in 0..rounds {
            for of_row in findings.cells.chunks_mut(subjects.len().max(1)) {
                let count = of_row.len();
                for place in 0..count {
                    let Some(cell) = of_row.get_mut((place + round as usize) % count) else { continue };
                    let begun = MachineTime::now()?;
                    let measurement = match measure(cell.row, cell.subject, round) {
                        Ok(None) => continue,
                        Ok(Some(measurement)) => {
                            measurement.with([(STOLEN, 100.0 * begun.stolen_until(MachineTime::now()?))])
                        }
                        Err(BenchError::Interrupted) => {
                            findings.interrupted = true;
                            break 'rounds;
                        }
                        Err(error @ (BenchError::Usage(_) | BenchError::Program { .. })) => {
                            return Err(error);
                        }
                        Err(error) => {
                            Measurement { failure: Some(error.to_string()), ..Measurement::default() }
                        }
                    };
                    tell(cell, (round + 1, rounds), &measurement);
                    cell.rounds.push((round, measurement));
                }
            }
        }
        findings.cells.retain(|cell| !cell.rounds.is_empty());
        Ok(findings)
    }

    /// The kinds that were measured.
    pub(crate) fn kinds(&self) -> Vec<&'static Kind> {
        let mut kinds: Vec<&'static Kind> = self.cells.iter().map(|cell| cell.row.kind).collect();
        kinds.dedup_by_key(|kind| &kind.name);
        kinds
    }

    /// The cells of a kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Cell> {
        self.cells.iter().filter(|cell| cell.row.kind.name == kind).collect()
    }

    /// What answers a claim; `None` when what it takes was not measured.
    pub(crate) fn answer(&self, claim: &Statement) -> Option<String> {
        let Statement { column, ours, over, .. } = claim;
        let of_kind = self.of(&claim.kind);
        let cells = ours.cells(&of_kind);
        if let Some(over) = over {
            let ratio = ratio(&cells, &over.cells(&of_kind), *column)?;
            return Some(format!("{} is {} times {}", ours.name(), plain(ratio), over.name()));
        }
        let figure = |cell: &&Cell| Some(format!("{} {}", cell.subject.name(), plain(cell.figure(*column)?)));
        let figures: Vec<String> = cells.iter().filter_map(figure).collect();
        (!figures.is_empty()).then(|| format!("{}: {}", column.name, figures.join(", ")))
    }
}

fn tell(cell: &Cell, (round, rounds): (u32, u32), measurement: &Measurement) {
    let figures = measurement.figures.iter().take(6);
    let mut text: Vec<String> =
        figures.map(|(column, value)| format!("{} {value:.*}", column.name, column.decimals)).collect();
    text.push(match &measurement.failure {
        Some(failure) => failure.clone(),
        None => format!("errors {}", measurement.error_count()),
    });
    let Row { kind, connections, .. } = cell.row;
    let subject = cell.subject.name();
    eprintln!("round {round}/{rounds}  {} {connections} {subject}: {}", kind.name, text.join(", "));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::column::{CONNECTED, LONGEST, P99};
    use super::super::definition::S0;
    use super::*;

    pub(crate) fn row(kind: usize, connections: usize, clients: usize) -> Row {
        Row { kind: &S0.kinds[kind], connections, clients }
    }

    /// A cell of S0's first kind with these rates, a round each.
    pub(crate) fn cell(subject: Subject, connections: usize, rates: &[f64]) -> Cell {
        let measurement = |&rate: &f64| {
            Measurement::default().with([(RATE, rate), (P99, 1e6 / rate), (LONGEST, rate / 2.0)])
        };
        let rounds = (0..).zip(rates.iter().map(measurement)).collect();
        Cell { row: row(0, connections, connections), subject, rounds }
    }

    #[test]
    fn rounds_become_one_figure() {
        let mut cell = cell(Subject::Auto, 5, &[]);
        cell.rounds.push((0, Measurement { failure: Some("it died".into()), ..Measurement::default() }));
        for (round, value) in [(1, 3.0), (2, 9.0), (3, 4.0)] {
            let figures = [(RATE, value), (LONGEST, value), (CONNECTED, value)];
            cell.rounds.push((round, Measurement::default().with(figures)));
        }
        let found = [RATE, LONGEST, CONNECTED, P99].map(|column| cell.figure(column));
        assert_eq!(found, [Some(4.0), Some(9.0), Some(3.0), None]);
    }

    #[test]
    fn errors_are_a_part_of_all_requests() {
        let mut cell = cell(Subject::Auto, 5, &[1.0, 1.0]);
        assert_eq!(cell.figure(FAILED), None);
        cell.rounds[0].1.answered = 70;
        cell.rounds[1].1.errors.insert("Overloaded".into(), 10);
        assert_eq!((cell.figure(ERRORS), cell.figure(FAILED)), (Some(10.0), Some(12.5)));
    }

    const SUBJECTS: [Subject; 2] = [Subject::Reactor, Subject::Coroutine];

    #[test]
    fn subjects_are_interleaved_and_take_turns_at_being_first() {
        let mut order = Vec::new();
        let mut measure = |row: Row, subject: Subject, round| {
            order.push((round, row.connections, subject.name()));
            Ok(None)
        };
        let rows = [row(0, 5, 5), row(1, 9, 9)];
        Findings::gather(&rows, &SUBJECTS, 2, &mut measure).expect("goes on");
        let [one, other] = SUBJECTS.map(Subject::name);
        let expect = [
            [(0, 5, one), (0, 5, other), (0, 9, one), (0, 9, other)],
            [(1, 5, other), (1, 5, one), (1, 9, other), (1, 9, one)],
        ];
        assert_eq!(order, expect.concat());
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured_and_a_server_that_dies_leaves_an_empty_cell() {
        let mut measured = 0;
        let mut measure = |_: Row, _: Subject, _: u32| {
            measured += 1;
            match measured {
                1 => Err(BenchError::Died { name: "server".into(), status: "signal 9".into() }),
                4.. => Err(BenchError::Interrupted),
                _ => Ok(Some(Measurement::default().with([(RATE, 1.0)]))),
            }
        };
        let rows = [row(0, 5, 5), row(1, 9, 9)];
        let findings = Findings::gather(&rows, &SUBJECTS, 5, &mut measure).expect("ends in order");
        assert!(findings.interrupted);
        let failures: usize = findings.cells.iter().map(Cell::failures).sum();
        assert_eq!((failures, findings.cells.len()), (1, 3), "cells without a round are left out");
        assert_eq!(findings.of("slow")[0].figure(RATE), Some(1.0));
    }

    #[test]
    fn ratios_are_to_the_best_of_the_others_round_by_round() {
        let mut few = cell(Subject::Coroutine, 10, &[900.0]);
        few.row.clients = 64;
        let cells = vec![
            few,
            cell(Subject::Coroutine, 19, &[200.0, 300.0, 800.0]),
            cell(Subject::Adaptive, 19, &[100.0, 300.0, 200.0]),
            cell(Subject::Synchronous, 19, &[50.0, 100.0, 400.0]),
        ];
        let findings = Findings { cells, interrupted: false };
        let check = |ours: &Side, over: Option<&Side>, expect: Option<&str>| {
            let (ours, over) = (ours.clone(), over.cloned());
            let (claim, theirs, kind) = (String::new(), String::new(), "fast".to_owned());
            let statement = Statement { claim, theirs, kind, column: RATE, ours, over };
            assert_eq!(findings.answer(&statement).as_deref(), expect, "{statement:?}");
        };
        let most = |models: &[Subject]| Side { models: models.to_vec(), ..Side::default() };
        let best = |models: &[Subject]| Side { best: true, ..most(models) };
        let at = |clients, models: &[Subject]| Side { clients: Some(clients), ..most(models) };
        const COROUTINE: &[Subject] = &[Subject::Coroutine];
        const ADAPTIVE: &[Subject] = &[Subject::Adaptive];
        const THREADS: &[Subject] = &[Subject::Synchronous, Subject::Adaptive];
        let ratio = |side: &dyn Fn(&[Subject]) -> Side, others, expect| {
            check(&side(COROUTINE), Some(&side(others)), expect);
        };
        ratio(&most, ADAPTIVE, Some("coroutine is 2 times adaptive"));
        ratio(&most, THREADS, Some("coroutine is 2 times synchronous or adaptive"));
        ratio(&|models| at(19, models), &THREADS[..1], Some("coroutine is 3 times synchronous"));
        ratio(&best, ADAPTIVE, Some("the best of coroutine is 4 times the best of adaptive"));
        ratio(&|models| at(64, models), ADAPTIVE, None);
        ratio(&|models| at(5, models), ADAPTIVE, None);
        check(&most(THREADS), None, Some("requests/s: adaptive 200, synchronous 100"));
        check(&at(64, THREADS), None, None);
    }
}
