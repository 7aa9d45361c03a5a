//! Values as the shell prints them, for messages that quote documents: `{ a: 1, b: "x" }`.

use document::{Document, Value};
use std::fmt::Write;

/// `{ name: value, … }`.
pub(crate) fn document(document: &Document) -> String {
    let mut text = String::new();
    write_document(&mut text, document);
    text
}

/// One value.
pub(crate) fn value(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_document(text: &mut String, document: &Document) {
    if document.is_empty() {
        text.push_str("{}");
        return;
    }
    for (position, (name, value)) in document.iter().enumerate() {
        text.push_str(if position == 0 { "{ " } else { ", " });
        text.push_str(name);
        text.push_str(": ");
        write_value(text, value);
    }
    text.push_str(" }");
}

fn write_array(text: &mut String, values: &[Value]) {
    if values.is_empty() {
        text.push_str("[]");
        return;
    }
    for (position, value) in values.iter().enumerate() {
        text.push_str(if position == 0 { "[ " } else { ", " });
        write_value(text, value);
    }
    text.push_str(" ]");
}

fn write_value(text: &mut String, value: &Value) {
    // Writing to a string cannot fail; the results are dropped for that reason.
    let _ = match value {
        Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e15 => write!(text, "{number:.1}"),
        Value::Double(number) => write!(text, "{number}"),
        Value::String(string) => write!(text, "\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\"")),
        Value::Document(document) => {
            write_document(text, document);
            Ok(())
        }
        Value::Array(values) => {
            write_array(text, values);
            Ok(())
        }
        Value::Binary(binary) => {
            let digits: String = binary.bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            write!(text, "BinData({}, {digits})", binary.subtype)
        }
        Value::Undefined => write!(text, "undefined"),
        Value::ObjectId(id) => write!(text, "ObjectId('{id}')"),
        Value::Boolean(flag) => write!(text, "{flag}"),
        Value::DateTime(milliseconds) => write!(text, "new Date({milliseconds})"),
        Value::Null => write!(text, "null"),
        Value::Regex(regex) => write!(text, "/{}/{}", regex.pattern, regex.options),
        Value::DbPointer(pointer) => write!(text, "DBRef('{}', {})", pointer.namespace, pointer.id),
        Value::JavaScript(code) => write!(text, "{code}"),
        Value::Symbol(symbol) => write!(text, "\"{symbol}\""),
        Value::JavaScriptWithScope(scoped) => write!(text, "CodeWScope( {})", scoped.code),
        Value::Int32(number) => write!(text, "{number}"),
        Value::Timestamp(timestamp) => write!(text, "Timestamp({}, {})", timestamp.time, timestamp.increment),
        Value::Int64(number) => write!(text, "{number}"),
        Value::Decimal128(number) => write!(text, "{number}"),
        Value::MinKey => write!(text, "MinKey"),
        Value::MaxKey => write!(text, "MaxKey"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::{ObjectId, doc};

    #[track_caller]
    fn check(input: Document, expect: &str) {
        assert_eq!(document(&input), expect);
    }

    #[test]
    fn documents_read_like_the_shell() {
        check(doc! {}, "{}");
        check(doc! { "a": 1, "b": "x\"y" }, "{ a: 1, b: \"x\\\"y\" }");
        check(doc! { "a": 1.0, "b": 2.5 }, "{ a: 1.0, b: 2.5 }");
        check(doc! { "a": { "b": [1, 2] } }, "{ a: { b: [ 1, 2 ] } }");
        let id = ObjectId::from_bytes([7; 12]);
        check(Document::from_iter([("_id", Value::ObjectId(id))]), &format!("{{ _id: ObjectId('{id}') }}"));
    }
}
