//! Whatever the commands of a member of a set write is in the log, and the log makes the same of other
//! members.

use crate::command::COMMANDS;
use crate::server::ServiceContext;
use crate::testing::{TestClient, TestMember, server};
use document::{Document, DocumentBuf, Value, doc};
use std::sync::Arc;
use std::time::Duration;

/// Takes a write concern and writes nothing, or needs a set that runs: see `replica_set_tests`.
const NOT_TRIED: [&str; 15] = [
    "abortTransaction",
    "appendOplogNote",
    "commitTransaction",
    "createRole",
    "createUser",
    "dropAllRolesFromDatabase",
    "dropAllUsersFromDatabase",
    "dropRole",
    "dropUser",
    "grantRolesToUser",
    "revokeRolesFromUser",
    "setDefaultRWConcern",
    "setFeatureCompatibilityVersion",
    "updateRole",
    "updateUser",
];

/// Commands that write, in an order in which each finds what it needs.
fn writes() -> Vec<Document> {
    let update = |filter: Document, change: Document, multi: bool| {
        doc! { "update": "c", "updates": [{ "q": filter, "u": change, "multi": multi, "upsert": true }] }
    };
    let into = |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    let mut writes = vec![
        doc! { "create": "made", "validator": { "a": { "$gt": 0 } } },
        doc! { "create": "view", "viewOn": "c", "pipeline": [] },
        doc! {
            "insert": "c", "documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": 2 }, { "_id": 3, "a": 3 }]
        },
        doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] },
        update(doc! { "_id": 1 }, doc! { "$set": { "b": [1, 2] } }, false),
        update(doc! { "_id": 2 }, doc! { "whole": true }, false),
        update(doc! {}, doc! { "$inc": { "a": 10 } }, true),
        update(doc! { "_id": 9 }, doc! { "$set": { "new": 1 } }, false),
        doc! { "findAndModify": "c", "query": { "_id": 3 }, "update": { "$set": { "c": 1 } } },
        doc! { "delete": "c", "deletes": [{ "q": { "_id": 9 }, "limit": 1 }] },
        into(doc! { "$out": "out" }),
        into(doc! { "$merge": { "into": "merged" } }),
        doc! {
            "aggregate": "c", "cursor": {},
            "pipeline": [{ "$set": { "z": 1 } },
                { "$merge": { "into": "merged", "whenMatched": "replace" } }],
        },
        doc! { "collMod": "c", "index": { "name": "a", "hidden": true } },
        doc! { "collMod": "c", "hideExpired": true },
        doc! { "collMod": "c", "index": { "name": "a", "expireAfterSeconds": 1_000_000, "window": {} } },
        doc! { "setCalendar": 1, "ttl": { "days": ["mon"] }, "$db": "admin" },
        doc! { "dropIndexes": "c", "index": "a" },
        doc! { "renameCollection": "test.out", "to": "test.merged", "dropTarget": true, "$db": "admin" },
        doc! { "drop": "made" },
        doc! { "applyOps": [{ "op": "i", "ns": "test.c", "o": { "_id": 20 } }], "$db": "admin" },
        doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "other" },
        doc! { "dropDatabase": 1, "$db": "other" },
    ];
    writes.extend(writes_of_access());
    writes
}

