//! Small SVG charts, one panel beside the other. Nothing is painted behind them, lines have colours that show on white and on
//! black, and text follows the reader's colour scheme.

use crate::article::Subject;
use crate::article::figures::Column;
use crate::article::plan::Cell;
use crate::error::BenchError;
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use std::ops::Range;

const PANEL: (u32, u32) = (440, 300);
const LEGEND_HEIGHT: u32 = 26;
const FONT: &str = "sans-serif";
const FONT_SIZE: u32 = 12;
const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);
const STYLE: &str =
    "<style>text{fill:#57606a}@media(prefers-color-scheme:dark){text{fill:#9da7b3}}</style>\n";

/// One panel: a column over the number of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Panel {
    pub(crate) column: Column,
    /// A logarithmic scale: latencies differ by powers of ten.
    pub(crate) logarithmic: bool,
}

/// One line of a panel.
struct Line {
    subject: Subject,
    points: Vec<(f64, f64)>,
}

/// The chart of a section; `None` when there are not several numbers of connections, or no panels.
pub(crate) fn by_connections(
    title: &str,
    panels: &[Panel],
    cells: &[&Cell],
) -> Result<Option<String>, BenchError> {
    let mut counts: Vec<usize> = cells.iter().map(|cell| cell.row.connections).collect();
    counts.sort_unstable();
    counts.dedup();
    let (Some(&least), Some(&most)) = (counts.first(), counts.last()) else { return Ok(None) };
    if least == most || panels.is_empty() {
        return Ok(None);
    }
    let range = least as f64 * 0.9..most as f64 * 1.1;
    draw(panels.len(), cells, |number, area| match panels.get(number) {
        Some(panel) => draw_panel(area, title, *panel, cells, range.clone()),
        None => Ok(()),
    })
    .map(Some)
}

/// The chart of an experiment whose sections each have one number of connections: a panel of bars for each section, a bar for
/// each subject. `None` when it is another kind of experiment.
pub(crate) fn by_section(
    column: Column,
    sections: &[(&str, Vec<&Cell>)],
) -> Result<Option<String>, BenchError> {
    let all: Vec<&Cell> = sections.iter().flat_map(|(_, cells)| cells.iter().copied()).collect();
    let has_one_row = |cells: &[&Cell]| {
        let mut rows = cells.iter().map(|cell| cell.row);
        rows.next().is_some_and(|first| rows.all(|row| row == first))
    };
    let measured = all.iter().any(|cell| cell.figure(column).is_some());
    if sections.len() < 2 || !measured || !sections.iter().all(|(_, cells)| has_one_row(cells)) {
        return Ok(None);
    }
    draw(sections.len(), &all, |number, area| match sections.get(number) {
        Some((title, cells)) => draw_bars(area, &format!("{title}: {}", column.name), column, cells),
        None => Ok(()),
    })
    .map(Some)
}

type DrawingError = Box<dyn std::error::Error>;
type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;

