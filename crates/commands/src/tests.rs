//! Where commands run: in an event loop as long as they can, where they may block from then on, with the same
//! answers.

use crate::parameters::{Parameter, Setting};
use crate::server::DataNode;
use crate::spans::{Span, SpanTimes};
use crate::testing::{TestClient, forgetful_store, server, server_on};
use dispatch::command::{CommandTable, Execution};
use document::{Document, Value, doc};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use storage::{ReadSource, StorageOptions, Store};
use tempfile::TempDir;

type Server = Arc<crate::server::ServiceContext>;

const DOCUMENTS: i32 = 200;

fn fill(server: &Server) {
    let client = TestClient::of(server);
    let index = |keys: Document, name: &str, unique: bool| {
        doc! { "createIndexes": "c", "indexes": [{ "key": keys, "name": name, "unique": unique }] }
    };
    let documents: Vec<Value> = (0..DOCUMENTS)
        .map(|id| doc! { "_id": id, "k": (id % 20), "u": (id * 10), "pad": ("x".repeat(500)) }.into())
        .collect();
    ok(client.run(doc! { "create": "c" }).0);
    ok(client.run(index(doc! { "k": 1 }, "k", false)).0);
    ok(client.run(index(doc! { "u": 1 }, "u", true)).0);
    ok(client.run(doc! { "insert": "c", "documents": documents }).0);
    ok(client.run(doc! { "create": "log", "capped": true, "size": 100_000 }).0);
    ok(client.run(doc! { "insert": "log", "documents": [{ "_id": 1 }, { "_id": 2 }] }).0);
    ok(client.run(doc! { "create": "view", "viewOn": "c", "pipeline": [{ "$match": { "k": 3 } }] }).0);
}

fn ok(reply: Document) -> Document {
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
    assert!(!reply.contains("writeErrors"), "{reply:?}");
    reply
}

/// A server whose data is in files and none of it in the cache. The cost of a second opening is that of the
/// test.
fn cold() -> (Server, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let store = Store::open(&path, &StorageOptions::small()).expect("a store");
    fill(&server_on(store.clone()));
    store.close().expect("closed");
    drop(store);
    (server_on(Store::open(&path, &StorageOptions::small()).expect("the store")), directory)
}

/// What differs from run to run is left out.
fn comparable(mut reply: Document) -> Document {
    if let Some(Value::Document(cursor)) = reply.get_mut("cursor") {
        let open = cursor.get("id") != Some(&Value::Int64(0));
        cursor.insert("id", open);
    }
    reply
}

/// Runs a command in an event loop, cold and warm, and compares its replies with those of a thread that may
/// block.
fn check_cold(command: Document, offloads_when_cold: bool, offloads_when_warm: bool) {
    let (expected_by, _kept) = cold();
    let expect = comparable(TestClient::of(&expected_by).run(command.clone()).0);
    let (server, _directory) = cold();
    let client = TestClient::in_loop(&server);
    let (reply, offloaded) = client.run(command.clone());
    assert_eq!(comparable(reply), expect, "{command:?}");
    assert_eq!(offloaded, offloads_when_cold, "cold: {command:?}");
    assert!(!client.ran_for_long(), "what is short queues behind what computes for long: {command:?}");
    let (_, offloaded) = client.run(command.clone());
    assert_eq!(offloaded, offloads_when_warm, "warm: {command:?}");
}

#[test]
fn reads_of_what_is_on_disk() {
    check_cold(doc! { "find": "c", "filter": { "_id": 7 } }, true, false);
    check_cold(doc! { "find": "c", "filter": { "k": 7 }, "projection": { "u": 1 } }, true, false);
    check_cold(doc! { "find": "log", "filter": { "_id": 1 } }, true, false);
    // Opening the catalog has read the last document of a capped collection.
    check_cold(doc! { "find": "log", "tailable": true }, false, false);
    check_cold(doc! { "count": "c", "query": { "k": 7 } }, true, false);
    check_cold(doc! { "count": "c" }, false, false);
    check_cold(doc! { "distinct": "c", "key": "k", "query": { "_id": { "$lt": 5 } } }, true, false);
    check_cold(doc! { "find": "nothing", "filter": { "_id": 7 } }, false, false);
}

