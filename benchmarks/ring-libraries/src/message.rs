//! MongoDB wire messages, as far as an echo needs them: a header of four little-endian `i32` (length of the
//! message, its id, the id that it answers, opcode), then a body that nobody reads.

use std::io::{self, ErrorKind};

/// Largest message that MongoDB allows.
pub(crate) const LARGEST: usize = 48_000_000;
/// Size of the client's requests.
pub(crate) const REQUEST_BYTES: usize = 100;
pub(crate) const HEADER_BYTES: usize = 16;
const RESPONSE_TO: usize = 8;
const OP_MSG: i32 = 2013;
/// An OP_MSG with an empty document.
const SMALLEST: usize = 26;

/// A header's fields.
#[derive(Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) bytes: usize,
    pub(crate) id: i32,
    pub(crate) response_to: i32,
    pub(crate) opcode: i32,
}

impl Header {
    pub(crate) fn is_op_msg(&self) -> bool {
        self.opcode == OP_MSG
    }
}

/// The header of the first message, once the whole message is there.
///
/// # Errors
///
/// When the header's length is none that a message can have.
pub(crate) fn first(received: &[u8]) -> io::Result<Option<Header>> {
    let Some(header) = received.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let header = parse(header);
    if !(HEADER_BYTES..=LARGEST).contains(&header.bytes) {
        return Err(io::Error::new(ErrorKind::InvalidData, "a message's length is out of range"));
    }
    Ok(if header.bytes <= received.len() { Some(header) } else { None })
}

fn parse(header: &[u8; HEADER_BYTES]) -> Header {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *header;
    Header {
        bytes: u32::from_le_bytes([a, b, c, d]) as usize,
        id: i32::from_le_bytes([e, f, g, h]),
        response_to: i32::from_le_bytes([i, j, k, l]),
        opcode: i32::from_le_bytes([m, n, o, p]),
    }
}

/// An OP_MSG of this size whose body is an empty document and padding.
pub(crate) fn op_msg(bytes: usize, id: i32) -> Vec<u8> {
    let bytes = bytes.max(SMALLEST);
    let mut message = Vec::with_capacity(bytes);
    for field in [bytes as i32, id, 0, OP_MSG, 0] {
        message.extend_from_slice(&field.to_le_bytes());
    }
    message.extend_from_slice(&[0, 5, 0, 0, 0, 0]);
    message.resize(bytes, 0);
    message
}

/// Makes a message the answer to the request of this id.
pub(crate) fn answer_to(reply: &mut [u8], request_id: i32) {
    if let Some(field) = reply.get_mut(RESPONSE_TO..).and_then(<[u8]>::first_chunk_mut) {
        *field = request_id.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_when_all_of_it_is_there() {
        let mut message = op_msg(100, 7);
        answer_to(&mut message, 3);
        let check = |received: &[u8], expect: Option<usize>| {
            assert_eq!(
                first(received).unwrap().map(|header| header.bytes),
                expect,
                "{} bytes",
                received.len()
            );
        };
        check(&[], None);
        check(&message[..15], None);
        check(&message[..99], None);
        check(&message, Some(100));
        check(&[message.clone(), message.clone()].concat(), Some(100));
        let header = first(&message).unwrap().unwrap();
        assert_eq!(header, Header { bytes: 100, id: 7, response_to: 3, opcode: OP_MSG });
    }

    #[test]
    fn lengths_that_no_message_has_are_refused() {
        for length in [0_i32, 15, -1, LARGEST as i32 + 1] {
            let mut message = op_msg(100, 1);
            message[..4].copy_from_slice(&length.to_le_bytes());
            assert!(first(&message).is_err(), "a length of {length} was taken");
        }
    }
}
