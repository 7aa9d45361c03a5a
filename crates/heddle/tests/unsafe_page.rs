//! Fails where `docs/unsafe.md` and the code disagree: which functions have `unsafe` and how often, which C++
//! is beside them, and which tests check them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How often the keyword is where, by file and by function (or what stands in its place).
type Counts = BTreeMap<(String, String), usize>;

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates are side by side")
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a source directory is readable");
    let paths = entries.map(|entry| entry.expect("an entry is readable").path());
    let of = |path: PathBuf| match path.is_dir() {
        true => files(&path, extension),
        false => Vec::from_iter(path.extension().is_some_and(|own| own == extension).then_some(path)),
    };
    paths.flat_map(of).collect()
}

/// `crate/path` for `crates/crate/src/path`, as pages call it.
fn name_of(path: &Path) -> String {
    let path = path.strip_prefix(crates()).expect("a file of a crate").to_string_lossy().into_owned();
    path.replacen("/src/", "/", 1)
}

/// A line without its comment and what stands between quotation marks.
fn code_of(line: &str) -> String {
    let line = line.replace("'\"'", "").replace("\\\"", "");
    let code: String = line.split('"').step_by(2).collect();
    code.split("//").next().unwrap_or_default().to_owned()
}

/// What stands behind a word, each time that it does.
fn behind<'c>(code: &'c str, word: &str) -> Vec<&'c str> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let found = code.match_indices(word).filter_map(|(at, _)| {
        let (before, rest) = (code.get(..at)?, code.get(at + word.len()..)?);
        (!before.ends_with(is_part) && !rest.starts_with(is_part)).then(|| rest.trim_start())
    });
    found.collect()
}

/// The name with which a text begins.
fn first_name(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

/// Counts the keyword in a file.
fn count(file: &str, text: &str, counts: &mut Counts) {
    let mut function = String::new();
    for line in text.lines() {
        let code = code_of(line);
        let named = behind(&code, "fn").into_iter().map(first_name).find(|name| !name.is_empty());
        if let Some(name) = named {
            function = name.to_owned();
        }
        for rest in behind(&code, "unsafe") {
            let place = if rest.starts_with('{') {
                function.clone()
            } else if let Some(item) = rest.strip_prefix("impl ") {
                item.trim_end_matches([' ', '{', '}']).to_owned()
            } else if let Some(foreign) = rest.strip_prefix("extern") {
                match foreign.trim_start() {
                    block if block.starts_with('{') => "extern".to_owned(),
                    // The type of a pointer.
                    pointer if pointer.starts_with("fn(") => continue,
                    _ => function.clone(),
                }
            } else {
                function.clone()
            };
            *counts.entry((file.to_owned(), place)).or_default() += 1;
        }
    }
}

/// What the page counts: rows of tables below headings that name a file.
fn counts_told(page: &str) -> Counts {
    let mut told = Counts::new();
    let mut file = String::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            file = heading.trim_matches('`').to_owned();
        }
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, place, number, _, _, _, _] = cells.as_slice() else { continue };
        if let Ok(number) = number.parse() {
            told.insert((file.clone(), place.trim_matches('`').to_owned()), number);
        }
    }
    told
}

/// What stands between backquotes in the last cells of the tables.
fn tests_told(page: &str) -> BTreeSet<&str> {
    let last = page.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.rsplit('|').nth(1));
    let quoted = last.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    quoted.filter(|name| !name.ends_with(".rs") && name.contains('_')).collect()
}

fn page() -> String {
    let path = crates().parent().expect("the workspace").join("docs/unsafe.md");
    std::fs::read_to_string(path).expect("the page is readable")
}

#[test]
fn every_unsafe_has_its_row() {
    let mut found = Counts::new();
    for path in files(crates(), "rs") {
        let text = std::fs::read_to_string(&path).expect("a source file is readable");
        count(&name_of(&path), &text, &mut found);
    }
    let told = counts_told(&page());
    assert!(found.len() > 50, "only {} places with unsafe code are found", found.len());
    let wrong = |(place, number): &(&(String, String), &usize)| told.get(*place) != Some(*number);
    let missing: Vec<_> = found.iter().filter(wrong).collect();
    assert!(missing.is_empty(), "docs/unsafe.md has no row, or another number, for {missing:#?}");
    let gone: Vec<_> = told.keys().filter(|place| !found.contains_key(place)).collect();
    assert!(gone.is_empty(), "docs/unsafe.md has rows for what is not there: {gone:#?}");
}

#[test]
fn every_file_of_cpp_has_its_row() {
    let page = page();
    let found = files(crates(), "cc");
    assert!(!found.is_empty(), "the files of C++ are found");
    for path in found {
        let row = format!("| `{}` |", name_of(&path));
        assert!(page.contains(&row), "docs/unsafe.md has no row {row}");
    }
}

#[test]
fn the_tests_that_it_names_are_there() {
    let sources: Vec<_> = files(crates(), "rs")
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("a source file is readable"))
        .collect();
    let page = page();
    let tests = tests_told(&page);
    assert!(tests.len() > 20, "only {} names of tests are found", tests.len());
    for test in tests {
        let begins = format!("fn {test}(");
        assert!(sources.iter().any(|source| source.contains(&begins)), "there is no test {test}");
    }
}

#[test]
fn all_forms_are_counted() {
    let source = r#"
UNSAFE extern "C" {
    fn foreign(it: *const u8);
}
struct Calls {
    call: UNSAFE extern "C" fn(*const u8),
}
UNSAFE impl Send for Calls {}
UNSAFE extern "C" fn called() {
    // Nothing is UNSAFE { here }.
    let text = "UNSAFE { }";
}
UNSAFE fn raw() -> u8 { UNSAFE { *read() } }
fn twice() {
    let is_unsafe = (UNSAFE { raw() }, UNSAFE { raw() });
}
"#;
    let mut found = Counts::new();
    count("file", &source.replace("UNSAFE", "unsafe"), &mut found);
    let expect = [("Send for Calls", 1), ("called", 1), ("extern", 1), ("raw", 2), ("twice", 2)];
    let expect = expect.map(|(place, number)| (("file".to_owned(), place.to_owned()), number));
    assert_eq!(found, Counts::from(expect));
}
