//! What the articles say besides tables, and what was measured here beside it.

use crate::article::Subject;
use crate::article::figures::Column;
use crate::article::plan::{Cell, Findings};
use crate::article::report::Section;
use crate::report::median;
use crate::result::{Place, Table, amount};

/// One claim of an article.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement {
    pub(crate) claim: &'static str,
    /// The article's figure.
    pub(crate) theirs: &'static str,
    /// Ours; `None` when what it takes was not measured.
    pub(crate) ours: fn(&Evidence<'_>) -> Option<String>,
}

/// What statements are held against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'e> {
    pub(crate) sections: &'e [Section],
    pub(crate) findings: &'e Findings,
}

/// Which row of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The one with the most connections.
    Most,
    /// The one that stands for the article's row of so many clients.
    Clients(usize),
}

impl<'e> Evidence<'e> {
    /// The cells of a kind.
    pub(crate) fn cells(&self, kind: &str) -> Vec<&'e Cell> {
        let section = self.sections.iter().position(|section| section.kind == kind);
        section.map_or_else(Vec::new, |section| self.findings.section(section))
    }

    /// A subject's cell in one row of a kind.
    pub(crate) fn cell(&self, kind: &str, at: At, subject: Subject) -> Option<&'e Cell> {
        let cells = self.cells(kind);
        let row = match at {
            At::Most => cells.iter().map(|cell| cell.row).max_by_key(|row| (row.connections, row.clients)),
            At::Clients(clients) => cells.iter().map(|cell| cell.row).find(|row| row.clients == clients),
        }?;
        cells.into_iter().find(|cell| cell.row == row && cell.subject.name() == subject.name())
    }

    /// The highest figure of a subject among all rows of a kind.
    pub(crate) fn best(&self, kind: &str, subject: Subject, column: Column) -> Option<f64> {
        let own = self.cells(kind).into_iter().filter(|cell| cell.subject.name() == subject.name());
        own.filter_map(|cell| cell.figure(column)).reduce(f64::max)
    }

    /// One subject over the best of others in one row: the median of the ratios within each round.
    pub(crate) fn ratio(
        &self,
        kind: &str,
        at: At,
        over: Subject,
        others: &[Subject],
        column: Column,
    ) -> Option<f64> {
        let own = self.cell(kind, at, over)?;
        let others: Vec<&Cell> = others.iter().filter_map(|other| self.cell(kind, at, *other)).collect();
        let in_round = |round: u64| {
            let base = others.iter().filter_map(|cell| cell.figure_in(round, column)).reduce(f64::max)?;
            Some(own.figure_in(round, column)? / base)
        };
        let ratios: Vec<f64> = own.rounds.iter().filter_map(|(round, _)| in_round(*round)).collect();
        let ratios: Vec<f64> = ratios.into_iter().filter(|ratio| ratio.is_finite()).collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }
}

/// The table of the statements.
pub(crate) fn table(statements: &[Statement], evidence: &Evidence<'_>) -> Table {
    let mut table = Table::new(["claim", "the article", "here"]);
    table.text_columns = 3;
    table.prose = true;
    for statement in statements {
        let ours = (statement.ours)(evidence).unwrap_or_else(|| "not measured".to_owned());
        table.row([Place::from(statement.claim), statement.theirs.into(), ours.into()]);
    }
    table
}

/// A ratio in words.
pub(crate) fn times(ratio: f64, of: &str) -> String {
    format!("{} times {of}", amount(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::article::figures::{Measurement, RATE};
    use crate::article::plan::Row;

    const SECTION: Section = Section { kind: "fast", title: "Fast", comparisons: &[], panels: &[] };

    fn cell(subject: Subject, connections: usize, clients: usize, rates: &[f64]) -> Cell {
        let measurement = |&rate: &f64| Measurement::default().with(RATE, rate);
        let rounds = (0..).zip(rates.iter().map(measurement)).collect();
        Cell { row: Row { section: 0, connections, clients }, subject, rounds }
    }

    fn findings() -> Findings {
        let cells = vec![
            cell(Subject::Coroutine, 10, 64, &[900.0]),
            cell(Subject::Coroutine, 19, 1_000, &[200.0, 300.0, 800.0]),
            cell(Subject::Adaptive, 19, 1_000, &[100.0, 300.0, 200.0]),
            cell(Subject::Synchronous, 19, 1_000, &[50.0, 100.0, 400.0]),
        ];
        Findings { cells, interrupted: false }
    }

    #[test]
    fn ratios_are_to_the_best_of_the_others_round_by_round() {
        let findings = findings();
        let evidence = Evidence { sections: &[SECTION], findings: &findings };
        let check = |at, others: &[Subject], expect| {
            let found = evidence.ratio("fast", at, Subject::Coroutine, others, RATE);
            assert_eq!(found, expect, "{at:?} {others:?}");
        };
        check(At::Most, &[Subject::Adaptive], Some(2.0));
        check(At::Most, &[Subject::Synchronous, Subject::Adaptive], Some(2.0));
        check(At::Clients(1_000), &[Subject::Synchronous], Some(3.0));
        check(At::Clients(64), &[Subject::Adaptive], None);
        check(At::Clients(5), &[Subject::Adaptive], None);
        assert_eq!(evidence.best("fast", Subject::Coroutine, RATE), Some(900.0));
        assert_eq!(evidence.best("slow", Subject::Coroutine, RATE), None);
    }

    #[test]
    fn what_was_not_measured_is_said_to_be_so() {
        let statements = [
            Statement { claim: "faster", theirs: "2 times", ours: |_| None },
            Statement {
                claim: "best",
                theirs: "900k",
                ours: |evidence| evidence.best("fast", Subject::Coroutine, RATE).map(amount),
            },
        ];
        let findings = findings();
        let found = table(&statements, &Evidence { sections: &[SECTION], findings: &findings }).markdown();
        assert!(found.contains("| faster | 2 times | not measured |\n| best | 900k | 900 |\n"), "{found}");
    }
}
