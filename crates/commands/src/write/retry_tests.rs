//! A write with a transaction number is done once, however often it is sent and to whichever primary.

use crate::sessions::SessionOwner;
use crate::testing::{TestClient, TestMember};
use catalog::Decision;
use document::{Document, Value, doc};
use pollster::block_on;
use replication::oplog::OplogEntry;
use replication::retryable::{Executed, RetryObserver, WriterRole, lsid};

const SESSION: u8 = 7;

/// A write of the session with this number.
fn numbered(mut command: Document, txn_number: i64) -> Document {
    command.push("lsid", doc! { "id": (Value::binary(4, vec![SESSION; 16])) });
    command.push("txnNumber", txn_number);
    command
}

#[track_caller]
fn run(client: &TestClient, command: Document) -> Document {
    let (reply, _) = client.run(command);
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
    reply
}

fn found(client: &TestClient, name: &str) -> Vec<Value> {
    let reply = run(client, doc! { "find": name, "sort": { "_id": 1 } });
    let cursor = reply.get("cursor").and_then(Value::as_document).expect("a cursor");
    cursor.get("firstBatch").and_then(Value::as_array).expect("a batch").to_vec()
}

/// Everything that a member keeps of documents and sessions.
fn all(member: &TestMember) -> Vec<Vec<Value>> {
    let client = TestClient::of(&member.server);
    let of_config = |name: &str| {
        let (reply, _) = client.run(doc! { "find": name, "sort": { "_id": 1 }, "$db": "config" });
        let cursor = reply.get("cursor").and_then(Value::as_document).expect("a cursor");
        cursor.get("firstBatch").and_then(Value::as_array).expect("a batch").to_vec()
    };
    let count = |name: &str| run(&client, doc! { "count": name, "$db": "config" });
    let rows = of_config("transactions");
    assert_eq!(count("transactions").get("n"), Some(&Value::Int32(rows.len() as i32)), "rows are counted");
    let report = run(&client, doc! { "validate": "transactions", "$db": "config" });
    assert_eq!(report.get("valid"), Some(&Value::Boolean(true)), "{report:?}");
    vec![found(&client, "c"), rows, of_config("image_collection")]
}

/// Runs `before`, then the command, then the command again: here, and on a member that has applied the log.
/// The reply is the same but for these fields that tell of the repetition, and nothing changes.
#[track_caller]
fn check(before: &[Document], command: Document, told: Document) {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    for command in before {
        run(&client, command.clone());
    }
    let command = numbered(command, 3);
    let mut expect = run(&client, command.clone());
    expect.remove("ok");
    expect.extend(told);
    expect.push("ok", 1.0);
    let (data, log) = (all(&member), member.log());
    assert_eq!(run(&client, command.clone()), expect, "here");
    assert_eq!((all(&member), member.log().len()), (data.clone(), log.len()), "nothing was done here");

    let next = TestMember::new();
    next.apply(&log);
    assert_eq!(all(&next), data, "applied");
    let client = TestClient::of(&next.server);
    assert_eq!(run(&client, command), expect, "after a failover");
    assert_eq!((all(&next), next.log().len()), (data.clone(), 0), "nothing was done there");
    for from in 0..log.len() {
        next.apply(&log[from..]);
        assert_eq!(all(&next), data, "applied again from entry {from} on");
    }
}

fn documents(ids: &[i32]) -> Vec<Value> {
    ids.iter().map(|id| doc! { "_id": (*id), "a": 1 }.into()).collect()
}

fn filled() -> [Document; 1] {
    [doc! { "insert": "c", "documents": (documents(&[1, 2, 3])) }]
}

fn update(updates: Vec<Document>) -> Document {
    let updates: Vec<Value> = updates.into_iter().map(Value::from).collect();
    doc! { "update": "c", "updates": updates, "ordered": false }
}

fn increment(filter: Document, upsert: bool) -> Document {
    doc! { "q": filter, "u": { "$inc": { "a": 1 } }, "upsert": upsert }
}

fn ids(ids: &[i32]) -> Document {
    doc! { "retriedStmtIds": (ids.iter().copied().map(Value::Int32).collect::<Vec<_>>()) }
}

