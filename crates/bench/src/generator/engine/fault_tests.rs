//! Servers that die, refuse, answer errors, answer out of order, answer in halves or not at all.

use super::tests::{counted, group, open, run};
use super::*;
use crate::generator::fake_server::{Answer, FakeServer, Seen, reply_to};
use crate::generator::{ConnectionOptions, Errors, Outcome, Window};
use crate::message::encode;
use document::{Document, doc};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn good() -> Answer {
    Answer::Reply(doc! { "ok": 1.0 })
}

fn plain() -> ConnectionOptions {
    ConnectionOptions::default()
}

fn reconnecting() -> ConnectionOptions {
    ConnectionOptions { reconnect: true, ..plain() }
}

fn texts(errors: &Errors) -> Vec<(String, u64)> {
    errors.iter().map(|(key, times)| (key.to_string(), *times)).collect()
}

/// One connection without reconnecting meets this behaviour until ten operations are sent or the connection
/// is gone.
fn check(
    behaviour: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    operations: u64,
    expect: &[(&str, u64)],
) {
    let server = FakeServer::start(behaviour);
    let outcome = run(server.address, group(1, Pacing::Closed, plain()), &counted(10));
    let expect: Vec<_> = expect.iter().map(|&(text, times)| (text.to_owned(), times)).collect();
    assert_eq!((outcome.operations(), texts(&outcome.errors())), (operations, expect));
}

#[test]
fn errors_are_counted_by_kind_and_code() {
    let odd = |bad: Document| {
        move |seen: &Seen| if seen.number % 2 == 1 { Answer::Reply(bad.clone()) } else { good() }
    };
    let overloaded = doc! { "ok": 0.0, "code": 462, "codeName": "IngressRequestRateLimitExceeded" };
    check(odd(overloaded), 5, &[("server 462: IngressRequestRateLimitExceeded", 5)]);
    check(
        odd(doc! { "writeErrors": [{ "code": 11000 }], "ok": 1.0 }),
        5,
        &[("write 11000: DuplicateKey", 5)],
    );
    let concern = doc! { "writeConcernError": { "code": 64, "codeName": "WriteConcernFailed" }, "ok": 1.0 };
    check(odd(concern), 5, &[("writeConcern 64: WriteConcernFailed", 5)]);
    check(odd(doc! { "n": 1 }), 5, &[("unexpected: reply without ok: 1", 5)]);
}

#[test]
fn replies_to_something_else_end_the_connection() {
    let ok = doc! { "ok": 1.0 };
    let reply = ok.clone();
    check(
        move |seen| if seen.number == 4 { Answer::Bytes(reply_to(seen.id() - 1, &reply)) } else { good() },
        4,
        &[("protocol: a reply to another request", 1)],
    );
    let reply = ok.clone();
    check(
        move |seen| match seen.number {
            4 => Answer::Bytes([seen.reply(&reply), seen.reply(&reply)].concat()),
            _ => good(),
        },
        4,
        &[("protocol: more bytes than one reply", 1)],
    );
}

#[test]
fn replies_in_order_of_another_connection_are_noticed() {
    // The first request is answered with the second one's reply and the other way round.
    let first = Mutex::new(None::<i32>);
    let server = FakeServer::start(move |seen| {
        let swapped = first.lock().unwrap().replace(seen.id());
        swapped.map_or(Answer::Silence, |id| Answer::Bytes(reply_to(id, &doc! { "ok": 1.0 })))
    });
    let timeout = Some(Duration::from_millis(300));
    let outcome =
        run(server.address, group(2, Pacing::Closed, ConnectionOptions { timeout, ..plain() }), &counted(2));
    let expect = [
        ("protocol: a reply to another request".to_owned(), 1),
        ("timeout: no answer in time".to_owned(), 1),
    ];
    assert_eq!(texts(&outcome.errors()), expect);
}

#[test]
fn bytes_that_are_no_reply_end_the_connection() {
    let length = |length: u32| move |_: &Seen| Answer::Bytes([&length.to_le_bytes()[..], &[7; 40]].concat());
    for impossible in [0, 3, 15, 48_000_001, u32::MAX] {
        check(length(impossible), 0, &[("protocol: a reply of an impossible length", 1)]);
    }
    check(
        |_| Answer::Bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        0,
        &[("protocol: a reply of an impossible length", 1)],
    );
    // A whole message that answers the request and is nonsense otherwise.
    let garbage = |operation: i32| {
        move |seen: &Seen| {
            let mut message = seen.reply(&doc! { "ok": 1.0 });
            message[12..16].copy_from_slice(&operation.to_le_bytes());
            message[21..].fill(0xFF);
            Answer::Bytes(message)
        }
    };
    check(garbage(2013), 0, &[("unexpected: reply without ok: 1", 10)]);
    check(garbage(1), 0, &[("protocol: not an OP_MSG with a body", 10)]);
    check(garbage(2012), 0, &[("protocol: a reply that cannot be decompressed", 1)]);
}

