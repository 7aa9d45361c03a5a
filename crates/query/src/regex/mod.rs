//! Regular expressions as PCRE2 reads them, whose cost is bounded.
//!
//! ```text
//!  text ─▶ parse ─▶ tree ─┬─▶ linear: an engine that is linear in the text
//!                         └─▶ program ─▶ machine: goes back, and counts its steps
//! ```
//! A pattern without look-around, back-reference, atomic group and the like runs on an engine that is linear
//! in the text. All others, and those whose linear form would be large, are compiled to a small program for a
//! backtracking machine that looks at the operation's switch and gives up as PCRE2 does at its match limit.
//!
//! Not here: recursion, subroutine calls, control verbs and look-behind of unbounded length; they are
//! refused.

mod class;
mod escape;
mod linear;
mod machine;
mod parse;
mod program;
mod tree;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::error::QueryError;
use linear::Linear;
use program::Program;

/// The longest pattern, in bytes (MongoDB's limit).
const MAX_PATTERN_BYTES: usize = 32_764;

/// A compiled regular expression. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Regex(Engine);

#[derive(Debug, Clone)]
enum Engine {
    Linear {
        linear: Linear,
        /// For texts that end a line, where the linear engine would take one place for another.
        ending_a_line: Option<Arc<Program>>,
    },
    Backtracking(Arc<Program>),
}

enum Searcher<'r> {
    Linear(&'r Linear),
    Machine(&'r Program),
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

impl Regex {
    /// Compiles. Options: `i` (case), `m` (lines), `s` (dot matches line ends), `x` (extended), `u` (no
    /// effect: text is UTF-8).
    ///
    /// # Errors
    /// What is wrong with the pattern.
    pub(crate) fn compile(pattern: &str, options: &str) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err("regular expression is too large".to_owned());
        }
        let tree = parse::parse(pattern, options)?;
        let program = || Program::compile(&tree).map(Arc::new);
        Ok(Regex(match Linear::compile(&tree) {
            None => Engine::Backtracking(program()?),
            Some(linear) => {
                let ending_a_line = tree.root.minds_last_line_end().then(program).transpose()?;
                Engine::Linear { linear, ending_a_line }
            }
        }))
    }

    /// Who is to search this text.
    fn searcher(&self, text: &str) -> Searcher<'_> {
        match &self.0 {
            Engine::Backtracking(program) => Searcher::Machine(program),
            Engine::Linear { ending_a_line: Some(program), .. } if text.ends_with('\n') => {
                Searcher::Machine(program)
            }
            Engine::Linear { linear, .. } => Searcher::Linear(linear),
        }
    }

    /// Whether the text contains a match.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, Failure> {
        match self.searcher(text) {
            Searcher::Linear(linear) => Ok(linear.is_match(text)),
            Searcher::Machine(program) => Ok(machine::search(program, text, 0)?.is_some()),
        }
    }

    /// The first match at or after byte `from`, which lies between two characters.
    pub(crate) fn groups_from(&self, text: &str, from: usize) -> Result<Option<Groups>, Failure> {
        match self.searcher(text) {
            Searcher::Linear(linear) => Ok(linear.groups_from(text, from)),
            Searcher::Machine(program) => machine::search(program, text, from),
        }
    }
}
