use super::TtlMonitor;
use crate::parameters::{Parameter, Setting};
use crate::server::ServiceContext;
use crate::testing::{TestClient, TestMember, server};
use dispatch::counters::OperationClass;
use document::{Document, Value, doc};
use pollster::block_on;
use std::sync::Arc;
use std::time::Duration;

/// A pause that is none between two units.
const SLEEPS: Duration = Duration::from_millis(500);

fn ok(client: &TestClient, command: Document) -> Document {
    let (reply, _) = client.run(command.clone());
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{command:?}: {reply:?}");
    reply
}

fn ttl_index(client: &TestClient, collection: &str, key: impl Into<Value>) {
    let index = doc! { "key": { "at": (key.into()) }, "name": "ttl", "expireAfterSeconds": 60 };
    ok(client, doc! { "createIndexes": collection, "indexes": [index] });
}

/// Inserts documents that have been expired for a minute.
fn insert(client: &TestClient, collection: &str, count: i32) {
    let at = Value::DateTime(client.server.now_ms() - 120_000);
    let documents: Vec<Value> = (0..count).map(|_| doc! { "at": (at.clone()) }.into()).collect();
    ok(client, doc! { "insert": collection, "documents": documents });
}

fn count(server: &ServiceContext, collection: &str) -> u64 {
    server.node.catalog.collection("test", collection).map_or(0, |found| found.document_count())
}

fn set(server: &ServiceContext, parameter: Parameter, number: i64) {
    server.parameters.set(parameter, Setting::Integer(number)).expect("allowed");
}

/// One step; whether the monitor sleeps afterwards.
fn step(monitor: &mut TtlMonitor, server: &ServiceContext) -> bool {
    let next = block_on(monitor.step(server));
    next > ambient::now() + SLEEPS
}

/// Steps until the monitor sleeps; how many.
fn pass(monitor: &mut TtlMonitor, server: &ServiceContext) -> usize {
    monitor.wake();
    (1..10_000).find(|_| step(monitor, server)).expect("a pass ends")
}

fn figure(server: &Arc<ServiceContext>, name: &str) -> i64 {
    let made_way = server.node.catalog.made_way();
    let (metrics, work) = (server.node.ttl.metrics(made_way), server.node.ttl.work(made_way));
    metrics.get(name).or_else(|| work.get(name)).and_then(Value::as_i64_exact).expect("a figure")
}

#[test]
fn a_pass_deletes_what_has_expired_and_counts_it() {
    let server = server();
    let client = TestClient::of(&server);
    ttl_index(&client, "c", 1);
    ttl_index(&client, "hashed", "hashed");
    insert(&client, "c", 200);
    insert(&client, "hashed", 10);
    let fresh = doc! { "at": (Value::DateTime(server.now_ms())) };
    ok(&client, doc! { "insert": "c", "documents": [fresh, { "at": "never" }] });
    let mut monitor = TtlMonitor::new();
    assert!(step(&mut monitor, &server), "it sleeps first");
    assert_eq!((count(&server, "c"), figure(&server, "passes")), (202, 0));
    pass(&mut monitor, &server);
    assert_eq!((count(&server, "c"), count(&server, "hashed")), (2, 10));
    let of = |name| figure(&server, name);
    assert_eq!((of("deletedDocuments"), of("passes"), of("subPasses")), (200, 1, 1));
    assert_eq!(of("invalidTTLIndexSkips"), 1, "hashes have no order of dates");
    assert_eq!((of("examinedKeys"), of("examinedDocuments")), (200, 200), "nothing else was looked at");
    assert_eq!(server.counters.of(OperationClass::Delete), 0, "no client has deleted anything");
    assert_eq!(server.counters.documents_deleted.get(), 0);
    pass(&mut monitor, &server);
    assert_eq!((of("deletedDocuments"), of("passes"), of("examinedKeys")), (200, 2, 200));
}

