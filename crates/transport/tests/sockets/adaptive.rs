//! What only `adaptive` has: queues, elastic workers and their parameters.

use crate::support::{Echo, ask, command, connect, eventually, options, read_reply, start};
use document::doc;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use transport::{AdaptiveOptions, Figure, Server, ServerOptions, ServiceExecutor};

fn start_with(adaptive: AdaptiveOptions) -> (Server, Arc<Echo>) {
    start(ServerOptions { adaptive, ..options(ServiceExecutor::Adaptive) })
}

fn figures(server: &Server) -> Vec<(&'static str, Figure)> {
    let executors = server.statistics().executors;
    let adaptive = executors.into_iter().find(|one| one.executor == "adaptive");
    adaptive.expect("the model runs").figures
}

fn figure(server: &Server, path: &[&str]) -> u64 {
    let mut group = figures(server);
    for name in path {
        match group.into_iter().find(|(known, _)| known == name) {
            Some((_, Figure::Count(count))) => return count,
            Some((_, Figure::Group(inner))) => group = inner,
            _ => break,
        }
    }
    panic!("no figure {path:?}");
}

/// Clients whose first request was answered: they have left the lane.
fn clients(server: &Server, count: usize) -> Vec<TcpStream> {
    let admitted = |_| {
        let mut client = connect(server);
        ask(&mut client, &command(doc! { "hey": 1 }, 1));
        client
    };
    (0..count).map(admitted).collect()
}

#[test]
fn any_number_of_queues_serves_every_client() {
    for queues in [1, 2, 7, 64] {
        let (server, _) =
            start_with(AdaptiveOptions { reserved_threads: 1, queues, ..AdaptiveOptions::default() });
        let mut clients = clients(&server, 20);
        for round in 0..20 {
            for client in &mut clients {
                client.write_all(command(doc! { "hey": 1 }, round).bytes()).expect("the server reads");
            }
            for client in &mut clients {
                let (answered, _) = read_reply(client).expect("an answer");
                assert_eq!(answered, round, "with {queues} queues");
            }
        }
        assert_eq!(figure(&server, &["queues"]), queues as u64);
        assert_eq!(figure(&server, &["metricsByTask", "startSession", "totalExecuted"]), 20);
    }
}

#[test]
fn statistics_bear_their_published_names() {
    let (server, _) = start_with(AdaptiveOptions::default());
    let _clients = clients(&server, 3);
    let names: Vec<_> = figures(&server).into_iter().map(|(name, _)| name).take(11).collect();
    assert_eq!(
        names,
        [
            "threadsInUse",
            "threadsRunning",
            "threadsPending",
            "totalExecuted",
            "tasksQueued",
            "deferredTasksQueued",
            "totalTimeRunningMicros",
            "totalTimeExecutingMicros",
            "totalTimeQueuedMicros",
            "metricsByTask",
            "threadCreationCauses",
        ]
    );
    eventually("three connections that wait", || figure(&server, &["deferredTasksQueued"]) == 3);
    eventually("no worker in use", || figure(&server, &["threadsInUse"]) == 0);
    assert_eq!(figure(&server, &["tasksQueued"]), 0);
    assert!(figure(&server, &["totalExecuted"]) >= 3);
    let executing = figure(&server, &["totalTimeExecutingMicros"]);
    let running = figure(&server, &["totalTimeRunningMicros"]);
    assert!(executing <= running, "{executing} of {running} microseconds");
}

#[test]
fn workers_that_block_are_joined_by_others() {
    let quick = AdaptiveOptions {
        reserved_threads: 1,
        stuck_thread_timeout: Duration::from_millis(20),
        ..AdaptiveOptions::default()
    };
    let (server, echo) = start_with(quick);
    let mut holding = clients(&server, 4);
    let mut fast = clients(&server, 2);
    for client in &mut holding {
        client.write_all(command(doc! { "hold": 1 }, 2).bytes()).expect("the server reads");
    }
    for id in 2..20 {
        for client in &mut fast {
            ask(client, &command(doc! { "hey": 1 }, id));
        }
    }
    eventually("a worker for each", || figure(&server, &["threadsInUse"]) == 4);
    let stuck = figure(&server, &["threadCreationCauses", "stuckDetection"]);
    let starved = figure(&server, &["threadCreationCauses", "starvation"]);
    assert!(
        stuck + starved >= 4,
        "{stuck} started because of stuck threads, {starved} because of starvation"
    );
    echo.release();
    for client in &mut holding {
        read_reply(client).expect("an answer");
    }
}

#[test]
fn a_pipelining_client_goes_to_the_end_of_the_queue_at_the_recursion_limit() {
    let requeued = |limit| {
        let (server, _) =
            start_with(AdaptiveOptions { recursion_limit: limit, ..AdaptiveOptions::default() });
        let mut client = clients(&server, 1).remove(0);
        let requests: Vec<u8> =
            (2..66).flat_map(|id| command(doc! { "hey": 1 }, id).bytes().to_vec()).collect();
        client.write_all(&requests).expect("the server reads");
        for id in 2..66 {
            assert_eq!(read_reply(&mut client).expect("an answer").0, id);
        }
        figure(&server, &["metricsByTask", "resumeMessage", "totalQueued"])
    };
    // At least seven times if all 64 came together; at most as often as eight in a row were answered.
    let often = requeued(8);
    assert!((1..=8).contains(&often), "64 requests went to the end of the queue {often} times");
    assert_eq!(requeued(1_000), 0);
}

#[test]
fn parameters_change_while_serving() {
    let (server, _) = start_with(AdaptiveOptions { reserved_threads: 1, ..AdaptiveOptions::default() });
    let mut clients = clients(&server, 2);
    server
        .set_adaptive(AdaptiveOptions { reserved_threads: 3, ..AdaptiveOptions::default() })
        .expect("valid options");
    eventually("three threads", || figure(&server, &["threadsRunning"]) >= 3);
    let refused = server
        .set_adaptive(AdaptiveOptions { reserved_threads: 1_000_000, ..AdaptiveOptions::default() })
        .expect_err("a million threads");
    assert!(refused.to_string().contains("1000000"), "unclear message: {refused}");
    for client in &mut clients {
        ask(client, &command(doc! { "hey": 1 }, 2));
    }
}
