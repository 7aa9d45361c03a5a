//! Regular expressions whose cost is bounded.
//!
//! A pattern without look-around, back-reference, atomic group and the like runs on an engine that is linear
//! in the text. All others are compiled to a small program ([`program`]) for a backtracking machine
//! ([`machine`]) that counts its steps, looks at the operation's switch and gives up as PCRE does at its
//! match limit. So does a pattern whose linear form would be large.
//!
//! Not here: recursion, subroutine calls, control verbs and look-behind of unbounded length; they are
//! refused.

mod machine;
mod program;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use fancy_regex::{Expr, RegexBuilder};

use crate::error::QueryError;
use program::Program;

/// The longest pattern, in bytes (MongoDB's limit).
const MAX_PATTERN_BYTES: usize = 32_764;
/// Bytes of the linear form of a pattern; what is larger backtracks.
const MAX_LINEAR_BYTES: usize = 2 << 20;

/// A compiled regular expression. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Regex(Engine);

#[derive(Debug, Clone)]
enum Engine {
    Linear(Arc<fancy_regex::Regex>),
    Backtracking(Arc<Program>),
}

/// Where the whole match and each group lie in the text; `None` for a group that took no part.
pub(crate) type Groups = Vec<Option<Range<usize>>>;

/// Why a search had no result.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// It took too many steps.
    MatchLimit,
    /// It had too many places to come back to.
    HeapLimit,
    /// The operation is to end.
    Ended(QueryError),
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Failure::Ended(error)
    }
}

const EXECUTION_FAILED: i32 = 51_156;

impl Failure {
    /// The error a client sees; `place` says which operator searched, when that is to be told.
    pub(crate) fn into_error(self, place: &str) -> QueryError {
        let reason = match self {
            Failure::Ended(error) => return error,
            Failure::MatchLimit => "match limit exceeded",
            Failure::HeapLimit => "heap limit exceeded",
        };
        query_error!(
            EXECUTION_FAILED,
            "Error occurred while executing the regular expression{place}. Result code: {reason}"
        )
    }
}

/// What may stand in front of a pattern, and holds in any case: characters and classes are those of Unicode.
const UNICODE: [&str; 2] = ["(*UCP)", "(*UTF)"];

/// The pattern without what it says of Unicode.
fn without_unicode(mut pattern: &str) -> &str {
    while let Some(rest) = UNICODE.iter().find_map(|verb| pattern.strip_prefix(verb)) {
        pattern = rest;
    }
    pattern
}

/// Whether a pattern calls itself, as `(?R)` does for MongoDB; the parser here takes that for a flag.
fn has_recursion(pattern: &str) -> bool {
    let mut rest = pattern.as_bytes().iter();
    let mut is_in_class = false;
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => drop(rest.next()),
            b'[' => is_in_class = true,
            b']' => is_in_class = false,
            b'(' if !is_in_class && rest.as_slice().starts_with(b"?") => {
                let is_flag = |flag: &&u8| flag.is_ascii_alphabetic() || **flag == b'-';
                let mut flags = rest.as_slice().iter().skip(1).take_while(is_flag);
                if flags.any(|flag| *flag == b'R') {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

impl Regex {
    /// Compiles. Options: `i` (case), `m` (lines), `s` (dot matches line ends), `x` (extended), `u` (no
    /// effect: everything is Unicode).
    ///
    /// # Errors
    /// What is wrong with the pattern.
    pub(crate) fn compile(pattern: &str, options: &str) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err("regular expression is too large".to_owned());
        }
        let pattern = without_unicode(pattern);
        if has_recursion(pattern) {
            return Err("recursion is not supported".to_owned());
        }
        let flags: String = options.chars().filter(|option| *option != 'u').collect();
        let source = if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
        let tree = Expr::parse_tree(&source).map_err(|error| error.to_string())?;
        if program::is_linear(&tree.expr)
            && let Ok(regex) = RegexBuilder::new(&source).delegate_size_limit(MAX_LINEAR_BYTES).build()
        {
            return Ok(Regex(Engine::Linear(Arc::new(regex))));
        }
        let program = Program::compile(&tree.expr)?;
        Ok(Regex(Engine::Backtracking(Arc::new(program))))
    }

    /// Whether the text contains a match.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, Failure> {
        match &self.0 {
            // The linear engine has no limit that it could pass.
            Engine::Linear(regex) => regex.is_match(text).map_err(|_| Failure::MatchLimit),
            Engine::Backtracking(program) => Ok(machine::search(program, text, 0)?.is_some()),
        }
    }

    /// The first match at or after byte `from`, which lies between two characters.
    pub(crate) fn groups_from(&self, text: &str, from: usize) -> Result<Option<Groups>, Failure> {
        match &self.0 {
            Engine::Linear(regex) => {
                let captures = regex.captures_from_pos(text, from).map_err(|_| Failure::MatchLimit)?;
                Ok(captures
                    .map(|groups| groups.iter().map(|group| group.map(|found| found.range())).collect()))
            }
            Engine::Backtracking(program) => machine::search(program, text, from),
        }
    }
}
