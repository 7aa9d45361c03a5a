//! Any bytes as messages: reading never panics, never inflates over the limit, and what is accepted holds
//! together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{MessageRef, OpCode, OpMsg, OpQuery, ReplyBuilder, decompress_message, parse_reply};

const LIMIT: usize = 1_000_000;

fuzz_target!(|bytes: &[u8]| {
    read_everything(bytes);
    // Most random headers are refused at once: the same bytes behind a good header reach further.
    for opcode in [OpCode::Msg, OpCode::Query, OpCode::Compressed] {
        let length = 16 + bytes.len() as i32;
        let mut message = Vec::with_capacity(16 + bytes.len());
        for field in [length, 1, 0, opcode as i32] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.extend_from_slice(bytes);
        read_everything(&message);
    }
});

fn read_everything(bytes: &[u8]) {
    let Ok(Some(message)) = MessageRef::split_first(bytes, LIMIT) else { return };
    let _ = parse_reply(message);
    let _ = ReplyBuilder::new(Vec::new(), message.reply_format()).finish();
    match message.header().opcode {
        OpCode::Msg => {
            let Ok(parsed) = OpMsg::parse(message) else { return };
            for sequence in &parsed.sequences {
                assert_eq!(sequence.iter().count(), sequence.len(), "a sequence counts its documents");
                assert!(!parsed.body.contains(sequence.identifier), "a sequence is no field of the body");
            }
        }
        OpCode::Query => drop(OpQuery::parse(message)),
        OpCode::Compressed => {
            if let Ok((inner, _)) = decompress_message(message, LIMIT, Vec::new()) {
                assert!(inner.bytes().len() <= LIMIT, "inflation is bounded");
                read_everything(inner.bytes());
            }
        }
        OpCode::Reply => {}
    }
}
