//! Framing and order: messages in any pieces, pipelines, exhaust, fire-and-forget, compression.

use super::service::{Answer, LIMIT, TestService, answers, echo, echoed, request};
use crate::simulated::{Event, SimulatedStream};
use crate::{ClosedBy, Ending, ReceiveBuffer, serve};
use document::doc;
use pollster::block_on;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::{Compressor, MessageRef, OpCode, OpMsgFlags, compress_message, decompress_message};

/// Sends the pieces and expects these answers and an orderly end.
#[track_caller]
fn check(pieces: Vec<Vec<u8>>, expect: &[Answer]) {
    let sent = exchange(pieces);
    assert_eq!(answers(&sent), expect);
}

fn exchange(pieces: Vec<Vec<u8>>) -> Vec<u8> {
    let began = Instant::now();
    let (sent, queued) =
        exchange_and_wait(pieces.into_iter().flat_map(|piece| [Event::NotReady, Event::Bytes(piece)]));
    let queued: Duration = queued.iter().sum();
    assert!(queued <= began.elapsed(), "one client's requests waited for {queued:?}, each for the others");
    sent
}

/// What is sent back, and how long each request waited in the queue.
fn exchange_and_wait(script: impl IntoIterator<Item = Event>) -> (Vec<u8>, Vec<Duration>) {
    let service = Arc::new(TestService::default());
    let (registered, stream, record) = SimulatedStream::connect(script, &service);
    let session = Arc::clone(registered.session());
    let served = serve(session, stream, Arc::clone(&service), ReceiveBuffer::new());
    let ending = block_on(served).expect("an orderly end");
    assert!(matches!(ending, Ending::Closed(ClosedBy::Client)), "{ending:?}");
    drop(registered);
    assert_eq!(service.closed.load(Ordering::SeqCst), 1, "the service was not told the end exactly once");
    let sent = record.sent.lock().clone();
    let queued = service.queued.lock().clone();
    (sent, queued)
}

#[test]
fn a_message_split_at_every_byte() {
    let whole = echo(7);
    for position in 1..whole.len() {
        let (front, back) = whole.split_at(position);
        check(vec![front.to_vec(), back.to_vec()], &[echoed(7)]);
    }
    check(whole.iter().map(|&byte| vec![byte]).collect(), &[echoed(7)]);
}

#[test]
fn a_thousand_pipelined_requests_in_any_pieces() {
    let all: Vec<u8> = (0..1000).flat_map(echo).collect();
    let expect: Vec<Answer> = (0..1000).map(echoed).collect();
    for piece in [1, 7, 100, 4096, 16 * 1024, all.len()] {
        check(all.chunks(piece).map(<[u8]>::to_vec).collect(), &expect);
    }
}

fn waits() -> impl Iterator<Item = Vec<u8>> {
    (1..=20).map(|id| request(doc! { "wait": id }, id, OpMsgFlags::NONE).into_bytes())
}

#[test]
fn a_client_that_sends_ahead_waits_for_itself_and_not_in_a_queue() {
    assert_eq!(answers(&exchange(waits().collect())).len(), 20);
}

#[test]
fn what_is_served_right_behind_a_reply_tells_nothing_of_the_queue() {
    let (sent, queued) = exchange_and_wait(waits().map(Event::Bytes));
    assert_eq!(answers(&sent).len(), 20);
    let (_, ahead) = queued.split_first().expect("the first request");
    assert!(ahead.iter().all(Duration::is_zero), "they say that everybody waits as shortly: {ahead:?}");
}

#[test]
fn a_large_message_between_small_ones() {
    let text = "x".repeat(90_000);
    let large = request(doc! { "echo": 2, "text": text }, 2, OpMsgFlags::NONE).into_bytes();
    let all = [echo(1), large, echo(3)].concat();
    let expect = [echoed(1), echoed(2), echoed(3)];
    check(vec![all.clone()], &expect);
    check(all.chunks(5000).map(<[u8]>::to_vec).collect(), &expect);
}