#[test]
fn inserts() {
    let insert = |ids: &[i32]| doc! { "insert": "c", "documents": (documents(ids)), "ordered": false };
    check(&[], insert(&[1]), ids(&[0]));
    let all: Vec<i32> = (0..1200).collect();
    check(&[], insert(&all), ids(&all));
    let mut given = insert(&[1, 2]);
    given.push("stmtIds", vec![Value::Int32(8), Value::Int32(4)]);
    check(&[], given, ids(&[8, 4]));
}

#[test]
fn updates() {
    check(&filled(), update(vec![increment(doc! { "_id": 1 }, false)]), ids(&[0]));
    let several = (1..=3).map(|id| increment(doc! { "_id": id }, false)).collect();
    check(&filled(), update(several), ids(&[0, 1, 2]));
    let whole = doc! { "q": { "_id": 2 }, "u": { "a": 9 } };
    check(&filled(), update(vec![whole]), ids(&[0]));
}

#[test]
fn upserts() {
    check(&filled(), update(vec![increment(doc! { "x": 1 }, true)]), ids(&[0]));
    let several = (1..=20).map(|x| increment(doc! { "_id": (x % 15), "x": x }, true));
    let several: Vec<_> = several.filter(|update| update.get("q").is_some()).take(14).collect();
    check(&[], update(several), ids(&(0..14).collect::<Vec<_>>()));
}

#[test]
fn what_takes_the_key_of_a_hidden_document() {
    let at = Value::DateTime(i64::try_from(ambient::since_epoch().as_millis()).expect("a time") - 100_000);
    let indexes = document::array![
        { "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 60 },
        { "key": { "n": 1 }, "name": "n", "unique": true },
    ];
    let before = [
        doc! { "create": "c", "hideExpired": true },
        doc! { "createIndexes": "c", "indexes": indexes },
        doc! { "insert": "c", "documents": [
            { "_id": 1, "n": 1, "at": (at.clone()) }, { "_id": 2, "n": 2, "at": at }, { "_id": 3, "n": 3 },
        ] },
    ];
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "n": 2 }, { "_id": 4, "n": 4 }] };
    check(&before, insert, ids(&[0, 1]));
    let upsert = doc! { "q": { "_id": 1 }, "u": { "$set": { "n": 2 } }, "upsert": true };
    let taken = doc! { "q": { "_id": 3 }, "u": { "$set": { "n": 1 } } };
    check(&before, update(vec![upsert, taken]), ids(&[0, 1]));
}

#[test]
fn removals() {
    let delete = doc! { "delete": "c", "deletes": [{ "q": { "a": 1 }, "limit": 1 }] };
    check(&filled(), delete, ids(&[0]));
}

#[test]
fn answers_with_documents() {
    let told = || doc! { "retriedStmtId": 0 };
    let change = |more: Document| {
        let mut command = doc! { "findAndModify": "c", "query": { "_id": 2 } };
        command.extend(more);
        command
    };
    check(&filled(), change(doc! { "update": { "$inc": { "a": 1 } } }), told());
    check(&filled(), change(doc! { "update": { "$inc": { "a": 1 } }, "new": true }), told());
    check(
        &filled(),
        change(doc! { "update": { "$inc": { "a": 1 } }, "fields": { "a": 1, "_id": 0 } }),
        told(),
    );
    check(&filled(), change(doc! { "remove": true }), told());
    check(&[], change(doc! { "update": { "$inc": { "a": 1 } }, "upsert": true }), told());
    check(&[], change(doc! { "update": { "$inc": { "a": 1 } }, "upsert": true, "new": true }), told());
}

#[test]
fn in_capped_collections() {
    let capped = doc! { "create": "c", "capped": true, "size": 4096, "max": 3 };
    let full = [capped, doc! { "insert": "c", "documents": (documents(&[1, 2, 3])) }];
    check(&full, doc! { "insert": "c", "documents": (documents(&[4, 5])) }, ids(&[0, 1]));
}

