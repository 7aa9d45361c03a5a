//! One whole message, owned or borrowed.

use crate::bytes::{patch_i32, read_i32, read_u32, wire_length};
use crate::{HEADER_LENGTH, MessageHeader, OpCode, OpMsgFlags, ReplyFormat, WireError};

const LENGTH_OFFSET: usize = 0;
const REQUEST_ID_OFFSET: usize = 4;
const RESPONSE_TO_OFFSET: usize = 8;
pub(crate) const FLAGS_OFFSET: usize = HEADER_LENGTH;
pub(crate) const CHECKSUM_LENGTH: usize = 4;

/// The bytes of one whole message, borrowed, with its header read.
#[derive(Clone, Copy, Debug)]
pub struct MessageRef<'a> {
    header: MessageHeader,
    bytes: &'a [u8],
}

impl<'a> MessageRef<'a> {
    /// Takes `bytes` as exactly one message.
    ///
    /// # Errors
    /// As [`MessageHeader::parse`]; [`WireError::Truncated`] and [`WireError::TrailingBytes`] when there are
    /// fewer or more bytes than the header says.
    pub fn parse(bytes: &'a [u8], max_message_size: usize) -> Result<Self, WireError> {
        let truncated = |part| WireError::Truncated { part, length: bytes.len() };
        let header = MessageHeader::parse(bytes, max_message_size)?.ok_or_else(|| truncated("header"))?;
        match bytes.len().checked_sub(header.length) {
            Some(0) => Ok(Self { header, bytes }),
            Some(count) => Err(WireError::TrailingBytes { count }),
            None => Err(truncated("body")),
        }
    }

    /// Splits one message off the front of received bytes; `None` when it is not whole yet.
    ///
    /// # Errors
    /// As [`MessageHeader::parse`].
    #[inline]
    pub fn split_first(bytes: &'a [u8], max_message_size: usize) -> Result<Option<Self>, WireError> {
        let Some(header) = MessageHeader::parse(bytes, max_message_size)? else { return Ok(None) };
        Ok(bytes.get(..header.length).map(|bytes| Self { header, bytes }))
    }

    /// The header.
    #[inline]
    #[must_use]
    pub const fn header(self) -> MessageHeader {
        self.header
    }

    /// All bytes, header included.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes behind the header.
    #[inline]
    #[must_use]
    pub fn payload(self) -> &'a [u8] {
        self.bytes.get(HEADER_LENGTH..).expect("a message begins with a whole header")
    }

    /// The flags of an OP_MSG, unchecked; no flags for the other operations.
    #[inline]
    #[must_use]
    pub fn flags(self) -> OpMsgFlags {
        match self.header.opcode {
            OpCode::Msg => OpMsgFlags::unchecked(read_u32(self.bytes, FLAGS_OFFSET).unwrap_or(0)),
            _ => OpMsgFlags::NONE,
        }
    }

    /// Whether the sender of this request waits for a reply.
    #[inline]
    #[must_use]
    pub fn expects_reply(self) -> bool {
        !self.flags().contains(OpMsgFlags::MORE_TO_COME)
    }

    /// Whether the sender of this request takes several replies.
    #[inline]
    #[must_use]
    pub fn exhaust_allowed(self) -> bool {
        self.flags().contains(OpMsgFlags::EXHAUST_ALLOWED)
    }

    /// The format in which the reply to this request is written.
    #[inline]
    #[must_use]
    pub fn reply_format(self) -> ReplyFormat {
        match self.header.opcode {
            OpCode::Query => ReplyFormat::Legacy,
            _ => ReplyFormat::Msg { checksum: self.flags().contains(OpMsgFlags::CHECKSUM_PRESENT) },
        }
    }
}

/// The bytes of one whole message. Ids and checksum are filled in by [`Message::seal`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Takes bytes that begin with a header; fixes the length field. Meant for bytes that were just written.
    pub(crate) fn from_written(mut bytes: Vec<u8>) -> Self {
        let length = wire_length(bytes.len());
        patch_i32(&mut bytes, LENGTH_OFFSET, length);
        Self { bytes }
    }

    /// Takes received bytes as one message.
    ///
    /// # Errors
    /// As [`MessageRef::parse`].
    pub fn from_bytes(bytes: Vec<u8>, max_message_size: usize) -> Result<Self, WireError> {
        MessageRef::parse(&bytes, max_message_size)?;
        Ok(Self { bytes })
    }

    /// All bytes, header included.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The buffer, to be sent or used again.
    #[inline]
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The borrowed view.
    ///
    /// # Errors
    /// As [`MessageRef::parse`].
    pub fn as_ref(&self, max_message_size: usize) -> Result<MessageRef<'_>, WireError> {
        MessageRef::parse(&self.bytes, max_message_size)
    }

    /// The sender's number of this message.
    #[must_use]
    pub fn request_id(&self) -> i32 {
        read_i32(&self.bytes, REQUEST_ID_OFFSET).unwrap_or(0)
    }

    /// The message that this one answers.
    #[must_use]
    pub fn response_to(&self) -> i32 {
        read_i32(&self.bytes, RESPONSE_TO_OFFSET).unwrap_or(0)
    }

    /// The flags of an OP_MSG; none for other operations.
    #[must_use]
    pub fn flags(&self) -> OpMsgFlags {
        match read_i32(&self.bytes, 12) {
            Some(opcode) if opcode == OpCode::Msg as i32 => {
                OpMsgFlags::unchecked(read_u32(&self.bytes, FLAGS_OFFSET).unwrap_or(0))
            }
            _ => OpMsgFlags::NONE,
        }
    }

    /// Replaces the flags of an OP_MSG, except for the checksum flag, which belongs to the layout.
    pub fn set_flags(&mut self, flags: OpMsgFlags) {
        if !matches!(read_i32(&self.bytes, 12), Some(opcode) if opcode == OpCode::Msg as i32) {
            return;
        }
        let layout = self.flags().bits() & OpMsgFlags::CHECKSUM_PRESENT.bits();
        let bits = flags.without(OpMsgFlags::CHECKSUM_PRESENT).bits() | layout;
        patch_i32(&mut self.bytes, FLAGS_OFFSET, bits.cast_signed());
    }

    /// Whether another reply follows this one.
    #[inline]
    #[must_use]
    pub fn more_to_come(&self) -> bool {
        self.flags().contains(OpMsgFlags::MORE_TO_COME)
    }

    /// Fills in the ids and, where the layout has one, the checksum. The last step before a message is sent.
    #[inline]
    pub fn seal(&mut self, request_id: i32, response_to: i32) {
        patch_i32(&mut self.bytes, REQUEST_ID_OFFSET, request_id);
        patch_i32(&mut self.bytes, RESPONSE_TO_OFFSET, response_to);
        if self.flags().contains(OpMsgFlags::CHECKSUM_PRESENT) {
            let end = self.bytes.len().saturating_sub(CHECKSUM_LENGTH);
            let checksum = crc32c::crc32c(self.bytes.get(..end).unwrap_or_default());
            patch_i32(&mut self.bytes, end, checksum.cast_signed());
        }
    }
}
