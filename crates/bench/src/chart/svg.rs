//! What panels look like.

use super::{Axis, Colour, Interval, Line, Panel, Plot, Scale};
use maud::{Markup, PreEscaped, Render, html};

/// Pixels of a panel that others stand beside, and of one that takes a column of a page.
const BESIDE: f64 = 440.0;
const ALONE: f64 = 560.0;
const HEIGHT: f64 = 300.0;
/// Pixels around the axes: what stands right of them, and below with and without a name.
const RIGHT: f64 = 24.0;
const BELOW: f64 = 24.0;
const BELOW_NAMED: f64 = 42.0;
/// Left of the axes stand figures, or names.
const FIGURES: f64 = 52.0;
const NAMES: f64 = 90.0;
/// Pixels of a letter, about.
const LETTER: f64 = 6.6;
const LINE: f64 = 22.0;

/// The whole element.
pub(super) fn svg(panels: &[Panel], alone: bool) -> Markup {
    let width = if alone { ALONE } else { BESIDE };
    let whole = width * panels.len() as f64;
    let (legend, top) = legend(panels, whole);
    let height = top + panels.iter().map(|panel| height_of(&panel.plot)).fold(HEIGHT, f64::max);
    let places = (0..).map(|number| f64::from(number) * width);
    html! {
        svg xmlns=[(!alone).then_some("http://www.w3.org/2000/svg")] role=[alone.then_some("img")]
            aria-label=[alone.then(|| panels.first().map(|panel| panel.title.as_str())).flatten()]
            width=(whole) height=(height) viewBox={ "0 0 " (whole) " " (height) }
            font-family="system-ui, sans-serif" font-size="12" {
            @if !alone {
                style {
                    (PreEscaped("text{fill:#57606a}@media(prefers-color-scheme:dark){text{fill:#9da7b3}}"))
                }
            }
            (legend)
            @for (panel, left) in panels.iter().zip(places) {
                @if !alone {
                    (text(left + width / 2.0, top + 14.0, "middle", &panel.title))
                }
                (drawn(&panel.plot, [left, left + width], [top + if alone { 8.0 } else { LINE }, height]))
            }
        }
    }
}

fn height_of(plot: &Plot) -> f64 {
    match plot {
        Plot::Intervals { rows, .. } => BELOW_NAMED + LINE * (rows.len() + 1) as f64,
        Plot::Lines { .. } | Plot::Bars { .. } => HEIGHT,
    }
}

/// Names and colours, in as many rows as they need, and where these end.
fn legend(panels: &[Panel], width: f64) -> (Markup, f64) {
    const MARGIN: f64 = 12.0;
    const MARK: f64 = 20.0;
    let mut known: Vec<(&str, Colour)> = Vec::new();
    let (mut left, mut top) = (MARGIN, 0.0);
    let entries = html! {
        @for entry in panels.iter().flat_map(Panel::legend) {
            @if !known.contains(&entry) {
                @let room = MARK + LETTER * entry.0.chars().count() as f64;
                @if left > MARGIN && left + room > width {
                    ({ (left, top) = (MARGIN, top + LINE); "" })
                }
                rect x=(left) y=(top + 9.0) width="14" height="4" fill=(paint(entry.1)) {}
                (text(left + MARK, top + 15.0, "start", entry.0))
                ({ left += room + MARGIN; known.push(entry); "" })
            }
        }
    };
    (entries, if known.is_empty() { 0.0 } else { top + LINE })
}

/// A diagram between these pixels.
fn drawn(plot: &Plot, [left, right]: [f64; 2], [top, bottom]: [f64; 2]) -> Markup {
    let bare = |places: usize| Axis::new("", Scale::Linear, 0.0, places.max(1) as f64).with_ticks([]);
    let (x, y, beside) = match plot {
        Plot::Lines { x, y, .. } => (x, y, FIGURES),
        Plot::Bars { y, bars } => (&bare(bars.len()), y, FIGURES),
        Plot::Intervals { x, rows, .. } => (x, &bare(rows.len()), NAMES),
    };
    let below = if x.name.is_empty() { BELOW } else { BELOW_NAMED };
    let frame = Frame { x, y, left: left + beside, right: right - RIGHT, top, bottom: bottom - below };
    html! {
        (frame)
        @match plot {
            Plot::Lines { lines, .. } => @for line in lines { (frame.line(line)) },
            Plot::Bars { bars, .. } => @for (place, bar) in (0..).zip(bars) { (frame.bar(place, bar)) },
            Plot::Intervals { same, rows, .. } => {
                (rule(frame.place(*same, 0.0), frame.place(*same, rows.len() as f64), "0.9"))
                @for (number, row) in rows.iter().enumerate() {
                    (frame.interval((rows.len() - number) as f64 - 0.5, row, left))
                }
            }
        }
    }
}

