//! Relaxed extended JSON (specification "MongoDB Extended JSON v2"), for logs; messages quote values as
//! [`crate::quote`] does.

use crate::date::DateTime;
use crate::{RawArray, RawDocument, RawValue};
use std::fmt::{self, Display, Write};

/// A document shown as JSON.
#[derive(Debug, Clone, Copy)]
pub struct JsonDocument<'a>(pub RawDocument<'a>);

/// A value shown as JSON.
#[derive(Debug, Clone, Copy)]
pub struct JsonValue<'a>(pub RawValue<'a>);

/// The document as relaxed extended JSON in one line.
pub fn to_string(document: RawDocument<'_>) -> String {
    JsonDocument(document).to_string()
}

impl Display for JsonDocument<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_document(formatter, self.0)
    }
}

impl Display for JsonValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(formatter, self.0)
    }
}

fn write_document(out: &mut impl Write, document: RawDocument<'_>) -> fmt::Result {
    if document.is_empty() {
        return out.write_str("{}");
    }
    out.write_str("{ ")?;
    for (position, element) in document.iter().enumerate() {
        if position > 0 {
            out.write_str(", ")?;
        }
        write_string(out, element.name())?;
        out.write_str(": ")?;
        write_value(out, element.value())?;
    }
    out.write_str(" }")
}

fn write_array(out: &mut impl Write, array: RawArray<'_>) -> fmt::Result {
    if array.is_empty() {
        return out.write_str("[]");
    }
    out.write_str("[ ")?;
    for (position, value) in array.iter().enumerate() {
        if position > 0 {
            out.write_str(", ")?;
        }
        write_value(out, value)?;
    }
    out.write_str(" ]")
}

