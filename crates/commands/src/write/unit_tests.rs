//! Statements that change many documents: in few write units, and told as if each had been changed by itself.

use crate::testing::{TestClient, server};
use document::{Document, Value, doc};
use std::sync::Arc;

/// More than two units.
const MANY: i32 = 600;

/// A client of a server with many documents, `a` being as `_id`.
fn filled() -> TestClient {
    let client = TestClient::of(&server());
    let documents: Vec<Value> = (0..MANY).map(|id| doc! { "_id": id, "a": id }.into()).collect();
    run(&client, doc! { "insert": "c", "documents": documents });
    client
}

#[track_caller]
fn run(client: &TestClient, command: Document) -> Document {
    let (reply, _) = client.run(command);
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
    reply
}

fn index(client: &TestClient, key: Document, unique: bool) {
    let index = doc! { "key": key, "name": "i", "unique": unique };
    run(client, doc! { "createIndexes": "c", "indexes": [index] });
}

fn update(filter: Document, update: Document) -> Document {
    doc! { "update": "c", "updates": [{ "q": filter, "u": update, "multi": true }] }
}

fn delete(filter: Document) -> Document {
    doc! { "delete": "c", "deletes": [{ "q": filter, "limit": 0 }] }
}

fn count(client: &TestClient, query: Document) -> i32 {
    match run(client, doc! { "count": "c", "query": query }).get("n") {
        Some(Value::Int32(n)) => *n,
        other => panic!("no count: {other:?}"),
    }
}

#[track_caller]
fn assert_valid(client: &TestClient) {
    let report = run(client, doc! { "validate": "c" });
    assert_eq!(report.get("valid"), Some(&Value::Boolean(true)), "{report:?}");
}

/// Runs a statement that fails at one of the documents: with this code, after so many were changed.
#[track_caller]
fn check_failing(client: &TestClient, command: Document, code: i32, changed: (Document, i32)) {
    let reply = run(client, command);
    let Some(Value::Array(errors)) = reply.get("writeErrors") else { panic!("nothing failed: {reply:?}") };
    let [Value::Document(error)] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.get("code"), Some(&Value::Int32(code)), "{error:?}");
    assert_eq!(count(client, changed.0), changed.1);
    assert_valid(client);
}

#[test]
fn many_documents_are_changed_in_few_units() {
    let client = filled();
    index(&client, doc! { "b": 1 }, false);
    let commits = || client.server.node.store.statistics().commit.commits;
    let before = commits();
    let reply = run(&client, update(doc! { "_id": { "$gte": 100 } }, doc! { "$set": { "b": [1, 2] } }));
    assert_eq!((reply.get("n"), reply.get("nModified")), (Some(&500.into()), Some(&500.into())));
    // The first unit records that the index is multikey.
    assert!(commits() - before <= 50, "{} commits for 500 updates", commits() - before);
    assert_eq!((count(&client, doc! { "b": 2 }), count(&client, doc! {})), (500, MANY));
    let reply = run(&client, update(doc! {}, doc! { "$set": { "b": [1, 2] } }));
    assert_eq!((reply.get("n"), reply.get("nModified")), (Some(&MANY.into()), Some(&100.into())));
    let before = commits();
    assert_eq!(run(&client, delete(doc! { "b": 1, "a": { "$lt": 590 } })).get("n"), Some(&590.into()));
    assert!(commits() - before <= 50, "{} commits for 590 deletes", commits() - before);
    assert_eq!(count(&client, doc! {}), 10);
    assert_valid(&client);
}

#[test]
fn what_was_changed_before_a_failing_document_stays() {
    let client = filled();
    run(&client, doc! { "update": "c", "updates": [{ "q": { "_id": 300 }, "u": { "$set": { "a": "x" } } }] });
    let increase = || update(doc! {}, doc! { "$inc": { "a": 1000 } });
    check_failing(&client, increase(), 14, (doc! { "a": { "$gte": 1000 } }, 300));
    // The filter fails at a document that was not read yet when the first were changed.
    let divides = doc! { "$expr": { "$gt": [{ "$divide": [1, { "$subtract": ["$_id", 270] }] }, -2] } };
    check_failing(&client, delete(divides), 2, (doc! {}, MANY - 270));
}