#[test]
fn what_failed_is_done_and_the_rest_is_not_done_again() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    let insert = |ids: &[i32]| doc! { "insert": "c", "documents": (documents(ids)), "ordered": false };
    run(&client, insert(&[2]));
    let reply = run(&client, numbered(insert(&[1, 2, 3]), 1));
    assert_eq!(reply.get("n"), Some(&Value::Int32(2)), "{reply:?}");
    run(&client, doc! { "delete": "c", "deletes": [{ "q": { "_id": 2 }, "limit": 1 }] });
    let reply = run(&client, numbered(insert(&[1, 2, 3]), 1));
    assert!(!reply.contains("writeErrors"), "{reply:?}");
    assert_eq!(reply.get("retriedStmtIds"), Some(&Value::from(vec![Value::Int32(0), Value::Int32(2)])));
    let reply = run(&client, numbered(insert(&[1, 2, 3]), 1));
    assert_eq!(reply.get("retriedStmtIds"), ids(&[0, 1, 2]).get("retriedStmtIds"));
    let reply = run(&client, numbered(insert(&[1, 2, 4]), 2));
    let Some(Value::Array(errors)) = reply.get("writeErrors") else { panic!("{reply:?}") };
    let indexes = errors.iter().filter_map(|error| error.as_document()?.get("index"));
    assert_eq!(
        indexes.collect::<Vec<_>>(),
        [&Value::Int32(0), &Value::Int32(1)],
        "places as the client has them"
    );
    let rows = all(&member).swap_remove(1);
    assert_eq!(rows.len(), 1, "what the older write needed beside its row is gone: {rows:?}");
}

#[test]
fn a_statement_that_did_nothing_is_done_again() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    let command = numbered(update(vec![increment(doc! { "_id": 1 }, false)]), 1);
    assert_eq!(run(&client, command.clone()).get("n"), Some(&Value::Int32(0)));
    run(&client, filled()[0].clone());
    assert_eq!(run(&client, command).get("n"), Some(&Value::Int32(1)));
}

#[track_caller]
fn refused(client: &TestClient, command: Document, code: i32) {
    let (reply, _) = client.run(command);
    let error = match reply.get("writeErrors") {
        Some(Value::Array(errors)) => errors.first().and_then(Value::as_document).expect("an error"),
        _ => &reply,
    };
    assert_eq!(error.get("code"), Some(&Value::Int32(code)), "{reply:?}");
}

#[test]
fn what_cannot_be_done_once_is_refused() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    run(&client, filled()[0].clone());
    let many = doc! { "q": {}, "u": { "$inc": { "a": 1 } }, "multi": true };
    refused(&client, numbered(update(vec![many]), 1), 72);
    refused(&client, numbered(doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] }, 1), 72);
    let mut given = update(vec![increment(doc! { "_id": 1 }, false)]);
    given.push("stmtIds", vec![Value::Int32(8), Value::Int32(4)]);
    refused(&client, numbered(given, 1), 72);
    refused(&client, numbered(doc! { "find": "c" }, 1), 50_768);
    let one = || update(vec![increment(doc! { "_id": 1 }, false)]);
    run(&client, numbered(one(), 5));
    refused(&client, numbered(one(), 4), 225);
    // Numbers that left nothing behind count as well, on this member.
    run(&client, numbered(update(vec![increment(doc! { "_id": 99 }, false)]), 9));
    refused(&client, numbered(one(), 8), 225);
}

#[test]
fn retries_are_counted() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    run(&client, filled()[0].clone());
    let two = || update(vec![increment(doc! { "_id": 1 }, false), increment(doc! { "_id": 2 }, false)]);
    (0..3).for_each(|_| drop(run(&client, numbered(two(), 1))));
    let status = run(&client, doc! { "serverStatus": 1 });
    let figures = status.get("transactions").and_then(Value::as_document).expect("a section");
    let figure = |name: &str| figures.get(name).cloned();
    assert_eq!(figure("retriedCommandsCount"), Some(Value::Int64(2)));
    assert_eq!(figure("retriedStatementsCount"), Some(Value::Int64(4)));
    assert_eq!(figure("transactionsCollectionWriteCount"), Some(Value::Int64(2)));
}