#[test]
fn requests_that_want_no_reply_get_none() {
    let silent = request(doc! { "echo": 1 }, 1, OpMsgFlags::MORE_TO_COME).into_bytes();
    check(vec![[silent, echo(2)].concat()], &[echoed(2)]);
    let none = request(doc! { "silent": 1 }, 1, OpMsgFlags::NONE).into_bytes();
    check(vec![[none, echo(2)].concat()], &[echoed(2)]);
}

#[test]
fn services_that_wait_are_resumed() {
    let wait = request(doc! { "wait": 5 }, 5, OpMsgFlags::NONE).into_bytes();
    check(vec![[wait, echo(6)].concat()], &[echoed(5), echoed(6)]);
}

#[test]
fn exhaust_replies_follow_each_other() {
    let stream = request(doc! { "stream": 3 }, 50, OpMsgFlags::EXHAUST_ALLOWED).into_bytes();
    let sent = exchange(vec![[stream, echo(9)].concat()]);
    let found = answers(&sent);
    let numbers: Vec<_> = found.iter().map(|answer| answer.body.get("echo").cloned()).collect();
    let expect: Vec<_> = [3i64, 2, 1, 0, 9].map(|number| Some(number.into())).into();
    assert_eq!(numbers, expect);
    let more: Vec<_> = found.iter().map(|answer| answer.more_to_come).collect();
    assert_eq!(more, [true, true, true, false, false], "moreToCome");
    let ids = reply_ids(&sent);
    let answered: Vec<_> = found.iter().map(|answer| answer.response_to).collect();
    assert_eq!(answered, [50, ids[0], ids[1], ids[2], 9], "each reply answers the one before it");
}

fn reply_ids(mut bytes: &[u8]) -> Vec<i32> {
    let mut ids = Vec::new();
    while let Ok(Some(message)) = MessageRef::split_first(bytes, LIMIT) {
        ids.push(message.header().request_id);
        bytes = &bytes[message.bytes().len()..];
    }
    ids
}

#[test]
fn exhaust_without_permission_is_one_reply() {
    let stream = request(doc! { "stream": 3 }, 50, OpMsgFlags::NONE).into_bytes();
    let body = doc! { "ok": 1.0, "echo": 3i64 };
    check(vec![stream], &[Answer { response_to: 50, more_to_come: false, body }]);
}

#[test]
fn replies_are_compressed_as_their_requests() {
    for compressor in Compressor::NEGOTIABLE {
        let compress = |command, id| {
            let plain = request(command, id, OpMsgFlags::CHECKSUM_PRESENT);
            compress_message(&plain, compressor, Vec::new()).expect("memory").into_bytes()
        };
        let pieces = [compress(doc! { "echo": 1 }, 1), compress(doc! { "plain": 2 }, 2), echo(3)].concat();
        let sent = exchange(vec![pieces]);
        let first = MessageRef::split_first(&sent, LIMIT).expect("a message").expect("a whole message");
        assert_eq!(
            first.header().opcode,
            OpCode::Compressed,
            "{} was not answered in kind",
            compressor.name()
        );
        let (inner, used) = decompress_message(first, LIMIT, Vec::new()).expect("a readable reply");
        assert_eq!(used, compressor);
        assert_eq!(answers(inner.bytes()), [echoed(1)], "the reply or its checksum was damaged");
        assert_eq!(answers(&sent[first.bytes().len()..]), [echoed(2), echoed(3)]);
    }
}

#[test]
fn checksums_are_answered_with_checksums() {
    let sent = exchange(vec![request(doc! { "echo": 1 }, 1, OpMsgFlags::CHECKSUM_PRESENT).into_bytes()]);
    let reply = MessageRef::split_first(&sent, LIMIT).expect("a message").expect("a whole message");
    assert!(reply.flags().contains(OpMsgFlags::CHECKSUM_PRESENT));
    assert_eq!(answers(&sent), [echoed(1)]);
}
