//! Updates: every operator of the table of `query::update`, replacements and pipelines.

use document::{Document, Value};
use query::update::operator_names;

use super::expression::{array, named};
use super::filter::operators;
use super::{document, expression, field, filter, int, operand, path, value};
use crate::source::Source;

const STEPS: &[&str] = &["$", "$[]", "$[x]", "$[y]", "0", "2"];

/// An update of one statement.
pub(crate) fn update(source: &mut Source<'_>, depth: usize) -> Value {
    match source.below(8) {
        0 => {
            let mut replacement = document(source, depth);
            replacement.remove("_id");
            replacement.into()
        }
        1 => array((0..=source.below(2)).map(|_| stage(source, depth))),
        _ => {
            let mut update = Document::new();
            let names: Vec<&str> = operator_names().collect();
            for _ in 0..=source.below(3) {
                let name = source.pick(&names);
                let mut fields = Document::new();
                for _ in 0..=source.below(2) {
                    let target = target(source);
                    fields.insert(target, argument(source, name, depth));
                }
                update.insert(name, fields);
            }
            update.into()
        }
    }
}

fn stage(source: &mut Source<'_>, depth: usize) -> Value {
    let stage = match source.below(6) {
        0 | 1 => document::doc! { "$set": (named(source, depth)) },
        2 => document::doc! { "$unset": [(path(source))] },
        3 => document::doc! { "$project": (super::projection(source, depth)) },
        4 => document::doc! { "$replaceWith": (expression(source, depth)) },
        _ => document::doc! { "$addFields": (named(source, depth)) },
    };
    stage.into()
}

fn target(source: &mut Source<'_>) -> String {
    let mut target = path(source);
    while source.one_in(6) {
        target.push('.');
        target.push_str(source.pick(STEPS));
    }
    target
}

fn argument(source: &mut Source<'_>, name: &str, depth: usize) -> Value {
    if source.one_in(32) {
        return value(source, 1);
    }
    match name {
        "$rename" => target(source).into(),
        "$currentDate" => match source.below(3) {
            0 => document::doc! { "$type": "timestamp" }.into(),
            _ => Value::Boolean(true),
        },
        "$bit" => document::doc! { (source.pick(&["and", "or", "xor", "nor"])): (int(source)) }.into(),
        "$pop" => Value::Int32(source.pick(&[1, -1, 0])),
        "$inc" | "$mul" => int(source),
        "$addToSet" if source.one_in(3) => document::doc! { "$each": (list(source)) }.into(),
        "$push" if source.one_in(2) => push(source),
        "$pull" if source.one_in(2) => operators(source, depth).into(),
        "$pull" if source.one_in(2) => filter(source, depth).into(),
        "$pullAll" => list(source),
        _ if source.one_in(3) => value(source, 3),
        _ => operand(source),
    }
}

fn list(source: &mut Source<'_>) -> Value {
    array((0..source.below(4)).map(|_| operand(source)))
}

fn push(source: &mut Source<'_>) -> Value {
    let mut clauses = document::doc! { "$each": (list(source)) };
    if source.one_in(2) {
        clauses.push("$position", int(source));
    }
    if source.one_in(2) {
        clauses.push("$slice", int(source));
    }
    if source.one_in(3) {
        let sort = match source.below(3) {
            0 => Value::Int32(1),
            1 => Value::Int32(-1),
            _ => document::doc! { (field(source)): 1, "a.b": (-1) }.into(),
        };
        clauses.push("$sort", sort);
    }
    clauses.into()
}

/// For `$[x]` and `$[y]`.
pub(crate) fn array_filters(source: &mut Source<'_>, depth: usize) -> Vec<Value> {
    let mut filters = Vec::new();
    for name in ["x", "y"] {
        if source.one_in(3) {
            let path = if source.one_in(2) { name.to_owned() } else { format!("{name}.b") };
            let mut filter = Document::new();
            filter.push(path, operators(source, depth));
            filters.push(filter.into());
        }
    }
    filters
}
