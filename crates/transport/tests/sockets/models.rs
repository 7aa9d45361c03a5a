//! Several thread models in one server, and changes between them while clients push.

use crate::support::{ask, command, connect, eventually, options, start};
use document::doc;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use transport::{ServerOptions, ServiceExecutor};

/// The statistics of a model that serves somebody.
fn started(server: &transport::Server) -> Vec<&'static str> {
    server.statistics().executors.iter().map(|one| one.executor).collect()
}

#[test]
fn changes_under_load_lose_no_request() {
    let (server, service) = start(options(ServiceExecutor::Synchronous));
    let server = Arc::new(server);
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..16)
        .map(|_| {
            let (server, stop, answered) = (Arc::clone(&server), Arc::clone(&stop), Arc::clone(&answered));
            thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let mut stream = connect(&server);
                    for id in 1..=20 {
                        let request = if id % 7 == 0 {
                            doc! { "sleep": 1 }
                        } else {
                            doc! { "echo": id }
                        };
                        ask(&mut stream, &command(request, id));
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for round in 0..3 {
        for model in ServiceExecutor::ALL {
            assert!(server.set_executor(None, model).expect("the model starts"), "no listener was changed");
            let before = answered.load(Ordering::SeqCst);
            eventually("progress", || answered.load(Ordering::SeqCst) > before + 200);
            assert_eq!(server.executor(), model, "round {round}");
        }
    }
    stop.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("a client that was always answered"));
    assert_eq!(service.calls.load(Ordering::SeqCst), answered.load(Ordering::SeqCst));
    for name in ["passthrough", "adaptive", "reactor", "coroutine"] {
        assert!(started(&server).contains(&name), "{name} has no statistics");
    }
}

#[test]
fn a_listener_has_as_many_connections_as_it_may_and_others_have_theirs() {
    let bind_addresses = vec!["127.0.0.1".to_owned(), "127.0.0.2".to_owned()];
    let listener_max_connections = vec![("127.0.0.2".to_owned(), 2)];
    let limited =
        ServerOptions { bind_addresses, listener_max_connections, ..options(ServiceExecutor::Reactor) };
    let (server, _service) = start(limited);
    let join = |place: usize| {
        let mut stream = TcpStream::connect(server.tcp_addresses()[place]).expect("the kernel accepts");
        let reply = ask(&mut stream, &command(doc! { "echo": 1 }, 1));
        let code = reply.get("code").cloned();
        (stream, code)
    };
    let (first, second) = (join(1), join(1));
    assert_eq!((&first.1, &second.1), (&None, &None));
    let (_, refused) = join(1);
    assert_eq!(refused, Some(402.into()), "ResourceExhausted");
    let others: Vec<_> = (0..5).map(|_| join(0)).collect();
    assert!(others.iter().all(|(_, code)| code.is_none()), "another listener's are counted");
    assert_eq!(server.statistics().connections.rejected, 1);
    drop(first);
    eventually("the end of the first", || server.statistics().connections.current == 6);
    assert_eq!(join(1).1, None, "there is room again");
}

#[test]
fn each_listener_has_its_own_model() {
    let bind_addresses = vec!["127.0.0.1".to_owned(), "127.0.0.2".to_owned()];
    let listener_executors = vec![("127.0.0.2".to_owned(), ServiceExecutor::Reactor)];
    let mixed = ServerOptions { bind_addresses, listener_executors, ..options(ServiceExecutor::Synchronous) };
    let (server, _service) = start(mixed);
    let threads = |server: &transport::Server| {
        let statistics = server.statistics();
        statistics
            .executors
            .iter()
            .find(|one| one.executor == "passthrough")
            .and_then(|one| one.count("threadsRunning"))
    };
    let mut second = TcpStream::connect(server.tcp_addresses()[1]).expect("the server accepts");
    ask(&mut second, &command(doc! { "echo": 1 }, 1));
    assert_eq!(threads(&server), Some(0), "the reactor's connection has a thread");
    let mut first = connect(&server);
    ask(&mut first, &command(doc! { "echo": 1 }, 1));
    assert_eq!(threads(&server), Some(1));
    assert!(server.set_executor(Some("127.0.0.1"), ServiceExecutor::Reactor).expect("the model starts"));
    let mut third = connect(&server);
    ask(&mut third, &command(doc! { "echo": 1 }, 1));
    assert_eq!(threads(&server), Some(1), "a change of one listener did not count");
    // Open connections stay as they are.
    ask(&mut first, &command(doc! { "echo": 2 }, 2));
    assert!(!server.set_executor(Some("nowhere"), ServiceExecutor::Reactor).expect("the model runs"));
}
