//! Pages that need nothing but themselves: no network, no scripts, no fonts. They follow the reader's colour
//! scheme.

use crate::chart::Panel;
use crate::error::BenchError;
use crate::result::table::Table;

/// No browser fetches anything for a page, whatever is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = include_str!("page.css");

/// A page that grows from top to bottom.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    title: String,
    body: String,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        Page { title: title.to_owned(), body: format!("<h1>{}</h1>\n", escape(title)) }
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.body.push_str(&format!("<h2>{}</h2>\n", escape(text)));
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        self.body.push_str(&format!("<p>{}</p>\n", escape(text)));
    }

    /// What a reader must not overlook.
    pub(crate) fn warning(&mut self, text: &str) {
        self.body.push_str(&format!("<p class=\"warning\">{}</p>\n", escape(text)));
    }

    /// Points under each other.
    pub(crate) fn list<T: AsRef<str>>(&mut self, points: impl IntoIterator<Item = T>) {
        let points = points.into_iter().map(|point| format!("<li>{}</li>\n", escape(point.as_ref())));
        self.body.push_str(&format!("<ul>\n{}</ul>\n", points.collect::<String>()));
    }

    pub(crate) fn table(&mut self, table: &Table) {
        self.body.push_str(&table.html());
    }

    /// Few figures, large, for who reads only these.
    pub(crate) fn highlights(&mut self, highlights: &[(&str, String)]) {
        self.body.push_str("<div class=\"highlights\">\n");
        for (name, value) in highlights {
            let (name, value) = (escape(name), escape(value));
            self.body.push_str(&format!("<div><b>{value}</b><span>{name}</span></div>\n"));
        }
        self.body.push_str("</div>\n");
    }

    /// Charts beside each other as far as there is room, each under its title.
    ///
    /// # Errors
    /// When one cannot be drawn.
    pub(crate) fn charts(&mut self, charts: &[Panel]) -> Result<(), BenchError> {
        if charts.is_empty() {
            return Ok(());
        }
        self.body.push_str("<div class=\"charts\">\n");
        for chart in charts {
            let (svg, title) = (chart.inline()?, escape(&chart.title));
            let svg = svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1);
            self.body.push_str(&format!("<figure><figcaption>{title}</figcaption>\n{svg}</figure>\n"));
        }
        self.body.push_str("</div>\n");
        Ok(())
    }

    /// The whole file.
    pub(crate) fn html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
            escape(&self.title),
            self.body
        )
    }
}

/// Text that is nothing but text, in elements and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::chart::{Axis, Plot, Scale};

    /// Fails when a page would fetch something or run a script.
    pub(crate) fn check_self_contained(html: &str) {
        let lower = html.to_lowercase();
        for part in ["<script", "<link", "<img", "<iframe", "@import", "url(", "src=", "href=", "javascript:"]
        {
            assert!(!lower.contains(part), "a page has '{part}'");
        }
        assert!(lower.contains("default-src 'none'"), "a page has no policy against fetching");
    }

    const HOSTILE: &str = "</title><script>alert('1')</script><img src=\"http://example.invalid/\">";

    #[test]
    fn hostile_texts_stay_texts() {
        let (y, bars) =
            (Axis::upright(Scale::Linear, [1.0].into_iter()), vec![(HOSTILE.to_owned(), (1, 2, 3), 1.0)]);
        let chart = Panel { title: HOSTILE.to_owned(), plot: Plot::Bars { y, bars } };
        let mut page = Page::new(HOSTILE);
        page.heading(HOSTILE);
        page.paragraph(HOSTILE);
        page.warning(HOSTILE);
        page.list([HOSTILE]);
        page.highlights(&[(HOSTILE, HOSTILE.to_owned())]);
        page.table(&Table::pairs(vec![(HOSTILE.to_owned(), HOSTILE.to_owned())]));
        page.charts(&[chart]).expect("draws");
        let html = page.html();
        // Text may say what it likes; as markup it must not be there.
        let marked = html.to_lowercase();
        for part in ["<script", "<img", "</title><"] {
            assert!(!marked.contains(part), "'{part}' came through: {html}");
        }
        assert_eq!(html.matches("&lt;script").count(), 13, "{html}");
    }

    #[test]
    fn a_page_is_self_contained() {
        let mut page = Page::new("A run");
        page.heading("Figures");
        check_self_contained(&page.html());
    }
}
