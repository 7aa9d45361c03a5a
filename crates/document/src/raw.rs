//! BSON read in place: documents, arrays, elements and values as views of bytes.
//!
//! Bytes from outside go through [`RawDocument::parse`] once. Bytes that were checked before go through
//! [`RawDocument::trusted`], which checks nothing; reading them stays memory safe, and should they be damaged
//! all the same, iteration ends at the damage.

use crate::validate::{self, DocumentError};
use crate::{Decimal128, Document, DocumentBuf, ElementType, ObjectId, Timestamp, Value};
use std::fmt;

/// The shortest document: a length and the terminator.
pub(crate) const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

/// One BSON document, borrowed: a little-endian `i32` length (which includes itself), elements, a zero byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawDocument<'a> {
    bytes: &'a [u8],
}

impl<'a> RawDocument<'a> {
    /// The document without fields.
    pub const EMPTY: RawDocument<'static> = RawDocument { bytes: EMPTY_DOCUMENT };

    /// Checks structure, UTF-8 and nesting depth (200 at most, as MongoDB allows in messages) of the whole of
    /// `bytes`.
    ///
    /// # Errors
    /// The first defect and where it lies.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        validate::document(bytes, validate::MAX_MESSAGE_DEPTH)?;
        Ok(RawDocument { bytes })
    }

    /// Takes bytes that were checked before.
    #[inline]
    pub const fn trusted(bytes: &'a [u8]) -> Self {
        RawDocument { bytes }
    }

    /// The whole document, length and terminator included.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether there is no field.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.bytes.len() <= EMPTY_DOCUMENT.len()
    }

    /// The fields in their order.
    #[inline]
    pub fn iter(self) -> Elements<'a> {
        Elements { rest: self.bytes.get(4..).unwrap_or_default() }
    }

    /// The first field of this name. Linear in the number of fields before it.
    #[inline]
    pub fn get(self, name: &str) -> Option<RawValue<'a>> {
        self.element(name.as_bytes()).map(Element::value)
    }

    /// The first field of this name as an element.
    #[inline]
    pub fn element(self, name: &[u8]) -> Option<Element<'a>> {
        self.iter().find_name(name)
    }

    /// The first field.
    #[inline]
    pub fn first(self) -> Option<Element<'a>> {
        self.iter().next()
    }

    /// Whether a field of this name exists.
    pub fn contains(self, name: &str) -> bool {
        self.element(name.as_bytes()).is_some()
    }

    /// The owned tree.
    pub fn to_document(self) -> Document {
        self.iter().map(|element| (element.name().to_owned(), element.value().to_value())).collect()
    }

    /// The owned bytes.
    pub fn to_buf(self) -> DocumentBuf {
        DocumentBuf::trusted(self.bytes.to_vec())
    }

    /// Whether documents and arrays nest deeper than `limit` levels (a flat document has depth 1).
    pub fn exceeds_depth(self, limit: usize) -> bool {
        if limit == 0 {
            return true;
        }
        self.iter().any(|element| match element.kind() {
            ElementType::Document | ElementType::Array => {
                RawDocument::trusted(element.value_bytes()).exceeds_depth(limit - 1)
            }
            _ => false,
        })
    }
}

impl Default for RawDocument<'_> {
    fn default() -> Self {
        RawDocument::EMPTY
    }
}

impl<'a> IntoIterator for RawDocument<'a> {
    type Item = Element<'a>;
    type IntoIter = Elements<'a>;
    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

impl fmt::Debug for RawDocument<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter().map(|element| (element.name(), element.value()))).finish()
    }
}

/// One BSON array, borrowed: stored as a document whose field names do not matter.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawArray<'a> {
    document: RawDocument<'a>,
}

impl<'a> RawArray<'a> {
    /// The array without elements.
    pub const EMPTY: RawArray<'static> = RawArray { document: RawDocument::EMPTY };

    /// The array stored as this document.
    #[inline]
    pub const fn from_document(document: RawDocument<'a>) -> Self {
        RawArray { document }
    }