#[test]
fn a_validator_refuses_its_document_alone() {
    let client = filled();
    let validator = doc! { "$or": [{ "b": { "$exists": false } }, { "a": { "$ne": 20 } }] };
    run(&client, doc! { "collMod": "c", "validator": validator });
    check_failing(
        &client,
        update(doc! {}, doc! { "$set": { "b": 1 } }),
        121,
        (doc! { "b": { "$exists": true } }, 20),
    );
}

#[test]
fn unique_keys_are_kept_among_the_documents_of_a_statement() {
    let client = filled();
    index(&client, doc! { "a": 1 }, true);
    check_failing(&client, update(doc! {}, doc! { "$set": { "a": -1 } }), 11000, (doc! { "a": -1 }, 1));
    // Each takes the key that the one before it has left.
    let commits = || client.server.node.store.statistics().commit.commits;
    let before = commits();
    let reply = run(&client, update(doc! { "_id": { "$gte": 1 } }, doc! { "$inc": { "a": -1 } }));
    assert_eq!(reply.get("nModified"), Some(&(MANY - 1).into()), "{reply:?}");
    assert!(commits() - before <= 150, "{} commits for {MANY} updates", commits() - before);
    // Two that want the same one, which a third one leaves to the first of them.
    let third = doc! { "$switch": { "branches": [
        { "case": { "$eq": ["$_id", 10] }, "then": -5 },
        { "case": { "$in": ["$_id", [11, 12]] }, "then": 9 },
    ], "default": "$a" } };
    let pipeline: Vec<Value> = vec![doc! { "$set": { "c": 1, "a": third } }.into()];
    let statement = doc! { "q": {}, "u": pipeline, "multi": true };
    check_failing(&client, doc! { "update": "c", "updates": [statement] }, 11000, (doc! { "c": 1 }, 12));
    let back: Vec<Value> = vec![
        doc! { "$set": { "a": { "$cond": [{ "$eq": ["$_id", 0] }, -1, { "$subtract": ["$_id", 1] }] } } }
            .into(),
    ];
    let reversed = doc! { "q": { "_id": { "$in": [10, 11] } }, "u": back, "multi": true };
    check_failing(&client, doc! { "update": "c", "updates": [reversed] }, 11000, (doc! { "a": 9 }, 1));
    run(&client, update(doc! { "_id": 11 }, doc! { "$set": { "a": 10 } }));
    run(&client, update(doc! { "_id": 10 }, doc! { "$set": { "a": 9 } }));
    // What the index does not concern is changed together, and a duplicate in the middle ends it.
    let pipeline: Vec<Value> =
        vec![doc! { "$set": { "b": 1, "a": { "$cond": [{ "$eq": ["$_id", 40] }, 500, "$a"] } } }.into()];
    let statement = doc! { "q": {}, "u": pipeline, "multi": true };
    let command = doc! { "update": "c", "updates": [statement] };
    check_failing(&client, command, 11000, (doc! { "b": 1 }, 40));
    let two = |a: i32| {
        doc! {
            "insert": "c", "documents": [{ "_id": (a + 5000), "a": a }, { "_id": (a + 5001), "a": a }]
        }
    };
    check_failing(&client, two(7000), 11000, (doc! { "a": 7000 }, 1));
}

#[test]
fn an_insert_of_many_documents_ends_at_its_time_limit() {
    let client = TestClient::of(&server());
    for ordered in [true, false] {
        let documents: Vec<Value> = (0..20_000).map(|_| doc! { "a": 1 }.into()).collect();
        let (reply, _) =
            client.run(doc! { "insert": "c", "documents": documents, "ordered": ordered, "maxTimeMS": 1 });
        assert_eq!(reply.get("code"), Some(&Value::Int32(50)), "{reply:?}");
        let inserted = count(&client, doc! {});
        assert!((1..20_000).contains(&inserted), "{inserted} documents were inserted");
        assert_eq!(inserted % 512, 0, "what was inserted before stays, in whole units");
    }
    assert_valid(&client);
}

