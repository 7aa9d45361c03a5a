//! Regular expressions, compiled once.

use std::sync::Arc;

use super::Verdict;
use crate::checkpoint;
use crate::error::QueryError;
use crate::regex::Regex;
use document::RawValue;

/// What compiling a short pattern costs.
const COMPILATION_STEPS: usize = 2000;

const INVALID_REGEX: i32 = 51_091;
const INVALID_OPTION: i32 = 51_108;
const EMBEDDED_NULL: i32 = 51_109;

/// A compiled regular expression with the text it came from.
#[derive(Debug, Clone)]
pub struct Pattern {
    pattern: Arc<str>,
    options: Arc<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles. Options: `i` (case), `m` (lines), `s` (dot matches line ends), `x` (extended), `u`
    /// (accepted, no effect: everything is Unicode).
    ///
    /// # Errors
    /// 51108 for an unknown option, 51091 for a pattern that does not compile, 51109 for a zero byte.
    pub fn compile(pattern: &str, options: &str) -> Result<Self, QueryError> {
        if let Some(option) = options.chars().find(|option| !"imsxu".contains(*option)) {
            bail!(INVALID_OPTION, "invalid flag in regex options: {option}");
        }
        if pattern.contains('\0') {
            bail!(EMBEDDED_NULL, "Regular expression cannot contain an embedded null byte");
        }
        checkpoint::pass(COMPILATION_STEPS + pattern.len())?;
        let regex = Regex::compile(pattern, options)
            .map_err(|refusal| query_error!(INVALID_REGEX, "Regular expression is invalid: {refusal}"))?;
        Ok(Self { pattern: pattern.into(), options: options.into(), regex })
    }

    /// The pattern as written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The options as written.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Whether the text contains a match.
    ///
    /// # Errors
    /// 51156 when the match takes too many steps; the reason why the operation is to end.
    pub fn is_match(&self, text: &str) -> Result<bool, QueryError> {
        self.regex.is_match(text).map_err(|failure| failure.into_error(""))
    }

    /// Whether a value matches: a string or symbol that contains a match, or the same regular expression.
    pub(crate) fn holds(&self, value: RawValue<'_>) -> Verdict {
        match value {
            RawValue::String(text) | RawValue::Symbol(text) => self.is_match(text).map_err(Box::new),
            RawValue::Regex { pattern, options } => {
                Ok(pattern == self.pattern() && options == self.options())
            }
            _ => Ok(false),
        }
    }

    /// The literal text that every match begins with, at the string's beginning, and whether any string that
    /// begins so is a match. `None` when there is no such text.
    pub fn literal_prefix(&self) -> Option<(String, bool)> {
        if self.options.contains(['i', 'm', 'x']) {
            return None;
        }
        let body = self.pattern.strip_prefix('^').or_else(|| self.pattern.strip_prefix("\\A"))?;
        if body.contains('|') {
            return None;
        }
        literal_prefix(body, self.options.contains('s'))
    }
}

/// Reads literal characters from the front of a pattern.
fn literal_prefix(body: &str, dot_matches_line_end: bool) -> Option<(String, bool)> {
    let mut prefix = String::new();
    let mut rest = body.chars();
    let exact = loop {
        let before = rest.clone();
        match rest.next() {
            None => break true,
            Some('\\') => match rest.next() {
                Some(escaped) if escaped.is_ascii_punctuation() => prefix.push(escaped),
                _ => break false,
            },
            // A quantifier that allows none takes the literal before it back.
            Some('*' | '?' | '{') => {
                prefix.pop();
                break false;
            }
            Some('.') => break before.as_str() == ".*" && dot_matches_line_end,
            Some('^' | '$' | '+' | '[' | ']' | '(' | ')' | '}') => break false,
            Some(literal) => prefix.push(literal),
        }
    };
    (!prefix.is_empty()).then_some((prefix, exact))
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern && self.options == other.options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, options: &str, expect: Option<(&str, bool)>) {
        let found = Pattern::compile(pattern, options).unwrap().literal_prefix();
        let expect = expect.map(|(text, exact)| (text.to_owned(), exact));
        assert_eq!(found, expect, "for /{pattern}/{options}");
    }

    #[test]
    fn literal_prefixes() {
        check("^abc", "", Some(("abc", true)));
        check("^abc.*", "s", Some(("abc", true)));
        check("^abc.*", "", Some(("abc", false)));
        check("^abc+", "", Some(("abc", false)));
        check("^abc*d", "", Some(("ab", false)));
        check("^a?", "", None);
        check("^a{2}b", "", None);
        check("^a\\.b", "", Some(("a.b", true)));
        check("^a\\d", "", Some(("a", false)));
        check("^abc$", "", Some(("abc", false)));
        check("^a|b", "", None);
        check("abc", "", None);
        check("^abc", "i", None);
        check("^abc", "m", None);
        check("\\Aabc", "", Some(("abc", true)));
        check("^[ab]", "", None);
        check("^Ω+", "", Some(("Ω", false)));
    }

    #[test]
    fn look_around_works_and_is_bounded() {
        let pattern = Pattern::compile("^(?=.*a)(?!.*z).*$", "").unwrap();
        assert_eq!(pattern.is_match("bab"), Ok(true));
        assert_eq!(pattern.is_match("baz"), Ok(false));
        let costly = Pattern::compile("(?:a|b|ab)*(?>c)", "").unwrap();
        assert_eq!(costly.is_match(&"ab".repeat(40)).unwrap_err().code, 51_156);
    }

    #[test]
    fn refusals() {
        let code = |pattern: &str, options: &str| Pattern::compile(pattern, options).unwrap_err().code;
        assert_eq!(code("a", "q"), INVALID_OPTION);
        assert_eq!(code("(", ""), INVALID_REGEX);
        assert_eq!(code("a\0b", ""), EMBEDDED_NULL);
        assert_eq!(code(&"a".repeat(40_000), ""), INVALID_REGEX);
    }
}
