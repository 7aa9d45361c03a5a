//! JSON schemas.

use document::{Document, Value};

use super::expression::array;
use super::{int, operand, pattern, text};
use crate::source::Source;

const KEYWORDS: &[&str] = &[
    "bsonType",
    "type",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "items",
    "additionalItems",
    "minProperties",
    "maxProperties",
    "required",
    "properties",
    "patternProperties",
    "additionalProperties",
    "dependencies",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "title",
    "description",
    "$ref",
];
const TYPES: &[&str] = &[
    "object", "array", "string", "number", "int", "long", "double", "decimal", "bool", "boolean", "null",
    "date",
];
const FIELDS: &[&str] = &["a", "b", "c", "d", "_id"];

pub(crate) fn schema(source: &mut Source<'_>, depth: usize) -> Document {
    let mut schema = Document::new();
    for _ in 0..=source.below(3) {
        let keyword = source.pick(KEYWORDS);
        let argument = argument(source, keyword, depth);
        if keyword.starts_with("exclusive") {
            let bound = if keyword.ends_with("Minimum") { "minimum" } else { "maximum" };
            schema.insert(bound, int(source));
        }
        schema.insert(keyword, argument);
    }
    schema
}

fn inner(source: &mut Source<'_>, depth: usize) -> Document {
    if depth == 0 {
        document::doc! { "bsonType": (source.pick(TYPES)) }
    } else {
        schema(source, depth - 1)
    }
}

fn inner_or_flag(source: &mut Source<'_>, depth: usize) -> Value {
    if source.one_in(2) { Value::Boolean(source.one_in(2)) } else { inner(source, depth).into() }
}

fn by_field(source: &mut Source<'_>, depth: usize) -> Document {
    let mut fields = Document::new();
    for _ in 0..=source.below(2) {
        let name = source.pick(FIELDS);
        fields.insert(name, inner(source, depth));
    }
    fields
}

fn argument(source: &mut Source<'_>, keyword: &str, depth: usize) -> Value {
    if source.one_in(32) {
        return operand(source);
    }
    match keyword {
        "bsonType" | "type" if source.one_in(3) => {
            array([source.pick(TYPES).into(), source.pick(TYPES).into()])
        }
        "bsonType" | "type" => source.pick(TYPES).into(),
        "enum" => array((0..=source.below(3)).map(|_| operand(source))),
        "pattern" => pattern(source).into(),
        "uniqueItems" | "exclusiveMinimum" | "exclusiveMaximum" => Value::Boolean(!source.one_in(3)),
        "items" if source.one_in(3) => array((0..=source.below(2)).map(|_| inner(source, depth).into())),
        "items" | "not" => inner(source, depth).into(),
        "additionalItems" | "additionalProperties" => inner_or_flag(source, depth),
        "required" => array((0..=source.below(2)).map(|_| source.pick(FIELDS).into())),
        "properties" => by_field(source, depth).into(),
        "patternProperties" => {
            let mut patterns = Document::new();
            let name = pattern(source);
            patterns.push(name, inner(source, depth));
            patterns.into()
        }
        "dependencies" if source.one_in(2) => {
            document::doc! { (source.pick(FIELDS)): [(source.pick(FIELDS))] }.into()
        }
        "dependencies" => by_field(source, depth).into(),
        "allOf" | "anyOf" | "oneOf" => array((0..=source.below(2)).map(|_| inner(source, depth).into())),
        "title" | "description" => text(source).into(),
        _ => int(source),
    }
}
