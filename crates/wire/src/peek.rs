//! What is known of a message before any of it is inflated or checked.

use crate::bytes::{read_i32, split_c_string, split_document};
use crate::op_msg::KIND_BODY;
use crate::{HEADER_LENGTH, MessageRef, OpCode, OpQuery};
use document::RawDocument;

/// The command of a message, as far as it can be found without reading on: the body must be an OP_MSG's first
/// section. Nothing was checked, so that the document may end at any field, and nothing but its first fields
/// should be read.
#[must_use]
pub fn peek_command(message: MessageRef<'_>) -> Option<RawDocument<'_>> {
    let payload = message.payload();
    let document = match message.header().opcode {
        OpCode::Msg => payload.get(4..)?.strip_prefix(&[KIND_BODY])?,
        OpCode::Query => split_c_string(payload.get(4..)?)?.1.get(8..)?,
        OpCode::Reply | OpCode::Compressed => return None,
    };
    let document = RawDocument::trusted(split_document(document)?.0);
    match message.header().opcode {
        OpCode::Query => Some(OpQuery::unwrap_query(document)),
        _ => Some(document),
    }
}

/// The length that a message at the front of `bytes` says it has when it is inflated; its own where it is not
/// compressed. Not checked: whoever inflates compares it with the limits.
#[inline]
#[must_use]
pub fn inflated_length(bytes: &[u8], length: usize) -> usize {
    const OPCODE_OFFSET: usize = 12;
    if read_i32(bytes, OPCODE_OFFSET) != Some(OpCode::Compressed as i32) {
        return length;
    }
    let declared = read_i32(bytes, HEADER_LENGTH + 4).and_then(|size| usize::try_from(size).ok());
    length.max(declared.map_or(0, |size| size.saturating_add(HEADER_LENGTH)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandMessage, Compressor, MAX_MESSAGE_SIZE, Message, compress_message};
    use document::doc;

    fn first_name(bytes: &[u8]) -> Option<String> {
        let message = MessageRef::parse(bytes, MAX_MESSAGE_SIZE).expect("a frame");
        Some(peek_command(message)?.first()?.name().to_owned())
    }

    fn message() -> Message {
        CommandMessage::new(doc! { "ping": 1, "text": ("x".repeat(5000)) }.to_buf().as_raw()).finish(7)
    }

    #[test]
    fn the_first_field_is_found_whatever_follows() {
        let mut bytes = message().into_bytes();
        assert_eq!(first_name(&bytes).as_deref(), Some("ping"));
        let end = bytes.len();
        bytes[40..end - 1].fill(0xff);
        assert_eq!(first_name(&bytes).as_deref(), Some("ping"), "the rest is damaged");
        let query = CommandMessage::legacy(
            "admin",
            doc! { "$query": { "hello": 1 }, "$readPreference": {} }.to_buf().as_raw(),
            9,
        );
        assert_eq!(first_name(query.bytes()).as_deref(), Some("hello"));
    }

    #[test]
    fn every_truncation_is_survived() {
        let messages = [message(), CommandMessage::legacy("admin", doc! { "hello": 1 }.to_buf().as_raw(), 9)];
        for whole in messages.map(Message::into_bytes) {
            for length in 16..whole.len() {
                let mut bytes = whole[..length].to_vec();
                bytes[..4].copy_from_slice(&(length as i32).to_le_bytes());
                assert_eq!(first_name(&bytes), None, "{length} of {} bytes", whole.len());
            }
        }
    }

    #[test]
    fn the_declared_length_of_what_is_compressed() {
        let whole = message();
        let length = whole.bytes().len();
        assert_eq!(inflated_length(whole.bytes(), length), length);
        let compressed = compress_message(&whole, Compressor::Zlib, Vec::new()).expect("memory suffices");
        assert!(compressed.bytes().len() < length / 2);
        assert_eq!(inflated_length(compressed.bytes(), compressed.bytes().len()), length);
        let mut negative = compressed.into_bytes();
        negative[20..24].copy_from_slice(&(-5_i32).to_le_bytes());
        assert_eq!(inflated_length(&negative, 100), 100);
    }
}