#[test]
fn writes_to_what_is_on_disk() {
    let update =
        |filter: Document| doc! { "update": "c", "updates": [{ "q": filter, "u": { "$inc": { "v": 1 } } }] };
    check_cold(update(doc! { "_id": 7 }), true, false);
    check_cold(update(doc! { "k": 7 }), true, false);
    check_cold(
        doc! { "update": "c", "updates": [{ "q": { "_id": 7 }, "u": { "$set": { "u": 20 } } }] },
        true,
        false,
    );
    check_cold(
        doc! {
            "update": "c", "updates": [{ "q": { "_id": 901 }, "u": { "$set": { "u": 1 } }, "upsert": true }]
        },
        true,
        false,
    );
    check_cold(doc! { "delete": "c", "deletes": [{ "q": { "_id": 7 }, "limit": 1 }] }, true, false);
    check_cold(doc! { "delete": "c", "deletes": [{ "q": { "k": 7, "u": 70 }, "limit": 1 }] }, true, false);
    check_cold(
        doc! { "insert": "c", "documents": [{ "_id": 7, "u": 3 }, { "_id": 902, "u": 5 }], "ordered": false },
        true,
        false,
    );
    check_cold(
        doc! { "findAndModify": "c", "query": { "_id": 7 }, "update": { "$inc": { "v": 1 } }, "new": true },
        true,
        false,
    );
}

#[test]
fn a_get_more_goes_on_where_it_may_block() {
    let (server, _directory) = cold();
    let (client, other) = (TestClient::in_loop(&server), TestClient::of(&server));
    let cursor = |reply: &Document| match reply.get("cursor") {
        Some(Value::Document(cursor)) => cursor.clone(),
        other => panic!("no cursor: {other:?}"),
    };
    let id =
        cursor(&ok(client.run(doc! { "find": "c", "batchSize": 0 }).0)).get("id").cloned().expect("an id");
    let more = doc! { "getMore": (id.clone()), "collection": "c", "batchSize": 3 };
    let (reply, offloaded) = client.run(more.clone());
    assert!(offloaded, "nothing is in memory");
    let Some(Value::Array(batch)) = cursor(&ok(reply)).get("nextBatch").cloned() else { panic!("a batch") };
    assert_eq!(batch.len(), 3);
    ok(other.run(doc! { "find": "c", "batchSize": 1_000 }).0);
    let (reply, offloaded) = client.run(more);
    assert!(!offloaded && cursor(&ok(reply)).get("id") == Some(&id), "all is in memory");
}

#[test]
fn what_takes_long_is_offloaded() {
    let server = server();
    fill(&server);
    let client = TestClient::in_loop(&server);
    let check = |command: Document, expect: bool| {
        let (reply, offloaded) = client.run(command.clone());
        ok(reply);
        assert_eq!(offloaded, expect, "{command:?}");
        assert_eq!(client.ran_for_long(), expect, "{command:?}");
    };
    check(doc! { "find": "c", "filter": { "_id": 3 } }, false);
    check(doc! { "find": "c", "filter": { "k": 3 } }, false);
    check(doc! { "find": "c", "sort": { "pad": 1 }, "limit": 3 }, true);
    check(doc! { "find": "c", "sort": { "u": 1 }, "limit": 3 }, false);
    check(doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }], "cursor": {}, "$db": "admin" }, true);
    check(doc! { "currentOp": 1, "$db": "admin" }, true);
    check(doc! { "insert": "c", "documents": [{ "_id": 1_000, "u": (-1) }] }, false);
    check(doc! { "insert": "new", "documents": [{ "_id": 1 }] }, true);
    check(doc! { "insert": "new", "documents": [{ "_id": 2, "pad": ("x".repeat(50_000)) }] }, true);
    let many = |count: i32| -> Vec<Value> { (0..count).map(|id| doc! { "_id": (id + 10) }.into()).collect() };
    check(doc! { "insert": "new", "documents": (many(16)) }, false);
    check(doc! { "delete": "new", "deletes": [{ "q": {}, "limit": 0 }] }, false);
    check(doc! { "insert": "new", "documents": (many(17)) }, true);
    check(doc! { "listCollections": 1 }, true);
    check(doc! { "explain": { "find": "c" } }, true);
}

