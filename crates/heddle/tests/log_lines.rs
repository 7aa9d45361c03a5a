//! Every line that the log may have, but those of debugging, has its row in `docs/log-lines.md`, and every
//! row has its line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Crates whose lines no server writes.
const OTHER_PROGRAMS: [&str; 2] = ["bench", "simulation"];
const PAGE: &str = include_str!("../../../docs/log-lines.md");

/// A line as the code has it. Lines of one id may have several messages.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LogLine {
    id: u64,
    severity: char,
    message: String,
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && name != "testing.rs" {
            found.push(path);
        }
    }
}

fn lines_of_code() -> BTreeSet<LogLine> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut lines = BTreeSet::new();
    for entry in std::fs::read_dir(crates).expect("the crates") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        if OTHER_PROGRAMS.iter().any(|other| name == *other) || !entry.path().join("src").is_dir() {
            continue;
        }
        let mut files = Vec::new();
        sources(&entry.path().join("src"), &mut files);
        for path in files {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            lines.extend(lines_of(code));
        }
    }
    lines
}

fn lines_of(code: &str) -> Vec<LogLine> {
    let severities = [("error!(", 'E'), ("warn!(", 'W'), ("info!(", 'I')];
    let calls = code.match_indices("tracing::").filter_map(|(place, name)| {
        let rest = &code[place + name.len()..];
        let (call, severity) = severities.iter().find(|(call, _)| rest.starts_with(call))?;
        Some((&rest[call.len()..], *severity))
    });
    calls.filter_map(|(call, severity)| line_of(call, severity)).collect()
}

/// The call's own id, or the one that its message has; its message is its last text. None where the message
/// is computed.
fn line_of(call: &str, severity: char) -> Option<LogLine> {
    let (mut depth, mut texts, mut id) = (1, Vec::new(), None);
    let mut rest = call;
    while depth > 0 {
        if let Some(number) = rest.strip_prefix(" id = ") {
            let digits = number.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '_');
            id = digits.filter(char::is_ascii_digit).collect::<String>().parse().ok();
        }
        let letter = rest.chars().next().expect("a call has an end");
        rest = &rest[letter.len_utf8()..];
        match letter {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            '"' => {
                let (text, behind) = text_of(rest);
                texts.push(text);
                rest = behind;
            }
            _ => {}
        }
    }
    let message = texts.pop()?;
    if message.contains('{') {
        return None;
    }
    Some(LogLine { id: id.unwrap_or_else(|| id_of(&message)), severity, message })
}

/// A text behind its opening quotation mark, and what comes behind its closing one.
fn text_of(code: &str) -> (String, &str) {
    let mut text = String::new();
    let mut rest = code;
    loop {
        let letter = rest.chars().next().expect("a text has an end");
        rest = &rest[letter.len_utf8()..];
        match letter {
            '"' => return (text, rest),
            // The line goes on behind the blanks of the next one.
            '\\' if rest.starts_with('\n') => rest = rest.trim_start(),
            '\\' => {
                text.push_str(&rest[..1]);
                rest = &rest[1..];
            }
            _ => text.push(letter),
        }
    }
}

/// As `logging/line.rs` has it: FNV-1a of the message.
fn id_of(message: &str) -> u64 {
    let hash = message.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    10_000_000 + hash % 10_000_000
}

#[test]
fn calls_are_read_as_the_compiler_reads_them() {
    let code = r#"
        tracing::warn!(target: "x", id = 8_800_104, kind, "goes \
            on (still)");
        tracing::debug!("not told");
        tracing::error!(%error, "broken");
        tracing::info!("{what}");
    "#;
    let line = |id, severity, message: &str| LogLine { id, severity, message: message.to_owned() };
    let expect = [line(8_800_104, 'W', "goes on (still)"), line(id_of("broken"), 'E', "broken")];
    assert_eq!(lines_of(code), expect);
}

#[test]
fn every_log_line_has_its_row_and_every_row_its_line() {
    let code = lines_of_code();
    assert!(code.len() > 100, "the lines are found: {}", code.len());
    let mut rows = BTreeSet::new();
    for row in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [id, severity, message, meaning] = cells[..] else { panic!("not four cells: {row}") };
        let Ok(id) = id.parse::<u64>() else { continue };
        assert!(meaning.len() > 10, "{id} has no meaning: {row}");
        let severity = severity.chars().next().expect("a severity");
        let line = LogLine { id, severity, message: message.to_owned() };
        assert!(rows.insert(line), "{id} has two rows");
    }
    let missing: Vec<_> = code.difference(&rows).collect();
    assert!(missing.is_empty(), "docs/log-lines.md has no row, or another one, for {missing:#?}");
    let outdated: Vec<_> = rows.difference(&code).collect();
    assert!(outdated.is_empty(), "docs/log-lines.md has rows of lines that are not there: {outdated:#?}");
}
