//! What an experiment is: read from the TOML files beside this one, which are part of the program.

use super::Subject;
use super::column::{CONNECTIONS, Column, RATE};
use super::findings::{Cell, Row};
use super::load::Load;
use clap::Arg;
use clap::builder::{PossibleValue, PossibleValuesParser};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) static S0: LazyLock<Experiment> = LazyLock::new(|| Experiment::read(include_str!("s0.toml")));
pub(crate) static S1: LazyLock<Experiment> = LazyLock::new(|| Experiment::read(include_str!("s1.toml")));
pub(crate) static S2: LazyLock<Experiment> = LazyLock::new(|| Experiment::read(include_str!("s2.toml")));
pub(crate) static S3: LazyLock<Experiment> = LazyLock::new(|| Experiment::read(include_str!("s3.toml")));
pub(crate) static S4: LazyLock<Experiment> = LazyLock::new(|| Experiment::read(include_str!("s4.toml")));
pub(crate) static RAW: LazyLock<Experiment> = LazyLock::new(|| Experiment::read(include_str!("raw.toml")));
pub(crate) static CACHEGRIND: LazyLock<Experiment> =
    LazyLock::new(|| Experiment::read(include_str!("cachegrind.toml")));

/// What is known of an experiment without measuring.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Experiment {
    /// `s0` to `s4`, `raw`: as files are called.
    pub(crate) name: String,
    pub(crate) title: String,
    /// What was measured by the article, and on what.
    pub(crate) about: String,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) document_bytes: usize,
    /// Documents when the command line says nothing, where not the usual number.
    #[serde(default)]
    pub(crate) documents: Option<u32>,
    /// Rounds when the command line says nothing, where not the usual number.
    #[serde(default)]
    pub(crate) rounds: Option<u32>,
    pub(crate) kinds: Vec<Kind>,
    /// The kinds that are measured when the command line names none, separated by commas.
    pub(crate) usual: String,
    #[serde(default)]
    pub(crate) statements: Vec<Statement>,
    #[serde(default)]
    pub(crate) published: Published,
}

/// One table of an experiment.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Kind {
    /// On the command line, in the JSON file and in names of files.
    pub(crate) name: String,
    pub(crate) title: String,
    /// Numbers of connections when the command line names none.
    pub(crate) clients: Vec<usize>,
    #[serde(default)]
    pub(crate) special: Option<Special>,
    /// One after the other; successive ones on the same server. None where something special is measured.
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) ratios: Vec<Ratio>,
    #[serde(default)]
    pub(crate) comparisons: Vec<Comparison>,
    /// The charts by number of connections, when there are several numbers.
    #[serde(default = "usual_charts")]
    pub(crate) charts: Vec<Column>,
}

/// What is more than load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Special {
    /// Idle connections: memory, processor time, and work among them.
    Idle,
    /// An echo behind the thread model, under valgrind.
    Cachegrind,
    /// Writes at a share of the most that is possible, second by second, beside the disk's own syncs.
    Steady,
    /// Documents that expire beside a load, outside of their window and within it.
    Expiry,
    /// Settings that are changed one after the other beside a load.
    Knobs,
}

/// Groups of connections side by side.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Step {
    #[serde(default)]
    pub(crate) on: On,
    /// Beside threads that keep the processors busy and touch no server.
    #[serde(default)]
    pub(crate) beside_spinners: bool,
    /// The column of how long a set's secondary then takes to have what the primary has.
    #[serde(default)]
    pub(crate) behind: Option<Column>,
    pub(crate) groups: Vec<GroupDefinition>,
}

/// Where a step's load goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum On {
    /// The subject, be it a database or a bare echo.
    #[default]
    Subject,
    /// The subject, unless it is a bare echo.
    Database,
    /// An echo behind the subject's thread model; a server that is given has none.
    Echo,
    /// A bare echo of the sizes that the step before saw.
    BareEcho,
}