#[test]
fn a_pipeline_counts_as_short_until_it_turns_out_long() {
    let server = server();
    let documents: Vec<Value> = (0..5_000).map(|id| doc! { "_id": id, "k": (id % 5) }.into()).collect();
    ok(TestClient::of(&server).run(doc! { "insert": "c", "documents": documents }).0);
    let client = TestClient::in_loop(&server);
    let check = |command: Document, expect: bool| {
        let (reply, offloaded) = client.run(command.clone());
        assert!(offloaded, "{command:?}");
        assert_eq!(client.ran_for_long(), expect, "{command:?}");
        ok(reply)
    };
    let aggregate = |stages: Vec<Value>| doc! { "aggregate": "c", "pipeline": stages, "cursor": {} };
    let group = || doc! { "$group": { "_id": "$k", "n": { "$sum": 1 } } }.into();
    check(aggregate(vec![doc! { "$match": { "_id": 3 } }.into(), group()]), false);
    check(aggregate(vec![group()]), true);
    check(doc! { "explain": (aggregate(vec![])) }, true);
    let view = |name: &str, stage: Value| doc! { "create": name, "viewOn": "c", "pipeline": [stage] };
    check(view("few", doc! { "$match": { "_id": 3 } }.into()), true);
    check(view("many", doc! { "$match": { "k": 3 } }.into()), true);
    for (name, expect) in [("few", false), ("many", true)] {
        check(doc! { "find": name }, expect);
        check(doc! { "count": name }, expect);
        check(doc! { "distinct": name, "key": "k" }, expect);
    }
}

#[test]
fn a_walk_that_had_to_read_moves_on_when_it_turns_out_long() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let store = Store::open(&path, &StorageOptions::small()).expect("a store");
    let filled = server_on(store.clone());
    let documents: Vec<Value> = (0..5_000).map(|id| doc! { "_id": id, "k": (id % 5) }.into()).collect();
    ok(TestClient::of(&filled).run(doc! { "insert": "c", "documents": documents }).0);
    drop(filled);
    store.close().expect("closed");
    drop(store);
    let server = server_on(Store::open(&path, &StorageOptions::small()).expect("the store"));
    let client = TestClient::in_loop(&server);
    ok(client.run(doc! { "count": "c", "query": { "k": 1 } }).0);
    assert!(client.ran_for_long(), "five thousand documents are more than a short slice");
    ok(client.run(doc! { "find": "c", "filter": { "_id": 7 } }).0);
    assert!(!client.ran_for_long(), "the next request is judged by itself");
}

#[test]
fn a_loop_hands_on_what_costs_much_however_little_it_is() {
    let server = server();
    fill(&server);
    let client = TestClient::in_loop(&server);
    let run = |command: Document, expect: bool| {
        let (reply, offloaded) = client.run(command.clone());
        assert_eq!(offloaded, expect, "{command:?}");
        ok(reply)
    };
    let keys = |name: &str| doc! { "key": { name: 1 }, "name": name };
    let indexes: Vec<Value> = ["a", "b", "d", "e", "f"].map(|name| keys(name).into()).into();
    run(doc! { "createIndexes": "indexed", "indexes": indexes }, true);
    let list = |count: i32| -> Vec<Value> { (0..count).map(Value::Int32).collect() };
    run(doc! { "insert": "indexed", "documents": [{ "_id": 1, "other": (list(1_800)) }] }, true);
    let documents = vec![
        Value::from(doc! { "_id": "list", "list": (list(5_000)), "n": 0 }),
        doc! { "_id": "long", "text": ("x".repeat(70_000)) }.into(),
    ];
    ok(TestClient::of(&server).run(doc! { "insert": "plain", "documents": documents }).0);
    run(doc! { "insert": "plain", "documents": [{ "_id": 1, "other": (list(1_800)) }] }, false);
    let changed = doc! { "$set": { "list.$[e]": (-1) }, "$inc": { "n": 1 } };
    let mut branches: Vec<Value> = (1..20).map(|n| doc! { "e": { "$lt": (-n) } }.into()).collect();
    branches.push(doc! { "e": { "$gt": 4_000 } }.into());
    let statement = doc! { "q": { "_id": "list" }, "u": changed, "arrayFilters": [{ "$or": branches }] };
    run(doc! { "update": "plain", "updates": [statement] }, true);
    let reply = run(doc! { "count": "plain", "query": { "_id": "list", "n": 1, "list": (-1) } }, false);
    assert_eq!(reply.get("n"), Some(&Value::Int32(1)), "it was changed once");
    let computed = doc! { "n": { "$size": { "$range": [0, 10] } } };
    run(doc! { "find": "c", "filter": { "_id": 3 }, "projection": computed }, true);
    run(doc! { "find": "plain", "filter": { "_id": "long" } }, true);
    let pattern = |number: i32| Value::from(doc! { "a": { "$regex": (format!("^[a-z]{{{number}}}$")) } });
    let patterns: Vec<Value> = (1..200).map(pattern).collect();
    run(doc! { "count": "missing", "query": { "$or": patterns } }, true);
    let listed = run(doc! { "listCollections": 1, "cursor": { "batchSize": 1 } }, true);
    let Some(Value::Document(cursor)) = listed.get("cursor") else { panic!("{listed:?}") };
    let id = cursor.get("id").cloned().expect("a cursor");
    run(doc! { "getMore": (id.clone()), "collection": "$cmd.listCollections", "batchSize": 1 }, true);
    run(doc! { "killCursors": "$cmd.listCollections", "cursors": [id] }, true);
}

