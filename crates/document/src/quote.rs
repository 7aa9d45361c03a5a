//! Values as error messages quote them.
//!
//! There are three forms, as in MongoDB: that of stored documents (`{ a: 1.0, b: "x" }`), that of what
//! expressions yield (`{a: 1, b: "x"}`), and that of numbers whose type matters (`(NumberInt)42`). None of
//! them can be read back; logs use [`crate::json`].

use std::fmt::{self, Display, Write};

use crate::date::DateTime;
use crate::{Document, RawArray, RawDocument, RawValue, Value};

impl RawDocument<'_> {
    /// The document as messages quote it: `{ a: 1, b: "x" }`. Long strings are cut.
    pub fn quoted(self) -> String {
        RawValue::Document(self).quoted()
    }
}

impl RawValue<'_> {
    /// The value as messages quote it within a document.
    pub fn quoted(self) -> String {
        Quoted { value: self, form: Form::Stored }.to_string()
    }
}

impl Document {
    /// As [`RawDocument::quoted`].
    pub fn quoted(&self) -> String {
        self.to_buf().as_raw().quoted()
    }
}

impl Value {
    /// As [`RawValue::quoted`].
    pub fn quoted(&self) -> String {
        self.with_raw(|value| value.quoted())
    }
}

/// The field as messages quote it: `name: value`.
pub fn element(name: &str, value: RawValue<'_>) -> String {
    format!("{name}: {}", Quoted { value, form: Form::Stored })
}

/// What an expression yielded: `{a: 1, b: [2, 3]}`, an object id without its type's name, a date in calendar
/// form, `MISSING`.
pub fn operand(value: Option<RawValue<'_>>) -> String {
    match value {
        Some(value) => Quoted { value, form: Form::Computed }.to_string(),
        None => "MISSING".to_owned(),
    }
}

/// A number with its type, `(NumberLong)7`; anything else as [`RawValue::quoted`].
pub fn number(number: RawValue<'_>) -> String {
    let name = match number {
        RawValue::Int32(_) => "NumberInt",
        RawValue::Int64(_) => "NumberLong",
        RawValue::Double(_) => "NumberDouble",
        RawValue::Decimal128(_) => "NumberDecimal",
        other => return other.quoted(),
    };
    format!("({name}){}", Quoted { value: number, form: Form::Computed })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Stored,
    Computed,
}

struct Quoted<'a> {
    value: RawValue<'a>,
    form: Form,
}

/// Stored strings from this length on are cut to [`CUT_STRING`] bytes.
const LONG_STRING: usize = 160;
const CUT_STRING: usize = 150;
/// Stored code and binary data beyond this length are cut to [`CUT_BYTES`] bytes.
const LONG_BYTES: usize = 80;
const CUT_BYTES: usize = 70;

impl Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            Form::Stored => stored(out, self.value),
            Form::Computed => computed(out, self.value),
        }
    }
}

fn stored(out: &mut impl Write, value: RawValue<'_>) -> fmt::Result {
    match value {
        RawValue::Double(number) => {
            let text = general(number, 16);
            let suffix = if text.contains('.') { "" } else { ".0" };
            write!(out, "{text}{suffix}")
        }
        RawValue::String(text) | RawValue::Symbol(text) if text.len() >= LONG_STRING => {
            write!(out, "\"{}...\"", prefix(text, CUT_STRING))
        }
        RawValue::Symbol(text) => write!(out, "\"{text}\""),
        RawValue::Document(document) => fields(out, document, Form::Stored),
        RawValue::Array(array) => items(out, array, Form::Stored),
        RawValue::Binary { subtype: 4, bytes } if bytes.len() == 16 => uuid(out, bytes),
        RawValue::Binary { subtype, bytes } => {
            write!(out, "BinData({subtype}, ")?;
            let (shown, end) = match bytes.get(..CUT_BYTES) {
                Some(cut) if bytes.len() > LONG_BYTES => (cut, "...)"),
                _ => (bytes, ")"),
            };
            hexadecimal(out, shown)?;
            out.write_str(end)
        }
        RawValue::ObjectId(id) => write!(out, "ObjectId('{id}')"),
        RawValue::DateTime(milliseconds) => write!(out, "new Date({milliseconds})"),
        RawValue::DbPointer { namespace, id } => write!(out, "DBRef('{namespace}',{id})"),
        RawValue::JavaScript(code) if code.len() >= LONG_BYTES => {
            write!(out, "{}...", prefix(code, CUT_BYTES))
        }
        RawValue::JavaScript(code) => out.write_str(code),
        RawValue::JavaScriptWithScope { code, scope } => {
            write!(out, "CodeWScope( {code}, ")?;
            fields(out, scope, Form::Stored)?;
            out.write_char(')')
        }
        other => scalar(out, other),
    }
}

