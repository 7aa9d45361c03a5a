//! Owned values and documents: trees that are built, changed and printed. Stored and transmitted documents
//! stay bytes.

use crate::builder::DocumentBuilder;
use crate::shared::{Array, Measure, Shared};
use crate::validate::DocumentError;
use crate::{Decimal128, ElementType, ObjectId, RawDocument, Timestamp};

/// A BSON value, owned. Arrays and documents are shared by their clones until one of them is changed; what is
/// rare and large is boxed, so that an item of an array takes no more than a string's three words.
#[derive(Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub enum Value {
    Double(f64),
    String(String),
    Document(Document),
    Array(Array),
    Binary(Box<Binary>),
    Undefined,
    ObjectId(ObjectId),
    Boolean(bool),
    /// Milliseconds since 1970, UTC.
    DateTime(i64),
    #[default]
    Null,
    Regex(Box<Regex>),
    DbPointer(Box<DbPointer>),
    JavaScript(Box<str>),
    Symbol(Box<str>),
    JavaScriptWithScope(Box<CodeWithScope>),
    Int32(i32),
    Timestamp(Timestamp),
    Int64(i64),
    Decimal128(Decimal128),
    MinKey,
    MaxKey,
}

// Expressions build arrays of millions of values: each word here is paid for every item.
const _: () = assert!(size_of::<Value>() == 24 && size_of::<Option<Value>>() == 24);
const _: () = assert!(size_of::<Array>() == 8 && size_of::<Document>() == 8);

/// Bytes with a subtype that says what they are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub struct Binary {
    pub subtype: u8,
    pub bytes: Vec<u8>,
}

/// A regular expression as text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub struct Regex {
    pub pattern: String,
    pub options: String,
}

/// The deprecated reference to a document.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub struct DbPointer {
    pub namespace: String,
    pub id: ObjectId,
}

/// The deprecated JavaScript code with the variables it sees.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub struct CodeWithScope {
    pub code: String,
    pub scope: Document,
}

impl Value {
    /// Binary data.
    pub fn binary(subtype: u8, bytes: impl Into<Vec<u8>>) -> Self {
        Value::Binary(Box::new(Binary { subtype, bytes: bytes.into() }))
    }

    /// A regular expression.
    pub fn regex(pattern: impl Into<String>, options: impl Into<String>) -> Self {
        Value::Regex(Box::new(Regex { pattern: pattern.into(), options: options.into() }))
    }

    /// A reference to a document.
    pub fn db_pointer(namespace: impl Into<String>, id: ObjectId) -> Self {
        Value::DbPointer(Box::new(DbPointer { namespace: namespace.into(), id }))
    }

    /// Code with the variables it sees.
    pub fn code_with_scope(code: impl Into<String>, scope: Document) -> Self {
        Value::JavaScriptWithScope(Box::new(CodeWithScope { code: code.into(), scope }))
    }

    /// The value's type.
    pub const fn kind(&self) -> ElementType {
        match self {
            Value::Double(_) => ElementType::Double,
            Value::String(_) => ElementType::String,
            Value::Document(_) => ElementType::Document,
            Value::Array(_) => ElementType::Array,
            Value::Binary(_) => ElementType::Binary,
            Value::Undefined => ElementType::Undefined,
            Value::ObjectId(_) => ElementType::ObjectId,
            Value::Boolean(_) => ElementType::Boolean,
            Value::DateTime(_) => ElementType::DateTime,
            Value::Null => ElementType::Null,
            Value::Regex(_) => ElementType::Regex,
            Value::DbPointer(_) => ElementType::DbPointer,
            Value::JavaScript(_) => ElementType::JavaScript,
            Value::Symbol(_) => ElementType::Symbol,
            Value::JavaScriptWithScope(_) => ElementType::JavaScriptWithScope,
            Value::Int32(_) => ElementType::Int32,
            Value::Timestamp(_) => ElementType::Timestamp,
            Value::Int64(_) => ElementType::Int64,
            Value::Decimal128(_) => ElementType::Decimal128,
            Value::MinKey => ElementType::MinKey,
            Value::MaxKey => ElementType::MaxKey,
        }
    }

    /// The value with all it holds. Its bytes are at least those it takes as BSON, but for the names of an
    /// array's elements.
    pub fn measure(&self) -> Measure {
        let held = match self {
            Value::String(text) => Measure::scalar(text.len()),
            Value::Symbol(text) | Value::JavaScript(text) => Measure::scalar(text.len()),
            Value::Array(values) => values.measure(),
            Value::Document(document) => document.measure(),
            Value::Binary(binary) => Measure::scalar(size_of::<Binary>() + binary.bytes.len()),
            Value::Regex(regex) => {
                Measure::scalar(size_of::<Regex>() + regex.pattern.len() + regex.options.len())
            }
            Value::DbPointer(pointer) => Measure::scalar(size_of::<DbPointer>() + pointer.namespace.len()),
            Value::JavaScriptWithScope(scoped) => {
                scoped.scope.measure().with(Measure::scalar(size_of::<CodeWithScope>() + scoped.code.len()))
            }
            _ => Measure::default(),
        };
        Measure { bytes: held.bytes.saturating_add(size_of::<Value>()), depth: held.depth }
    }

