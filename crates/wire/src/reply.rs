//! Replies, written once and in place.

use crate::message::CHECKSUM_LENGTH;
use crate::{HEADER_LENGTH, Message, MessageHeader, OpCode, OpMsgFlags, WireError, code_name};
use document::DocumentBuilder;

/// Flags, kind byte.
const MSG_BODY_OFFSET: usize = HEADER_LENGTH + 5;
/// Response flags, cursor id, starting point, count.
const LEGACY_BODY_OFFSET: usize = HEADER_LENGTH + 20;
/// OP_REPLY response flag: the server can wait for data (`AwaitCapable`), which every server says.
const AWAIT_CAPABLE: i32 = 8;

/// How a reply is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFormat {
    /// OP_MSG, with a checksum when the request had one.
    Msg {
        /// Whether the reply ends with a CRC-32C.
        checksum: bool,
    },
    /// OP_REPLY, the answer to OP_QUERY.
    Legacy,
}

/// Writes one reply into one buffer: the header first, then the body document by [`ReplyBuilder::body`]
/// directly behind it.
///
/// ```
/// # use wire::{ReplyBuilder, ReplyFormat};
/// let mut reply = ReplyBuilder::new(Vec::new(), ReplyFormat::Msg { checksum: false });
/// reply.body().append("ok", 1.0);
/// let mut message = reply.finish();
/// message.seal(1, 7);
/// # assert_eq!(message.response_to(), 7);
/// ```
#[derive(Debug)]
pub struct ReplyBuilder {
    bytes: Vec<u8>,
    format: ReplyFormat,
}

impl ReplyBuilder {
    /// Begins a reply in `buffer`, whose old contents are dropped and whose capacity is used.
    #[must_use]
    pub fn new(mut buffer: Vec<u8>, format: ReplyFormat) -> Self {
        buffer.clear();
        let opcode = match format {
            ReplyFormat::Msg { .. } => OpCode::Msg,
            ReplyFormat::Legacy => OpCode::Reply,
        };
        let header = MessageHeader { length: 0, request_id: 0, response_to: 0, opcode };
        buffer.extend_from_slice(&header.to_bytes());
        match format {
            ReplyFormat::Msg { checksum } => {
                let flags = if checksum { OpMsgFlags::CHECKSUM_PRESENT } else { OpMsgFlags::NONE };
                buffer.extend_from_slice(&flags.bits().to_le_bytes());
                buffer.push(0);
            }
            ReplyFormat::Legacy => {
                buffer.extend_from_slice(&AWAIT_CAPABLE.to_le_bytes());
                buffer.extend_from_slice(&[0; 12]);
                buffer.extend_from_slice(&1i32.to_le_bytes());
            }
        }
        Self { bytes: buffer, format }
    }

    /// The layout.
    #[must_use]
    pub const fn format(&self) -> ReplyFormat {
        self.format
    }

    /// Begins the body, dropping what was written of an earlier one. It must be written exactly once before
    /// [`ReplyBuilder::finish`].
    #[inline]
    pub fn body(&mut self) -> DocumentBuilder<'_> {
        self.bytes.truncate(self.body_offset());
        DocumentBuilder::new(&mut self.bytes)
    }

    /// The buffer behind the header, for builders that keep the whole `Vec`: the body begins at
    /// [`ReplyBuilder::body_offset`].
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Where the body begins in the buffer.
    #[inline]
    #[must_use]
    pub const fn body_offset(&self) -> usize {
        match self.format {
            ReplyFormat::Msg { .. } => MSG_BODY_OFFSET,
            ReplyFormat::Legacy => LEGACY_BODY_OFFSET,
        }
    }

    /// Bytes of the body written so far.
    #[must_use]
    pub fn body_length(&self) -> usize {
        self.bytes.len().saturating_sub(self.body_offset())
    }

    /// Ends the reply. A body that was never begun is sent as an empty document. Ids and checksum are filled
    /// in by [`Message::seal`].
    #[must_use]
    pub fn finish(mut self) -> Message {
        if self.body_length() == 0 {
            self.body().finish();
        }
        if self.format == (ReplyFormat::Msg { checksum: true }) {
            self.bytes.extend_from_slice(&[0; CHECKSUM_LENGTH]);
        }
        Message::from_written(self.bytes)
    }

    /// A whole error reply: `{ok: 0, errmsg, code, codeName}`.
    #[must_use]
    pub fn error(buffer: Vec<u8>, format: ReplyFormat, code: i32, message: &str) -> Message {
        let mut reply = Self::new(buffer, format);
        reply
            .body()
            .append("ok", 0.0)
            .append("errmsg", message)
            .append("code", code)
            .append("codeName", code_name(code).as_ref());
        reply.finish()
    }

    /// The reply to a request that could not be read.
    #[must_use]
    pub fn wire_error(buffer: Vec<u8>, format: ReplyFormat, error: &WireError) -> Message {
        Self::error(buffer, format, error.code(), &error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_MESSAGE_SIZE, OpMsg, parse_reply};
    use document::doc;

    fn check(format: ReplyFormat, more_to_come: bool) {
        let mut reply = ReplyBuilder::new(vec![9; 100], format);
        reply.body().append("dropped", 1);
        reply.body().append("ok", 1.0);
        let mut message = reply.finish();
        if more_to_come {
            message.set_flags(OpMsgFlags::MORE_TO_COME);
        }
        message.seal(5, 4);
        let view = message.as_ref(MAX_MESSAGE_SIZE).expect("a reply is a message");
        assert_eq!((view.header().request_id, view.header().response_to), (5, 4));
        assert_eq!(parse_reply(view).expect("a reply can be read").to_document(), doc! { "ok": 1.0 });
        assert_eq!(message.more_to_come(), more_to_come && format != ReplyFormat::Legacy);
        if let ReplyFormat::Msg { checksum } = format {
            assert_eq!(OpMsg::parse(view).unwrap().checksum.is_some(), checksum);
        }
    }

    #[test]
    fn every_format() {
        for more_to_come in [false, true] {
            check(ReplyFormat::Msg { checksum: false }, more_to_come);
            check(ReplyFormat::Msg { checksum: true }, more_to_come);
            check(ReplyFormat::Legacy, more_to_come);
        }
    }

    #[test]
    fn errors_name_their_code() {
        let message = ReplyBuilder::error(Vec::new(), ReplyFormat::Legacy, 59, "no such command: 'x'");
        let body = parse_reply(message.as_ref(MAX_MESSAGE_SIZE).unwrap()).unwrap().to_document();
        let expect =
            doc! { "ok": 0.0, "errmsg": "no such command: 'x'", "code": 59, "codeName": "CommandNotFound" };
        assert_eq!(body, expect);
    }

    #[test]
    fn flags_set_later_keep_the_checksum() {
        let mut message = ReplyBuilder::new(Vec::new(), ReplyFormat::Msg { checksum: true }).finish();
        message.set_flags(OpMsgFlags::MORE_TO_COME);
        message.seal(1, 2);
        let parsed =
            OpMsg::parse(message.as_ref(MAX_MESSAGE_SIZE).unwrap()).expect("the checksum still fits");
        assert!(parsed.flags.contains(OpMsgFlags::MORE_TO_COME) && parsed.checksum.is_some());
    }
}
