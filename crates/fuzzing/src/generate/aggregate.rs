//! Pipelines: every stage of the table of `query::aggregate` that is a function of its input.

use document::{Document, Value};
use query::aggregate::{StagePosition, accumulator_names, stage_entries};

use super::expression::{array, named};
use super::{expression, filter, int, path, projection, text};
use crate::source::Source;

/// What gives something else each time.
const RANDOM: &str = "$sample";

/// Documents that are the stages.
pub(crate) fn pipeline(source: &mut Source<'_>, depth: usize) -> Vec<Document> {
    let names: Vec<&str> = stage_entries()
        .iter()
        .filter(|entry| entry.position == StagePosition::Any && entry.name != RANDOM)
        .map(|entry| entry.name)
        .collect();
    let mut stages = Vec::new();
    for _ in 0..=source.below(5) {
        stages.push(stage(source, &names, depth));
        // What a planner makes one of.
        if source.one_in(8) {
            for name in ["$sort", "$skip", "$limit"] {
                let operand = operand(source, name, depth);
                stages.push(document::doc! { name: operand });
            }
        }
    }
    stages
}

fn stage(source: &mut Source<'_>, names: &[&'static str], depth: usize) -> Document {
    let name = source.pick(names);
    let operand = operand(source, name, depth);
    document::doc! { name: operand }
}

fn inner(source: &mut Source<'_>, depth: usize) -> Value {
    if depth == 0 {
        return array([]);
    }
    let stages = pipeline(source, depth - 1);
    array(stages.into_iter().take(2).map(Value::from))
}

fn operand(source: &mut Source<'_>, name: &str, depth: usize) -> Value {
    if source.one_in(32) {
        return super::value(source, 2);
    }
    match name {
        "$match" => filter(source, depth).into(),
        "$project" => projection(source, depth).into(),
        "$set" | "$addFields" => named(source, depth).into(),
        "$unset" => array((0..=source.below(2)).map(|_| path(source).into())),
        "$skip" => Value::Int32(source.below(4) as i32),
        "$limit" => Value::Int32(source.below(5) as i32 + 1),
        "$sort" => sort(source).into(),
        "$count" => source.pick(&["a", "n", "$n", ""]).into(),
        "$sortByCount" => expression(source, depth),
        "$group" => {
            let mut group = document::doc! { "_id": (expression(source, depth)) };
            accumulators(source, &mut group, depth);
            group.into()
        }
        "$bucket" => {
            let mut bucket = document::doc! {
                "groupBy": (expression(source, depth)), "boundaries": [0, 1, 2, 5], "default": "x"
            };
            if source.one_in(2) {
                let mut output = Document::new();
                accumulators(source, &mut output, depth);
                bucket.push("output", output);
            }
            bucket.into()
        }
        "$bucketAuto" => {
            document::doc! { "groupBy": (expression(source, depth)), "buckets": (int(source)) }.into()
        }
        "$unwind" if source.one_in(2) => format!("${}", path(source)).into(),
        "$unwind" => document::doc! {
            "path": (format!("${}", path(source))),
            "includeArrayIndex": (source.pick(&["i", "a", "a.i"])),
            "preserveNullAndEmptyArrays": (source.one_in(2)),
        }
        .into(),
        "$replaceRoot" => document::doc! { "newRoot": (expression(source, depth)) }.into(),
        "$replaceWith" => expression(source, depth),
        "$redact" => document::doc! { "$cond": [
            (expression(source, depth)),
            (source.pick(&["$$DESCEND", "$$KEEP"])),
            (source.pick(&["$$PRUNE", "$$KEEP", "$$DESCEND"])),
        ] }
        .into(),
        "$facet" => document::doc! { "x": (inner(source, depth)), "y": (inner(source, depth)) }.into(),
        "$lookup" if source.one_in(2) => document::doc! {
            "from": (source.pick(&["items", "none"])),
            "localField": (path(source)),
            "foreignField": (path(source)),
            "as": (source.pick(&["a", "l", "b.l"])),
        }
        .into(),
        "$lookup" => document::doc! {
            "from": (source.pick(&["items", "none"])),
            "let": { "v": (expression(source, depth)) },
            "pipeline": (inner(source, depth)),
            "as": (source.pick(&["a", "l", "b.l"])),
        }
        .into(),
        "$unionWith" => {
            document::doc! { "coll": (source.pick(&["items", "none"])), "pipeline": (inner(source, depth)) }
                .into()
        }
        _ => text(source).into(),
    }
}

fn sort(source: &mut Source<'_>) -> Document {
    let mut sort = Document::new();
    for _ in 0..=source.below(2) {
        let path = path(source);
        sort.insert(path, source.pick(&[1, -1]));
    }
    sort
}

fn accumulators(source: &mut Source<'_>, fields: &mut Document, depth: usize) {
    let names: Vec<&str> = accumulator_names().collect();
    for field in ["s", "t"] {
        let name = source.pick(&names);
        let operand = match name {
            "$count" => Value::Document(Document::new()),
            "$top" | "$bottom" => {
                document::doc! { "sortBy": (sort(source)), "output": (expression(source, depth)) }.into()
            }
            "$topN" | "$bottomN" => document::doc! {
                "n": (int(source)), "sortBy": (sort(source)), "output": (expression(source, depth))
            }
            .into(),
            "$firstN" | "$lastN" | "$maxN" | "$minN" => {
                document::doc! { "n": (int(source)), "input": (expression(source, depth)) }.into()
            }
            _ => expression(source, depth),
        };
        fields.push(field, document::doc! { name: operand });
    }
}
