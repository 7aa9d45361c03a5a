//! What cells yield, in which order they are measured, and how rounds become one figure.

use super::measure::Measured;
use super::{Kind, Subject};
use crate::error::BenchError;
use crate::generator::Outcome;
use crate::process::MachineTime;
use crate::result::{amount, median};
use std::collections::BTreeMap;

/// How a column's figures of several rounds become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverRounds {
    Median,
    Most,
    Least,
}

/// A kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    /// Heading, unit included.
    pub(crate) name: &'static str,
    pub(crate) decimals: usize,
    over_rounds: OverRounds,
}

impl Column {
    pub(crate) const fn median(name: &'static str, decimals: usize) -> Self {
        Column { name, decimals, over_rounds: OverRounds::Median }
    }

    pub(crate) const fn most(name: &'static str, decimals: usize) -> Self {
        Column { name, decimals, over_rounds: OverRounds::Most }
    }
}

pub(crate) const RATE: Column = Column::median("requests/s", 0);
pub(crate) const MEAN: Column = Column::median("mean ms", 2);
pub(crate) const P50: Column = Column::median("p50 ms", 2);
pub(crate) const P95: Column = Column::median("p95 ms", 2);
pub(crate) const P99: Column = Column::median("p99 ms", 2);
pub(crate) const LONGEST: Column = Column::most("max ms", 1);
/// Connections that were open when the load began.
pub(crate) const CONNECTED: Column =
    Column { name: "connected", decimals: 0, over_rounds: OverRounds::Least };
/// Share of a core that the generator used; near 100 it is itself the limit.
pub(crate) const GENERATOR: Column = Column::median("generator %", 0);
/// Share of the machine's processor time that its host withheld while the cell was measured: where it is
/// high, its figures are low.
const STOLEN: Column = Column::median("stolen %", 1);

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
}

impl Measurement {
    /// The columns of S0's table.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let latencies = outcome.latencies();
        let figures = vec![
            (RATE, outcome.rate()),
            (MEAN, latencies.mean_ms()),
            (P95, latencies.quantile_ms(0.95)),
            (P99, latencies.quantile_ms(0.99)),
            (LONGEST, latencies.longest_ms()),
            (CONNECTED, outcome.connected as f64),
        ];
        Measurement::default().with_all(figures).counting([outcome])
    }

    pub(crate) fn with(self, column: Column, value: f64) -> Self {
        self.with_all([(column, value)])
    }

    pub(crate) fn with_all(mut self, figures: impl IntoIterator<Item = (Column, f64)>) -> Self {
        self.figures.extend(figures);
        self
    }

    /// Leaves out a figure that says nothing here.
    pub(crate) fn without(mut self, column: Column) -> Self {
        self.figures.retain(|(kept, _)| *kept != column);
        self
    }

    /// Adds the requests of runs.
    pub(crate) fn counting<'o>(mut self, outcomes: impl IntoIterator<Item = &'o Outcome>) -> Self {
        for outcome in outcomes {
            self.answered += outcome.timed();
            for (what, times) in outcome.errors() {
                *self.errors.entry(what.to_string()).or_default() += times;
            }
        }
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
        (self.kind.name, self.connections, self.clients)
            == (other.kind.name, other.connections, other.clients)
    }
}

/// All rounds of one row under one subject.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) row: Row,
    pub(crate) subject: Subject,
    /// Measurements with the rounds they belong to.
    pub(crate) rounds: Vec<(u64, Measurement)>,
}

impl Cell {
    pub(crate) fn measurements(&self) -> impl Iterator<Item = &Measurement> + Clone {
        self.rounds.iter().map(|(_, measurement)| measurement)
    }

    /// The figure of all rounds; `None` when no round has one.
    pub(crate) fn figure(&self, column: Column) -> Option<f64> {
        let values = self.measurements().filter_map(|round| round.figure(column));
        match column.over_rounds {
            OverRounds::Median => {
                Some(values.collect::<Vec<f64>>()).filter(|some| !some.is_empty()).map(median)
            }
            OverRounds::Most => values.reduce(f64::max),
            OverRounds::Least => values.reduce(f64::min),
        }
    }

    /// Failed requests of all requests in all rounds; `None` when there were none.
    pub(crate) fn share_of_errors(&self) -> Option<f64> {
        let errors: u64 = self.measurements().map(Measurement::error_count).sum();
        let all = errors + self.measurements().map(|round| round.answered).sum::<u64>();
        (all > 0).then(|| errors as f64 / all as f64)
    }

    /// The median of the ratios to the best of others, or the other way round, within each round.
    pub(crate) fn ratio_to(&self, others: &[&Cell], column: Column, inverse: bool) -> Option<f64> {
        let in_round = |cell: &Cell, round: u64| {
            let (_, measurement) = cell.rounds.iter().find(|(number, _)| *number == round)?;
            measurement.figure(column)
        };
        let ratio = |(round, measurement): &(u64, Measurement)| {
            let own = measurement.figure(column)?;
            let base = others.iter().filter_map(|cell| in_round(cell, *round)).reduce(f64::max)?;
            Some(if inverse { base / own } else { own / base }).filter(|ratio| ratio.is_finite())
        };
        let ratios: Vec<f64> = self.rounds.iter().filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }
}

