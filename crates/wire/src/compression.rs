//! OP_COMPRESSED: another message, made smaller.
//!
//! ```text
//!   header (opCode 2012) ‖ original opCode i32 ‖ uncompressed size i32 ‖ compressor u8 ‖ compressed payload
//! ```
//! The uncompressed size counts the payload without its header. Inflation is bounded by it, and it by the
//! limit.

use crate::bytes::read_i32;
use crate::{HEADER_LENGTH, Message, MessageHeader, MessageRef, OpCode, WireError};
use std::io::{Read, Write};

/// Original opcode, uncompressed size, compressor.
const COMPRESSED_PREFIX: usize = 9;
const COMPRESSOR_OFFSET: usize = HEADER_LENGTH + 8;
/// The most that a buffer is reserved for before any byte of it was inflated.
const FIRST_RESERVE: usize = 1024 * 1024;
/// Three bytes of Snappy give at most 64: a larger claim is refused before memory is touched.
const SNAPPY_MAX_RATIO: usize = 22;
/// Fast and good enough: messages are short-lived.
const ZSTD_LEVEL: i32 = 3;

/// A compressor of messages. The client's order of preference decides (specification "Wire Compression").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compressor {
    /// No compression, in the compressed layout.
    Noop = 0,
    /// Snappy.
    Snappy = 1,
    /// Zlib.
    Zlib = 2,
    /// Zstandard.
    Zstd = 3,
}

impl Compressor {
    /// The ones that `hello` may agree on, in the server's order of preference.
    pub const NEGOTIABLE: [Compressor; 3] = [Self::Snappy, Self::Zstd, Self::Zlib];

    /// The name that `hello` and `net.compression.compressors` use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noop => "noop",
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }

    /// The compressor of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Noop, Self::Snappy, Self::Zlib, Self::Zstd].into_iter().find(|known| known.name() == name)
    }

    /// The compressor of this number.
    ///
    /// # Errors
    /// [`WireError::Compressor`] for others.
    pub const fn from_id(id: u8) -> Result<Self, WireError> {
        Ok(match id {
            0 => Self::Noop,
            1 => Self::Snappy,
            2 => Self::Zlib,
            3 => Self::Zstd,
            _ => return Err(WireError::Compressor { id }),
        })
    }

    /// The number that messages carry.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    fn compress(self, payload: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        match self {
            Self::Noop => out.extend_from_slice(payload),
            Self::Snappy => {
                let start = out.len();
                out.resize(start + snap::raw::max_compress_len(payload.len()), 0);
                let (_, target) = out.split_at_mut(start);
                let written = snap::raw::Encoder::new().compress(payload, target)?;
                out.truncate(start + written);
            }
            Self::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(out, flate2::Compression::default());
                encoder.write_all(payload)?;
                encoder.finish()?;
            }
            Self::Zstd => out.extend_from_slice(&zstd::bulk::compress(payload, ZSTD_LEVEL)?),
        }
        Ok(())
    }

    /// Appends exactly `declared` bytes to `out` or fails, having used no more memory than a small multiple
    /// of what came.
    fn decompress(self, bytes: &[u8], declared: usize, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Noop => {
                if bytes.len() != declared {
                    return Err(format!("found {} bytes", bytes.len()));
                }
                out.extend_from_slice(bytes);
                Ok(())
            }
            Self::Snappy => {
                let length = snap::raw::decompress_len(bytes).map_err(|error| error.to_string())?;
                if length != declared {
                    return Err(format!("found {length} bytes"));
                }
                if declared > bytes.len().saturating_mul(SNAPPY_MAX_RATIO) {
                    return Err("it cannot hold that much".to_owned());
                }
                let start = out.len();
                out.resize(start + declared, 0);
                let (_, target) = out.split_at_mut(start);
                snap::raw::Decoder::new().decompress(bytes, target).map_err(|error| error.to_string())?;
                Ok(())
            }
            Self::Zlib => inflate(flate2::read::ZlibDecoder::new(bytes), declared, out),
            Self::Zstd => {
                // One shot into a buffer of the declared size: a streaming decoder would allocate the frame's
                // window.
                let mut payload = Vec::new();
                payload.try_reserve_exact(declared).map_err(|error| error.to_string())?;
                let written = zstd::bulk::Decompressor::new()
                    .and_then(|mut decoder| decoder.decompress_to_buffer(bytes, &mut payload))
                    .map_err(|error| error.to_string())?;
                if written != declared {
                    return Err(format!("found {written} bytes"));
                }
                out.extend_from_slice(&payload);
                Ok(())
            }
        }
    }
}

