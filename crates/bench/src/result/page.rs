//! Pages that need nothing but themselves: no network, no scripts, no fonts. They follow the reader's colour
//! scheme.

use crate::chart::Panel;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// No browser fetches anything for a page, whatever is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = include_str!("page.css");

pub(crate) fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
            }
        }
    };
    page.into_string()
}

/// What a reader must not overlook.
pub(crate) fn warning(text: &str) -> Markup {
    html! { p.warning { (text) } }
}

/// Few figures, large, for who reads only these.
pub(crate) fn highlights(highlights: &[(&str, String)]) -> Markup {
    html! {
        div.highlights {
            @for (name, value) in highlights { div { b { (value) } span { (name) } } }
        }
    }
}

/// Charts beside each other as far as there is room, each under its title.
pub(crate) fn charts(charts: &[Panel]) -> Markup {
    html! {
        @if !charts.is_empty() {
            div.charts {
                @for chart in charts { figure { figcaption { (chart.title) } (chart.inline()) } }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::chart::{Axis, Plot, Scale};
    use crate::result::Table;

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
        let body = html! {
            (warning(HOSTILE))
            (highlights(&[(HOSTILE, HOSTILE.to_owned())]))
            (Table::pairs(vec![(HOSTILE, HOSTILE.to_owned())]))
            (charts(&[chart]))
        };
        let html = page(HOSTILE, &body);
        // Text may say what it likes; as markup it must not be there.
        let marked = html.to_lowercase();
        for part in ["<script", "<img"] {
            assert!(!marked.contains(part), "'{part}' came through: {html}");
        }
        assert_eq!(marked.matches("</title>").count(), 2, "those of the page and the bar: {html}");
        assert_eq!(html.matches("&lt;script").count(), 11, "{html}");
    }

    #[test]
    fn a_page_is_self_contained() {
        check_self_contained(&page("A run", &html! { h2 { "Figures" } }));
    }
}
