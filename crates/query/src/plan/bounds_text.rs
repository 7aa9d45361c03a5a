//! Intervals and values as `explain` prints them.

use document::{Document, Value};

use super::Interval;

/// `[5, 9)`.
pub(crate) fn interval(interval: &Interval) -> String {
    let open = if interval.from.after { '(' } else { '[' };
    let close = if interval.to.after { ']' } else { ')' };
    format!("{open}{}, {}{close}", value(&interval.from.value), value(&interval.to.value))
}

/// `(9, 5]`: an interval met from its upper end.
pub(crate) fn falling_interval(interval: &Interval) -> String {
    let open = if interval.to.after { '[' } else { '(' };
    let close = if interval.from.after { ')' } else { ']' };
    format!("{open}{}, {}{close}", value(&interval.to.value), value(&interval.from.value))
}

/// A value the way the shell writes it.
pub(crate) fn value(value_shown: &Value) -> String {
    match value_shown {
        Value::Double(number) if number.is_nan() => "nan.0".to_owned(),
        Value::Double(number) if number.is_infinite() => {
            if *number > 0.0 {
                "inf.0".to_owned()
            } else {
                "-inf.0".to_owned()
            }
        }
        Value::Double(number) => format!("{number:?}"),
        Value::Int32(number) => number.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::Decimal128(number) => number.to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Symbol(text) => format!("{text:?}"),
        Value::Document(document) => fields(document),
        Value::Array(values) if values.is_empty() => "[]".to_owned(),
        Value::Array(values) => format!("[ {} ]", values.iter().map(value).collect::<Vec<_>>().join(", ")),
        Value::Binary(binary) => {
            let digits: String = binary.bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("BinData({}, {digits})", binary.subtype)
        }
        Value::Undefined => "undefined".to_owned(),
        Value::ObjectId(id) => format!("ObjectId('{id}')"),
        Value::Boolean(flag) => flag.to_string(),
        Value::DateTime(milliseconds) => format!("new Date({milliseconds})"),
        Value::Null => "null".to_owned(),
        Value::Regex(regex) => format!("/{}/{}", regex.pattern, regex.options),
        Value::DbPointer(pointer) => format!("DBRef('{}', {})", pointer.namespace, pointer.id),
        Value::JavaScript(code) => code.to_string(),
        Value::JavaScriptWithScope(scoped) => {
            format!("CodeWScope( {}, {})", scoped.code, fields(&scoped.scope))
        }
        Value::Timestamp(timestamp) => format!("Timestamp({}, {})", timestamp.time, timestamp.increment),
        Value::MinKey => "MinKey".to_owned(),
        Value::MaxKey => "MaxKey".to_owned(),
    }
}

fn fields(document: &Document) -> String {
    if document.is_empty() {
        return "{}".to_owned();
    }
    let fields: Vec<String> =
        document.iter().map(|(name, held)| format!("{name}: {}", value(held))).collect();
    format!("{{ {} }}", fields.join(", "))
}