#[test]
fn what_is_kept_of_sessions_is_the_servers() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    run(&client, numbered(doc! { "insert": "c", "documents": (documents(&[1])) }, 1));
    let refused = |mut command: Document| {
        if !command.contains("$db") {
            command.push("$db", "config");
        }
        refused(&client, command, 20);
    };
    for name in ["transactions", "image_collection"] {
        refused(doc! { "insert": name, "documents": (documents(&[1])) });
        refused(doc! { "delete": name, "deletes": [{ "q": {}, "limit": 0 }] });
        refused(doc! { "createIndexes": name, "indexes": [{ "key": { "a": 1 }, "name": "a" }] });
        refused(doc! { "collMod": name, "validator": { "a": 1 } });
        refused(doc! { "drop": name });
        let from = format!("config.{name}");
        refused(doc! { "renameCollection": (from.as_str()), "to": "config.other", "$db": "admin" });
        refused(doc! { "renameCollection": "test.c", "to": from, "dropTarget": true, "$db": "admin" });
    }
    refused(doc! { "dropDatabase": 1 });
}

#[test]
fn a_write_that_is_refused_is_not_taken_for_done() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    run(&client, filled()[0].clone());
    let command = numbered(update(vec![increment(doc! { "_id": 1 }, false)]), 1);
    member.steps(false);
    let (reply, _) = client.run(command.clone());
    assert_eq!(reply.get("code"), Some(&Value::Int32(10_107)), "{reply:?}");
    assert_eq!(reply.get("errorLabels"), Some(&Value::from(vec![Value::from("RetryableWriteError")])));
    member.steps(true);
    let reply = run(&client, command);
    assert!(!reply.contains("retriedStmtIds"), "{reply:?}");
    assert_eq!(reply.get("nModified"), Some(&Value::Int32(1)));
}

/// A member with documents and the collections of its sessions, and a client of it.
fn keeping_sessions() -> (TestMember, TestClient) {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    run(&client, filled()[0].clone());
    let table = member.server.node.retry_table.as_ref().expect("a member's");
    let receipts = catalog::Receipts::default();
    block_on(table.create(&member.server.node.writing(&receipts))).expect("nothing is in its way");
    (member, client)
}

#[test]
fn what_was_refused_is_not_confirmed_by_what_follows() {
    let (member, _) = keeping_sessions();
    let table = member.server.node.retry_table.as_ref().expect("a member's");
    let receipts = catalog::Receipts::default();
    let writing = member.server.node.writing(&receipts);
    let check_out = || block_on(table.check_out((lsid([SESSION; 16], SessionOwner::NOBODY.0), 1), &writing));
    let write = check_out().expect("it is free").expect("there are rows");
    let collection = member.server.node.catalog.collection("test", "c").expect("the collection");
    let change = |id: i32, role: Option<i32>| {
        let observer = RetryObserver::of_update(&write, role.unwrap_or(0), None, WriterRole::Primary);
        let observed = catalog::OperationContext { observer: Some(&observer), ..writing };
        let to = doc! { "_id": id, "a": 5 }.to_buf();
        let decide = |_: Option<document::RawDocument<'_>>| {
            Ok::<_, catalog::WriteError>(if role.is_some() { Decision::Update(to) } else { Decision::Remove })
        };
        block_on(collection.update(&observed, &catalog::Collection::document_key_of_id(id.into()), decide))
    };
    member.steps(false);
    assert!(change(1, Some(0)).is_err());
    member.steps(true);
    assert!(change(2, None).is_ok(), "a change that is no statement");
    let executed =
        |statement| write.executed(statement, writing.view, storage::ReadTier::Any).expect("a look-up");
    assert_eq!(executed(0), None);
    assert!(change(3, Some(1)).is_ok());
    assert_eq!((executed(0), executed(1)), (None, Some(Executed { upserted: None })));
}

#[test]
fn a_wait_for_a_session_in_use_is_ended() {
    let (member, client) = keeping_sessions();
    let table = member.server.node.retry_table.as_ref().expect("a member's");
    let receipts = catalog::Receipts::default();
    let writing = member.server.node.writing(&receipts);
    let used = block_on(table.check_out((lsid([SESSION; 16], SessionOwner::NOBODY.0), 1), &writing))
        .expect("it is free");
    let again = |limit: i32| {
        let mut command = numbered(update(vec![increment(doc! { "_id": 1 }, false)]), 1);
        if limit > 0 {
            command.push("maxTimeMS", limit);
        }
        client.run(command).0.get("code").cloned()
    };
    assert_eq!(again(30), Some(Value::Int32(50)), "its time is over");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| again(0));
        while !waiting.is_finished() {
            client.client.interrupt.kill(11_601);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(waiting.join().expect("an answer"), Some(Value::Int32(11_601)));
    });
    drop(used);
    assert_eq!(again(0), None);
}

