//! The ends of a connection in every phase: by the client, by the server, by errors and panics.

use super::service::{Answer, TestService, answers, echo, echoed, request};
use crate::simulated::{Event, Record, SimulatedStream};
use crate::{ClosedBy, ConnectionError, Ending, Phase, ReceiveBuffer, serve};
use document::{Document, doc};
use pollster::block_on;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::{OpMsgFlags, WireError};

struct Outcome {
    result: Result<ClosedBy, ConnectionError>,
    answers: Vec<Answer>,
    panicked: u64,
}

fn run(script: Vec<Event>, prepare: impl FnOnce(&Record)) -> Outcome {
    let service = Arc::new(TestService::default());
    let (registered, stream, record) = SimulatedStream::connect(script, &service);
    prepare(&record);
    let session = Arc::clone(registered.session());
    let served = serve(Arc::clone(&session), stream, Arc::clone(&service), ReceiveBuffer::new());
    let result = block_on(served).map(|ending| match ending {
        Ending::Closed(closed) => closed,
        Ending::Moves(_) => panic!("a session that is not on the lane leaves it"),
    });
    assert!(record.finished.load(Ordering::SeqCst), "the loop drops replies that have not left");
    let shared = Arc::clone(&session.shared);
    drop(registered);
    assert_eq!(session.phase(), Phase::Ended);
    let told = (service.opened.load(Ordering::SeqCst), service.closed.load(Ordering::SeqCst));
    assert_eq!(told, (1, 1), "times that the service was told of the opening and the end");
    let statistics = shared.statistics();
    assert_eq!(statistics.connections.current, 0, "the session stays registered");
    let answers = answers(&record.sent.lock());
    Outcome { result, answers, panicked: statistics.connections.panicked }
}

fn bytes(command: Document, flags: OpMsgFlags) -> Event {
    Event::Bytes(request(command, 1, flags).into_bytes())
}

#[track_caller]
fn check(
    script: Vec<Event>,
    answered: &[Answer],
    expect: impl FnOnce(&Result<ClosedBy, ConnectionError>) -> bool,
) {
    let outcome = run(script, |_| ());
    assert!(expect(&outcome.result), "the connection ended with {:?}", outcome.result);
    assert_eq!(outcome.answers, answered);
}

#[test]
fn ends_between_requests_are_orderly() {
    check(vec![], &[], |result| matches!(result, Ok(ClosedBy::Client)));
    check(vec![Event::Bytes(echo(1))], &[echoed(1)], |result| matches!(result, Ok(ClosedBy::Client)));
}

#[test]
fn ends_inside_a_message_are_errors() {
    for length in [1, 15, 16, 20, 30] {
        let part = Event::Bytes(echo(2)[..length].to_vec());
        check(
            vec![Event::Bytes(echo(1)), part],
            &[echoed(1)],
            |result| matches!(result, Err(ConnectionError::Unfinished { received }) if *received == length),
        );
    }
}

#[test]
fn resets_while_receiving() {
    check(vec![Event::Reset], &[], |result| matches!(result, Err(ConnectionError::Receive(_))));
    let part = Event::Bytes(echo(1)[..10].to_vec());
    check(vec![part, Event::Reset], &[], |result| matches!(result, Err(ConnectionError::Receive(_))));
}

#[test]
fn failures_while_sending() {
    let fail =
        |kind| run(vec![Event::Bytes(echo(1))], |record| *record.send_failure.lock() = Some(kind)).result;
    assert!(matches!(fail(io::ErrorKind::ConnectionReset), Err(ConnectionError::Send(_))));
    assert!(matches!(fail(io::ErrorKind::WouldBlock), Err(ConnectionError::SendTimedOut)));
}

#[test]
fn malformed_headers_end_the_connection() {
    for length in [-1, 0, 15, 100_001, i32::MAX, i32::MIN] {
        let mut message = echo(2);
        message[..4].copy_from_slice(&length.to_le_bytes());
        check(vec![Event::Bytes(echo(1)), Event::Bytes(message)], &[echoed(1)], |result| {
            matches!(result, Err(ConnectionError::Malformed(WireError::Length { .. })))
        });
    }
    for opcode in [0i32, 1, 2001, 2002, 9999] {
        let mut message = echo(2);
        message[12..16].copy_from_slice(&opcode.to_le_bytes());
        check(vec![Event::Bytes(message)], &[], |result| {
            matches!(result, Err(ConnectionError::Malformed(WireError::OpCode { .. })))
        });
    }
}

#[test]
fn a_browser_is_told_what_this_is() {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
    let service = Arc::new(TestService::default());
    let (registered, stream, record) = SimulatedStream::connect([Event::Bytes(request)], &service);
    let session = Arc::clone(registered.session());
    let result = block_on(serve(session, stream, service, ReceiveBuffer::new()));
    assert!(matches!(result, Err(ConnectionError::Http)), "{result:?}");
    let sent = record.sent.lock();
    let text = std::str::from_utf8(&sent).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
}

#[test]
fn the_service_may_close() {
    check(
        vec![bytes(doc! { "close": 1 }, OpMsgFlags::NONE), Event::Bytes(echo(2))],
        &[echoed(1)],
        |result| matches!(result, Ok(ClosedBy::Service)),
    );
}

#[test]
fn a_panic_ends_only_its_connection() {
    let outcome = run(vec![bytes(doc! { "panic": 1 }, OpMsgFlags::NONE), Event::Bytes(echo(2))], |_| ());
    assert!(
        matches!(&outcome.result, Err(ConnectionError::Panicked(text)) if text == "the test asked for it")
    );
    assert_eq!(outcome.panicked, 1);
    assert_eq!(outcome.answers.len(), 1, "the client was not told");
    assert_eq!(outcome.answers[0].body.get("code"), Some(&1.into()));
}

#[test]
fn a_panic_is_not_told_to_those_who_do_not_listen() {
    let outcome = run(vec![bytes(doc! { "panic": 1 }, OpMsgFlags::MORE_TO_COME)], |_| ());
    assert!(matches!(outcome.result, Err(ConnectionError::Panicked(_))));
    assert_eq!(outcome.answers, []);
}

#[test]
fn shutdown_while_receiving() {
    let outcome = run(vec![], |record| record.read_shut.store(true, Ordering::SeqCst));
    assert!(matches!(outcome.result, Ok(ClosedBy::Client)));
}

#[test]
fn shutdown_while_processing_answers_what_runs_and_no_more() {
    let script =
        vec![Event::Bytes([request(doc! { "end": 1 }, 1, OpMsgFlags::NONE).into_bytes(), echo(2)].concat())];
    check(script, &[echoed(1)], |result| matches!(result, Ok(ClosedBy::Server)));
}

#[test]
fn shutdown_while_streaming_stops_the_stream() {
    let service = Arc::new(TestService::default());
    let script = [bytes(doc! { "repeat": 1 }, OpMsgFlags::EXHAUST_ALLOWED)];
    let (registered, stream, record) = SimulatedStream::connect(script, &service);
    let session = Arc::clone(registered.session());
    let observer = Arc::clone(&record);
    let ender = std::thread::spawn(move || {
        while *observer.sends.lock() < 3 {
            std::thread::yield_now();
        }
        session.end();
    });
    let session = Arc::clone(registered.session());
    let result = block_on(serve(session, stream, service, ReceiveBuffer::new()));
    ender.join().expect("the ender");
    assert!(matches!(result, Ok(Ending::Closed(ClosedBy::Server))), "{result:?}");
    assert!(answers(&record.sent.lock()).iter().all(|answer| answer.more_to_come));
}
