//! String operators. Positions and lengths are in bytes or in code points, as each name says.

use std::cmp::Ordering;
use std::collections::HashSet;

use document::Value;

use crate::error::QueryError;

use super::call::Arguments;
use super::convert::coerce_to_string;
use super::number::as_i32;
use super::operators::{Operator, OperatorParameter, Signature};
use super::{Evaluated, NULL, Outcome, brief, limits, null_if_nullish, nullish, type_name};

static TRIM: Signature = Signature {
    parameters: &[OperatorParameter::required("input"), OperatorParameter::optional("chars")],
    not_an_object: 50696,
    unknown: 50694,
    absent: 50695,
    shorthand: false,
};
static REPLACE: Signature = Signature {
    parameters: &[
        OperatorParameter::required("input"),
        OperatorParameter::required("find"),
        OperatorParameter::required("replacement"),
    ],
    not_an_object: 51751,
    unknown: 51750,
    absent: 51749,
    shorthand: false,
};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::many("$concat", concat, "the strings, joined"),
    Operator::one(
        "$toLower",
        |text| change_case(text, str::to_ascii_lowercase),
        "the string with ASCII letters in lower case",
    ),
    Operator::one(
        "$toUpper",
        |text| change_case(text, str::to_ascii_uppercase),
        "the string with ASCII letters in upper case",
    ),
    Operator::three(
        "$substr",
        substr_bytes,
        "a part of the string, in bytes; the older name of $substrBytes",
    ),
    Operator::three("$substrBytes", substr_bytes, "a part of the string: first byte and number of bytes"),
    Operator::three(
        "$substrCP",
        substr_cp,
        "a part of the string: first code point and number of code points",
    ),
    Operator::one(
        "$strLenBytes",
        |text| length(text, "$strLenBytes", 34473, str::len),
        "the length of the string in bytes",
    ),
    Operator::one(
        "$strLenCP",
        |text| length(text, "$strLenCP", 34471, |text| text.chars().count()),
        "the length of the string in code points",
    ),
    Operator::two("$split", split, "the parts of the string between occurrences of a separator"),
    Operator::named(
        "$trim",
        &TRIM,
        |arguments| trim(arguments, true, true),
        "the string without white space, or without the given characters, at both ends",
    ),
    Operator::named(
        "$ltrim",
        &TRIM,
        |arguments| trim(arguments, true, false),
        "as $trim, at the beginning only",
    ),
    Operator::named("$rtrim", &TRIM, |arguments| trim(arguments, false, true), "as $trim, at the end only"),
    Operator::between(
        "$indexOfBytes",
        (2, 4),
        index_of_bytes,
        "the byte position of a string in another, or -1",
    ),
    Operator::between(
        "$indexOfCP",
        (2, 4),
        index_of_cp,
        "the code point position of a string in another, or -1",
    ),
    Operator::two(
        "$strcasecmp",
        strcasecmp,
        "the order of two strings as -1, 0 or 1, ASCII letters compared without case",
    ),
    Operator::named(
        "$replaceOne",
        &REPLACE,
        |arguments| replace(arguments, 1),
        "the string with the first occurrence of 'find' replaced",
    ),
    Operator::named(
        "$replaceAll",
        &REPLACE,
        |arguments| replace(arguments, usize::MAX),
        "the string with every occurrence of 'find' replaced",
    ),
];

fn text(value: impl Into<String>) -> Outcome {
    Ok(Some(Value::String(value.into())))
}

fn concat(operands: Vec<Evaluated>) -> Outcome {
    let mut joined = String::new();
    for operand in &operands {
        match operand {
            Some(Value::String(part)) => {
                limits::check_string(joined.len() + part.len())?;
                joined.push_str(part);
            }
            value if nullish(value) => return Ok(NULL),
            other => bail!(16702, "$concat only supports strings, not {}", type_name(other)),
        }
    }
    text(joined)
}

fn change_case(operand: Evaluated, change: fn(&str) -> String) -> Outcome {
    text(change(&coerce_to_string(&operand)?))
}

fn strcasecmp(left: Evaluated, right: Evaluated) -> Outcome {
    let left = coerce_to_string(&left)?.to_ascii_uppercase();
    let right = coerce_to_string(&right)?.to_ascii_uppercase();
    Ok(Some(Value::Int32(match left.cmp(&right) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })))
}

