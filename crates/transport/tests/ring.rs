//! `coroutine` on io_uring: what it holds while clients come and go, counted in descriptors, operations and
//! buffers.
#![expect(clippy::indexing_slicing, reason = "a test that reads out of bounds shall fail")]

#[path = "sockets/support.rs"]
#[allow(dead_code, reason = "made for the socket tests, which use all of it")]
mod support;

use document::doc;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use support::{ask, command, connect, eventually, options, read_reply, reset_on_close, start};
use transport::{Figure, Server, ServerOptions, ServiceExecutor, ShutdownReport};

const RINGS: usize = 2;
/// Descriptors belong to the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> impl Drop {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn ring_options() -> ServerOptions {
    ServerOptions { event_loops: RINGS, priority_lane: false, ..options(ServiceExecutor::Coroutine) }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

/// The figure of all rings together.
fn figure(server: &Server, name: &str) -> u64 {
    let statistics = server.statistics();
    let model =
        statistics.executors.iter().find(|model| model.executor == "coroutine").expect("it was started");
    let groups = model.figures.iter().filter_map(|(name, figure)| match figure {
        Figure::Group(figures) if name.starts_with("ring") => Some(figures),
        _ => None,
    });
    groups
        .map(|figures| match figures.iter().find(|(known, _)| *known == name) {
            Some((_, Figure::Count(count))) => *count,
            other => panic!("{name} is {other:?}"),
        })
        .sum()
}

/// A ring tells its figures when it goes to sleep; a request wakes each.
#[track_caller]
fn assert_nothing_held(server: &Server, descriptors: usize) {
    eventually("the end of all sessions", || server.statistics().connections.current == 0);
    eventually("an empty ring", || {
        for _ in 0..RINGS {
            ask(&mut connect(server), &command(doc! { "echo": 1 }, 1));
        }
        eventually("the end of the asker", || server.statistics().connections.current == 0);
        figure(server, "connections") == 0
            && figure(server, "operationsUnderWay") == RINGS as u64
            && figure(server, "buffersInUse") == 0
    });
    eventually("closed sockets", || open_descriptors() == descriptors);
}

#[test]
fn nothing_is_left_of_clients_that_go_in_any_phase() {
    let _alone = alone();
    let before_all = open_descriptors();
    let (server, service) = start(ring_options());
    let descriptors = open_descriptors();
    for round in 0..40 {
        let reset = round % 2 == 0;
        let mut clients = Vec::new();
        // Idle; in the middle of a message; while the service works, on the pool; ahead of it.
        clients.push(connect(&server));
        let part = connect(&server);
        (&part).write_all(&command(doc! { "echo": 1 }, 1).bytes()[..20]).expect("the server reads");
        clients.push(part);
        let calls = service.calls.load(Ordering::SeqCst);
        let working = connect(&server);
        (&working).write_all(command(doc! { "sleep": 5 }, 2).bytes()).expect("the server reads");
        clients.push(working);
        let ahead = connect(&server);
        (&ahead).write_all(command(doc! { "sleep": 5 }, 3).bytes()).expect("the server reads");
        for id in 0..20 {
            (&ahead).write_all(command(doc! { "echo": id }, id).bytes()).expect("the server reads");
        }
        clients.push(ahead);
        // While a reply waits for the client.
        let deaf = connect(&server);
        for id in 0..3 {
            (&deaf).write_all(command(doc! { "fill": 8_000_000 }, id).bytes()).expect("the server reads");
        }
        let _ = (&deaf).read(&mut [0; 100]).expect("the reply has begun");
        clients.push(deaf);
        eventually("the calls", || service.calls.load(Ordering::SeqCst) >= calls + 3);
        for client in clients {
            if reset {
                drop(reset_on_close(client));
            }
        }
    }
    assert_nothing_held(&server, descriptors);
    drop(server);
    eventually("closed rings", || open_descriptors() == before_all);
}

#[test]
fn nothing_is_left_after_many_rounds() {
    let _alone = alone();
    let (server, _service) = start(ring_options());
    let descriptors = open_descriptors();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for id in 1..500 {
                    let mut client = connect(&server);
                    ask(&mut client, &command(doc! { "echo": id }, id));
                    if id % 3 == 0 {
                        client.shutdown(Shutdown::Both).expect("an open socket");
                    }
                }
            });
        }
    });
    assert_nothing_held(&server, descriptors);
}

