//! SVG charts: a legend, and panels side by side below it. Nothing is painted behind them, series have colours that show on white
//! and on black, and text follows the reader's colour scheme.

mod axis;
mod draw;
mod ticks;

pub(crate) use axis::{Axis, Scale};

use crate::error::BenchError;

/// Follows the reader's colour scheme. In a page the page's own style says the same.
const STYLE: &str =
    "<style>text{fill:#57606a}@media(prefers-color-scheme:dark){text{fill:#9da7b3}}</style>\n";
const NAMESPACE: &str = " xmlns=\"http://www.w3.org/2000/svg\"";

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

/// A picture.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Name and colour of each series; a figure with one series needs none.
    pub(crate) legend: Vec<(String, Colour)>,
    pub(crate) panels: Vec<Panel>,
    /// Pixels of each panel.
    pub(crate) panel_size: (u32, u32),
}

impl Figure {
    /// Width and height of a panel that others stand beside.
    pub(crate) const SMALL: (u32, u32) = (440, 300);
    /// Of one that takes a column of a page.
    pub(crate) const WIDE: (u32, u32) = (560, 300);
}

/// One diagram of a figure.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    /// Above it; may be empty.
    pub(crate) caption: String,
    pub(crate) plot: Plot,
}

/// What a panel shows.
#[derive(Debug, Clone)]
pub(crate) enum Plot {
    /// Lines over two axes.
    Lines { x: Axis, y: Axis, series: Vec<Series> },
    /// Bars from zero, one beside the other; the legend says which is which.
    Bars { y: Axis, bars: Vec<(Colour, f64)> },
    /// A value with an interval around it in each row, and a line at the value that means "the same".
    Intervals { x: Axis, same: f64, rows: Vec<Interval> },
}

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Series {
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
    pub(crate) name: String,
    pub(crate) colour: Colour,
    pub(crate) value: f64,
    /// Absent when it is not known.
    pub(crate) bounds: Option<(f64, f64)>,
}

impl Figure {
    /// Each panel as a figure of its own under its caption, for a page that has room for one beside the other.
    pub(crate) fn apart(self) -> Vec<(String, Figure)> {
        let Figure { legend, panels, .. } = self;
        let alone = |panel: Panel| {
            let panels = vec![Panel { caption: String::new(), plot: panel.plot }];
            (panel.caption, Figure { legend: legend.clone(), panels, panel_size: Figure::WIDE })
        };
        panels.into_iter().map(alone).collect()
    }

    /// As a file of its own.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub(crate) fn file(&self) -> Result<String, BenchError> {
        let mut svg = self.draw()?;
        let head = svg.find('>').map_or(0, |end| end + 1);
        svg.insert_str(head, STYLE);
        Ok(svg)
    }

    /// As a part of a page: no namespace, no style.
    ///
    /// # Errors
    /// When it cannot be drawn.
    pub(crate) fn inline(&self) -> Result<String, BenchError> {
        Ok(self.draw()?.replacen(NAMESPACE, "", 1))
    }

    fn draw(&self) -> Result<String, BenchError> {
        draw::svg(self)
            .map_err(|problem| BenchError::Program { program: "the chart", problem: problem.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(points: Vec<(f64, Option<f64>)>) -> Figure {
        let values = || points.iter().filter_map(|&(_, value)| value);
        let x = Axis::of("seconds", Scale::Linear, points.iter().map(|&(place, _)| place));
        let y = Axis::of("", Scale::Linear, values());
        let series = vec![Series { colour: colour(0), points: points.clone(), marks: false, steps: false }];
        Figure {
            legend: vec![("<script>one</script>".into(), colour(0))],
            panels: vec![Panel { caption: "rate & \"more\"".into(), plot: Plot::Lines { x, y, series } }],
            panel_size: Figure::SMALL,
        }
    }

    #[test]
    fn names_are_escaped_and_a_page_needs_no_namespace() {
        let figure = lines(vec![(0.0, Some(1.0)), (1.0, Some(2.0))]);
        let (file, inline) = (figure.file().expect("draws"), figure.inline().expect("draws"));
        for svg in [&file, &inline] {
            assert!(svg.contains("&lt;script&gt;one") && !svg.contains("<script"), "{svg}");
            assert!(svg.contains("rate &amp; "), "{svg}");
        }
        assert!(file.contains("prefers-color-scheme:dark") && file.contains(NAMESPACE), "{file}");
        assert!(!inline.contains("http") && !inline.contains("<style"), "{inline}");
    }

    #[test]
    fn a_missing_value_interrupts_the_line() {
        let parts = |points: &[(f64, Option<f64>)]| {
            lines(points.to_vec()).inline().expect("draws").matches("<polyline").count()
        };
        let whole = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, Some(2.0)), (3.0, Some(1.0))];
        let mut broken = whole.to_vec();
        broken.insert(2, (1.5, None));
        assert_eq!(parts(&broken), parts(&whole) + 1);
    }

    #[test]
    fn panels_can_stand_apart_under_their_captions() {
        let mut figure = lines(vec![(0.0, Some(1.0)), (1.0, Some(2.0))]);
        figure.panels.extend(figure.panels.clone());
        let apart = figure.apart();
        let titles: Vec<&str> = apart.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["rate & \"more\"", "rate & \"more\""]);
        for (title, figure) in &apart {
            let svg = figure.inline().expect("draws");
            assert!(!svg.contains("rate &amp; ") && svg.contains("&lt;script&gt;one"), "{title}: {svg}");
        }
    }

    #[test]
    fn nothing_to_draw_is_an_empty_diagram() {
        let svg = lines(Vec::new()).inline().expect("draws");
        assert!(svg.starts_with("<svg"), "{svg}");
    }
}
