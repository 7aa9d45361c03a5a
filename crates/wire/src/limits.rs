//! Sizes and versions that `hello` announces and the parser enforces.

/// Bytes of a message header.
pub const HEADER_LENGTH: usize = 16;
/// The longest message in bytes, header included: `maxMessageSizeBytes`.
pub const MAX_MESSAGE_SIZE: usize = 48_000_000;
/// The longest document in a message: the largest stored one and 16 KiB for the command around it, as MongoDB
/// has it (`BSONObjMaxInternalSize`).
pub const MAX_COMMAND_SIZE: usize = document::MAX_DOCUMENT_SIZE + 16 * 1024;
/// A message of more bytes takes a while to inflate, check and read: not in an event loop.
pub const LONG_MESSAGE: usize = 32 * 1024;
/// The most write operations in one command: `maxWriteBatchSize`.
pub const MAX_WRITE_BATCH_SIZE: usize = 100_000;
/// The oldest protocol spoken: `minWireVersion`.
pub const MIN_WIRE_VERSION: i32 = 0;
/// The newest protocol spoken: `maxWireVersion`; 21 is MongoDB 7.0.
pub const MAX_WIRE_VERSION: i32 = 21;

const _: () = assert!(MAX_MESSAGE_SIZE > 2 * document::MAX_DOCUMENT_SIZE);
