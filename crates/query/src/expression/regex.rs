//! `$regexMatch`, `$regexFind`, `$regexFindAll`.

use std::cell::RefCell;

use document::{Document, Value};

use crate::checkpoint;
use crate::error::QueryError;
use crate::regex::{Groups, Regex};

use super::call::Arguments;
use super::operators::{Operator, OperatorParameter, Signature};
use super::{NULL, Outcome, nullish};

static SIGNATURE: Signature = Signature {
    parameters: &[
        OperatorParameter::required("input"),
        OperatorParameter::required("regex"),
        OperatorParameter::optional("options"),
    ],
    not_an_object: 51103,
    unknown: 31024,
    absent: 31022,
    shorthand: false,
};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::named(
        "$regexMatch",
        &SIGNATURE,
        matches,
        "whether the regular expression matches anywhere in 'input'",
    ),
    Operator::named("$regexFind", &SIGNATURE, find, "the first match as {match, idx, captures}, or null"),
    Operator::named("$regexFindAll", &SIGNATURE, find_all, "every match as {match, idx, captures}"),
];

/// Compiled patterns kept per thread: an expression usually meets the same few for every document.
const CACHED_PATTERNS: usize = 16;

thread_local! {
    static CACHE: RefCell<Vec<(String, Regex)>> = const { RefCell::new(Vec::new()) };
}

fn compiled(name: &str, pattern: &str, options: &str) -> Result<Regex, QueryError> {
    if let Some(bad) = options.chars().find(|option| !"imsxu".contains(*option)) {
        bail!(51108, "{name} invalid flag in regex options: {bad}");
    }
    if pattern.contains('\0') {
        let message = format!("{name}: regular expression cannot contain an embedded null byte");
        return Err(QueryError::new(51109, message));
    }
    let source = format!("{options}/{pattern}");
    CACHE.with_borrow_mut(|cache| {
        if let Some((_, regex)) = cache.iter().find(|(known, _)| *known == source) {
            return Ok(regex.clone());
        }
        let regex = Regex::compile(pattern, options)
            .map_err(|refusal| query_error!(51111, "Invalid Regex in {name}: {refusal}"))?;
        if cache.len() >= CACHED_PATTERNS {
            cache.remove(0);
        }
        cache.push((source, regex.clone()));
        Ok(regex)
    })
}

/// The operator's name, its input and the compiled pattern.
type Search = (&'static str, String, Regex);

/// What to search; `None` when the input or the pattern is null.
fn operands(mut arguments: Arguments) -> Result<Option<Search>, QueryError> {
    let name = arguments.operator;
    let input = match arguments.take("input") {
        Some(Value::String(input)) => Some(input),
        value if nullish(&value) => None,
        _ => bail!(51104, "{name} needs 'input' to be of type string"),
    };
    let options = match arguments.take("options") {
        Some(Value::String(options)) => Some(options),
        value if nullish(&value) => None,
        _ => bail!(51106, "{name} needs 'options' to be of type string"),
    };
    let (pattern, own_options) = match arguments.take("regex") {
        Some(Value::String(pattern)) => (pattern, String::new()),
        Some(Value::Regex(regex)) => (regex.pattern, regex.options),
        value if nullish(&value) => return Ok(None),
        _ => bail!(51105, "{name} needs 'regex' to be of type string or regex"),
    };
    if options.is_some() && !own_options.is_empty() {
        bail!(51107, "{name} found regex option(s) specified in both 'regex' and 'option' fields");
    }
    let regex = compiled(name, &pattern, options.as_deref().unwrap_or(&own_options))?;
    Ok(input.map(|input| (name, input, regex)))
}

fn matches(arguments: Arguments) -> Outcome {
    let Some((name, input, regex)) = operands(arguments)? else { return Ok(Some(Value::Boolean(false))) };
    let found = regex.is_match(&input).map_err(|failure| failure.into_error(&format!(" in {name}")))?;
    Ok(Some(Value::Boolean(found)))
}

fn find(arguments: Arguments) -> Outcome {
    let Some((name, input, regex)) = operands(arguments)? else { return Ok(NULL) };
    let found = regex.groups_from(&input, 0).map_err(|failure| failure.into_error(&format!(" in {name}")))?;
    Ok(found.map_or(NULL, |groups| Some(describe(&input, &groups, &mut Position::default()))))
}

/// Bytes that the matches of `$regexFindAll` may take together (MongoDB's `BufferMaxSize`).
const MAX_OUTPUT_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that a linear search goes through in about one step.
const BYTES_PER_STEP: usize = 64;

fn find_all(arguments: Arguments) -> Outcome {
    let Some((name, input, regex)) = operands(arguments)? else {
        return Ok(Some(Value::Array(document::Array::new())));
    };
    let (mut found, mut bytes, mut from) = (Vec::new(), 0, 0);
    let mut position = Position::default();
    // The empty input is searched as well.
    while from == 0 || from < input.len() {
        checkpoint::pass(1 + (input.len() - from) / BYTES_PER_STEP)?;
        let groups = regex.groups_from(&input, from);
        let Some(groups) = groups.map_err(|failure| failure.into_error(&format!(" in {name}")))? else {
            break;
        };
        let description = describe(&input, &groups, &mut position);
        bytes += description.memory_bytes();
        if bytes > MAX_OUTPUT_BYTES {
            let message = format!("{name}: the size of buffer to store output exceeded the 64MB limit");
            return Err(QueryError::new(51151, message));
        }
        found.push(description);
        let whole = whole_of(&groups);
        // After an empty match the search goes on behind the next character.
        from = match input.get(whole.end..).and_then(|rest| rest.chars().next()) {
            Some(skipped) if whole.is_empty() => whole.end + skipped.len_utf8(),
            Some(_) => whole.end,
            None => break,
        };
    }
    Ok(Some(Value::from(found)))
}

/// A place in the input in bytes and in code points: matches come in order, so that nothing is counted twice.
#[derive(Default)]
struct Position {
    byte: usize,
    characters: usize,
}

impl Position {
    fn advance(&mut self, input: &str, byte: usize) -> usize {
        match input.get(self.byte..byte) {
            Some(between) => self.characters += between.chars().count(),
            // `\K` can move a match's beginning back.
            None => self.characters = input.get(..byte).map_or(0, |before| before.chars().count()),
        }
        self.byte = byte;
        self.characters
    }
}

fn whole_of(groups: &Groups) -> &std::ops::Range<usize> {
    groups.first().and_then(Option::as_ref).expect("a match has its whole")
}

/// `idx` counts code points from the beginning of the input.
fn describe(input: &str, groups: &Groups, position: &mut Position) -> Value {
    let text = |group: &Option<std::ops::Range<usize>>| group.clone().and_then(|group| input.get(group));
    let characters = position.advance(input, whole_of(groups).start);
    let captures = groups.iter().skip(1).map(|group| text(group).map_or(Value::Null, Value::from));
    let mut description = Document::new();
    description.push("match", groups.first().and_then(text).unwrap_or_default());
    description.push("idx", Value::Int32(i32::try_from(characters).unwrap_or(i32::MAX)));
    description.push("captures", Value::Array(captures.collect()));
    Value::Document(description)
}