/// A bound of `$substr*`: any number, truncated.
fn bound(operand: &Evaluated, name: &str, what: &str, code: i32) -> Result<i64, QueryError> {
    match operand {
        Some(value) if value.is_number() => Ok(super::number::truncated(value)),
        other => Err(query_error!(
            code,
            "{name}: {what} must be a numeric type (is BSON type {})",
            type_name(other)
        )),
    }
}

fn substr_bytes(input: Evaluated, start: Evaluated, count: Evaluated) -> Outcome {
    let input = coerce_to_string(&input)?;
    let start = bound(&start, "$substrBytes", "starting index", 16034)?;
    let count = bound(&count, "$substrBytes", "length", 16035)?;
    let Ok(start) = usize::try_from(start) else {
        bail!(50752, "$substrBytes: starting index must be non-negative (got: {start})");
    };
    // A negative length means the rest of the string.
    let end =
        usize::try_from(count).map_or(input.len(), |count| start.saturating_add(count).min(input.len()));
    if start >= input.len() {
        return text("");
    }
    if !input.is_char_boundary(start) {
        bail!(28656, "$substrBytes: Invalid range, starting index is a UTF-8 continuation byte.");
    }
    match input.get(start..end) {
        Some(part) => text(part),
        None => Err(QueryError::new(
            28657,
            "$substrBytes: Invalid range, ending index is in the middle of a UTF-8 character.",
        )),
    }
}

fn substr_cp(input: Evaluated, start: Evaluated, count: Evaluated) -> Outcome {
    let input = coerce_to_string(&input)?;
    let start = integral(&start, "starting index", 34450, 34451)?;
    let count = integral(&count, "length", 34452, 34453)?;
    let Ok(start) = usize::try_from(start) else {
        bail!(34455, "$substrCP: the starting index must be nonnegative integer.");
    };
    let Ok(count) = usize::try_from(count) else {
        bail!(34454, "$substrCP: length must be a nonnegative integer.");
    };
    text(input.chars().skip(start).take(count).collect::<String>())
}

fn integral(
    operand: &Evaluated,
    what: &str,
    not_a_number: i32,
    not_integral: i32,
) -> Result<i32, QueryError> {
    match operand {
        Some(value) if value.is_number() => as_i32(operand).ok_or_else(|| {
            query_error!(not_integral, "$substrCP: {what} cannot be represented as a 32-bit integral value")
        }),
        other => Err(query_error!(
            not_a_number,
            "$substrCP: {what} must be a numeric type (is BSON type {})",
            type_name(other)
        )),
    }
}

fn length(operand: Evaluated, name: &str, code: i32, measure: fn(&str) -> usize) -> Outcome {
    match &operand {
        Some(Value::String(text)) => Ok(Some(Value::Int32(i32::try_from(measure(text)).unwrap_or(i32::MAX)))),
        other => Err(query_error!(code, "{name} requires a string argument, found: {}", type_name(other))),
    }
}

fn split(input: Evaluated, separator: Evaluated) -> Outcome {
    null_if_nullish!(input, separator);
    let Some(Value::String(input)) = &input else {
        bail!(
            40085,
            "$split requires an expression that evaluates to a string as a first argument, found: {}",
            type_name(&input)
        );
    };
    let Some(Value::String(separator)) = &separator else {
        bail!(
            40086,
            "$split requires an expression that evaluates to a string as a second argument, found: {}",
            type_name(&separator)
        );
    };
    if separator.is_empty() {
        bail!(40087, "$split requires a non-empty separator");
    }
    let mut parts = Vec::new();
    let mut filling = limits::Filling::of("$split");
    for part in input.split(separator.as_str()).map(Value::from) {
        filling.add(&part)?;
        parts.push(part);
    }
    limits::array("$split", parts)
}

/// What `$trim` removes when no characters are given (MongoDB manual, "$trim: Whitespace Characters").
const WHITE_SPACE: &[char] = &[
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200a}',
];

fn trim(mut arguments: Arguments, left: bool, right: bool) -> Outcome {
    let name = arguments.operator;
    let input = arguments.take("input");
    let chars = arguments.take_given("chars");
    null_if_nullish!(input);
    let Some(Value::String(input)) = &input else {
        bail!(
            50699,
            "{name} requires its input to be a string, got {} (of type {}) instead.",
            brief(&input),
            type_name(&input)
        );
    };
    let removed: HashSet<char> = match &chars {
        None => WHITE_SPACE.iter().copied().collect(),
        Some(Some(Value::String(chars))) => chars.chars().collect(),
        Some(other) if nullish(other) => return Ok(NULL),
        Some(other) => bail!(
            50700,
            "{name} requires 'chars' to be a string, got {} (of type {}) instead.",
            brief(other),
            type_name(other)
        ),
    };
    let goes = |letter: char| removed.contains(&letter);
    let mut rest = input.as_str();
    if left {
        rest = rest.trim_start_matches(goes);
    }
    if right {
        rest = rest.trim_end_matches(goes);
    }
    text(rest)
}

