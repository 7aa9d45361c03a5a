//! Several runs against one of them.

use crate::error::BenchError;
use crate::result::describe::mix;
use crate::result::median;
use crate::result::number::plain;
use crate::result::statistics::{self, CONFIDENCE, Ratio};
use crate::result::{KindResult, RunResult, SCHEMA};
use serde::Serialize;

/// What is compared of each kind of operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measure {
    /// Its key in the JSON file.
    key: &'static str,
    /// Its heading.
    pub(crate) name: &'static str,
    more_is_better: bool,
    of: fn(&KindResult) -> f64,
}

/// The longest latency is one operation's and left out.
const MEASURES: [Measure; 5] = [
    Measure { key: "rate", name: "ops/s", more_is_better: true, of: |kind| kind.rate },
    Measure { key: "meanMs", name: "mean ms", more_is_better: false, of: |kind| kind.latency.mean_ms },
    Measure { key: "p50Ms", name: "p50 ms", more_is_better: false, of: |kind| kind.latency.p50_ms },
    Measure { key: "p99Ms", name: "p99 ms", more_is_better: false, of: |kind| kind.latency.p99_ms },
    Measure { key: "p999Ms", name: "p99.9 ms", more_is_better: false, of: |kind| kind.latency.p999_ms },
];

/// Runs, and how each figure of each compares to the base's. `docs/bench-report.md` tells of each key.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison<'r> {
    pub(crate) schema: u32,
    pub(crate) confidence: f64,
    pub(crate) paired: bool,
    pub(crate) base: usize,
    pub(crate) runs: Vec<ComparedRun>,
    pub(crate) differences: Vec<String>,
    pub(crate) figures: Vec<ComparedFigure>,
    #[serde(skip)]
    pub(crate) results: &'r [RunResult],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComparedRun {
    pub(crate) label: String,
    pub(crate) started: String,
    pub(crate) connection_string: String,
    pub(crate) repetitions: usize,
    pub(crate) operations: u64,
    pub(crate) errors: u64,
}

/// One figure of one kind of operation in all runs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComparedFigure {
    pub(crate) operation: String,
    pub(crate) figure: &'static str,
    pub(crate) values: Vec<ComparedValue>,
    #[serde(skip)]
    pub(crate) measure: Measure,
}

/// One run's figure.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComparedValue {
    pub(crate) repetitions: Vec<f64>,
    pub(crate) median: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) high: Option<f64>,
    pub(crate) verdict: Verdict,
}

/// What a ratio says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    Base,
    Better,
    Worse,
    Undecided,
    NoInterval,
    NotComparable,
}

impl Verdict {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Verdict::Base => "base",
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Undecided => "no difference shown",
            Verdict::NoInterval => "one repetition: no interval",
            Verdict::NotComparable => "not comparable",
        }
    }
}

impl<'r> Comparison<'r> {
    /// Compares runs with the one that has this label or, counted from 1, this number; with the first one by
    /// default.
    pub(crate) fn new(results: &'r [RunResult], base: Option<&str>) -> Result<Self, BenchError> {
        if results.len() < 2 {
            return Err(BenchError::Usage("name at least two runs to compare".to_owned()));
        }
        let labels = labels(results);
        let base = base_index(&labels, base)?;
        let paired = are_paired(results);
        let runs =
            results.iter().zip(&labels).map(|(result, label)| ComparedRun::of(result, label)).collect();
        let mut operations: Vec<String> = Vec::new();
        for name in results.iter().rev().flat_map(|result| result.names().into_iter().rev()) {
            if !operations.contains(&name) {
                operations.insert(0, name);
            }
        }
        // One kind of operation is the total.
        if operations.len() == 2 {
            operations.remove(0);
        }
        let figures = operations
            .iter()
            .flat_map(|operation| MEASURES.map(|measure| figure(results, operation, measure, base, paired)))
            .collect();
        let differences = differences(results, &labels);
        Ok(Comparison {
            schema: SCHEMA,
            confidence: CONFIDENCE,
            paired,
            base,
            runs,
            differences,
            figures,
            results,
        })
    }

    /// How intervals were found, for the reader.
    pub(crate) fn method(&self) -> String {
        let test = if self.paired {
            "Student's t on the logarithms of the ratios within each round, because the runs were made in \
            turns"
        } else {
            "Welch's t on logarithms of the repetitions"
        };
        let percent = (self.confidence * 100.0).round();
        format!("{percent} % intervals by {test}. An interval that includes 1 shows no difference.")
    }
}

impl ComparedRun {
    fn of(result: &RunResult, label: &str) -> Self {
        let total = result.total();
        ComparedRun {
            label: label.to_owned(),
            started: result.started.clone(),
            connection_string: result.target.connection_string.clone(),
            repetitions: result.repetitions.len(),
            operations: total.operations,
            errors: total.error_count(),
        }
    }
}

