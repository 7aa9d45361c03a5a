//! Builds that go on after a restart, as the server goes on with them.

use crate::index_builds::BuildResumer;
use crate::own_work::OwnWorkStep;
use crate::own_work::OwnWorkSwitch;
use crate::server::ServiceContext;
use crate::testing::{TestClient, server_on};
use catalog::{BuildProgress, IndexSpec, Namespace, Receipts};
use document::{Document, Value, doc};
use pollster::block_on;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use storage::{StorageOptions, Store};

const DOCUMENTS: i32 = 20_000;

fn server(path: &Path) -> Arc<ServiceContext> {
    let options =
        StorageOptions { build_threads: 0, build_memory_bytes: 128 << 10, ..StorageOptions::small() };
    server_on(Store::open(path, &options).expect("a store"))
}

fn ok(server: &Arc<ServiceContext>, command: Document) -> Document {
    let (reply, _) = TestClient::of(server).run(command.clone());
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{command:?}: {reply:?}");
    reply
}

/// Data whose index build the process has not survived.
fn crashed(path: &Path) {
    let server = server(path);
    for first in (0..DOCUMENTS).step_by(1_000) {
        let documents: Vec<Value> =
            (first..first + 1_000).map(|id| doc! { "_id": id, "a": id }.into()).collect();
        ok(&server, doc! { "insert": "c", "documents": documents });
    }
    let (receipts, namespace) = (Receipts::default(), Namespace::new("test", "c"));
    let writing = server.node.writing(&receipts);
    let spec =
        IndexSpec::parse(doc! { "key": { "a": 1 }, "name": "a" }.to_buf().as_raw()).expect("a specification");
    let specs = [spec];
    let mut building = pin!(server.node.catalog.create_indexes(&writing, &namespace, &specs));
    let things = server.node.catalog.collection("test", "c").expect("a collection");
    while things.builds().first().is_none_or(|build| build.done() < 15_000) {
        assert!(building.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}

fn is_ready(server: &Arc<ServiceContext>) -> bool {
    let things = server.node.catalog.collection("test", "c").expect("a collection");
    things.definition().index("a").is_some_and(|index| index.is_ready())
}

#[test]
fn a_build_goes_on_by_itself_in_its_window() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    crashed(&path);
    let server = server(&path);
    let resumer = BuildResumer::default();
    set_window(&server, false);
    assert!(matches!(block_on(resumer.step(&server)), OwnWorkStep::Continues { .. }));
    assert!(!is_ready(&server), "its window is closed");
    let shown = crate::calendar::status(&server);
    let Some(Value::Document(state)) = shown.get("indexBuilds") else { panic!("{shown:?}") };
    let told = (state.get("state"), state.get("waitingBuilds"));
    assert_eq!(told, (Some(&Value::from("waiting")), Some(&Value::Int64(1))));
    ok(&server, doc! { "setCalendar": 1, "indexBuilds": (Value::Null), "$db": "admin" });
    assert!(matches!(block_on(resumer.step(&server)), OwnWorkStep::Continues { .. }));
    assert!(is_ready(&server));
    assert_eq!(block_on(resumer.step(&server)), OwnWorkStep::Ended);
    let reply = ok(&server, doc! { "validate": "c" });
    assert_eq!(reply.get("valid"), Some(&Value::Boolean(true)), "{reply:?}");
    let reply = ok(&server, doc! { "count": "c", "query": { "a": { "$gte": 10_000 } }, "hint": "a" });
    assert_eq!(reply.get("n"), Some(&Value::Int32(10_000)));
}

#[test]
fn a_build_that_ends_with_the_server_goes_on_at_the_next_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    crashed(&path);
    for is_ended in [true, false] {
        let server = server(&path);
        let resumer = BuildResumer::default();
        if is_ended {
            let mut step = pin!(resumer.step(&server));
            assert!(step.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let operations = dispatch::Node::background_operations(&server.node);
            let shown = format!("{operations:?}");
            assert!(shown.contains("resumed at document"), "{shown}");
            resumer.switch().end();
            assert!(matches!(block_on(step), OwnWorkStep::Continues { .. }));
            assert_eq!(block_on(resumer.step(&server)), OwnWorkStep::Ended);
        } else {
            block_on(resumer.step(&server));
        }
        assert_eq!(is_ready(&server), !is_ended);
    }
}

#[test]
fn a_build_keeps_to_its_rate() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(&directory.path().join("data"));
    crate::keep_index_builds_to_calendar(&server);
    for first in (0..6_000).step_by(1_000) {
        let documents: Vec<Value> =
            (first..first + 1_000).map(|id| doc! { "_id": id, "a": id }.into()).collect();
        ok(&server, doc! { "insert": "c", "documents": documents });
    }
    ok(&server, doc! { "setCalendar": 1, "indexBuilds": { "documentsPerSecond": 5_000 }, "$db": "admin" });
    let began = std::time::Instant::now();
    ok(&server, doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] });
    let took = began.elapsed().as_secs_f64();
    // Two looks at the pace, of 2,048 documents each.
    assert!(took > 0.8, "6,000 documents at 5,000 a second took {took} s");
    assert!(is_ready(&server));
}