    /// The document that stores the array.
    #[inline]
    pub const fn as_document(self) -> RawDocument<'a> {
        self.document
    }

    /// The whole array, length and terminator included.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.document.bytes
    }

    /// The values in their order.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = RawValue<'a>> + Clone {
        self.document.iter().map(Element::value)
    }

    /// The elements in their order.
    #[inline]
    pub fn elements(self) -> Elements<'a> {
        self.document.iter()
    }

    /// The value at this position. Linear.
    pub fn get(self, index: usize) -> Option<RawValue<'a>> {
        self.document.iter().nth(index).map(Element::value)
    }

    /// The number of elements. Linear.
    pub fn len(self) -> usize {
        self.document.iter().count()
    }

    /// Whether there is no element.
    pub const fn is_empty(self) -> bool {
        self.document.is_empty()
    }

    /// The owned values.
    pub fn to_values(self) -> Vec<Value> {
        self.iter().map(RawValue::to_value).collect()
    }
}

impl fmt::Debug for RawArray<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// One field of a document: type, name and value, still as bytes.
#[derive(Clone, Copy)]
pub struct Element<'a> {
    raw: &'a [u8],
    name_length: u32,
    kind: ElementType,
}

impl<'a> Element<'a> {
    /// The field's name. A name that is not UTF-8 (damaged storage) reads as empty.
    #[inline]
    pub fn name(&self) -> &'a str {
        std::str::from_utf8(self.name_bytes()).unwrap_or_default()
    }

    /// The field's name as bytes.
    #[inline]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.raw.get(1..1 + self.name_length as usize).unwrap_or_default()
    }

    /// The value's type.
    #[inline]
    pub const fn kind(&self) -> ElementType {
        self.kind
    }

    /// The value's bytes, without type and name.
    #[inline]
    pub fn value_bytes(&self) -> &'a [u8] {
        self.raw.get(self.name_length as usize + 2..).unwrap_or_default()
    }

    /// The whole element: type byte, name, zero byte, value.
    #[inline]
    pub const fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The value. A damaged one reads as `Undefined`.
    #[inline]
    pub fn value(self) -> RawValue<'a> {
        RawValue::decode(self.kind, self.value_bytes()).unwrap_or(RawValue::Undefined)
    }
}

impl fmt::Debug for Element<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {:?}", self.name(), self.value())
    }
}

/// The fields of a document, in order.
#[derive(Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The bytes not yet visited: elements and the document's terminator.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next field of this name. Linear in the number of fields before it.
    #[inline]
    pub fn find_name(&mut self, name: &[u8]) -> Option<Element<'a>> {
        match NameWord::of(name) {
            Some(name) => self.find_short(name),
            None => self.find(|element| element.name_bytes() == name),
        }
    }

    fn find_short(&mut self, name: NameWord) -> Option<Element<'a>> {
        loop {
            match self.rest.get(1..)?.first_chunk().map(|word| u64::from_le_bytes(*word)) {
                Some(word) if name.begins(word) => return self.next(),
                Some(word) => self.pass(word)?,
                // A last element may be shorter than a word.
                None => return self.find(|element| name.is(element.name_bytes())),
            }
        }
    }

    /// Goes past the fields that both have next, byte for byte the same.
    pub fn pass_same(&mut self, other: &mut Elements<'_>) {
        let same = same_at_front(self.rest, other.rest);
        let mut passed = 0;
        loop {
            let mut behind = self.clone();
            let word = behind.rest.get(1..).and_then(|name| name.first_chunk());
            let next = match word {
                Some(word) => behind.pass(u64::from_le_bytes(*word)),
                // A last element may be shorter than a word.
                None => behind.next().map(drop),
            };
            let end = passed + (self.rest.len() - behind.rest.len());
            if next.is_none() || end > same {
                break;
            }
            (*self, passed) = (behind, end);
        }
        other.rest = other.rest.get(passed..).unwrap_or_default();
    }

    /// Goes past an element whose name begins with this word.
    #[inline]
    fn pass(&mut self, word: u64) -> Option<()> {
        let layout = *LAYOUTS.get(usize::from(*self.rest.first()?))?;
        let (Some(name_length), true) = (zero_byte(word), layout != OTHER_LAYOUT) else {
            return self.next().map(drop);
        };
        let value = name_length + 2;
        let length = match layout & PREFIXED {
            0 => usize::from(layout),
            _ => prefix(self.rest.get(value..)?)?.checked_add(usize::from(layout & !PREFIXED))?,
        };
        self.rest = self.rest.get(value.checked_add(length)?..)?;
        Some(())
    }
}