/// The operands of the `$indexOf` pair.
struct IndexOf {
    input: String,
    token: String,
    start: usize,
    end: usize,
}

fn index_of_operands(
    operands: &[Evaluated],
    name: &str,
    codes: [i32; 2],
) -> Result<Option<IndexOf>, QueryError> {
    let (input, token) = (operands.first().cloned().flatten(), operands.get(1).cloned().flatten());
    let input = match input {
        Some(Value::String(input)) => input,
        value if nullish(&value) => return Ok(None),
        other => {
            bail!(codes[0], "{name} requires a string as the first argument, found: {}", type_name(&other))
        }
    };
    let Some(Value::String(token)) = token else {
        bail!(codes[1], "{name} requires a string as the second argument, found: {}", type_name(&token));
    };
    let start = operands.get(2).map_or(Ok(0), |operand| position(operand, name, "starting"))?;
    let end = operands.get(3).map_or(Ok(usize::MAX), |operand| position(operand, name, "ending"))?;
    Ok(Some(IndexOf { input, token, start, end }))
}

/// A start or end position of the `$indexOf` family.
pub(crate) fn position(operand: &Evaluated, name: &str, which: &str) -> Result<usize, QueryError> {
    let Some(number) = as_i32(operand) else {
        bail!(
            40096,
            "{name} requires an integral {which} index, found a value of type: {}, with value: \"{}\"",
            type_name(operand),
            brief(operand)
        );
    };
    usize::try_from(number)
        .map_err(|_| query_error!(40097, "{name} requires a nonnegative {which} index, found: {number}"))
}

fn found(position: Option<usize>) -> Outcome {
    Ok(Some(Value::Int32(position.and_then(|position| i32::try_from(position).ok()).unwrap_or(-1))))
}

fn index_of_bytes(operands: Vec<Evaluated>) -> Outcome {
    let Some(operands) = index_of_operands(&operands, "$indexOfBytes", [40091, 40092])? else {
        return Ok(NULL);
    };
    let end = operands.end.min(operands.input.len());
    let Some(window) = operands.input.as_bytes().get(operands.start..end) else { return found(None) };
    found(memchr::memmem::find(window, operands.token.as_bytes()).map(|at| at + operands.start))
}

fn index_of_cp(operands: Vec<Evaluated>) -> Outcome {
    let Some(operands) = index_of_operands(&operands, "$indexOfCP", [40093, 40094])? else { return Ok(NULL) };
    let length = operands.input.chars().count();
    let (start, end) = (operands.start, operands.end.min(length));
    if start > end {
        return found(None);
    }
    let byte_of = |position: usize| {
        operands.input.char_indices().nth(position).map_or(operands.input.len(), |(byte, _)| byte)
    };
    let window = operands.input.get(byte_of(start)..byte_of(end)).unwrap_or_default();
    let before = |byte: usize| window.get(..byte).map_or(0, |text| text.chars().count());
    found(window.find(operands.token.as_str()).map(|byte| start + before(byte)))
}

fn replace(mut arguments: Arguments, count: usize) -> Outcome {
    let name = arguments.operator;
    let mut strings = Vec::with_capacity(3);
    let mut any_null = false;
    for (parameter, code) in [("input", 51746), ("find", 51745), ("replacement", 51744)] {
        match arguments.take(parameter) {
            Some(Value::String(text)) => strings.push(text),
            value if nullish(&value) => any_null = true,
            other => bail!(code, "{name} requires that '{parameter}' be a string, found: {}", brief(&other)),
        }
    }
    match strings.as_slice() {
        [input, find, replacement] if !any_null => {
            let replaced = input.matches(find.as_str()).take(count).count();
            limits::check_string(
                (input.len() + replaced * replacement.len()).saturating_sub(replaced * find.len()),
            )?;
            text(input.replacen(find.as_str(), replacement, count))
        }
        _ => Ok(NULL),
    }
}