#[test]
fn what_was_done_before_an_end_is_counted() {
    let client = TestClient::of(&server());
    let counted = || {
        let counters = &client.server.counters;
        let figures =
            [&counters.documents_inserted, &counters.documents_updated, &counters.documents_deleted];
        figures.map(|figure| figure.get() as i32)
    };
    // As long as it takes to do something, and not much longer.
    let end = |command: Document, done: &dyn Fn() -> i32| {
        let limits = (0..).map(|power| 1 << power);
        let ended = limits.map(|limit: i32| {
            let mut command = command.clone();
            command.push("maxTimeMS", limit);
            client.run(command);
            done()
        });
        ended.into_iter().find(|done| *done > 0).expect("the limit grows")
    };
    let documents: Vec<Value> = (0..20_000).map(|id| doc! { "_id": id }.into()).collect();
    let insert = doc! { "insert": "c", "documents": documents, "ordered": false };
    let inserted = end(insert.clone(), &|| count(&client, doc! {}));
    assert_eq!(counted(), [inserted, 0, 0]);

    run(&client, insert);
    let all = count(&client, doc! {});
    let statements = |of: &dyn Fn(i32) -> Document| (0..all).map(|id| of(id).into()).collect::<Vec<Value>>();
    let updates = statements(&|id| doc! { "q": { "_id": id }, "u": { "$set": { "a": 1 } } });
    let updated = end(doc! { "update": "c", "updates": updates }, &|| count(&client, doc! { "a": 1 }));
    assert_eq!(counted(), [all, updated, 0]);

    let deletes = statements(&|id| doc! { "q": { "_id": id }, "limit": 1 });
    let deleted = end(doc! { "delete": "c", "deletes": deletes }, &|| all - count(&client, doc! {}));
    assert_eq!(counted(), [all, updated, deleted]);

    // Of a statement that fails in the midst, what it did counts as well.
    let failing = doc! { "$set": { "b": { "$divide": [1, { "$subtract": ["$_id", (all - 10)] }] } } };
    let reply = run(&client, doc! { "update": "c", "updates": [{ "q": {}, "u": [failing], "multi": true }] });
    assert!(reply.get("writeErrors").is_some(), "{reply:?}");
    let changed = count(&client, doc! { "b": { "$exists": true } });
    assert_eq!(counted(), [all, updated + changed, deleted]);
}

#[test]
fn capped_collections_lose_their_oldest_by_single_documents() {
    let client = TestClient::of(&server());
    run(&client, doc! { "create": "c", "capped": true, "size": 4096, "max": 50 });
    let documents: Vec<Value> = (0..80).map(|id| doc! { "_id": id }.into()).collect();
    run(&client, doc! { "insert": "c", "documents": documents });
    let reply = run(&client, update(doc! {}, doc! { "$set": { "pad": ("x".repeat(100)) } }));
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)));
    let left = count(&client, doc! {});
    assert!((20..50).contains(&left), "{left} documents are left");
    assert_valid(&client);
}

