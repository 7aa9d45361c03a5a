//! Fails where two things have one name (a public type is called in no crate as another one is in any), where
//! `ARCHITECTURE.md` names what is not there, and on lines that do not fit on a screen, which rustfmt leaves
//! where they are comments, texts or parts of macros.
//!
//! A type that only gives another crate's its parameters (`type Node = dispatch::Node<Data>`) is the same
//! thing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// As rustfmt's `max_width`.
const COLUMNS_MAX: usize = 110;

/// Names that are to stand for two things, and why.
const DOUBLES: &[(&str, &str)] = &[];

/// The type that a line defines for every crate.
fn defined(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| item.strip_prefix(kind))?;
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    let means_the_same = item.starts_with("type ") && rest.contains(&format!("::{name}"));
    (!means_the_same).then_some(name)
}

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates are side by side")
}

/// Adds all source files below a directory.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a source directory is readable") {
        let path = entry.expect("an entry is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn source_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(crates(), &mut files);
    files
}

/// What is wrong with the names of these types.
fn complaints(places: &BTreeMap<String, Vec<String>>, doubles: &[(&str, &str)]) -> Vec<String> {
    let is_excused = |name: &str| doubles.iter().any(|(double, _)| *double == name);
    let doubled = places.iter().filter(|(name, places)| places.len() > 1 && !is_excused(name));
    let doubled = doubled.map(|(name, places)| format!("{name} is defined in {}", places.join(" and ")));
    let once = doubles.iter().filter(|(name, _)| places.get(*name).is_none_or(|places| places.len() < 2));
    doubled.chain(once.map(|(name, _)| format!("{name} is no double and needs no excuse"))).collect()
}

#[test]
fn every_public_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in source_files().iter().filter(|path| path.iter().any(|part| part == "src")) {
        let text = std::fs::read_to_string(path).expect("a source file is readable");
        for name in text.lines().filter_map(defined) {
            places.entry(name.to_owned()).or_default().push(path.display().to_string());
        }
    }
    assert!(places.contains_key("ReadView") && places.contains_key("ReplicaSet"), "types are found");
    let complaints = complaints(&places, DOUBLES);
    assert!(complaints.is_empty(), "rename one of two, or make them one:\n{}", complaints.join("\n"));
}

#[test]
fn two_of_one_name_are_found() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let source = "pub struct Cursor<'a> {\n    pub enum Cursor {\npub type Node = dispatch::Node<Data>;\n\
        pub(crate) struct Node;\npub struct Node;";
    for name in source.lines().filter_map(defined) {
        places.entry(name.to_owned()).or_default().push("here".to_owned());
    }
    assert_eq!(complaints(&places, &[]), ["Cursor is defined in here and here"]);
    let excuses = [("Cursor", "a reason"), ("Node", "a reason")];
    assert_eq!(complaints(&places, &excuses), ["Node is no double and needs no excuse"]);
}

#[test]
fn lines_fit() {
    for path in source_files() {
        let text = std::fs::read_to_string(&path).expect("a source file is readable");
        let long = text.lines().position(|line| line.chars().count() > COLUMNS_MAX);
        assert_eq!(
            long.map(|line| line + 1),
            None,
            "a line of {} is longer than {COLUMNS_MAX} columns",
            path.display()
        );
    }
}

/// The first part that stands between two backquotes, and what comes behind it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.split_once('`')?.1.split_once('`')
}

/// Each file of a page (`crate/path` for `crates/crate/src/path`), with the function in parentheses behind
/// it.
fn files_named(page: &str) -> Vec<(PathBuf, Option<&str>)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((name, behind)) = quoted(rest) {
        rest = behind;
        let Some((package, path)) = name.split_once('/') else { continue };
        let source = crates().join(package).join("src");
        if source.is_dir() && (name.ends_with(".rs") || name.ends_with('/')) {
            let in_parentheses =
                behind.trim_start().strip_prefix('(').filter(|inside| inside.starts_with('`'));
            found.push((source.join(path), in_parentheses.and_then(quoted).map(|(function, _)| function)));
        }
    }
    found
}

#[test]
fn the_map_is_true() {
    let page = crates().parent().expect("the workspace").join("ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).expect("the page is readable");
    let files = files_named(&page);
    let (all, functions) = (files.len(), files.iter().filter(|(_, function)| function.is_some()).count());
    assert!(all > 80 && functions > 25, "{all} files and {functions} functions are found in ARCHITECTURE.md");
    for (path, function) in files {
        assert!(path.exists(), "ARCHITECTURE.md names {}, which is not there", path.display());
        if let Some(function) = function {
            let text = std::fs::read_to_string(&path).expect("a source file is readable");
            assert!(text.contains(&format!("fn {function}")), "{} has no {function}", path.display());
        }
    }
}
