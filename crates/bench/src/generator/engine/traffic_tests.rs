//! What a traffic sees of its operations: several requests each, lost ones, compression.

use super::tests::{counted, run};
use super::*;
use crate::generator::fake_server::{Answer, FakeServer};
use crate::generator::{ConnectionOptions, KindOutcome, Outcome};
use crate::message::{encode, reply_body};
use crate::workload::{WorkloadSource, written};
use document::doc;
use std::sync::Mutex;
use wire::{Compressor, MAX_MESSAGE_SIZE, Message, MessageRef, compress_message, decompress_message};

/// Reads, and as many reads with a write after them.
fn two_steps() -> WorkloadSource {
    written(
        "[[operations]]\nname = 'read'\ncommand = { read = 1 }\n[[operations]]\nname = 'read-modify-write'\n\
         steps = [{ command = { read = 1 } }, { command = { write = 1 } }]\n",
    )
}

fn spec(connections: usize, traffic: &WorkloadSource, options: ConnectionOptions) -> GroupSpec {
    GroupSpec { options, ..GroupSpec::new(connections, traffic.clone(), Pacing::Closed) }
}

/// Requests that the operations of an outcome took.
fn requests(outcome: &Outcome) -> u64 {
    let steps = |kind: &KindOutcome| if kind.name == "read" { 1 } else { 2 };
    outcome.kinds.iter().map(|kind| kind.operations * steps(kind)).sum()
}

#[test]
fn an_operation_may_have_several_requests_and_has_one_latency() {
    let server = FakeServer::start(|_| Answer::Reply(doc! { "ok": 1.0 }));
    let outcome = run(server.address, spec(3, &two_steps(), ConnectionOptions::default()), &counted(100));
    assert_eq!(server.requests(), requests(&outcome), "those of two steps have two");
    let found: Vec<_> = outcome.kinds.iter().map(|kind| kind.latencies.count()).collect();
    assert_eq!(found, outcome.kinds.iter().map(|kind| kind.operations).collect::<Vec<_>>());
    assert_eq!((outcome.operations(), outcome.error_count(), found.contains(&0)), (100, 0, false));
}

#[test]
fn lost_inserts_are_told_once() {
    // The third request of all, and every tenth after it, ends its connection.
    let server = FakeServer::start(|seen| match seen.number % 10 {
        3 => Answer::Last(Vec::new()),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    let text =
        "[[operations]]\nname = 'insert'\ncommand = { insert = 'x', documents = [{ gen = 'document' }] }\n";
    let traffic = written(text);
    let options = ConnectionOptions { reconnect: true, ..ConnectionOptions::default() };
    let outcome = run(server.address, spec(2, &traffic, options), &counted(60));
    let keys = traffic.keys();
    assert_eq!(keys.bound(), 60, "the fate of every insert is known");
    let lost = (0..60).filter(|&ordinal| !keys.is_present(ordinal)).count() as u64;
    assert_eq!(lost, outcome.connections.lost, "each lost connection had one operation under way");
    assert!(lost > 0 && outcome.operations() + lost == 60, "{lost}");
}

#[test]
fn requests_and_replies_are_compressed_when_both_sides_can() {
    let used = Arc::new(Mutex::new(Vec::new()));
    for compressor in Compressor::NEGOTIABLE {
        let saw = Arc::clone(&used);
        let server = FakeServer::start(move |seen| {
            let Ok((plain, by)) = MessageRef::parse(&seen.message, MAX_MESSAGE_SIZE)
                .and_then(|message| decompress_message(message, MAX_MESSAGE_SIZE, Vec::new()))
            else {
                let hello = reply_body(&seen.message).expect("an OP_MSG").to_document();
                assert!(
                    hello.get("hello").is_some(),
                    "an uncompressed request after the handshake: {hello:?}"
                );
                return Answer::Reply(doc! { "compression": [compressor.name()], "ok": 1.0 });
            };
            saw.lock().unwrap().push(by);
            let text = "the same again and again ".repeat(100);
            let mut reply = encode(&doc! { "text": text, "ok": 1.0 });
            reply[8..12].copy_from_slice(&plain.request_id().to_le_bytes());
            let reply = Message::from_bytes(reply, MAX_MESSAGE_SIZE).expect("a message");
            Answer::Bytes(compress_message(&reply, by, Vec::new()).expect("compresses").into_bytes())
        });
        let compressors = ["zstd", "zlib", "snappy"].map(str::to_owned).to_vec();
        let options = ConnectionOptions { compressors, ..ConnectionOptions::default() };
        let outcome = run(server.address, spec(2, &two_steps(), options), &counted(20));
        assert_eq!(
            (outcome.operations(), outcome.error_count()),
            (20, 0),
            "{}: {:?}",
            compressor.name(),
            outcome.errors()
        );
        assert!(outcome.reply_bytes > 2_000, "sizes are those of decompressed replies");
        let used = std::mem::take(&mut *used.lock().unwrap());
        let expect = vec![compressor; requests(&outcome) as usize];
        assert_eq!(used, expect, "the agreed compressor is used for every request");
    }
}
