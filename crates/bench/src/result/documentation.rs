//! `docs/bench-report.md` names every key that is written, and no other.

use crate::result::comparison::Comparison;
use crate::result::sample;
use serde_json::Value;
use std::collections::BTreeSet;

const MANUAL: &str = include_str!("../../../../docs/bench-report.md");

/// Below these the manual tells of the keys in words.
const WHOLES: [&str; 8] = [
    "target.server.buildInfo",
    "workload.mix",
    "workload.options",
    "loadPhase.errors",
    "repetitions[].total",
    "repetitions[].kinds[].latency.histogram",
    "repetitions[].server[].opcounters",
    "repetitions[].server[].extra",
];

/// Paths of all keys, `[]` behind those that hold several values.
fn paths(value: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    walk(String::new(), value, &mut paths);
    paths.remove("");
    paths
}

fn walk(path: String, value: &Value, paths: &mut BTreeSet<String>) {
    if WHOLES.contains(&path.as_str()) {
        paths.insert(path);
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk(below, field, paths);
            }
            paths.insert(path);
        }
        Value::Array(elements) => {
            let each = format!("{path}[]");
            for element in elements {
                walk(each.clone(), element, paths);
            }
            paths.insert(each);
        }
        _ => {
            paths.insert(path);
        }
    }
}

/// Keys in the tables below a heading, up to the next heading.
fn documented(heading: &str) -> BTreeSet<String> {
    let (_, section) = MANUAL.split_once(&format!("\n## {heading}\n")).expect("the manual has the heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let key = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    section.lines().filter_map(key).collect()
}

fn check(heading: &str, written: &Value) {
    let (documented, written) = (documented(heading), paths(written));
    let missing: Vec<&String> = written.difference(&documented).collect();
    let invented: Vec<&String> = documented.difference(&written).collect();
    assert!(missing.is_empty(), "docs/bench-report.md does not tell of {missing:?}");
    assert!(invented.is_empty(), "docs/bench-report.md tells of {invented:?}, which is not written");
}

#[test]
fn every_key_of_a_run_is_documented() {
    check("The JSON file of a run", &serde_json::to_value(sample::full()).expect("plain data"));
}

#[test]
fn every_key_of_a_comparison_is_documented() {
    let mut other = sample::full();
    other.load.connections += 1;
    let runs = [sample::full(), other];
    let comparison = Comparison::new(&runs, None).expect("two runs");
    check("Comparisons", &serde_json::to_value(&comparison).expect("plain data"));
}

#[test]
fn the_columns_of_the_series_are_documented() {
    let csv = crate::result::csv::text(&sample::full());
    for column in csv.lines().next().unwrap_or_default().split(',') {
        assert!(MANUAL.contains(&format!("`{column}`")), "docs/bench-report.md does not tell of {column}");
    }
}
