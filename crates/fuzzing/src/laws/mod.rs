//! What holds, one file for each thing that is read.

mod documents;
mod expressions;
mod filters;
mod logins;
#[cfg(feature = "oplog")]
mod members;
mod messages;
#[cfg(feature = "oplog")]
mod oplog;
mod pipelines;
mod plans;
mod projections;
mod regexes;
mod schemas;
mod updates;

use std::collections::BTreeMap;

use document::{Document, DocumentBuf, RawDocument, Value, doc};
use query::expression::Variables;
use query::projection::Projection;
use query::{Environment, QueryError};

/// What inputs turned out to be, and how many of each kind.
#[derive(Debug, Default)]
pub struct Met(BTreeMap<&'static str, u32>);

impl Met {
    fn note(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// How many there were of a kind.
    pub fn of(&self, kind: &str) -> u32 {
        self.0.get(kind).copied().unwrap_or_default()
    }
}

/// An input that is none: it was refused with an error.
const REFUSED: &str = "refused";
/// An input for which the laws hold.
const HOLDS: &str = "holds";

/// One thing that is read.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// What it is called, as its program in `fuzz/fuzz_targets/` and its folder in `fuzz/corpus/` are.
    pub name: &'static str,
    /// Checks its laws for these bytes, and panics where one does not hold.
    pub check: fn(&[u8], &mut Met),
    /// The kinds of input without which the laws would say little.
    pub kinds: &'static [&'static str],
}

const BOTH: &[&str] = &[REFUSED, HOLDS];
const PLANS: &[&str] =
    &["empty", "lookup", "bounded collection scan", "exact index scan", "index scan", "union"];

/// All of them.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "document", check: documents::check, kinds: BOTH },
    FuzzTarget { name: "expression", check: expressions::check, kinds: BOTH },
    FuzzTarget { name: "filter", check: filters::check, kinds: BOTH },
    FuzzTarget {
        name: "login",
        check: logins::check,
        kinds: &[REFUSED, HOLDS, "no challenge", "wrong proof"],
    },
    #[cfg(feature = "oplog")]
    FuzzTarget {
        name: "member",
        check: members::check,
        kinds: &[REFUSED, HOLDS, "no configuration", "configuration"],
    },
    #[cfg(feature = "oplog")]
    FuzzTarget { name: "oplog", check: oplog::check, kinds: &[REFUSED, HOLDS, "delta", "no delta"] },
    FuzzTarget {
        name: "pipeline",
        check: pipelines::check,
        kinds: &[REFUSED, HOLDS, "says what it needs", "spilled"],
    },
    FuzzTarget { name: "plan", check: plans::check, kinds: PLANS },
    FuzzTarget { name: "projection", check: projections::check, kinds: BOTH },
    FuzzTarget { name: "regex", check: regexes::check, kinds: &[REFUSED, HOLDS, regexes::AS_PCRE2] },
    FuzzTarget { name: "schema", check: schemas::check, kinds: BOTH },
    FuzzTarget { name: "update", check: updates::check, kinds: BOTH },
    FuzzTarget { name: "wire_message", check: messages::check, kinds: BOTH },
];

/// Checks the laws of a target, for whoever does not count.
///
/// # Panics
/// There is no such target; a law does not hold.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target's name");
    (target.check)(bytes, &mut Met::default());
}

/// The clock of every environment, in milliseconds since 1970.
const NOW_MS: i64 = 1_700_000_000_000;

fn environment() -> Environment {
    let mut environment = Environment::at(NOW_MS);
    environment.bind("v".to_owned(), Value::Int32(1));
    environment
}

/// The code alone: laws say nothing of words.
fn code<T>(result: Result<T, QueryError>) -> Result<T, i32> {
    result.map_err(|error| {
        let is_told = error.code > 0 && error.code != query::error::code::INTERNAL_ERROR;
        assert!(is_told, "an error of ours: {error:?}");
        error.code
    })
}

/// Whether something may be compared with what is stored: deeper documents are refused elsewhere.
fn is_storable(document: &Document) -> bool {
    RawDocument::parse(document.to_buf().as_bytes()).is_ok()
}

/// As deep as stored documents may be.
const DEPTH_MAX: usize = 180;

/// The document with nothing but these paths; `None`: they are within each other, which no projection takes.
fn only(document: &DocumentBuf, paths: &[String]) -> Option<DocumentBuf> {
    if paths.is_empty() {
        return Some(Document::new().to_buf());
    }
    let mut shown = doc! { "_id": false };
    for path in paths {
        shown.insert(path.clone(), true);
    }
    let projection = Projection::parse(shown.to_buf().as_raw(), &environment()).ok()?;
    let part = projection.project(document.as_raw(), None, &mut Variables::new());
    Some(part.expect("it only shows"))
}