/// Reads one byte more than declared at most, so that a longer stream is noticed and never stored.
fn inflate(reader: impl Read, declared: usize, out: &mut Vec<u8>) -> Result<(), String> {
    out.reserve(declared.min(FIRST_RESERVE));
    let limit = u64::try_from(declared).unwrap_or(u64::MAX).saturating_add(1);
    let read = reader.take(limit).read_to_end(out).map_err(|error| error.to_string())?;
    match read.cmp(&declared) {
        std::cmp::Ordering::Less => Err(format!("found {read} bytes")),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err("found more bytes".to_owned()),
    }
}

/// Compresses a sealed message into `buffer`, whose old contents are dropped. The ids stay.
///
/// # Errors
/// [`WireError::Truncated`] when `message` is no whole message, [`WireError::Decompress`] when the compressor
/// fails (for lack of memory).
pub fn compress_message(
    message: &Message,
    compressor: Compressor,
    mut buffer: Vec<u8>,
) -> Result<Message, WireError> {
    let bytes = message.bytes();
    let (Some(payload), Some(opcode)) = (bytes.get(HEADER_LENGTH..), read_i32(bytes, 12)) else {
        return Err(WireError::Truncated { part: "header", length: bytes.len() });
    };
    let header = MessageHeader {
        length: 0,
        request_id: message.request_id(),
        response_to: message.response_to(),
        opcode: OpCode::Compressed,
    };
    buffer.clear();
    buffer.extend_from_slice(&header.to_bytes());
    buffer.extend_from_slice(&opcode.to_le_bytes());
    buffer.extend_from_slice(&crate::bytes::wire_length(payload.len()).to_le_bytes());
    buffer.push(compressor.id());
    compressor.compress(payload, &mut buffer).map_err(|error| WireError::Decompress {
        compressor: compressor.name(),
        declared: payload.len(),
        reason: error.to_string(),
    })?;
    Ok(Message::from_written(buffer))
}

/// The compressor of an OP_COMPRESSED message, before anything is inflated; `None` when the message ends
/// before it is named.
///
/// # Errors
/// [`WireError::Compressor`] for unknown ones.
pub fn compressor_of(message: MessageRef<'_>) -> Result<Option<Compressor>, WireError> {
    message.bytes().get(COMPRESSOR_OFFSET).map(|id| Compressor::from_id(*id)).transpose()
}

