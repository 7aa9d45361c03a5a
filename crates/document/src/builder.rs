//! Writing BSON straight into a byte buffer: no tree in between, nested documents in place.

use crate::{
    Decimal128, Document, DocumentBuf, Element, ElementType, ObjectId, RawArray, RawDocument, RawValue,
    Timestamp, Value,
};

/// Writes one document at the end of a buffer. The length is filled in when the builder is finished or
/// dropped.
#[derive(Debug)]
pub struct DocumentBuilder<'b> {
    buffer: &'b mut Vec<u8>,
    start: usize,
}

impl<'b> DocumentBuilder<'b> {
    /// Begins a document at the end of `buffer`.
    #[inline]
    pub fn new(buffer: &'b mut Vec<u8>) -> Self {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; 4]);
        DocumentBuilder { buffer, start }
    }

    /// Takes up an unfinished document that begins at `start` of `buffer`: its length field and perhaps
    /// elements are there, its terminator is not.
    pub fn resume(buffer: &'b mut Vec<u8>, start: usize) -> Self {
        DocumentBuilder { buffer, start }
    }

    /// Leaves the document unfinished, to be taken up by [`DocumentBuilder::resume`] with the returned start.
    pub fn suspend(self) -> usize {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// Appends a field.
    #[inline]
    pub fn append<'v>(&mut self, name: &str, value: impl Into<RawValue<'v>>) -> &mut Self {
        let value = value.into();
        self.open(value.kind(), name.as_bytes());
        write_raw(self.buffer, value);
        self
    }

    /// Appends a field whose value is a tree.
    pub fn append_value(&mut self, name: &str, value: &Value) -> &mut Self {
        self.open(value.kind(), name.as_bytes());
        write_value(self.buffer, value);
        self
    }

    /// Appends a field as it stands.
    #[inline]
    pub fn append_element(&mut self, element: Element<'_>) -> &mut Self {
        self.buffer.extend_from_slice(element.raw());
        self
    }

    /// Appends a field given as bytes, which must be a value of this type.
    #[inline]
    pub fn append_raw(&mut self, kind: ElementType, name: &[u8], value_bytes: &[u8]) -> &mut Self {
        self.open(kind, name);
        self.buffer.extend_from_slice(value_bytes);
        self
    }

    /// Appends every field of a tree.
    pub fn append_fields(&mut self, document: &Document) -> &mut Self {
        for (name, value) in document.iter() {
            self.append_value(name, value);
        }
        self
    }

    /// Appends every field of a document as it stands.
    pub fn append_all(&mut self, document: RawDocument<'_>) -> &mut Self {
        match document.iter().rest().split_last() {
            Some((_, elements)) => self.append_encoded(elements),
            None => self,
        }
    }

    /// Appends fields given as the bytes that they are in a document.
    #[inline]
    pub fn append_encoded(&mut self, elements: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(elements);
        self
    }

    /// Appends a document that the returned builder writes.
    pub fn start_document(&mut self, name: &str) -> DocumentBuilder<'_> {
        self.open(ElementType::Document, name.as_bytes());
        DocumentBuilder::new(self.buffer)
    }

    /// Appends an array that the returned builder writes.
    pub fn start_array(&mut self, name: &str) -> ArrayBuilder<'_> {
        self.open(ElementType::Array, name.as_bytes());
        ArrayBuilder::new(self.buffer)
    }

    /// The bytes written so far: the length field (not filled in yet) and the elements.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether no field was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 4
    }

    /// Ends the document.
    pub fn finish(self) {}

    #[inline]
    fn open(&mut self, kind: ElementType, name: &[u8]) {
        debug_assert!(!name.contains(&0), "a BSON field name cannot contain a zero byte");
        self.buffer.reserve(name.len() + 16);
        self.buffer.push(kind.code());
        self.buffer.extend_from_slice(name);
        self.buffer.push(0);
    }
}

impl Drop for DocumentBuilder<'_> {
    #[inline]
    fn drop(&mut self) {
        self.buffer.push(0);
        patch_length(self.buffer, self.start);
    }
}

