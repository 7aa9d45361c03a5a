//! Framing on real sockets: any pieces, any number together, broken headers, exhaust streams, slow readers.

use crate::support::{ask, command, connect, eventually, options, read_message, read_reply, start};
use document::doc;
use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use transport::ServiceExecutor;
use wire::{CommandMessage, OpMsgFlags};

for_each_executor! {
    answers_a_message_split_at_every_byte
    answers_glued_messages_in_odd_pieces
    answers_mixed_fast_and_slow_requests_in_order
    bounds_what_a_client_that_does_not_read_may_queue
    closes_on_broken_headers_and_serves_on
    contains_panics
    keeps_a_half_sent_message_from_holding_others
    streams_exhaust_replies
    survives_clients_that_leave_a_stream
}

fn answers_a_message_split_at_every_byte(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let whole = command(doc! { "echo": 1 }, 9).into_bytes();
    let mut stream = connect(&server);
    for position in 1..whole.len() {
        stream.write_all(&whole[..position]).expect("the server reads");
        // Gives the front a chance to be received alone; either way the answer is the same.
        thread::sleep(Duration::from_micros(200));
        stream.write_all(&whole[position..]).expect("the server reads");
        assert_eq!(read_reply(&mut stream).expect("a reply").0, 9, "split at {position}");
    }
}

fn answers_glued_messages_in_odd_pieces(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let all: Vec<u8> = (1..=300).flat_map(|id| command(doc! { "echo": id }, id).into_bytes()).collect();
    for piece in [7, 61, 4_096, 16_385, all.len()] {
        let mut stream = connect(&server);
        let mut writer = stream.try_clone().expect("a second handle");
        let bytes = all.clone();
        let sender = thread::spawn(move || {
            for part in bytes.chunks(piece) {
                writer.write_all(part).expect("the server reads");
            }
        });
        for id in 1..=300 {
            assert_eq!(read_reply(&mut stream).expect("a reply").0, id, "in pieces of {piece}");
        }
        sender.join().expect("the sender");
    }
}

/// Slow ones go to the pool and come back; nobody overtakes.
fn answers_mixed_fast_and_slow_requests_in_order(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut stream = connect(&server);
    let request = |id: i32| {
        if id % 50 == 0 {
            doc! { "sleep": 1 }
        } else {
            doc! { "echo": id }
        }
    };
    let all: Vec<u8> = (1..=1000).flat_map(|id| command(request(id), id).into_bytes()).collect();
    stream.write_all(&all).expect("the server reads");
    for id in 1..=1000 {
        let (response_to, body) = read_reply(&mut stream).expect("a reply");
        assert_eq!(response_to, id);
        assert_eq!(body.get("calls"), Some(&i64::from(id - 1).into()), "processed out of order");
    }
}

/// Back-pressure: requests stay unread as long as their replies do.
fn bounds_what_a_client_that_does_not_read_may_queue(executor: ServiceExecutor) {
    const REQUESTS: i32 = 2_000;
    let (server, service) = start(options(executor));
    let mut stream = connect(&server);
    let mut writer = stream.try_clone().expect("a second handle");
    let sender = thread::spawn(move || {
        for id in 0..REQUESTS {
            writer
                .write_all(command(doc! { "fill": 100_000 }, id).bytes())
                .expect("the server reads at last");
        }
    });
    eventually("a stalled send", || {
        server.statistics().stalled_sends == 1 || executor == ServiceExecutor::Synchronous
    });
    eventually("the end of progress", || {
        let before = service.calls.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(100));
        before > 0 && service.calls.load(Ordering::SeqCst) == before
    });
    // 200 MB of replies were asked for; what was processed lies in the two sockets' buffers.
    assert!(service.calls.load(Ordering::SeqCst) < 500, "the server goes on without its client");
    // Another client is not held up.
    ask(&mut connect(&server), &command(doc! { "echo": 1 }, 1));
    for id in 0..REQUESTS {
        assert_eq!(read_reply(&mut stream).expect("a reply").0, id);
    }
    sender.join().expect("the sender");
}

fn closes_on_broken_headers_and_serves_on(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut other = connect(&server);
    let request = command(doc! { "echo": 1 }, 1);
    ask(&mut other, &request);
    let broken_length = [0i32, 15, -1, i32::MAX, 48_000_001];
    let broken = broken_length.map(|length| (0..4, length)).into_iter().chain([(12..16, 9_999)]);
    let mut count = 0;
    for (place, value) in broken {
        let mut stream = connect(&server);
        // Once as the first message, which the lane sees, and once behind a good one.
        for first in [true, false] {
            if !first {
                stream = connect(&server);
                ask(&mut stream, &request);
            }
            let mut bytes = command(doc! { "echo": 2 }, 2).into_bytes();
            bytes[place.clone()].copy_from_slice(&value.to_le_bytes());
            stream.write_all(&bytes).expect("the server reads");
            assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "{value} was answered");
            count += 1;
        }
    }
    eventually("the count of broken connections", || server.statistics().connections.broken == count);
    ask(&mut other, &request);
}

fn contains_panics(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut other = connect(&server);
    for _ in 0..10 {
        let mut stream = connect(&server);
        let body = ask(&mut stream, &command(doc! { "panic": 1 }, 3));
        assert_eq!(body.get("codeName"), Some(&"InternalError".into()));
        assert_eq!(stream.read(&mut [0]).expect("end of file"), 0);
    }
    assert_eq!(server.statistics().connections.panicked, 10);
    ask(&mut other, &command(doc! { "echo": 1 }, 1));
}

/// One byte now and then costs one idle connection.
fn keeps_a_half_sent_message_from_holding_others(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let whole = command(doc! { "echo": 1 }, 5).into_bytes();
    let mut slow: Vec<_> = (0..64).map(|_| connect(&server)).collect();
    let mut quick = connect(&server);
    for position in 0..whole.len() - 1 {
        for stream in &mut slow {
            stream.write_all(&whole[position..=position]).expect("the server reads");
        }
        ask(&mut quick, &command(doc! { "echo": 2 }, 6));
    }
    for stream in &mut slow {
        stream.write_all(&whole[whole.len() - 1..]).expect("the server reads");
        assert_eq!(read_reply(stream).expect("a reply").0, 5);
    }
}

fn streams_exhaust_replies(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut stream = connect(&server);
    let body = doc! { "stream": 50 }.to_buf();
    let request = CommandMessage::new(body.as_raw()).flags(OpMsgFlags::EXHAUST_ALLOWED).finish(7);
    stream.write_all(request.bytes()).expect("the server reads");
    for left in (0..=50).rev() {
        let (_, more, _) = read_message(&mut stream).expect("a reply");
        assert_eq!(more, left > 0, "moreToCome with {left} to come");
    }
    ask(&mut stream, &command(doc! { "echo": 1 }, 8));
}

fn survives_clients_that_leave_a_stream(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    for _ in 0..5 {
        let mut stream = connect(&server);
        let body = doc! { "stream": 1_000_000_000 }.to_buf();
        let request = CommandMessage::new(body.as_raw()).flags(OpMsgFlags::EXHAUST_ALLOWED).finish(7);
        stream.write_all(request.bytes()).expect("the server reads");
        read_message(&mut stream).expect("the stream has begun");
    }
    eventually("the end of all sessions", || server.statistics().connections.current == 0);
    ask(&mut connect(&server), &command(doc! { "echo": 1 }, 1));
}