/// Which row of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The one with the most connections.
    Most,
    /// The one that stands for the article's row of so many clients.
    Clients(usize),
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
        rounds: u64,
        measure: &mut dyn FnMut(Row, Subject, u64) -> Measured,
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
                            measurement.with(STOLEN, 100.0 * begun.stolen_until(MachineTime::now()?))
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

    /// Measurements that could not be made.
    pub(crate) fn failures(&self) -> usize {
        self.cells.iter().flat_map(Cell::measurements).filter(|round| round.failure.is_some()).count()
    }

    /// The kinds that were measured.
    pub(crate) fn kinds(&self) -> Vec<&'static Kind> {
        let mut kinds: Vec<&'static Kind> = self.cells.iter().map(|cell| cell.row.kind).collect();
        kinds.dedup_by_key(|kind| kind.name);
        kinds
    }

    /// The cells of a kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Cell> {
        self.cells.iter().filter(|cell| cell.row.kind.name == kind).collect()
    }

    /// A subject's cell in one row of a kind.
    pub(crate) fn cell(&self, kind: &str, at: At, subject: Subject) -> Option<&Cell> {
        let cells = self.of(kind);
        let rows = cells.iter().map(|cell| cell.row);
        let row = match at {
            At::Most => rows.max_by_key(|row| (row.connections, row.clients)),
            At::Clients(clients) => rows.clone().find(|row| row.clients == clients),
        }?;
        cells.into_iter().find(|cell| cell.row == row && cell.subject.name() == subject.name())
    }

    /// The highest figure of a subject among all rows of a kind.
    pub(crate) fn best(&self, kind: &str, subject: Subject, column: Column) -> Option<f64> {
        let own = self.of(kind).into_iter().filter(|cell| cell.subject.name() == subject.name());
        own.filter_map(|cell| cell.figure(column)).reduce(f64::max)
    }

    /// One subject over the best of others in one row.
    pub(crate) fn ratio(
        &self,
        kind: &str,
        at: At,
        over: Subject,
        others: &[Subject],
        column: Column,
    ) -> Option<f64> {
        let others: Vec<&Cell> = others.iter().filter_map(|other| self.cell(kind, at, *other)).collect();
        self.cell(kind, at, over)?.ratio_to(&others, column, false)
    }
}

/// A ratio in words.
pub(crate) fn times(ratio: f64, of: &str) -> String {
    format!("{} times {of}", amount(ratio))
}

fn tell(cell: &Cell, (round, rounds): (u64, u64), measurement: &Measurement) {
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
    use super::super::s0;
    use super::*;

    pub(crate) fn row(kind: usize, connections: usize, clients: usize) -> Row {
        Row { kind: &s0::EXPERIMENT.kinds[kind], connections, clients }
    }

    /// A cell of S0's first kind with these rates, a round each.
    pub(crate) fn cell(subject: Subject, connections: usize, rates: &[f64]) -> Cell {
        let measurement = |&rate: &f64| {
            Measurement::default().with_all([(RATE, rate), (P99, 1e6 / rate), (LONGEST, rate / 2.0)])
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
            cell.rounds.push((round, Measurement::default().with_all(figures)));
        }
        let found = [RATE, LONGEST, CONNECTED, P99].map(|column| cell.figure(column));
        assert_eq!(found, [Some(4.0), Some(9.0), Some(3.0), None]);
    }

    #[test]
    fn errors_are_a_part_of_all_requests() {
        let mut cell = cell(Subject::Auto, 5, &[1.0, 1.0]);
        assert_eq!(cell.share_of_errors(), None);
        cell.rounds[0].1.answered = 70;
        cell.rounds[1].1.errors.insert("Overloaded".into(), 10);
        assert_eq!(cell.share_of_errors(), Some(0.125));
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
        let mut measure = |_: Row, _: Subject, _: u64| {
            measured += 1;
            match measured {
                1 => Err(BenchError::Died { name: "server".into(), status: "signal 9".into() }),
                4.. => Err(BenchError::Interrupted),
                _ => Ok(Some(Measurement::default().with(RATE, 1.0))),
            }
        };
        let rows = [row(0, 5, 5), row(1, 9, 9)];
        let findings = Findings::gather(&rows, &SUBJECTS, 5, &mut measure).expect("ends in order");
        assert!(findings.interrupted);
        assert_eq!((findings.failures(), findings.cells.len()), (1, 3), "cells without a round are left out");
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
        let check = |at, others: &[Subject], expect| {
            let found = findings.ratio("fast", at, Subject::Coroutine, others, RATE);
            assert_eq!(found, expect, "{at:?} {others:?}");
        };
        check(At::Most, &[Subject::Adaptive], Some(2.0));
        check(At::Most, &[Subject::Synchronous, Subject::Adaptive], Some(2.0));
        check(At::Clients(19), &[Subject::Synchronous], Some(3.0));
        check(At::Clients(64), &[Subject::Adaptive], None);
        check(At::Clients(5), &[Subject::Adaptive], None);
        assert_eq!(findings.best("fast", Subject::Coroutine, RATE), Some(900.0));
        assert_eq!(findings.best("slow", Subject::Coroutine, RATE), None);
    }
}
