//! Drawing with `plotters`.

use super::{Axis, Colour, Interval, Line, Panel, Plot, Scale};
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::prelude::*;

const FONT: &str = "sans-serif";
/// In points of the library, which are a quarter larger than pixels.
const FONT_SIZE: u32 = 15;
const LEGEND_ROW: u32 = 22;
const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);
/// Pixels of a panel that others stand beside, and of one that takes a column of a page.
const BESIDE: u32 = 440;
const ALONE: u32 = 560;
const HEIGHT: u32 = 300;
/// Left of the figures of an axis.
const FIGURES_WIDTH: u32 = 48;

type DrawingError = Box<dyn std::error::Error>;
type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Chart<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Axis, Axis>>;

pub(super) fn svg(panels: &[Panel], with_titles: bool) -> Result<String, DrawingError> {
    let count = panels.len().max(1) as u32;
    let width = if with_titles { BESIDE * count } else { ALONE };
    let mut legend: Vec<(&str, Colour)> = Vec::new();
    for entry in panels.iter().flat_map(Panel::legend) {
        if !legend.contains(&entry) {
            legend.push(entry);
        }
    }
    let legend = LegendRows::of(&legend, width);
    let height = panels.iter().map(height_of).max().unwrap_or(HEIGHT);
    let mut svg = String::new();
    {
        let size = (width, height + legend.height());
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let (head, below) = root.split_vertically(legend.height());
        legend.draw(&head)?;
        for (panel, area) in panels.iter().zip(below.split_evenly((1, count as usize))) {
            draw_panel(&area, panel, if with_titles { &panel.title } else { "" })?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn height_of(panel: &Panel) -> u32 {
    /// Pixels of a row, and of all that is not rows.
    const ROW: u32 = 24;
    const AROUND: u32 = 60;
    match &panel.plot {
        Plot::Intervals { rows, .. } => HEIGHT.max(AROUND + ROW * rows.len() as u32),
        Plot::Lines { .. } | Plot::Bars { .. } => HEIGHT,
    }
}

/// Where each name of the legend stands.
struct LegendRows<'f> {
    entries: Vec<(i32, u32, &'f str, Colour)>,
    rows: u32,
}

impl<'f> LegendRows<'f> {
    fn of(legend: &[(&'f str, Colour)], width: u32) -> Self {
        /// Pixels of a letter, about, and of what is not letters.
        const LETTER: usize = 7;
        const AROUND: usize = 36;
        const MARGIN: i32 = 12;
        let (mut left, mut row) = (MARGIN, 0);
        let mut entries = Vec::new();
        for &(name, colour) in legend {
            let room = (AROUND + LETTER * name.chars().count()) as i32;
            if left > MARGIN && left + room > width as i32 {
                (left, row) = (MARGIN, row + 1);
            }
            entries.push((left, row, name, colour));
            left += room;
        }
        let rows = if entries.is_empty() { 0 } else { row + 1 };
        LegendRows { entries, rows }
    }

    fn height(&self) -> u32 {
        self.rows * LEGEND_ROW + 4
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), DrawingError> {
        for &(left, row, name, colour) in &self.entries {
            let top = (row * LEGEND_ROW) as i32;
            let mark = Rectangle::new([(left, top + 9), (left + 14, top + 13)], rgb(colour).filled());
            area.draw(&mark)?;
            area.draw(&Text::new(name, (left + 20, top + 5), font()))?;
        }
        Ok(())
    }
}

fn rgb((red, green, blue): Colour) -> RGBColor {
    RGBColor(red, green, blue)
}

fn font() -> TextStyle<'static> {
    (FONT, FONT_SIZE).into_font().color(&GREY)
}

fn draw_panel(area: &Area<'_>, panel: &Panel, title: &str) -> Result<(), DrawingError> {
    match &panel.plot {
        Plot::Lines { x, y, lines } => {
            let mut chart = chart(area, title, (x, y), FIGURES_WIDTH)?;
            styled(&mut chart.configure_mesh(), x).draw()?;
            lines.iter().try_for_each(|line| draw_line(&mut chart, line))
        }
        Plot::Bars { y, bars } => draw_bars(area, title, y, bars),
        Plot::Intervals { x, same, rows } => draw_intervals(area, title, x, *same, rows),
    }
}

fn chart<'a, 's>(
    area: &'a Area<'s>,
    title: &str,
    (x, y): (&Axis, &Axis),
    label_width: u32,
) -> Result<Chart<'a, 's>, DrawingError> {
    let mut builder = ChartBuilder::on(area);
    if !title.is_empty() {
        builder.caption(title, (FONT, FONT_SIZE + 1).into_font().color(&GREY));
    }
    let below = if x.name.is_empty() { 22 } else { 38 };
    builder.margin(6).margin_right(24).x_label_area_size(below).y_label_area_size(label_width);
    Ok(builder.build_cartesian_2d(x.clone(), y.clone())?)
}

fn styled<'m, 'a, 'c, 's>(
    mesh: &'m mut MeshStyle<'a, 'c, Axis, Axis, SVGBackend<'s>>,
    x: &Axis,
) -> &'m mut MeshStyle<'a, 'c, Axis, Axis, SVGBackend<'s>> {
    mesh.label_style(font())
        .axis_desc_style(font())
        .axis_style(GREY.mix(0.6))
        .bold_line_style(GREY.mix(0.25))
        .light_line_style(TRANSPARENT);
    if !x.name.is_empty() {
        mesh.x_desc(x.name.as_str());
    }
    mesh
}

fn draw_line(chart: &mut Chart<'_, '_>, line: &Line) -> Result<(), DrawingError> {
    let colour = rgb(line.colour);
    for part in parts(line) {
        if let [alone] = part.as_slice() {
            chart.draw_series([Circle::new(*alone, 2, colour.filled())])?;
        } else {
            chart.draw_series(LineSeries::new(part.iter().copied(), colour.stroke_width(2)))?;
        }
        if line.marks {
            chart.draw_series(part.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
        }
    }
    Ok(())
}

/// The line's parts between places without a value.
fn parts(line: &Line) -> Vec<Vec<(f64, f64)>> {
    let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
    for places in line.points.split(|(_, value)| value.is_none()) {
        let mut part: Vec<(f64, f64)> = Vec::new();
        for (place, value) in places.iter().filter_map(|&(place, value)| Some((place, value?))) {
            if let Some(&(_, before)) = part.last().filter(|_| line.steps) {
                part.push((place, before));
            }
            part.push((place, value));
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    parts
}

fn draw_bars(
    area: &Area<'_>,
    title: &str,
    y: &Axis,
    bars: &[(String, Colour, f64)],
) -> Result<(), DrawingError> {
    /// Left free beside a bar, of its place.
    const GAP: f64 = 0.15;
    let x = Axis::new("", Scale::Linear, 0.0, bars.len().max(1) as f64).with_ticks([]);
    let mut chart = chart(area, title, (&x, y), FIGURES_WIDTH)?;
    styled(&mut chart.configure_mesh(), &x).disable_x_mesh().disable_x_axis().draw()?;
    chart.draw_series(bars.iter().enumerate().map(|(place, &(_, colour, value))| {
        let left = place as f64;
        Rectangle::new([(left + GAP, 0.0), (left + 1.0 - GAP, value)], rgb(colour).filled())
    }))?;
    Ok(())
}

fn draw_intervals(
    area: &Area<'_>,
    title: &str,
    x: &Axis,
    same: f64,
    rows: &[Interval],
) -> Result<(), DrawingError> {
    const NAME_WIDTH: u32 = 190;
    let top = rows.len().max(1) as f64;
    let y = Axis::new("", Scale::Linear, 0.0, top).with_ticks([]);
    let mut chart = chart(area, title, (x, &y), NAME_WIDTH)?;
    styled(&mut chart.configure_mesh(), x).disable_y_mesh().disable_y_axis().draw()?;
    chart.draw_series(LineSeries::new([(same, 0.0), (same, top)], GREY.stroke_width(2)))?;
    for (number, row) in rows.iter().enumerate() {
        let height = top - number as f64 - 0.5;
        if let Some((low, high)) = row.bounds {
            let line = [(low, height), (high, height)];
            chart.draw_series(LineSeries::new(line, rgb(row.colour).stroke_width(3)))?;
        }
        chart.draw_series([Circle::new((row.value, height), 5, rgb(row.colour).filled())])?;
        let (_, vertical) = chart.backend_coord(&(row.value, height));
        let (_, above) = area.get_base_pixel();
        area.draw(&Text::new(shortened(&row.name), (8, vertical - above - 6), font()))?;
    }
    Ok(())
}

/// As much of a name as has room beside a row.
fn shortened(name: &str) -> String {
    const LETTERS: usize = 28;
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    name.chars().take(LETTERS - 1).chain(['…']).collect()
}
