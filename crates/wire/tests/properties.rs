//! What the fuzz target `wire_message` looks for, on a bounded number of random messages.

use document::{Document, doc};
use proptest::prelude::*;
use wire::{
    CommandMessage, Compressor, MessageRef, OpCode, OpMsg, OpMsgFlags, OpQuery, ReplyBuilder,
    compress_message, decompress_message, parse_reply,
};

const LIMIT: usize = 100_000;

/// Reads any bytes as a server and as a client would. Nothing may panic, and what is accepted must hold
/// together.
fn read_everything(bytes: &[u8]) {
    let Ok(Some(message)) = MessageRef::split_first(bytes, LIMIT) else { return };
    let _ = parse_reply(message);
    match message.header().opcode {
        OpCode::Msg => {
            let Ok(parsed) = OpMsg::parse(message) else { return };
            for sequence in &parsed.sequences {
                assert_eq!(
                    sequence.iter().count(),
                    sequence.len(),
                    "a sequence counts its documents wrongly"
                );
            }
            assert!(parsed.body.as_bytes().len() + 21 <= message.bytes().len());
        }
        OpCode::Query => drop(OpQuery::parse(message)),
        OpCode::Compressed => {
            if let Ok((inner, _)) = decompress_message(message, LIMIT, Vec::new()) {
                assert!(inner.bytes().len() <= LIMIT, "inflated over the limit");
                read_everything(inner.bytes());
            }
        }
        OpCode::Reply => {}
    }
    let _ = ReplyBuilder::new(Vec::new(), message.reply_format()).finish();
}

fn command(fields: &[(String, i64)]) -> Document {
    let mut command = doc! { "insert": "c", "$db": "test" };
    for (name, value) in fields {
        command.push(name.clone(), *value);
    }
    command
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let fields = prop::collection::vec(("[a-z]{0,8}", any::<i64>()), 0..6);
    let parts = (fields, 0..4usize, any::<bool>(), 0..5u8);
    parts.prop_map(|(fields, documents, checksum, compressor)| {
        let one = doc! { "_id": 1 }.to_buf();
        let mut message = CommandMessage::new(command(&fields).to_buf().as_raw());
        if documents > 0 {
            message = message.sequence("documents", std::iter::repeat_n(one.as_raw(), documents));
        }
        if checksum {
            message = message.flags(OpMsgFlags::CHECKSUM_PRESENT);
        }
        let message = message.finish(1);
        match Compressor::from_id(compressor) {
            Ok(compressor) => {
                compress_message(&message, compressor, Vec::new()).expect("memory").into_bytes()
            }
            Err(_) => message.into_bytes(),
        }
    })
}

proptest! {
    #[test]
    fn random_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }

    #[test]
    fn random_payloads_are_survived(
        opcode in prop::sample::select(vec![1i32, 2004, 2012, 2013]),
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = (16 + payload.len() as i32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&opcode.to_le_bytes());
        bytes.extend_from_slice(&payload);
        read_everything(&bytes);
    }

    #[test]
    fn damaged_messages_are_survived(
        message in any_message(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut bytes = message;
        for (index, value) in damages {
            let position = index.index(bytes.len());
            bytes[position] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
            let length = (bytes.len() as i32).to_le_bytes();
            if let Some(field) = bytes.first_chunk_mut::<4>() {
                *field = length;
            }
        }
        read_everything(&bytes);
    }

    #[test]
    fn requests_arrive_as_sent(
        fields in prop::collection::vec(("[a-z]{1,8}", any::<i64>()), 0..6),
        documents in 1..20usize,
        checksum in any::<bool>(),
        compressor in prop::sample::select(Compressor::NEGOTIABLE.to_vec()),
    ) {
        let sent = command(&fields);
        let each: Vec<_> = (0..documents).map(|number| doc! { "_id": number as i64 }.to_buf()).collect();
        let mut message = CommandMessage::new(sent.to_buf().as_raw())
            .sequence("documents", each.iter().map(document::DocumentBuf::as_raw));
        if checksum {
            message = message.flags(OpMsgFlags::CHECKSUM_PRESENT);
        }
        let message = message.finish(5);
        let compressed = compress_message(&message, compressor, Vec::new()).expect("memory");
        let view = MessageRef::parse(compressed.bytes(), LIMIT).expect("a whole message");
        let (back, _) = decompress_message(view, LIMIT, Vec::new()).expect("own output");
        let parsed = back.as_ref(LIMIT).expect("a whole message");
        let parsed = OpMsg::parse(parsed).expect("a well-formed message");
        prop_assert_eq!(parsed.body.to_document(), sent);
        let sequence = parsed.sequence("documents").expect("the sequence sent");
        let found: Vec<_> = sequence.iter().map(|document| document.to_buf()).collect();
        prop_assert_eq!(found, each);
    }
}
