//! What can be wrong with a message.

use crate::ErrorCode;
use document::DocumentError;
use thiserror::Error;

/// Why bytes are not an acceptable message.
///
/// [`WireError::is_fatal`] tells the two kinds apart: after a fatal one the stream of messages cannot be
/// trusted and the connection is closed without a reply; the others are answered with an error that carries
/// [`WireError::code`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// The header's length is smaller than a header or larger than the limit. Fatal.
    #[error("message length {length} is invalid, expected {minimum} to {maximum} bytes")]
    Length {
        /// What the header says.
        length: i64,
        /// The shortest message.
        minimum: usize,
        /// The longest message.
        maximum: usize,
    },
    /// An operation that is not spoken here. Fatal.
    #[error("unsupported opcode {opcode}, expected OP_MSG (2013), OP_QUERY (2004) or OP_COMPRESSED (2012)")]
    OpCode {
        /// What the header says.
        opcode: i32,
    },
    /// The message ends before a part that must be there. Fatal.
    #[error("message of {length} bytes ends inside its {part}")]
    Truncated {
        /// The part that is cut off.
        part: &'static str,
        /// The message's length.
        length: usize,
    },
    /// Bytes are left behind the last part. Fatal.
    #[error("message has {count} bytes behind its last section")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// A required flag bit (0 to 15) that is not known. Fatal.
    #[error("OP_MSG flags {flags:#010x} contain required bits that are not known")]
    Flags {
        /// All flags of the message.
        flags: u32,
    },
    /// The checksum does not fit the bytes. Fatal.
    #[error("OP_MSG checksum does not match contents: expected {expected:#010x}, found {found:#010x}")]
    Checksum {
        /// What the message says.
        expected: u32,
        /// What its bytes give.
        found: u32,
    },
    /// A section kind other than 0 and 1.
    #[error("unknown section kind {kind}, expected 0 (body) or 1 (document sequence)")]
    SectionKind {
        /// The kind byte.
        kind: u8,
    },
    /// No body section.
    #[error("OP_MSG messages must have a body")]
    NoBody,
    /// A second body section.
    #[error("multiple body sections in message")]
    SecondBody,
    /// Two document sequences of one name.
    #[error("duplicate document sequence: {identifier}")]
    DuplicateSequence {
        /// Their name.
        identifier: String,
    },
    /// More document sequences than any command has.
    #[error("message has more than {maximum} document sequences")]
    TooManySequences {
        /// The most that are read.
        maximum: usize,
    },
    /// A document sequence whose name is also a field of the body.
    #[error("duplicate field between body and document sequence {identifier}")]
    SequenceInBody {
        /// The name.
        identifier: String,
    },
    /// A document sequence whose size or name cannot be read. Fatal.
    #[error("document sequence is malformed: {reason}")]
    Sequence {
        /// What is wrong.
        reason: &'static str,
    },
    /// A document that is not valid BSON.
    #[error("{part}: {error}")]
    Document {
        /// Where the document stands.
        part: &'static str,
        /// What is wrong.
        error: DocumentError,
    },
    /// A document that is longer than any message may carry; its inside was not looked at.
    #[error(
        "BSONObj size: {length} (0x{length:X}) is invalid. Size must be between 0 and {}(16MB)",
        crate::MAX_COMMAND_SIZE
    )]
    DocumentTooLarge {
        /// Its length.
        length: usize,
    },
    /// A compressor that is not known or not allowed. Fatal.
    #[error("compressor id {id} is not supported here")]
    Compressor {
        /// The compressor's number.
        id: u8,
    },
    /// The declared size is not possible. Fatal.
    #[error("compressed message declares {declared} uncompressed bytes, expected at most {maximum}")]
    DeclaredSize {
        /// What the message says.
        declared: i64,
        /// The largest size.
        maximum: usize,
    },
    /// The compressed bytes cannot be read or give another size than declared. Fatal.
    #[error("{compressor} data does not give the declared {declared} bytes: {reason}")]
    Decompress {
        /// The compressor's name.
        compressor: &'static str,
        /// The declared size.
        declared: usize,
        /// What happened.
        reason: String,
    },
    /// A compressed message inside a compressed message. Fatal.
    #[error("a compressed message cannot contain a compressed message")]
    NestedCompression,
    /// Text that is not UTF-8.
    #[error("{part} is not valid UTF-8")]
    Utf8 {
        /// Where the text stands.
        part: &'static str,
    },
    /// An OP_QUERY that is no command.
    #[error("Unsupported OP_QUERY command: {namespace}. The client driver may require an upgrade")]
    LegacyQuery {
        /// The namespace of the query.
        namespace: String,
    },
}

impl WireError {
    /// Whether the connection must be closed without a reply.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        !matches!(
            self,
            Self::SectionKind { .. }
                | Self::NoBody
                | Self::SecondBody
                | Self::DuplicateSequence { .. }
                | Self::TooManySequences { .. }
                | Self::SequenceInBody { .. }
                | Self::Document { .. }
                | Self::DocumentTooLarge { .. }
                | Self::Utf8 { .. }
                | Self::LegacyQuery { .. }
        )
    }

    /// The number an error reply carries in `code`.
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::Length { .. }
            | Self::Truncated { .. }
            | Self::TrailingBytes { .. }
            | Self::OpCode { .. } => ErrorCode::ProtocolError.code(),
            Self::Flags { .. } => ErrorCode::IllegalOpMsgFlag.code(),
            Self::Checksum { .. } => ErrorCode::ChecksumMismatch.code(),
            Self::SecondBody => 40430,
            Self::DuplicateSequence { .. } => 40431,
            Self::SectionKind { .. } => 40432,
            Self::SequenceInBody { .. } => 40433,
            Self::NoBody => 40587,
            Self::Document { error: DocumentError::TooDeep { .. }, .. } => ErrorCode::Overflow.code(),
            Self::Document { .. } | Self::Utf8 { .. } => ErrorCode::InvalidBSON.code(),
            Self::DocumentTooLarge { .. } => ErrorCode::BSONObjectTooLarge.code(),
            Self::TooManySequences { .. }
            | Self::Sequence { .. }
            | Self::DeclaredSize { .. }
            | Self::Decompress { .. } => ErrorCode::BadValue.code(),
            Self::Compressor { .. } | Self::NestedCompression => ErrorCode::ProtocolError.code(),
            Self::LegacyQuery { .. } => ErrorCode::UnsupportedOpQueryCommand.code(),
        }
    }
}
