//! An experiment's report page: the article's figures beside ours.

use super::column::{Column, ERRORS};
use super::definition::Kind;
use super::findings::Cell;
use super::report::{Report, errors, further_tables, table};
use crate::result::{Machine, Table, Tool, bytes, charts, page, plain, warning};
use maud::{Markup, html};

impl Report<'_> {
    /// The whole file.
    pub(crate) fn html(&self) -> String {
        let experiment = self.experiment;
        let name = experiment.name.to_uppercase();
        let body = html! {
            p { (experiment.about) }
            p { "Here: " (Machine::here().line()) "." }
            (self.warnings())
            @if !experiment.statements.is_empty() {
                h2 { "What the article says" }
                (self.statements())
            }
            (charts(&self.overview()))
            @for kind in self.findings.kinds() { (self.kind(&name, kind)) }
            h2 { "Circumstances" }
            (self.circumstances())
        };
        page(&format!("{name}: {}", experiment.title), &body)
    }

    fn kind(&self, name: &str, kind: &Kind) -> Markup {
        let cells = self.findings.of(&kind.name);
        let theirs = |cell: &Cell, column: Column| {
            let figure = plain(self.experiment.published(cell, column)?);
            // Of errors the article tells how many there were a second.
            let unit = if column == ERRORS { "/s" } else { "" };
            Some(format!("{name}: {figure}{unit}"))
        };
        let errors = errors(&cells);
        html! {
            h2 { (kind.title) }
            @if cells.iter().any(|cell| theirs(cell, ERRORS).is_some()) {
                p {
                    "Below ours: the article's figure, where it has one. Its requests a second include the \
                    failed ones, "
                    "which stand below our errors; ours do not."
                }
            }
            (charts(&self.charts(kind)))
            (table(&cells, &kind.comparisons, &theirs))
            @for (title, table) in further_tables(&cells) {
                h3 { (title) }
                (table)
            }
            @if !errors.is_empty() {
                ul { @for error in &errors { li { (error) } } }
            }
        }
    }

    fn warnings(&self) -> Markup {
        let factor = self.settings.asked.scale.0;
        html! {
            @if self.findings.interrupted {
                (warning("The experiment was interrupted; these are the figures until then."))
            }
            @if factor < 1.0 {
                (warning(&format!(
                    "This is a small edition, at a scale of {factor}: it shows that everything works, and \
                     its figures say little."
                )))
            }
        }
    }

    fn circumstances(&self) -> Table {
        let (machine, settings, tool) = (Machine::here(), self.settings, Tool::here());
        let commit = tool.commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
        let subjects: Vec<&str> = settings.subjects.iter().map(|subject| subject.name()).collect();
        let mut pairs = vec![
            ("machine", format!("{}, {} of memory", machine.line(), bytes(machine.memory_bytes))),
            ("measured", settings.line()),
            ("compared", subjects.join(", ")),
            ("program", format!("heddle {}{commit}", tool.version)),
            ("begun", settings.begun.clone()),
        ];
        if !settings.asked.server.is_empty() {
            pairs.push(("server's arguments", settings.asked.server.join(" ")));
        }
        pairs.extend(settings.given().into_iter().map(|given| ("given server", given)));
        Table::pairs(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Subject;
    use super::super::arguments::tests::settings;
    use super::super::column::{CONNECTED, RATE};
    use super::super::definition::{Experiment, S0, S3};
    use super::super::findings::Findings;
    use super::super::findings::tests::{cell, row};
    use super::*;
    use crate::result::check_self_contained;

    fn page(experiment: &'static Experiment) -> String {
        let one = |subject, rate| {
            let mut cell = cell(subject, 15_000, &[]);
            cell.row = row(0, 15_000, 30_000);
            let figures = [(RATE, rate), (Column::named("p95 ms"), 7.5), (CONNECTED, 15_000.0)];
            let measurement = super::super::findings::Measurement::default().with(figures);
            cell.rounds.push((0, measurement));
            cell
        };
        let cells = vec![one(Subject::Synchronous, 88_000.0), one(Subject::Reactor, 99_000.0)];
        let settings = settings(&["--scale", "0.5", "--", "--verbose"]);
        let findings = Findings { cells, interrupted: false };
        Report { experiment, settings: &settings, findings }.html()
    }

    #[test]
    fn a_page_has_the_articles_figures_beside_ours() {
        let page = page(&S0);
        check_self_contained(&page);
        let both = |ours: &str, theirs: &str| format!("{ours} <span class=\"beside\">S0: {theirs}</span>");
        for part in [
            both("15000", "30,000"),
            both("88000", "210,000"),
            both("7.50", "805"),
            both("15000", "24,000"),
            both("0", "140,000/s"),
            "<td>99000</td>".to_owned(),
            "The article set MongoDB 3.6".to_owned(),
            ">0.91 times</td><td class=\"name\">not measured</td>".to_owned(),
            "--verbose".to_owned(),
            "at a scale of 0.5".to_owned(),
        ] {
            assert!(page.contains(&part), "'{part}' is missing in {page}");
        }
        assert!(!super::tests::page(&S3).contains("class=\"beside\""), "others have no such table");
    }
}