#[test]
fn a_long_index_does_not_keep_a_short_one_waiting() {
    for is_fair in [true, false] {
        let server = server();
        let client = TestClient::of(&server);
        for (collection, documents) in [("long", 1000), ("short", 10)] {
            ttl_index(&client, collection, 1);
            insert(&client, collection, documents);
        }
        set(&server, Parameter::TtlIndexDeleteTargetDocs, 100);
        server.parameters.set(Parameter::TtlMonitorBatchDeletes, Setting::Boolean(is_fair)).expect("allowed");
        let mut monitor = TtlMonitor::new();
        monitor.wake();
        while count(&server, "short") > 0 {
            assert!(!step(&mut monitor, &server), "the pass is not over");
        }
        assert_eq!(count(&server, "long"), if is_fair { 900 } else { 0 });
        while !step(&mut monitor, &server) {}
        assert_eq!((count(&server, "long"), figure(&server, "passes")), (0, 1));
    }
}

#[test]
fn a_quantum_ends_by_time_as_well() {
    let server = server();
    let client = TestClient::of(&server);
    for collection in ["long", "short"] {
        ttl_index(&client, collection, 1);
        insert(&client, collection, 200);
    }
    set(&server, Parameter::TtlIndexDeleteTargetDocs, 0);
    set(&server, Parameter::TtlIndexDeleteTargetTime, 1);
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    while count(&server, "short") == 200 {
        step(&mut monitor, &server);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(count(&server, "long") > 0, "it lasted for longer than a millisecond");
}

#[test]
fn a_new_index_takes_part_in_the_next_sub_pass() {
    let server = server();
    let client = TestClient::of(&server);
    ttl_index(&client, "c", 1);
    insert(&client, "c", 300);
    set(&server, Parameter::TtlIndexDeleteTargetDocs, 50);
    set(&server, Parameter::TtlMonitorSubPassTarget, 0);
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    step(&mut monitor, &server);
    ttl_index(&client, "late", -1);
    insert(&client, "late", 60);
    while !step(&mut monitor, &server) {}
    assert_eq!((count(&server, "c"), count(&server, "late")), (0, 0));
    assert_eq!((figure(&server, "passes"), figure(&server, "examinedKeys")), (1, 360), "no key came twice");
    assert!(figure(&server, "subPasses") >= 6, "{} sub-passes", figure(&server, "subPasses"));
}

#[test]
fn a_pass_ends_when_it_is_switched_off() {
    let server = server();
    let client = TestClient::of(&server);
    ttl_index(&client, "c", 1);
    insert(&client, "c", 300);
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    step(&mut monitor, &server);
    let left = count(&server, "c");
    assert!((1..300).contains(&left), "{left} are left after one unit");
    let enable = |on| {
        server.parameters.set(Parameter::TtlMonitorEnabled, Setting::Boolean(on)).expect("allowed");
    };
    enable(false);
    assert!(step(&mut monitor, &server));
    enable(true);
    assert!(step(&mut monitor, &server), "it sleeps before it begins again");
    assert_eq!((count(&server, "c"), figure(&server, "passes")), (left, 0));
    monitor.switch().end();
    monitor.wake();
    assert!(step(&mut monitor, &server), "the server shuts down");
    assert_eq!(count(&server, "c"), left);
    pass(&mut TtlMonitor::new(), &server);
    assert_eq!(count(&server, "c"), 0);
}

#[test]
fn a_dropped_collection_ends_nothing_but_its_own_part() {
    let server = server();
    let client = TestClient::of(&server);
    for collection in ["dropped", "kept"] {
        ttl_index(&client, collection, 1);
        insert(&client, collection, 200);
    }
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    step(&mut monitor, &server);
    ok(&client, doc! { "drop": "dropped" });
    while !step(&mut monitor, &server) {}
    assert_eq!((count(&server, "kept"), figure(&server, "passes")), (0, 1));
}

#[test]
fn other_members_delete_by_the_log_what_the_primary_has() {
    let primary = TestMember::new();
    let client = TestClient::of(&primary.server);
    ttl_index(&client, "c", 1);
    insert(&client, "c", 100);
    let mut monitor = TtlMonitor::new();
    primary.steps(false);
    pass(&mut monitor, &primary.server);
    assert_eq!(count(&primary.server, "c"), 100, "who has stepped down writes nothing");
    primary.steps(true);
    pass(&mut monitor, &primary.server);
    assert_eq!(count(&primary.server, "c"), 0);
    let other = TestMember::new();
    other.apply(&primary.log());
    let things = other.server.node.catalog.collection("test", "c").expect("the log makes it");
    assert_eq!(things.document_count(), 0);
}
