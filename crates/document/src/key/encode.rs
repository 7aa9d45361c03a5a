//! Values to keys.

use super::{SortOrder, number, tag, type_bits};
use crate::compare::canonical_type;
use crate::number::Number;
use crate::{Document, ElementType, RawDocument, RawValue, Value};

/// Appends the key of one value, ascending and without type bits.
#[inline]
pub fn encode_value(key: &mut Vec<u8>, value: RawValue<'_>) {
    Encoder { key, types: None }.value(value);
}

/// Appends the key of one owned value, ascending and without type bits.
#[inline]
pub fn encode_owned(key: &mut Vec<u8>, value: &Value) {
    Encoder { key, types: None }.owned(value);
}

/// Builds keys of several fields, and their type bits. Meant to be kept and [cleared](KeyBuilder::clear): its
/// buffers stay.
#[derive(Debug, Clone, Default)]
pub struct KeyBuilder {
    key: Vec<u8>,
    types: Vec<u8>,
}

impl KeyBuilder {
    /// An empty key.
    pub const fn new() -> Self {
        KeyBuilder { key: Vec::new(), types: Vec::new() }
    }

    /// A key that begins with these bytes, which are not a value.
    pub fn with_prefix(prefix: &[u8]) -> Self {
        KeyBuilder { key: prefix.to_vec(), types: Vec::new() }
    }

    /// Appends a field.
    #[inline]
    pub fn append(&mut self, value: RawValue<'_>, direction: SortOrder) {
        let start = self.key.len();
        Encoder { key: &mut self.key, types: Some(&mut self.types) }.value(value);
        self.direct(start, direction);
    }

    /// Appends a field.
    pub fn append_owned(&mut self, value: &Value, direction: SortOrder) {
        let start = self.key.len();
        Encoder { key: &mut self.key, types: Some(&mut self.types) }.owned(value);
        self.direct(start, direction);
    }

    /// Appends bytes that are a key already, or no value at all.
    pub fn append_bytes(&mut self, bytes: &[u8]) {
        self.key.extend_from_slice(bytes);
    }

    #[inline]
    fn direct(&mut self, start: usize, direction: SortOrder) {
        if direction == SortOrder::Descending {
            self.key.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }

    /// The key so far.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The type bits so far; empty when every value has the usual type.
    pub fn type_bits(&self) -> &[u8] {
        type_bits::trimmed(&self.types)
    }

    /// Forgets everything but the first `length` bytes, which were no values.
    pub fn truncate(&mut self, length: usize) {
        self.key.truncate(length);
        self.types.clear();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Key and type bits.
    pub fn into_parts(mut self) -> (Vec<u8>, Vec<u8>) {
        self.types.truncate(type_bits::trimmed(&self.types).len());
        (self.key, self.types)
    }
}

struct Encoder<'k> {
    key: &'k mut Vec<u8>,
    types: Option<&'k mut Vec<u8>>,
}

impl Encoder<'_> {
    #[inline]
    fn value(&mut self, value: RawValue<'_>) {
        match value {
            RawValue::ObjectId(id) => self.tagged(tag::OBJECT_ID, id.bytes()),
            RawValue::String(content) => self.string(content, type_bits::STRING),
            RawValue::Int32(integer) => self.number(Number::Int32(integer)),
            RawValue::Int64(integer) => self.number(Number::Int64(integer)),
            RawValue::Double(double) => self.number(Number::Double(double)),
            RawValue::Document(document) => self.document(document),
            RawValue::Array(array) => {
                self.key.push(tag::ARRAY);
                array.iter().for_each(|value| self.value(value));
                self.key.push(tag::END);
            }
            RawValue::JavaScriptWithScope { code, scope } => {
                self.key.push(tag::JAVASCRIPT_WITH_SCOPE);
                text(self.key, code.as_bytes());
                self.document(scope);
            }
            other => self.rare(other),
        }
    }

    fn owned(&mut self, value: &Value) {
        match value {
            Value::Document(document) => self.owned_document(document),
            Value::Array(values) => {
                self.key.push(tag::ARRAY);
                values.iter().for_each(|value| self.owned(value));
                self.key.push(tag::END);
            }
            Value::JavaScriptWithScope(scoped) => {
                self.key.push(tag::JAVASCRIPT_WITH_SCOPE);
                text(self.key, scoped.code.as_bytes());
                self.owned_document(&scoped.scope);
            }
            other => {
                if let Some(scalar) = other.as_raw_scalar() {
                    self.value(scalar);
                }
            }
        }
    }

