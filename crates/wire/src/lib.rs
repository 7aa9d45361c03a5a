//! Message framing, OP_MSG, OP_QUERY (for the first `hello`), OP_COMPRESSED, checksums and error codes; no
//! I/O.
//!
//! ```text
//!   0        4          8           12       16
//!   ┌────────┬──────────┬───────────┬────────┬──────────────────────────────────────────────────┐
//!   │ length │ requestID│ responseTo│ opCode │ OP_MSG: flags u32 ‖ sections ‖ [CRC-32C u32]     │
//!   └────────┴──────────┴───────────┴────────┤ OP_COMPRESSED: opCode ‖ size ‖ compressor ‖ bytes│
//!    all little-endian                        └──────────────────────────────────────────────────┘
//!
//!   bytes ─▶ MessageHeader ─▶ MessageRef ─▶ (decompress) ─▶ OpMsg / OpQuery          a request comes in
//!   bytes ◀─ Message ◀─ seal ◀─ (body written in place) ◀─ ReplyBuilder               its reply goes out
//! ```
//!
//! # Vocabulary
//! A *message* is one whole frame, header included: [`Message`] owns it, [`MessageRef`] borrows it. A
//! *section* of an OP_MSG is its body document (kind 0) or a *document sequence* (kind 1). To *seal* a
//! message is to fill in what is known last: length, ids and checksum. *Exhaust* replies follow each other
//! without further requests (`moreToCome`).
//!
//! # Invariants
//! - Any bytes give a value or a [`WireError`], never a panic, and never an allocation beyond the limits the
//!   caller names.
//! - What [`OpMsg::parse`] accepts holds valid BSON only, so that later layers may trust it.
//! - A reply is written once, in place, into one buffer.
//!
//! # Not here
//! No sockets, no buffering of partial messages (`transport`), no meaning of commands (`commands`).
//!
//! Source: MongoDB manual, "MongoDB Wire Protocol", and the driver specifications "OP_MSG" and "Wire
//! Compression".

mod bytes;
mod client;
mod compression;
mod error;
mod error_code;
mod flags;
mod header;
mod limits;
mod message;
mod op_msg;
mod op_query;
mod peek;
mod reply;

pub use client::{CommandMessage, parse_reply};
pub use compression::{Compressor, compress_message, compressor_of, decompress_message};
pub use error::WireError;
pub use error_code::{ErrorCode, code_name};
pub use flags::OpMsgFlags;
pub use header::{MessageHeader, OpCode};
pub use limits::{
    HEADER_LENGTH, LONG_MESSAGE, MAX_COMMAND_SIZE, MAX_MESSAGE_SIZE, MAX_WIRE_VERSION, MAX_WRITE_BATCH_SIZE,
    MIN_WIRE_VERSION,
};
pub use message::{Message, MessageRef};
pub use op_msg::{DocumentSequence, Documents, OpMsg};
pub use op_query::OpQuery;
pub use peek::{inflated_length, peek_command};
pub use reply::{ReplyBuilder, ReplyFormat};