/// The rectangle between two axes, in pixels.
struct Frame<'p> {
    x: &'p Axis,
    y: &'p Axis,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// The axes: a rule and a label at each tick.
impl Render for Frame<'_> {
    fn render(&self) -> Markup {
        let middle = f64::midpoint(self.left, self.right);
        html! {
            @for &tick in self.y.ticks() {
                @let (_, height) = self.place(0.0, tick);
                (rule((self.left, height), (self.right, height), "0.25"))
                (text(self.left - 6.0, height + 4.0, "end", &self.y.label(tick)))
            }
            @for &tick in self.x.ticks() {
                @let (place, _) = self.place(tick, 0.0);
                (rule((place, self.top), (place, self.bottom), "0.25"))
                (text(place, self.bottom + 16.0, "middle", &self.x.label(tick)))
            }
            (rule((self.left, self.top), (self.left, self.bottom), "0.6"))
            (rule((self.left, self.bottom), (self.right, self.bottom), "0.6"))
            @if !self.x.name.is_empty() {
                (text(middle, self.bottom + 34.0, "middle", &self.x.name))
            }
        }
    }
}

impl Frame<'_> {
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let across = self.left + (self.right - self.left) * self.x.share(x);
        (across, self.bottom + (self.top - self.bottom) * self.y.share(y))
    }

    fn line(&self, line: &Line) -> Markup {
        let colour = paint(line.colour);
        let dot = |(x, y): (f64, f64), radius| html! { circle cx=(x) cy=(y) r=(radius) fill=(colour) {} };
        html! {
            @for part in line.parts() {
                @let points: Vec<_> = part.iter().map(|&(x, y)| rounded(self.place(x, y))).collect();
                @if let [alone] = points.as_slice() {
                    (dot(*alone, 2))
                } @else {
                    @let path: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
                    polyline points=(path.join(" ")) fill="none" stroke=(colour) stroke-width="2"
                        stroke-linejoin="round" {}
                }
                @if line.marks {
                    @for &point in &points { (dot(point, 3)) }
                }
            }
        }
    }

    fn bar(&self, number: u32, (name, colour, value): &(String, Colour, f64)) -> Markup {
        /// Left free beside a bar, of its place.
        const GAP: f64 = 0.15;
        let (left, top) = rounded(self.place(f64::from(number) + GAP, *value));
        let (right, bottom) = rounded(self.place(f64::from(number + 1) - GAP, 0.0));
        html! {
            rect x=(left) y=(top) width=(right - left) height=(bottom - top) fill=(paint(*colour)) {
                title { (name) ": " (value) }
            }
        }
    }

    fn interval(&self, height: f64, row: &Interval, left: f64) -> Markup {
        let (place, height) = rounded(self.place(row.value, height));
        let across = |value| rounded(self.place(value, 0.0)).0;
        html! {
            @if let Some((low, high)) = row.bounds {
                line x1=(across(low)) x2=(across(high)) y1=(height) y2=(height) stroke=(paint(row.colour))
                    stroke-width="3" {}
            }
            circle cx=(place) cy=(height) r="5" fill=(paint(row.colour)) {}
            (text(left + 8.0, height + 4.0, "start", &row.name))
        }
    }
}

impl Line {
    /// The parts between places without a value.
    fn parts(&self) -> Vec<Vec<(f64, f64)>> {
        let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
        for places in self.points.split(|(_, value)| value.is_none()) {
            let mut part: Vec<(f64, f64)> = Vec::new();
            for (place, value) in places.iter().filter_map(|&(place, value)| Some((place, value?))) {
                if let Some(&(_, before)) = part.last().filter(|_| self.steps) {
                    part.push((place, before));
                }
                part.push((place, value));
            }
            parts.extend((!part.is_empty()).then_some(part));
        }
        parts
    }
}

fn paint((red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// To tenths of a pixel.
fn rounded((x, y): (f64, f64)) -> (f64, f64) {
    ((x * 10.0).round() / 10.0, (y * 10.0).round() / 10.0)
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> Markup {
    let (x, y) = rounded((x, y));
    html! { text x=(x) y=(y) text-anchor=(anchor) { (text) } }
}

fn rule(from: (f64, f64), to: (f64, f64), strength: &str) -> Markup {
    let ((x1, y1), (x2, y2)) = (rounded(from), rounded(to));
    html! { line x1=(x1) y1=(y1) x2=(x2) y2=(y2) stroke="#808080" stroke-opacity=(strength) {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertical_axes_grow_upwards() {
        let (x, y) = (Axis::new("", Scale::Linear, 0.0, 1.0), Axis::new("", Scale::Linear, 0.0, 10.0));
        let frame = Frame { x: &x, y: &y, left: 50.0, right: 150.0, top: 20.0, bottom: 200.0 };
        assert_eq!([frame.place(0.0, 0.0), frame.place(1.0, 10.0)], [(50.0, 200.0), (150.0, 20.0)]);
    }
}
