//! Projections, of `find` and of `$project`.

use document::{Document, Value};

use super::{expression, filter, int, path};
use crate::source::Source;

pub(crate) fn projection(source: &mut Source<'_>, depth: usize) -> Document {
    let mut projection = Document::new();
    // Mostly of one kind: a mixture is refused.
    let includes = source.one_in(2);
    for _ in 0..=source.below(3) {
        let name = match source.one_in(16) {
            true => format!("{}.$", path(source)),
            false => path(source),
        };
        let rule = rule(source, depth, includes);
        projection.insert(name, rule);
    }
    projection
}

fn rule(source: &mut Source<'_>, depth: usize, includes: bool) -> Value {
    match source.below(16) {
        0..=8 => Value::Boolean(includes),
        9 => Value::Int32(i32::from(!includes)),
        10 => Value::Document(document::doc! { "$slice": (int(source)) }),
        11 => Value::Document(document::doc! { "$slice": [(int(source)), (int(source))] }),
        12 => Value::Document(document::doc! { "$elemMatch": (filter(source, depth.saturating_sub(1))) }),
        13 if depth > 0 => Value::Document(projection(source, depth - 1)),
        _ => expression(source, depth),
    }
}
