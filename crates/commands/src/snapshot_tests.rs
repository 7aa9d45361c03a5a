//! Read concern `snapshot`: what members show of the past.

use crate::replica_set_tests::{Member, inner, one, operation_time, preferred, three, wait_until, with};
use document::{Document, Timestamp, Value, doc};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

fn at(command: Document, time: Timestamp) -> Document {
    let concern = doc! { "readConcern": { "level": "snapshot", "atClusterTime": time } };
    with(preferred(command), with(concern, doc! { "maxTimeMS": 30_000 }))
}

fn snapshot(command: Document) -> Document {
    with(preferred(command), doc! { "readConcern": { "level": "snapshot" } })
}

fn batch(reply: &Document, name: &str) -> Vec<Document> {
    let Some(Value::Array(batch)) = inner(reply, "cursor").get(name) else { panic!("{reply:?}") };
    batch.iter().map(|one| one.as_document().expect("a document").clone()).collect()
}

fn time_of(reply: &Document) -> Timestamp {
    match inner(reply, "cursor").get("atClusterTime") {
        Some(Value::Timestamp(time)) => *time,
        other => panic!("atClusterTime is {other:?} in {reply:?}"),
    }
}

/// `n` by `_id`, as one way of reading shows it.
type Shown = BTreeMap<i64, i64>;

fn shown(documents: &[Document]) -> Shown {
    let number = |document: &Document, name: &str| {
        document.get(name).and_then(Value::as_f64).expect("a number") as i64
    };
    documents.iter().map(|document| (number(document, "_id"), number(document, "n"))).collect()
}

/// Reads all of the collection at a time, in four ways that must agree.
fn read(member: &Member, time: Timestamp) -> Shown {
    let by_documents = member.ok(at(doc! { "find": "c", "batchSize": 1_000 }, time));
    let all = shown(&batch(&by_documents, "firstBatch"));
    assert_eq!(time_of(&by_documents), time);
    let all_by_index =
        doc! { "find": "c", "filter": { "n": { "$gte": 0 } }, "hint": { "n": 1 }, "batchSize": 1_000 };
    let by_index = member.ok(at(all_by_index, time));
    assert_eq!(shown(&batch(&by_index, "firstBatch")), all, "by an index at {time:?}");
    let pipeline =
        doc! { "aggregate": "c", "pipeline": [{ "$sort": { "_id": -1 } }], "cursor": { "batchSize": 1_000 } };
    assert_eq!(shown(&batch(&member.ok(at(pipeline, time)), "firstBatch")), all);
    let one = all.first_key_value().map_or(-1, |(id, _)| *id);
    let by_id = member.ok(at(doc! { "find": "c", "filter": { "_id": one } }, time));
    assert_eq!(shown(&batch(&by_id, "firstBatch")).get(&one), all.get(&one), "by _id");
    let values = member.ok(at(doc! { "distinct": "c", "key": "_id" }, time));
    let Some(Value::Array(values)) = values.get("values") else { panic!("{values:?}") };
    assert_eq!(values.len(), all.len());
    all
}

/// Changes the collection at random, and what it is to be.
fn change(member: &Member, random: &mut Rng, expect: &mut Shown) -> Timestamp {
    let (id, n) = (random.i64(0..12), random.i64(0..5));
    let reply = match random.u8(..6) {
        0 | 1 => {
            expect.insert(id, n);
            let update = doc! { "q": { "_id": id }, "u": { "$set": { "n": n } }, "upsert": true };
            member.ok(doc! { "update": "c", "updates": [update] })
        }
        2 => {
            expect.insert(id, n);
            let update = doc! { "q": { "_id": id }, "u": { "_id": id, "n": n, "text": "x" }, "upsert": true };
            member.ok(doc! { "update": "c", "updates": [update] })
        }
        3 => {
            expect.remove(&id);
            member.ok(doc! { "delete": "c", "deletes": [{ "q": { "_id": id }, "limit": 1 }] })
        }
        4 => {
            expect.values_mut().filter(|known| **known == n).for_each(|known| *known += 1);
            let update = doc! { "q": { "n": n }, "u": { "$inc": { "n": 1 } }, "multi": true };
            member.ok(doc! { "update": "c", "updates": [update] })
        }
        _ => {
            expect.retain(|_, known| *known != n);
            member.ok(doc! { "delete": "c", "deletes": [{ "q": { "n": n }, "limit": 0 }] })
        }
    };
    operation_time(&reply)
}

#[test]
fn every_member_shows_each_time_exactly() {
    let (_wires, members) = three();
    let (mut random, mut expect) = (Rng::with_seed(5), Shown::new());
    members[0].ok(doc! { "create": "c" });
    members[0].ok(doc! { "createIndexes": "c", "indexes": [{ "key": { "n": 1 }, "name": "n_1" }] });
    let mut history: BTreeMap<u64, Shown> = BTreeMap::new();
    for _ in 0..120 {
        let time = change(&members[0], &mut random, &mut expect);
        // The heartbeat of an idle set has times as well; nothing else writes.
        history.insert(time.as_u64(), expect.clone());
    }
    for _ in 0..40 {
        let (time, expect) = history.iter().nth(random.usize(..history.len())).expect("it has so many");
        for (id, member) in members.iter().enumerate() {
            let time = Timestamp::from_u64(*time);
            assert_eq!(&read(member, time), expect, "member {id} at {time:?}");
        }
    }
    let figures = members[1].set.history_figures();
    assert!(figures.replays > 0 && figures.replayed_operations > 0, "{figures:?}");
}

