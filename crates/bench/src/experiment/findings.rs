//! What cells yield, in which order they are measured, and how rounds become one figure.

use super::measure::Measured;
use super::{Comparison, Kind, Subject};
use crate::error::BenchError;
use crate::generator::{Latencies, Outcome};
use crate::process::MachineTime;
use crate::result::{median, plain};
use std::collections::BTreeMap;

/// What a column's figure is of what a group of connections saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// Good requests a second.
    Rate,
    Mean,
    /// The latency that so many of a thousand requests did not exceed.
    PerMille(u16),
    Longest,
    /// Connections that were open when the load began.
    Connected,
    /// Requests that were answered.
    Answered,
    /// Figured out otherwise.
    Other,
}

/// A kind of figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    /// Heading, unit included.
    pub(crate) name: &'static str,
    pub(crate) decimals: usize,
    figure: Figure,
}

impl Column {
    pub(crate) const fn other(name: &'static str, decimals: usize) -> Self {
        Column { name, decimals, figure: Figure::Other }
    }

    pub(crate) const fn rate(name: &'static str) -> Self {
        Column { name, decimals: 0, figure: Figure::Rate }
    }

    pub(crate) const fn p50(name: &'static str) -> Self {
        Column { name, decimals: 2, figure: Figure::PerMille(500) }
    }

    pub(crate) const fn p99(name: &'static str) -> Self {
        Column { name, decimals: 2, figure: Figure::PerMille(990) }
    }

    pub(crate) const fn longest(name: &'static str) -> Self {
        Column { name, decimals: 1, figure: Figure::Longest }
    }

    pub(crate) const fn answered(name: &'static str) -> Self {
        Column { name, decimals: 0, figure: Figure::Answered }
    }

    /// A figure of latencies.
    pub(crate) fn of(self, latencies: &Latencies) -> f64 {
        match self.figure {
            Figure::Mean => latencies.mean_ms(),
            Figure::PerMille(share) => latencies.quantile_ms(f64::from(share) / 1_000.0),
            Figure::Longest => latencies.longest_ms(),
            Figure::Answered => latencies.count() as f64,
            Figure::Rate | Figure::Connected | Figure::Other => f64::NAN,
        }
    }

    /// One figure of several rounds': their median, but the worst of what must not be forgotten.
    fn over_rounds(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        match self.figure {
            Figure::Longest => values.reduce(f64::max),
            Figure::Connected => values.reduce(f64::min),
            _ => Some(values.collect::<Vec<f64>>()).filter(|some| !some.is_empty()).map(median),
        }
    }
}

pub(crate) const RATE: Column = Column::rate("requests/s");
pub(crate) const MEAN: Column = Column { name: "mean ms", decimals: 2, figure: Figure::Mean };
pub(crate) const P50: Column = Column::p50("p50 ms");
pub(crate) const P95: Column = Column { name: "p95 ms", decimals: 2, figure: Figure::PerMille(950) };
pub(crate) const P99: Column = Column::p99("p99 ms");
pub(crate) const LONGEST: Column = Column::longest("max ms");
pub(crate) const CONNECTED: Column = Column { name: "connected", decimals: 0, figure: Figure::Connected };
/// Share of a core that the generator used; near 100 it is itself the limit.
pub(crate) const GENERATOR: Column = Column::other("generator %", 0);
/// Share of the machine's processor time that its host withheld while the cell was measured: where it is
/// high, its figures are low.
const STOLEN: Column = Column::other("stolen %", 1);
/// Connections of the row.
pub(crate) const CONNECTIONS: Column = Column::other("connections", 0);
/// Failed requests of all rounds.
pub(crate) const ERRORS: Column = Column::other("errors", 0);
/// Failed requests of all requests in all rounds.
pub(crate) const FAILED: Column = Column::other("% failed", 1);
/// The columns of S0's table.
pub(crate) const USUAL: &[Column] = &[RATE, MEAN, P95, P99, LONGEST, CONNECTED];

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
    /// What a group saw, in these columns.
    pub(crate) fn of(outcome: &Outcome, columns: &[Column]) -> Self {
        Measurement::default().and(outcome, columns)
    }

    /// The same of one more group.
    pub(crate) fn and(mut self, outcome: &Outcome, columns: &[Column]) -> Self {
        let latencies = outcome.latencies();
        self.figures.extend(columns.iter().map(|&column| {
            let figure = match column.figure {
                Figure::Rate => outcome.rate(),
                Figure::Connected => outcome.connected as f64,
                _ => column.of(&latencies),
            };
            (column, figure)
        }));
        self.answered += latencies.count();
        for (what, times) in outcome.errors() {
            *self.errors.entry(what.to_string()).or_default() += times;
        }
        self
    }

    pub(crate) fn with(mut self, figures: impl IntoIterator<Item = (Column, f64)>) -> Self {
        self.figures.extend(figures);
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

/// Which rows of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The one with the most connections.
    Most,
    /// All, of which the best counts.
    Best,
    /// The one that stands for the article's row of so many clients.
    Clients(usize),
}

