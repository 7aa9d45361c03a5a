//! What a cell saw second by second, and the charts of it.

use super::findings::Cell;
use super::steady::Seconds;
use crate::chart::{Axis, Colour, Line, Panel, Plot, Scale};
use serde_json::{Value, json};

/// A line of a chart over time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trace {
    /// The chart's title; lines of one title are in one chart, whichever subject they are of. One that ends
    /// with "ms" is logarithmic.
    pub(crate) chart: &'static str,
    /// What the legend says; empty for the subject's name.
    pub(crate) line: &'static str,
    /// Empty for the subject's.
    pub(crate) colour: Option<Colour>,
    /// Seconds and values.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Titles of charts.
pub(crate) const RATES: &str = "Requests a second";
pub(crate) const P99S: &str = "99th percentile of each second, ms";
pub(crate) const LONGEST: &str = "Longest of each second, ms";

impl Trace {
    pub(crate) fn to_json(&self) -> Value {
        json!({ "chart": self.chart, "line": self.line, "points": self.points })
    }
}

impl Seconds {
    /// What was seen, from this second of a longer load on: in the subject's colour and under its name, or as
    /// this says.
    pub(crate) fn traces(&self, from: f64, of: Option<(&'static str, Colour)>) -> [Trace; 3] {
        let (line, colour) = of.map_or(("", None), |(line, colour)| (line, Some(colour)));
        let trace = |chart, value: &dyn Fn(&crate::generator::Second) -> Option<f64>| {
            let points = self.0.iter().enumerate();
            let points = points.filter_map(|(number, second)| Some((from + number as f64, value(second)?)));
            Trace { chart, line, colour, points: points.collect() }
        };
        [
            trace(RATES, &|second| Some(second.operations as f64)),
            trace(P99S, &|second| (second.max_us > 0).then(|| second.quantile_ms(0.99))),
            trace(LONGEST, &|second| (second.max_us > 0).then(|| second.max_us as f64 / 1_000.0)),
        ]
    }
}

/// The charts over time of a kind's cells, of the last round of each.
pub(crate) fn panels(cells: &[&Cell]) -> Vec<Panel> {
    let mut charts: Vec<(&'static str, Vec<Line>)> = Vec::new();
    for cell in cells {
        let Some(measurement) = cell.measurements().last() else { continue };
        for trace in &measurement.traces {
            let line = Line {
                name: if trace.line.is_empty() { cell.subject.name() } else { trace.line }.to_owned(),
                colour: trace.colour.unwrap_or_else(|| cell.subject.colour()),
                points: trace.points.iter().map(|&(second, value)| (second, Some(value))).collect(),
                marks: false,
                steps: false,
            };
            match charts.iter_mut().find(|(title, _)| *title == trace.chart) {
                Some((_, lines)) => add(lines, line),
                None => charts.push((trace.chart, vec![line])),
            }
        }
    }
    charts.into_iter().map(|(title, lines)| panel(title, lines)).collect()
}

/// A line that goes on later, under the same name, is one line with a gap.
fn add(lines: &mut Vec<Line>, line: Line) {
    let begin = line.points.first().map_or(0.0, |&(second, _)| second);
    let ends_before = |known: &&mut Line| {
        known.name == line.name && known.points.last().is_some_and(|&(second, _)| second < begin)
    };
    match lines.iter_mut().find(ends_before) {
        Some(known) => {
            known.points.push((begin, None));
            known.points.extend(line.points);
        }
        None => lines.push(line),
    }
}

fn panel(title: &str, lines: Vec<Line>) -> Panel {
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::of("seconds", Scale::Linear, points().map(|&(second, _)| second));
    let scale = if title.ends_with("ms") { Scale::Logarithmic } else { Scale::Linear };
    let y = Axis::upright(scale, points().filter_map(|&(_, value)| value));
    Panel { title: title.to_owned(), plot: Plot::Lines { x, y, lines } }
}

#[cfg(test)]
mod tests {
    use super::super::Subject;
    use super::super::findings::tests::cell;
    use super::*;
    use crate::generator::{Latencies, Second};

    #[test]
    fn subjects_share_a_chart_and_say_who_they_are() {
        let second = |operations, max_us| Second {
            operations,
            max_us,
            latencies: Latencies(vec![(max_us.max(1), operations.max(1))]),
            ..Second::default()
        };
        let seconds = Seconds(vec![second(10, 2_000), second(0, 0)]);
        let cells = [Subject::Auto, Subject::EngineDefaults].map(|subject| {
            let mut cell = cell(subject, 5, &[1.0]);
            cell.rounds[0].1.traces = seconds.traces(0.0, None).into();
            cell
        });
        let panels = panels(&cells.iter().collect::<Vec<_>>());
        assert_eq!(
            panels.iter().map(|panel| panel.title.as_str()).collect::<Vec<_>>(),
            [RATES, P99S, LONGEST]
        );
        let Plot::Lines { lines, .. } = &panels[2].plot else { panic!("lines") };
        assert_eq!(
            lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(),
            ["auto", "engine-defaults"]
        );
        assert_eq!(lines[0].points, [(0.0, Some(2.0))], "a second without an answer has no latency");
        let Plot::Lines { lines, .. } = &panels[0].plot else { panic!("lines") };
        assert_eq!(lines[0].points, [(0.0, Some(10.0)), (1.0, Some(0.0))], "but a rate");
    }

    #[test]
    fn a_phase_that_comes_again_is_one_line_with_a_gap() {
        let second = Second { operations: 7, ..Second::default() };
        let mut cell = cell(Subject::Auto, 5, &[1.0]);
        let of_phase = |from, name| Seconds(vec![second.clone()]).traces(from, Some((name, (1, 2, 3))));
        let phases = [(0.0, "quiet"), (1.0, "loud"), (2.0, "quiet")];
        cell.rounds[0].1.traces = phases.into_iter().flat_map(|(from, name)| of_phase(from, name)).collect();
        let panels = panels(&[&cell]);
        let Plot::Lines { lines, .. } = &panels[0].plot else { panic!("lines") };
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["quiet", "loud"]);
        assert_eq!(lines[0].points, [(0.0, Some(7.0)), (2.0, None), (2.0, Some(7.0))]);
    }
}
