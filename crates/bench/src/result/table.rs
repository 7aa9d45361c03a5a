//! Tables, for the terminal and for pages.

use maud::{Markup, Render, html};

/// Rows under headings. The first column holds names, the others figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<Place>>,
    /// How many columns, counted from the left, hold text and not figures.
    pub(crate) text_columns: usize,
    /// Whether the last column holds text, too.
    pub(crate) ends_in_text: bool,
    /// Whether places hold sentences, which a page may break into lines.
    pub(crate) prose: bool,
}

/// One place of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Place {
    pub(crate) text: String,
    /// What it is compared with, such as an article's figure.
    pub(crate) beside: Option<String>,
    pub(crate) tone: Tone,
}

/// What a reader is to think of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Bad,
}

impl<T: Into<String>> From<T> for Place {
    fn from(text: T) -> Self {
        Place { text: text.into(), ..Place::default() }
    }
}

impl Place {
    #[must_use]
    pub(crate) fn toned(self, tone: Tone) -> Self {
        Place { tone, ..self }
    }

    fn line(&self) -> String {
        match &self.beside {
            Some(theirs) => format!("{} ({theirs})", self.text),
            None => self.text.clone(),
        }
    }
}

impl Table {
    /// A table whose first column holds names.
    pub(crate) fn new<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Self {
        let headings = headings.into_iter().map(Into::into).collect();
        Table { headings, text_columns: 1, ..Table::default() }
    }

    /// Two columns of text without headings.
    pub(crate) fn pairs(pairs: Vec<(&str, String)>) -> Self {
        let rows = pairs.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect();
        Table { rows, text_columns: 2, ..Table::default() }
    }

    pub(crate) fn row<C: Into<Place>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn is_text(&self, column: usize, columns: usize) -> bool {
        column < self.text_columns || (self.ends_in_text && column + 1 == columns)
    }

    /// Headings, if there are any, and rows, every place as wide as its column: text to the left, figures to
    /// the right.
    fn aligned(&self) -> Vec<Vec<String>> {
        let mut lines: Vec<Vec<String>> = std::iter::once(self.headings.clone())
            .filter(|headings| !headings.is_empty())
            .chain(self.rows.iter().map(|row| row.iter().map(Place::line).collect()))
            .collect();
        let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
        // Sentences are as long as they are.
        for column in (0..columns).filter(|_| !self.prose) {
            let cells = || lines.iter().filter_map(|line| line.get(column));
            let width = cells().map(|cell| cell.chars().count()).max().unwrap_or_default();
            for cell in lines.iter_mut().filter_map(|line| line.get_mut(column)) {
                let is_text = self.is_text(column, columns);
                *cell = if is_text { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            }
        }
        lines
    }

    /// Aligned by spaces.
    pub(crate) fn text(&self) -> String {
        self.aligned().iter().map(|line| format!("{}\n", line.join("  ").trim_end())).collect()
    }

    /// As Markdown, which is aligned as well: it stands on terminals, too.
    pub(crate) fn markdown(&self) -> String {
        let mut lines: Vec<String> =
            self.aligned().iter().map(|line| format!("| {} |\n", line.join(" | "))).collect();
        if let Some(headings) = lines.first() {
            let cells = headings.trim_end().trim_matches('|').split('|').enumerate();
            let rule: String = cells
                .map(|(column, cell)| {
                    let dashes = "-".repeat(cell.chars().count() - 1);
                    let end = if self.is_text(column, self.headings.len()) { '-' } else { ':' };
                    format!("{dashes}{end}|")
                })
                .collect();
            lines.insert(1, format!("|{rule}\n"));
        }
        lines.concat()
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        let class = match (self.headings.is_empty(), self.prose) {
            (true, _) => Some("pairs"),
            (false, true) => Some("prose"),
            (false, false) => None,
        };
        let classes = |column, columns, tone| {
            let name = self.is_text(column, columns).then_some("name");
            let tone = match tone {
                Tone::Plain => None,
                Tone::Good => Some("good"),
                Tone::Bad => Some("bad"),
            };
            let both: Vec<&str> = name.into_iter().chain(tone).collect();
            (!both.is_empty()).then(|| both.join(" "))
        };
        html! {
            div.scroll {
                table class=[class] {
                    @if !self.headings.is_empty() {
                        thead { tr {
                            @for (column, heading) in self.headings.iter().enumerate() {
                                th class=[classes(column, self.headings.len(), Tone::Plain)] { (heading) }
                            }
                        } }
                    }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (column, place) in row.iter().enumerate() {
                                    td class=[classes(column, row.len(), place.tone)] {
                                        (place.text)
                                        @if let Some(theirs) = &place.beside {
                                            " " span.beside { (theirs) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["operation", "ops/s", "p99 ms"]);
        table.row([
            Place::from("read"),
            Place { beside: Some("S0: 198k".into()), ..Place::from("181,000") },
            "0.57".into(),
        ]);
        table.row([Place::from("<b>"), Place::from("9").toned(Tone::Bad), "12.3".into()]);
        table
    }

    #[test]
    fn text_is_aligned() {
        let expect = "operation               ops/s  p99 ms\n\
                      read       181,000 (S0: 198k)    0.57\n\
                      <b>                         9    12.3\n";
        assert_eq!(table().text(), expect, "found:\n{}", table().text());
        let pairs = Table::pairs(vec![("cores", "2".into()), ("memory", "8 GiB".into())]);
        assert_eq!(pairs.text(), "cores   2\nmemory  8 GiB\n");
    }

    #[test]
    fn markdown_has_a_rule_below_its_headings() {
        let expect = "| operation |              ops/s | p99 ms |\n\
            |-----------|-------------------:|-------:|\n\
                      | read      | 181,000 (S0: 198k) |   0.57 |\n\
                      | <b>       |                  9 |   12.3 |\n";
        assert_eq!(table().markdown(), expect);
    }

    #[test]
    fn html_is_escaped() {
        let mut table = table();
        table.ends_in_text = true;
        table.row([Place::from("verdict"), Place::from("better").toned(Tone::Good)]);
        let html = table.render().into_string();
        for part in [
            "<th class=\"name\">operation</th><th>ops/s</th>",
            "<td>181,000 <span class=\"beside\">S0: 198k</span></td>",
            "<td class=\"name\">&lt;b&gt;</td><td class=\"bad\">9</td>",
            "<td class=\"name good\">better</td>",
        ] {
            assert!(html.contains(part), "'{part}' is missing in {html}");
        }
    }
}
