//! What every thread model does on real sockets: serve, count, refuse, end.

use crate::support::{Echo, ask, command, connect, eventually, options, read_reply, reset_on_close, start};
use document::doc;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use transport::{Server, ServerOptions, ServiceExecutor, StartError};
use wire::CommandMessage;

for_each_executor! {
    answers_many_clients_at_once
    answers_pipelined_requests_in_order
    answers_what_half_closed_clients_sent
    carries_the_largest_messages
    counts_what_it_does
    drops_clients_that_do_not_read
    ends_with_its_clients_idle
    finishes_what_runs_before_it_ends
    foresees_what_outlasts_a_loop
    forces_what_does_not_end
    replaces_stale_unix_sockets_only
    says_that_the_port_is_taken
    serves_on_unix_sockets
    survives_resets
    tells_refused_clients_why
}

fn answers_many_clients_at_once(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let server = Arc::new(server);
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let server = Arc::clone(&server);
            thread::spawn(move || {
                let mut stream = connect(&server);
                for id in 1..=40 {
                    ask(&mut stream, &command(doc! { "echo": id }, id));
                }
            })
        })
        .collect();
    for client in clients {
        client.join().expect("a client");
    }
    assert_eq!(service.calls.load(Ordering::SeqCst), 2000);
    eventually("the end of all sessions", || server.statistics().connections.current == 0);
    assert_eq!(service.closed.load(Ordering::SeqCst), 50);
}

fn answers_pipelined_requests_in_order(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut stream = connect(&server);
    let all: Vec<u8> = (1..=1000).flat_map(|id| command(doc! { "echo": id }, id).into_bytes()).collect();
    stream.write_all(&all).expect("the server reads");
    for id in 1..=1000 {
        let (response_to, body) = read_reply(&mut stream).expect("a reply");
        assert_eq!(response_to, id);
        assert_eq!(
            body.get("calls"),
            Some(&i64::from(id - 1).into()),
            "requests were processed out of order"
        );
    }
}

fn answers_what_half_closed_clients_sent(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut stream = connect(&server);
    stream.write_all(command(doc! { "sleep": 20 }, 3).bytes()).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("half a shutdown");
    assert_eq!(read_reply(&mut stream).expect("the reply still comes").0, 3);
    assert_eq!(stream.read(&mut [0]).expect("end of file"), 0);
}

fn carries_the_largest_messages(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut stream = connect(&server);
    let document = doc! { "text": "x".repeat(15_000_000) }.to_buf();
    let three = [document.as_raw(), document.as_raw(), document.as_raw()];
    let request =
        CommandMessage::new(doc! { "insert": "c" }.to_buf().as_raw()).sequence("documents", three).finish(1);
    assert!(request.bytes().len() > 45_000_000);
    ask(&mut stream, &request);
    let body = ask(&mut stream, &command(doc! { "fill": 10_000_000 }, 2));
    assert!(matches!(body.get("filled"), Some(document::Value::String(text)) if text.len() == 10_000_000));
    let mut oversize = command(doc! { "echo": 1 }, 3).into_bytes();
    oversize[..4].copy_from_slice(&48_000_001i32.to_le_bytes());
    stream.write_all(&oversize).expect("the server reads");
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "a message over the limit was answered");
}

fn counts_what_it_does(executor: ServiceExecutor) {
    let (server, _service) = start(ServerOptions { max_connections: 10, ..options(executor) });
    let request = command(doc! { "echo": 1 }, 1);
    let mut first = connect(&server);
    let mut second = connect(&server);
    for _ in 0..5 {
        ask(&mut first, &request);
    }
    ask(&mut second, &request);
    drop(second);
    eventually("the second session's end", || server.statistics().connections.current == 1);
    let statistics = server.statistics();
    assert_eq!((statistics.connections.available, statistics.connections.total_created), (9, 2));
    assert_eq!(statistics.network.num_requests, 6);
    assert_eq!(statistics.network.bytes_in, 6 * request.bytes().len() as u64);
    assert_eq!(statistics.network.physical_bytes_in, statistics.network.bytes_in);
    assert_eq!(statistics.network.bytes_out, statistics.network.physical_bytes_out);
    assert_eq!(statistics.executors[0].executor, executor.statistics_name());
    first.write_all(command(doc! { "sleep": 200 }, 2).bytes()).expect("the server reads");
    eventually("an active session", || server.statistics().connections.active == 1);
}

