//! Every parameter is read by something: what is accepted and then ignored deceives whoever set it.

use dispatch::parameters::ALL;
use std::path::{Path, PathBuf};

/// Where parameters are defined, and not read.
const TABLE: &str = "parameters/table.rs";

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !matches!(name, "tests.rs" | "testing.rs") {
            found.push(path);
        }
    }
}

/// The code of all crates without tests, and without what only stores a parameter.
fn product_code() -> String {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in std::fs::read_dir(crates).expect("the crates") {
        let source = entry.expect("an entry").path().join("src");
        if source.is_dir() {
            sources(&source, &mut files);
        }
    }
    files.retain(|path| !path.ends_with(TABLE));
    assert!(files.len() > 100, "the sources are there: {}", files.len());
    let code = files.iter().map(|path| std::fs::read_to_string(path).expect("a source file"));
    let code =
        code.map(|text| text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned());
    let all: Vec<String> = code.collect();
    let lines = all.iter().flat_map(|text| text.lines());
    lines.filter(|line| !line.contains(".set(Parameter::")).collect::<Vec<_>>().join("\n")
}

/// Whether a parameter is named, as a whole word.
fn is_read(code: &str, identifier: &str) -> bool {
    let name = format!("Parameter::{identifier}");
    let ends = |after: &str| !after.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    code.match_indices(&name).any(|(at, _)| code.get(at + name.len()..).is_some_and(ends))
}

#[test]
fn every_parameter_has_a_reader() {
    let code = product_code();
    assert!(!is_read(&code, "NoSuchParameter"));
    let unread: Vec<String> =
        ALL.iter().map(|parameter| format!("{parameter:?}")).filter(|name| !is_read(&code, name)).collect();
    assert!(unread.is_empty(), "accepted and ignored, as nothing reads them: {unread:?}");
}