/// How many bytes two begin with alike.
fn same_at_front(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let ((blocks, _), (other_blocks, _)) = (one.as_chunks::<BLOCK>(), other.as_chunks::<BLOCK>());
    let blocks = blocks.iter().zip(other_blocks).take_while(|(one, other)| one == other).count();
    let bytes = one.iter().zip(other).skip(blocks * BLOCK);
    blocks * BLOCK + bytes.take_while(|(one, other)| one == other).count()
}

/// How long values are, by the code of their type: so many bytes, or with [`PREFIXED`] so many more than
/// their prefix tells.
static LAYOUTS: [u8; 256] = layouts();
const PREFIXED: u8 = 1 << 6;
/// Of codes that mean nothing, and of values that have to be looked at.
const OTHER_LAYOUT: u8 = u8::MAX;

#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const fn layouts() -> [u8; 256] {
    use ElementType as T;
    let mut layouts = [OTHER_LAYOUT; 256];
    let known = [
        (T::Double, 8),
        (T::DateTime, 8),
        (T::Timestamp, 8),
        (T::Int64, 8),
        (T::String, 4 | PREFIXED),
        (T::JavaScript, 4 | PREFIXED),
        (T::Symbol, 4 | PREFIXED),
        (T::Document, PREFIXED),
        (T::Array, PREFIXED),
        (T::JavaScriptWithScope, PREFIXED),
        (T::Binary, 5 | PREFIXED),
        (T::Undefined, 0),
        (T::Null, 0),
        (T::MinKey, 0),
        (T::MaxKey, 0),
        (T::ObjectId, 12),
        (T::Boolean, 1),
        (T::DbPointer, 16 | PREFIXED),
        (T::Int32, 4),
        (T::Decimal128, 16),
    ];
    let mut position = 0;
    while position < known.len() {
        let (kind, layout) = known[position];
        layouts[kind as u8 as usize] = layout;
        position += 1;
    }
    layouts
}

/// A name and its terminator in one word: it is compared without a call.
#[derive(Clone, Copy)]
struct NameWord {
    word: u64,
    mask: u64,
}

impl NameWord {
    #[inline]
    fn of(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8];
        // One byte is the terminator's.
        bytes.split_last_mut()?.1.get_mut(..name.len())?.copy_from_slice(name);
        let unused = 8 * (7 - name.len() as u32);
        Some(NameWord { word: u64::from_le_bytes(bytes), mask: u64::MAX >> unused })
    }

    #[inline]
    const fn begins(self, word: u64) -> bool {
        word & self.mask == self.word
    }

    fn is(self, name: &[u8]) -> bool {
        NameWord::of(name).is_some_and(|name| name.word == self.word && name.mask == self.mask)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&code, after_code) = self.rest.split_first()?;
        let kind = ElementType::from_code(code)?;
        let name_length = terminator(after_code)?;
        let value = after_code.get(name_length + 1..)?;
        let length = value_length(kind, value)?;
        let (raw, rest) = self.rest.split_at_checked(name_length + 2 + length)?;
        self.rest = rest;
        Some(Element { raw, name_length: name_length as u32, kind })
    }
}

/// Position of the first zero byte. Names are short: most end within the first word.
#[inline]
fn terminator(bytes: &[u8]) -> Option<usize> {
    match bytes.first_chunk().map(|word| zero_byte(u64::from_le_bytes(*word))) {
        Some(Some(position)) => Some(position),
        _ => memchr::memchr(0, bytes),
    }
}

/// Which byte of a word is the first zero, counted from the lowest one.
#[inline]
const fn zero_byte(word: u64) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST_BITS: u64 = ONES << 7;
    // The lowest marked byte is a zero; those above it may be marked for a borrow only.
    let marked = word.wrapping_sub(ONES) & !word & HIGHEST_BITS;
    if marked == 0 { None } else { Some(marked.trailing_zeros() as usize / 8) }
}