/// Labels, with a number behind those that an earlier run has.
fn labels(results: &[RunResult]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for result in results {
        let numbered = (2..).map(|number| format!("{} ({number})", result.label));
        let free =
            std::iter::once(result.label.clone()).chain(numbered).find(|label| !labels.contains(label));
        labels.extend(free);
    }
    labels
}

/// Whether a base can be chosen among runs that will have these labels.
pub(crate) fn check_base(labels: &[String], wanted: Option<&str>) -> Result<(), BenchError> {
    base_index(labels, wanted).map(|_| ())
}

fn base_index(labels: &[String], wanted: Option<&str>) -> Result<usize, BenchError> {
    let Some(wanted) = wanted else { return Ok(0) };
    let by_number = || wanted.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < labels.len());
    labels.iter().position(|label| label == wanted).or_else(by_number).ok_or_else(|| {
        BenchError::Usage(format!("--base {wanted}: there is no such run; there are {}", labels.join(", ")))
    })
}

fn are_paired(results: &[RunResult]) -> bool {
    let Some((first, rest)) = results.split_first() else { return false };
    let same =
        |other: &RunResult| other.turns == first.turns && other.repetitions.len() == first.repetitions.len();
    first.turns.is_some() && rest.iter().all(same)
}

fn figure(
    results: &[RunResult],
    operation: &str,
    measure: Measure,
    base: usize,
    paired: bool,
) -> ComparedFigure {
    let repetitions: Vec<Vec<f64>> =
        results.iter().map(|result| result.all_of(operation).into_iter().map(measure.of).collect()).collect();
    let of_base = repetitions.get(base).cloned().unwrap_or_default();
    let compare = if paired { statistics::paired } else { statistics::unpaired };
    let value = |(index, values): (usize, Vec<f64>)| {
        let ratio = (index != base).then(|| compare(&values, &of_base)).flatten();
        ComparedValue {
            median: median(values.clone()),
            repetitions: values,
            ratio: ratio.map(|ratio| ratio.ratio),
            low: ratio.and_then(|ratio| Some(ratio.bounds?.0)),
            high: ratio.and_then(|ratio| Some(ratio.bounds?.1)),
            verdict: if index == base { Verdict::Base } else { verdict(ratio, measure) },
        }
    };
    let values = repetitions.into_iter().enumerate().map(value).collect();
    ComparedFigure { operation: operation.to_owned(), figure: measure.key, values, measure }
}

fn verdict(ratio: Option<Ratio>, measure: Measure) -> Verdict {
    match ratio.map(|ratio| (ratio.includes_one(), ratio.ratio > 1.0)) {
        None => Verdict::NotComparable,
        Some((None, _)) => Verdict::NoInterval,
        Some((Some(true), _)) => Verdict::Undecided,
        Some((Some(false), more)) if more == measure.more_is_better => Verdict::Better,
        Some((Some(false), _)) => Verdict::Worse,
    }
}

fn known(value: Option<String>) -> String {
    value.filter(|value| !value.is_empty()).unwrap_or_else(|| "none".to_owned())
}