#[test]
fn a_huge_reply_is_believed_only_as_far_as_it_comes() {
    // It announces 48 MB and sends nothing more.
    let server =
        FakeServer::start(|_| Answer::Bytes([&48_000_000_u32.to_le_bytes()[..], &[1; 100]].concat()));
    let before = crate::process::resident_bytes(std::process::id()).expect("memory");
    let timeout = Some(Duration::from_millis(200));
    let outcome = run(
        server.address,
        group(50, Pacing::Closed, ConnectionOptions { timeout, ..plain() }),
        &counted(50),
    );
    let grown = crate::process::resident_bytes(std::process::id()).expect("memory").saturating_sub(before);
    assert_eq!(texts(&outcome.errors()), [("timeout: no answer in time".to_owned(), 50)]);
    assert!(grown < 1_000_000_000, "{grown} bytes for 50 announcements of 48 MB");
}

#[test]
fn replies_that_end_in_the_middle_are_lost() {
    // The second reply ends in the middle, together with its connection.
    let halves = |cut: usize| {
        move |seen: &Seen| match seen.number {
            0 => good(),
            _ => Answer::Last(seen.reply(&doc! { "ok": 1.0 })[..cut].to_vec()),
        }
    };
    for cut in [1, 3, 4, 15, 16, 20, 30] {
        check(halves(cut), 1, &[("lost: closed by the server", 1)]);
    }
}

#[test]
fn a_connection_that_is_closed_after_some_replies_is_made_again() {
    let server = FakeServer::start(|seen| match seen.number % 10 {
        9 => Answer::Last(seen.reply(&doc! { "ok": 1.0 })),
        _ => good(),
    });
    let outcome = run(server.address, group(1, Pacing::Closed, reconnecting()), &counted(55));
    assert_eq!(outcome.operations(), 50);
    assert_eq!(texts(&outcome.errors()), [("lost: closed by the server".to_owned(), 5)]);
    assert_eq!(server.accepted(), 5, "one connection for each ten replies");
    assert_eq!(outcome.connections.reconnected, 4);
}

#[test]
fn a_server_that_dies_ends_the_run_or_is_found_again() {
    let held = Arc::new(AtomicBool::new(false));
    let until = |holds: &dyn Fn() -> bool| {
        while !holds() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let mut server = FakeServer::start({
        let held = Arc::clone(&held);
        move |seen| {
            held.fetch_or(seen.number == 99, Ordering::SeqCst);
            until(&|| !held.load(Ordering::SeqCst));
            good()
        }
    });
    let group = group(4, Pacing::Closed, reconnecting());
    let mut generator = Generator::connect(server.address, &[group], Share::whole(1), &Interrupt::default())
        .expect("connects");
    let gauge = generator.gauge();
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| generator.run(&counted(400)));
        until(&|| server.requests() >= 100);
        server.die();
        // All connections are lost, and at least one attempt to make one anew has failed.
        until(&|| gauge.snapshot().errors > 4);
        // Still held: the first connection that is back must not do all that is left before the last one is.
        server.come_back();
        until(&|| gauge.snapshot().open == 4);
        held.store(false, Ordering::SeqCst);
        running.join().expect("no panic").expect("runs")
    });
    let [outcome] = outcome.split().expect("one group");
    let lost: u64 = outcome.kinds.iter().flat_map(|kind| kind.errors.values()).sum();
    assert_eq!(outcome.operations() + lost, 400, "{:?}", outcome.errors());
    assert!(lost <= 4, "more than one operation of a connection was lost: {:?}", outcome.errors());
    let counts = outcome.connections;
    assert_eq!((counts.lost, counts.reconnected), (4, 4), "{counts:?}");
    assert!(counts.refused >= 1, "{counts:?}");
}

