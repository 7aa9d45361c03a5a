//! When writes are acknowledged: one wait for all that a command has written, and for what others have when
//! it answers of that.

use crate::testing::{Forgetting, TestClient, forgetful_store, server_on};
use document::{Document, Value, doc};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use storage::{Keyspace, WriteUnit};

/// A client of a server whose journal is synced half a second after a write when nobody asks for it.
fn client() -> (TestClient, Arc<Forgetting>) {
    let (store, engine) = forgetful_store();
    store.set_journal_interval(Duration::from_millis(500));
    (TestClient::of(&server_on(store)), engine)
}

fn run(client: &TestClient, command: Document) -> Document {
    let (reply, _) = client.run(command);
    assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
    reply
}

fn documents(count: i32) -> Vec<Value> {
    (0..count).map(|id| doc! { "_id": id, "a": 1 }.into()).collect()
}

fn update(filter: Document, update: Document, multi: bool) -> Document {
    doc! { "update": "c", "updates": [{ "q": filter, "u": update, "multi": multi }] }
}

/// Runs a command after others whose writes are not synced yet; it is answered when all of that is, after one
/// sync.
#[track_caller]
fn check(before: &[Document], mut command: Document) {
    let (client, engine) = client();
    for command in before {
        run(&client, command.clone());
    }
    let syncs = engine.syncs();
    let shown = format!("{command:?}");
    command.push("writeConcern", doc! { "w": 1, "j": true });
    client.run(command);
    let store = &client.server.node.store;
    let (synced, applied) = (store.synced_sequence(), store.sequence());
    assert!(synced >= applied, "{shown} was answered with {synced} of {applied} synced");
    // One more may be the journal thread's.
    let syncs = engine.syncs() - syncs;
    assert!((1..=2).contains(&syncs), "{shown} took {syncs} syncs");
}

#[test]
fn a_command_of_many_writes_waits_for_one_sync() {
    let filled = [doc! { "insert": "c", "documents": (documents(600)) }];
    let all = doc! {};
    check(&[], doc! { "insert": "c", "documents": (documents(600)) });
    check(&filled, update(all.clone(), doc! { "$inc": { "a": 1 } }, true));
    check(&filled, doc! { "delete": "c", "deletes": [{ "q": (all.clone()), "limit": 0 }] });
    let one = |id: i32| -> Value { doc! { "q": { "_id": id }, "u": { "$inc": { "a": 1 } } }.into() };
    check(&filled, doc! { "update": "c", "updates": ((0..100).map(one).collect::<Vec<_>>()) });
    check(&filled, doc! { "findAndModify": "c", "query": { "_id": 3 }, "remove": true });
    let into = |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    check(&filled, into(doc! { "$out": "other" }));
    check(&filled, into(doc! { "$merge": "other" }));
    let capped = doc! { "create": "c", "capped": true, "size": 4096, "max": 10 };
    check(&[capped], doc! { "insert": "c", "documents": (documents(100)) });
}

#[test]
fn what_was_written_before_an_error_is_waited_for() {
    let filled = [doc! { "insert": "c", "documents": (documents(10)) }];
    let mut some = documents(10);
    some.reverse();
    some.insert(0, doc! { "_id": 11 }.into());
    check(&filled, doc! { "insert": "c", "documents": some });
    let fails: Value = doc! { "q": {}, "u": { "$inc": { "_id": 1 } }, "multi": true }.into();
    let passes: Value = doc! { "q": {}, "u": { "$set": { "a": 7 } }, "multi": true }.into();
    check(&filled, doc! { "update": "c", "updates": [passes, fails] });
    let divides = doc! { "$project": { "a": { "$divide": [1, { "$subtract": [5, "$_id"] }] } } };
    check(&filled, doc! { "aggregate": "c", "pipeline": [divides, { "$merge": "other" }], "cursor": {} });
}

#[test]
fn changes_of_the_catalog_are_waited_for() {
    let create = || doc! { "create": "c" };
    let indexed = [
        doc! { "insert": "c", "documents": (documents(300)) },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
    ];
    check(&[], create());
    check(&[], doc! { "create": "v", "viewOn": "c", "pipeline": [] });
    check(&indexed[..1], indexed[1].clone());
    check(&indexed, doc! { "dropIndexes": "c", "index": "a" });
    check(&indexed, doc! { "collMod": "c", "index": { "name": "a", "hidden": true } });
    check(&indexed, doc! { "drop": "c" });
    check(&indexed, doc! { "dropDatabase": 1 });
    let rename = doc! { "renameCollection": "test.c", "to": "test.d", "$db": "admin" };
    check(&indexed, rename);
}