#[inline]
pub(crate) fn read_i32(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|chunk| i32::from_le_bytes(*chunk))
}

/// The length that a length prefix tells, when it is not negative.
#[inline]
fn prefix(bytes: &[u8]) -> Option<usize> {
    usize::try_from(read_i32(bytes)?).ok()
}

/// How many bytes the value of this type takes at the front of `bytes`; it may be more than there are.
#[inline]
pub(crate) fn value_length(kind: ElementType, bytes: &[u8]) -> Option<usize> {
    match LAYOUTS.get(kind as u8 as usize) {
        Some(&OTHER_LAYOUT) | None => {
            // A regular expression: two strings that end where they end.
            let pattern = terminator(bytes)? + 1;
            Some(pattern + terminator(bytes.get(pattern..)?)? + 1)
        }
        Some(layout) if layout & PREFIXED == 0 => Some(usize::from(*layout)),
        Some(layout) => prefix(bytes)?.checked_add(usize::from(layout & !PREFIXED)),
    }
}

/// A BSON value, borrowed.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names are the specification's own")]
pub enum RawValue<'a> {
    Double(f64),
    String(&'a str),
    Document(RawDocument<'a>),
    Array(RawArray<'a>),
    Binary {
        subtype: u8,
        bytes: &'a [u8],
    },
    Undefined,
    ObjectId(ObjectId),
    Boolean(bool),
    /// Milliseconds since 1970, UTC.
    DateTime(i64),
    Null,
    Regex {
        pattern: &'a str,
        options: &'a str,
    },
    DbPointer {
        namespace: &'a str,
        id: ObjectId,
    },
    JavaScript(&'a str),
    Symbol(&'a str),
    JavaScriptWithScope {
        code: &'a str,
        scope: RawDocument<'a>,
    },
    Int32(i32),
    Timestamp(Timestamp),
    Int64(i64),
    Decimal128(Decimal128),
    MinKey,
    MaxKey,
}

/// A length-prefixed, zero-terminated string at the front of `bytes`, and what follows it.
fn split_string(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let length = prefix(bytes)?;
    let (text, rest) = bytes.get(4..)?.split_at_checked(length)?;
    let (_, text) = text.split_last()?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

fn split_cstring(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let length = terminator(bytes)?;
    Some((std::str::from_utf8(bytes.get(..length)?).ok()?, bytes.get(length + 1..)?))
}

impl<'a> RawValue<'a> {
    /// Reads a value of this type from exactly `bytes`; `None` when they are damaged.
    #[inline]
    pub fn decode(kind: ElementType, bytes: &'a [u8]) -> Option<Self> {
        use ElementType as T;
        let word = || bytes.first_chunk::<8>().copied();
        Some(match kind {
            T::Double => RawValue::Double(f64::from_le_bytes(word()?)),
            T::String => RawValue::String(split_string(bytes)?.0),
            T::Document => RawValue::Document(RawDocument::trusted(bytes)),
            T::Array => RawValue::Array(RawArray::from_document(RawDocument::trusted(bytes))),
            T::Binary => RawValue::Binary { subtype: *bytes.get(4)?, bytes: bytes.get(5..)? },
            T::Undefined => RawValue::Undefined,
            T::ObjectId => RawValue::ObjectId(ObjectId::from_bytes(*bytes.first_chunk()?)),
            T::Boolean => RawValue::Boolean(*bytes.first()? != 0),
            T::DateTime => RawValue::DateTime(i64::from_le_bytes(word()?)),
            T::Null => RawValue::Null,
            T::Regex => {
                let (pattern, rest) = split_cstring(bytes)?;
                RawValue::Regex { pattern, options: split_cstring(rest)?.0 }
            }
            T::DbPointer => {
                let (namespace, rest) = split_string(bytes)?;
                RawValue::DbPointer { namespace, id: ObjectId::from_bytes(*rest.first_chunk()?) }
            }
            T::JavaScript => RawValue::JavaScript(split_string(bytes)?.0),
            T::Symbol => RawValue::Symbol(split_string(bytes)?.0),
            T::JavaScriptWithScope => {
                let (code, scope) = split_string(bytes.get(4..)?)?;
                RawValue::JavaScriptWithScope { code, scope: RawDocument::trusted(scope) }
            }
            T::Int32 => RawValue::Int32(read_i32(bytes)?),
            T::Timestamp => RawValue::Timestamp(Timestamp::from_u64(u64::from_le_bytes(word()?))),
            T::Int64 => RawValue::Int64(i64::from_le_bytes(word()?)),
            T::Decimal128 => RawValue::Decimal128(Decimal128::from_bytes(*bytes.first_chunk()?)),
            T::MinKey => RawValue::MinKey,
            T::MaxKey => RawValue::MaxKey,
        })
    }

    /// The value's type.
    pub const fn kind(&self) -> ElementType {
        match self {
            RawValue::Double(_) => ElementType::Double,
            RawValue::String(_) => ElementType::String,
            RawValue::Document(_) => ElementType::Document,
            RawValue::Array(_) => ElementType::Array,
            RawValue::Binary { .. } => ElementType::Binary,
            RawValue::Undefined => ElementType::Undefined,
            RawValue::ObjectId(_) => ElementType::ObjectId,
            RawValue::Boolean(_) => ElementType::Boolean,
            RawValue::DateTime(_) => ElementType::DateTime,
            RawValue::Null => ElementType::Null,
            RawValue::Regex { .. } => ElementType::Regex,
            RawValue::DbPointer { .. } => ElementType::DbPointer,
            RawValue::JavaScript(_) => ElementType::JavaScript,
            RawValue::Symbol(_) => ElementType::Symbol,
            RawValue::JavaScriptWithScope { .. } => ElementType::JavaScriptWithScope,
            RawValue::Int32(_) => ElementType::Int32,
            RawValue::Timestamp(_) => ElementType::Timestamp,
            RawValue::Int64(_) => ElementType::Int64,
            RawValue::Decimal128(_) => ElementType::Decimal128,
            RawValue::MinKey => ElementType::MinKey,
            RawValue::MaxKey => ElementType::MaxKey,
        }
    }

    /// The owned value.
    pub fn to_value(self) -> Value {
        match self {
            RawValue::Double(number) => Value::Double(number),
            RawValue::String(text) => Value::String(text.to_owned()),
            RawValue::Document(document) => Value::Document(document.to_document()),
            RawValue::Array(array) => Value::Array(array.to_values().into()),
            RawValue::Binary { subtype, bytes } => Value::binary(subtype, bytes),
            RawValue::Undefined => Value::Undefined,
            RawValue::ObjectId(id) => Value::ObjectId(id),
            RawValue::Boolean(flag) => Value::Boolean(flag),
            RawValue::DateTime(milliseconds) => Value::DateTime(milliseconds),
            RawValue::Null => Value::Null,
            RawValue::Regex { pattern, options } => Value::regex(pattern, options),
            RawValue::DbPointer { namespace, id } => Value::db_pointer(namespace, id),
            RawValue::JavaScript(code) => Value::JavaScript(code.into()),
            RawValue::Symbol(text) => Value::Symbol(text.into()),
            RawValue::JavaScriptWithScope { code, scope } => {
                Value::code_with_scope(code, scope.to_document())
            }
            RawValue::Int32(number) => Value::Int32(number),
            RawValue::Timestamp(timestamp) => Value::Timestamp(timestamp),
            RawValue::Int64(number) => Value::Int64(number),
            RawValue::Decimal128(number) => Value::Decimal128(number),
            RawValue::MinKey => Value::MinKey,
            RawValue::MaxKey => Value::MaxKey,
        }
    }

    /// The text of a string.
    pub const fn as_str(self) -> Option<&'a str> {
        match self {
            RawValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The document.
    pub const fn as_document(self) -> Option<RawDocument<'a>> {
        match self {
            RawValue::Document(document) => Some(document),
            _ => None,
        }
    }

    /// The array.
    pub const fn as_array(self) -> Option<RawArray<'a>> {
        match self {
            RawValue::Array(array) => Some(array),
            _ => None,
        }
    }

    /// The boolean.
    pub const fn as_bool(self) -> Option<bool> {
        match self {
            RawValue::Boolean(flag) => Some(flag),
            _ => None,
        }
    }

    /// Whether this is one of the four numeric types.
    pub const fn is_number(self) -> bool {
        self.kind().is_number()
    }

    /// Whether this is `null` or the deprecated `undefined`.
    pub const fn is_nullish(self) -> bool {
        matches!(self, RawValue::Null | RawValue::Undefined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_zero_byte() {
        for zero in 0..20 {
            let bytes: Vec<u8> = (0..20).map(|position| if position < zero { 0x80 } else { 0 }).collect();
            assert_eq!(terminator(&bytes), Some(zero), "{bytes:?}");
            // A one behind the zero is where a borrow goes.
            let bytes: Vec<u8> = (0..20).map(|position| u8::from(position != zero)).collect();
            assert_eq!(terminator(&bytes), Some(zero), "{bytes:?}");
        }
        assert_eq!(terminator(&[1; 20]), None);
        assert_eq!(terminator(&[1; 7]), None);
        assert_eq!(terminator(&[]), None);
    }
    #[test]
    fn fields_are_found_by_names_of_any_length() {
        let names = ["", "a", "ab", "abcdef", "abcdefg", "abcdefgh", "abcdefghi", "b", "\u{e9}"];
        let document: crate::Document = names.iter().zip(0..).map(|(name, number)| (*name, number)).collect();
        let document = document.to_buf();
        for (name, number) in names.iter().zip(0..) {
            assert_eq!(document.as_raw().get(name), Some(RawValue::Int32(number)), "{name:?}");
        }
        for missing in ["c", "abc", "abcdefg\u{1}", "abcdefghj", "bb"] {
            assert_eq!(document.as_raw().get(missing), None, "{missing:?}");
        }
        let last = crate::doc! { "x": (crate::Value::Null), "y": (crate::Value::Null) }.to_buf();
        assert_eq!(last.as_raw().get("y"), Some(RawValue::Null), "a last field shorter than a word");
    }

    #[test]
    fn what_two_documents_begin_with_is_passed() {
        let field = |name: &str, length: usize| (name.to_owned(), crate::Value::from("x".repeat(length)));
        let documents = |lengths: &[usize], other: &[usize]| {
            let document = |lengths: &[usize]| {
                let fields =
                    lengths.iter().enumerate().map(|(place, length)| field(&place.to_string(), *length));
                fields.collect::<crate::Document>().to_buf()
            };
            (document(lengths), document(other))
        };
        let check = |lengths: &[usize], other: &[usize], expected: usize| {
            let (one, other) = documents(lengths, other);
            for (one, other) in [(&one, &other), (&other, &one)] {
                let (mut left, mut right) = (one.as_raw().iter(), other.as_raw().iter());
                left.pass_same(&mut right);
                let behind = |document: &DocumentBuf| {
                    let mut elements = document.as_raw().iter();
                    elements.by_ref().take(expected).for_each(drop);
                    elements.rest().to_vec()
                };
                assert_eq!(
                    (left.rest(), right.rest()),
                    (&*behind(one), &*behind(other)),
                    "{one:?} {other:?}"
                );
            }
        };
        check(&[], &[], 0);
        check(&[3], &[], 0);
        check(&[3, 40, 0], &[3, 40, 0], 3);
        check(&[3, 40, 0], &[3, 40], 2);
        check(&[3, 40, 7], &[3, 41, 7], 1);
        check(&[100, 100, 100, 5], &[100, 100, 100, 6], 3);
        for (length, place) in (0..70).flat_map(|length| (0..length).map(move |place| (length, place))) {
            let mut bytes = vec![7; length];
            let before = bytes.clone();
            bytes[place] = 8;
            assert_eq!(same_at_front(&before, &bytes), place);
            assert_eq!(same_at_front(&before, &before[..place]), place);
        }
    }
}
