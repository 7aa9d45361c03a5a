//! The check that bytes from outside pass once: structure, lengths, UTF-8 and nesting depth.

use crate::ElementType;
use crate::raw::{read_i32, value_length};
use thiserror::Error;

/// The largest document that may be stored: 16 MiB (MongoDB manual, "BSON Document Size").
pub const MAX_DOCUMENT_SIZE: usize = 16 * 1024 * 1024;
/// The deepest nesting of a stored document (MongoDB manual, "Nested Depth for BSON Documents").
pub const MAX_NESTING_DEPTH: usize = 100;
/// The deepest nesting in a message: a stored document wrapped in a command, with room to spare.
pub(crate) const MAX_MESSAGE_DEPTH: usize = 200;

/// Why bytes are not a BSON document.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DocumentError {
    /// The length prefix and the bytes there are disagree.
    #[error("incorrect BSON length at offset {offset}: expected {expected} bytes, found {found}")]
    Length {
        /// Where the document begins.
        offset: usize,
        /// What the prefix says; negative prefixes are possible.
        expected: i64,
        /// How many bytes there are.
        found: usize,
    },
    /// A type byte that BSON does not use.
    #[error("unrecognized BSON type {code} at offset {offset}")]
    UnknownType {
        /// Where the element begins.
        offset: usize,
        /// The type byte.
        code: u8,
    },
    /// A value runs over its document's end, or its inner lengths disagree.
    #[error("invalid BSON {} value at offset {offset}", kind.alias())]
    Value {
        /// Where the element begins.
        offset: usize,
        /// The element's type.
        kind: ElementType,
    },
    /// A field name without end.
    #[error("unterminated field name at offset {offset}")]
    Name {
        /// Where the element begins.
        offset: usize,
    },
    /// Text that is not UTF-8.
    #[error("invalid UTF-8 at offset {offset}")]
    Utf8 {
        /// Where the element begins.
        offset: usize,
    },
    /// The document does not end with a zero byte, or ends before its length.
    #[error("BSON document at offset {offset} does not end where its length says")]
    Terminator {
        /// Where the document begins.
        offset: usize,
    },
    /// Documents nest too deeply.
    #[error("BSONObj exceeds maximum nested object depth: {limit}")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}

/// Checks that `bytes` are exactly one document.
pub(crate) fn document(bytes: &[u8], max_depth: usize) -> Result<(), DocumentError> {
    Checker { max_depth }.document(bytes, 0, 1)
}

struct Checker {
    max_depth: usize,
}

impl Checker {
    fn document(&self, bytes: &[u8], offset: usize, depth: usize) -> Result<(), DocumentError> {
        if depth > self.max_depth {
            return Err(DocumentError::TooDeep { limit: self.max_depth });
        }
        let found = bytes.len();
        let expected = read_i32(bytes).map_or(5, i64::from);
        if expected < 5 || usize::try_from(expected) != Ok(found) {
            return Err(DocumentError::Length { offset, expected, found });
        }
        let mut position = 4;
        while let Some((&code, after_code)) = bytes.get(position..).and_then(<[u8]>::split_first) {
            if code == 0 {
                break;
            }
            let place = offset + position;
            let kind =
                ElementType::from_code(code).ok_or(DocumentError::UnknownType { offset: place, code })?;
            let name_length = memchr::memchr(0, after_code).ok_or(DocumentError::Name { offset: place })?;
            let (name, value) = after_code.split_at(name_length);
            check_utf8(name, place)?;
            let value = value.get(1..).unwrap_or_default();
            let invalid = DocumentError::Value { offset: place, kind };
            let length = value_length(kind, value).ok_or_else(|| invalid.clone())?;
            let value = value.get(..length).ok_or(invalid)?;
            self.value(kind, value, place, offset + position + name_length + 2, depth)?;
            position += name_length + 2 + length;
        }
        // The loop stops at the first zero byte; it must be the document's last one.
        if position + 1 == found { Ok(()) } else { Err(DocumentError::Terminator { offset }) }
    }

