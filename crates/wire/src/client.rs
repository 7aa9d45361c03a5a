//! The client's side: requests are written and replies are read. For load programs and tests.

use crate::bytes::{patch_i32, split_document, wire_length};
use crate::message::CHECKSUM_LENGTH;
use crate::{HEADER_LENGTH, Message, MessageHeader, MessageRef, OpCode, OpMsg, OpMsgFlags, WireError};
use document::RawDocument;

/// Writes one OP_MSG request.
#[derive(Debug)]
pub struct CommandMessage {
    bytes: Vec<u8>,
    flags: OpMsgFlags,
}

impl CommandMessage {
    /// Begins a request whose body is `command`, which must name its database in `$db`.
    #[must_use]
    pub fn new(command: RawDocument<'_>) -> Self {
        Self::in_buffer(Vec::new(), command)
    }

    /// As [`CommandMessage::new`], in a buffer used before.
    #[must_use]
    pub fn in_buffer(mut buffer: Vec<u8>, command: RawDocument<'_>) -> Self {
        buffer.clear();
        let header = MessageHeader { length: 0, request_id: 0, response_to: 0, opcode: OpCode::Msg };
        buffer.extend_from_slice(&header.to_bytes());
        buffer.extend_from_slice(&[0; 5]);
        buffer.extend_from_slice(command.as_bytes());
        Self { bytes: buffer, flags: OpMsgFlags::NONE }
    }

    /// Adds a document sequence.
    #[must_use]
    pub fn sequence<'d>(
        mut self,
        identifier: &str,
        documents: impl IntoIterator<Item = RawDocument<'d>>,
    ) -> Self {
        self.bytes.push(1);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(identifier.as_bytes());
        self.bytes.push(0);
        for document in documents {
            self.bytes.extend_from_slice(document.as_bytes());
        }
        let size = wire_length(self.bytes.len() - start);
        patch_i32(&mut self.bytes, start, size);
        self
    }

    /// Adds flags; with [`OpMsgFlags::CHECKSUM_PRESENT`] the message gets a checksum.
    #[must_use]
    pub fn flags(mut self, flags: OpMsgFlags) -> Self {
        self.flags = self.flags.with(flags);
        self
    }

    /// Ends the request and numbers it.
    #[must_use]
    pub fn finish(mut self, request_id: i32) -> Message {
        patch_i32(&mut self.bytes, HEADER_LENGTH, self.flags.bits().cast_signed());
        if self.flags.contains(OpMsgFlags::CHECKSUM_PRESENT) {
            self.bytes.extend_from_slice(&[0; CHECKSUM_LENGTH]);
        }
        let mut message = Message::from_written(self.bytes);
        message.seal(request_id, 0);
        message
    }

    /// An OP_QUERY that runs `command` on `database`, as old clients say `isMaster`.
    #[must_use]
    pub fn legacy(database: &str, command: RawDocument<'_>, request_id: i32) -> Message {
        let header = MessageHeader { length: 0, request_id, response_to: 0, opcode: OpCode::Query };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(database.as_bytes());
        bytes.extend_from_slice(b".$cmd\0");
        bytes.extend_from_slice(&0i32.to_le_bytes());
        bytes.extend_from_slice(&(-1i32).to_le_bytes());
        bytes.extend_from_slice(command.as_bytes());
        Message::from_written(bytes)
    }
}

/// The body of a reply, OP_MSG or OP_REPLY.
///
/// # Errors
/// As [`OpMsg::parse`]; [`WireError::OpCode`] for other operations.
pub fn parse_reply(message: MessageRef<'_>) -> Result<RawDocument<'_>, WireError> {
    match message.header().opcode {
        OpCode::Msg => Ok(OpMsg::parse(message)?.body),
        OpCode::Reply => {
            let truncated = WireError::Truncated { part: "reply document", length: message.bytes().len() };
            let rest = message.bytes().get(HEADER_LENGTH + 20..).unwrap_or_default();
            let (document, _) = split_document(rest).ok_or(truncated)?;
            RawDocument::parse(document)
                .map_err(|error| WireError::Document { part: "reply document", error })
        }
        other => Err(WireError::OpCode { opcode: other as i32 }),
    }
}