#[test]
fn a_batch_goes_on_elsewhere_when_its_slice_is_over() {
    let server = server();
    fill(&server);
    let client = TestClient::in_loop(&server);
    let statement = |id: i32| Value::from(doc! { "q": { "_id": id }, "u": { "$inc": { "times": 1 } } });
    let batch = || doc! { "update": "c", "updates": ((0..5).map(statement).collect::<Vec<_>>()) };
    assert!(!client.run(batch()).1, "five short statements");
    server.parameters.set(Parameter::LoopSlice, Setting::Integer(1)).expect("a microsecond is allowed");
    let (reply, offloaded) = client.run(batch());
    assert!(offloaded, "a microsecond is over");
    assert_eq!(reply.get("nModified"), Some(&Value::Int32(5)));
    let (reply, _) = client.run(doc! { "count": "c", "query": { "times": 2 } });
    assert_eq!(reply.get("n"), Some(&Value::Int32(5)), "each of them once in each batch");
}

#[test]
fn a_scan_goes_on_elsewhere_after_its_first_slice() {
    let server = server();
    let blocking = TestClient::of(&server);
    for first in (0..20_000).step_by(1_000) {
        let batch: Vec<Value> =
            (first..first + 1_000).map(|id| doc! { "_id": id, "a": (id % 7) }.into()).collect();
        ok(blocking.run(doc! { "insert": "c", "documents": batch }).0);
    }
    server.parameters.set(Parameter::LoopSlice, Setting::Integer(1)).expect("a microsecond is allowed");
    let client = TestClient::in_loop(&server);
    let filter = doc! { "a": 3, "b": (Value::Null), "c": { "$exists": false } };
    let (reply, offloaded) = client.run(doc! { "count": "c", "query": (filter.clone()) });
    assert!(offloaded, "twenty thousand documents are more than a loop's slice");
    assert_eq!(reply.get("n"), Some(&Value::Int32(2_857)));
    let update =
        doc! { "update": "c", "updates": [{ "q": filter, "u": { "$set": { "b": 1 } }, "multi": true }] };
    let (reply, offloaded) = client.run(update);
    assert!(offloaded);
    assert_eq!(reply.get("nModified"), Some(&Value::Int32(2_857)), "every document once");
}

#[test]
fn an_index_build_and_a_validation_end_at_their_time_limit() {
    let client = TestClient::of(&server());
    let documents: Vec<Value> = (0..20_000).map(|id| doc! { "_id": id, "a": id }.into()).collect();
    ok(client.run(doc! { "insert": "c", "documents": documents }).0);
    let create = || doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] };
    let mut limited = create();
    limited.push("maxTimeMS", 1);
    let (reply, _) = client.run(limited);
    assert_eq!(reply.get("code"), Some(&Value::Int32(50)), "{reply:?}");
    let created = ok(client.run(create()).0);
    assert_eq!(created.get("numIndexesBefore"), Some(&Value::Int32(1)), "{created:?}");
    // It keeps writers out for as long as it takes.
    let (reply, _) = client.run(doc! { "validate": "c", "maxTimeMS": 1 });
    assert_eq!(reply.get("code"), Some(&Value::Int32(50)), "{reply:?}");
    assert_eq!(ok(client.run(doc! { "validate": "c" }).0).get("valid"), Some(&Value::Boolean(true)));
}

