//! What goes on for long ends when it is told to, within a single document as well.

use crate::operands::numbers;
use crate::server::{Client, Outcome, command_message};
use crate::shapes::{COLLECTION, DATABASE};
use crate::support::{ServerProcess, number, run};
use document::{Document, Value, doc};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Hours of work on one document.
fn endless() -> Vec<(&'static str, Document)> {
    let range = || doc! { "$range": [0, 1_000_000] };
    // Numbers only: what grows meets its bound of memory first.
    let sum = doc! {
        "$reduce": { "input": (range()), "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } }
    };
    let loops = doc! { "$map": { "input": (range()), "in": sum } };
    let branches: Vec<Value> = (0..20_000).map(|number| doc! { "list": (-number - 1) }.into()).collect();
    let filter = doc! { "$or": branches };
    let stages = doc! {
        "aggregate": COLLECTION, "pipeline": [{ "$project": { "x": (loops.clone()) } }], "cursor": {}
    };
    let update = doc! {
        "update": COLLECTION, "updates": [{ "q": { "_id": 0 }, "u": [{ "$set": { "x": (loops.clone()) } }] }]
    };
    vec![
        ("a loop in a stage", stages),
        ("a loop in a filter", doc! { "find": COLLECTION, "filter": { "$expr": { "$eq": [loops, 1] } } }),
        ("a loop in an update", update),
        ("branches over a list", doc! { "find": COLLECTION, "filter": filter }),
    ]
}

/// The operation on the collection, once there is one, or once there is none.
fn wait_for(server: &ServerProcess, what: &str, running: bool) -> Option<i64> {
    let (began, mut client) = (Instant::now(), server.client());
    let namespace = format!("{DATABASE}.{COLLECTION}");
    loop {
        let report = run(&mut client, doc! { "currentOp": 1, "ns": (namespace.clone()), "$db": "admin" });
        let operations = report.get("inprog").and_then(Value::as_array).unwrap_or_default();
        let operation = operations.first().and_then(Value::as_document);
        if operation.is_some() == running {
            return operation.and_then(|operation| number(operation, "opid"));
        }
        assert!(began.elapsed() < PATIENCE, "{what}: is an operation running: {}", !running);
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn check(directory: &std::path::Path) {
    let server = ServerProcess::start(directory, &["--quiet"]);
    run(
        &mut server.client(),
        doc! {
            "insert": COLLECTION, "documents": [{ "_id": 0, "list": (numbers(100_000)) }], "$db": DATABASE
        },
    );
    for (name, command) in endless() {
        let mut limited = command.clone();
        limited.push("maxTimeMS", 200);
        let outcome = Client::connect(server.address, PATIENCE).send(&command_message(&limited));
        assert!(matches!(outcome, Outcome::Answered(50)), "{name} with maxTimeMS: {outcome:?}");
        let killed = thread::scope(|scope| {
            let asking =
                scope.spawn(|| Client::connect(server.address, PATIENCE).send(&command_message(&command)));
            let operation = wait_for(&server, name, true).expect("it runs");
            run(&mut server.client(), doc! { "killOp": 1, "op": operation, "$db": "admin" });
            asking.join().expect("no panic")
        });
        assert!(matches!(killed, Outcome::Answered(11601)), "{name} with killOp: {killed:?}");
        wait_for(&server, name, false);
        let left =
            Client::connect(server.address, Duration::from_millis(300)).send(&command_message(&command));
        assert!(matches!(left, Outcome::Silent), "{name}: {left:?}");
        // The connection is closed, and nobody waits for the answer.
        wait_for(&server, name, false);
    }
}