#[test]
fn an_entry_waits_for_the_command_that_has_the_session() {
    let (primary, other) = (TestMember::new(), TestMember::new());
    let client = TestClient::of(&primary.server);
    run(&client, filled()[0].clone());
    run(&client, numbered(update(vec![increment(doc! { "_id": 1 }, false)]), 1));
    other.apply(&primary.log());
    let known = primary.log().len();
    run(&client, numbered(update(vec![increment(doc! { "_id": 1 }, false)]), 2));
    let table = other.server.node.retry_table.as_ref().expect("a member's");
    let receipts = catalog::Receipts::default();
    let writing = other.server.node.writing(&receipts);
    let write = block_on(table.check_out((lsid([SESSION; 16], SessionOwner::NOBODY.0), 2), &writing))
        .expect("it is free");
    std::thread::scope(|scope| {
        let log = primary.log();
        let applying = scope.spawn({
            let other = &other;
            move || other.apply(&log[known..])
        });
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!applying.is_finished(), "the command may be doing the same");
        drop(write);
        applying.join().expect("applied");
    });
    assert_eq!(all(&other), all(&primary));
}

#[test]
fn entries_tell_of_the_statement() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    run(&client, filled()[0].clone());
    let two = vec![increment(doc! { "_id": 1 }, false), increment(doc! { "_id": 7 }, true)];
    run(&client, numbered(update(two), 6));
    let log = member.log();
    let origins = log.iter().filter_map(|entry| OplogEntry::decode(entry).expect("an entry of ours").origin);
    let origins: Vec<_> =
        origins.map(|origin| (origin.txn_number, origin.is_first, origin.statements)).collect();
    let statement = |id, upserts| vec![Some(replication::oplog::Statement { id, upserts, image: None })];
    assert_eq!(origins, [(6, true, statement(0, false)), (6, false, statement(1, true))]);
}

#[test]
fn a_retry_waits_for_the_first_attempt() {
    let member = TestMember::new();
    run(&TestClient::of(&member.server), filled()[0].clone());
    for number in 0..20 {
        let command = numbered(update(vec![increment(doc! { "_id": 1 }, false)]), number);
        let replies = std::thread::scope(|scope| {
            let attempt = || run(&TestClient::of(&member.server), command.clone());
            let attempts: Vec<_> = (0..4).map(|_| scope.spawn(attempt)).collect();
            attempts.into_iter().map(|attempt| attempt.join().expect("an answer")).collect::<Vec<_>>()
        });
        let repeated = replies.iter().filter(|reply| reply.contains("retriedStmtIds")).count();
        assert_eq!(repeated, 3, "{replies:?}");
    }
    let documents = found(&TestClient::of(&member.server), "c");
    assert_eq!(documents[0].as_document().and_then(|document| document.get("a")), Some(&Value::Int32(21)));
}

#[test]
fn sessions_are_forgotten_for_all_members() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    let table = member.server.node.retry_table.as_ref().expect("a member's");
    let expire = |before: i64| {
        let receipts = catalog::Receipts::default();
        block_on(table.expire(before, &member.server.node.writing(&receipts))).expect("nothing is in its way")
    };
    assert_eq!(expire(i64::MAX), 0, "before there are any");
    let upserts = (0..5).map(|x| increment(doc! { "x": x }, true)).collect();
    run(&client, numbered(update(upserts), 1));
    let change = doc! { "findAndModify": "c", "query": { "x": 1 }, "update": { "$inc": { "a": 1 } } };
    let mut other = numbered(change, 1);
    other.insert("lsid", doc! { "id": (Value::binary(4, vec![9; 16])) });
    run(&client, other);
    assert_eq!(all(&member)[1].len(), 2 + 4, "two rows, and what one has no room for");
    assert_eq!(expire(0), 0, "they are younger");
    let old = member.server.now_ms() + 1;
    assert_eq!(expire(old), 2);
    assert_eq!(all(&member)[1..], [vec![], vec![]]);
    let next = TestMember::new();
    next.apply(&member.log());
    assert_eq!(all(&next), all(&member));
}