/// Writes one array at the end of a buffer. The length is filled in when the builder is finished or dropped.
#[derive(Debug)]
pub struct ArrayBuilder<'b> {
    buffer: &'b mut Vec<u8>,
    start: usize,
    next_index: u32,
}

impl<'b> ArrayBuilder<'b> {
    /// Begins an array at the end of `buffer`.
    pub fn new(buffer: &'b mut Vec<u8>) -> Self {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; 4]);
        ArrayBuilder { buffer, start, next_index: 0 }
    }

    /// Appends a value.
    pub fn push<'v>(&mut self, value: impl Into<RawValue<'v>>) -> &mut Self {
        let value = value.into();
        self.open(value.kind());
        write_raw(self.buffer, value);
        self
    }

    /// Appends a value given as a tree.
    pub fn push_value(&mut self, value: &Value) -> &mut Self {
        self.open(value.kind());
        write_value(self.buffer, value);
        self
    }

    /// Appends a value given as bytes, which must be a value of this type.
    pub fn push_raw(&mut self, kind: ElementType, value_bytes: &[u8]) -> &mut Self {
        self.open(kind);
        self.buffer.extend_from_slice(value_bytes);
        self
    }

    /// Appends a document that the returned builder writes.
    pub fn start_document(&mut self) -> DocumentBuilder<'_> {
        self.open(ElementType::Document);
        DocumentBuilder::new(self.buffer)
    }

    /// Appends an array that the returned builder writes.
    pub fn start_array(&mut self) -> ArrayBuilder<'_> {
        self.open(ElementType::Array);
        ArrayBuilder::new(self.buffer)
    }

    /// Takes back every element behind the first `count` ones, which took `length` bytes
    /// ([`ArrayBuilder::len`] of that moment).
    pub fn roll_back(&mut self, count: usize, length: usize) {
        if count <= self.count() && length >= 4 {
            self.next_index = count as u32;
            self.buffer.truncate(self.start + length);
        }
    }

    /// The number of elements so far.
    pub const fn count(&self) -> usize {
        self.next_index as usize
    }

    /// The bytes written so far.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether there is no element yet.
    pub const fn is_empty(&self) -> bool {
        self.next_index == 0
    }

    /// Ends the array.
    pub fn finish(self) {}

    fn open(&mut self, kind: ElementType) {
        self.buffer.push(kind.code());
        push_index(self.buffer, self.next_index);
        self.next_index += 1;
        self.buffer.push(0);
    }
}

impl Drop for ArrayBuilder<'_> {
    fn drop(&mut self) {
        self.buffer.push(0);
        patch_length(self.buffer, self.start);
    }
}

/// The name of an array element: its position in decimal digits.
fn push_index(buffer: &mut Vec<u8>, index: u32) {
    let mut digits = [0_u8; 10];
    let mut rest = index;
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        used += 1;
        if rest == 0 {
            break;
        }
    }
    buffer.extend_from_slice(digits.split_at(digits.len() - used).1);
}

#[inline]
fn patch_length(buffer: &mut [u8], start: usize) {
    let length = (buffer.len() - start) as u32;
    let field = buffer.get_mut(start..start + 4).expect("a document begins with its length");
    field.copy_from_slice(&length.to_le_bytes());
}

fn write_string(buffer: &mut Vec<u8>, text: &str) {
    buffer.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
    buffer.extend_from_slice(text.as_bytes());
    buffer.push(0);
}

fn write_cstring(buffer: &mut Vec<u8>, text: &str) {
    buffer.extend_from_slice(text.as_bytes());
    buffer.push(0);
}

