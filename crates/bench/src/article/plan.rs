//! In which order cells are measured, and what was found.

use crate::article::Subject;
use crate::article::figures::{Column, Measurement, STOLEN, over_rounds};
use crate::error::BenchError;
use crate::process::MachineTime;

/// One row of one section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Index of the section.
    pub(crate) section: usize,
    pub(crate) connections: usize,
    /// Connections before `--scale` and the machine's limits: what the article's row is found by.
    pub(crate) clients: usize,
}

impl Row {
    #[cfg(test)]
    pub(crate) const fn of(section: usize, connections: usize) -> Self {
        Row { section, connections, clients: connections }
    }
}

/// One measurement that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) round: u64,
    pub(crate) row: usize,
    pub(crate) subject: usize,
}

/// All visits: every round measures every row, and within a row the subjects come one after the other, each round beginning
/// with another one, so that none is always the first on a machine that has cooled down.
pub(crate) fn visits(rows: usize, subjects: usize, rounds: u64) -> impl Iterator<Item = Visit> {
    (0..rounds).flat_map(move |round| {
        (0..rows).flat_map(move |row| {
            (0..subjects).map(move |place| {
                let subject = (place + round as usize) % subjects;
                Visit { round, row, subject }
            })
        })
    })
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
    pub(crate) fn figure(&self, column: Column) -> Option<f64> {
        let rounds: Vec<Measurement> =
            self.rounds.iter().map(|(_, measurement)| measurement.clone()).collect();
        over_rounds(&rounds, column)
    }

    /// Failed requests of all requests in all rounds; `None` when there were none.
    pub(crate) fn share_of_errors(&self) -> Option<f64> {
        let sum = |of: fn(&Measurement) -> u64| -> u64 {
            self.rounds.iter().map(|(_, measurement)| of(measurement)).sum()
        };
        let errors = sum(Measurement::error_count);
        let all = errors + sum(|measurement| measurement.answered);
        (all > 0).then(|| errors as f64 / all as f64)
    }

    /// The figure of one round.
    pub(crate) fn figure_in(&self, round: u64, column: Column) -> Option<f64> {
        let (_, measurement) = self.rounds.iter().find(|(number, _)| *number == round)?;
        measurement.figure(column)
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
    /// Measures every cell in every round; progress goes to standard error. Servers that die or do not come up leave an
    /// empty cell; an interrupt ends with what there is.
    pub(crate) fn gather(
        rows: &[Row],
        subjects: &[Subject],
        rounds: u64,
        mut measure: impl FnMut(Row, Subject, u64) -> Result<Option<Measurement>, BenchError>,
        name: impl Fn(Row, Subject) -> String,
    ) -> Result<Self, BenchError> {
        let mut findings = Findings::default();
        for &row in rows {
            for &subject in subjects {
                findings.cells.push(Cell { row, subject, rounds: Vec::new() });
            }
        }
        for visit in visits(rows.len(), subjects.len(), rounds) {
            let Some(cell) = findings.cells.get_mut(visit.row * subjects.len() + visit.subject) else {
                continue;
            };
            let begun = MachineTime::now()?;
            let measurement = match measure(cell.row, cell.subject, visit.round) {
                Ok(Some(measurement)) => {
                    measurement.with(STOLEN, 100.0 * begun.stolen_until(MachineTime::now()?))
                }
                Ok(None) => continue,
                Err(BenchError::Interrupted) => {
                    findings.interrupted = true;
                    break;
                }
                Err(error @ (BenchError::Usage(_) | BenchError::Program { .. })) => return Err(error),
                Err(error) => Measurement::failed(&error),
            };
            tell(visit.round + 1, rounds, &name(cell.row, cell.subject), &measurement);
            cell.rounds.push((visit.round, measurement));
        }
        findings.cells.retain(|cell| !cell.rounds.is_empty());
        Ok(findings)
    }

    /// Measurements that could not be made.
    pub(crate) fn failures(&self) -> usize {
        let rounds = self.cells.iter().flat_map(|cell| &cell.rounds);
        rounds.filter(|(_, measurement)| measurement.failure.is_some()).count()
    }

    /// The cells of one section.
    pub(crate) fn section(&self, section: usize) -> Vec<&Cell> {
        self.cells.iter().filter(|cell| cell.row.section == section).collect()
    }
}

fn tell(round: u64, rounds: u64, name: &str, measurement: &Measurement) {
    let figures = measurement.figures.iter().take(6);
    let mut text: Vec<String> =
        figures.map(|(column, value)| format!("{} {value:.*}", column.name, column.decimals)).collect();
    text.push(match &measurement.failure {
        Some(failure) => failure.clone(),
        None => format!("errors {}", measurement.error_count()),
    });
    eprintln!("round {round}/{rounds}  {name}: {}", text.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::article::figures::RATE;

    const SUBJECTS: [Subject; 2] = [Subject::Reactor, Subject::Coroutine];
    const ROWS: [Row; 2] = [Row::of(0, 5), Row::of(1, 9)];

    #[test]
    fn subjects_are_interleaved_and_take_turns_at_being_first() {
        let order: Vec<(u64, usize, usize)> =
            visits(2, 3, 2).map(|visit| (visit.round, visit.row, visit.subject)).collect();
        let expect = [
            [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 1, 2)],
            [(1, 0, 1), (1, 0, 2), (1, 0, 0), (1, 1, 1), (1, 1, 2), (1, 1, 0)],
        ];
        assert_eq!(order, expect.concat());
    }

    #[test]
    fn errors_are_a_part_of_all_requests() {
        let mut measurement = Measurement { answered: 30, ..Measurement::default() };
        measurement.errors.insert("Overloaded".into(), 10);
        let clean = Measurement { answered: 40, ..Measurement::default() };
        let rounds = vec![(0, measurement), (1, clean)];
        let mut cell = Cell { row: Row::of(0, 5), subject: Subject::Reactor, rounds };
        assert_eq!(cell.share_of_errors(), Some(0.125));
        cell.rounds.clear();
        assert_eq!(cell.share_of_errors(), None);
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        let mut measured = 0;
        let measure = |_: Row, _: Subject, _: u64| {
            measured += 1;
            if measured > 3 {
                Err(BenchError::Interrupted)
            } else {
                Ok(Some(Measurement::default().with(RATE, 1.0)))
            }
        };
        let findings =
            Findings::gather(&ROWS, &SUBJECTS, 5, measure, |_, _| String::new()).expect("ends in order");
        assert!(findings.interrupted);
        assert_eq!(findings.cells.len(), 3, "cells without a measurement are left out");
    }

    #[test]
    fn a_server_that_dies_leaves_an_empty_cell() {
        let measure = |row: Row, _: Subject, _: u64| match row.section {
            0 => Err(BenchError::Died { name: "server".into(), status: "signal 9".into() }),
            _ => Ok(Some(Measurement::default().with(RATE, 1.0))),
        };
        let findings = Findings::gather(&ROWS, &SUBJECTS, 1, measure, |_, _| String::new()).expect("goes on");
        assert_eq!((findings.failures(), findings.cells.len()), (2, 4));
        assert_eq!(findings.section(1).first().and_then(|cell| cell.figure(RATE)), Some(1.0));
    }
}