    fn value(
        &self,
        kind: ElementType,
        bytes: &[u8],
        place: usize,
        offset: usize,
        depth: usize,
    ) -> Result<(), DocumentError> {
        use ElementType as T;
        let invalid = || DocumentError::Value { offset: place, kind };
        match kind {
            T::Document | T::Array => self.document(bytes, offset, depth + 1),
            T::String | T::JavaScript | T::Symbol => {
                check_string(bytes, kind, place)?;
                Ok(())
            }
            T::Boolean if !matches!(bytes.first(), Some(0 | 1)) => Err(invalid()),
            T::Regex => check_utf8(bytes, place),
            T::DbPointer => {
                let (string, _id) =
                    bytes.split_at_checked(bytes.len().wrapping_sub(12)).ok_or_else(invalid)?;
                check_string(string, kind, place)
            }
            T::JavaScriptWithScope => {
                let inner = bytes.get(4..).ok_or_else(invalid)?;
                let code_length = value_length(T::JavaScript, inner).ok_or_else(invalid)?;
                let (code, scope) = inner.split_at_checked(code_length).ok_or_else(invalid)?;
                check_string(code, kind, place)?;
                self.document(scope, offset + 4 + code_length, depth + 1)
            }
            // The old binary subtype repeats its length inside.
            T::Binary if bytes.get(4) == Some(&2) => {
                let inner = bytes.get(5..).and_then(read_i32).ok_or_else(invalid)?;
                let agrees = usize::try_from(inner).is_ok_and(|inner| inner + 9 == bytes.len());
                if agrees { Ok(()) } else { Err(invalid()) }
            }
            _ => Ok(()),
        }
    }
}

fn check_utf8(bytes: &[u8], offset: usize) -> Result<(), DocumentError> {
    std::str::from_utf8(bytes).map(drop).map_err(|_| DocumentError::Utf8 { offset })
}

/// `bytes` are a length, that many bytes of text, and the text's last byte is zero.
fn check_string(bytes: &[u8], kind: ElementType, place: usize) -> Result<(), DocumentError> {
    match bytes.get(4..).and_then(<[u8]>::split_last) {
        Some((0, text)) => check_utf8(text, place),
        _ => Err(DocumentError::Value { offset: place, kind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RawDocument, Value, doc};

    fn check(bytes: &[u8], expect: Result<(), &str>) {
        let found = RawDocument::parse(bytes).map(drop).map_err(|error| error.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "for {bytes:?}");
    }

    #[test]
    fn accepts_whole_documents_only() {
        check(&[5, 0, 0, 0, 0], Ok(()));
        check(&[], Err("incorrect BSON length at offset 0: expected 5 bytes, found 0"));
        check(&[6, 0, 0, 0, 0], Err("incorrect BSON length at offset 0: expected 6 bytes, found 5"));
        check(&[255, 255, 255, 255, 0], Err("incorrect BSON length at offset 0: expected -1 bytes, found 5"));
        check(&[5, 0, 0, 0, 1], Err("unterminated field name at offset 4"));
        check(&[6, 0, 0, 0, 0, 0], Err("BSON document at offset 0 does not end where its length says"));
    }

    #[test]
    fn names_the_defect() {
        check(&[8, 0, 0, 0, 0x20, b'a', 0, 0], Err("unrecognized BSON type 32 at offset 4"));
        check(&[9, 0, 0, 0, 8, b'a', 0, 2, 0], Err("invalid BSON bool value at offset 4"));
        check(&[8, 0, 0, 0, 10, 0xFF, 0, 0], Err("invalid UTF-8 at offset 4"));
        check(&[12, 0, 0, 0, 2, b'a', 0, 0, 0, 0, 0, 0], Err("invalid BSON string value at offset 4"));
    }

    #[test]
    fn bounds_the_depth() {
        let mut value = Value::Int32(1);
        for _ in 0..MAX_MESSAGE_DEPTH - 1 {
            value = Value::Document(doc! { "a": value });
        }
        let fits = doc! { "a": value };
        check(fits.to_buf().as_bytes(), Ok(()));
        assert!(fits.to_buf().as_raw().exceeds_depth(MAX_MESSAGE_DEPTH - 1));
        assert!(!fits.to_buf().as_raw().exceeds_depth(MAX_MESSAGE_DEPTH));
        check(
            doc! { "a": fits }.to_buf().as_bytes(),
            Err("BSONObj exceeds maximum nested object depth: 200"),
        );
    }
}
