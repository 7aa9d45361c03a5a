//! What is past its time and not deleted yet is seen by nobody, where the collection hides it.

use crate::server::ServiceContext;
use crate::testing::{TestClient, TestMember, server};
use ambient::Simulation;
use document::{Document, Value, doc};
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
fn no_write_matches_it() {
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
    let collection = server.node.catalog.collection("test", "c").expect("it is there");
    assert_eq!(collection.document_count(), 5, "nothing of what is hidden was touched");
}

fn is_valid(client: &TestClient) {
    let reply = ok(client, doc! { "validate": "c" });
    assert_eq!(reply.get("valid"), Some(&Value::Boolean(true)), "{reply:?}");
}

fn stored(server: &ServiceContext) -> u64 {
    server.node.catalog.collection("test", "c").expect("it is there").document_count()
}

/// All there is, hidden or not.
fn everything(client: &TestClient) -> Vec<i64> {
    ok(client, doc! { "collMod": "c", "hideExpired": false });
    let found = ids(&ok(client, doc! { "find": "c", "sort": { "_id": 1 } }), "firstBatch");
    ok(client, doc! { "collMod": "c", "hideExpired": true });
    found
}

#[test]
fn an_insert_takes_the_keys_of_what_is_hidden() {
    for client in [TestClient::of(&server()), TestClient::in_loop(&server())] {
        prepared(&client);
        let insert = |documents: Vec<Value>, ordered: bool| {
            let reply = ok(&client, doc! { "insert": "c", "documents": documents, "ordered": ordered });
            let errors = reply.get("writeErrors").and_then(Value::as_array).unwrap_or_default();
            let place = |error: &Value| error.as_document()?.get("index")?.as_i64_exact();
            (at(&reply, "n").as_i64_exact(), errors.iter().map(place).collect::<Vec<_>>())
        };
        // By `_id`, by a unique index, and both at once, of two documents.
        assert_eq!(insert(document::array![{ "_id": 1, "n": 3 }], true), (Some(1), vec![]));
        assert_eq!(everything(&client), [1, 2, 4, 5], "3 had the n, and has gone");
        is_valid(&client);
        // What is not past its time stays, and what comes behind it is inserted or not as ever.
        let date = |seconds: i64| Value::DateTime(client.server.now_ms() + 1000 * seconds);
        let hidden = document::array![
            { "_id": 10, "n": 10, "at": (date(-61)) }, { "_id": 11, "n": 11, "at": (date(-61)) },
        ];
        assert_eq!(insert(hidden, true), (Some(2), vec![]));
        let mixed = |first: i64| {
            document::array![
                { "_id": first, "n": first }, { "_id": 10, "n": 10 }, { "_id": 2, "n": 20 },
                { "_id": 11, "n": 11 }, { "_id": (first + 1), "n": 11 }, { "_id": 11 },
            ]
        };
        assert_eq!(insert(mixed(30), true), (Some(2), vec![Some(2)]), "up to the _id 2");
        assert_eq!(insert(mixed(40), false), (Some(2), vec![Some(1), Some(2), Some(4), Some(5)]));
        assert_eq!(everything(&client), [1, 2, 4, 5, 10, 11, 30, 40]);
        is_valid(&client);
    }
}

#[test]
fn upserts_and_updates_take_the_keys_of_what_is_hidden() {
    for client in [TestClient::of(&server()), TestClient::in_loop(&server())] {
        prepared(&client);
        let update = |filter: Document, change: Document, multi: bool, upsert: bool| {
            let statement = doc! { "q": filter, "u": { "$set": change }, "multi": multi, "upsert": upsert };
            let (reply, _) = client.run(doc! { "update": "c", "updates": [statement] });
            assert!(reply.get("writeErrors").is_none(), "{reply:?}");
            at(&reply, "n").as_i64_exact()
        };
        assert_eq!(update(doc! { "_id": 1 }, doc! { "new": 1 }, false, true), Some(1));
        let found = ok(&client, doc! { "find": "c", "filter": { "_id": 1 } });
        assert_eq!(at(&found, "cursor.firstBatch.0"), &Value::from(doc! { "_id": 1, "new": 1 }));
        // 5 takes the key of 3.
        assert_eq!(update(doc! { "_id": 5 }, doc! { "n": 3 }, false, false), Some(1));
        assert_eq!(everything(&client), [1, 2, 4, 5]);
        let hide = |id: i64, n: i64| {
            let at = Value::DateTime(client.server.now_ms() - 61_000);
            ok(&client, doc! { "insert": "c", "documents": [{ "_id": id, "n": n, "at": at }] });
        };
        hide(6, 6);
        assert_eq!(update(doc! { "n": { "$in": [3, 2] } }, doc! { "seen": 1 }, true, false), Some(2));
        assert_eq!(update(doc! { "_id": { "$in": [4, 99] } }, doc! { "n": 6 }, true, false), Some(1));
        assert_eq!(everything(&client), [1, 2, 4, 5]);
        hide(7, 7);
        let modify = doc! {
            "findAndModify": "c", "query": { "n": 7 }, "update": { "$set": { "new": 2 } }, "upsert": true,
            "new": true
        };
        let reply = ok(&client, modify);
        assert_eq!(at(&reply, "lastErrorObject.updatedExisting"), &Value::Boolean(false));
        assert_eq!(at(&reply, "value.n"), &Value::Int32(7));
        assert_eq!(stored(&client.server), 5, "7 has gone");
        // Whoever is not past his time keeps what he has.
        let statement = doc! { "q": { "_id": 5 }, "u": { "$set": { "n": 2 } } };
        let refused = ok(&client, doc! { "update": "c", "updates": [statement] });
        assert_eq!(at(&refused, "writeErrors.0.code"), &Value::Int32(11000));
        is_valid(&client);
    }
}

