//! An experiment's report page: the article's figures beside ours.

use crate::article::plan::Cell;
use crate::article::published;
use crate::article::report::{Report, Section};
use crate::article::table::{Spot, errors, table};
use crate::chart::Figure;
use crate::error::BenchError;
use crate::result::{Machine, Page, Table, Tool, bytes, plain};

/// The whole file.
///
/// # Errors
/// When a chart cannot be drawn.
pub(crate) fn html(report: &Report<'_>) -> Result<String, BenchError> {
    let article = report.article;
    let mut page = Page::new(&format!("{}: {}", article.name(), article.title));
    page.paragraph(article.about);
    page.paragraph(&format!("Here: {}.", Machine::here().line()));
    warnings(report, &mut page);
    if !article.statements.is_empty() {
        page.heading("What the article says");
        page.table(&report.statements());
    }
    page.charts(&report.overview().map(Figure::apart).unwrap_or_default())?;
    for (number, section) in report.sections.iter().enumerate() {
        let cells = report.findings.section(number);
        if !cells.is_empty() {
            page.heading(section.title);
            add_section(report, section, number, &cells, &mut page)?;
        }
    }
    page.heading("Circumstances");
    page.table(&circumstances(report));
    Ok(page.html())
}

fn warnings(report: &Report<'_>, page: &mut Page) {
    if report.findings.interrupted {
        page.warning("The experiment was interrupted; these are the figures until then.");
    }
    let factor = report.settings.scale.factor();
    if factor < 1.0 {
        page.warning(&format!(
            "This is a small edition, at a scale of {factor}: it shows that everything works, and its figures say little."
        ));
    }
}

fn add_section(
    report: &Report<'_>,
    section: &Section,
    number: usize,
    cells: &[&Cell],
    page: &mut Page,
) -> Result<(), BenchError> {
    let has_published = report.article.has_table
        && cells.iter().any(|cell| published::has_row(section.kind, cell.row.clients));
    if has_published {
        page.paragraph(
            "Below ours: the article's figure, where it has one. Its requests a second include the failed ones, which stand below \
             our errors; ours do not.",
        );
    }
    page.charts(&report.sweep(number, section).map(Figure::apart).unwrap_or_default())?;
    let mark = |text: String| format!("{}: {text}", report.article.name());
    page.table(&table(cells, section.comparisons, &|cell, spot| {
        has_published.then(|| beside(section.kind, cell, spot)).flatten().map(mark)
    }));
    let errors = errors(cells);
    if !errors.is_empty() {
        page.list(&errors);
    }
    Ok(())
}

fn beside(kind: &str, cell: &Cell, spot: Spot) -> Option<String> {
    let clients = cell.row.clients;
    match spot {
        Spot::Connections => {
            let differs = published::has_row(kind, clients) && clients != cell.row.connections;
            differs.then(|| plain(clients as f64))
        }
        Spot::Figure(column) => published::figure(kind, clients, cell.subject, column).map(plain),
        Spot::Errors => {
            published::errors(kind, clients, cell.subject).map(|errors| format!("{}/s", plain(errors)))
        }
    }
}

fn circumstances(report: &Report<'_>) -> Table {
    let (machine, settings) = (Machine::here(), report.settings);
    let mut pairs = vec![
        ("machine", format!("{}, {} of memory", machine.line(), bytes(machine.memory_bytes))),
        ("measured", settings.line()),
        ("compared", settings.subjects.iter().map(|subject| subject.name()).collect::<Vec<_>>().join(", ")),
        ("program", program()),
        ("begun", settings.begun.clone()),
    ];
    if !settings.server_arguments.is_empty() {
        pairs.push(("server's arguments", settings.server_arguments.join(" ")));
    }
    pairs.extend(settings.given.iter().map(|given| ("given server", given.clone())));
    Table::pairs(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn program() -> String {
    let Tool { version, commit, .. } = Tool::here();
    let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    format!("heddle {version}{commit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::article::figures::{CONNECTED, Measurement, P95, RATE};
    use crate::article::plan::{Findings, Row};
    use crate::article::statement::Statement;
    use crate::article::{Settings, Subject};
    use crate::result::check_self_contained;
    use std::time::Duration;

    const FAST: Section = Section { kind: "fast", title: "Fast", comparisons: &[], panels: &[] };

    fn article(has_table: bool) -> Report<'static> {
        let statements: &[Statement] =
            &[Statement { claim: "most is best", theirs: "900k", ours: |_| Some("123k".to_owned()) }];
        let article = crate::article::report::Article {
            experiment: "s0",
            title: "threads",
            about: "Once upon a time.",
            has_table,
            statements,
        };
        let settings = Settings {
            rig: crate::rig::Rig::default(),
            scale: "0.5".parse().expect("a scale"),
            begun: "2026-01-02T03:04:05Z".to_owned(),
            given: Vec::new(),
            subjects: vec![Subject::Synchronous, Subject::Reactor],
            connections: Vec::new(),
            rounds: 1,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
            stored: 1,
            document_bytes: 100,
            seed: 1,
            out: None,
            data_directory: std::env::temp_dir(),
            server_arguments: vec!["--verbose".to_owned()],
        };
        let row = Row { section: 0, connections: 15_000, clients: 30_000 };
        let cell = |subject, rate| {
            let measurement =
                Measurement::default().with(RATE, rate).with(P95, 7.5).with(CONNECTED, 15_000.0);
            Cell { row, subject, rounds: vec![(0, measurement)] }
        };
        let cells = vec![cell(Subject::Synchronous, 88_000.0), cell(Subject::Reactor, 99_000.0)];
        Report {
            article: Box::leak(Box::new(article)),
            settings: Box::leak(Box::new(settings)),
            sections: vec![FAST],
            findings: Findings { cells, interrupted: false },
        }
    }

    #[test]
    fn a_page_has_the_articles_figures_beside_ours() {
        let page = html(&article(true)).expect("draws");
        check_self_contained(&page);
        let both = |ours: &str, theirs: &str| format!("{ours} <span class=\"beside\">S0: {theirs}</span>");
        for part in [
            both("15000", "30,000"),
            both("88000", "210,000"),
            both("7.50", "805"),
            both("15000", "24,000"),
            both("0", "140,000/s"),
            "<td>99000</td>".to_owned(),
            "Once upon a time.".to_owned(),
            ">900k</td><td class=\"name\">123k</td>".to_owned(),
            "2026-01-02T03:04:05Z".to_owned(),
            "--verbose".to_owned(),
            "at a scale of 0.5".to_owned(),
        ] {
            assert!(page.contains(&part), "'{part}' is missing in {page}");
        }
    }

    #[test]
    fn other_experiments_do_not_borrow_its_table() {
        let page = html(&article(false)).expect("draws");
        assert!(!page.contains("class=\"beside\""), "{page}");
    }
}
