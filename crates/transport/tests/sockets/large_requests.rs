//! Large requests, many at a time.

use crate::support::{ask, command, connect, eventually, options, read_reply, start};
use document::doc;
use std::io::Write;
use std::thread;
use transport::{Figure, Server, ServerOptions, ServiceExecutor};
use wire::Message;

for_each_executor! {
    large_requests_wait_for_each_other
    small_requests_do_not_wait
    a_large_request_that_goes_away_holds_up_nobody
    large_requests_are_not_received_while_memory_is_short
}

const LENGTH: usize = 8 << 20;
const BOUND: u64 = 20 << 20;

fn bounded(executor: ServiceExecutor) -> ServerOptions {
    ServerOptions { large_requests_max: BOUND, ..options(executor) }
}

fn figure(server: &Server, wanted: &str) -> u64 {
    let figures = server.statistics().large_requests;
    match figures.iter().find(|(name, _)| *name == wanted) {
        Some((_, Figure::Count(count))) => *count,
        other => panic!("{wanted} is {other:?}"),
    }
}

fn large(id: i32) -> Message {
    command(doc! { "echo": 1, "padding": ("x".repeat(LENGTH)) }, id)
}

/// Begins a large request and sends a part of it.
fn begin(server: &Server) -> std::net::TcpStream {
    let mut stream = connect(server);
    stream.write_all(&large(1).bytes()[..100_000]).expect("the server reads");
    stream
}

fn large_requests_wait_for_each_other(executor: ServiceExecutor) {
    let (server, service) = start(bounded(executor));
    let held: Vec<_> = (0..2).map(|_| begin(&server)).collect();
    eventually("two large requests", || figure(&server, "bytes") > 2 * LENGTH as u64);
    let request = large(7);
    let senders: Vec<_> = (0..6)
        .map(|_| (connect(&server), request.clone()))
        .map(|(mut stream, request)| {
            thread::spawn(move || {
                stream.write_all(request.bytes()).expect("the server reads");
                read_reply(&mut stream).expect("the server answers")
            })
        })
        .collect();
    eventually("requests that wait", || figure(&server, "waits") >= 6);
    assert!(figure(&server, "bytes") <= BOUND, "more than fits");
    // The two are not sent on: they are ended, because others wait.
    for sender in senders {
        assert_eq!(sender.join().expect("the sender").0, 7);
    }
    assert_eq!(figure(&server, "connectionsEnded"), 2);
    drop(held);
    eventually("the end of all requests", || figure(&server, "bytes") == 0);
    assert_eq!(service.calls.load(std::sync::atomic::Ordering::SeqCst), 6);
}

fn small_requests_do_not_wait(executor: ServiceExecutor) {
    let (server, _service) = start(bounded(executor));
    let _held: Vec<_> = (0..3).map(|_| begin(&server)).collect();
    eventually("a request that waits", || figure(&server, "waits") > 0);
    let mut small = connect(&server);
    for id in 0..100 {
        ask(&mut small, &command(doc! { "echo": 1, "padding": ("x".repeat(100_000)) }, id));
    }
}

fn a_large_request_that_goes_away_holds_up_nobody(executor: ServiceExecutor) {
    let (server, _service) = start(bounded(executor));
    let mut held: Vec<_> = (0..3).map(|_| begin(&server)).collect();
    eventually("a request that waits", || figure(&server, "waits") > 0);
    // The one that waits is not read from, so that nobody hears of its end; it ends when it is its turn.
    drop(held.pop());
    drop(held.pop());
    drop(held.pop());
    for id in 0..4 {
        ask(&mut connect(&server), &large(id));
    }
    eventually("the end of all requests", || figure(&server, "bytes") == 0);
    assert_eq!(figure(&server, "connectionsEnded"), 0);
}

fn large_requests_are_not_received_while_memory_is_short(executor: ServiceExecutor) {
    let (server, _service) = start(bounded(executor));
    server.set_memory_is_short(true);
    let mut stream = begin(&server);
    eventually("a large request that waits", || server.memory().paced == 1);
    // Nobody says again that memory is short, so that nobody looks how long it has waited.
    assert_eq!(figure(&server, "bytes"), 0, "it is received");
    server.set_memory_is_short(false);
    eventually("its admission", || figure(&server, "bytes") > LENGTH as u64);
    stream.write_all(&large(1).bytes()[100_000..]).expect("the server reads");
    assert_eq!(read_reply(&mut stream).expect("the server answers").0, 1);
}
