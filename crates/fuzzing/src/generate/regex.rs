//! Patterns and their options.

use crate::source::Source;

const ATOMS: &[&str] = &[
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    "\\w",
    "\\d",
    "\\s",
    "^",
    "$",
    "\\b",
    "\\B",
    "é",
    "(?:ab)",
    "(a|b)",
    "[[:alpha:]]",
    "\\.",
    "x{0}",
    "\\A",
    "\\z",
    "[a-c]",
    "\\x61",
    "\\pL",
];
/// What needs a machine that goes back.
const BACKTRACKING: &[&str] = &["(a)\\1", "(?=a)", "(?!b)", "(?<=a)", "(?<!b)", "(?>a*)", "(?P<n>b)(?P=n)"];
const REPEATS: &[&str] = &["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?", "+?", "??", "*+"];
const BROKEN: &[&str] =
    &["(", ")", "[", "\\", "*", "a{99999}", "(?P<", "[b-a]", "{", "\\Q", "(?#", "(?R)", "\\k<x>"];
const OPTIONS: &[&str] = &["", "", "", "i", "m", "s", "x", "im", "u", "q", "ii"];

pub(crate) fn pattern(source: &mut Source<'_>) -> String {
    let mut pattern = String::new();
    for _ in 0..source.below(6) {
        match source.below(16) {
            0..=9 => pattern.push_str(source.pick(ATOMS)),
            10 => pattern.push_str(source.pick(BACKTRACKING)),
            11 => pattern.push('|'),
            12 => pattern = format!("({pattern})"),
            13 if source.one_in(4) => pattern.push_str(source.pick(BROKEN)),
            // A pattern ends at a zero.
            14 if source.one_in(4) => {
                pattern.push_str(&String::from_utf8_lossy(source.bytes(4)).replace('\0', ""))
            }
            _ => pattern.push_str(source.pick(REPEATS)),
        }
    }
    pattern
}

pub(crate) fn regex_options(source: &mut Source<'_>) -> String {
    source.pick(OPTIONS).to_owned()
}