#[test]
fn a_server_that_dies_for_good_ends_a_run_without_reconnecting() {
    let server = Mutex::new(None::<FakeServer>);
    let started = FakeServer::start(|_| good());
    let address = started.address;
    *server.lock().unwrap() = Some(started);
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(address, group(4, Pacing::Closed, plain()), &counted(u64::MAX)));
        let mut server = server.lock().unwrap().take().expect("a server");
        while server.requests() < 100 {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.die();
        running.join().expect("no panic")
    });
    assert!(outcome.operations() > 0);
    assert_eq!((outcome.error_count(), outcome.connections.lost), (4, 4), "{:?}", outcome.errors());
    assert_eq!(outcome.elapsed, Duration::from_secs(60), "the rate is that of the whole window");
}

#[test]
fn operations_without_a_reply_time_out() {
    let server = FakeServer::start(|seen| if seen.number < 5 { good() } else { Answer::Silence });
    let options = ConnectionOptions { timeout: Some(Duration::from_millis(50)), ..reconnecting() };
    let outcome = run(server.address, group(2, Pacing::Closed, options), &counted(9));
    assert_eq!(outcome.operations(), 5);
    assert_eq!(texts(&outcome.errors()), [("timeout: no answer in time".to_owned(), 4)]);
    assert_eq!(outcome.timed(), 5, "what has no reply has no latency");
}

/// A server that answers nothing for a second, once.
fn pausing(at: u64) -> FakeServer {
    let pause = Mutex::new(());
    FakeServer::start(move |seen| {
        let _held = pause.lock().unwrap();
        if seen.number == at {
            std::thread::sleep(Duration::from_secs(1));
        }
        good()
    })
}

#[test]
fn a_pause_of_the_server_shows_in_every_operation_that_should_have_been_sent() {
    let server = pausing(20);
    let window = Window::lasting(Duration::ZERO, Duration::from_millis(1_500));
    let outcome = run(server.address, group(8, open("200"), plain()), &window);
    assert_eq!((outcome.timed(), outcome.error_count()), (300, 0), "every intended operation was sent");
    let longest_pause = outcome.latencies().quantile_ms(0.999);
    assert!(longest_pause >= 990.0, "p99.9 is {longest_pause} ms after a pause of 1 s");
    // Two thirds of the window fell into the pause: their latencies are spread evenly over it.
    let median = outcome.latencies().quantile_ms(0.5);
    assert!(median >= 200.0, "the median is {median} ms: operations of the pause are left out");
    let seconds = &outcome.kinds.first().expect("a kind").seconds;
    assert!(seconds.iter().any(|second| second.quantile_ms(0.99) >= 900.0), "{seconds:?}");
}

#[test]
fn intended_starts_that_nobody_could_send_are_counted() {
    let server = FakeServer::start(|seen| if seen.number < 10 { good() } else { Answer::Silence });
    let options = ConnectionOptions { timeout: Some(Duration::from_millis(20)), ..plain() };
    let window = Window::lasting(Duration::ZERO, Duration::from_millis(400));
    let outcome = run(server.address, group(3, open("100"), options), &window);
    let errors = outcome.errors();
    let count = |kind| errors.iter().filter(|(key, _)| key.kind == kind).map(|(_, times)| times).sum::<u64>();
    assert_eq!((outcome.operations(), count(FailureKind::Timeout)), (10, 3), "{errors:?}");
    assert_eq!(count(FailureKind::Unsent), 27, "40 starts, of which 13 were sent: {errors:?}");
}

#[test]
fn refusing_servers_and_bad_handshakes_are_errors_of_connections() {
    let server =
        FakeServer::start(|_| Answer::Reply(doc! { "ok": 0.0, "code": 462, "codeName": "Overloaded" }));
    let options = ConnectionOptions { handshake: true, ..plain() };
    let outcome: Outcome = run(server.address, group(3, Pacing::Closed, options), &counted(10));
    assert_eq!(texts(&outcome.connection_errors), [("server 462: Overloaded".to_owned(), 3)]);
    assert_eq!((outcome.connections.refused, outcome.connections.opened, outcome.connected), (3, 0, 0));
}

#[test]
fn what_is_whole_and_follows_nothing_is_noticed_between_requests() {
    // The reply comes together with another message that nobody asked for, a moment later.
    let server = FakeServer::start(|seen| {
        let reply = seen.reply(&doc! { "ok": 1.0 });
        Answer::Bytes([reply, encode(&doc! { "ok": 1.0 })].concat())
    });
    let outcome = run(server.address, group(1, Pacing::Once, plain()), &counted(1));
    assert_eq!(texts(&outcome.errors()), [("protocol: more bytes than one reply".to_owned(), 1)]);
}
