//! Operands as large and awkward as clients can make them.

use document::{Array, Document, Value, doc};

/// Levels of nesting; the deepest that is accepted in a message is 200, with the command around it.
const LEVELS: usize = 90;

/// An operand and what to call it in reports.
pub(crate) struct Operand {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
}

fn operand(name: &'static str, value: impl Into<Value>) -> Operand {
    Operand { name, value: value.into() }
}

pub(crate) fn array(length: usize, item: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..length).map(item).collect::<Array>())
}

pub(crate) fn fields(prefix: &str, length: usize, value: impl Fn(usize) -> Value) -> Document {
    (0..length).map(|number| (format!("{prefix}{number}"), value(number))).collect()
}

pub(crate) fn int(number: usize) -> Value {
    Value::Int32(number as i32)
}

pub(crate) fn numbers(length: usize) -> Value {
    // Descending and spread, so that nothing is sorted by chance.
    array(length, |number| int((length - number) * 7))
}

pub(crate) fn documents(length: usize) -> Value {
    array(length, |number| doc! { (format!("f{number}")): (number as i32) }.into())
}

/// `{name: {name: {… innermost}}}`.
pub(crate) fn nested(name: &str, levels: usize, innermost: Value) -> Value {
    (0..levels).fold(innermost, |inner, _| Value::Document(doc! { name: inner }))
}

fn nested_arrays(levels: usize) -> Value {
    (0..levels).fold(int(1), |inner, _| Value::from(vec![inner, int(2)]))
}

/// Every shape of about `length` elements.
pub(crate) fn all(length: usize) -> Vec<Operand> {
    let text = "a".repeat(length * 8);
    vec![
        operand("number", 7),
        operand("numbers", numbers(length)),
        operand("strings", array(length, |number| format!("f{number}").into())),
        operand("references", array(length, |number| format!("$f{number}").into())),
        operand("documents", documents(length)),
        operand("equal documents", array(length, |_| doc! { "a": 1 }.into())),
        operand("fields", fields("f", length, int)),
        operand("paths", fields("a.f", length, int)),
        operand("one name", (0..length).map(|number| ("a", int(number))).collect::<Document>()),
        operand("deep", nested("a", LEVELS, int(1))),
        operand("deep arrays", nested_arrays(LEVELS)),
        operand("text", text.clone()),
        operand("reference", format!("$f{text}")),
        operand("dotted", "a.".repeat(length * 4)),
        operand("two lists", vec![numbers(length), numbers(length)]),
        operand("two texts", vec![text.into(), Value::from(format!("{}b", "a".repeat(length * 4)))]),
        operand("patterns", array(length / 100, |number| Value::regex(format!("x{number}.*y"), ""))),
    ]
}

/// Those of [`all`] that are enough where commands are many.
pub(crate) fn few(length: usize) -> Vec<Operand> {
    const NAMES: [&str; 7] = ["numbers", "documents", "fields", "paths", "one name", "deep", "text"];
    all(length).into_iter().filter(|operand| NAMES.contains(&operand.name)).collect()
}

/// `{operator: {operator: {… 1}}}`.
pub(crate) fn of_itself(operator: &str) -> Value {
    nested(operator, LEVELS, int(1))
}
