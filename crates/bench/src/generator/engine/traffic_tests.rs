//! What a traffic sees of its operations: several requests each, lost ones, compression.

use super::tests::{counted, run};
use super::*;
use crate::generator::fake_server::{Answer, FakeServer};
use crate::generator::{ConnectionOptions, Ticket, Traffic, TrafficSource, Verdict};
use crate::message::{encode, reply_body};
use document::doc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{Compressor, MAX_MESSAGE_SIZE, Message, MessageRef, compress_message, decompress_message};

/// Reads, and in turns reads and then writes.
#[derive(Debug, Clone, Default)]
struct TwoSteps {
    made: Arc<AtomicU64>,
    lost: Arc<Mutex<Vec<u64>>>,
}

impl TrafficSource for TwoSteps {
    fn traffic(&self, _share: Share) -> Result<Box<dyn Traffic>, BenchError> {
        Ok(Box::new(self.clone()))
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

impl Traffic for TwoSteps {
    fn kinds(&self) -> Vec<String> {
        vec!["read".to_owned(), "read-modify-write".to_owned()]
    }

    fn next(&mut self, message: &mut Vec<u8>) -> Ticket {
        let key = self.made.fetch_add(1, Ordering::SeqCst);
        message.extend_from_slice(&encode(&doc! { "read": 1, "key": (key as i64) }));
        Ticket { kind: (key % 2) as u8, step: 0, key }
    }

    fn judge(&mut self, ticket: &mut Ticket, reply: &[u8], message: &mut Vec<u8>) -> Verdict {
        if let Some(failure) = crate::generator::failure(reply) {
            return Verdict::Failed(failure);
        }
        if ticket.kind == 1 && ticket.step == 0 {
            ticket.step = 1;
            message.extend_from_slice(&encode(&doc! { "write": 1, "key": (ticket.key as i64) }));
            return Verdict::Again;
        }
        Verdict::Done
    }

    fn lost(&mut self, ticket: Ticket) {
        self.lost.lock().unwrap().push(ticket.key);
    }
}

fn spec(connections: usize, traffic: &TwoSteps, options: ConnectionOptions) -> GroupSpec {
    GroupSpec { options, ..GroupSpec::new(connections, Arc::new(traffic.clone()), Pacing::Closed) }
}

#[test]
fn an_operation_may_have_several_requests_and_has_one_latency() {
    let server = FakeServer::start(|_| Answer::Reply(doc! { "ok": 1.0 }));
    let outcome =
        run(server.address, spec(3, &TwoSteps::default(), ConnectionOptions::default()), &counted(100));
    assert_eq!(server.requests(), 150, "every second operation has two");
    let found: Vec<_> =
        outcome.kinds.iter().map(|kind| (&*kind.name, kind.operations, kind.latency_us.len())).collect();
    assert_eq!(found, [("read", 50, 50), ("read-modify-write", 50, 50)]);
    assert_eq!(outcome.error_count(), 0);
}

#[test]
fn lost_operations_are_told_once() {
    // The third request of all, and every tenth after it, ends its connection.
    let server = FakeServer::start(|seen| match seen.number % 10 {
        3 => Answer::Last(Vec::new()),
        _ => Answer::Reply(doc! { "ok": 1.0 }),
    });
    let traffic = TwoSteps::default();
    let options = ConnectionOptions { reconnect: true, ..ConnectionOptions::default() };
    let outcome = run(server.address, spec(2, &traffic, options), &counted(60));
    let mut lost = traffic.lost.lock().unwrap().clone();
    lost.sort_unstable();
    let count = lost.len();
    lost.dedup();
    assert_eq!(lost.len(), count, "an operation was lost twice");
    assert_eq!(count as u64, outcome.connections.lost, "each lost connection had one operation under way");
    assert_eq!(outcome.operations() + count as u64, 60);
    assert!(count > 0);
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
        let outcome = run(server.address, spec(2, &TwoSteps::default(), options), &counted(20));
        assert_eq!(
            (outcome.operations(), outcome.error_count()),
            (20, 0),
            "{}: {:?}",
            compressor.name(),
            outcome.errors()
        );
        assert!(outcome.reply_bytes > 2_000, "sizes are those of decompressed replies");
        let used = std::mem::take(&mut *used.lock().unwrap());
        assert_eq!(used, vec![compressor; 30], "the agreed compressor is used for every request");
    }
}