/// Inflates an OP_COMPRESSED message into `buffer`, whose old contents are dropped; also tells the
/// compressor.
///
/// # Errors
/// All fatal: unknown compressor, sizes that do not agree or exceed `max_message_size`, unreadable data,
/// nested compression.
pub fn decompress_message(
    message: MessageRef<'_>,
    max_message_size: usize,
    mut buffer: Vec<u8>,
) -> Result<(Message, Compressor), WireError> {
    let bytes = message.bytes();
    let truncated = || WireError::Truncated { part: "compression header", length: bytes.len() };
    let opcode = read_i32(bytes, HEADER_LENGTH).ok_or_else(truncated)?;
    let declared = read_i32(bytes, HEADER_LENGTH + 4).ok_or_else(truncated)?;
    let compressor = *bytes.get(COMPRESSOR_OFFSET).ok_or_else(truncated)?;
    let data = bytes.get(HEADER_LENGTH + COMPRESSED_PREFIX..).ok_or_else(truncated)?;
    let opcode = OpCode::parse(opcode)?;
    if opcode == OpCode::Compressed {
        return Err(WireError::NestedCompression);
    }
    let compressor = Compressor::from_id(compressor)?;
    let maximum = max_message_size.saturating_sub(HEADER_LENGTH);
    let size = usize::try_from(declared)
        .ok()
        .filter(|size| *size <= maximum)
        .ok_or(WireError::DeclaredSize { declared: i64::from(declared), maximum })?;
    let header = MessageHeader { length: HEADER_LENGTH + size, opcode, ..message.header() };
    buffer.clear();
    buffer.extend_from_slice(&header.to_bytes());
    compressor.decompress(data, size, &mut buffer).map_err(|reason| WireError::Decompress {
        compressor: compressor.name(),
        declared: size,
        reason,
    })?;
    Ok((Message::from_written(buffer), compressor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandMessage, MAX_MESSAGE_SIZE};
    use document::doc;

    const ALL: [Compressor; 4] = [Compressor::Noop, Compressor::Snappy, Compressor::Zlib, Compressor::Zstd];

    fn message(text_length: usize) -> Message {
        let text: String = (0..text_length).map(|index| char::from(b'a' + (index % 23) as u8)).collect();
        CommandMessage::new(doc! { "ping": 1, "text": text }.to_buf().as_raw()).finish(77)
    }

    fn decompress(bytes: &[u8]) -> Result<(Message, Compressor), WireError> {
        decompress_message(MessageRef::parse(bytes, MAX_MESSAGE_SIZE)?, MAX_MESSAGE_SIZE, vec![1; 50])
    }

    #[test]
    fn round_trips() {
        for compressor in ALL {
            for length in [0, 1, 1000, 3_000_000] {
                let original = message(length);
                let compressed =
                    compress_message(&original, compressor, vec![1; 50]).expect("memory suffices");
                let (back, used) = decompress(compressed.bytes()).expect("own output can be read");
                assert_eq!(used, compressor);
                assert_eq!(back, original, "{} changed a message of {length} bytes", compressor.name());
                let small = compressor == Compressor::Noop || length < 1000;
                assert!(
                    small || compressed.bytes().len() < original.bytes().len() / 2,
                    "nothing was compressed"
                );
            }
        }
    }

    /// Changes the declared size of a compressed message by `delta`.
    fn declare(compressor: Compressor, delta: i32) -> Result<(Message, Compressor), WireError> {
        let original = message(5000);
        let mut bytes = compress_message(&original, compressor, Vec::new()).unwrap().into_bytes();
        let declared = original.bytes().len() as i32 - 16 + delta;
        bytes[20..24].copy_from_slice(&declared.to_le_bytes());
        decompress(&bytes)
    }

    #[test]
    fn declared_sizes_are_not_trusted() {
        for compressor in ALL {
            for delta in [-1, 1, -4000, 10_000_000] {
                let error = declare(compressor, delta).expect_err("a wrong size was accepted");
                assert!(
                    matches!(error, WireError::Decompress { .. }),
                    "{} with {delta} bytes more gave {error:?}",
                    compressor.name()
                );
            }
            for delta in [-1_000_000, i32::MAX - 6000] {
                let error = declare(compressor, delta).expect_err("an impossible size was accepted");
                assert!(matches!(error, WireError::DeclaredSize { .. }), "{error:?}");
            }
        }
    }

    #[test]
    fn truncated_and_nested_messages_are_refused() {
        for compressor in ALL {
            let whole = compress_message(&message(5000), compressor, Vec::new()).unwrap();
            for length in [16, 17, 24, 25, 26, whole.bytes().len() - 1] {
                let mut bytes = whole.bytes()[..length].to_vec();
                bytes[..4].copy_from_slice(&(length as i32).to_le_bytes());
                assert!(decompress(&bytes).is_err(), "{length} bytes of {} were accepted", compressor.name());
            }
            let twice = compress_message(&whole, compressor, Vec::new()).unwrap();
            assert_eq!(decompress(twice.bytes()).unwrap_err(), WireError::NestedCompression);
        }
    }

    #[test]
    fn names_and_numbers() {
        for compressor in ALL {
            assert_eq!(Compressor::from_name(compressor.name()), Some(compressor));
            assert_eq!(Compressor::from_id(compressor.id()), Ok(compressor));
        }
        assert_eq!(Compressor::from_id(4), Err(WireError::Compressor { id: 4 }));
    }
}