#[test]
fn an_answer_that_rests_on_what_is_not_synced_waits_for_it() {
    let filled = [doc! { "insert": "c", "documents": (documents(3)) }];
    let here = doc! { "_id": 1 };
    check(&filled, update(here.clone(), doc! { "$set": { "a": 1 } }, false));
    check(&filled, update(doc! { "a": 1 }, doc! { "$set": { "a": 1 } }, true));
    check(&filled, doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    check(&filled, doc! { "findAndModify": "c", "query": (here.clone()), "update": { "$set": { "a": 1 } } });
    check(&filled, doc! { "createIndexes": "c", "indexes": [{ "key": { "_id": 1 }, "name": "_id_" }] });
    let [filled] = filled;
    let gone = [filled, doc! { "delete": "c", "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] }];
    check(&gone, update(here.clone(), doc! { "$set": { "a": 2 } }, false));
    check(&gone, update(doc! { "a": 7 }, doc! { "$set": { "a": 2 } }, true));
    check(&gone, doc! { "delete": "c", "deletes": [{ "q": (here.clone()), "limit": 1 }] });
    let dropped = [doc! { "create": "c" }, doc! { "drop": "c" }];
    check(&dropped, update(here, doc! { "$set": { "a": 2 } }, false));
    check(&dropped, doc! { "drop": "c" });
}

#[test]
fn what_cannot_be_synced_is_told_beside_the_answer() {
    let (client, engine) = client();
    run(&client, doc! { "create": "c" });
    engine.fail_syncs();
    let concern = doc! { "j": true };
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "writeConcern": concern };
    let reply = run(&client, insert);
    let Some(Value::Document(unmet)) = reply.get("writeConcernError") else { panic!("{reply:?}") };
    assert_eq!((unmet.get("code"), reply.get("n")), (Some(&Value::Int32(1)), Some(&Value::Int32(1))));
}

/// Runs an update with `j: true` while a sync is held that another client waits for, and tells of what the
/// reply says of its write concern. Once the update is written, `end` is done with its connection.
#[track_caller]
fn check_ended_wait(time_limit_ms: i32, end: impl FnOnce(&TestClient), code: i32) {
    let (client, engine) = client();
    run(&client, doc! { "insert": "c", "documents": (documents(2)) });
    let held = engine.hold_syncs();
    let journaled = |id: i32| {
        let mut command = update(doc! { "_id": id }, doc! { "$inc": { "a": 1 } }, false);
        command.push("writeConcern", doc! { "w": 1, "j": true });
        command
    };
    let other = TestClient::of(&client.server);
    std::thread::scope(|threads| {
        let syncing = engine.syncs();
        let first = threads.spawn(|| run(&other, journaled(0)));
        while engine.syncs() == syncing {
            std::thread::yield_now();
        }
        let commits = || client.server.node.store.statistics().commit.commits;
        let before = commits();
        let waits = threads.spawn(|| {
            let mut command = journaled(1);
            command.push("maxTimeMS", time_limit_ms);
            run(&client, command)
        });
        while commits() == before {
            std::thread::yield_now();
        }
        end(&client);
        let began = Instant::now();
        while !waits.is_finished() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(held);
        let reply = waits.join().expect("a reply");
        let Some(Value::Document(unmet)) = reply.get("writeConcernError") else { panic!("{reply:?}") };
        assert_eq!(unmet.get("code"), Some(&Value::Int32(code)), "{unmet:?}");
        assert_eq!(reply.get("nModified"), Some(&Value::Int32(1)), "it is written all the same");
        assert_eq!(first.join().expect("a reply").get("writeConcernError"), None);
    });
}

#[test]
fn a_time_limit_ends_the_wait_for_the_journal() {
    check_ended_wait(100, |_| {}, 50);
}

#[test]
fn a_kill_ends_the_wait_for_the_journal() {
    let kill = |client: &TestClient| client.client.interrupt.kill(11_600);
    check_ended_wait(60_000, kill, 11_600);
}

#[test]
fn an_answer_that_writes_nothing_is_not_refused_with_what_others_write() {
    let (client, engine) = client();
    run(&client, doc! { "insert": "c", "documents": (documents(1)) });
    let store = client.server.node.store.clone();
    let turn = std::thread::spawn(move || {
        storage::defer_commits();
        let mut context = Context::from_waker(Waker::noop());
        let mut unit = WriteUnit::new();
        unit.put(Keyspace::Internal, b"key", b"value");
        let mut refused = pin!(store.commit(unit));
        assert!(refused.as_mut().poll(&mut context).is_pending(), "it is written at the turn's end");
        let receipts = catalog::Receipts::default();
        receipts.observed();
        let mut journaled = pin!(receipts.journaled(&store));
        let polled = journaled.as_mut().poll(&mut context);
        engine.fail_writes(true);
        store.turn_ended();
        engine.fail_writes(false);
        pollster::block_on(refused).expect_err("the engine refuses it");
        if polled.is_pending() {
            pollster::block_on(journaled).expect("what was read is synced");
        }
        assert!(store.synced_sequence() >= store.sequence(), "it has waited");
    });
    turn.join().expect("what was read is synced");
}