fn computed(out: &mut impl Write, value: RawValue<'_>) -> fmt::Result {
    match value {
        RawValue::Double(number) => out.write_str(&general(number, 6)),
        RawValue::Symbol(text) => write!(out, "Symbol(\"{text}\")"),
        RawValue::Document(document) => fields(out, document, Form::Computed),
        RawValue::Array(array) => items(out, array, Form::Computed),
        RawValue::Binary { subtype, bytes } => {
            write!(out, "BinData({subtype}, \"")?;
            hexadecimal(out, bytes)?;
            out.write_str("\")")
        }
        RawValue::ObjectId(id) => write!(out, "{id}"),
        RawValue::DateTime(milliseconds) => match DateTime::from_milliseconds(milliseconds) {
            Some(date) => write!(out, "{date:.3}"),
            None => write!(out, "new Date({milliseconds})"),
        },
        RawValue::DbPointer { namespace, id } => write!(out, "DBRef(\"{namespace}\", {id})"),
        RawValue::JavaScript(code) => write!(out, "Code(\"{code}\")"),
        RawValue::JavaScriptWithScope { code, scope } => {
            write!(out, "CodeWScope(\"{code}\", ")?;
            fields(out, scope, Form::Stored)?;
            out.write_char(')')
        }
        other => scalar(out, other),
    }
}

/// What both forms write alike.
fn scalar(out: &mut impl Write, value: RawValue<'_>) -> fmt::Result {
    match value {
        RawValue::String(text) => write!(out, "\"{text}\""),
        RawValue::Boolean(flag) => write!(out, "{flag}"),
        RawValue::Null => out.write_str("null"),
        RawValue::Regex { pattern, options } => write!(out, "/{pattern}/{options}"),
        RawValue::Int32(number) => write!(out, "{number}"),
        RawValue::Int64(number) => write!(out, "{number}"),
        RawValue::Decimal128(number) => write!(out, "{number}"),
        RawValue::Timestamp(timestamp) => {
            write!(out, "Timestamp({}, {})", timestamp.time, timestamp.increment)
        }
        RawValue::MinKey => out.write_str("MinKey"),
        RawValue::MaxKey => out.write_str("MaxKey"),
        _ => out.write_str("undefined"),
    }
}

fn fields(out: &mut impl Write, document: RawDocument<'_>, form: Form) -> fmt::Result {
    if document.is_empty() {
        return out.write_str("{}");
    }
    let (open, close) = if form == Form::Stored { ("{ ", " }") } else { ("{", "}") };
    for (position, element) in document.iter().enumerate() {
        let before = if position == 0 { open } else { ", " };
        write!(out, "{before}{}: {}", element.name(), Quoted { value: element.value(), form })?;
    }
    out.write_str(close)
}

fn items(out: &mut impl Write, array: RawArray<'_>, form: Form) -> fmt::Result {
    if array.is_empty() {
        return out.write_str("[]");
    }
    let (open, close) = if form == Form::Stored { ("[ ", " ]") } else { ("[", "]") };
    for (position, value) in array.iter().enumerate() {
        let before = if position == 0 { open } else { ", " };
        write!(out, "{before}{}", Quoted { value, form })?;
    }
    out.write_str(close)
}

fn uuid(out: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    out.write_str("UUID(\"")?;
    for (position, byte) in bytes.iter().enumerate() {
        let hyphen = if matches!(position, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(out, "{hyphen}{byte:02x}")?;
    }
    out.write_str("\")")
}

fn hexadecimal(out: &mut impl Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}"))
}

/// At most `length` bytes of the text, cut between characters.
fn prefix(text: &str, length: usize) -> &str {
    let end = (0..=length).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or(text)
}