fn foresees_what_outlasts_a_loop(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let mut stream = connect(&server);
    let mut began_on_pool =
        |request| ask(&mut stream, &command(request, 1)).get("onPool") == Some(&true.into());
    if began_on_pool(doc! { "sleep": 1 }) {
        let blocks = matches!(executor, ServiceExecutor::Synchronous | ServiceExecutor::Adaptive);
        assert!(blocks, "the first request began on the pool");
        return;
    }
    assert!(began_on_pool(doc! { "sleep": 2 }), "one like the last");
    assert!(!began_on_pool(doc! { "sleep": 1, "other": 1 }), "one of another length");
    assert!(!began_on_pool(doc! { "sleep": 1 }), "the last was of another length");
    assert!(began_on_pool(doc! { "sleep": 0 }), "one like the last, which turns out to be short");
    let comes_home = (0..100).any(|_| !began_on_pool(doc! { "sleep": 0 }));
    assert!(comes_home, "short ones are foreseen on and on");
}

fn drops_clients_that_do_not_read(executor: ServiceExecutor) {
    let (server, _service) =
        start(ServerOptions { send_timeout: Duration::from_millis(100), ..options(executor) });
    let mut stream = connect(&server);
    let request = command(doc! { "fill": 15_000_000 }, 1);
    for _ in 0..4 {
        // The server may already have given up on us.
        let _ = stream.write_all(request.bytes());
    }
    eventually("the slow client's end", || server.statistics().connections.current == 0);
}

fn ends_with_its_clients_idle(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let mut clients: Vec<_> = (0..20).map(|_| connect(&server)).collect();
    for client in &mut clients {
        ask(client, &command(doc! { "echo": 1 }, 1));
    }
    let started = Instant::now();
    let report = server.shutdown(Duration::from_secs(20));
    assert_eq!((report.forced, report.abandoned), (0, 0));
    assert!(started.elapsed() < Duration::from_secs(10), "idle clients held the shutdown up");
    assert_eq!(service.closed.load(Ordering::SeqCst), 20);
    for client in &mut clients {
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    }
    let address = server.tcp_addresses().first().copied();
    assert!(address.is_none_or(|address| TcpStream::connect(address).is_err()), "still listening");
}

fn finishes_what_runs_before_it_ends(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let mut stream = connect(&server);
    stream.write_all(command(doc! { "sleep": 200 }, 8).bytes()).expect("the server reads");
    eventually("the call", || service.calls.load(Ordering::SeqCst) == 1);
    let report = server.shutdown(Duration::from_secs(20));
    assert_eq!(report.forced, 0);
    assert_eq!(read_reply(&mut stream).expect("the reply of what ran").0, 8);
}

fn forces_what_does_not_end(executor: ServiceExecutor) {
    let (server, service) = start(options(executor));
    let mut stream = connect(&server);
    // A client that does not take its reply holds its session in the sending phase.
    for id in 0..4 {
        stream.write_all(command(doc! { "fill": 15_000_000 }, id).bytes()).expect("the server reads");
    }
    eventually("the call", || service.calls.load(Ordering::SeqCst) >= 1);
    let report = server.shutdown(Duration::from_millis(300));
    assert_eq!((report.forced, report.abandoned), (1, 0));
}