#[test]
fn where_nothing_is_hidden_keys_stay_taken() {
    let server = server();
    let client = TestClient::of(&server);
    prepared(&client);
    ok(&client, doc! { "collMod": "c", "hideExpired": false });
    for document in [doc! { "_id": 1 }, doc! { "_id": 50, "n": 3 }] {
        let reply = ok(&client, doc! { "insert": "c", "documents": [document] });
        assert_eq!(at(&reply, "writeErrors.0.code"), &Value::Int32(11000), "{reply:?}");
    }
    assert_eq!(stored(&server), 5);
}

/// The reply to `$merge` of one document into the collection.
fn merge(client: &TestClient, document: Document, mut stage: Document) -> Document {
    stage.push("into", "c");
    let (reply, _) = client.run(doc! {
        "aggregate": 1, "cursor": {},
        "pipeline": [{ "$documents": [(document)] }, { "$merge": (stage) }],
    });
    reply
}

#[test]
fn for_a_merge_it_is_not_there() {
    let replaced: Vec<Value> = document::array![{ "$set": { "was": "there" } }];
    // What it becomes, or the refusal.
    let cases: [(Document, Result<(), i32>, bool); 8] = [
        (doc! {}, Ok(()), true),
        (doc! { "whenMatched": "replace" }, Ok(()), true),
        (doc! { "whenMatched": "keepExisting" }, Ok(()), true),
        (doc! { "whenMatched": "fail" }, Ok(()), true),
        (doc! { "whenMatched": replaced }, Ok(()), true),
        (doc! { "on": "n" }, Ok(()), true),
        (doc! { "whenNotMatched": "discard" }, Ok(()), false),
        (doc! { "whenNotMatched": "fail" }, Err(13113), false),
    ];
    for (stage, expect, is_inserted) in cases {
        let server = server();
        let client = TestClient::of(&server);
        prepared(&client);
        let reply = merge(&client, doc! { "_id": 1, "n": 1, "new": true }, stage.clone());
        let code = reply.get("code").and_then(Value::as_i64_exact);
        assert_eq!(code, expect.err().map(i64::from), "{stage:?}: {reply:?}");
        let shown = ok(&client, doc! { "find": "c", "filter": { "n": 1 } });
        let found = at(&shown, "cursor.firstBatch");
        let inserted = doc! { "_id": 1, "n": 1, "new": true };
        let expected = if is_inserted { document::array![inserted] } else { Vec::new() };
        assert_eq!(found, &Value::from(expected), "{stage:?}");
        assert_eq!(everything(&client), [1, 2, 3, 4, 5], "{stage:?}");
        is_valid(&client);
    }
}

#[test]
fn a_merge_takes_the_keys_of_what_is_hidden() {
    let server = server();
    let client = TestClient::of(&server);
    prepared(&client);
    // Its own document is shown, and wants the key of another one.
    let reply = merge(&client, doc! { "_id": 5, "n": 3 }, doc! {});
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
    assert_eq!(everything(&client), [1, 2, 4, 5], "3 had the n");
    // What is shown is matched, and keeps its keys.
    let refused = merge(&client, doc! { "_id": 5, "n": 2 }, doc! {});
    assert_eq!(refused.get("code"), Some(&Value::Int32(11000)), "{refused:?}");
    let refused = merge(&client, doc! { "_id": 2 }, doc! { "whenMatched": "fail" });
    assert_eq!(refused.get("code"), Some(&Value::Int32(11000)), "{refused:?}");
    is_valid(&client);
    let status = client.run(doc! { "serverStatus": 1, "$db": "admin" }).0;
    for figure in ["metrics.ttl.deletedDocuments", "heddle.ttl.madeWay"] {
        assert_eq!(at(&status, figure), &Value::Int64(1), "{figure}: it has gone since it had expired");
    }
}

#[test]
fn what_made_way_has_gone_on_every_member() {
    let primary = TestMember::new();
    let client = TestClient::of(&primary.server);
    prepared(&client);
    let before = primary.log().len();
    ok(&client, doc! { "insert": "c", "documents": [{ "_id": 1, "n": 3 }] });
    let told: Vec<String> = primary.log()[before..]
        .iter()
        .map(|entry| {
            let entry = document::RawDocument::parse(entry).expect("an entry").to_document();
            let id = at(&entry, "o._id").as_i64_exact();
            format!("{} {}", entry.get("op").and_then(Value::as_str).unwrap_or_default(), id.unwrap_or(-1))
        })
        .collect();
    assert_eq!(told, ["d 1", "d 3", "i 1"]);
    let other = TestMember::new();
    other.apply(&primary.log());
    let far = TestClient::of(&other.server);
    assert_eq!(ids(&ok(&far, doc! { "find": "c" }), "firstBatch"), [1, 2, 4, 5]);
    assert_eq!(stored(&other.server), 4);
    is_valid(&far);
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
