//! Whole messages of the protocol.

use crate::error::BenchError;
use document::{Document, RawDocument};

/// Bytes of a message header: length, request id, response to, operation code (all little-endian `i32`).
pub(crate) const HEADER_BYTES: usize = 16;
/// Header, flag bits and the kind byte of the body section.
pub(crate) const BODY_OFFSET: usize = HEADER_BYTES + 4 + 1;
const OP_MSG: i32 = 2013;
/// A command as one OP_MSG with request id 1.
pub(crate) fn encode(command: &Document) -> Vec<u8> {
    message(command.to_buf().as_bytes())
}

/// A document as one OP_MSG with request id 1.
pub(crate) fn message(body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(BODY_OFFSET + body.len());
    for field in [(BODY_OFFSET + body.len()) as i32, 1, 0, OP_MSG, 0] {
        message.extend_from_slice(&field.to_le_bytes());
    }
    message.push(0);
    message.extend_from_slice(body);
    message
}

/// The length that a message's first bytes announce, once four of them are there.
#[inline]
pub(crate) fn announced_length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|chunk| u32::from_le_bytes(*chunk) as usize)
}

/// The body of a reply.
#[inline]
pub(crate) fn reply_body(message: &[u8]) -> Result<RawDocument<'_>, BenchError> {
    let unexpected = |found: String| BenchError::Protocol { expected: "an OP_MSG with a body", found };
    match (message.get(12..HEADER_BYTES), message.get(BODY_OFFSET..)) {
        (Some(operation), Some(body)) if operation == OP_MSG.to_le_bytes() => Ok(RawDocument::trusted(body)),
        _ => Err(unexpected(format!("{} bytes of something else", message.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::doc;

    #[test]
    fn a_message_is_understood_again() {
        let command = doc! { "find": "docs", "limit": 1 };
        let message = encode(&command);
        assert_eq!(announced_length(&message), Some(message.len()));
        assert_eq!(reply_body(&message).expect("an OP_MSG").to_document(), command);
    }

    #[test]
    fn refuses_other_operations() {
        assert!(reply_body(&[0; 40]).is_err());
        assert!(reply_body(&[]).is_err());
    }
}