/// As [`writes`], of users and roles.
fn writes_of_access() -> Vec<Document> {
    let privilege = || {
        let resource = doc! { "db": "test", "collection": "c" };
        Value::Array(vec![doc! { "resource": resource, "actions": ["find"] }.into()].into())
    };
    let roles = || Value::Array(vec!["read".into()].into());
    vec![
        doc! { "createRole": "r", "privileges": [], "roles": [] },
        doc! { "updateRole": "r", "roles": (roles()) },
        doc! { "grantPrivilegesToRole": "r", "privileges": (privilege()) },
        doc! { "revokePrivilegesFromRole": "r", "privileges": (privilege()) },
        doc! { "revokeRolesFromRole": "r", "roles": (roles()) },
        doc! { "grantRolesToRole": "r", "roles": (roles()) },
        doc! { "createUser": "u", "pwd": "p", "roles": ["r"], "mechanisms": ["SCRAM-SHA-256"] },
        doc! { "updateUser": "u", "customData": { "a": 1 } },
        doc! { "grantRolesToUser": "u", "roles": (roles()) },
        doc! { "revokeRolesFromUser": "u", "roles": (roles()) },
        doc! { "dropUser": "u" },
        doc! { "createUser": "v", "pwd": "p", "roles": [], "mechanisms": ["SCRAM-SHA-256"] },
        doc! { "dropAllUsersFromDatabase": 1 },
        doc! { "dropRole": "r" },
        doc! { "createRole": "s", "privileges": [], "roles": [] },
        doc! { "dropAllRolesFromDatabase": 1 },
        doc! {
            "insert": "tempusers", "documents": [{ "user": "w", "db": "test", "roles": [] }], "$db": "admin"
        },
        doc! {
            "_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers", "db": "", "$db": "admin"
        },
    ]
}

/// All collections with their documents and indexes.
fn shown(server: &Arc<ServiceContext>) -> Vec<String> {
    let client = TestClient::of(server);
    let batch = |command: Document| {
        let (reply, _) = client.run(command);
        let cursor = reply.get("cursor").and_then(Value::as_document).unwrap_or_else(|| panic!("{reply:?}"));
        cursor.get("firstBatch").and_then(Value::as_array).expect("a batch").to_vec()
    };
    let mut lines = Vec::new();
    for collection in batch(doc! { "listCollections": 1 }) {
        let described = collection.as_document().expect("a document");
        let name = described.get("name").and_then(Value::as_str).expect("a name");
        lines.push(format!("{described:?}"));
        lines.extend(
            batch(doc! { "find": name, "sort": { "_id": 1 } }).iter().map(|found| format!("{found:?}")),
        );
        if described.get("type") == Some(&Value::from("collection")) {
            lines.extend(batch(doc! { "listIndexes": name }).iter().map(|index| format!("{index:?}")));
        }
    }
    lines
}

#[test]
fn every_command_that_writes_is_logged() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    let mut tried = Vec::new();
    for command in writes() {
        let name = command.iter().next().expect("a name").0.to_owned();
        let (logged, commits) = (member.log().len(), member.server.node.store.sequence());
        let (reply, _) = client.run(command.clone());
        assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{command:?}: {reply:?}");
        assert!(!reply.contains("writeErrors"), "{command:?}: {reply:?}");
        assert!(member.server.node.store.sequence() > commits, "{command:?} writes");
        assert!(member.log().len() > logged, "{command:?} is logged");
        tried.push(name);
    }
    for command in COMMANDS.iter().filter(|command| command.takes_write_concern) {
        let is_known = tried.iter().any(|name| name == command.name) || NOT_TRIED.contains(&command.name);
        assert!(is_known, "does {} write? try it above", command.name);
    }
    let other = TestMember::new();
    other.apply(&member.log());
    assert_eq!(shown(&other.server), shown(&member.server));
}

/// What is shown is the same but for this.
fn without_uuids(shown: Vec<String>) -> Vec<String> {
    let without = |line: String| match line.split_once("\"uuid\"") {
        Some((before, _)) => before.to_owned(),
        None => line,
    };
    shown.into_iter().map(without).collect()
}

#[test]
fn a_log_is_replayed_by_apply_ops_on_another_server() {
    let member = TestMember::new();
    let client = TestClient::of(&member.server);
    for command in writes() {
        client.run(command);
    }
    let other = server();
    let restoring = TestClient::of(&other);
    for entry in member.log() {
        let mut entry = DocumentBuf::trusted(entry).as_raw().to_document();
        // As a tool that restores under other UUIDs.
        entry.remove("ui");
        let (reply, _) = restoring.run(doc! { "applyOps": [(entry.clone())], "$db": "admin" });
        assert_eq!(reply.get("results"), Some(&vec![Value::from(true)].into()), "{entry:?}: {reply:?}");
    }
    let lines = without_uuids(shown(&other));
    assert!(lines.len() > 10, "{lines:?}");
    assert_eq!(lines, without_uuids(shown(&member.server)));
}

