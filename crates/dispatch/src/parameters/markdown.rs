//! `docs/configuration.md`, written from the table.

use super::{ABSENT, DEFINITIONS, Definition, Kind};
use document::Value;
use std::fmt::Write;

const HEAD: &str = "# Configuration

This page is printed by `heddle parameters`; a test compares the two.

Options are given as flags (`heddle serve --port 27018`), in a YAML file (`heddle serve -f heddle.yaml`) or as
`--setParameter name=value`; flags win over the file. `serve` may be left out. Those that change at run \
time are set with
`db.adminCommand({ setParameter: 1, name: value })`. Unknown names are refused, and a test sees to it that \
something reads each.

```yaml
net:
  port: 27017
  bindIp: 127.0.0.1
storage:
  dbPath: ./heddle-data
systemLog:
  verbosity: 0
  component:
    network:
      verbosity: 1
setParameter:
  cursorTimeoutMillis: 600000
```
";

/// The page.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    section(&mut page, "Start options", |definition| definition.yaml.is_some());
    section(&mut page, "Server parameters", |definition| definition.yaml.is_none());
    absent(&mut page);
    page
}

fn absent(page: &mut String) {
    page.push_str("\n## Parameters of MongoDB for what this server does not do\n\n");
    page.push_str(
        "They keep the value that says so; any other is refused.\n\n| name | value | why |\n|---|---|---|\n",
    );
    for absent in ABSENT {
        let value = match &absent.value {
            Value::Double(number) => format!("{number:e}"),
            Value::Int32(number) => number.to_string(),
            Value::Boolean(flag) => flag.to_string(),
            other => format!("{other:?}"),
        };
        let _ = writeln!(page, "| `{}` | `{value}` | {} |", absent.name, absent.reason);
    }
}

fn section(page: &mut String, title: &str, chosen: impl Fn(&Definition) -> bool) {
    let _ =
        write!(page, "\n## {title}\n\n| name | flag | default | range | unit | at run time | meaning |\n");
    page.push_str("|---|---|---|---|---|---|---|\n");
    for definition in DEFINITIONS.iter().filter(|definition| chosen(definition)) {
        row(page, definition);
    }
}

fn row(page: &mut String, definition: &Definition) {
    let name = match definition.yaml {
        Some(path) if path != definition.name => format!("`{path}`, `{}`", definition.name),
        _ => format!("`{}`", definition.name),
    };
    let flag = definition.flag.map(|flag| format!("`--{flag}`")).unwrap_or_default();
    let default = match definition.default_setting().to_string() {
        empty if empty.is_empty() => "empty".to_owned(),
        text => format!("`{text}`"),
    };
    let range = match definition.kind {
        Kind::Boolean { .. } => "true, false".to_owned(),
        Kind::Integer { min, max: i64::MAX, .. } => format!("{min} or more"),
        Kind::Integer { min, max, .. } => format!("{min} to {max}"),
        Kind::Text { .. } => "text".to_owned(),
        Kind::Choice { allowed, .. } => {
            let words: Vec<_> =
                allowed.iter().map(|word| if word.is_empty() { "empty" } else { word }).collect();
            words.join(", ")
        }
        Kind::Form { form, .. } => form.to_owned(),
    };
    let runtime = if definition.changes_at_runtime { "yes" } else { "no" };
    let Definition { unit, meaning, .. } = definition;
    let _ = writeln!(page, "| {name} | {flag} | {default} | {range} | {unit} | {runtime} | {meaning} |");
}
