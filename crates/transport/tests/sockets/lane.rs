//! The diagnostic lane answers while everything else is stuck, and admission refuses what would wait too
//! long.

use crate::support::{ask, command, connect, eventually, options, start};
use document::{Document, doc};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use transport::{Figure, OverloadTarget, PoolOptions, Server, ServerOptions, ServiceExecutor};

for_each_executor! {
    answers_monitors_while_all_threads_are_stuck
    begins_long_messages_where_they_may_take_long
    gives_members_a_thread_that_nobody_holds_up
    keeps_the_priority_port_on_the_lane
    knows_no_overload_of_a_server_at_rest
    leaves_the_lane_with_the_first_other_request
    refuses_what_few_clients_wait_for
    refuses_what_would_wait_too_long
    serves_without_a_lane
}

fn ping(id: i32) -> wire::Message {
    command(doc! { "ping": 1 }, id)
}

fn on_lane(body: &Document) -> bool {
    body.get("lane") == Some(&true.into())
}

/// The stuck requests end only after the monitors were answered, so that time does not matter.
fn answers_monitors_while_all_threads_are_stuck(executor: ServiceExecutor) {
    let pool = PoolOptions { max_threads: 2, ..PoolOptions::default() };
    let (server, service) = start(ServerOptions { pool, ..options(executor) });
    let mut early = connect(&server);
    ask(&mut early, &ping(1));
    let stuck: Vec<TcpStream> = (0..64).map(|_| connect(&server)).collect();
    for mut stream in &stuck {
        stream.write_all(command(doc! { "hold": 1 }, 1).bytes()).expect("the server reads");
    }
    eventually("a held request", || service.held.load(Ordering::SeqCst) > 0);
    for id in 2..200 {
        assert!(on_lane(&ask(&mut early, &ping(id))), "a monitor is not on the lane");
    }
    let mut late = connect(&server);
    assert!(on_lane(&ask(&mut late, &ping(1))), "a new monitor is not on the lane");
    assert!(server.statistics().connections.on_lane >= 2);
    service.release();
    drop(stuck);
    eventually("the end of the others", || server.statistics().connections.current == 2);
}

fn leaves_the_lane_with_the_first_other_request(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let mut stream = connect(&server);
    assert!(on_lane(&ask(&mut stream, &ping(1))));
    // Several requests at once, the second of which makes it leave: none is lost, none comes twice.
    let both =
        [ping(2).into_bytes(), command(doc! { "echo": 1 }, 3).into_bytes(), ping(4).into_bytes()].concat();
    stream.write_all(&both).expect("the server reads");
    for (id, lane) in [(2, true), (3, false), (4, false)] {
        let (response_to, body) = crate::support::read_reply(&mut stream).expect("a reply");
        assert_eq!((response_to, on_lane(&body)), (id, lane));
    }
    assert_eq!(service.calls.load(Ordering::SeqCst), 4);
    assert_eq!((service.opened.load(Ordering::SeqCst), service.closed.load(Ordering::SeqCst)), (1, 0));
}

fn keeps_the_priority_port_on_the_lane(executor: ServiceExecutor) {
    let options = ServerOptions { priority_port: Some(0), max_connections: 1, ..options(executor) };
    let (server, _service) = start(options);
    let mut ordinary = connect(&server);
    ask(&mut ordinary, &command(doc! { "echo": 1 }, 1));
    // Over the limit that holds for others.
    let mut priority = TcpStream::connect(server.priority_addresses()[0]).expect("the server accepts");
    assert!(on_lane(&ask(&mut priority, &command(doc! { "echo": 1 }, 1))));
    assert!(on_lane(&ask(&mut priority, &command(doc! { "sleep": 1 }, 2))), "offloading left the lane");
    assert!(server.sessions().iter().any(|session| session.is_priority()));
}

fn long_ping(id: i32) -> wire::Message {
    command(doc! { "ping": 1, "text": ("x".repeat(1 << 20)) }, id)
}

/// What a message says of its length is enough to send it where reading it holds up nobody.
fn begins_long_messages_where_they_may_take_long(executor: ServiceExecutor) {
    let (server, _service) = start(ServerOptions { priority_port: Some(0), ..options(executor) });
    let on_pool = |body: &Document| body.get("onPool") == Some(&true.into());
    let mut stream = connect(&server);
    assert!(on_lane(&ask(&mut stream, &ping(1))));
    let answer = ask(&mut stream, &long_ping(2));
    assert!(!on_lane(&answer) && on_pool(&answer), "a long message: {answer:?}");
    let small = wire::compress_message(&long_ping(3), wire::Compressor::Zstd, Vec::new()).expect("memory");
    assert!(small.bytes().len() < 1024, "it is short as it comes");
    for _ in 0..2 {
        stream.write_all(small.bytes()).expect("the server reads");
        let (_, compressed) = crate::support::read_compressed(&mut stream);
        assert!(on_pool(&compressed), "a message that is long when inflated: {compressed:?}");
    }
    let mut priority = TcpStream::connect(server.priority_addresses()[0]).expect("the server accepts");
    let answer = ask(&mut priority, &long_ping(1));
    assert!(on_lane(&answer) && on_pool(&answer), "a long message on the priority port: {answer:?}");
}