#[test]
fn apply_ops_keeps_the_rules_of_indexes_and_tells_how_far_it_came() {
    let server = server();
    let client = TestClient::of(&server);
    let apply = |operations: &[Document], upserts: bool| {
        let operations: Vec<Value> = operations.iter().cloned().map(Value::from).collect();
        client.run(doc! { "applyOps": operations, "alwaysUpsert": upserts, "$db": "admin" }).0
    };
    let insert = |id: i32| doc! { "op": "i", "ns": "test.c", "o": { "_id": id, "u": (id % 2) } };
    let fails = |reply: &Document, code: i32| assert_eq!(reply.get("code"), Some(&code.into()), "{reply:?}");
    fails(&apply(&[insert(1)], true), 26);
    let index = doc! { "key": { "u": 1 }, "name": "u", "unique": true };
    client.run(doc! { "createIndexes": "c", "indexes": [index] });
    let reply = apply(&[insert(1), insert(2), insert(3), insert(4)], true);
    fails(&reply, 11_000);
    let results = [true, true, false].map(Value::from).to_vec();
    assert_eq!((reply.get("applied"), reply.get("results")), (Some(&3.into()), Some(&results.into())));
    // A document that is there already is replaced, one that is gone comes again.
    let delta = |id: i32| {
        let change = doc! { "$v": 2, "diff": { "u": { "w": id } } };
        doc! { "op": "u", "ns": "test.c", "o": change, "o2": { "_id": id } }
    };
    fails(&apply(&[delta(7)], false), 218);
    let gone = doc! { "op": "d", "ns": "test.c", "o": { "_id": 99 } };
    let whole = doc! { "op": "u", "ns": "test.c", "o": { "_id": 8, "u": 8 }, "o2": { "_id": 8 } };
    let nothing = doc! { "op": "n", "ns": "", "o": { "msg": "x" } };
    assert!(!apply(&[insert(1), whole, gone, nothing], true).contains("code"));
    let unknown =
        doc! { "op": "u", "ns": "test.c", "o": { "$v": 1, "$set": { "a": 1 } }, "o2": { "_id": 1 } };
    fails(&apply(&[unknown], true), 9);
    fails(&apply(&[doc! { "op": "x", "ns": "test.c", "o": {} }], true), 2);
    let (found, _) = client.run(doc! { "find": "c", "projection": { "u": 1 }, "sort": { "_id": 1 } });
    let found = found.get("cursor").and_then(Value::as_document).and_then(|cursor| cursor.get("firstBatch"));
    let expected = [(1, 1), (2, 0), (8, 8)].map(|(id, u)| Value::from(doc! { "_id": id, "u": u }));
    assert_eq!(found, Some(&expected.to_vec().into()));
}

#[test]
fn documents_that_are_merged_wait_for_the_others_together() {
    let member = TestMember::far_from_others(Duration::from_millis(2));
    let client = TestClient::of(&member.server);
    let run = |command: Document| {
        let (reply, _) = client.run(command);
        assert_eq!(reply.get("ok"), Some(&Value::Double(1.0)), "{reply:?}");
    };
    let documents: Vec<Value> = (0..600).map(|number| Value::from(doc! { "_id": number })).collect();
    run(doc! { "insert": "c", "documents": documents });
    for inserts in [true, false] {
        let before = member.server.node.store.statistics().commit.groups;
        let add = doc! { "$set": { "seen": inserts } };
        run(doc! { "aggregate": "c", "pipeline": [add, { "$merge": { "into": "merged" } }], "cursor": {} });
        let groups = member.server.node.store.statistics().commit.groups - before;
        assert!(groups <= 60, "600 documents were merged in {groups} groups, inserted: {inserts}");
    }
}
