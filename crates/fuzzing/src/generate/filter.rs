//! Filters: every operator of the tables of `query::matcher`.

use document::{Array, Document, Value};
use query::matcher::{field_operators, top_operators};

use super::{expression, int, operand, path, pattern, regex_options, schema, value};
use crate::source::Source;

const TYPES: &[&str] = &[
    "int",
    "long",
    "double",
    "decimal",
    "number",
    "string",
    "array",
    "object",
    "null",
    "bool",
    "date",
    "regex",
    "undefined",
    "binData",
    "objectId",
    "minKey",
    "maxKey",
    "timestamp",
    "symbol",
    "javascript",
    "missing",
    "",
];

pub(crate) fn filter(source: &mut Source<'_>, depth: usize) -> Document {
    let mut filter = Document::new();
    for _ in 0..=source.below(3) {
        match source.below(if depth == 0 { 6 } else { 9 }) {
            0 | 1 => {
                let name = path(source);
                filter.push(name, operand(source));
            }
            2..=5 => {
                let name = path(source);
                filter.push(name, operators(source, depth));
            }
            _ => {
                let name = source.one_of(top_operators()).name;
                filter.push(name, top_argument(source, name, depth));
            }
        }
        if source.is_empty() {
            break;
        }
    }
    filter
}

fn top_argument(source: &mut Source<'_>, name: &str, depth: usize) -> Value {
    if source.one_in(32) {
        return value(source, 1);
    }
    match name {
        "$and" | "$or" | "$nor" => {
            let branches = (0..=source.below(3)).map(|_| filter(source, depth - 1).into());
            Value::Array(branches.collect())
        }
        "$expr" => expression(source, depth),
        "$jsonSchema" => Value::Document(schema(source, depth)),
        "$alwaysTrue" | "$alwaysFalse" => Value::Int32(1),
        _ => value(source, 1),
    }
}

/// `{$gt: 1, $in: […]}`
pub(super) fn operators(source: &mut Source<'_>, depth: usize) -> Document {
    let mut operators = Document::new();
    for _ in 0..=source.below(2) {
        let name = source.one_of(field_operators()).name;
        operators.push(name, argument(source, name, depth));
        if name == "$regex" && source.one_in(3) {
            operators.push("$options", regex_options(source));
        }
    }
    operators
}

fn argument(source: &mut Source<'_>, name: &str, depth: usize) -> Value {
    if source.one_in(32) {
        return value(source, 1);
    }
    match name {
        "$in" | "$nin" | "$all" => list(source, name, depth),
        "$elemMatch" if depth > 0 && source.one_in(2) => filter(source, depth - 1).into(),
        "$elemMatch" | "$not" if depth > 0 => operators(source, depth - 1).into(),
        "$elemMatch" => Value::Document(document::doc! { "$gt": (operand(source)) }),
        "$not" => Value::regex(pattern(source), regex_options(source)),
        "$exists" => Value::Boolean(!source.one_in(2)),
        "$type" => match source.below(3) {
            0 => Value::Int32(source.below(20) as i32 - 1),
            1 => (0..source.below(3)).map(|_| Value::from(source.pick(TYPES))).collect::<Array>().into(),
            _ => Value::from(source.pick(TYPES)),
        },
        "$mod" => Value::Array(Array::from_iter([int(source), int(source)])),
        "$size" => int(source),
        "$regex" if source.one_in(4) => Value::regex(pattern(source), regex_options(source)),
        "$regex" => Value::String(pattern(source)),
        "$options" => Value::String(regex_options(source)),
        name if name.starts_with("$bits") => match source.below(3) {
            0 => Value::binary(0, source.bytes(9)),
            1 => {
                (0..source.below(4)).map(|_| Value::Int32(source.below(70) as i32)).collect::<Array>().into()
            }
            _ => int(source),
        },
        _ => operand(source),
    }
}

fn list(source: &mut Source<'_>, name: &str, depth: usize) -> Value {
    let only_tests = name == "$all" && depth > 0 && source.one_in(4);
    let items = (0..source.below(4)).map(|_| match source.below(8) {
        _ if only_tests => Value::Document(document::doc! { "$elemMatch": (operators(source, depth - 1)) }),
        0 => Value::regex(pattern(source), regex_options(source)),
        _ => operand(source),
    });
    Value::Array(items.collect())
}