#[test]
fn a_cursor_stays_at_its_time() {
    let (_wires, member) = one();
    let documents: Vec<Value> = (0..10).map(|id| doc! { "_id": id, "n": 1 }.into()).collect();
    let inserted = member.ok(doc! { "insert": "c", "documents": documents });
    for command in [
        doc! { "find": "c", "batchSize": 2 },
        doc! { "find": "c", "filter": { "n": 1 }, "batchSize": 2 },
        doc! { "aggregate": "c", "pipeline": [{ "$match": { "n": 1 } }], "cursor": { "batchSize": 2 } },
    ] {
        let first = member.ok(snapshot(command));
        let time = time_of(&first);
        assert!(time >= operation_time(&inserted), "what was acknowledged is seen");
        member
            .ok(doc! { "update": "c", "updates": [{ "q": {}, "u": { "$inc": { "n": 1 } }, "multi": true }] });
        member.ok(doc! { "insert": "c", "documents": [{ "_id": 100, "n": 1 }] });
        let id = inner(&first, "cursor").get("id").cloned().expect("a number");
        let rest = member.ok(with(doc! {}, doc! { "getMore": id, "collection": "c" }));
        assert_eq!(time_of(&rest), time);
        let mut seen = shown(&batch(&first, "firstBatch"));
        seen.extend(shown(&batch(&rest, "nextBatch")));
        assert_eq!(seen, (0..10).map(|id| (id, 1)).collect());
        member.ok(doc! { "delete": "c", "deletes": [{ "q": { "_id": 100 }, "limit": 1 }] });
        member
            .ok(doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "n": 1 } }, "multi": true }] });
    }
    let distinct = member.ok(snapshot(doc! { "distinct": "c", "key": "n" }));
    assert!(matches!(distinct.get("atClusterTime"), Some(Value::Timestamp(_))), "{distinct:?}");
    let empty = member.ok(snapshot(doc! { "find": "nothing" }));
    assert!(time_of(&empty) > operation_time(&inserted) && batch(&empty, "firstBatch").is_empty());
}

#[test]
fn names_of_the_past_are_not_taken_for_those_of_today() {
    let (_wires, member) = one();
    let before = operation_time(&member.ok(doc! { "insert": "a", "documents": [{ "_id": 1, "n": 1 }] }));
    let code = |command: Document| {
        let reply = member.run(command);
        reply.get("code").and_then(Value::as_f64).map(|code| code as i32)
    };
    let find = |name: &str, time: Timestamp| code(at(doc! { "find": name }, time));
    assert_eq!(find("a", before), None);
    // A collection of today is empty before it came.
    let renamed = doc! { "renameCollection": "test.a", "to": "test.b" };
    let renamed = operation_time(&member.admin(renamed));
    assert_eq!((find("a", before), find("b", before)), (Some(246), Some(246)));
    assert_eq!(code(at(doc! { "distinct": "a", "key": "n" }, before)), Some(246));
    let pipeline = doc! { "aggregate": "b", "pipeline": [], "cursor": {} };
    assert_eq!(code(at(pipeline, before)), Some(246));
    assert_eq!((find("a", renamed), find("b", renamed)), (None, None));
    let later = operation_time(&member.ok(doc! { "drop": "b" }));
    assert_eq!((find("b", renamed), find("b", later)), (Some(246), None));
    let created = operation_time(&member.ok(doc! { "insert": "new", "documents": [{ "_id": 1, "n": 1 }] }));
    assert!(batch(&member.ok(at(doc! { "find": "new" }, later)), "firstBatch").is_empty());
    assert_eq!(batch(&member.ok(at(doc! { "find": "new" }, created)), "firstBatch").len(), 1);
}

#[test]
fn times_that_are_not_to_be_had_are_refused() {
    let (_wires, member) = one();
    let first = operation_time(&member.ok(doc! { "insert": "c", "documents": [{ "_id": 1, "n": 1 }] }));
    let far = Timestamp { time: first.time + 1_000_000, increment: 1 };
    let refused = |command: Document, code: i32| {
        let reply = member.run(command.clone());
        assert_eq!(reply.get("code"), Some(&Value::Int32(code)), "{command:?}: {reply:?}");
    };
    refused(at(doc! { "find": "c" }, far), 72);
    refused(at(doc! { "find": "c" }, Timestamp { time: 1, increment: 1 }), 239);
    refused(snapshot(doc! { "count": "c" }), 72);
    refused(snapshot(doc! { "insert": "c", "documents": [{ "_id": 2 }] }), 72);
    refused(with(doc! { "find": "c" }, doc! { "readConcern": { "atClusterTime": first } }), 72);
    // A time that somebody has heard of, and nobody has written at, comes.
    let heard = Timestamp { time: first.time + 5, increment: 1 };
    let gossip = doc! { "$clusterTime": { "clusterTime": heard } };
    let read = member.ok(with(at(doc! { "find": "c" }, heard), gossip));
    assert_eq!((time_of(&read), batch(&read, "firstBatch").len()), (heard, 1));
    let causal = doc! { "level": "snapshot", "afterClusterTime": heard };
    let read = member.ok(with(doc! { "find": "c" }, doc! { "readConcern": causal }));
    assert!(time_of(&read) >= heard);
    // With a window of nothing, the past goes.
    member.set.set_history_window(Duration::ZERO);
    let code = || member.run(at(doc! { "find": "c" }, first)).get("code").cloned();
    wait_until("the past goes", || code() == Some(Value::Int32(239)));
    let status = member.ok(doc! { "serverStatus": 1 });
    let window = inner(inner(&status, "wiredTiger"), "snapshot-window-settings");
    assert!(
        window.get("total number of SnapshotTooOld errors").and_then(Value::as_f64) >= Some(2.0),
        "{window:?}"
    );
    assert_eq!(batch(&member.ok(snapshot(doc! { "find": "c" })), "firstBatch").len(), 1, "the present stays");
}
