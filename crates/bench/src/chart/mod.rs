//! SVG charts: a legend, and panels side by side below it. Nothing is painted behind them, series have
//! colours that show on white and on black, and text follows the reader's colour scheme.

mod axis;
mod svg;
mod ticks;

pub(crate) use axis::{Axis, Scale};

use maud::Markup;

/// Red, green and blue: readable on white and on black.
pub(crate) type Colour = (u8, u8, u8);

/// Colours of series that have none of their own, in this order.
const COLOURS: [Colour; 8] = [
    (0x2f, 0x81, 0xf7),
    (0xe8, 0x7c, 0x1e),
    (0x2d, 0xa4, 0x4e),
    (0xa3, 0x71, 0xf7),
    (0xe5, 0x53, 0x4b),
    (0x1b, 0x9e, 0xaa),
    (0xbf, 0x87, 0x00),
    (0xd6, 0x5c, 0xa8),
];

/// The colour of the series with this number; they repeat after eight.
pub(crate) fn colour(number: usize) -> Colour {
    COLOURS.get(number % COLOURS.len()).copied().unwrap_or((0x80, 0x80, 0x80))
}

#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) plot: Plot,
}

#[derive(Debug, Clone)]
pub(crate) enum Plot {
    /// Lines over two axes.
    Lines { x: Axis, y: Axis, lines: Vec<Line> },
    /// Bars from zero, one beside the other; the legend says which is which.
    Bars { y: Axis, bars: Vec<(String, Colour, f64)> },
    /// A value with an interval around it in each row, and a line at the value that means "the same".
    Intervals { x: Axis, same: f64, rows: Vec<Interval> },
}

#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// For the legend; lines of one name have one colour.
    pub(crate) name: String,
    pub(crate) colour: Colour,
    /// A place without a value interrupts the line.
    pub(crate) points: Vec<(f64, Option<f64>)>,
    /// Whether each point has a mark: for few points.
    pub(crate) marks: bool,
    /// Whether the line stays level until the next point: for distributions.
    pub(crate) steps: bool,
}

/// One row of [`Plot::Intervals`].
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    /// Short: it stands left of the row.
    pub(crate) name: String,
    /// What the legend calls its colour.
    pub(crate) of: String,
    pub(crate) colour: Colour,
    pub(crate) value: f64,
    /// Absent when it is not known.
    pub(crate) bounds: Option<(f64, f64)>,
}

impl Panel {
    /// As a part of a page, which has the title and the style: no namespace, no style.
    pub(crate) fn inline(&self) -> Markup {
        svg::svg(std::slice::from_ref(self), true)
    }

    /// Names and colours of what it shows.
    fn legend(&self) -> Vec<(&str, Colour)> {
        match &self.plot {
            Plot::Lines { lines, .. } => lines.iter().map(|line| (line.name.as_str(), line.colour)).collect(),
            Plot::Bars { bars, .. } => {
                bars.iter().map(|(name, colour, _)| (name.as_str(), *colour)).collect()
            }
            Plot::Intervals { rows, .. } => rows.iter().map(|row| (row.of.as_str(), row.colour)).collect(),
        }
    }
}

/// Panels side by side under their titles, as a file of their own that follows the reader's colour scheme.
pub(crate) fn file(panels: &[Panel]) -> String {
    svg::svg(panels, false).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(points: Vec<(f64, Option<f64>)>) -> Panel {
        let x = Axis::of("seconds", Scale::Linear, points.iter().map(|&(place, _)| place));
        let y = Axis::upright(Scale::Linear, points.iter().filter_map(|&(_, value)| value));
        let (name, colour) = ("<script>one</script>".to_owned(), colour(0));
        let lines = vec![Line { name, colour, points, marks: false, steps: false }];
        Panel { title: "rate & \"more\"".into(), plot: Plot::Lines { x, y, lines } }
    }

    #[test]
    fn names_are_escaped_and_a_page_needs_no_namespace() {
        let panels = [panel(vec![(0.0, Some(1.0)), (1.0, Some(2.0))]), panel(Vec::new())];
        let (file, inline) = (file(&panels), panels[0].inline().into_string());
        for svg in [&file, &inline] {
            assert!(!svg.contains("<script") && svg.matches("&lt;script&gt;one").count() == 1, "{svg}");
        }
        assert!(file.contains("prefers-color-scheme:dark") && file.contains(" xmlns="), "{file}");
        assert_eq!(file.matches("rate &amp; ").count(), 2, "each panel has its title: {file}");
        assert!(
            !inline.contains("http") && !inline.contains("<style") && !inline.contains(">rate &"),
            "{inline}"
        );
    }

    #[test]
    fn a_missing_value_interrupts_the_line() {
        let parts = |points: &[(f64, Option<f64>)]| {
            panel(points.to_vec()).inline().into_string().matches("<polyline").count()
        };
        let whole = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, Some(2.0)), (3.0, Some(1.0))];
        let mut broken = whole.to_vec();
        broken.insert(2, (1.5, None));
        assert_eq!(parts(&broken), parts(&whole) + 1);
    }
}
