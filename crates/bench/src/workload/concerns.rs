//! Write concern, read concern and read preference, as commands carry them.

use crate::workload::model::{CommandKind, Step};
use crate::workload::template::{Fields, Template};
use document::{Document, Value};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What commands are told beside what they are to do. Nothing: the server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Concerns {
    pub(crate) write: WriteConcern,
    /// `local`, `majority` …
    pub(crate) read: Option<String>,
    /// `secondaryPreferred` …; `primary` is not sent.
    pub(crate) read_preference: Option<String>,
}

/// How far a write must have come before it is acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WriteConcern {
    pub(crate) w: Option<W>,
    pub(crate) journal: Option<bool>,
    pub(crate) timeout_ms: Option<u32>,
}

/// On how many members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum W {
    Members(u32),
    /// `majority` or a name of the replica set's.
    Mode(String),
}

impl W {
    /// A number or a name.
    pub(crate) fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| W::Mode(text.to_owned()), W::Members)
    }
}

impl WriteConcern {
    /// The document; `None` when nothing was asked for.
    pub(crate) fn document(&self) -> Option<Document> {
        let mut document = Document::new();
        match &self.w {
            Some(W::Members(members)) => document.push("w", *members as i32),
            Some(W::Mode(mode)) => document.push("w", mode.as_str()),
            None => {}
        }
        if let Some(journal) = self.journal {
            document.push("j", journal);
        }
        if let Some(timeout) = self.timeout_ms {
            document.push("wtimeout", timeout as i32);
        }
        (!document.is_empty()).then_some(document)
    }
}

impl fmt::Display for WriteConcern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let w = self.w.as_ref().map(|w| match w {
            W::Members(members) => format!("w: {members}"),
            W::Mode(mode) => format!("w: {mode}"),
        });
        let journal = self.journal.map(|journal| format!("j: {journal}"));
        let timeout = self.timeout_ms.map(|timeout| format!("wtimeout: {timeout}"));
        let parts: Vec<String> = [w, journal, timeout].into_iter().flatten().collect();
        formatter.write_str(&parts.join(", "))
    }
}

impl Concerns {
    /// The whole command. What the workload says itself stays.
    pub(crate) fn apply(&self, step: &Step, database: &str) -> Fields {
        let mut command = step.command.clone();
        let mut add = |name: &str, value: Value| {
            if !command.iter().any(|(existing, _)| existing == name) {
                command.push((name.to_owned(), Template::Constant(value)));
            }
        };
        match step.kind() {
            CommandKind::Write => {
                if let Some(concern) = self.write.document() {
                    add("writeConcern", concern.into());
                }
            }
            CommandKind::Read => {
                if let Some(level) = &self.read {
                    add("readConcern", Document::from_iter([("level", level.as_str())]).into());
                }
                if let Some(mode) = self.read_preference.as_ref().filter(|mode| *mode != "primary") {
                    add("$readPreference", Document::from_iter([("mode", mode.as_str())]).into());
                }
            }
            CommandKind::Other => {}
        }
        add("$db", database.into());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::model::Expect;
    use document::doc;

    fn check(concerns: &Concerns, command: &[(&str, Value)], expect: Document) {
        let command: Fields = command
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Template::Constant(value.clone())))
            .collect();
        let whole = concerns.apply(&Step { command, expect: Expect::OK }, "shop");
        let found: Document = whole
            .into_iter()
            .map(|(name, value)| match value {
                Template::Constant(value) => (name, value),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn commands_get_what_concerns_them() {
        let concerns = Concerns {
            write: WriteConcern { w: Some(W::parse("majority")), journal: Some(true), timeout_ms: None },
            read: Some("local".to_owned()),
            read_preference: Some("secondary".to_owned()),
        };
        let name = || Value::from("docs");
        check(
            &concerns,
            &[("find", name())],
            doc! {
                "find": "docs", "readConcern": { "level": "local" },
                "$readPreference": { "mode": "secondary" }, "$db": "shop"
            },
        );
        check(
            &concerns,
            &[("insert", name())],
            doc! { "insert": "docs", "writeConcern": { "w": "majority", "j": true }, "$db": "shop" },
        );
        check(
            &concerns,
            &[("insert", name()), ("writeConcern", doc! { "w": 1 }.into()), ("$db", "other".into())],
            doc! { "insert": "docs", "writeConcern": { "w": 1 }, "$db": "other" },
        );
        check(&concerns, &[("ping", 1.into())], doc! { "ping": 1, "$db": "shop" });
        check(&Concerns::default(), &[("insert", name())], doc! { "insert": "docs", "$db": "shop" });
    }

    #[test]
    fn a_write_concern_in_words() {
        let concern = WriteConcern { w: Some(W::parse("1")), journal: Some(false), timeout_ms: Some(5) };
        assert_eq!(concern.to_string(), "w: 1, j: false, wtimeout: 5");
        assert_eq!(WriteConcern::default().to_string(), "");
    }
}