/// A window of another day than today's, or of all days.
fn set_window(server: &Arc<ServiceContext>, is_open: bool) {
    let day = usize::try_from(server.now_ms() / 86_400_000 % 7).expect("a day");
    // Two days from now: 1970 began on a Thursday.
    let names = ["sat", "sun", "mon", "tue", "wed", "thu", "fri"];
    let window = if is_open {
        doc! {}
    } else {
        doc! { "days": [(names[day])] }
    };
    ok(server, doc! { "setCalendar": 1, "indexBuilds": window, "$db": "admin" });
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !condition() {
        assert!(began.elapsed().as_secs() < 60, "not within a minute: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A server whose build, left by a crash, has begun in its window and stands still behind the end of it; and
/// what happens then.
fn paused(path: &Path, then: impl FnOnce(&Arc<ServiceContext>, &BuildProgress, &OwnWorkSwitch)) {
    crashed(path);
    let server = server(path);
    crate::keep_index_builds_to_calendar(&server);
    let things = server.node.catalog.collection("test", "c").expect("a collection");
    let build = Arc::clone(things.builds().first().expect("a build"));
    let resumer = BuildResumer::default();
    let switch = resumer.switch();
    // Slow enough that it does not end before its window does.
    ok(&server, doc! { "setCalendar": 1, "indexBuilds": { "documentsPerSecond": 1_000 }, "$db": "admin" });
    let at = build.resumed_at().expect("it was begun before");
    std::thread::scope(|scope| {
        let working = scope.spawn(|| block_on(resumer.step(&server)));
        eventually("it goes on", || build.done() > at);
        set_window(&server, false);
        eventually("it stands still", || build.is_paused());
        let done = build.done();
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(build.done(), done, "it stands still");
        assert!(!is_ready(&server));
        let shown = format!("{:?}", dispatch::Node::background_operations(&server.node));
        assert!(shown.contains("waits for its window in the calendar"), "{shown}");
        let shown = crate::calendar::status(&server);
        let Some(Value::Document(state)) = shown.get("indexBuilds") else { panic!("{shown:?}") };
        assert_eq!(state.get("waitingBuilds"), Some(&Value::Int64(1)));
        // Writers are not held up, and what they write is in the index.
        ok(&server, doc! { "insert": "c", "documents": [{ "_id": (DOCUMENTS), "a": (DOCUMENTS) }] });
        ok(&server, doc! { "delete": "c", "deletes": [{ "q": { "_id": 5 }, "limit": 1 }] });
        let change = doc! { "q": { "_id": (DOCUMENTS - 1) }, "u": { "$set": { "a": -1 } } };
        ok(&server, doc! { "update": "c", "updates": [change] });
        then(&server, &build, &switch);
        let step = working.join().expect("no panic");
        assert!(matches!(step, OwnWorkStep::Continues { .. }));
    });
}

#[test]
fn a_build_stands_still_between_its_windows() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    paused(&path, |server, _, _| set_window(server, true));
    let server = server(&path);
    assert!(is_ready(&server));
    let reply = ok(&server, doc! { "validate": "c" });
    assert_eq!(reply.get("valid"), Some(&Value::Boolean(true)), "{reply:?}");
    let reply = ok(&server, doc! { "count": "c", "query": { "a": { "$gte": -1 } }, "hint": "a" });
    assert_eq!(reply.get("n"), Some(&Value::Int32(DOCUMENTS)));
}

#[test]
fn a_build_that_somebody_waits_for_stands_still_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    paused(&directory.path().join("data"), |server, build, _| {
        ok(server, doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] });
        assert!(is_ready(server) && !build.is_paused());
    });
}

#[test]
fn a_build_that_stands_still_ends_with_the_server_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let mut done = 0;
    paused(&path, |_, build, switch| {
        done = build.done();
        switch.end();
    });
    let server = server(&path);
    let things = server.node.catalog.collection("test", "c").expect("a collection");
    let saved = things.builds().first().and_then(|build| build.resumed_at());
    assert_eq!(saved, Some(done), "all that was scanned is written down");
    set_window(&server, true);
    block_on(BuildResumer::default().step(&server));
    assert!(is_ready(&server));
}
