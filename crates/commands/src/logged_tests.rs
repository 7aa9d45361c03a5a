//! Whatever the commands of a member of a set write is in the log, and the log makes the same of other members.

use crate::command::COMMANDS;
use crate::testing::{Member, TestClient};
use document::{Document, Value, doc};

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
    vec![
        doc! { "create": "made", "validator": { "a": { "$gt": 0 } } },
        doc! { "create": "view", "viewOn": "c", "pipeline": [] },
        doc! { "insert": "c", "documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": 2 }, { "_id": 3, "a": 3 }] },
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
            "pipeline": [{ "$set": { "z": 1 } }, { "$merge": { "into": "merged", "whenMatched": "replace" } }],
        },
        doc! { "collMod": "c", "index": { "name": "a", "hidden": true } },
        doc! { "dropIndexes": "c", "index": "a" },
        doc! { "renameCollection": "test.out", "to": "test.merged", "dropTarget": true, "$db": "admin" },
        doc! { "drop": "made" },
        doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "other" },
        doc! { "dropDatabase": 1, "$db": "other" },
    ]
}

/// All collections with their documents and indexes.
fn shown(member: &Member) -> Vec<String> {
    let client = TestClient::of(&member.server);
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
    let member = Member::new();
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
    let other = Member::new();
    other.apply(&member.log());
    assert_eq!(shown(&other), shown(&member));
}