fn write_value(out: &mut impl Write, value: RawValue<'_>) -> fmt::Result {
    match value {
        RawValue::Double(number) => write_double(out, number),
        RawValue::String(text) => write_string(out, text),
        RawValue::Document(document) => write_document(out, document),
        RawValue::Array(array) => write_array(out, array),
        RawValue::Binary { subtype, bytes } => {
            out.write_str(r#"{ "$binary": { "base64": ""#)?;
            write_base64(out, bytes)?;
            write!(out, r#"", "subType": "{subtype:02x}" }} }}"#)
        }
        RawValue::Undefined => out.write_str(r#"{ "$undefined": true }"#),
        RawValue::ObjectId(id) => write!(out, r#"{{ "$oid": "{id}" }}"#),
        RawValue::Boolean(flag) => write!(out, "{flag}"),
        // The specification wants the calendar form from 1970 on only.
        RawValue::DateTime(milliseconds) => match DateTime::from_milliseconds(milliseconds) {
            Some(date) if milliseconds >= 0 => write!(out, r#"{{ "$date": "{date}" }}"#),
            _ => write!(out, r#"{{ "$date": {{ "$numberLong": "{milliseconds}" }} }}"#),
        },
        RawValue::Null => out.write_str("null"),
        RawValue::Regex { pattern, options } => {
            out.write_str(r#"{ "$regularExpression": { "pattern": "#)?;
            write_string(out, pattern)?;
            out.write_str(r#", "options": "#)?;
            write_string(out, options)?;
            out.write_str(" } }")
        }
        RawValue::DbPointer { namespace, id } => {
            out.write_str(r#"{ "$dbPointer": { "$ref": "#)?;
            write_string(out, namespace)?;
            write!(out, r#", "$id": {{ "$oid": "{id}" }} }} }}"#)
        }
        RawValue::JavaScript(code) => write_wrapped(out, "$code", code),
        RawValue::Symbol(text) => write_wrapped(out, "$symbol", text),
        RawValue::JavaScriptWithScope { code, scope } => {
            out.write_str(r#"{ "$code": "#)?;
            write_string(out, code)?;
            out.write_str(r#", "$scope": "#)?;
            write_document(out, scope)?;
            out.write_str(" }")
        }
        RawValue::Int32(number) => write!(out, "{number}"),
        RawValue::Timestamp(timestamp) => {
            let (time, increment) = (timestamp.time, timestamp.increment);
            write!(out, r#"{{ "$timestamp": {{ "t": {time}, "i": {increment} }} }}"#)
        }
        RawValue::Int64(number) => write!(out, "{number}"),
        RawValue::Decimal128(number) => write!(out, r#"{{ "$numberDecimal": "{number}" }}"#),
        RawValue::MinKey => out.write_str(r#"{ "$minKey": 1 }"#),
        RawValue::MaxKey => out.write_str(r#"{ "$maxKey": 1 }"#),
    }
}

fn write_wrapped(out: &mut impl Write, key: &str, text: &str) -> fmt::Result {
    write!(out, r#"{{ "{key}": "#)?;
    write_string(out, text)?;
    out.write_str(" }")
}

fn write_double(out: &mut impl Write, number: f64) -> fmt::Result {
    if number.is_finite() {
        // `{:?}` always writes a fraction or an exponent, so that the number reads as a double again.
        return write!(out, "{number:?}");
    }
    let name = match number {
        number if number.is_nan() => "NaN",
        number if number < 0.0 => "-Infinity",
        _ => "Infinity",
    };
    write!(out, r#"{{ "$numberDouble": "{name}" }}"#)
}

fn write_string(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            control if control.is_control() && u32::from(control) < 0x80 => {
                write!(out, "\\u{:04x}", u32::from(control))?
            }
            other => out.write_char(other)?,
        }
    }
    out.write_char('"')
}

fn write_base64(out: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let mut padded = [0u8; 4];
        for (target, source) in padded.iter_mut().skip(1).zip(chunk) {
            *target = *source;
        }
        let bits = u32::from_be_bytes(padded);
        for position in 0..4 {
            let sextet = (bits >> (18 - 6 * position) & 0x3F) as usize;
            let letter = ALPHABET.get(sextet).copied().unwrap_or(b'=');
            out.write_char(if position <= chunk.len() { char::from(letter) } else { '=' })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decimal128, Document, ObjectId, Timestamp, Value};

    #[track_caller]
    fn check(value: impl Into<Value>, expect: &str) {
        let mut document = Document::new();
        document.push("v", value);
        let expect = format!(r#"{{ "v": {expect} }}"#);
        assert_eq!(to_string(document.to_buf().as_raw()), expect);
    }

    #[test]
    fn scalars() {
        check(1, "1");
        check(1.0, "1.0");
        check(-0.0, "-0.0");
        check(1e300, "1e300");
        check(f64::NAN, r#"{ "$numberDouble": "NaN" }"#);
        check(f64::NEG_INFINITY, r#"{ "$numberDouble": "-Infinity" }"#);
        check(i64::MAX, "9223372036854775807");
        check("a\"\\\n\u{1}ä", r#""a\"\\\n\u0001ä""#);
        check(true, "true");
        check(Value::Null, "null");
        check(ObjectId::from_bytes([0xAB; 12]), r#"{ "$oid": "abababababababababababab" }"#);
        check(Timestamp { time: 7, increment: 2 }, r#"{ "$timestamp": { "t": 7, "i": 2 } }"#);
        check(Decimal128::parse("1.50").unwrap(), r#"{ "$numberDecimal": "1.50" }"#);
        check(Value::MinKey, r#"{ "$minKey": 1 }"#);
    }

    #[test]
    fn dates() {
        check(Value::DateTime(0), r#"{ "$date": "1970-01-01T00:00:00Z" }"#);
        check(Value::DateTime(1_709_210_096_007), r#"{ "$date": "2024-02-29T12:34:56.007Z" }"#);
        check(Value::DateTime(-1), r#"{ "$date": { "$numberLong": "-1" } }"#);
    }

    #[test]
    fn binary() {
        for (bytes, base64) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            let expect = format!(r#"{{ "$binary": {{ "base64": "{base64}", "subType": "00" }} }}"#);
            check(Value::binary(0, bytes), &expect);
        }
    }

    #[test]
    fn nested() {
        check(Value::Array(crate::Array::new()), "[]");
        check(Value::Array(vec![1.into(), Document::new().into()].into()), "[ 1, {} ]");
    }
}