    /// The bytes of [`Value::measure`].
    pub fn memory_bytes(&self) -> usize {
        self.measure().bytes
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The document.
    pub const fn as_document(&self) -> Option<&Document> {
        match self {
            Value::Document(document) => Some(document),
            _ => None,
        }
    }

    /// The array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(values) => Some(values),
            _ => None,
        }
    }

    /// The boolean.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Boolean(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Whether this is one of the four numeric types.
    pub const fn is_number(&self) -> bool {
        self.kind().is_number()
    }

    /// Whether this is `null` or the deprecated `undefined`.
    pub const fn is_nullish(&self) -> bool {
        matches!(self, Value::Null | Value::Undefined)
    }
}

/// An owned document: named values in order. Names may repeat, as in BSON; `get` finds the first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    fields: Shared<(String, Value)>,
}

impl Document {
    /// A document without fields.
    pub const fn new() -> Self {
        Document { fields: Shared::new() }
    }

    /// Appends a field without looking for one of the same name.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.fields.as_mut_vec().push((name.into(), value.into()));
    }

    /// Sets a field: replaces the value of the first of this name, or appends. Returns the value replaced.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Value>) -> Option<Value> {
        let (name, value) = (name.into(), value.into());
        let fields = self.fields.as_mut_vec();
        match fields.iter_mut().find(|(existing, _)| *existing == name) {
            Some((_, existing)) => Some(std::mem::replace(existing, value)),
            None => {
                fields.push((name, value));
                None
            }
        }
    }

    /// The first field of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.as_slice().iter().find(|(existing, _)| existing == name).map(|(_, value)| value)
    }

    /// The first field of this name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.fields.as_mut_slice().iter_mut().find(|(existing, _)| existing == name).map(|(_, value)| value)
    }

    /// The value of the field at this position, to be changed.
    pub fn value_at_mut(&mut self, position: usize) -> Option<&mut Value> {
        self.fields.as_mut_slice().get_mut(position).map(|(_, value)| value)
    }

    /// Removes the first field of this name, keeping the order of the others.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let position = self.fields.as_slice().iter().position(|(existing, _)| existing == name)?;
        Some(self.fields.as_mut_vec().remove(position).1)
    }

    /// Whether a field of this name exists.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The fields in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Value)> + ExactSizeIterator {
        self.fields.as_slice().iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The fields in order, their values to be changed.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&str, &mut Value)> + ExactSizeIterator {
        self.fields.as_mut_slice().iter_mut().map(|(name, value)| (name.as_str(), value))
    }

    /// The first field.
    pub fn first(&self) -> Option<(&str, &Value)> {
        self.iter().next()
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.fields.as_slice().len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.as_slice().is_empty()
    }

    /// The fields with all they hold.
    pub fn measure(&self) -> Measure {
        self.fields
            .measure(|(name, value)| value.measure().with(Measure::scalar(size_of::<String>() + name.len())))
    }

    /// The document as bytes.
    pub fn to_buf(&self) -> DocumentBuf {
        let mut bytes = Vec::with_capacity(64);
        DocumentBuilder::new(&mut bytes).append_fields(self);
        DocumentBuf::trusted(bytes)
    }
}

impl From<Vec<(String, Value)>> for Document {
    fn from(fields: Vec<(String, Value)>) -> Self {
        Document { fields: fields.into() }
    }
}

impl<N: Into<String>, V: Into<Value>> FromIterator<(N, V)> for Document {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect::<Vec<_>>().into()
    }
}

impl<N: Into<String>, V: Into<Value>> Extend<(N, V)> for Document {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, fields: I) {
        self.fields.as_mut_vec().extend(fields.into_iter().map(|(name, value)| (name.into(), value.into())));
    }
}

impl IntoIterator for Document {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.fields.into_vec().into_iter()
    }
}

/// The owned bytes of one document.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DocumentBuf {
    bytes: Vec<u8>,
}

impl DocumentBuf {
    /// Checks `bytes` as [`RawDocument::parse`] does and keeps them.
    ///
    /// # Errors
    /// The first defect and where it lies.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, DocumentError> {
        RawDocument::parse(&bytes)?;
        Ok(DocumentBuf { bytes })
    }

    /// Keeps bytes that were checked before.
    pub const fn trusted(bytes: Vec<u8>) -> Self {
        DocumentBuf { bytes }
    }

    /// The document, borrowed.
    #[inline]
    pub fn as_raw(&self) -> RawDocument<'_> {
        RawDocument::trusted(&self.bytes)
    }

    /// The document's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The document's bytes, given away.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The document's size in bytes.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.as_raw().is_empty()
    }
}

impl Default for DocumentBuf {
    fn default() -> Self {
        RawDocument::EMPTY.to_buf()
    }
}

impl std::fmt::Debug for DocumentBuf {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_raw().fmt(formatter)
    }
}

macro_rules! value_from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from(value: $source) -> Self {
                Value::$variant(value.into())
            }
        })*
    };
}
value_from! {
    i32 => Int32, u16 => Int32, i64 => Int64, u32 => Int64, f64 => Double, bool => Boolean, &str => String,
    String => String, &String => String, ObjectId => ObjectId, Timestamp => Timestamp,
    Decimal128 => Decimal128, Document => Document, Vec<Value> => Array, Array => Array,
}

impl From<&DocumentBuf> for Value {
    fn from(document: &DocumentBuf) -> Self {
        Value::Document(document.as_raw().to_document())
    }
}

impl From<RawDocument<'_>> for Value {
    fn from(document: RawDocument<'_>) -> Self {
        Value::Document(document.to_document())
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}