fn survives_resets(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let whole = command(doc! { "sleep": 5 }, 1).into_bytes();
    for length in [0, 3, 16, 25, whole.len()] {
        let stream = connect(&server);
        (&stream).write_all(&whole[..length]).expect("the server reads");
        let socket = reset_on_close(stream);
        drop(socket);
    }
    eventually("the end of all sessions", || server.statistics().connections.current == 0);
    ask(&mut connect(&server), &command(doc! { "echo": 1 }, 1));
}

fn tells_refused_clients_why(executor: ServiceExecutor) {
    let (server, _service) = start(ServerOptions { max_connections: 1, ..options(executor) });
    let mut first = connect(&server);
    ask(&mut first, &command(doc! { "echo": 1 }, 1));
    let mut second = connect(&server);
    let body = ask(&mut second, &command(doc! { "hello": 1 }, 5));
    assert_eq!(body.get("codeName"), Some(&"ResourceExhausted".into()));
    let mut legacy = connect(&server);
    let hello = CommandMessage::legacy("admin", doc! { "isMaster": 1 }.to_buf().as_raw(), 6);
    assert_eq!(ask(&mut legacy, &hello).get("ok"), Some(&0.0.into()));
    assert_eq!(server.statistics().connections.rejected, 2);
    drop(first);
    eventually("room for another client", || server.statistics().connections.current == 0);
    ask(&mut connect(&server), &command(doc! { "echo": 1 }, 1));
    server.set_max_connections(0);
    assert_eq!(ask(&mut connect(&server), &command(doc! { "hello": 1 }, 5)).get("ok"), Some(&0.0.into()));
}

fn says_that_the_port_is_taken(executor: ServiceExecutor) {
    let (server, _service) = start(options(executor));
    let taken = server.tcp_addresses()[0];
    let again = ServerOptions { port: taken.port(), ..options(executor) };
    let error = Server::start(again, Arc::<Echo>::default()).err();
    assert!(matches!(error, Some(StartError::PortInUse { address }) if address == taken), "{error:?}");
    let nowhere = ServerOptions { bind_addresses: vec!["203.0.113.1".to_owned()], ..options(executor) };
    let error = Server::start(nowhere, Arc::<Echo>::default()).err();
    assert!(matches!(error, Some(StartError::Listen { .. })), "{error:?}");
}

fn on_unix(executor: ServiceExecutor, directory: &Path) -> ServerOptions {
    ServerOptions { unix_socket_prefix: Some(directory.to_owned()), ..options(executor) }
}

fn serves_on_unix_sockets(executor: ServiceExecutor) {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, _service) = start(on_unix(executor, directory.path()));
    let port = server.tcp_addresses()[0].port();
    let path = directory.path().join(format!("mongodb-{port}.sock"));
    assert_eq!(server.unix_paths(), std::slice::from_ref(&path));
    let mode = std::fs::metadata(&path).expect("the socket's file").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "permissions of the socket");
    let mut stream = UnixStream::connect(&path).expect("the server accepts");
    ask(&mut stream, &command(doc! { "echo": 1 }, 1));
    assert_eq!(server.sessions()[0].peer().to_string(), "anonymous unix socket");
    server.shutdown(Duration::from_secs(5));
    assert!(!path.exists(), "the socket's file is left behind");
}

fn replaces_stale_unix_sockets_only(executor: ServiceExecutor) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("heddle.sock");
    let on_path =
        || ServerOptions { bind_addresses: vec![path.to_string_lossy().into_owned()], ..options(executor) };
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let (first, _service) = start(on_path());
    let error = Server::start(on_path(), Arc::<Echo>::default()).err();
    assert!(matches!(error, Some(StartError::UnixSocketInUse { .. })), "{error:?}");
    ask(&mut UnixStream::connect(&path).expect("the first still listens"), &command(doc! { "echo": 1 }, 1));
    drop(first);
    std::fs::write(&path, "no socket").expect("a file");
    let error = Server::start(on_path(), Arc::<Echo>::default()).err();
    assert!(matches!(error, Some(StartError::UnixSocket { .. })), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file is left"), "no socket");
}