/// Writes a value's bytes, without type and name.
#[inline]
pub(crate) fn write_raw(buffer: &mut Vec<u8>, value: RawValue<'_>) {
    match value {
        RawValue::Double(number) => buffer.extend_from_slice(&number.to_le_bytes()),
        RawValue::String(text) | RawValue::JavaScript(text) | RawValue::Symbol(text) => {
            write_string(buffer, text)
        }
        RawValue::Document(document) => buffer.extend_from_slice(document.as_bytes()),
        RawValue::Array(array) => buffer.extend_from_slice(array.as_bytes()),
        RawValue::Binary { subtype, bytes } => write_binary(buffer, subtype, bytes),
        RawValue::ObjectId(id) => buffer.extend_from_slice(id.as_bytes()),
        RawValue::Boolean(flag) => buffer.push(flag.into()),
        RawValue::DateTime(number) | RawValue::Int64(number) => {
            buffer.extend_from_slice(&number.to_le_bytes())
        }
        RawValue::Regex { pattern, options } => {
            write_cstring(buffer, pattern);
            write_cstring(buffer, options);
        }
        RawValue::DbPointer { namespace, id } => {
            write_string(buffer, namespace);
            buffer.extend_from_slice(id.as_bytes());
        }
        RawValue::JavaScriptWithScope { code, scope } => {
            let start = buffer.len();
            buffer.extend_from_slice(&[0; 4]);
            write_string(buffer, code);
            buffer.extend_from_slice(scope.as_bytes());
            patch_length(buffer, start);
        }
        RawValue::Int32(number) => buffer.extend_from_slice(&number.to_le_bytes()),
        RawValue::Timestamp(timestamp) => buffer.extend_from_slice(&timestamp.as_u64().to_le_bytes()),
        RawValue::Decimal128(number) => buffer.extend_from_slice(&number.bytes()),
        RawValue::Undefined | RawValue::Null | RawValue::MinKey | RawValue::MaxKey => {}
    }
}

fn write_binary(buffer: &mut Vec<u8>, subtype: u8, bytes: &[u8]) {
    buffer.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    buffer.push(subtype);
    buffer.extend_from_slice(bytes);
}

/// Writes a value's bytes, without type and name.
pub(crate) fn write_value(buffer: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Document(document) => {
            DocumentBuilder::new(buffer).append_fields(document);
        }
        Value::Array(values) => {
            let mut array = ArrayBuilder::new(buffer);
            for value in values {
                array.push_value(value);
            }
        }
        Value::JavaScriptWithScope(scoped) => {
            let scope = scoped.scope.to_buf();
            write_raw(buffer, RawValue::JavaScriptWithScope { code: &scoped.code, scope: scope.as_raw() });
        }
        scalar => {
            if let Some(raw) = scalar.as_raw_scalar() {
                write_raw(buffer, raw);
            }
        }
    }
}

impl Value {
    /// The borrowed form of a value that is not a tree; `None` for documents, arrays and code with scope.
    #[inline]
    pub fn as_raw_scalar(&self) -> Option<RawValue<'_>> {
        Some(match self {
            Value::Double(number) => RawValue::Double(*number),
            Value::String(text) => RawValue::String(text),
            Value::Binary(binary) => RawValue::Binary { subtype: binary.subtype, bytes: &binary.bytes },
            Value::Undefined => RawValue::Undefined,
            Value::ObjectId(id) => RawValue::ObjectId(*id),
            Value::Boolean(flag) => RawValue::Boolean(*flag),
            Value::DateTime(milliseconds) => RawValue::DateTime(*milliseconds),
            Value::Null => RawValue::Null,
            Value::Regex(regex) => RawValue::Regex { pattern: &regex.pattern, options: &regex.options },
            Value::DbPointer(pointer) => {
                RawValue::DbPointer { namespace: &pointer.namespace, id: pointer.id }
            }
            Value::JavaScript(code) => RawValue::JavaScript(code),
            Value::Symbol(text) => RawValue::Symbol(text),
            Value::Int32(number) => RawValue::Int32(*number),
            Value::Timestamp(timestamp) => RawValue::Timestamp(*timestamp),
            Value::Int64(number) => RawValue::Int64(*number),
            Value::Decimal128(number) => RawValue::Decimal128(*number),
            Value::MinKey => RawValue::MinKey,
            Value::MaxKey => RawValue::MaxKey,
            Value::Document(_) | Value::Array(_) | Value::JavaScriptWithScope(_) => return None,
        })
    }

    /// The value's bytes, without type and name, appended to `buffer`. With [`RawValue::decode`] they can be
    /// read in place.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        write_value(buffer, self);
    }

    /// Calls `read` with the borrowed form; trees are written into a scratch buffer first.
    pub fn with_raw<R>(&self, read: impl FnOnce(RawValue<'_>) -> R) -> R {
        if let Some(raw) = self.as_raw_scalar() {
            return read(raw);
        }
        let mut scratch = Vec::new();
        write_value(&mut scratch, self);
        read(RawValue::decode(self.kind(), &scratch).expect("a tree that was just written can be read"))
    }
}