/// What should be the same for a fair comparison and is not.
fn differences(results: &[RunResult], labels: &[String]) -> Vec<String> {
    type Property = (&'static str, fn(&RunResult) -> String);
    const PROPERTIES: [Property; 14] = [
        ("workloads", |result| result.workload.name.clone()),
        ("mixes", |result| mix(result)),
        ("numbers of documents", |result| result.workload.record_count.to_string()),
        ("document sizes in bytes", |result| result.workload.document_bytes.to_string()),
        ("distributions", |result| result.workload.distribution.clone()),
        ("numbers of connections", |result| result.load.connections.to_string()),
        ("schedules", |result| result.load.schedule.clone()),
        ("intended rates", |result| known(result.load.rate.map(plain))),
        ("durations in seconds", |result| known(result.load.duration_seconds.map(plain))),
        ("read preferences", |result| known(result.load.read_preference.clone())),
        ("read concerns", |result| known(result.load.read_concern.clone())),
        ("write concerns", |result| known(result.load.write_concern.clone())),
        ("compressors", |result| known(Some(result.load.compressors.join(", ")))),
        ("machines", |result| result.machine.line()),
    ];
    let differs = |&(name, property): &Property| {
        let values: Vec<String> = results.iter().map(property).collect();
        let all_same = values.iter().all(|value| Some(value) == values.first());
        let told: Vec<String> =
            labels.iter().zip(&values).map(|(label, value)| format!("{label}: {value}")).collect();
        (!all_same).then(|| format!("{name} differ – {}", told.join("; ")))
    };
    PROPERTIES.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::sample::with_rates;

    fn rate<'c>(comparison: &'c Comparison<'_>, run: usize) -> &'c ComparedValue {
        let figure = comparison
            .figures
            .iter()
            .find(|figure| figure.operation == "total" && figure.figure == "rate")
            .expect("a rate");
        figure.values.get(run).expect("a run")
    }

    fn check(rates: [&[f64]; 2], turns: [Option<&str>; 2], expect: (Verdict, bool)) {
        let mut runs = [with_rates("one", rates[0]), with_rates("other", rates[1])];
        for (run, turns) in runs.iter_mut().zip(turns) {
            run.turns = turns.map(str::to_owned);
        }
        let comparison = Comparison::new(&runs, None).expect("two runs");
        let found = (rate(&comparison, 1).verdict, comparison.paired);
        assert_eq!(found, expect, "{rates:?} {turns:?}: {:?}", rate(&comparison, 1));
    }

    #[test]
    fn verdicts() {
        let alone = [None, None];
        check([&[100.0, 101.0, 99.0], &[200.0, 202.0, 199.0]], alone, (Verdict::Better, false));
        check([&[200.0, 202.0, 199.0], &[100.0, 101.0, 99.0]], alone, (Verdict::Worse, false));
        check([&[100.0, 120.0, 90.0], &[105.0, 95.0, 110.0]], alone, (Verdict::Undecided, false));
        check([&[100.0], &[200.0]], alone, (Verdict::NoInterval, false));
        check([&[0.0, 0.0], &[200.0, 100.0]], alone, (Verdict::NotComparable, false));
    }

    #[test]
    fn runs_made_in_turns_are_compared_round_by_round() {
        // Each round is twice as fast as the one before; within each, one run is a tenth faster.
        let rates: [&[f64]; 2] = [&[100.0, 200.0, 400.0], &[110.0, 220.0, 441.0]];
        check(rates, [Some("x"), Some("x")], (Verdict::Better, true));
        check(rates, [Some("x"), Some("y")], (Verdict::Undecided, false));
        check(rates, [None, None], (Verdict::Undecided, false));
        check([&[100.0, 200.0], &[110.0, 220.0, 440.0]], [Some("x"), Some("x")], (Verdict::Undecided, false));
    }

    #[test]
    fn less_latency_is_better() {
        let runs = [with_rates("slow", &[1e6, 1.01e6, 0.99e6]), with_rates("fast", &[2e6, 2.02e6, 1.99e6])];
        let comparison = Comparison::new(&runs, None).expect("two runs");
        for figure in comparison.figures.iter().filter(|figure| figure.figure != "rate") {
            let value = figure.values.last().expect("two runs");
            assert_eq!(value.verdict, Verdict::Better, "{figure:?}");
            assert!(value.ratio.is_some_and(|ratio| (ratio - 0.5).abs() < 0.01), "{figure:?}");
        }
        assert_eq!(comparison.figures.len(), 3 * MEASURES.len());
    }

    #[test]
    fn the_base_is_chosen_by_label_or_number() {
        let runs = ["one", "same", "same"].map(|label| with_rates(label, &[1_000.0]));
        let base = |wanted| Comparison::new(&runs, wanted).map(|comparison| comparison.base);
        assert!(matches!(base(None), Ok(0)));
        assert!(matches!(base(Some("same")), Ok(1)));
        assert!(matches!(base(Some("same (2)")), Ok(2)));
        assert!(matches!(base(Some("3")), Ok(2)));
        for wrong in ["0", "4", "none"] {
            let problem = base(Some(wrong)).expect_err("no such run").to_string();
            assert!(problem.contains("one, same, same (2)"), "{problem}");
        }
        let alone = runs.get(..1).unwrap_or_default();
        assert!(Comparison::new(alone, None).is_err());
    }

    #[test]
    fn what_differs_is_told() {
        let mut runs = [with_rates("one", &[1_000.0]), with_rates("other", &[1_000.0])];
        assert_eq!(Comparison::new(&runs, None).expect("two").differences, Vec::<String>::new());
        if let Some(run) = runs.last_mut() {
            run.load.connections = 128;
            run.load.rate = None;
        }
        let found = Comparison::new(&runs, None).expect("two").differences;
        let expect = [
            "numbers of connections differ – one: 64; other: 128",
            "intended rates differ – one: 60,000; other: none",
        ];
        assert_eq!(found, expect);
    }

    #[test]
    fn kinds_that_a_run_does_not_have_are_not_comparable() {
        let mut runs = [with_rates("one", &[1_000.0, 1_000.0]), with_rates("other", &[1_000.0, 1_000.0])];
        if let Some(run) = runs.last_mut() {
            run.repetitions.iter_mut().for_each(|repetition| repetition.kinds.truncate(1));
        }
        let comparison = Comparison::new(&runs, None).expect("two runs");
        let update = comparison.figures.iter().find(|figure| figure.operation == "update").expect("kept");
        assert_eq!(update.values.last().map(|value| value.verdict), Some(Verdict::NotComparable));
    }
}
