//! `$regexMatch`, `$regexFind`, `$regexFindAll`.

use std::cell::RefCell;
use std::rc::Rc;

use document::{Document, Value};
use fancy_regex::{Captures, Regex};

use crate::error::QueryError;

use super::call::{Arguments, Implementation};
use super::operators::{Arity, Operator, Parameter, Signature};
use super::{NULL, Outcome, nullish};

static SIGNATURE: Signature = Signature {
    parameters: &[Parameter::required("input"), Parameter::required("regex"), Parameter::optional("options")],
    not_an_object: 51103,
    unknown: 31024,
    absent: 31022,
    shorthand: false,
};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::new(
        "$regexMatch",
        Arity::Named(&SIGNATURE),
        Implementation::Named(matches),
        "whether the regular expression matches anywhere in 'input'",
    ),
    Operator::new(
        "$regexFind",
        Arity::Named(&SIGNATURE),
        Implementation::Named(find),
        "the first match as {match, idx, captures}, or null",
    ),
    Operator::new(
        "$regexFindAll",
        Arity::Named(&SIGNATURE),
        Implementation::Named(find_all),
        "every match as {match, idx, captures}",
    ),
];

/// Compiled patterns kept per thread: an expression usually meets the same few for every document.
const CACHED_PATTERNS: usize = 16;

thread_local! {
    static CACHE: RefCell<Vec<(String, Rc<Regex>)>> = const { RefCell::new(Vec::new()) };
}

fn compiled(name: &str, pattern: &str, options: &str) -> Result<Rc<Regex>, QueryError> {
    if let Some(bad) = options.chars().find(|option| !"imsxu".contains(*option)) {
        return Err(QueryError::new(51108, format!("{name} invalid flag in regex options: {bad}")));
    }
    let flags: String = options.chars().filter(|option| *option != 'u').collect();
    let source = if flags.is_empty() { pattern.to_owned() } else { format!("(?{flags}){pattern}") };
    CACHE.with_borrow_mut(|cache| {
        if let Some((_, regex)) = cache.iter().find(|(known, _)| *known == source) {
            return Ok(Rc::clone(regex));
        }
        let regex = Regex::new(&source)
            .map_err(|error| QueryError::new(51111, format!("Invalid Regex in {name}: {error}")))?;
        let regex = Rc::new(regex);
        if cache.len() >= CACHED_PATTERNS {
            cache.remove(0);
        }
        cache.push((source, Rc::clone(&regex)));
        Ok(regex)
    })
}

/// The operator's name, its input and the compiled pattern.
type Search = (&'static str, String, Rc<Regex>);

/// What to search; `None` when the input or the pattern is null.
fn operands(mut arguments: Arguments) -> Result<Option<Search>, QueryError> {
    let name = arguments.operator;
    let input = match arguments.take("input") {
        Some(Value::String(input)) => Some(input),
        value if nullish(&value) => None,
        _ => return Err(QueryError::new(51104, format!("{name} needs 'input' to be of type string"))),
    };
    let options = match arguments.take("options") {
        Some(Value::String(options)) => Some(options),
        value if nullish(&value) => None,
        _ => return Err(QueryError::new(51106, format!("{name} needs 'options' to be of type string"))),
    };
    let (pattern, own_options) = match arguments.take("regex") {
        Some(Value::String(pattern)) => (pattern, String::new()),
        Some(Value::Regex(regex)) => (regex.pattern, regex.options),
        value if nullish(&value) => return Ok(None),
        _ => {
            return Err(QueryError::new(
                51105,
                format!("{name} needs 'regex' to be of type string or regex"),
            ));
        }
    };
    if options.is_some() && !own_options.is_empty() {
        return Err(QueryError::new(
            51107,
            format!("{name} found regex option(s) specified in both 'regex' and 'option' fields"),
        ));
    }
    let regex = compiled(name, &pattern, options.as_deref().unwrap_or(&own_options))?;
    Ok(input.map(|input| (name, input, regex)))
}

fn failed(name: &str, error: &fancy_regex::Error) -> QueryError {
    QueryError::new(
        51156,
        format!("Error occurred while executing the regular expression in {name}: {error}"),
    )
}

fn matches(arguments: Arguments) -> Outcome {
    let Some((name, input, regex)) = operands(arguments)? else { return Ok(Some(Value::Boolean(false))) };
    let found = regex.is_match(input.as_str()).map_err(|error| failed(name, &error))?;
    Ok(Some(Value::Boolean(found)))
}

fn find(arguments: Arguments) -> Outcome {
    let Some((name, input, regex)) = operands(arguments)? else { return Ok(NULL) };
    let found = regex.captures(input.as_str()).map_err(|error| failed(name, &error))?;
    Ok(found.map_or(NULL, |captures| Some(describe(&input, &captures))))
}

fn find_all(arguments: Arguments) -> Outcome {
    let Some((name, input, regex)) = operands(arguments)? else {
        return Ok(Some(Value::Array(document::Array::new())));
    };
    let mut found = Vec::new();
    for captures in regex.captures_iter(input.as_str()) {
        found.push(describe(&input, &captures.map_err(|error| failed(name, &error))?));
    }
    Ok(Some(Value::from(found)))
}

/// `idx` counts code points from the beginning of the input.
fn describe(input: &str, captures: &Captures<'_, str>) -> Value {
    let whole = captures.get(0);
    let start = whole.map_or(0, |found| found.start());
    let characters = input.get(..start).map_or(0, |before| before.chars().count());
    let groups =
        captures.iter().skip(1).map(|group| group.map_or(Value::Null, |found| Value::from(found.as_str())));
    let mut description = Document::new();
    description.push("match", whole.map_or("", |found| found.as_str()));
    description.push("idx", Value::Int32(i32::try_from(characters).unwrap_or(i32::MAX)));
    description.push("captures", Value::Array(groups.collect()));
    Value::Document(description)
}
