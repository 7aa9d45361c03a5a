//! Whole messages whose frames are as large as they may be.

use crate::operands::{fields, int};
use document::{Document, Value, doc};
use wire::{
    CommandMessage, Compressor, LONG_MESSAGE, MAX_COMMAND_SIZE, MAX_MESSAGE_SIZE, Message, compress_message,
};

/// A message, and the error code that it must be answered with, if the connection is not to be closed.
pub(crate) struct Frame {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) code: Option<i32>,
}

fn frame(name: &str, message: Message, code: Option<i32>) -> Frame {
    Frame { name: name.to_owned(), bytes: message.into_bytes(), code }
}

fn message(mut command: Document) -> Message {
    command.push("$db", "admin");
    CommandMessage::new(command.to_buf().as_raw()).finish(1)
}

/// A command with as many fields as `bytes` hold.
fn with_fields(command: &str, bytes: usize) -> Document {
    const BYTES_PER_FIELD: usize = 14;
    let mut many = doc! { command: 1 };
    many.extend(fields("f", bytes / BYTES_PER_FIELD, int));
    many
}

pub(crate) fn all() -> Vec<Frame> {
    const UNKNOWN_FIELD: i32 = 40415;
    const TOO_LARGE: i32 = 10334;
    let mut frames = Vec::new();
    for command in ["hello", "ping", "isMaster", "nonsense"] {
        let code = (command == "nonsense").then_some(59).or(Some(UNKNOWN_FIELD));
        frames.push(frame(
            &format!("{command} of a million fields"),
            message(with_fields(command, MAX_COMMAND_SIZE - LONG_MESSAGE)),
            code,
        ));
        let too_large = message(with_fields(command, 3 * MAX_COMMAND_SIZE - (4 << 20)));
        assert!(too_large.bytes().len() > 40_000_000 && too_large.bytes().len() <= MAX_MESSAGE_SIZE);
        frames.push(frame(&format!("{command} that is too large"), too_large, Some(TOO_LARGE)));
    }
    let long = message(with_fields("ping", MAX_COMMAND_SIZE - LONG_MESSAGE));
    let text = message(doc! { "ping": 1, "comment": ("x".repeat(MAX_COMMAND_SIZE - LONG_MESSAGE)) });
    for compressor in Compressor::NEGOTIABLE {
        let name = compressor.name();
        let compressed =
            |message: &Message| compress_message(message, compressor, Vec::new()).expect("memory");
        frames.push(frame(&format!("{name} of many fields"), compressed(&long), Some(UNKNOWN_FIELD)));
        frames.push(frame(&format!("{name} of a long text"), compressed(&text), Some(0)));
    }
    let sequences = (0..MAX_MESSAGE_SIZE / 16).fold(
        CommandMessage::new(doc! { "ping": 1, "$db": "admin" }.to_buf().as_raw()),
        |message, number| message.sequence(&format!("s{number}"), []),
    );
    frames.push(frame("very many document sequences", sequences.finish(1), Some(2)));
    let deep = (0..198).fold(Value::Int32(1), |inner, _| Value::Document(doc! { "a": inner }));
    frames.push(frame("199 levels", message(doc! { "ping": 1, "comment": (deep.clone()) }), Some(0)));
    let deeper = doc! { "a": { "a": (deep) } };
    frames.push(frame("201 levels", message(doc! { "ping": 1, "comment": deeper }), Some(15)));
    frames
}
