//! Ends in every phase: by the client's reset, by an orderly and a forced shutdown.

use crate::support::{ask, command, connect, eventually, options, read_message, reset_on_close, start};
use document::doc;
use std::io::{self, Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;
use transport::{ServerOptions, ServiceExecutor, ShutdownReport};
use wire::{CommandMessage, OpMsgFlags};

for_each_executor! {
    a_closed_connection_is_closed_whoever_knows_the_session
    a_client_resets_in_each_phase
    a_panic_at_the_end_leaks_no_session
    ends_a_stream_in_order
    ends_inside_a_message_in_order
    forces_a_service_that_holds_its_thread
}

const ORDERLY: ShutdownReport = ShutdownReport { forced: 0, abandoned: 0 };

fn a_client_resets_in_each_phase(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let clients = 8;
    for _ in 0..clients {
        // Receiving: nothing, or a part.
        drop(reset_on_close(connect(&server)));
        let stream = connect(&server);
        (&stream).write_all(&command(doc! { "echo": 1 }, 1).bytes()[..20]).expect("the server reads");
        drop(reset_on_close(stream));
        // Processing.
        let stream = connect(&server);
        let calls = service.calls.load(Ordering::SeqCst);
        (&stream).write_all(command(doc! { "sleep": 20 }, 2).bytes()).expect("the server reads");
        eventually("the call", || service.calls.load(Ordering::SeqCst) > calls);
        drop(reset_on_close(stream));
        // Sending.
        let stream = connect(&server);
        for id in 0..4 {
            (&stream).write_all(command(doc! { "fill": 15_000_000 }, id).bytes()).expect("the server reads");
        }
        let _ = (&stream).read(&mut [0; 100]).expect("the reply has begun");
        drop(reset_on_close(stream));
    }
    eventually("the end of all sessions", || server.statistics().connections.current == 0);
    assert_eq!(service.opened.load(Ordering::SeqCst), service.closed.load(Ordering::SeqCst));
    ask(&mut connect(&server), &command(doc! { "echo": 1 }, 1));
}

/// The client sees the end of file even though somebody still holds the session: at once, in a stream, on the
/// lane.
fn a_closed_connection_is_closed_whoever_knows_the_session(executor: ServiceExecutor) {
    for priority_lane in [true, false] {
        let (server, service) = start(ServerOptions { priority_lane, ..options(executor) });
        for (name, replies) in [("close", 0), ("close", 3), ("ping", 3)] {
            let mut stream = connect(&server);
            // `ping` is diagnostic, so that the whole stream runs on the lane.
            let body = match name {
                "ping" => doc! { "ping": 1, "close": replies },
                _ => doc! { "close": replies },
            };
            let request = CommandMessage::new(body.to_buf().as_raw());
            let request = request.flags(OpMsgFlags::EXHAUST_ALLOWED).finish(7);
            stream.write_all(request.bytes()).expect("the server reads");
            for _ in 0..replies {
                assert!(read_message(&mut stream).expect("a reply").1, "the stream has an end");
            }
            let end = stream.read(&mut [0]).expect("the server closes its side");
            assert_eq!(end, 0, "{name} {replies}, lane {priority_lane}: a reply instead of the end");
        }
        let mut panics = connect(&server);
        panics.write_all(command(doc! { "panic": 1 }, 2).bytes()).expect("the server reads");
        read_message(&mut panics).expect("the client is told");
        assert_eq!(
            panics.read(&mut [0]).expect("the server closes its side"),
            0,
            "a panic ends the connection"
        );
        let mut malformed = connect(&server);
        malformed.write_all(&[0xff; 16]).expect("the server reads");
        assert_eq!(
            malformed.read(&mut [0]).expect("the server closes its side"),
            0,
            "bytes that are no message"
        );
        assert_eq!(
            service.sessions.lock().expect("no panic inside").len(),
            5,
            "the sessions are still known"
        );
    }
}

fn a_panic_at_the_end_leaks_no_session(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let stream = connect(&server);
    (&stream).write_all(command(doc! { "panic": 1 }, 2).bytes()).expect("the server reads");
    drop(reset_on_close(stream));
    eventually("the end of all sessions", || {
        service.opened.load(Ordering::SeqCst) == 1 && server.statistics().connections.current == 0
    });
    assert_eq!(server.shutdown(Duration::from_secs(20)), ORDERLY);
}

fn ends_a_stream_in_order(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut stream = connect(&server);
    let body = doc! { "stream": 1_000_000_000 }.to_buf();
    let request = CommandMessage::new(body.as_raw()).flags(OpMsgFlags::EXHAUST_ALLOWED).finish(7);
    stream.write_all(request.bytes()).expect("the server reads");
    read_message(&mut stream).expect("the stream has begun");
    let reader = std::thread::spawn(move || {
        while let Ok((_, more, _)) = read_message(&mut stream) {
            assert!(more, "the stream has an end");
        }
    });
    assert_eq!(server.shutdown(Duration::from_secs(20)), ORDERLY);
    reader.join().expect("the reader");
}

fn ends_inside_a_message_in_order(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let mut stream = connect(&server);
    ask(&mut stream, &command(doc! { "echo": 1 }, 1));
    stream.write_all(&command(doc! { "echo": 2 }, 2).bytes()[..18]).expect("the server reads");
    assert_eq!(server.shutdown(Duration::from_secs(20)), ORDERLY);
    assert_eq!(service.closed.load(Ordering::SeqCst), 1);
    // A reset when the server closed before it had read the half message.
    match stream.read(&mut [0]) {
        Ok(count) => assert_eq!(count, 0, "half a message was answered"),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

/// A service that never comes back is told of in the report, and the server's end does not wait for it.
fn forces_a_service_that_holds_its_thread(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let mut stream = connect(&server);
    stream.write_all(command(doc! { "hold": 1 }, 1).bytes()).expect("the server reads");
    eventually("the call", || service.held.load(Ordering::SeqCst) == 1);
    let report = server.shutdown(Duration::from_millis(50));
    assert_eq!(report, ShutdownReport { forced: 1, abandoned: 1 });
    service.release();
    eventually("the end of the session", || service.closed.load(Ordering::SeqCst) == 1);
}