/// The number as C's `%.{digits}g` prints it.
fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("a number with an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let places = digits as i32 - 1 - exponent;
    if exponent < -4 || places < 0 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs());
    }
    without_zeros(&format!("{number:.*}", places as usize)).to_owned()
}

/// The digits without zeros at the end of the fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decimal128, ObjectId, Timestamp, doc};

    #[track_caller]
    fn check(input: impl Into<Value>, as_stored: &str, as_computed: &str) {
        let input = input.into();
        assert_eq!(input.quoted(), as_stored, "stored form");
        assert_eq!(input.with_raw(|raw| operand(Some(raw))), as_computed, "computed form");
    }

    #[test]
    fn documents_and_arrays() {
        check(Document::new(), "{}", "{}");
        check(RawValue::Array(RawArray::EMPTY).to_value(), "[]", "[]");
        check(doc! { "a": 1, "b": "x\"y" }, "{ a: 1, b: \"x\"y\" }", "{a: 1, b: \"x\"y\"}");
        check(doc! { "a": { "b": [1, 2] } }, "{ a: { b: [ 1, 2 ] } }", "{a: {b: [1, 2]}}");
        assert_eq!(operand(None), "MISSING");
        assert_eq!(element("n", RawValue::Double(-1.0)), "n: -1.0");
    }

    #[test]
    fn doubles_as_c_prints_them() {
        check(1.0, "1.0", "1");
        check(2.5, "2.5", "2.5");
        check(-0.0, "-0.0", "-0");
        check(0.1 + 0.2, "0.3", "0.3");
        check(1_099_511_627_776.0, "1099511627776.0", "1.09951e+12");
        check(1e300, "1e+300.0", "1e+300");
        check(1.5e-7, "1.5e-07", "1.5e-07");
        check(0.0001, "0.0001", "0.0001");
        check(f64::NAN, "nan.0", "nan");
        check(f64::NEG_INFINITY, "-inf.0", "-inf");
    }

    #[test]
    fn other_scalars() {
        let id = ObjectId::from_bytes([0xAB; 12]);
        check(id, "ObjectId('abababababababababababab')", "abababababababababababab");
        check(Value::DateTime(1_709_210_096_000), "new Date(1709210096000)", "2024-02-29T12:34:56.000Z");
        check(Value::DateTime(-1), "new Date(-1)", "1969-12-31T23:59:59.999Z");
        check(Timestamp { time: 7, increment: 2 }, "Timestamp(7, 2)", "Timestamp(7, 2)");
        check(Decimal128::parse("1.50").unwrap(), "1.50", "1.50");
        check(Value::Null, "null", "null");
        check(Value::MinKey, "MinKey", "MinKey");
        check(RawValue::Regex { pattern: "a", options: "i" }.to_value(), "/a/i", "/a/i");
        let bytes = RawValue::Binary { subtype: 0, bytes: &[1, 0xAF] };
        check(bytes.to_value(), "BinData(0, 01AF)", "BinData(0, \"01AF\")");
        let bytes: Vec<u8> = (0..16).collect();
        let uuid = RawValue::Binary { subtype: 4, bytes: &bytes };
        assert_eq!(uuid.quoted(), "UUID(\"00010203-0405-0607-0809-0a0b0c0d0e0f\")");
        check(Value::JavaScript("f()".into()), "f()", "Code(\"f()\")");
        check(Value::Symbol("s".into()), "\"s\"", "Symbol(\"s\")");
    }

    #[test]
    fn long_stored_values_are_cut() {
        let long = "ä".repeat(80);
        assert_eq!(RawValue::String(&long).quoted(), format!("\"{}...\"", "ä".repeat(75)));
        let short = "a".repeat(159);
        assert_eq!(RawValue::String(&short).quoted(), format!("\"{short}\""));
        let bytes = [7; 81];
        let cut = RawValue::Binary { subtype: 0, bytes: &bytes }.quoted();
        assert_eq!(cut, format!("BinData(0, {}...)", "07".repeat(70)));
    }

    #[test]
    fn numbers_with_their_types() {
        assert_eq!(number(RawValue::Int32(42)), "(NumberInt)42");
        assert_eq!(number(RawValue::Int64(-1)), "(NumberLong)-1");
        assert_eq!(number(RawValue::Double(1.5)), "(NumberDouble)1.5");
        assert_eq!(number(RawValue::String("x")), "\"x\"");
    }
}
