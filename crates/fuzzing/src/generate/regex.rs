//! Patterns and their options.

use crate::source::Source;

const ATOMS: &[&str] = &[
    "a",
    "b",
    "c",
    "\\w",
    "\\W",
    "\\d",
    "\\s",
    "\\S",
    "\\h",
    "\\H",
    "\\v",
    "\\V",
    "\\R",
    "\\N",
    ".",
    "^",
    "$",
    "\\b",
    "\\B",
    "\\A",
    "\\z",
    "\\Z",
    "\\G",
    "\\K",
    "é",
    "É",
    "k",
    "ß",
    "1",
    "_",
    "<",
    "\\<",
    "\\>",
    "\\.",
    "\\_",
    " ",
    "#",
    "\\#",
    "&",
    "-",
    "]",
    "x{0}",
    "{2",
    "a{,2",
    "\\n",
    "\\t",
    "\\x61",
    "\\x{e9}",
    "\\0",
    "\\012",
    "\\10",
    "\\o{141}",
    "\\N{U+61}",
    "\\cJ",
    "\\pL",
    "\\PL",
    "\\p{Lu}",
    "\\p{^Greek}",
    "\\Qa.\\E",
    "\\Q",
    "\\E",
    "[ab]",
    "[^a]",
    "[a-c]",
    "[^\\n]",
    "[\\w-]",
    "[^\\W\\d]",
    "[\\s\\d]",
    "[\\h\\b]",
    "[[a]",
    "[a&&b]",
    "[]a]",
    "[^]a]",
    "[[:alpha:]]",
    "[[:^word:]]",
    "[[:upper:]1]",
    "[\\pL.]",
    "[É]",
    "[\\12-\\x61]",
    "[\\Qa]\\E]",
    "[#- ]",
    "(?:ab)",
    "(a|b)",
    "(?i:a)",
    "(?i)",
    "(?-i)",
    "(?s)",
    "(?m)",
    "(?x)",
    "(?-x)",
    "(?U)",
    "(?^)",
    "(?n)",
    "(?#a)",
    "\\1",
    "\\g{-1}",
    "\\k<n>",
    "(?<n>a)",
];
/// What needs a machine that goes back.
const BACKTRACKING: &[&str] = &[
    "(a)\\1",
    "(?=a)",
    "(?!b)",
    "(?<=a)",
    "(?<!b)",
    "(?<=a|bc)",
    "(?>a*)",
    "(?P<m>b)(?P=m)",
    "(?(1)a|b)",
    "(?(1)a)",
];
const REPEATS: &[&str] = &["{3}?", "{0,2}+", "*", "+", "?", "{2}", "{1,3}", "{0,}", "*?", "+?", "??", "*+"];
const BROKEN: &[&str] = &[
    "(",
    ")",
    "[",
    "\\",
    "*",
    "a{99999}",
    "(?P<",
    "[b-a]",
    "{",
    "(?#",
    "(?R)",
    "\\k<x>",
    "\\2",
    "[\\d-z]",
    "[:a:]",
    "[[.a.]]",
    "\\u0041",
    "\\i",
    "\\p{Foo}",
    "\\x{d800}",
    "(?|a)",
    "(*UCP)",
    "\\X",
    "(?i-m-s)",
];
/// What texts to look in are made of.
const PARTS: &[&str] = &[
    "a", "b", "c", "A", "ab", "aab", "é", "É", "k", "\u{212a}", "ß", "1", "_", "<", "]", "[", "&", "-", ".",
    " ", "\t", "\n", "\r\n", "\u{85}", "\0", "\u{8}", "#", "α", "\u{301}", "{2", "a{,2",
];
const OPTIONS: &[&str] = &["", "", "", "i", "m", "s", "x", "im", "u", "q", "ii"];

pub(crate) fn pattern(source: &mut Source<'_>) -> String {
    let mut pattern = if source.one_in(8) { "(*UCP)".to_owned() } else { String::new() };
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

/// A text in which patterns may find something.
pub(crate) fn searched_text(source: &mut Source<'_>) -> String {
    (0..source.below(7)).map(|_| source.pick(PARTS)).collect()
}

pub(crate) fn regex_options(source: &mut Source<'_>) -> String {
    source.pick(OPTIONS).to_owned()
}