#[test]
fn a_forced_end_in_every_phase_leaves_nothing() {
    let _alone = alone();
    let before = open_descriptors();
    for _ in 0..5 {
        let (server, service) = start(ring_options());
        let idle = connect(&server);
        let working = connect(&server);
        (&working).write_all(command(doc! { "sleep": 100 }, 1).bytes()).expect("the server reads");
        let mut deaf = connect(&server);
        for id in 0..3 {
            deaf.write_all(command(doc! { "fill": 8_000_000 }, id).bytes()).expect("the server reads");
        }
        eventually("the calls", || service.calls.load(Ordering::SeqCst) >= 2);
        let report = server.shutdown(Duration::from_millis(20));
        assert!(report.forced >= 1, "a client that does not read has ended in order: {report:?}");
        assert_eq!(report.abandoned, 0);
        drop(server);
        drop((idle, working, deaf));
        eventually("closed sockets and rings", || open_descriptors() == before);
    }
}

#[test]
fn clients_far_ahead_do_not_take_the_buffers_of_others() {
    let _alone = alone();
    let (server, service) = start(ring_options());
    let clients: i32 = 16;
    let requests: i32 = 12_000;
    thread::scope(|scope| {
        for _ in 0..clients {
            let stream = connect(&server);
            let reader = stream.try_clone().expect("a descriptor");
            scope.spawn(move || {
                // The first one holds a thread of the pool, or waits for one.
                let mut all = command(doc! { "sleep": 0, "hold": 1 }, 0).into_bytes();
                for id in 1..requests {
                    all.extend_from_slice(command(doc! { "echo": id }, id).bytes());
                }
                (&stream).write_all(&all).expect("the server reads in the end");
            });
            scope.spawn(move || {
                let mut reader = std::io::BufReader::new(reader);
                for id in 0..requests {
                    assert_eq!(read_reply(&mut reader).expect("a reply").0, id, "replies in another order");
                }
            });
        }
        let paused = || figure(&server, "receivesPaused") >= clients as u64;
        eventually("a pause of each", || {
            ask(&mut connect(&server), &command(doc! { "echo": 1 }, 1));
            paused()
        });
        eventually("the return of all buffers", || figure(&server, "buffersInUse") == 0);
        let mut other = connect(&server);
        for id in 1..100 {
            ask(&mut other, &command(doc! { "echo": id }, id));
        }
        service.release();
    });
    assert!(figure(&server, "receivesRearmed") > 0);
}

/// Each request goes to the pool and back: wake-ups from other threads are not lost, and sleeping rings hear
/// of them.
#[test]
fn requests_that_leave_the_ring_come_back() {
    let _alone = alone();
    let (server, _service) = start(ring_options());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = connect(&server);
                for id in 1..300 {
                    ask(&mut client, &command(doc! { "sleep": 0, "fill": 100 }, id));
                }
            });
        }
    });
    assert!(figure(&server, "tasksFromOtherThreads") > 0);
}

#[test]
fn starts_and_ends_again_and_again_under_load() {
    let _alone = alone();
    for _ in 0..30 {
        let (server, _service) = start(ring_options());
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                let mut client = connect(&server);
                let ends = &ends;
                scope.spawn(move || {
                    for id in 1.. {
                        let sent = client.write_all(command(doc! { "echo": id }, id).bytes());
                        if sent.is_err() || read_reply(&mut client).is_err() {
                            assert!(ends.load(Ordering::SeqCst), "a request was lost");
                            return;
                        }
                    }
                });
            }
            eventually("progress", || server.statistics().network.num_requests > 50);
            ends.store(true, Ordering::SeqCst);
            let report = server.shutdown(Duration::from_secs(20));
            assert_eq!(report, ShutdownReport { forced: 0, abandoned: 0 });
        });
    }
}

#[test]
fn runs_on_epoll_where_io_uring_is_not_allowed() {
    let _alone = alone();
    let (server, _service) = start(ServerOptions { io_uring: false, ..ring_options() });
    let mut client = connect(&server);
    for id in 1..100 {
        ask(&mut client, &command(doc! { "sleep": 0, "fill": 100_000 }, id));
    }
    let statistics = server.statistics();
    let model = statistics.executors.first().expect("a model");
    assert_eq!(model.executor, "coroutine");
    assert!(model.figures.contains(&("driver", Figure::Text("epoll"))), "{:?}", model.figures);
    let (with_rings, _service) = start(ring_options());
    let statistics = with_rings.statistics();
    let model = statistics.executors.first().expect("a model");
    assert!(model.figures.contains(&("driver", Figure::Text("io_uring"))), "{:?}", model.figures);
}
