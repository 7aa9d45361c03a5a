//! The sixteen bytes in front of every message.

use crate::bytes::wire_length;
use crate::{HEADER_LENGTH, WireError};

/// The operations that are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum OpCode {
    /// Reply to an OP_QUERY.
    Reply = 1,
    /// The legacy query; only commands (`hello`, `isMaster`) are accepted.
    Query = 2004,
    /// Another message, compressed.
    Compressed = 2012,
    /// Requests and replies.
    Msg = 2013,
}

impl OpCode {
    /// The operation of this number.
    ///
    /// # Errors
    /// [`WireError::OpCode`] for all others.
    pub const fn parse(opcode: i32) -> Result<Self, WireError> {
        Ok(match opcode {
            1 => Self::Reply,
            2004 => Self::Query,
            2012 => Self::Compressed,
            2013 => Self::Msg,
            _ => return Err(WireError::OpCode { opcode }),
        })
    }
}

/// A message's length, ids and operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Bytes of the whole message, header included; within the limits once parsed.
    pub length: usize,
    /// The sender's number for this message.
    pub request_id: i32,
    /// The `request_id` that this message answers; 0 in requests.
    pub response_to: i32,
    /// The operation.
    pub opcode: OpCode,
}

impl MessageHeader {
    /// Reads a header off the front of `bytes`; `None` when there are fewer than sixteen.
    ///
    /// # Errors
    /// [`WireError::Length`] when the length is under sixteen or over `max_message_size`,
    /// [`WireError::OpCode`] for an unknown operation. Both can be told before the rest of the message is
    /// there.
    #[inline]
    pub fn parse(bytes: &[u8], max_message_size: usize) -> Result<Option<Self>, WireError> {
        let Some(fields) = Self::fields(bytes) else { return Ok(None) };
        let [length, request_id, response_to, opcode] = fields;
        let invalid = WireError::Length {
            length: i64::from(length),
            minimum: HEADER_LENGTH,
            maximum: max_message_size,
        };
        let Ok(length) = usize::try_from(length) else { return Err(invalid) };
        if length < HEADER_LENGTH || length > max_message_size {
            return Err(invalid);
        }
        Ok(Some(Self { length, request_id, response_to, opcode: OpCode::parse(opcode)? }))
    }

    #[inline]
    fn fields(bytes: &[u8]) -> Option<[i32; 4]> {
        let header: &[u8; HEADER_LENGTH] = bytes.first_chunk()?;
        let &[length, request_id, response_to, opcode] = header.as_chunks().0 else {
            unreachable!("four numbers")
        };
        Some([length, request_id, response_to, opcode].map(i32::from_le_bytes))
    }

    /// The header as it is sent.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        let fields = [wire_length(self.length), self.request_id, self.response_to, self.opcode as i32];
        for (target, field) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(fields) {
            *target = field.to_le_bytes();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_MESSAGE_SIZE;

    fn check(length: i32, opcode: i32, expect: Result<usize, i32>) {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&opcode.to_le_bytes());
        let found = MessageHeader::parse(&bytes, MAX_MESSAGE_SIZE);
        match expect {
            Ok(length) => {
                let header = found.expect("a good header").expect("a whole header");
                assert_eq!((header.length, header.request_id), (length, 7));
                assert_eq!(header.to_bytes().as_slice(), bytes);
            }
            Err(code) => {
                let error = found.expect_err("a bad header");
                assert_eq!((error.code(), error.is_fatal()), (code, true));
            }
        }
    }

    #[test]
    fn lengths_and_operations() {
        check(16, 2013, Ok(16));
        check(48_000_000, 2004, Ok(48_000_000));
        check(48_000_001, 2013, Err(17));
        check(15, 2013, Err(17));
        check(0, 2013, Err(17));
        check(-1, 2013, Err(17));
        check(i32::MIN, 2013, Err(17));
        check(100, 2001, Err(17));
    }

    #[test]
    fn a_partial_header_is_no_error() {
        for length in 0..16 {
            assert_eq!(MessageHeader::parse(&[0xff; 16][..length], MAX_MESSAGE_SIZE), Ok(None));
        }
    }
}