/// What a claim is about: these subjects in these rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side(pub(crate) At, pub(crate) &'static [Subject]);

impl Side {
    fn cells<'f>(self, cells: &[&'f Cell]) -> Vec<&'f Cell> {
        let Side(at, subjects) = self;
        let most = cells.iter().map(|cell| (cell.row.connections, cell.row.clients)).max();
        let is_meant = |cell: &&&Cell| {
            let is_row = match at {
                At::Most => Some((cell.row.connections, cell.row.clients)) == most,
                At::Best => true,
                At::Clients(clients) => cell.row.clients == clients,
            };
            is_row && subjects.iter().any(|subject| subject.name() == cell.subject.name())
        };
        cells.iter().filter(is_meant).copied().collect()
    }

    fn name(self) -> String {
        let Side(at, subjects) = self;
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name()).collect();
        let best = if at == At::Best { "the best of " } else { "" };
        format!("{best}{}", names.join(" or "))
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
        kinds.dedup_by_key(|kind| kind.name);
        kinds
    }

    /// The cells of a kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Cell> {
        self.cells.iter().filter(|cell| cell.row.kind.name == kind).collect()
    }

    /// The figures of one side, or, with another side, how many times as much they are; `None` when what it
    /// takes was not measured.
    pub(crate) fn sentence(
        &self,
        kind: &str,
        column: Column,
        ours: Side,
        over: Option<Side>,
    ) -> Option<String> {
        let of_kind = self.of(kind);
        let cells = ours.cells(&of_kind);
        if let Some(over) = over {
            let ratio = ratio(&cells, &over.cells(&of_kind), column)?;
            return Some(format!("{} is {} times {}", ours.name(), plain(ratio), over.name()));
        }
        let figure = |cell: &&Cell| Some(format!("{} {}", cell.subject.name(), plain(cell.figure(column)?)));
        let figures: Vec<String> = cells.iter().filter_map(figure).collect();
        (!figures.is_empty()).then(|| format!("{} {}", figures.join(", "), column.name))
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
    use super::super::s0;
    use super::*;

    pub(crate) fn row(kind: usize, connections: usize, clients: usize) -> Row {
        Row { kind: &s0::EXPERIMENT.kinds[kind], connections, clients }
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
        let check = |ours, over, expect: Option<&str>| {
            let found = findings.sentence("fast", RATE, ours, over);
            assert_eq!(found.as_deref(), expect, "{ours:?} {over:?}");
        };
        const COROUTINE: &[Subject] = &[Subject::Coroutine];
        const ADAPTIVE: &[Subject] = &[Subject::Adaptive];
        const SYNCHRONOUS: &[Subject] = &[Subject::Synchronous];
        const THREADS: &[Subject] = &[Subject::Synchronous, Subject::Adaptive];
        let ratio = |at, others, expect| check(Side(at, COROUTINE), Some(Side(at, others)), expect);
        ratio(At::Most, ADAPTIVE, Some("coroutine is 2 times adaptive"));
        ratio(At::Most, THREADS, Some("coroutine is 2 times synchronous or adaptive"));
        ratio(At::Clients(19), SYNCHRONOUS, Some("coroutine is 3 times synchronous"));
        ratio(At::Best, ADAPTIVE, Some("the best of coroutine is 4 times the best of adaptive"));
        ratio(At::Clients(64), ADAPTIVE, None);
        ratio(At::Clients(5), ADAPTIVE, None);
        check(Side(At::Most, THREADS), None, Some("adaptive 200, synchronous 100 requests/s"));
        check(Side(At::Clients(64), THREADS), None, None);
    }
}
