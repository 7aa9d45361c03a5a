//! A comparison on the terminal and as a page.

use crate::chart::{Axis, Interval, Line, Panel, Plot, Scale, colour};
use crate::result::comparison::{ComparedFigure, ComparedRun, ComparedValue, Comparison, Verdict};
use crate::result::describe::errors_of;
use crate::result::figures;
use crate::result::number::{amount, count};
use crate::result::page::{self, page, warning};
use crate::result::summary::TOTAL;
use crate::result::table::{Place, Table, Tone};
use maud::html as markup;

/// The comparison in at most about a hundred columns.
pub(crate) fn text(comparison: &Comparison<'_>) -> String {
    let mut text = format!("\n{}\n", runs(comparison).text());
    text.push_str(&figures_table(comparison, |_| true).text());
    text.push_str(&format!("\n{}", folded(&comparison.method())));
    for note in notes(comparison) {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

pub(crate) fn html(comparison: &Comparison<'_>) -> String {
    let labels: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
    let base = labels.get(comparison.base).copied().unwrap_or_default();
    let mut operations: Vec<&str> =
        comparison.figures.iter().map(|figure| figure.operation.as_str()).collect();
    operations.dedup();
    let body = markup! {
        p { "Ratios are to " (base) ". " (comparison.method()) }
        @for note in notes(comparison) { (warning(&note)) }
        (runs(comparison))
        (page::charts(&charts(comparison)))
        // All together first.
        @for operation in operations.iter().rev() {
            h2 { "Operation: " (operation) }
            (figures_table(comparison, |figure| figure.operation == **operation))
        }
    };
    page(&labels.join(" – "), &body)
}

/// In lines of at most a hundred columns.
fn folded(sentences: &str) -> String {
    const COLUMNS: usize = 100;
    let mut lines: Vec<String> = Vec::new();
    for word in sentences.split(' ') {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= COLUMNS) {
            Some(line) => line.push_str(&format!(" {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

fn notes(comparison: &Comparison<'_>) -> Vec<String> {
    let mut notes = comparison.differences.clone();
    for (run, result) in comparison.runs.iter().zip(comparison.results) {
        notes.extend(result.warnings.iter().map(|warning| format!("{}: {warning}", run.label)));
        if result.interrupted {
            notes.push(format!("{}: interrupted", run.label));
        }
    }
    notes
}

fn runs(comparison: &Comparison<'_>) -> Table {
    let mut table = Table::new(["run", "target", "started", "repetitions", "operations", "errors"]);
    table.text_columns = 3;
    for run in &comparison.runs {
        table.row([
            Place::from(run.label.as_str()),
            run.connection_string.as_str().into(),
            run.started.as_str().into(),
            run.repetitions.to_string().into(),
            count(run.operations).into(),
            errors_of(run.errors),
        ]);
    }
    table
}

/// An operation's and a figure's name stand only in the first of their rows.
fn figures_table(comparison: &Comparison<'_>, wanted: impl Fn(&ComparedFigure) -> bool) -> Table {
    let mut table = Table::new(["operation", "figure", "run", "median", "ratio", "interval", "verdict"]);
    table.text_columns = 3;
    table.ends_in_text = true;
    let mut operation = "";
    for figure in comparison.figures.iter().filter(|figure| wanted(figure)) {
        let mut name = figure.measure.name;
        for (run, value) in comparison.runs.iter().zip(&figure.values) {
            let first = if operation == figure.operation { "" } else { figure.operation.as_str() };
            operation = &figure.operation;
            table.row([
                Place::from(first),
                std::mem::take(&mut name).into(),
                run.label.as_str().into(),
                if value.repetitions.is_empty() { "–".into() } else { amount(value.median).into() },
                value.ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}")).into(),
                bounds(value).map_or_else(String::new, |(low, high)| format!("{low:.3} – {high:.3}")).into(),
                Place::from(value.verdict.words()).toned(tone(value.verdict)),
            ]);
        }
    }
    table
}

fn bounds(value: &ComparedValue) -> Option<(f64, f64)> {
    value.low.zip(value.high)
}

const fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Better => Tone::Good,
        Verdict::Worse => Tone::Bad,
        Verdict::Base | Verdict::Undecided | Verdict::NoInterval | Verdict::NotComparable => Tone::Plain,
    }
}

fn charts(comparison: &Comparison<'_>) -> Vec<Panel> {
    let named = || comparison.runs.iter().zip(comparison.results);
    let rates = named().map(|(run, result)| (run.label.clone(), figures::rate_line(result))).collect();
    let latencies: Vec<_> =
        named().map(|(run, result)| (run.label.clone(), result.total().latency)).collect();
    [
        ratios(comparison),
        figures::over_time("Operations a second", Scale::Linear, rates),
        figures::distribution("Distribution of latency, ms", &latencies),
        repetitions(comparison),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The intervals of all operations together, a line at 1.
fn ratios(comparison: &Comparison<'_>) -> Option<Panel> {
    let rows: Vec<Interval> = totals(comparison)
        .flat_map(|figure| {
            let all = comparison.runs.iter().zip(&figure.values).enumerate();
            all.filter_map(|(number, (run, value))| {
                Some(Interval {
                    name: figure.measure.name.to_owned(),
                    of: run.label.clone(),
                    colour: colour(number),
                    value: value.ratio?,
                    bounds: bounds(value),
                })
            })
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.bounds.unwrap_or((row.value, row.value));
        [low, row.value, high, 1.0]
    });
    let x = Axis::of("ratio to the base, with its interval", Scale::Logarithmic, ends);
    Some(Panel { title: "Ratios".to_owned(), plot: Plot::Intervals { x, same: 1.0, rows } })
}

/// The rate of each repetition: whether one run's are above another's is seen without statistics.
fn repetitions(comparison: &Comparison<'_>) -> Option<Panel> {
    let figure = totals(comparison).find(|figure| figure.figure == "rate")?;
    if figure.values.iter().all(|value| value.repetitions.len() < 2) {
        return None;
    }
    let line = |(number, (run, value)): (usize, (&ComparedRun, &ComparedValue))| Line {
        name: run.label.clone(),
        colour: colour(number),
        points: (1..).zip(&value.repetitions).map(|(round, rate)| (f64::from(round), Some(*rate))).collect(),
        marks: true,
        steps: false,
    };
    let named = comparison.runs.iter().zip(&figure.values);
    let lines: Vec<Line> = named.enumerate().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let rounds = points().map(|&(round, _)| round).fold(1.0, f64::max);
    let x = Axis::new("repetition", Scale::Linear, 0.5, rounds + 0.5);
    let x = x.with_ticks((1..=rounds as usize).map(|round| round as f64));
    let y = Axis::upright(Scale::Linear, points().filter_map(|&(_, rate)| rate));
    let plot = Plot::Lines { x, y, lines };
    Some(Panel { title: "Operations a second by repetition".to_owned(), plot })
}

fn totals<'c>(comparison: &'c Comparison<'_>) -> impl Iterator<Item = &'c ComparedFigure> {
    comparison.figures.iter().filter(|figure| figure.operation == TOTAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::page::tests::check_self_contained;
    use crate::result::{RunResult, sample::with_rates};

    fn two() -> [RunResult; 2] {
        [
            with_rates("adaptive", &[50_000.0, 52_000.0, 51_000.0]),
            with_rates("reactor", &[60_000.0, 63_000.0, 61_000.0]),
        ]
    }

    #[test]
    fn ratios_stand_beside_figures() {
        let mut runs = two();
        runs.iter_mut().for_each(|run| run.warnings.clear());
        let found = text(&Comparison::new(&runs, None).expect("two runs"));
        let expect = include_str!("comparison_expected.txt");
        assert_eq!(found.trim(), expect.trim(), "found:\n{found}");
        assert!(found.lines().map(|line| line.chars().count()).max() <= Some(100), "too wide:\n{found}");
    }

    #[test]
    fn a_page_has_every_run_and_fetches_nothing() {
        let mut runs = two();
        if let Some(run) = runs.first_mut() {
            run.label = "<script>1</script>".into();
        }
        let comparison = Comparison::new(&runs, Some("reactor")).expect("two runs");
        assert_eq!(charts(&comparison).len(), 4);
        let html = html(&comparison);
        check_self_contained(&html);
        for part in ["&lt;script&gt;1", "Ratios are to reactor", "97 % of its core", "worse"] {
            assert!(html.contains(part), "'{part}' is missing");
        }
    }

    #[test]
    fn runs_without_anything_are_told_of_all_the_same() {
        let empty = || RunResult { label: "empty".into(), interrupted: true, ..RunResult::default() };
        let runs = [empty(), empty()];
        let comparison = Comparison::new(&runs, None).expect("two runs");
        assert!(text(&comparison).contains("not comparable"));
        assert!(html(&comparison).contains("empty (2): interrupted"));
    }
}
