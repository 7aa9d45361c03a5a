//! Clients that do not read their replies, all together.

use crate::support::{ask, command, connect, eventually, options, read_reply, start};
use document::{Value, doc};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use transport::{Figure, Server, ServerOptions, ServiceExecutor};

for_each_executor! {
    unread_replies_are_bounded_over_all_connections
    a_client_that_reads_gets_everything_meanwhile
    without_a_bound_replies_wait_for_their_clients
}

const REPLY: u64 = 12_000_000;
/// Two replies leave no room for a third one, which might be larger.
const BOUND: u64 = 40_000_000;

fn bounded(executor: ServiceExecutor, unread_replies_max: u64) -> ServerOptions {
    ServerOptions { unread_replies_max, ..options(executor) }
}

fn figure(server: &Server, wanted: &str) -> u64 {
    let figures = server.statistics().unread_replies;
    let found = figures.iter().find(|(name, _)| *name == wanted);
    match found {
        Some((_, Figure::Count(count))) => *count,
        other => panic!("{wanted} is {other:?}"),
    }
}

/// Asks for a large reply and does not read it.
fn ask_in_vain(server: &Server) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(command(doc! { "fill": (REPLY as i64) }, 1).bytes()).expect("the server reads");
    stream
}

/// Each asks when what the one before it asked for is in memory, or waits. Gives the most bytes seen.
fn ask_one_by_one(server: &Server, clients: u64) -> (Vec<TcpStream>, u64) {
    let mut most = 0;
    let streams = (1..=clients).map(|asked| {
        let stream = ask_in_vain(server);
        eventually("a reply that waits, or a request that does", || {
            most = most.max(figure(server, "bytes"));
            let ended = figure(server, "connectionsEnded");
            server.statistics().stalled_sends + ended + figure(server, "waits") >= asked
        });
        stream
    });
    (streams.collect(), most)
}

fn unread_replies_are_bounded_over_all_connections(executor: ServiceExecutor) {
    let (server, _service) = start(bounded(executor, BOUND));
    let (streams, most) = ask_one_by_one(&server, 8);
    assert!(most >= 2 * REPLY, "{most} bytes are not counted");
    assert!(most <= BOUND, "{most} bytes of replies in memory");
    eventually("room for all", || {
        assert!(figure(&server, "bytes") <= 2 * (BOUND + REPLY), "the bound is lost");
        figure(&server, "connectionsEnded") >= 6
    });
    assert!(figure(&server, "waits") > 0, "nobody had to wait");
    assert_eq!(
        ask(&mut connect(&server), &command(doc! { "echo": 1 }, 1)).get("ok"),
        Some(&Value::Double(1.0))
    );
    drop(streams);
    eventually("the end of all replies", || figure(&server, "bytes") == 0);
    assert_eq!(server.statistics().stalled_sends, 0);
}

fn a_client_that_reads_gets_everything_meanwhile(executor: ServiceExecutor) {
    let (server, _service) = start(bounded(executor, BOUND));
    let (_idle, _) = ask_one_by_one(&server, 2);
    let mut reader = connect(&server);
    for id in 0..5 {
        reader.write_all(command(doc! { "fill": (REPLY as i64) }, id).bytes()).expect("the server reads");
        let (response_to, body) = read_reply(&mut reader).expect("a client that reads is not ended");
        assert_eq!(response_to, id);
        let Some(Value::String(filled)) = body.get("filled") else { panic!("not what was asked for") };
        assert_eq!(filled.len() as u64, REPLY);
    }
}

fn without_a_bound_replies_wait_for_their_clients(executor: ServiceExecutor) {
    let (server, _service) = start(bounded(executor, 0));
    let (mut streams, most) = ask_one_by_one(&server, 4);
    assert!(most >= 3 * REPLY, "{most} bytes");
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!((figure(&server, "waits"), figure(&server, "connectionsEnded")), (0, 0));
    for stream in &mut streams {
        read_reply(stream).expect("every reply is there");
    }
    // A bound that is set later counts at once.
    let (_streams, _) = ask_one_by_one(&server, 3);
    server.set_unread_replies_max(BOUND);
    eventually("room", || figure(&server, "connectionsEnded") > 0);
}
