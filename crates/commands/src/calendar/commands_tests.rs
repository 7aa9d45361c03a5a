//! `validate`, `$out`, `$merge` and the calendar: a client's commands wait only where somebody has said so.

use super::tests::{MINUTE, admin, server, set};
use crate::server::ServiceContext;
use crate::testing::{TestClient, server_on};
use ambient::Simulation;
use dispatch::request::CommandRequest;
use document::{Document, RawDocument, Value, doc};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use storage::{StorageOptions, Store};

/// Polls of a command that does not wait for time, at most: it gives way to others now and then.
const POLLS: usize = 1_000;
const INTERRUPTED: i32 = 11_601;

/// Runs a command, and `meanwhile` whenever nothing but time brings it further, which returns whether the
/// command may wait on. The reply.
fn run(client: &TestClient, mut command: Document, mut meanwhile: impl FnMut() -> bool) -> Document {
    command.push("$db", "test");
    let (command, mut reply) = (command.to_buf(), Vec::new());
    {
        let request = CommandRequest::new(command.as_raw());
        let mut running = pin!(dispatch::dispatch(&client.server, &client.client, request, &mut reply));
        let mut is_done =
            || (0..POLLS).any(|_| running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        while !is_done() {
            assert!(meanwhile(), "it waits for ever");
        }
    }
    RawDocument::parse(&reply).expect("a reply is a document").to_document()
}

fn ok(reply: &Document) {
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
}

fn fill(server: &Arc<ServiceContext>, count: i32, bytes: usize) -> TestClient {
    let client = TestClient::of(server);
    let text = "x".repeat(bytes);
    let documents: Vec<Value> =
        (0..count).map(|id| doc! { "_id": id, "t": (text.as_str()) }.into()).collect();
    ok(&client.run(doc! { "insert": "c", "documents": documents }).0);
    client
}

fn aggregate(stages: Vec<Value>) -> Document {
    doc! { "aggregate": "c", "pipeline": stages, "cursor": {} }
}

fn out() -> Document {
    aggregate(vec![doc! { "$set": { "now": "$$NOW" } }.into(), doc! { "$out": "d" }.into()])
}

fn merge() -> Document {
    aggregate(vec![doc! { "$merge": { "into": "e" } }.into()])
}

fn count(server: &ServiceContext, name: &str) -> Option<u64> {
    server.node.catalog.collection("test", name).map(|collection| collection.document_count())
}

fn message(client: &TestClient) -> Option<String> {
    client.client.operation().expect("it runs").message
}

#[test]
fn they_begin_in_their_window_and_say_what_they_wait_for() {
    for (command, kind) in [(out(), "out"), (merge(), "out"), (doc! { "validate": "c" }, "validate")] {
        let time = Simulation::begin(31);
        let server = server();
        let client = fill(&server, 3, 10);
        set(&server, doc! { kind: { "start": "01:00", "stop": "02:00" } });
        let mut minutes = 0;
        let reply = run(&client, command, || {
            assert!(minutes < 60, "its window is open");
            assert_eq!(message(&client), Some(format!("{kind}: waits for its window in the calendar")));
            let shown = super::status(&server);
            let Some(Value::Document(work)) = shown.get(kind) else { panic!("{shown:?}") };
            assert_eq!(work.get("state"), Some(&Value::from("waiting")));
            assert_eq!((count(&server, "d"), count(&server, "e")), (None, None));
            minutes += 1;
            time.advance(MINUTE);
            true
        });
        ok(&reply);
        assert_eq!(minutes, 60);
        let found = |name: &str, count: u64| {
            let (reply, _) = client.run(doc! { "count": name });
            assert_eq!(reply.get("n"), Some(&Value::Int32(count as i32)), "{name}");
        };
        match kind {
            "validate" => assert_eq!(reply.get("valid"), Some(&Value::Boolean(true))),
            _ if count(&server, "d").is_some() => {
                found("d", 3);
                let (reply, _) = client.run(doc! { "distinct": "d", "key": "now" });
                let Some(Value::Array(moments)) = reply.get("values") else { panic!("{reply:?}") };
                let [Value::DateTime(moment)] = &moments[..] else { panic!("{moments:?}") };
                let since = server.now_ms() - moment;
                assert!(since < 1_000, "$$NOW is of {since} ms before the end, and not of when it came");
            }
            _ => found("e", 3),
        }
    }
}

#[test]
fn who_waits_can_be_ended_and_has_done_nothing() {
    for command in [out(), merge(), doc! { "validate": "c" }] {
        let _time = Simulation::begin(32);
        let server = server();
        let client = fill(&server, 3, 10);
        let never = doc! { "start": "01:00", "stop": "02:00" };
        set(&server, doc! { "out": (never.clone()), "validate": never });
        let mut is_told = false;
        let reply = run(&client, command, || {
            let told = client.client.kill_operation(INTERRUPTED, |_, _| true);
            assert!(told && !std::mem::replace(&mut is_told, true), "it was told before");
            true
        });
        assert_eq!(reply.get("code"), Some(&Value::Int32(INTERRUPTED)), "{reply:?}");
        assert_eq!((count(&server, "d"), count(&server, "e")), (None, None));
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_window() {
    let time = Simulation::begin(33);
    let server = server();
    let client = fill(&server, 3, 10);
    set(&server, doc! { "out": { "start": "01:00", "stop": "02:00" } });
    let mut looks = 0;
    let reply = run(&client, out(), || {
        server.begin_shutdown();
        looks += 1;
        time.advance(Duration::from_secs(1));
        looks < 3
    });
    assert_eq!(reply.get("code"), Some(&Value::Int32(11_600)), "{reply:?}");
}

#[test]
fn what_cannot_be_run_is_told_at_once_and_explain_does_not_wait() {
    let _time = Simulation::begin(34);
    let server = server();
    let client = fill(&server, 3, 10);
    set(&server, doc! { "out": { "start": "01:00", "stop": "02:00" } });
    let wrong = aggregate(vec![doc! { "$sett": {} }.into(), doc! { "$out": "d" }.into()]);
    let reply = run(&client, wrong, || false);
    assert_eq!(reply.get("code"), Some(&Value::Int32(40_324)), "{reply:?}");
    ok(&run(&client, doc! { "explain": (out()) }, || false));
    ok(&run(&client, aggregate(vec![doc! { "$match": { "_id": 1 } }.into()]), || false));
    ok(&run(&client, doc! { "validate": "c" }, || false));
}

#[test]
fn outputs_keep_to_their_rate_and_go_on_behind_their_window() {
    for (command, target) in [(out(), "d"), (merge(), "e")] {
        let time = Simulation::begin(35);
        let server = server();
        let client = fill(&server, 2_500, 10);
        set(&server, doc! { "out": { "start": "00:00", "stop": "00:01", "documentsPerSecond": 1_000 } });
        let began = server.now_ms();
        let timed = || {
            let began = server.now_ms();
            ok(&run(&client, command.clone(), || {
                time.advance(Duration::from_millis(20));
                true
            }));
            server.now_ms() - began
        };
        let took = timed();
        assert!((2_400..3_000).contains(&took), "2,500 documents at 1,000 a second took {took} ms");
        assert_eq!(count(&server, target), Some(2_500));
        // Begun in the last moment, it goes on without a rate.
        let left = began + 59_900 - server.now_ms();
        time.advance(Duration::from_millis(left.unsigned_abs()));
        let took = timed();
        assert!((100..1_200).contains(&took), "behind its window it took {took} ms");
        let reply = admin(&server, doc! { "getCalendar": 1 });
        assert!(format!("{reply:?}").contains("waiting"), "the window has closed: {reply:?}");
    }
}

#[test]
fn outputs_have_their_part_of_the_budget() {
    let time = Simulation::begin(36);
    let options = StorageOptions { io_budget_bytes_per_second: 8 << 20, ..StorageOptions::small() };
    let server = server_on(Store::in_memory(&options).expect("memory is to be had"));
    let client = fill(&server, 400, 10_000);
    let mut seconds = 0;
    ok(&run(&client, out(), || {
        seconds += 1;
        time.advance(Duration::from_secs(1));
        true
    }));
    assert!(seconds >= 2, "4 MB at an eighth of 8 MiB a second took {seconds} s");
}
