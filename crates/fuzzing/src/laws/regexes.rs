//! Regular expressions: the engine that never goes back and the one that does agree, so do filters and
//! expressions, and all of them with PCRE2, which is what MongoDB has.

use document::{Document, Value, doc};
use pcre2::bytes::RegexBuilder;
use query::matcher::Matcher;

use super::expressions::outcome;
use super::{HOLDS, Met, REFUSED, code, environment};
use crate::generate;
use crate::source::Source;

/// Matches everywhere, and only the engine that goes back knows it.
const EVERYWHERE: &str = "(?=)";

/// A pattern that finds what PCRE2 finds.
pub(super) const AS_PCRE2: &str = "as PCRE2";

/// The code of a match that was given up.
const TOO_MANY_STEPS: i32 = 51_156;

/// What the engine here does not know, or to another extent.
const NOT_KNOWN: &[&str] =
    &["is not supported", "lookbehind assertion is not fixed length", "too large", "too deeply nested"];

/// Whether PCRE2 reads this in another way than the releases before 10.43, which MongoDB has.
fn is_read_anew(pattern: &str, options: &str) -> bool {
    let minds_case = options.contains('i') || pattern.contains("(?i");
    let is_without_digits =
        |behind: &str| !behind.starts_with(|digit: char| digit == '{' || digit.is_ascii_hexdigit());
    if pattern.split("\\x").skip(1).any(is_without_digits) {
        return true;
    }
    let has = |parts: &[&str]| parts.iter().any(|part| pattern.contains(part));
    if pattern.contains('[') && pattern.contains("\\k") {
        return true;
    }
    has(&["{,", "{ ", ", ", "(?a", "(?[", "(?*"]) || minds_case && has(&["\\p{Lu}", "\\p{Ll}", "\\p{Lt}"])
}

/// The first match and its groups, as PCRE2 finds them.
type Found = Option<Vec<Option<String>>>;

/// What PCRE2 finds; `Err` for a pattern that is wrong, `None` where it gives up.
fn find_by_pcre2(pattern: &str, options: &str, text: &str) -> Result<Option<Found>, String> {
    let has = |option| options.contains(option);
    let mut builder = RegexBuilder::new();
    builder.utf(true).caseless(has('i')).multi_line(has('m')).dotall(has('s')).extended(has('x'));
    let regex = builder.build(pattern).map_err(|error| error.to_string())?;
    let Ok(found) = regex.captures(text.as_bytes()) else { return Ok(None) };
    let group = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it ends between two characters");
    Ok(Some(found.map(|found| {
        (0..found.len()).map(|number| found.get(number).map(|part| group(part.as_bytes()))).collect()
    })))
}

/// What `$regexFind` answers, in the same way.
fn found_here(first: &Value) -> Found {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let first = first.as_document()?;
    let whole = first.get("match").and_then(text);
    let groups = first.get("captures").and_then(Value::as_array).expect("captures are a list");
    Some(std::iter::once(whole).chain(groups.iter().map(text)).collect())
}

/// That both find the same, or both refuse.
fn check_against_pcre2(pattern: &str, options: &str, text: &str, met: &mut Met) {
    if is_read_anew(pattern, options) || options.contains(['u', 'q']) {
        return;
    }
    let document = doc! { "t": text };
    let filter = doc! { "t": { "$regex": pattern, "$options": options } };
    let reference = find_by_pcre2(pattern, options, text);
    match (Matcher::parse(filter.to_buf().as_raw(), &environment()), reference) {
        (Err(_), Err(_)) => {}
        (Err(error), Ok(_)) => assert!(
            NOT_KNOWN.iter().any(|known| error.message.contains(known)),
            "/{pattern}/{options} is refused: {error}"
        ),
        (Ok(_), Err(error)) => panic!("/{pattern}/{options} is to be refused: {error}"),
        (Ok(_), Ok(reference)) => {
            let Ok(first) = call("$regexFind", pattern, options, &document) else { return };
            let Some(reference) = reference else { return };
            // What a group holds whose last round matched nothing is not the same, nor is what depends on it.
            let is_repeated = [")*", ")+", ")?", "){"].iter().any(|part| pattern.contains(part));
            let is_asked = ["\\1", "\\g", "\\k", "(?P=", "(?("].iter().any(|part| pattern.contains(part));
            if is_repeated && is_asked {
                return;
            }
            let compared = |mut found: Found| {
                found.iter_mut().filter(|_| is_repeated).for_each(|groups| groups.truncate(1));
                found
            };
            assert_eq!(compared(found_here(&first)), compared(reference), "/{pattern}/{options} of {text:?}");
            met.note(AS_PCRE2);
        }
    }
}

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
    let text = match source.one_in(8) {
        true => generate::text(&mut source),
        false => generate::searched_text(&mut source),
    };
    check_against_pcre2(&pattern, &options, &text, met);
    let document = doc! { "t": text };
    let Ok(found) = filter(&pattern, &options, &document) else { return met.note(REFUSED) };
    // Options within the pattern hold from where they stand on.
    let settings = pattern.rfind("(*UCP)").map_or(0, |last| last + "(*UCP)".len());
    let (settings, behind) = pattern.split_at(settings);
    let goes_back = filter(&format!("{settings}{EVERYWHERE}(?:{behind})"), &options, &document);
    // It may have to go back more often than is allowed.
    let gives_up = goes_back == Err(TOO_MANY_STEPS);
    if !gives_up && !options.contains('x') && !pattern.contains(['|', '#']) && !pattern.contains("\\Q") {
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