#[test]
fn capped_collections_change_in_few_units() {
    let client = TestClient::of(&server());
    run(&client, doc! { "create": "c", "capped": true, "size": 1_000_000, "max": MANY });
    let commits = || client.server.node.store.statistics().commit.commits;
    let before = commits();
    let documents =
        |ids: std::ops::Range<i32>| ids.map(|id| doc! { "_id": id, "a": id }.into()).collect::<Vec<Value>>();
    run(&client, doc! { "insert": "c", "documents": documents(0..2 * MANY) });
    let reply = run(&client, update(doc! {}, doc! { "$inc": { "a": 1 } }));
    assert_eq!(reply.get("nModified"), Some(&MANY.into()), "{reply:?}");
    assert_eq!(count(&client, doc! { "_id": { "$gte": MANY } }), MANY, "the newest are left");
    assert!(commits() - before <= 200, "{} commits for {} changes", commits() - before, 3 * MANY);
    // The head goes for the first of these, and with it a key that a later one has.
    let mut reused = documents(2 * MANY..2 * MANY + 20);
    reused.push(doc! { "_id": MANY }.into());
    let reply = run(&client, doc! { "insert": "c", "documents": reused });
    assert_eq!(reply.get("n"), Some(&21.into()), "{reply:?}");
    // One that is there stops an ordered insert behind those in front of it.
    let mut repeated = documents(3 * MANY..3 * MANY + 5);
    repeated.insert(3, doc! { "_id": MANY }.into());
    check_failing(
        &client,
        doc! { "insert": "c", "documents": repeated },
        11000,
        (doc! { "_id": { "$gte": (3 * MANY) } }, 3),
    );
    let before = commits();
    assert_eq!(
        run(&client, delete(doc! { "_id": { "$lt": (2 * MANY) } })).get("n"),
        Some(&(MANY - 23).into())
    );
    assert!(commits() - before <= 150, "{} commits for the deletes", commits() - before);
    assert_valid(&client);
}

#[test]
fn a_document_is_changed_by_one_of_those_who_want_it() {
    for _ in 0..3 {
        let client = filled();
        run(&client, update(doc! {}, doc! { "$set": { "state": 0 } }));
        let claimed = |server: &Arc<crate::server::ServiceContext>| {
            let client = TestClient::of(server);
            let claim = update(doc! { "state": 0 }, doc! { "$set": { "state": 1 }, "$inc": { "claims": 1 } });
            let Some(Value::Int32(many)) = run(&client, claim).get("nModified").cloned() else {
                panic!("an update tells how many it changed")
            };
            let mut single = 0;
            let claim = || {
                doc! {
                    "findAndModify": "c", "query": { "state": 1 }, "update": { "$inc": { "state": 1 } }
                }
            };
            while run(&client, claim()).get("value") != Some(&Value::Null) {
                single += 1;
            }
            (many, single)
        };
        let (mut many, mut single) = (0, 0);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| claimed(&client.server))).collect();
            for thread in threads {
                let of_thread = thread.join().expect("it claims");
                (many, single) = (many + of_thread.0, single + of_thread.1);
            }
        });
        assert_eq!((many, single), (MANY, MANY), "each document is claimed once by each kind of statement");
        assert_eq!(count(&client, doc! { "claims": 1, "state": 2 }), MANY);
    }
}

#[test]
fn no_change_is_lost_between_statements_of_many_and_of_one() {
    const ROUNDS: i32 = 20;
    let client = filled();
    index(&client, doc! { "sum": 1 }, false);
    let server = &client.server;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let client = TestClient::of(&Arc::clone(server));
                for round in 0..ROUNDS {
                    let increase = doc! { "$inc": { "sum": 1 } };
                    match thread {
                        0 | 1 => drop(run(&client, update(doc! { "_id": { "$lt": 300 } }, increase))),
                        2 => drop(run(&client, update(doc! { "_id": { "$gte": 100 } }, increase))),
                        _ => {
                            for id in 100..150 {
                                let one = doc! { "q": { "_id": id }, "u": (increase.clone()) };
                                run(&client, doc! { "update": "c", "updates": [one] });
                            }
                            run(&client, delete(doc! { "_id": (599 - round) }));
                        }
                    }
                }
            });
        }
    });
    assert_eq!(count(&client, doc! { "_id": { "$lt": 100 }, "sum": (2 * ROUNDS) }), 100);
    assert_eq!(count(&client, doc! { "_id": { "$gte": 100, "$lt": 150 }, "sum": (4 * ROUNDS) }), 50);
    assert_eq!(count(&client, doc! { "_id": { "$gte": 150, "$lt": 300 }, "sum": (3 * ROUNDS) }), 150);
    assert_eq!(count(&client, doc! { "_id": { "$gte": 300 }, "sum": ROUNDS }), 300 - ROUNDS);
    assert_eq!(count(&client, doc! {}), MANY - ROUNDS);
    assert_valid(&client);
}