/// Messages of other members come also while clients' requests hold all threads and all memory for large
/// ones.
fn gives_members_a_thread_that_nobody_holds_up(executor: ServiceExecutor) {
    let pool = PoolOptions { max_threads: 2, ..PoolOptions::default() };
    let (server, service) = start(ServerOptions { pool, large_requests_max: 1, ..options(executor) });
    let mut early = connect(&server);
    assert!(on_lane(&ask(&mut early, &command(doc! { "ping": 1, "member": 1 }, 1))));
    let stuck: Vec<TcpStream> = (0..64).map(|_| connect(&server)).collect();
    let filler = "x".repeat(4 << 20);
    let large = command(doc! { "hold": 1, "text": (filler.as_str()) }, 1);
    let mut first = stuck.first().expect("there are some");
    first.write_all(large.bytes()).expect("the server reads");
    for mut stream in stuck.iter().skip(1) {
        stream.write_all(command(doc! { "hold": 1 }, 1).bytes()).expect("the server reads");
    }
    eventually("a held request", || service.held.load(Ordering::SeqCst) > 0);
    let mut late = connect(&server);
    ask(&mut late, &command(doc! { "ping": 1, "member": 1 }, 1));
    for (stream, id) in [(&mut early, 2), (&mut late, 2)] {
        let answer = ask(stream, &command(doc! { "ping": 1, "text": (filler.as_str()) }, id));
        assert!(!on_lane(&answer) && answer.get("onPool") == Some(&true.into()), "{id}: {answer:?}");
        assert!(!on_lane(&ask(stream, &ping(id + 1))), "it stays on its thread");
    }
    service.release();
    drop(stuck);
    eventually("the end of the others", || server.statistics().connections.current == 2);
}

fn serves_without_a_lane(executor: ServiceExecutor) {
    let (server, _service) = start(ServerOptions { priority_lane: false, ..options(executor) });
    let mut stream = connect(&server);
    assert!(!on_lane(&ask(&mut stream, &ping(1))));
}

/// Requests that compute for so long, on so many connections at once, are too many for the target: some are
/// refused, and none any more when nothing is.
fn refuses_under_load(executor: ServiceExecutor, connections: usize, milliseconds: i32, target: Duration) {
    // A thread of its own for each connection, or as many workers as block: nothing queues in the server for
    // long.
    if matches!(executor, ServiceExecutor::Synchronous | ServiceExecutor::Adaptive) {
        return;
    }
    let overload = OverloadTarget::Fixed(target);
    let (server, _service) = start(ServerOptions { overload, ..options(executor) });
    let server = Arc::new(server);
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
            thread::spawn(move || {
                let mut stream = connect(&server);
                while !stop.load(Ordering::SeqCst) {
                    ask(&mut stream, &command(doc! { "compute": milliseconds }, 1));
                }
                stream
            })
        })
        .collect();
    eventually("a refusal", || refused(&server));
    stop.store(true, Ordering::SeqCst);
    let clients = clients.into_iter().map(|client| client.join().expect("a client that was always answered"));
    let mut clients: Vec<_> = clients.collect();
    server.set_overload(OverloadTarget::Off);
    for stream in &mut clients {
        assert_eq!(ask(stream, &command(doc! { "echo": 1 }, 2)).get("ok"), Some(&1.0.into()));
    }
}

fn admission_figure(server: &Server, name: &str) -> Option<Figure> {
    let admission = server.statistics().admission;
    admission.into_iter().find(|(figure, _)| *figure == name).map(|(_, value)| value)
}

fn refused(server: &Server) -> bool {
    let kinds = admission_figure(server, "refused");
    matches!(kinds, Some(Figure::Group(kinds)) if kinds.iter().any(|(_, count)| *count != Figure::Count(0)))
}

/// Every request holds its thread for a while, and there are far more clients than threads.
fn refuses_what_would_wait_too_long(executor: ServiceExecutor) {
    refuses_under_load(executor, 64, 3, Duration::from_millis(2));
}

/// A turn of a loop takes all that a few clients ask, so that each turn begins with a look for events.
fn refuses_what_few_clients_wait_for(executor: ServiceExecutor) {
    refuses_under_load(executor, 12, 20, Duration::from_millis(10));
}

/// A request that comes after a long silence came now, not during the silence.
fn knows_no_overload_of_a_server_at_rest(executor: ServiceExecutor) {
    let overload = OverloadTarget::Fixed(Duration::from_millis(100));
    let (server, _service) = start(ServerOptions { overload, ..options(executor) });
    let mut stream = connect(&server);
    for id in 1..8 {
        assert_eq!(ask(&mut stream, &command(doc! { "echo": 1 }, id)).get("ok"), Some(&1.0.into()));
        thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(admission_figure(&server, "intervalsOverloaded"), Some(Figure::Count(0)));
}
