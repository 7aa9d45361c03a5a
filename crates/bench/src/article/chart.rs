//! Charts of an experiment: lines by number of connections, or bars for each section.

use crate::article::Subject;
use crate::article::figures::Column;
use crate::article::plan::Cell;
use crate::chart::{self, Axis, Colour, Figure, Plot, Scale, Series};

/// Left free above the highest value of a linear axis, of its length.
const HEADROOM: f64 = 0.08;

/// One panel: a column over the number of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panel {
    pub(crate) column: Column,
    /// A logarithmic scale: latencies differ by powers of ten.
    pub(crate) logarithmic: bool,
}

/// The chart of a section; `None` when there are not several numbers of connections, or no panels.
pub(crate) fn by_connections(title: &str, panels: &[Panel], cells: &[&Cell]) -> Option<Figure> {
    let mut counts: Vec<usize> = cells.iter().map(|cell| cell.row.connections).collect();
    counts.sort_unstable();
    counts.dedup();
    if counts.len() < 2 || panels.is_empty() {
        return None;
    }
    let counts: Vec<f64> = counts.into_iter().map(|count| count as f64).collect();
    let x = Axis::of("connections", Scale::Logarithmic, counts.iter().copied()).with_ticks(counts);
    let panels = panels.iter().map(|panel| lines_of(title, *panel, cells, &x)).collect();
    Some(Figure { legend: legend(cells), panels, panel_size: Figure::SMALL })
}

/// The chart of an experiment whose sections each have one number of connections: a panel of bars for each section, a bar for
/// each subject. `None` when it is another kind of experiment.
pub(crate) fn by_section(column: Column, sections: &[(&str, Vec<&Cell>)]) -> Option<Figure> {
    let all: Vec<&Cell> = sections.iter().flat_map(|(_, cells)| cells.iter().copied()).collect();
    let has_one_row = |cells: &[&Cell]| {
        let mut rows = cells.iter().map(|cell| cell.row);
        rows.next().is_some_and(|first| rows.all(|row| row == first))
    };
    let measured = all.iter().any(|cell| cell.figure(column).is_some());
    if sections.len() < 2 || !measured || !sections.iter().all(|(_, cells)| has_one_row(cells)) {
        return None;
    }
    let panels = sections.iter().map(|(title, cells)| bars_of(title, column, cells)).collect();
    Some(Figure { legend: legend(&all), panels, panel_size: Figure::SMALL })
}

fn lines_of(title: &str, panel: Panel, cells: &[&Cell], x: &Axis) -> chart::Panel {
    let lines = lines(cells, panel.column);
    let values = lines.iter().flat_map(|line| &line.points).filter_map(|&(_, value)| value);
    let y = if panel.logarithmic {
        Axis::of("", Scale::Logarithmic, values)
    } else {
        Axis::of("", Scale::Linear, values).with_headroom(HEADROOM)
    };
    let caption = format!("{title}: {}", panel.column.name);
    chart::Panel { caption, plot: Plot::Lines { x: x.clone(), y, series: lines } }
}

fn bars_of(title: &str, column: Column, cells: &[&Cell]) -> chart::Panel {
    let bars: Vec<(Colour, f64)> =
        cells.iter().filter_map(|cell| Some((cell.subject.colour(), cell.figure(column)?))).collect();
    let y = Axis::of("", Scale::Linear, bars.iter().map(|&(_, value)| value)).with_headroom(HEADROOM);
    chart::Panel { caption: format!("{title}: {}", column.name), plot: Plot::Bars { y, bars } }
}

/// The lines of all subjects, each by number of connections.
fn lines(cells: &[&Cell], column: Column) -> Vec<Series> {
    subjects(cells)
        .into_iter()
        .map(|subject| {
            let own = cells.iter().filter(|cell| cell.subject == subject);
            let mut points: Vec<(f64, Option<f64>)> = own
                .filter_map(|cell| Some((cell.row.connections as f64, Some(cell.figure(column)?))))
                .collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            Series { colour: subject.colour(), points, marks: true, steps: false }
        })
        .collect()
}

fn subjects(cells: &[&Cell]) -> Vec<Subject> {
    let mut subjects: Vec<Subject> = Vec::new();
    for cell in cells {
        if !subjects.contains(&cell.subject) {
            subjects.push(cell.subject);
        }
    }
    subjects
}

fn legend(cells: &[&Cell]) -> Vec<(String, Colour)> {
    let entry = |subject: Subject| (subject.name().to_owned(), subject.colour());
    subjects(cells).into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::article::figures::{Measurement, P99, RATE};
    use crate::article::plan::Row;

    const PANELS: &[Panel] =
        &[Panel { column: RATE, logarithmic: false }, Panel { column: P99, logarithmic: true }];

    fn cell(subject: Subject, connections: usize, rate: f64) -> Cell {
        let measurement = Measurement::default().with(RATE, rate).with(P99, 1e6 / rate);
        Cell { row: Row { section: 0, connections }, subject, rounds: vec![(0, measurement)] }
    }

    #[test]
    fn a_chart_names_every_subject_and_follows_the_colour_scheme() {
        let cells = [
            cell(Subject::Reactor, 64, 90_000.0),
            cell(Subject::Reactor, 1_000, 70_000.0),
            cell(Subject::EpollEcho, 64, 180_000.0),
            cell(Subject::EpollEcho, 1_000, 150_000.0),
        ];
        let cells: Vec<&Cell> = cells.iter().collect();
        let figure = by_connections("fast", PANELS, &cells).expect("two numbers of connections");
        let svg = figure.file().expect("draws");
        for part in ["reactor", "epoll-echo", "fast: requests/s", "fast: p99 ms", "prefers-color-scheme:dark"]
        {
            assert!(svg.contains(part), "'{part}' is missing in {svg}");
        }
        assert!(svg.len() < 30_000, "{} bytes are not small", svg.len());
    }

    #[test]
    fn one_number_of_connections_has_no_chart() {
        let cell = cell(Subject::Reactor, 64, 1.0);
        assert!(by_connections("fast", PANELS, &[&cell]).is_none());
    }

    #[test]
    fn sections_with_one_row_each_are_bars() {
        let cells = [cell(Subject::Reactor, 64, 90_000.0), cell(Subject::Auto, 64, 70_000.0)];
        let cells: Vec<&Cell> = cells.iter().collect();
        let sections = [("reads", cells.clone()), ("writes", cells.clone())];
        let svg = by_section(RATE, &sections).expect("one row each").file().expect("draws");
        assert!(svg.contains("reads: requests/s") && svg.contains("writes: requests/s"), "{svg}");
        let sweep = [cell(Subject::Auto, 64, 1.0), cell(Subject::Auto, 65, 1.0)];
        let sections = [("reads", cells), ("writes", sweep.iter().collect())];
        assert!(by_section(RATE, &sections).is_none(), "a sweep has lines instead");
    }
}
