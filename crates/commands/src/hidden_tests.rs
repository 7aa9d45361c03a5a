//! What is past its time and not deleted yet is seen by nobody, where the collection hides it.

use crate::testing::{TestClient, TestMember, server};
use crate::ttl::TtlMonitor;
use ambient::Simulation;
use document::{Document, Value, doc};
use pollster::block_on;
use std::time::Duration;

fn ok(client: &TestClient, command: Document) -> Document {
    let (reply, _) = client.run(command.clone());
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{command:?}: {reply:?}");
    reply
}

/// The value of a field of a field, and so on; numbers count in arrays.
fn at<'d>(document: &'d Document, path: &str) -> &'d Value {
    let mut parts = path.split('.');
    let first = document.get(parts.next().expect("a name")).unwrap_or_else(|| panic!("{path}: {document:?}"));
    parts.fold(first, |value, name| match value {
        Value::Document(inner) => inner.get(name).unwrap_or_else(|| panic!("{path}: {document:?}")),
        Value::Array(list) => &list[name.parse::<usize>().expect("a place")],
        other => panic!("{path}: {other:?}"),
    })
}

fn ids(reply: &Document, batch: &str) -> Vec<i64> {
    let Value::Array(documents) = at(reply, &format!("cursor.{batch}")) else { panic!("{reply:?}") };
    documents.iter().map(id_of).collect()
}

fn id_of(document: &Value) -> i64 {
    let Value::Document(document) = document else { panic!("{document:?}") };
    document.get("_id").and_then(Value::as_i64_exact).unwrap_or_else(|| panic!("{document:?}"))
}

/// A collection that hides: 1 and 3 are past their time, by one index or the other; 5 never will be.
fn prepared(client: &TestClient) {
    ok(client, doc! { "create": "c", "hideExpired": true });
    let indexes = document::array![
        { "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 60 },
        { "key": { "until": -1 }, "name": "until", "expireAfterSeconds": 0,
            "partialFilterExpression": { "kind": "x" } },
        { "key": { "n": 1 }, "name": "n", "unique": true },
    ];
    ok(client, doc! { "createIndexes": "c", "indexes": indexes });
    let date = |seconds: i64| Value::DateTime(client.server.now_ms() + 1000 * seconds);
    let dates = document::array![(date(100)), (date(-1))];
    let documents = document::array![
        { "_id": 1, "n": 1, "at": (date(-61)) },
        { "_id": 2, "n": 2, "at": (date(-50)) },
        { "_id": 3, "n": 3, "until": dates, "kind": "x" },
        { "_id": 4, "n": 4, "until": (date(-1)), "kind": "y" },
        { "_id": 5, "n": 5, "at": "never" },
    ];
    ok(client, doc! { "insert": "c", "documents": documents });
}

#[test]
fn no_read_shows_it() {
    let server = server();
    let client = TestClient::of(&server);
    prepared(&client);
    let find = |filter: Document| {
        ids(&ok(&client, doc! { "find": "c", "filter": filter, "sort": { "_id": 1 } }), "firstBatch")
    };
    assert_eq!(find(doc! {}), [2, 4, 5]);
    assert_eq!(find(doc! { "n": { "$lte": 3 } }), [2]);
    assert_eq!(find(doc! { "$or": [{ "n": 1 }, { "n": 2 }, { "_id": 3 }] }), [2]);
    for id in 1..=5 {
        let shown = [2, 4, 5].contains(&id);
        let reply = ok(&client, doc! { "find": "c", "filter": { "_id": id } });
        assert_eq!(ids(&reply, "firstBatch").len(), usize::from(shown), "{id} by its _id");
        let reply =
            ok(&client, doc! { "find": "c", "filter": { "n": id }, "projection": { "n": 1, "_id": 0 } });
        let Value::Array(found) = at(&reply, "cursor.firstBatch") else { panic!("{reply:?}") };
        assert_eq!(found.len(), usize::from(shown), "{id} by an index that has all that is asked for");
    }
    let limited = doc! { "find": "c", "sort": { "n": 1 }, "skip": 1, "limit": 1 };
    assert_eq!(ids(&ok(&client, limited), "firstBatch"), [4], "what is hidden is not counted");
    let counted = |command: Document| at(&ok(&client, command), "n").as_i64_exact();
    assert_eq!(counted(doc! { "count": "c" }), Some(3));
    assert_eq!(counted(doc! { "count": "c", "query": { "n": { "$gte": 2 } } }), Some(3));
    let distinct = ok(&client, doc! { "distinct": "c", "key": "n" });
    assert_eq!(at(&distinct, "values"), &Value::from(document::array![2, 4, 5]));
}

#[test]
fn no_pipeline_shows_it() {
    let server = server();
    let client = TestClient::of(&server);
    prepared(&client);
    ok(&client, doc! { "insert": "other", "documents": [{ "_id": 1, "next": 1 }, { "_id": 2, "next": 2 }] });
    ok(&client, doc! { "create": "view", "viewOn": "c", "pipeline": [{ "$match": {} }] });
    let run = |from: &str, stages: Vec<Value>| {
        ok(&client, doc! { "aggregate": from, "pipeline": stages, "cursor": {} })
    };
    let sorted = document::array![{ "$sort": { "_id": 1 } }];
    assert_eq!(ids(&run("c", sorted.clone()), "firstBatch"), [2, 4, 5]);
    assert_eq!(ids(&run("view", sorted), "firstBatch"), [2, 4, 5]);
    let counted = run("c", document::array![{ "$count": "n" }]);
    assert_eq!(at(&counted, "cursor.firstBatch.0.n").as_i64_exact(), Some(3));
    let grouped = run("c", document::array![{ "$group": { "_id": 0, "n": { "$sum": "$n" } } }]);
    assert_eq!(at(&grouped, "cursor.firstBatch.0.n").as_i64_exact(), Some(11));
    let joined = run(
        "other",
        document::array![
            { "$lookup": { "from": "c", "localField": "next", "foreignField": "_id", "as": "found" } },
            { "$match": { "found": { "$ne": [] } } },
        ],
    );
    assert_eq!(ids(&joined, "firstBatch"), [2]);
    let united = run("nothing", document::array![{ "$unionWith": "c" }, { "$sort": { "_id": -1 } }]);
    assert_eq!(ids(&united, "firstBatch"), [5, 4, 2]);
}

#[test]
fn no_write_matches_it_and_its_keys_are_taken() {
    let server = server();
    let client = TestClient::of(&server);
    prepared(&client);
    let n = |reply: &Document| at(reply, "n").as_i64_exact();
    let update = |filter: Document, multi: bool, upsert: bool| {
        let statement =
            doc! { "q": filter, "u": { "$set": { "seen": 1 } }, "multi": multi, "upsert": upsert };
        ok(&client, doc! { "update": "c", "updates": [statement] })
    };
    assert_eq!(n(&update(doc! { "_id": 1 }, false, false)), Some(0));
    assert_eq!(n(&update(doc! { "n": 3 }, false, false)), Some(0));
    assert_eq!(n(&update(doc! {}, true, false)), Some(3));
    let removed = ok(&client, doc! { "findAndModify": "c", "query": { "n": { "$lte": 1 } }, "remove": true });
    assert_eq!(removed.get("value"), Some(&Value::Null));
    for limit in [0, 1] {
        let delete = doc! { "q": { "_id": { "$in": [1, 3] } }, "limit": limit };
        assert_eq!(n(&ok(&client, doc! { "delete": "c", "deletes": [delete] })), Some(0));
    }
    assert_eq!(
        n(&ok(&client, doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] })),
        Some(0)
    );
    for filter in [doc! { "_id": 1 }, doc! { "n": 3 }] {
        let reply = update(filter.clone(), false, true);
        assert_eq!(at(&reply, "writeErrors.0.code"), &Value::Int32(11000), "{filter:?}: {reply:?}");
        let (reply, _) = client.run(doc! {
            "findAndModify": "c", "query": filter, "update": { "$set": { "seen": 1 } }, "upsert": true
        });
        assert_eq!(reply.get("code"), Some(&Value::Int32(11000)), "{reply:?}");
    }
    let reply = ok(&client, doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    assert_eq!(at(&reply, "writeErrors.0.code"), &Value::Int32(11000));
    let collection = server.node.catalog.collection("test", "c").expect("it is there");
    assert_eq!(collection.document_count(), 5, "nothing of what is hidden was touched");
    let mut monitor = TtlMonitor::new();
    monitor.wake();
    while collection.document_count() > 3 {
        block_on(monitor.step(&server));
    }
    assert_eq!(n(&update(doc! { "_id": 1 }, false, true)), Some(1), "the monitor has made room");
}

