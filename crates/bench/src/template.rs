//! Encoded messages with places to patch.

use crate::error::BenchError;
use document::{Document, RawDocument};
use serde::{Deserialize, Serialize};

/// Bytes of a message header: length, request id, response to, operation code (all little-endian `i32`).
pub(crate) const HEADER_BYTES: usize = 16;
/// Header, flag bits and the kind byte of the body section.
pub(crate) const BODY_OFFSET: usize = HEADER_BYTES + 4 + 1;
const OP_MSG: i32 = 2013;
/// Stands in a template where an id is to be patched in.
pub(crate) const ID_MARK: i32 = 0x5EED_0001;
/// Stands in a template where a second number is to be patched in.
pub(crate) const NUMBER_MARK: i32 = 0x5EED_0002;

/// A whole OP_MSG with the offsets of the marked numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    id_offsets: Vec<usize>,
    number_offsets: Vec<usize>,
}

impl Template {
    pub(crate) fn new(command: &Document) -> Self {
        let bytes = encode(command);
        Template { id_offsets: offsets(&bytes, ID_MARK), number_offsets: offsets(&bytes, NUMBER_MARK), bytes }
    }

    /// The message with these numbers in the marked places.
    #[inline]
    pub(crate) fn patched(&mut self, id: i32, number: i32) -> &[u8] {
        for (places, value) in [(&self.id_offsets, id), (&self.number_offsets, number)] {
            for &place in places {
                if let Some(target) = self.bytes.get_mut(place..place + 4) {
                    target.copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        &self.bytes
    }
}

fn offsets(bytes: &[u8], mark: i32) -> Vec<usize> {
    let mark = mark.to_le_bytes();
    bytes.windows(4).enumerate().filter(|(_, window)| *window == mark).map(|(offset, _)| offset).collect()
}

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
    fn patches_every_mark_and_nothing_else() {
        let command = doc! { "find": "docs", "filter": { "_id": { "$gte": ID_MARK, "$lt": NUMBER_MARK } }, "again": ID_MARK };
        let mut template = Template::new(&command);
        let message = template.patched(7, 9).to_vec();
        assert_eq!(announced_length(&message), Some(message.len()));
        let expect = doc! { "find": "docs", "filter": { "_id": { "$gte": 7, "$lt": 9 } }, "again": 7 };
        assert_eq!(reply_body(&message).expect("an OP_MSG").to_document(), expect);
    }

    #[test]
    fn refuses_other_operations() {
        assert!(reply_body(&[0; 40]).is_err());
        assert!(reply_body(&[]).is_err());
    }
}