/// Connections that send the same.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct GroupDefinition {
    pub(crate) load: Load,
    /// Whether a secondary is asked, where the subject is a replica set.
    #[serde(default)]
    pub(crate) of_secondary: bool,
    #[serde(default)]
    pub(crate) connections: ConnectionNumber,
    #[serde(default)]
    pub(crate) pace: Pace,
    #[serde(default = "usual_columns")]
    pub(crate) columns: Vec<Column>,
    /// Columns of the latencies of one kind of operation.
    #[serde(default)]
    pub(crate) by_kind: BTreeMap<String, Vec<Column>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConnectionNumber {
    /// As many as the row says.
    #[default]
    Row,
    /// `--slow-connections`.
    Slow,
    One,
    /// So many, scaled.
    Fixed(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pace {
    /// Every connection sends its next request when the reply to the last one is there.
    #[default]
    Closed,
    /// The same, with a connection for each request.
    Short,
    /// An open loop at `--fast-rate`, or at a share of the rate that the first group of the first step had.
    Paced,
    /// An open loop at this rate, or at a lower one where the scale is below 1.
    PerSecond(f64),
    /// A few requests a second, on a thread of its own with the highest priority it is allowed, so that other
    /// groups delay it in the server only.
    Monitor,
}

/// A column of one figure over another one of the same cell.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ratio {
    pub(crate) name: Column,
    pub(crate) of: Column,
    pub(crate) to: Column,
}

/// A column of ratios of rates.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Comparison {
    pub(crate) heading: String,
    /// What a rate is compared with: the same row under this subject, or under the best thread model.
    #[serde(default)]
    pub(crate) base: Option<Subject>,
    /// Base over this instead of this over base.
    #[serde(default)]
    pub(crate) inverse: bool,
}

/// One claim of an article.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Statement {
    pub(crate) claim: String,
    /// The article's figure.
    pub(crate) theirs: String,
    pub(crate) kind: String,
    #[serde(default = "rate")]
    pub(crate) column: Column,
    /// Whose figures answer it, or, with another side, how many times as much as that one's they are.
    pub(crate) ours: Side,
    #[serde(default)]
    pub(crate) over: Option<Side>,
}

/// What a claim is about: these models with the most connections, with those that stand for the article's row
/// of so many clients, or with any number of which the best counts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Side {
    pub(crate) models: Vec<Subject>,
    #[serde(default)]
    pub(crate) clients: Option<usize>,
    #[serde(default)]
    pub(crate) best: bool,
}

/// The article's own table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<PublishedRow>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PublishedRow {
    pub(crate) kind: String,
    pub(crate) clients: usize,
    /// Figures by model; those at the end may be missing.
    #[serde(flatten)]
    pub(crate) models: BTreeMap<String, Vec<f64>>,
}

fn rate() -> Column {
    RATE
}

/// The columns of S0's table.
fn usual_columns() -> Vec<Column> {
    ["requests/s", "mean ms", "p95 ms", "p99 ms", "max ms", "connected", "generator %"]
        .map(Column::named)
        .into()
}

fn usual_charts() -> Vec<Column> {
    ["requests/s", "p99 ms"].map(Column::named).into()
}

impl Experiment {
    fn read(text: &str) -> Self {
        match toml::from_str(text) {
            Ok(experiment) => experiment,
            Err(error) => panic!("an experiment's file is part of the program and wrong: {error}"),
        }
    }

    /// The option `--kinds` with the names of this experiment's.
    pub(crate) fn kinds(&self, argument: Arg) -> Arg {
        let value = |kind: &Kind| PossibleValue::new(kind.name.clone()).help(kind.title.clone());
        let values = self.kinds.iter().map(value);
        argument.value_parser(PossibleValuesParser::new(values)).default_value(self.usual.clone())
    }

