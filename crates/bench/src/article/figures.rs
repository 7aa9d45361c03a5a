//! What one cell yields, and how rounds become one figure.

use crate::error::BenchError;
use crate::generator::Outcome;
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
    pub(crate) over_rounds: OverRounds,
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
pub(crate) const P95: Column = Column::median("p95 ms", 2);
pub(crate) const P99: Column = Column::median("p99 ms", 2);
pub(crate) const LONGEST: Column = Column::most("max ms", 1);
/// Connections that were open when the load began.
pub(crate) const CONNECTED: Column =
    Column { name: "connected", decimals: 0, over_rounds: OverRounds::Least };
/// Share of a core that the generator used; near 100 it is itself the limit.
pub(crate) const GENERATOR: Column = Column::median("generator %", 0);
/// Share of the machine's processor time that its host withheld while the cell was measured: where it is high, its figures are low.
pub(crate) const STOLEN: Column = Column::median("stolen %", 1);

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
    /// The columns of the article's table.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        Measurement::default()
            .with(RATE, outcome.rate())
            .with(MEAN, outcome.mean_ms())
            .with(P95, outcome.quantile_ms(0.95))
            .with(P99, outcome.quantile_ms(0.99))
            .with(LONGEST, outcome.longest_ms())
            .with(CONNECTED, outcome.connected as f64)
            .counting(outcome)
    }

    /// A cell that could not be measured.
    pub(crate) fn failed(error: &BenchError) -> Self {
        Measurement { failure: Some(error.to_string()), ..Measurement::default() }
    }

    pub(crate) fn with(mut self, column: Column, value: f64) -> Self {
        self.figures.push((column, value));
        self
    }

    /// Leaves out a figure that says nothing here.
    pub(crate) fn without(mut self, column: Column) -> Self {
        self.figures.retain(|(kept, _)| *kept != column);
        self
    }

    /// Adds the requests of a run.
    pub(crate) fn counting(mut self, outcome: &Outcome) -> Self {
        self.answered += outcome.timed();
        for (what, times) in outcome.errors() {
            *self.errors.entry(what.to_string()).or_default() += times;
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

/// The figure of all rounds; `None` when no round has one.
pub(crate) fn over_rounds(rounds: &[Measurement], column: Column) -> Option<f64> {
    let values: Vec<f64> = rounds.iter().filter_map(|round| round.figure(column)).collect();
    if values.is_empty() {
        return None;
    }
    Some(match column.over_rounds {
        OverRounds::Median => crate::report::median(values),
        OverRounds::Most => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
        OverRounds::Least => values.into_iter().fold(f64::INFINITY, f64::min),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_become_one_figure() {
        let rounds: Vec<Measurement> = [3.0, 9.0, 4.0]
            .map(|value| Measurement::default().with(RATE, value).with(LONGEST, value).with(CONNECTED, value))
            .to_vec();
        let check = |column, expect| assert_eq!(over_rounds(&rounds, column), expect, "{column:?}");
        check(RATE, Some(4.0));
        check(LONGEST, Some(9.0));
        check(CONNECTED, Some(3.0));
        check(P99, None);
    }

    #[test]
    fn rounds_without_figures_are_left_out() {
        let failed = Measurement { failure: Some("it died".into()), ..Measurement::default() };
        let rounds = [failed, Measurement::default().with(RATE, 7.0)];
        assert_eq!(over_rounds(&rounds, RATE), Some(7.0));
    }
}
