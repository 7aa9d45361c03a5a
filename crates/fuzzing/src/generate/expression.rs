//! Expressions: every operator of the table of `query::expression`.

use document::{Array, Document, Value};
use query::expression::{Arity, Operator, operators};

use super::{field, int, operand, path, pattern, regex_options, text, value};
use crate::source::Source;

/// What gives something else each time.
const RANDOM: &[&str] = &["$rand", "$sampleRate"];
const VARIABLES: &[&str] =
    &["$$ROOT", "$$CURRENT", "$$REMOVE", "$$NOW", "$$x", "$$this", "$$value", "$$ROOT.a", "$$x.b", "$$v"];
const ZONES: &[&str] = &["UTC", "Europe/Berlin", "+01:00", "-0330", "America/New_York", "nowhere"];
const UNITS: &[&str] =
    &["year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "era"];
const FORMATS: &[&str] = &["%Y-%m-%d", "%H:%M:%S.%L", "%G-W%V-%u", "%j %U %w %z %Z %%", "%", "%q", "%B %b"];
const CONVERSIONS: &[&str] =
    &["int", "long", "double", "decimal", "string", "bool", "date", "objectId", "null", "x"];

pub(crate) fn expression(source: &mut Source<'_>, depth: usize) -> Value {
    match source.below(if depth == 0 { 8 } else { 20 }) {
        0..=3 => Value::String(format!("${}", path(source))),
        4 | 5 => operand(source),
        6 => Value::from(source.pick(VARIABLES)),
        7 => Value::Document(document::doc! { "$literal": (value(source, 2)) }),
        8 => Value::Array((0..source.below(4)).map(|_| expression(source, depth - 1)).collect()),
        9 => {
            let mut object = Document::new();
            for _ in 0..source.below(3) {
                let name = field(source);
                object.insert(name, expression(source, depth - 1));
            }
            object.into()
        }
        _ => call(source, depth - 1),
    }
}

fn call(source: &mut Source<'_>, depth: usize) -> Value {
    let all: Vec<&'static Operator> =
        operators().filter(|operator| !RANDOM.contains(&operator.name)).collect();
    let operator = source.pick(&all);
    let mut call = Document::new();
    call.push(operator.name, operands(source, operator, depth));
    call.into()
}

fn several(source: &mut Source<'_>, count: usize, depth: usize) -> Value {
    Value::Array((0..count).map(|_| expression(source, depth)).collect())
}

fn operands(source: &mut Source<'_>, operator: &Operator, depth: usize) -> Value {
    if source.one_in(32) {
        return expression(source, depth);
    }
    match operator.arity {
        Arity::Exactly(1) if source.one_in(2) => expression(source, depth),
        Arity::Exactly(count) => several(source, count, depth),
        Arity::Between(least, most) => {
            let count = least + source.below(most.min(least + 4) - least + 1);
            several(source, count, depth)
        }
        Arity::Any => {
            let count = source.below(4);
            several(source, count, depth)
        }
        Arity::Named(signature) => {
            let mut given = Document::new();
            for parameter in signature.parameters {
                if parameter.required != source.one_in(12) {
                    given.push(parameter.name, parameter_value(source, parameter.name, depth));
                }
            }
            given.into()
        }
        Arity::Grammar => grammar(source, operator.name, depth),
    }
}

fn parameter_value(source: &mut Source<'_>, name: &str, depth: usize) -> Value {
    if source.one_in(6) {
        return expression(source, depth);
    }
    match name {
        "timezone" => Value::from(source.pick(ZONES)),
        "unit" => Value::from(source.pick(UNITS)),
        "format" => Value::from(source.pick(FORMATS)),
        "date" | "startDate" | "endDate" => Value::DateTime(source.below(9) as i64 * 1_000_000_000_000 / 3),
        "dateString" => Value::from(source.pick(&["2024-02-29", "2024-02-30", "1999-12-31T23:59:60Z", "x"])),
        "regex" => Value::String(pattern(source)),
        "options" => Value::String(regex_options(source)),
        "to" => Value::from(source.pick(CONVERSIONS)),
        "startOfWeek" => Value::from(source.pick(&["monday", "sun", "x"])),
        "field" => Value::String(field(source)),
        "n" | "amount" | "binSize" | "year" | "month" | "day" | "hour" => int(source),
        "find" | "replacement" | "chars" => Value::String(text(source)),
        _ => expression(source, depth),
    }
}

/// Operators that have a grammar of their own. What is not known here gets any expression.
fn grammar(source: &mut Source<'_>, name: &str, depth: usize) -> Value {
    let mut e = || expression(source, depth);
    let whole = match name {
        "$let" => document::doc! { "vars": { "x": (e()), "v": (e()) }, "in": (e()) },
        "$map" => document::doc! { "input": (e()), "as": "x", "in": (e()) },
        "$filter" => document::doc! { "input": (e()), "as": "x", "cond": (e()) },
        "$reduce" => document::doc! { "input": (e()), "initialValue": (e()), "in": (e()) },
        "$cond" => document::doc! { "if": (e()), "then": (e()), "else": (e()) },
        "$switch" => document::doc! {
            "branches": [{ "case": (e()), "then": (e()) }, { "case": (e()), "then": (e()) }], "default": (e())
        },
        "$sortArray" => document::doc! { "input": (e()), "sortBy": { "a": 1, "b": (-1) } },
        "$getField" => return Value::String(field(source)),
        "$setField" => document::doc! { "field": "b", "input": (e()), "value": (e()) },
        "$literal" => return value(source, 2),
        "$firstN" | "$lastN" | "$maxN" | "$minN" => {
            document::doc! { "n": (int(source)), "input": (expression(source, depth)) }
        }
        _ => {
            let count = source.below(4);
            return several(source, count, depth);
        }
    };
    whole.into()
}

/// A list of expressions of fields, for stages.
pub(super) fn named(source: &mut Source<'_>, depth: usize) -> Document {
    let mut named = Document::new();
    for _ in 0..=source.below(2) {
        let name = path(source);
        named.insert(name, expression(source, depth));
    }
    named
}

pub(super) fn array(values: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(Array::from_iter(values))
}