#[test]
fn current_op_shows_how_far_an_index_build_is() {
    let server = server();
    let client = TestClient::of(&server);
    let documents: Vec<Value> = (0..1_000).map(|id| doc! { "_id": id, "a": (id % 7) }.into()).collect();
    ok(client.run(doc! { "insert": "c", "documents": documents }).0);
    let index = doc! { "key": { "a": 1 }, "name": "a" };
    for command in [doc! { "createIndexes": "c", "indexes": [index] }, doc! { "reIndex": "c" }] {
        let (mut command, mut reply) = (command, Vec::new());
        command.push("$db", "test");
        let command = command.to_buf();
        let request = dispatch::request::CommandRequest::new(command.as_raw());
        let mut running = pin!(dispatch::dispatch(&server, &client.client, request, &mut reply));
        let mut shown = Vec::new();
        while running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            let operation = client.client.operation().expect("it runs");
            shown.push((operation.message, operation.progress));
        }
        let half = (Some("Index Build: scanning collection: 512/1000 51%".to_owned()), Some((512, 1000)));
        assert!(shown.contains(&half), "{command:?} {shown:?}");
        assert!(client.client.operation().is_none());
    }
}

/// A small generator of numbers: the same seed, the same run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: i32) -> i32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit.unsigned_abs() as u64) as i32
    }

    fn filter(&mut self) -> Document {
        match self.below(5) {
            0 => doc! { "k": (self.below(20)) },
            1 => doc! { "u": { "$gte": (self.below(2_000)) } },
            2 => {
                doc! {
                    "k": { "$in": [(self.below(20)), (self.below(20))] }, "_id": { "$lt": (self.below(220)) }
                }
            }
            _ => doc! { "_id": (self.below(220)) },
        }
    }

    fn command(&mut self) -> Document {
        let filter = self.filter();
        match self.below(10) {
            0 => doc! { "find": "c", "filter": filter, "sort": { "_id": 1 }, "batchSize": 1_000 },
            1 => {
                doc! {
                    "find": "c", "filter": filter, "sort": { "k": 1, "_id": (-1) }, "projection": { "pad": 0 }
                }
            }
            2 => doc! { "count": "c", "query": filter },
            3 => doc! { "distinct": "c", "key": "k", "query": filter },
            4 => {
                let multi = self.below(3) == 0;
                let upsert = self.below(3) == 0
                    && !multi
                    && filter.get("_id").is_some_and(|id| matches!(id, Value::Int32(_)));
                doc! {
                    "update": "c", "updates": [{ "q": filter, "u": { "$inc": { "v": 1 } }, "multi": multi,
                        "upsert": upsert }]
                }
            }
            5 => {
                doc! {
                    "update": "c", "updates": [{ "q": { "_id": (self.below(200)) },
                        "u": { "$set": { "u": (self.below(2_000)) } } }]
                }
            }
            6 => doc! { "delete": "c", "deletes": [{ "q": filter, "limit": 1 }] },
            7 => {
                doc! {
                    "findAndModify": "c", "query": filter, "sort": { "_id": 1 },
                    "update": { "$inc": { "w": 1 } }
                }
            }
            _ => {
                let documents: Vec<Value> = (0..1 + self.below(4))
                    .map(|_| {
                        doc! { "_id": (self.below(220)), "k": (self.below(20)), "u": (self.below(2_000)) }
                            .into()
                    })
                    .collect();
                doc! { "insert": "c", "documents": documents, "ordered": (self.below(2) == 0) }
            }
        }
    }
}

#[test]
fn an_engine_that_forgets_changes_no_answer() {
    let (store, forgetting) = forgetful_store();
    let (forgetful, reliable) = (server_on(store), server());
    fill(&forgetful);
    fill(&reliable);
    let (client, judge) = (TestClient::in_loop(&forgetful), TestClient::of(&reliable));
    let mut dice = Dice(20_261_121);
    let mut offloads = 0;
    for round in 0..4_000 {
        forgetting.set([0, 20, 200, 1_000][dice.below(4) as usize]);
        let command = dice.command();
        let expect = comparable(judge.run(command.clone()).0);
        let (reply, offloaded) = client.run(command.clone());
        assert_eq!(comparable(reply), expect, "round {round}: {command:?}");
        offloads += i32::from(offloaded);
    }
    assert!((500..3_500).contains(&offloads), "{offloads} of 4,000 were offloaded: both ways must be walked");
    let all = doc! { "find": "c", "sort": { "_id": 1 }, "batchSize": 10_000 };
    assert_eq!(comparable(client.run(all.clone()).0), comparable(judge.run(all).0), "the data are the same");
    let valid = client.run(doc! { "validate": "c" }).0;
    assert_eq!(valid.get("valid"), Some(&Value::Boolean(true)), "{valid:?}");
}