    fn rare(&mut self, value: RawValue<'_>) {
        match value {
            RawValue::MinKey => self.key.push(tag::MIN_KEY),
            RawValue::Undefined => self.key.push(tag::UNDEFINED),
            RawValue::Null => self.key.push(tag::NULL),
            RawValue::Decimal128(decimal) => self.number(Number::Decimal(decimal)),
            RawValue::Symbol(content) => self.string(content, type_bits::SYMBOL),
            RawValue::Binary { subtype, bytes } => {
                self.key.push(tag::BINARY);
                length(self.key, bytes.len());
                self.key.push(subtype);
                self.key.extend_from_slice(bytes);
            }
            RawValue::Boolean(flag) => self.key.push(if flag { tag::TRUE } else { tag::FALSE }),
            RawValue::DateTime(milliseconds) => {
                self.tagged(tag::DATE_TIME, (milliseconds as u64 ^ 1 << 63).to_be_bytes());
            }
            RawValue::Timestamp(timestamp) => self.tagged(tag::TIMESTAMP, timestamp.as_u64().to_be_bytes()),
            RawValue::Regex { pattern, options } => {
                self.key.push(tag::REGEX);
                text(self.key, pattern.as_bytes());
                text(self.key, options.as_bytes());
            }
            RawValue::DbPointer { namespace, id } => {
                self.key.push(tag::DB_POINTER);
                length(self.key, namespace.len());
                self.key.extend_from_slice(namespace.as_bytes());
                self.key.extend_from_slice(id.as_bytes());
            }
            RawValue::JavaScript(code) => {
                self.key.push(tag::JAVASCRIPT);
                text(self.key, code.as_bytes());
            }
            RawValue::MaxKey => self.key.push(tag::MAX_KEY),
            // The others are in `value`.
            _ => {}
        }
    }

    #[inline]
    fn tagged<const N: usize>(&mut self, tag: u8, bytes: [u8; N]) {
        self.key.reserve(N + 1);
        self.key.push(tag);
        self.key.extend_from_slice(&bytes);
    }

    #[inline]
    fn number(&mut self, number: Number) {
        if let Some(types) = &mut self.types {
            number::append_type(types, number);
        }
        number::append(self.key, number);
    }

    #[inline]
    fn string(&mut self, content: &str, code: u8) {
        if let Some(types) = &mut self.types {
            types.push(code);
        }
        self.key.reserve(content.len() + 2);
        self.key.push(tag::STRING);
        text(self.key, content.as_bytes());
    }

    fn document(&mut self, document: RawDocument<'_>) {
        self.key.push(tag::DOCUMENT);
        for element in document.iter() {
            self.field(element.kind(), element.name_bytes());
            self.value(element.value());
        }
        self.key.push(tag::END);
    }

    fn owned_document(&mut self, document: &Document) {
        self.key.push(tag::DOCUMENT);
        for (name, value) in document.iter() {
            self.field(value.kind(), name.as_bytes());
            self.owned(value);
        }
        self.key.push(tag::END);
    }

    /// Documents compare by class before name, and by name before value.
    fn field(&mut self, kind: ElementType, name: &[u8]) {
        self.key.push(canonical_type(kind) + 1);
        text(self.key, name);
    }
}

/// A text of any bytes with its end: a zero byte, which the text itself then does not contain.
#[inline]
fn text(key: &mut Vec<u8>, content: &[u8]) {
    if memchr::memchr2(0, tag::ESCAPE, content).is_none() {
        key.extend_from_slice(content);
    } else {
        for &byte in content {
            match byte {
                0 => key.extend_from_slice(&[tag::ESCAPE, tag::ESCAPED_ZERO]),
                tag::ESCAPE => key.extend_from_slice(&[tag::ESCAPE, tag::ESCAPED_ESCAPE]),
                other => key.push(other),
            }
        }
    }
    key.push(tag::END);
}

/// A length, the shorter ones in one byte; lengths order as numbers.
fn length(key: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < tag::LONG_LENGTH => key.push(short),
        _ => {
            key.push(tag::LONG_LENGTH);
            key.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        }
    }
}