/// A legend, and the panels below it.
fn draw(
    panels: usize,
    cells: &[&Cell],
    panel: impl Fn(usize, &Area<'_>) -> Result<(), DrawingError>,
) -> Result<String, BenchError> {
    let mut svg = String::new();
    draw_into(&mut svg, panels, cells, panel)
        .map_err(|problem| BenchError::Program { program: "the chart", problem: problem.to_string() })?;
    let head = svg.find('>').map_or(0, |end| end + 1);
    svg.insert_str(head, STYLE);
    Ok(svg)
}

fn draw_into(
    svg: &mut String,
    panels: usize,
    cells: &[&Cell],
    panel: impl Fn(usize, &Area<'_>) -> Result<(), DrawingError>,
) -> Result<(), DrawingError> {
    let size = (PANEL.0 * panels as u32, PANEL.1 + LEGEND_HEIGHT);
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    let (legend, below) = root.split_vertically(LEGEND_HEIGHT);
    draw_legend(&legend, cells)?;
    for (number, area) in below.split_evenly((1, panels)).iter().enumerate() {
        panel(number, area)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(
    area: &Area<'_>,
    title: &str,
    panel: Panel,
    cells: &[&Cell],
    range: Range<f64>,
) -> Result<(), DrawingError> {
    let lines = lines(cells, panel.column);
    let values = || lines.iter().flat_map(|line| &line.points).map(|&(_, value)| value);
    let most = values().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let mut builder = builder(area, &format!("{title}: {}", panel.column.name));
    let x = range.log_scale();
    if panel.logarithmic {
        let least = values().filter(|value| *value > 0.0).fold(most, f64::min);
        draw_lines(builder.build_cartesian_2d(x, (least / 1.5..most * 1.5).log_scale())?, &lines)
    } else {
        draw_lines(builder.build_cartesian_2d(x, RangedCoordf64::from(0.0..most * 1.08))?, &lines)
    }
}

fn builder<'a, 's>(area: &'a Area<'s>, caption: &str) -> ChartBuilder<'a, 's, SVGBackend<'s>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .caption(caption, (FONT, FONT_SIZE + 1).into_font().color(&GREY))
        .margin(6)
        .margin_right(14)
        .x_label_area_size(34)
        .y_label_area_size(58);
    builder
}

fn draw_bars(area: &Area<'_>, caption: &str, column: Column, cells: &[&Cell]) -> Result<(), DrawingError> {
    /// Left free beside a bar, of its place.
    const GAP: f64 = 0.15;
    let bars: Vec<(Subject, f64)> =
        cells.iter().filter_map(|cell| Some((cell.subject, cell.figure(column)?))).collect();
    let most = bars.iter().map(|&(_, value)| value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let places = bars.len().max(1) as f64;
    let mut chart = builder(area, caption).build_cartesian_2d(0.0..places, 0.0..most * 1.08)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_labels(6)
        .y_label_formatter(&|value| short(*value))
        .label_style((FONT, FONT_SIZE).into_font().color(&GREY))
        .axis_style(GREY.mix(0.6))
        .bold_line_style(GREY.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    chart.draw_series(bars.iter().enumerate().map(|(place, &(subject, value))| {
        let left = place as f64;
        Rectangle::new([(left + GAP, 0.0), (left + 1.0 - GAP, value)], colour(subject).filled())
    }))?;
    Ok(())
}

/// The lines of all subjects, each by number of connections.
fn lines(cells: &[&Cell], column: Column) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for cell in cells {
        let Some(value) = cell.figure(column) else { continue };
        let point = (cell.row.connections as f64, value);
        match lines.iter_mut().find(|line| line.subject == cell.subject) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { subject: cell.subject, points: vec![point] }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    lines
}

fn colour(subject: Subject) -> RGBColor {
    let (red, green, blue) = subject.colour();
    RGBColor(red, green, blue)
}

fn draw_legend(area: &Area<'_>, cells: &[&Cell]) -> Result<(), DrawingError> {
    /// Pixels of a letter of the legend, about.
    const LETTER: i32 = 7;
    let mut subjects: Vec<Subject> = Vec::new();
    for cell in cells {
        if !subjects.contains(&cell.subject) {
            subjects.push(cell.subject);
        }
    }
    let mut left = 12;
    for subject in subjects {
        let mark = Rectangle::new([(left, 9), (left + 14, 13)], colour(subject).filled());
        area.draw(&mark)?;
        let font = (FONT, FONT_SIZE).into_font().color(&GREY);
        area.draw(&Text::new(subject.name(), (left + 20, 5), font))?;
        left += 36 + LETTER * subject.name().len() as i32;
    }
    Ok(())
}

fn draw_lines<X, Y>(
    mut chart: ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    lines: &[Line],
) -> Result<(), DrawingError>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let font = (FONT, FONT_SIZE).into_font().color(&GREY);
    chart
        .configure_mesh()
        .x_desc("connections")
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style(font.clone())
        .axis_desc_style(font)
        .axis_style(GREY.mix(0.6))
        .bold_line_style(GREY.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for line in lines {
        let style = colour(line.subject).stroke_width(2);
        chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
        let marks = line.points.iter().map(|&point| Circle::new(point, 3, colour(line.subject).filled()));
        chart.draw_series(marks)?;
    }
    Ok(())
}

/// A number as short as an axis needs it.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value >= 1e4 => format!("{:.0}k", value / 1e3),
        value if value >= 1e3 => format!("{:.1}", value / 1e3).trim_end_matches(".0").to_owned() + "k",
        value if value >= 10.0 || value == 0.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
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
        let svg = by_connections("fast", PANELS, &cells).expect("draws").expect("two numbers of connections");
        for part in ["reactor", "epoll-echo", "fast: requests/s", "fast: p99 ms", "prefers-color-scheme:dark"]
        {
            assert!(svg.contains(part), "'{part}' is missing in {svg}");
        }
        assert!(svg.len() < 30_000, "{} bytes are not small", svg.len());
    }

    #[test]
    fn one_number_of_connections_has_no_chart() {
        let cell = cell(Subject::Reactor, 64, 1.0);
        assert_eq!(by_connections("fast", PANELS, &[&cell]).expect("draws"), None);
    }

    #[test]
    fn sections_with_one_row_each_are_bars() {
        let cells = [cell(Subject::Reactor, 64, 90_000.0), cell(Subject::Auto, 64, 70_000.0)];
        let cells: Vec<&Cell> = cells.iter().collect();
        let sections = [("reads", cells.clone()), ("writes", cells.clone())];
        let svg = by_section(RATE, &sections).expect("draws").expect("one row each");
        assert!(svg.contains("reads: requests/s") && svg.contains("writes: requests/s"), "{svg}");
        let sweep = [cell(Subject::Auto, 64, 1.0), cell(Subject::Auto, 65, 1.0)];
        let sections = [("reads", cells), ("writes", sweep.iter().collect())];
        assert_eq!(by_section(RATE, &sections).expect("draws"), None, "a sweep has lines instead");
    }

    #[test]
    fn axes_have_short_numbers() {
        let check = |value: f64, expect: &str| assert_eq!(short(value), expect);
        check(0.0, "0");
        check(0.25, "0.2");
        check(64.0, "64");
        check(1_500.0, "1.5k");
        check(1_000.0, "1k");
        check(120_000.0, "120k");
        check(2_500_000.0, "2.5M");
    }
}