#[test]
fn every_command_has_its_place() {
    let of = |wanted: Execution| -> Vec<&str> {
        CommandTable::<DataNode>::of_node()
            .iter()
            .filter(|command| command.execution == wanted)
            .map(|command| command.name)
            .collect()
    };
    assert_eq!(
        of(Execution::InlineFirst),
        ["count", "delete", "distinct", "find", "findAndModify", "getMore", "insert", "update"]
    );
    for name in ["hello", "isMaster", "ping", "setParameter", "getLog"] {
        assert!(of(Execution::Diagnostic).contains(&name), "{name}");
    }
    for name in ["currentOp", "killOp", "killCursors", "endSessions", "top", "serverStatus"] {
        assert!(of(Execution::DiagnosticPool).contains(&name), "{name}");
    }
    for name in ["logRotate", "validate", "listDatabases", "collStats", "dbStats", "fsync", "createIndexes"] {
        assert!(of(Execution::Pool).contains(&name), "{name}");
    }
}

#[test]
fn diagnostic_commands_stay_in_the_loop() {
    let server = server();
    let client = TestClient::in_loop(&server);
    for row in CommandTable::<DataNode>::of_node()
        .iter()
        .filter(|command| command.execution == Execution::Diagnostic)
    {
        let mut command = Document::new();
        command.push(row.name, 1);
        command.push("$db", "admin");
        let (_, offloaded) = client.run(command);
        assert!(!offloaded, "{}", row.name);
    }
}

#[test]
fn the_lane_knows_its_commands() {
    let check = |command: Document, expect: bool| {
        assert_eq!(
            CommandTable::<DataNode>::of_node().is_diagnostic(command.to_buf().as_raw()),
            expect,
            "{command:?}"
        );
    };
    check(doc! { "ping": 1 }, true);
    check(doc! { "ismaster": 1 }, true);
    check(doc! { "find": "c" }, false);
    check(doc! { "nonsense": 1 }, false);
    check(Document::new(), false);
    check(doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }, { "$match": {} }] }, true);
    check(doc! { "aggregate": 1, "pipeline": [{ "$currentOp": { "idleConnections": true } }] }, true);
    check(doc! { "aggregate": 1, "pipeline": [{ "$currentOp": {} }, { "$lookup": {} }] }, false);
    check(doc! { "aggregate": 1, "pipeline": [] }, false);
    check(doc! { "aggregate": "c", "pipeline": [{ "$currentOp": {} }] }, false);
}

#[test]
fn an_overloaded_server_refuses_who_understands_it() {
    let server = server();
    let client = TestClient::of(&server);
    let run = |command: Document| {
        client.run_with(command, |request| request.overload = Some(Duration::from_millis(40))).0
    };
    ok(run(doc! { "find": "c" }));
    ok(run(doc! { "hello": 1, "backpressure": true, "$db": "admin" }));
    let refused = run(doc! { "find": "c" });
    assert_eq!(refused.get("code"), Some(&Value::Int32(462)));
    assert_eq!(refused.get("codeName"), Some(&Value::String("IngressRequestRateLimitExceeded".into())));
    assert_eq!(refused.get("baseBackoffMS"), Some(&Value::Int32(40)));
    let labels = ["SystemOverloadedError", "RetryableError"].map(|label| Value::String(label.into()));
    assert_eq!(refused.get("errorLabels"), Some(&Value::Array(labels.to_vec().into())));
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    let (refused, outcome) =
        client.run_with(insert, |request| request.overload = Some(Duration::from_millis(40)));
    assert!(outcome.refused_under_overload, "the transport counts it");
    assert_eq!(refused.get("code"), Some(&Value::Int32(462)));
    ok(run(doc! { "ping": 1 }));
    ok(run(doc! { "serverStatus": 1 }));
    ok(run(doc! { "endSessions": [] }));
    assert_eq!(run(doc! { "getMore": 5_i64, "collection": "c" }).get("code"), Some(&Value::Int32(43)));
    assert_eq!(server.counters.refused_under_overload.get(), 2);
    assert_eq!(server.node.catalog.collection("test", "c").map(drop), None, "what is refused has no effect");
    for said in [Value::Boolean(false), Value::String(String::new()), Value::Null] {
        let other = TestClient::of(&server);
        ok(other.run(doc! { "hello": 1, "backpressure": said, "$db": "admin" }).0);
        assert!(!other.client.backs_off());
    }
    let versioned = TestClient::of(&server);
    ok(versioned.run(doc! { "hello": 1, "backpressure": "2", "$db": "admin" }).0);
    assert!(versioned.client.backs_off(), "drivers tell the version of the rules they follow");
    let other = TestClient::of(&server);
    ok(other.run_with(doc! { "find": "c" }, |request| request.overload = Some(Duration::from_secs(1))).0);
}

