//! Any bytes as messages: nothing is inflated beyond the limit, and what is accepted holds together.

use wire::{MessageRef, OpCode, OpMsg, OpQuery, ReplyBuilder, decompress_message, parse_reply};

use super::{HOLDS, Met, REFUSED};
use crate::generate;
use crate::source::Source;

const LIMIT: usize = 1_000_000;

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut is_one = read_everything(bytes);
    // Most random headers are refused at once: the same bytes behind a good header reach further.
    for opcode in [OpCode::Msg, OpCode::Query, OpCode::Compressed] {
        let length = 16 + bytes.len() as i32;
        let mut message = Vec::with_capacity(16 + bytes.len());
        for field in [length, 1, 0, opcode as i32] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.extend_from_slice(bytes);
        is_one |= read_everything(&message);
    }
    let mut source = Source::new(bytes);
    let message = message(&mut source);
    is_one |= read_everything(&generate::mutated(&mut source, &message));
    met.note(if is_one { HOLDS } else { REFUSED });
}

/// Documents with a header in front, and mostly in sections.
fn message(source: &mut Source<'_>) -> Vec<u8> {
    let (flags, body) = (source.pick(&[0, 1, 2, 1 << 16]), generate::document(source, 1).to_buf());
    let mut sections = i32::to_le_bytes(flags).to_vec();
    sections.push(0);
    sections.extend_from_slice(body.as_bytes());
    for _ in 0..source.below(3) {
        let documents: Vec<u8> =
            (0..source.below(3)).flat_map(|_| generate::document(source, 1).to_buf().into_bytes()).collect();
        let name = generate::field(source);
        sections.push(1);
        sections.extend_from_slice(&(4 + name.len() as i32 + 1 + documents.len() as i32).to_le_bytes());
        sections.extend_from_slice(name.as_bytes());
        sections.push(0);
        sections.extend_from_slice(&documents);
    }
    let length = 16 + sections.len() as i32;
    let mut message: Vec<u8> =
        [length, 1, 0, OpCode::Msg as i32].into_iter().flat_map(i32::to_le_bytes).collect();
    message.extend(sections);
    message
}

/// Whether it is a message.
fn read_everything(bytes: &[u8]) -> bool {
    let Ok(Some(message)) = MessageRef::split_first(bytes, LIMIT) else { return false };
    let _ = parse_reply(message);
    let _ = ReplyBuilder::new(Vec::new(), message.reply_format()).finish();
    match message.header().opcode {
        OpCode::Msg => {
            let Ok(parsed) = OpMsg::parse(message) else { return false };
            for sequence in &parsed.sequences {
                assert_eq!(sequence.iter().count(), sequence.len(), "a sequence counts its documents");
                assert!(!parsed.body.contains(sequence.identifier), "a sequence is no field of the body");
            }
            true
        }
        OpCode::Query => OpQuery::parse(message).is_ok(),
        OpCode::Compressed => match decompress_message(message, LIMIT, Vec::new()) {
            Ok((inner, _)) => {
                assert!(inner.bytes().len() <= LIMIT, "inflation is bounded");
                read_everything(inner.bytes())
            }
            Err(_) => false,
        },
        OpCode::Reply => false,
    }
}