#[test]
fn a_cursor_sees_one_moment() {
    let time = Simulation::begin(1);
    let server = server();
    let client = TestClient::of(&server);
    prepared(&client);
    let first = ok(&client, doc! { "find": "c", "batchSize": 0 });
    time.advance(Duration::from_secs(20));
    let cursor = at(&first, "cursor.id").clone();
    let rest = ok(&client, doc! { "getMore": cursor, "collection": "c" });
    assert_eq!(ids(&rest, "nextBatch"), [2, 4, 5], "2 has expired since the cursor was opened");
    assert_eq!(ids(&ok(&client, doc! { "find": "c" }), "firstBatch"), [4, 5]);
}

#[test]
fn it_is_switched_on_and_off_on_every_member() {
    let primary = TestMember::new();
    let client = TestClient::of(&primary.server);
    prepared(&client);
    let other = TestMember::new();
    other.apply(&primary.log());
    let far = TestClient::of(&other.server);
    assert_eq!(ids(&ok(&far, doc! { "find": "c" }), "firstBatch"), [2, 4, 5]);
    let reply = ok(&client, doc! { "collMod": "c", "hideExpired": false });
    assert_eq!(reply.get("hideExpired_old"), Some(&Value::Boolean(true)));
    assert_eq!(ids(&ok(&client, doc! { "find": "c" }), "firstBatch"), [1, 2, 3, 4, 5]);
    assert_eq!(ids(&ok(&client, doc! { "find": "c", "filter": { "_id": 1 } }), "firstBatch"), [1]);
    let off = TestMember::new();
    off.apply(&primary.log());
    let far = TestClient::of(&off.server);
    assert_eq!(ids(&ok(&far, doc! { "find": "c" }), "firstBatch"), [1, 2, 3, 4, 5]);
    ok(&client, doc! { "collMod": "c", "hideExpired": true });
    let shown = ok(&client, doc! { "listCollections": 1, "filter": { "name": "c" } });
    assert_eq!(at(&shown, "cursor.firstBatch.0.options.hideExpired"), &Value::Boolean(true));
    let on = TestMember::new();
    on.apply(&primary.log());
    assert_eq!(ids(&ok(&TestClient::of(&on.server), doc! { "find": "c" }), "firstBatch"), [2, 4, 5]);
}