#[test]
fn the_time_of_a_request_is_split() {
    let server = server();
    server.parameters.set(Parameter::SlowMilliseconds, Setting::Integer(0)).expect("allowed");
    let client = TestClient::of(&server);
    let began = Instant::now().checked_sub(Duration::from_millis(30)).expect("a time before now");
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }] };
    let (_, outcome) = client.run_with(insert, |request| {
        request.times = SpanTimes::default().with(Span::Queue, Duration::from_millis(7));
        request.began = Some(began);
    });
    let slow = outcome.slow.expect("everything counts as slow");
    assert_eq!((slow.namespace.as_str(), slow.command, slow.error_code), ("test.c", "insert", 0));
    assert_eq!(slow.times.of(Span::Queue), Duration::from_millis(7), "what the transport told is kept");
    assert!(slow.times.of(Span::Parse) >= Duration::from_millis(30), "{slow:?}");
    assert!(
        !slow.times.of(Span::CommitWait).is_zero() && !slow.times.of(Span::Execute).is_zero(),
        "{slow:?}"
    );
    let spans = server.spans.to_document();
    for (name, count) in [("parse", 1), ("execute", 1), ("commitWait", 1)] {
        let Some(Value::Document(span)) = spans.get(name) else { panic!("no {name}") };
        assert_eq!(span.get("count"), Some(&Value::Int64(count)), "{name} in {spans:?}");
    }
    server.parameters.set(Parameter::SlowMilliseconds, Setting::Integer(100_000)).expect("allowed");
    let (_, outcome) = client.run_with(doc! { "find": "c" }, |_| {});
    assert!(outcome.slow.is_none());
}

#[test]
fn who_waits_for_a_thread_is_not_slow() {
    let server = server();
    server.parameters.set(Parameter::SlowMilliseconds, Setting::Integer(1)).expect("allowed");
    let client = TestClient::in_loop(&server);
    // No machine inserts that many within a millisecond.
    let documents = |from: i32| (from..from + 10_000).map(|id| Value::Document(doc! { "_id": id })).collect();
    let insert = |from: i32| {
        let documents: Vec<Value> = documents(from);
        client.run_with(doc! { "insert": "c", "documents": documents }, |_| {}).1.slow
    };
    let slow = insert(0).expect("more than a millisecond of work");
    assert_eq!(slow.working, slow.duration);
    client.waits_for_a_thread(Duration::from_secs(3_600));
    assert!(insert(10_000).is_none(), "all of its time is said to be waiting");
}

/// The documents of all batches of a reply's cursor.
fn drained(client: &TestClient, mut reply: Document) -> Vec<Value> {
    let mut found = Vec::new();
    loop {
        let Some(Value::Document(cursor)) = ok(reply.clone()).get("cursor").cloned() else {
            panic!("no cursor: {reply:?}")
        };
        let batch = cursor.get("firstBatch").or(cursor.get("nextBatch"));
        let Some(Value::Array(batch)) = batch else { panic!("no batch: {reply:?}") };
        found.extend(batch.iter().cloned());
        match cursor.get("id") {
            Some(Value::Int64(0)) => return found,
            Some(id) => {
                reply = client.run(doc! { "getMore": (id.clone()), "collection": "c", "batchSize": 3 }).0
            }
            None => panic!("no number: {reply:?}"),
        }
    }
}