macro_rules! raw_from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl<'a> From<$source> for RawValue<'a> {
            #[inline]
            fn from(value: $source) -> Self {
                RawValue::$variant(value.into())
            }
        })*
    };
}
raw_from! {
    i32 => Int32, u16 => Int32, i64 => Int64, u32 => Int64, f64 => Double, bool => Boolean, &'a str => String,
    ObjectId => ObjectId, Timestamp => Timestamp, Decimal128 => Decimal128, RawDocument<'a> => Document,
    RawArray<'a> => Array,
}

impl<'a> From<&'a String> for RawValue<'a> {
    fn from(text: &'a String) -> Self {
        RawValue::String(text)
    }
}

impl<'a> From<&'a DocumentBuf> for RawValue<'a> {
    fn from(document: &'a DocumentBuf) -> Self {
        RawValue::Document(document.as_raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn every_type_round_trips() {
        let scope = doc! { "x": 1 };
        let document = doc! {
            "double": 1.5, "string": "text\0with zero", "document": { "a": { "b": 1 } },
            "array": [1, "two", [3], { "four": 4 }], "binary": (Value::binary(0, vec![1, 2, 3])),
            "undefined": (Value::Undefined), "id": (ObjectId::new()), "bool": true,
            "date": (Value::DateTime(-1)), "null": (Value::Null), "regex": (Value::regex("^a", "i")),
            "pointer": (Value::db_pointer("a.b", ObjectId::new())),
            "code": (Value::JavaScript("f()".into())), "symbol": (Value::Symbol("s".into())),
            "scoped": (Value::code_with_scope("g()", scope)), "int": 7, "long": 8_i64,
            "timestamp": (Timestamp { time: 1, increment: 2 }), "decimal": (Decimal128::from_bytes([7; 16])),
            "min": (Value::MinKey), "max": (Value::MaxKey),
        };
        let bytes = document.to_buf();
        let raw = RawDocument::parse(bytes.as_bytes()).expect("a built document is valid");
        assert_eq!(raw.to_document(), document);
        let mut copy = Vec::new();
        let mut builder = DocumentBuilder::new(&mut copy);
        for element in raw {
            builder.append(element.name(), element.value());
        }
        builder.finish();
        assert_eq!(copy, bytes.as_bytes(), "appending each borrowed value gives the same bytes");
    }

    #[test]
    fn nested_builders_write_in_place() {
        let mut bytes = b"before".to_vec();
        let mut outer = DocumentBuilder::new(&mut bytes);
        outer.append("a", 1);
        let mut array = outer.start_array("list");
        for number in 0..12 {
            array.push(number);
        }
        array.start_document().append("deep", "x");
        array.finish();
        outer.append("z", false).append_all(doc! { "tail": 1 }.to_buf().as_raw());
        outer.finish();
        let raw = RawDocument::parse(&bytes[6..]).expect("a built document is valid");
        let expect = doc! {
            "a": 1, "list": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, { "deep": "x" }], "z": false, "tail": 1
        };
        assert_eq!(raw.to_document(), expect);
    }

    #[test]
    fn suspended_document_is_taken_up_again() {
        let mut bytes = Vec::new();
        let mut builder = DocumentBuilder::new(&mut bytes);
        builder.append("a", 1);
        let start = builder.suspend();
        DocumentBuilder::resume(&mut bytes, start).append("b", 2).append("c", 3);
        assert_eq!(RawDocument::parse(&bytes).expect("valid").to_document(), doc! { "a": 1, "b": 2, "c": 3 });
    }
}
