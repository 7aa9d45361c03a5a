//! Drawing with `plotters`.

use super::{Axis, Colour, Figure, Interval, Panel, Plot, Series};
use plotters::coord::Shift;
use plotters::prelude::*;

const FONT: &str = "sans-serif";
/// In points of the library, which are a quarter larger than pixels.
const FONT_SIZE: u32 = 15;
const LEGEND_ROW: u32 = 22;
const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);

type DrawingError = Box<dyn std::error::Error>;
type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Chart<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Axis, Axis>>;

pub(super) fn svg(figure: &Figure) -> Result<String, DrawingError> {
    let panels = figure.panels.len().max(1) as u32;
    let width = figure.panel_size.0 * panels;
    let legend = LegendRows::of(&figure.legend, width);
    let mut svg = String::new();
    {
        let size = (width, figure.panel_size.1 + legend.height());
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let (head, below) = root.split_vertically(legend.height());
        legend.draw(&head)?;
        for (panel, area) in figure.panels.iter().zip(below.split_evenly((1, panels as usize))) {
            draw_panel(&area, panel)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// Where each name of the legend stands.
struct LegendRows<'f> {
    entries: Vec<(i32, u32, &'f str, Colour)>,
    rows: u32,
}

impl<'f> LegendRows<'f> {
    fn of(legend: &'f [(String, Colour)], width: u32) -> Self {
        /// Pixels of a letter, about, and of what is not letters.
        const LETTER: usize = 7;
        const AROUND: usize = 36;
        const MARGIN: i32 = 12;
        let (mut left, mut row) = (MARGIN, 0);
        let mut entries = Vec::new();
        for (name, colour) in legend {
            let room = (AROUND + LETTER * name.chars().count()) as i32;
            if left > MARGIN && left + room > width as i32 {
                (left, row) = (MARGIN, row + 1);
            }
            entries.push((left, row, name.as_str(), *colour));
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

fn draw_panel(area: &Area<'_>, panel: &Panel) -> Result<(), DrawingError> {
    match &panel.plot {
        Plot::Lines { x, y, series } => draw_lines(area, &panel.caption, x, y, series),
        Plot::Bars { y, bars } => draw_bars(area, &panel.caption, y, bars),
        Plot::Intervals { x, same, rows } => draw_intervals(area, &panel.caption, x, *same, rows),
    }
}

fn chart<'a, 's>(
    area: &'a Area<'s>,
    caption: &str,
    (x, y): (&Axis, &Axis),
    label_width: u32,
) -> Result<Chart<'a, 's>, DrawingError> {
    let mut builder = ChartBuilder::on(area);
    if !caption.is_empty() {
        builder.caption(caption, (FONT, FONT_SIZE + 1).into_font().color(&GREY));
    }
    let below = if x.name.is_empty() { 22 } else { 38 };
    builder.margin(6).margin_right(24).x_label_area_size(below).y_label_area_size(label_width);
    Ok(builder.build_cartesian_2d(x.clone(), y.clone())?)
}

fn draw_lines(
    area: &Area<'_>,
    caption: &str,
    x: &Axis,
    y: &Axis,
    series: &[Series],
) -> Result<(), DrawingError> {
    let mut chart = chart(area, caption, (x, y), if y.name.is_empty() { 48 } else { 62 })?;
    let mut mesh = chart.configure_mesh();
    mesh.label_style(font())
        .axis_desc_style(font())
        .axis_style(GREY.mix(0.6))
        .bold_line_style(GREY.mix(0.25))
        .light_line_style(TRANSPARENT);
    if !x.name.is_empty() {
        mesh.x_desc(x.name.as_str());
    }
    if !y.name.is_empty() {
        mesh.y_desc(y.name.as_str());
    }
    mesh.draw()?;
    for line in series {
        let style = rgb(line.colour).stroke_width(2);
        for part in parts(line) {
            if let [alone] = part.as_slice() {
                chart.draw_series([Circle::new(*alone, 2, rgb(line.colour).filled())])?;
            } else {
                chart.draw_series(LineSeries::new(part.iter().copied(), style))?;
            }
            if line.marks {
                let marks = part.iter().map(|&point| Circle::new(point, 3, rgb(line.colour).filled()));
                chart.draw_series(marks)?;
            }
        }
    }
    Ok(())
}

/// The line's parts between places without a value.
fn parts(line: &Series) -> Vec<Vec<(f64, f64)>> {
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

fn draw_bars(area: &Area<'_>, caption: &str, y: &Axis, bars: &[(Colour, f64)]) -> Result<(), DrawingError> {
    /// Left free beside a bar, of its place.
    const GAP: f64 = 0.15;
    let x = Axis::new("", super::Scale::Linear, 0.0, bars.len().max(1) as f64).with_ticks([]);
    let mut chart = chart(area, caption, (&x, y), 48)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .label_style(font())
        .axis_style(GREY.mix(0.6))
        .bold_line_style(GREY.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    chart.draw_series(bars.iter().enumerate().map(|(place, &(colour, value))| {
        let left = place as f64;
        Rectangle::new([(left + GAP, 0.0), (left + 1.0 - GAP, value)], rgb(colour).filled())
    }))?;
    Ok(())
}

fn draw_intervals(
    area: &Area<'_>,
    caption: &str,
    x: &Axis,
    same: f64,
    rows: &[Interval],
) -> Result<(), DrawingError> {
    const NAME_WIDTH: u32 = 190;
    let y = Axis::new("", super::Scale::Linear, 0.0, rows.len().max(1) as f64).with_ticks([]);
    let mut chart = chart(area, caption, (x, &y), NAME_WIDTH)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .label_style(font())
        .axis_desc_style(font())
        .axis_style(GREY.mix(0.6))
        .bold_line_style(GREY.mix(0.25))
        .light_line_style(TRANSPARENT);
    if !x.name.is_empty() {
        mesh.x_desc(x.name.as_str());
    }
    mesh.draw()?;
    let top = rows.len().max(1) as f64;
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
