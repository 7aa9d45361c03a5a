//! Keys to values.

use super::number::{self, NumberType};
use super::{SortOrder, tag, type_bits};
use crate::{Document, ObjectId, Timestamp, Value};

/// Bytes that are not a key of the values asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The bytes end inside a value.
    #[error("key ends inside a value")]
    Truncated,
    /// A tag, text or number is not as the encoding writes it.
    #[error("key is malformed: not written by this encoding, or damaged")]
    Malformed,
}

/// Reads all of a key: one value for each direction. The bytes after the last one are not looked at.
///
/// # Errors
/// The key is damaged or has fewer values.
pub fn decode(key: &[u8], type_bits: &[u8], directions: &[SortOrder]) -> Result<Vec<Value>, KeyError> {
    let mut decoder = Decoder::new(key, type_bits);
    directions.iter().map(|&direction| decoder.next(direction)).collect()
}

/// Reads a key value by value.
#[derive(Debug, Clone)]
pub struct Decoder<'k> {
    reader: Reader<'k>,
    types: std::slice::Iter<'k, u8>,
}

impl<'k> Decoder<'k> {
    /// A decoder at the key's beginning. Without type bits a number reads as the narrowest type that
    /// holds it, a symbol as a string.
    pub fn new(key: &'k [u8], type_bits: &'k [u8]) -> Self {
        Decoder { reader: Reader { bytes: key, mask: 0 }, types: type_bits.iter() }
    }

    /// Reads the next value.
    ///
    /// # Errors
    /// The key is damaged or ends here.
    pub fn next(&mut self, direction: SortOrder) -> Result<Value, KeyError> {
        self.reader.mask = direction.mask();
        self.value(0)
    }

    /// Passes over the next value, cheaper than reading it. Type bits are not advanced: read no values after
    /// this that need them.
    ///
    /// # Errors
    /// The key is damaged or ends here.
    pub fn skip(&mut self, direction: SortOrder) -> Result<(), KeyError> {
        self.reader.mask = direction.mask();
        self.reader.skip(0)
    }

    /// The bytes not read yet.
    pub const fn rest(&self) -> &'k [u8] {
        self.reader.bytes
    }

    fn value(&mut self, depth: usize) -> Result<Value, KeyError> {
        let tag = self.reader.byte()?;
        if number::is_number(tag) {
            let exact = number::read(&mut self.reader, tag)?;
            let kind = NumberType::read(&mut self.types, exact);
            return number::to_value(exact, kind);
        }
        Ok(match tag {
            tag::STRING => {
                let text = self.reader.string()?;
                match self.types.next().copied().unwrap_or(type_bits::STRING) {
                    type_bits::SYMBOL => Value::Symbol(text.into()),
                    _ => Value::String(text),
                }
            }
            tag::DOCUMENT => Value::Document(self.document(depth)?),
            tag::ARRAY => {
                let mut values = Vec::new();
                while !self.reader.at_end()? {
                    values.push(self.nested(depth)?);
                }
                Value::Array(values.into())
            }
            tag::JAVASCRIPT_WITH_SCOPE => {
                let code = self.reader.string()?;
                match self.reader.byte()? {
                    tag::DOCUMENT => Value::code_with_scope(code, self.document(depth)?),
                    _ => return Err(KeyError::Malformed),
                }
            }
            other => self.reader.plain(other)?,
        })
    }

    fn nested(&mut self, depth: usize) -> Result<Value, KeyError> {
        if depth >= crate::validate::MAX_MESSAGE_DEPTH {
            Err(KeyError::Malformed)
        } else {
            self.value(depth + 1)
        }
    }

    fn document(&mut self, depth: usize) -> Result<Document, KeyError> {
        let mut document = Document::new();
        while !self.reader.at_end()? {
            self.reader.byte()?;
            let name = self.reader.string()?;
            document.push(name, self.nested(depth)?);
        }
        Ok(document)
    }
}

/// Bytes with the direction of the field they belong to.
#[derive(Debug, Clone)]
pub(super) struct Reader<'k> {
    bytes: &'k [u8],
    /// Every byte is combined with this by exclusive or.
    pub(super) mask: u8,
}

impl<'k> Reader<'k> {
    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, KeyError> {
        let (&first, rest) = self.bytes.split_first().ok_or(KeyError::Truncated)?;
        self.bytes = rest;
        Ok(first ^ self.mask)
    }

