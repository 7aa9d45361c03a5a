//! Filters: `$nor` is the opposite, `$and` and `$or` of one are that one, and what is written back from a
//! compiled filter means the same.

use document::{Document, doc};
use query::matcher::Matcher;

use super::{HOLDS, Met, REFUSED, code, environment};
use crate::generate;
use crate::source::Source;

const DOCUMENTS: usize = 3;

fn parse(filter: &Document) -> Result<Matcher, i32> {
    code(Matcher::parse(filter.to_buf().as_raw(), &environment()))
}

/// The second outcome, unless one of them is an error: which part of a filter is looked at first is not told,
/// and a part that fails may be spared.
fn both<T>(found: &Result<bool, i32>, other: Result<T, i32>) -> Option<Result<T, i32>> {
    (found.is_ok() && other.is_ok()).then_some(other)
}

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let documents: Vec<_> = (0..DOCUMENTS).map(|_| generate::stored(&mut source).to_buf()).collect();
    let filter = generate::filter(&mut source, 3);
    let nested = [("$nor", true), ("$and", false), ("$or", false)]
        .map(|(name, is_opposite)| (parse(&doc! { name: [(filter.clone())] }), name, is_opposite));
    let matcher = match parse(&filter) {
        Ok(matcher) => matcher,
        Err(refused) => {
            for (inside, name, _) in nested {
                assert_eq!(inside.err(), Some(refused), "{filter:?} within {name}");
            }
            return met.note(REFUSED);
        }
    };
    let written = matcher.to_document();
    let again = parse(&written).unwrap_or_else(|code| panic!("{filter:?} is written as {written:?}: {code}"));
    for document in &documents {
        let document = document.as_raw();
        let found = code(matcher.matches(document));
        for (inside, name, is_opposite) in &nested {
            let inside = inside.as_ref().unwrap_or_else(|code| panic!("{filter:?} within {name}: {code}"));
            let Some(inside) = both(&found, code(inside.matches(document))) else { continue };
            assert_eq!(
                inside,
                found.map(|found| found != *is_opposite),
                "{filter:?} within {name}, {document:?}"
            );
        }
        if let Some(again) = both(&found, code(again.matches(document))) {
            assert_eq!(again, found, "{filter:?}, {written:?}, {document:?}");
        }
        if let Some(details) = both(&found, code(matcher.matches_positional(document))) {
            assert_eq!(details.map(|details| details.is_some()), found, "{filter:?}, {document:?}");
        }
    }
    met.note(HOLDS);
}