    /// The article's figure beside one of ours, where it has one. Models go by their names, so that a given
    /// server that is called after one has its figures.
    pub(crate) fn published(&self, cell: &Cell, column: Column) -> Option<f64> {
        let Row { kind, connections, clients } = cell.row;
        let rows = &self.published.rows;
        let row = rows.iter().find(|row| (&row.kind, row.clients) == (&kind.name, clients))?;
        if column == CONNECTIONS {
            return (clients != connections).then_some(clients as f64);
        }
        let place = self.published.columns.iter().position(|known| *known == column)?;
        row.models.get(cell.subject.name())?.get(place).copied()
    }
}

impl Kind {
    pub(crate) fn is(&self, special: Special) -> bool {
        self.special == Some(special)
    }

    /// Whether it tells of each second of a long load.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self.special, Some(Special::Steady | Special::Expiry | Special::Knobs))
    }

    /// Whether a step goes there.
    pub(crate) fn goes(&self, on: On) -> bool {
        self.steps.iter().any(|step| step.on == on)
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &GroupDefinition> {
        self.steps.iter().flat_map(|step| &step.groups)
    }
}

#[cfg(test)]
mod tests {
    use super::super::column::{CONNECTED, ERRORS, LONGEST, P99};
    use super::*;

    #[test]
    fn what_is_usually_measured_or_claimed_exists() {
        for experiment in [&S0, &S1, &S2, &S3, &S4, &RAW, &CACHEGRIND] {
            let of_statements = experiment.statements.iter().map(|statement| statement.kind.as_str());
            let published = experiment.published.rows.iter().map(|row| row.kind.as_str());
            for wanted in experiment.usual.split(',').chain(of_statements).chain(published) {
                let is_there = experiment.kinds.iter().any(|kind| kind.name == wanted);
                assert!(is_there, "{} has no kind {wanted}", experiment.name);
            }
            for kind in &experiment.kinds {
                assert!(
                    kind.special.is_some() != kind.groups().next().is_some(),
                    "{} does nothing",
                    kind.name
                );
            }
        }
    }

    #[test]
    fn figures_are_found_by_row_model_and_column() {
        let check = |kind: &str, clients, subject, column: &'static str, expect: Option<f64>| {
            let kind = S0.kinds.iter().find(|known| known.name == kind).expect("a kind");
            let cell = Cell { row: Row { kind, connections: 19, clients }, subject, rounds: Vec::new() };
            let found = S0.published(&cell, Column::named(column));
            assert_eq!(found, expect, "{} {clients} {subject:?} {column}", kind.name);
        };
        check("slow", 10_000, Subject::Adaptive, RATE.name, Some(8_890.0));
        check("slow", 10_000, Subject::Synchronous, LONGEST.name, Some(63_247.0));
        check("slow", 10_000, Subject::Synchronous, P99.name, None);
        check("slow", 10_000, Subject::Reactor, RATE.name, None);
        check("slow", 10_000, Subject::Reactor, CONNECTIONS.name, Some(10_000.0));
        check("slow", 19_000, Subject::Adaptive, RATE.name, None);
        check("fast", 500, Subject::Adaptive, "p95 ms", Some(3.77));
        check("fast", 30_000, Subject::Synchronous, CONNECTED.name, Some(24_000.0));
        check("fast", 30_000, Subject::Adaptive, CONNECTED.name, None);
        check("fast", 1_000, Subject::Synchronous, ERRORS.name, Some(4_448.0));
        check("storm", 1_000, Subject::Adaptive, RATE.name, None);
    }

    #[test]
    fn the_eleven_scenarios_are_those_of_the_table() {
        for kind in S0.kinds.iter().take(2) {
            let rows = S0.published.rows.iter().filter(|row| row.kind == kind.name);
            assert_eq!(rows.map(|row| row.clients).collect::<Vec<_>>(), kind.clients, "{}", kind.name);
        }
        for PublishedRow { kind, clients, models } in &S0.published.rows {
            assert_eq!(models.len(), 2);
            for figures in models.values() {
                let [rate, errors, mean, p95, longest, ..] = figures[..] else { panic!("{kind} {clients}") };
                assert!(errors < rate && mean < p95 && p95 < longest, "{kind} {clients}");
            }
        }
    }
}
