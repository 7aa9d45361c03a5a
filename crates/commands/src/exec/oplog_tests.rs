//! Reading the oplog.

use crate::server::ServiceContext;
use crate::testing::{TestClient, forgetful_store, server, server_on, writing};
use catalog::Collection;
use document::{Document, DocumentBuf, Timestamp, Value, doc};
use pollster::block_on;
use std::sync::Arc;
use storage::WriteUnit;

const LAST: u64 = 1_000;

fn at(time: u32) -> Timestamp {
    Timestamp { time, increment: 1 }
}

/// An oplog of which operations up to [`LAST`] show, and a hundred more do not.
fn oplog(server: &ServiceContext) -> Arc<Collection> {
    let oplog = block_on(server.node.catalog.create_oplog(writing(server), 1 << 20)).expect("the oplog");
    let operation = |record: u64| doc! { "op": "n", "ts": (at(record as u32)), "t": 1, "n": (record as i64) };
    let documents: Vec<DocumentBuf> = (1..=LAST + 100).map(|record| operation(record).to_buf()).collect();
    let mut unit = WriteUnit::new();
    oplog.put_records(&mut unit, (1..).zip(documents.iter().map(DocumentBuf::as_raw)));
    server.node.store.commit(unit).wait().expect("a write");
    oplog.show_records_through(LAST);
    oplog
}

fn cursor_of(reply: &Document) -> &Document {
    match reply.get("cursor") {
        Some(Value::Document(cursor)) => cursor,
        _ => panic!("no cursor in {reply:?}"),
    }
}

fn numbers(reply: &Document) -> Vec<i64> {
    let cursor = cursor_of(reply);
    let Some(Value::Array(batch)) = cursor.get("firstBatch").or(cursor.get("nextBatch")) else {
        panic!("no batch in {reply:?}")
    };
    let number = |document: &Value| match document {
        Value::Document(document) => document.get("n")?.as_i64_exact(),
        _ => None,
    };
    batch.iter().filter_map(number).collect()
}

fn find(client: &TestClient, more: Document) -> Vec<i64> {
    let mut command = doc! { "find": "oplog.rs", "$db": "local", "batchSize": 2000 };
    command.extend(more);
    numbers(&client.run(command).0)
}

/// A find of operations, and how many it may look at.
#[track_caller]
fn check(filter: Document, sort: Document, expected: impl IntoIterator<Item = i64>, examined_max: u64) {
    let expected: Vec<i64> = expected.into_iter().collect();
    let (store, forgetting) = forgetful_store();
    for (per_mille, server) in [(0, server()), (300, server_on(store))] {
        oplog(&server);
        forgetting.set(per_mille);
        let before = server.counters.documents_scanned.get();
        let found =
            find(&TestClient::in_loop(&server), doc! { "filter": (filter.clone()), "sort": (sort.clone()) });
        assert_eq!(found, expected, "{filter:?}");
        let examined = server.counters.documents_scanned.get() - before;
        assert!(examined <= examined_max, "{filter:?} looks at {examined} operations");
        let count = doc! {
            "aggregate": "oplog.rs", "$db": "local", "cursor": {},
            "pipeline": [{ "$match": (filter.clone()) }, { "$count": "n" }]
        };
        let counted = numbers(&TestClient::of(&server).run(count).0);
        assert_eq!(counted.first().copied().unwrap_or(0), expected.len() as i64, "{filter:?}");
    }
}

#[test]
fn a_timestamp_is_found_without_looking_at_all_operations() {
    let natural = || doc! { "$natural": -1 };
    check(doc! {}, doc! {}, 1..=1000, 1000);
    check(doc! { "ts": { "$gte": (at(990)) } }, doc! {}, 990..=1000, 11);
    check(doc! { "ts": { "$gt": (at(990)) }, "op": "n" }, doc! {}, 991..=1000, 11);
    check(doc! { "ts": { "$gte": (at(997)) } }, natural(), [1000, 999, 998, 997], 4);
    check(doc! { "ts": (at(500)) }, doc! {}, [500], 501);
    check(doc! { "ts": { "$in": [(at(998)), (at(999))] } }, doc! {}, [998, 999], 3);
    check(doc! { "$or": [{ "ts": { "$gt": (at(998)) } }, { "n": 3 }] }, doc! {}, [3, 999, 1000], 1000);
    check(doc! { "ts": { "$gte": (at(1001)) } }, doc! {}, [], 1);
    check(doc! { "ts": { "$lt": (at(3)) } }, doc! {}, [1, 2], 1000);
}

#[test]
fn who_tails_the_oplog_sees_what_is_shown_later() {
    let server = server();
    let oplog = oplog(&server);
    let client = TestClient::of(&server);
    let tail = doc! {
        "find": "oplog.rs", "$db": "local", "tailable": true, "awaitData": true,
        "filter": { "ts": { "$gt": (at(LAST as u32)) } },
    };
    let (first, _) = client.run(tail);
    assert!(numbers(&first).is_empty());
    let id = cursor_of(&first).get("id").cloned().expect("an id");
    assert_ne!(id, Value::Int64(0), "it goes on from the last operation");
    oplog.show_records_through(LAST + 2);
    let more = doc! { "getMore": id, "$db": "local", "collection": "oplog.rs" };
    assert_eq!(numbers(&client.run(more).0), [1001, 1002]);
}

#[test]
fn clients_do_not_write_to_the_oplog() {
    let server = server();
    oplog(&server);
    let refused = |command: Document| {
        let mut command = command;
        command.push("$db", "local");
        let (reply, _) = TestClient::of(&server).run(command);
        assert_eq!(reply.get("code").and_then(Value::as_i64_exact), Some(73), "{reply:?}");
        assert_eq!(reply.get("errmsg"), Some(&Value::String("cannot write to local.oplog.rs".into())));
    };
    refused(doc! { "insert": "oplog.rs", "documents": [{ "a": 1 }] });
    refused(doc! { "update": "oplog.rs", "updates": [{ "q": {}, "u": { "$set": { "a": 1 } } }] });
    refused(doc! { "delete": "oplog.rs", "deletes": [{ "q": {}, "limit": 0 }] });
    refused(doc! { "findAndModify": "oplog.rs", "query": {}, "remove": true });
}
