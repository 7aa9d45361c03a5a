//! Regular expressions: the engine that never goes back and the one that does agree, and so do filters and
//! expressions.

use document::{Document, Value, doc};
use query::matcher::Matcher;

use super::expressions::outcome;
use super::{HOLDS, Met, REFUSED, code, environment};
use crate::generate;
use crate::source::Source;

/// Matches everywhere, and only the engine that goes back knows it.
const EVERYWHERE: &str = "(?=)";

/// The code of a match that was given up.
const TOO_MANY_STEPS: i32 = 51_156;

fn filter(pattern: &str, options: &str, document: &Document) -> Result<bool, i32> {
    let filter = doc! { "t": { "$regex": pattern, "$options": options } };
    let matcher = code(Matcher::parse(filter.to_buf().as_raw(), &environment()))?;
    code(matcher.matches(document.to_buf().as_raw()))
}

fn call(name: &str, pattern: &str, options: &str, document: &Document) -> Result<Value, i32> {
    let written =
        doc! { name: { "input": "$t", "regex": { "$literal": pattern }, "options": options } }.into();
    let found = outcome(&written, document.to_buf().as_raw())?;
    Ok(found.expect("it yields something"))
}

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let pattern = generate::pattern(&mut source);
    let options = generate::regex_options(&mut source);
    let mut text = String::new();
    for _ in 0..source.below(6) {
        text.push_str(&generate::text(&mut source));
    }
    let document = doc! { "t": text };
    let Ok(found) = filter(&pattern, &options, &document) else { return met.note(REFUSED) };
    // Options within the pattern hold from where they stand on.
    let goes_back = filter(&format!("{EVERYWHERE}(?:{pattern})"), &options, &document);
    // It may have to go back more often than is allowed.
    let gives_up = goes_back == Err(TOO_MANY_STEPS);
    if !gives_up && !options.contains('x') && !pattern.contains('|') {
        assert_eq!(goes_back, Ok(found), "/{pattern}/{options} of {document:?}, going back");
    }
    let Ok(matches) = call("$regexMatch", &pattern, &options, &document) else { return met.note(REFUSED) };
    assert_eq!(matches, Value::Boolean(found), "/{pattern}/{options} of {document:?} as an expression");
    let first = call("$regexFind", &pattern, &options, &document).expect("it was found out once");
    assert_eq!(first != Value::Null, found, "/{pattern}/{options} of {document:?}, the first");
    let all = call("$regexFindAll", &pattern, &options, &document).expect("it was found out once");
    let all = all.as_array().expect("a list of all that match");
    assert_eq!(all.first().cloned().unwrap_or_default(), first, "/{pattern}/{options} of {document:?}, all");
    met.note(HOLDS);
}