    fn take(&mut self, length: usize) -> Result<&'k [u8], KeyError> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(KeyError::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], KeyError> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(KeyError::Truncated)?;
        self.bytes = rest;
        Ok(taken.map(|byte| byte ^ self.mask))
    }

    fn owned(&mut self, length: usize) -> Result<Vec<u8>, KeyError> {
        let mask = self.mask;
        Ok(self.take(length)?.iter().map(|byte| byte ^ mask).collect())
    }

    /// Whether the container ends here; if so, its end is passed.
    fn at_end(&mut self) -> Result<bool, KeyError> {
        let (&first, rest) = self.bytes.split_first().ok_or(KeyError::Truncated)?;
        let end = first ^ self.mask == tag::END;
        if end {
            self.bytes = rest;
        }
        Ok(end)
    }

    /// The bytes of a text, still escaped; its end is passed.
    fn escaped(&mut self) -> Result<&'k [u8], KeyError> {
        let length = memchr::memchr(tag::END ^ self.mask, self.bytes).ok_or(KeyError::Truncated)?;
        let text = self.take(length)?;
        self.take(1)?;
        Ok(text)
    }

    fn string(&mut self) -> Result<String, KeyError> {
        let mut text = Vec::new();
        let mask = self.mask;
        let mut bytes = self.escaped()?.iter().map(|byte| byte ^ mask);
        while let Some(byte) = bytes.next() {
            text.push(match byte {
                tag::ESCAPE => match bytes.next() {
                    Some(tag::ESCAPED_ZERO) => 0,
                    Some(tag::ESCAPED_ESCAPE) => tag::ESCAPE,
                    _ => return Err(KeyError::Malformed),
                },
                other => other,
            });
        }
        String::from_utf8(text).map_err(|_| KeyError::Malformed)
    }

    fn length(&mut self) -> Result<usize, KeyError> {
        match self.byte()? {
            tag::LONG_LENGTH => Ok(u32::from_be_bytes(self.array()?) as usize),
            short => Ok(usize::from(short)),
        }
    }

    /// A value that holds no others and has no type code.
    fn plain(&mut self, tag: u8) -> Result<Value, KeyError> {
        Ok(match tag {
            tag::MIN_KEY => Value::MinKey,
            tag::UNDEFINED => Value::Undefined,
            tag::NULL => Value::Null,
            tag::BINARY => {
                let length = self.length()?;
                Value::binary(self.byte()?, self.owned(length)?)
            }
            tag::OBJECT_ID => Value::ObjectId(ObjectId::from_bytes(self.array()?)),
            tag::FALSE => Value::Boolean(false),
            tag::TRUE => Value::Boolean(true),
            tag::DATE_TIME => Value::DateTime((u64::from_be_bytes(self.array()?) ^ 1 << 63) as i64),
            tag::TIMESTAMP => Value::Timestamp(Timestamp::from_u64(u64::from_be_bytes(self.array()?))),
            tag::REGEX => Value::regex(self.string()?, self.string()?),
            tag::DB_POINTER => {
                let length = self.length()?;
                let namespace = String::from_utf8(self.owned(length)?).map_err(|_| KeyError::Malformed)?;
                Value::db_pointer(namespace, ObjectId::from_bytes(self.array()?))
            }
            tag::JAVASCRIPT => Value::JavaScript(self.string()?.into()),
            tag::MAX_KEY => Value::MaxKey,
            _ => return Err(KeyError::Malformed),
        })
    }

    fn skip(&mut self, depth: usize) -> Result<(), KeyError> {
        if depth > crate::validate::MAX_MESSAGE_DEPTH {
            return Err(KeyError::Malformed);
        }
        match self.byte()? {
            tag if number::is_number(tag) => number::read(self, tag).map(drop),
            tag::OBJECT_ID => self.take(12).map(drop),
            tag::STRING | tag::JAVASCRIPT => self.escaped().map(drop),
            tag::DATE_TIME | tag::TIMESTAMP => self.take(8).map(drop),
            tag::BINARY => {
                let length = self.length()?;
                self.take(length + 1).map(drop)
            }
            tag::DB_POINTER => {
                let length = self.length()?;
                self.take(length + 12).map(drop)
            }
            tag::REGEX => self.escaped().and_then(|_| self.escaped()).map(drop),
            tag::DOCUMENT => self.skip_document(depth),
            tag::JAVASCRIPT_WITH_SCOPE => {
                self.escaped()?;
                self.byte()?;
                self.skip_document(depth)
            }
            tag::ARRAY => {
                while !self.at_end()? {
                    self.skip(depth + 1)?;
                }
                Ok(())
            }
            other => self.plain(other).map(drop),
        }
    }

    fn skip_document(&mut self, depth: usize) -> Result<(), KeyError> {
        while !self.at_end()? {
            self.byte()?;
            self.escaped()?;
            self.skip(depth + 1)?;
        }
        Ok(())
    }
}