#[test]
fn every_read_sees_the_state_that_was_chosen_for_it() {
    let store = Store::in_memory(&StorageOptions::small()).expect("memory is to be had");
    let now = TestClient::of(&server_on(store.clone()));
    let documents: Vec<Value> = (0..20).map(|id| doc! { "_id": id, "a": (id % 5) }.into()).collect();
    ok(now.run(doc! { "insert": "c", "documents": documents }).0);
    ok(now.run(doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] }).0);
    ok(now.run(doc! { "create": "v", "viewOn": "c", "pipeline": [{ "$match": { "a": 3 } }] }).0);
    let mut server = server_on(store.clone());
    Arc::get_mut(&mut server).expect("nobody else has it").node.newest =
        ReadSource::View(store.pinned_view());
    let then = TestClient::of(&server);
    let stages: Vec<Value> = vec![
        doc! { "$match": { "_id": { "$lt": 2 } } }.into(),
        doc! { "$lookup": { "from": "c", "localField": "a", "foreignField": "a", "as": "same" } }.into(),
    ];
    let batch = || doc! { "batchSize": 3 };
    let reads = [
        doc! { "find": "c", "filter": { "_id": 3 } },
        doc! { "find": "c", "batchSize": 3 },
        doc! { "find": "c", "filter": { "a": { "$gte": 2 } }, "sort": { "a": 1 }, "batchSize": 3 },
        doc! { "find": "c", "sort": { "b": 1 }, "batchSize": 3 },
        doc! { "find": "v" },
        doc! {
            "aggregate": "c", "pipeline": [{ "$group": { "_id": "$a", "n": { "$sum": 1 } } },
                { "$sort": { "_id": 1 } }], "cursor": (batch())
        },
        doc! { "aggregate": "c", "pipeline": [], "cursor": (batch()) },
        doc! { "aggregate": "c", "pipeline": stages, "cursor": (batch()) },
    ];
    let counts = [
        doc! { "count": "c" },
        doc! { "count": "c", "query": { "a": 3 } },
        doc! { "count": "v" },
        doc! { "distinct": "c", "key": "a" },
    ];
    let ask = |client: &TestClient| {
        let read: Vec<_> = reads.iter().map(|read| drained(client, client.run(read.clone()).0)).collect();
        let counted: Vec<_> = counts.iter().map(|count| ok(client.run(count.clone()).0)).collect();
        (read, counted)
    };
    let before = ask(&now);
    assert_eq!(ask(&then), before);
    ok(now
        .run(doc! { "update": "c", "updates": [{ "q": {}, "u": { "$inc": { "a": 7 } }, "multi": true }] })
        .0);
    ok(now.run(doc! { "delete": "c", "deletes": [{ "q": { "_id": { "$lt": 4 } }, "limit": 0 }] }).0);
    ok(now.run(doc! { "insert": "c", "documents": [{ "_id": 99, "a": 3 }] }).0);
    let (after, past) = (ask(&now), ask(&then));
    assert_eq!(past, before, "the state of before");
    let unchanged = before.0.iter().zip(&after.0).filter(|(before, after)| before == after);
    assert_eq!(unchanged.count(), 0, "each of them has another answer now");
}

#[test]
fn hot_rows_outlive_the_end_of_other_collections() {
    let server = server();
    fill(&server);
    let client = TestClient::of(&server);
    let hits_of_finds = || {
        let before = server.node.store.statistics().row_cache.hits;
        for id in 0..DOCUMENTS {
            ok(client.run(doc! { "find": "c", "filter": { "_id": id } }).0);
        }
        server.node.store.statistics().row_cache.hits - before
    };
    hits_of_finds();
    assert_eq!(hits_of_finds(), DOCUMENTS as u64, "what was read once is hot");
    let out = || {
        let pipeline =
            Value::Array(vec![doc! { "$match": { "k": 3 } }.into(), doc! { "$out": "made" }.into()].into());
        doc! { "aggregate": "c", "pipeline": pipeline, "cursor": {} }
    };
    for command in [out(), out(), doc! { "drop": "made" }, doc! { "drop": "log" }] {
        ok(client.run(command.clone()).0);
        assert_eq!(hits_of_finds(), DOCUMENTS as u64, "after {command:?}");
    }
    ok(client.run(doc! { "drop": "c" }).0);
    assert_eq!(hits_of_finds(), 0, "what was dropped is not found");
}

#[test]
fn every_command_has_a_name_of_its_own_and_a_sentence() {
    let table = CommandTable::<DataNode>::of_node();
    for command in table.iter() {
        assert!(command.help.ends_with('.'), "{} needs a sentence of help", command.name);
        for name in std::iter::once(&command.name).chain(command.aliases) {
            let found = table.get(name.as_bytes()).expect("every name is known");
            assert!(std::ptr::eq(found, command), "{name} is there twice");
        }
    }
}

#[test]
fn fields_outside_of_an_api_version_are_refused() {
    let strict = doc! { "find": "c", "apiVersion": "1", "apiStrict": true, "tailable": true };
    let (reply, _) = TestClient::of(&server()).run(strict);
    let message = "BSON field 'find.tailable' is not allowed with apiStrict:true.";
    assert_eq!(reply.get("errmsg"), Some(&message.into()), "{reply:?}");
    assert_eq!(reply.get("code"), Some(&Value::Int32(323)));
}
