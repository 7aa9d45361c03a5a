//! Pipelines through the whole command path, over a store in memory.

use super::views;
use crate::client::Client;
use crate::context::BatchContext;
use crate::cursors::Batch;
use crate::error::code;
use crate::server::ServiceContext;
use crate::testing;
use catalog::{CollectionOptions, IndexSpec, Namespace};
use dispatch::host::Detached;
use dispatch::request::CommandRequest;
use document::{ArrayBuilder, Document, DocumentBuf, RawDocument, Value, doc};
use pollster::block_on;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

/// A server with one client, which uses the database `test`.
struct TestClient {
    server: Arc<ServiceContext>,
    client: Arc<Client>,
}

impl TestClient {
    fn new() -> Self {
        let client = Arc::new(Client::new(1, "test", Arc::new(Detached)));
        TestClient { server: testing::server(), client }
    }

    fn run(&self, mut command: Document) -> Document {
        if !command.contains("$db") {
            command.push("$db", "test");
        }
        let (command, mut reply) = (command.to_buf(), Vec::new());
        block_on(dispatch::dispatch(
            &self.server,
            &self.client,
            CommandRequest::new(command.as_raw()),
            &mut reply,
        ));
        RawDocument::trusted(&reply).to_document()
    }

    fn aggregate(&self, collection: &str, stages: Value) -> Result<Vec<Value>, i32> {
        let reply =
            self.run(doc! { "aggregate": collection, "pipeline": stages, "cursor": { "batchSize": 10_000 } });
        batch_of(&reply, "firstBatch")
    }

    fn insert(&self, collection: &str, documents: &[Document]) {
        let context = testing::writing(&self.server);
        let collection = self.server.node.catalog.collection_or_create(context, "test", collection);
        let collection = block_on(collection).expect("made");
        let documents: Vec<DocumentBuf> = documents.iter().map(Document::to_buf).collect();
        let raw: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
        let report = block_on(collection.insert_many(context, &raw, true));
        assert!(report.errors.is_empty(), "{:?}", report.errors);
    }

    fn index(&self, collection: &str, spec: Document) {
        let spec = IndexSpec::parse(spec.to_buf().as_raw()).expect("a good index");
        let namespace = Namespace::new("test", collection);
        let context = testing::writing(&self.server);
        block_on(self.server.node.catalog.create_indexes(context, &namespace, &[spec])).expect("built");
    }

    fn create(&self, collection: &str, options: Document) {
        let options = CollectionOptions::parse(options.to_buf().as_raw()).expect("good options");
        let namespace = Namespace::new("test", collection);
        let created = self.server.node.catalog.create(testing::writing(&self.server), &namespace, options);
        block_on(created).expect("created");
    }

    /// All documents, by `_id`.
    fn all(&self, collection: &str) -> Vec<Value> {
        self.aggregate(collection, stages([doc! { "$sort": { "_id": 1 } }])).expect("a plain read")
    }

    /// The next batch of an open cursor, as `getMore` would fill it.
    fn more(&self, id: i64, namespace: &str, documents_max: usize) -> Result<Vec<Value>, i32> {
        let mut pinned = self.server.cursors.pin(id, namespace, None).map_err(|error| error.code)?;
        let context = BatchContext {
            server: &self.server,
            client: &self.client,
            source: &self.server.node.newest,
            await_until: None,
        };
        let mut bytes = Vec::new();
        let mut batch = Batch::new(ArrayBuilder::new(&mut bytes), documents_max);
        let source = &mut pinned.cursor().source;
        block_on(source.fill(&context, &mut batch)).map_err(|error| error.code)?;
        drop(batch);
        Ok(RawDocument::trusted(&bytes).iter().map(|element| element.value().to_value()).collect())
    }
}

fn stages<const N: usize>(stages: [Document; N]) -> Value {
    Value::Array(stages.into_iter().map(Value::Document).collect())
}

fn batch_of(reply: &Document, name: &str) -> Result<Vec<Value>, i32> {
    match (reply.get("cursor"), reply.get("code")) {
        (Some(Value::Document(cursor)), _) => match cursor.get(name) {
            Some(Value::Array(batch)) => Ok(batch.to_vec()),
            other => panic!("no batch: {other:?}"),
        },
        (_, Some(Value::Int32(code))) => Err(*code),
        _ => panic!("neither cursor nor code: {reply:?}"),
    }
}

fn values<const N: usize>(documents: [Document; N]) -> Vec<Value> {
    documents.into_iter().map(Value::Document).collect()
}

fn sales() -> TestClient {
    let client = TestClient::new();
    client.insert(
        "sales",
        &[
            doc! { "_id": 1, "item": "abc", "price": 10 },
            doc! { "_id": 2, "item": "jkl", "price": 20 },
            doc! { "_id": 3, "item": "abc", "price": 5 },
        ],
    );
    client
}

#[track_caller]
fn check<const N: usize>(
    client: &TestClient,
    collection: &str,
    pipeline: [Document; N],
    expect: Result<Vec<Value>, i32>,
) {
    assert_eq!(client.aggregate(collection, stages(pipeline)), expect);
}

#[test]
fn pipelines_read_collections() {
    let client = sales();
    check(
        &client,
        "sales",
        [doc! { "$match": { "item": "abc" } }, doc! { "$count": "n" }],
        Ok(values([doc! { "n": 2 }])),
    );
    let grouped = [
        doc! { "$group": { "_id": "$item", "total": { "$sum": "$price" } } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let expect = values([doc! { "_id": "abc", "total": 15 }, doc! { "_id": "jkl", "total": 20 }]);
    check(&client, "sales", grouped, Ok(expect));
    let paged = [
        doc! { "$sort": { "price": -1 } },
        doc! { "$skip": 1 },
        doc! { "$limit": 1 },
        doc! { "$project": { "_id": 1 } },
    ];
    check(&client, "sales", paged, Ok(values([doc! { "_id": 1 }])));
    check(&client, "nothing", [doc! { "$match": {} }], Ok(Vec::new()));
    check(&client, "sales", [doc! { "$frobnicate": {} }], Err(40324));
}

#[test]
fn the_command_is_strict() {
    let client = sales();
    let code = |command: Document| match client.run(command).get("code") {
        Some(Value::Int32(code)) => *code,
        _ => 0,
    };
    assert_eq!(
        code(doc! { "aggregate": "sales", "pipeline": [] }),
        code::FAILED_TO_PARSE,
        "cursor is required"
    );
    assert_eq!(code(doc! { "aggregate": "sales", "pipeline": 1, "cursor": {} }), code::TYPE_MISMATCH);
    assert_eq!(code(doc! { "aggregate": "sales", "cursor": {} }), code::IDL_MISSING_FIELD);
    assert_eq!(code(doc! { "aggregate": 2, "pipeline": [], "cursor": {} }), code::FAILED_TO_PARSE);
    assert_eq!(
        code(doc! { "aggregate": 1, "pipeline": [{ "$match": {} }], "cursor": {} }),
        code::INVALID_NAMESPACE
    );
    assert_eq!(
        code(doc! { "aggregate": "sales", "pipeline": [], "cursor": {}, "collation": { "locale": "de" } }),
        code::COMMAND_NOT_SUPPORTED
    );
    assert_eq!(
        code(doc! { "aggregate": "sales", "pipeline": [], "cursor": {}, "wrong": 1 }),
        code::IDL_UNKNOWN_FIELD
    );
    assert_eq!(code(doc! { "aggregate": "sales", "pipeline": [], "explain": true }), 0);
}

#[test]
fn pipelines_bring_their_own_documents() {
    let client = sales();
    let reply = client.run(doc! {
        "aggregate": 1, "pipeline": [{ "$documents": [{ "a": 1 }, { "a": 2 }] }, { "$match": { "a": 2 } }],
        "cursor": {},
    });
    assert_eq!(batch_of(&reply, "firstBatch"), Ok(values([doc! { "a": 2 }])));
    check(&client, "sales", [doc! { "$documents": [] }], Err(code::INVALID_NAMESPACE));
    let names = [doc! { "$indexStats": {} }, doc! { "$project": { "name": 1 } }];
    check(&client, "sales", names, Ok(values([doc! { "name": "_id_" }])));
    let counted = [doc! { "$collStats": { "count": {} } }, doc! { "$project": { "count": 1 } }];
    check(&client, "sales", counted, Ok(values([doc! { "count": 3 }])));
    check(&client, "nothing", [doc! { "$collStats": { "count": {} } }], Err(code::NAMESPACE_NOT_FOUND));
    check(&client, "sales", [doc! { "$currentOp": {} }], Err(code::INVALID_NAMESPACE));
}

#[test]
fn foreign_collections_and_views() {
    let client = sales();
    client.insert(
        "items",
        &[doc! { "_id": "abc", "label": "Alphabet" }, doc! { "_id": "xyz", "label": "End" }],
    );
    client.create(
        "labels",
        doc! { "viewOn": "items", "pipeline": [{ "$project": { "label": { "$toUpper": "$label" } } }] },
    );
    let lookup = |from: &str| {
        [
            doc! { "$match": { "_id": { "$lte": 2 } } },
            doc! { "$lookup": { "from": from, "localField": "item", "foreignField": "_id", "as": "found" } },
            doc! { "$project": { "found.label": 1 } },
        ]
    };
    let expect = |label: &str| {
        values([doc! { "_id": 1, "found": [{ "label": label }] }, doc! { "_id": 2, "found": [] }])
    };
    check(&client, "sales", lookup("items"), Ok(expect("Alphabet")));
    check(&client, "sales", lookup("labels"), Ok(expect("ALPHABET")));
    let union =
        [doc! { "$match": { "_id": 1 } }, doc! { "$unionWith": "labels" }, doc! { "$project": { "_id": 1 } }];
    check(
        &client,
        "sales",
        union,
        Ok(values([doc! { "_id": 1 }, doc! { "_id": "abc" }, doc! { "_id": "xyz" }])),
    );
    let elsewhere = doc! { "$lookup": {
        "from": { "db": "other", "coll": "c" }, "localField": "a", "foreignField": "b", "as": "c",
    } };
    check(&client, "sales", [elsewhere], Err(code::FAILED_TO_PARSE));
}

#[test]
fn views_stand_in_front() {
    let client = sales();
    client
        .create("cheap", doc! { "viewOn": "sales", "pipeline": [{ "$match": { "price": { "$lte": 10 } } }] });
    client.create(
        "cheapest",
        doc! { "viewOn": "cheap", "pipeline": [{ "$sort": { "price": 1 } }, { "$limit": 1 }] },
    );
    check(&client, "cheap", [doc! { "$count": "n" }], Ok(values([doc! { "n": 2 }])));
    check(
        &client,
        "cheapest",
        [doc! { "$project": { "price": 1 } }],
        Ok(values([doc! { "_id": 3, "price": 5 }])),
    );
    let resolved = views::resolve(&client.server.node.catalog, "test", "cheapest").expect("not too deep");
    assert_eq!((resolved.collection.as_str(), resolved.stages.len()), ("sales", 3));
    assert!(!views::resolve(&client.server.node.catalog, "test", "sales").expect("a collection").is_view());
    check(&client, "sales", [doc! { "$out": "cheap" }], Err(code::COMMAND_NOT_SUPPORTED_ON_VIEW));
    check(&client, "sales", [doc! { "$merge": "cheap" }], Err(code::COMMAND_NOT_SUPPORTED_ON_VIEW));
}

#[test]
fn out_replaces_as_a_whole() {
    let client = sales();
    client.insert("copy", &[doc! { "_id": 9 }]);
    client.index("copy", doc! { "key": { "item": 1 }, "name": "item_1", "unique": true });
    // The unique index of the target refuses the second "abc": nothing happened then.
    check(&client, "sales", [doc! { "$out": "copy" }], Err(code::DUPLICATE_KEY));
    assert_eq!(client.all("copy"), values([doc! { "_id": 9 }]));
    assert_eq!(
        client.server.node.catalog.state().entries("test").len(),
        2,
        "the temporary collection is gone"
    );
    let some = [
        doc! { "$match": { "_id": { "$lte": 2 } } },
        doc! { "$project": { "item": 1 } },
        doc! { "$out": "copy" },
    ];
    check(&client, "sales", some, Ok(Vec::new()));
    assert_eq!(
        client.all("copy"),
        values([doc! { "_id": 1, "item": "abc" }, doc! { "_id": 2, "item": "jkl" }])
    );
    let copy = client.server.node.catalog.collection("test", "copy").expect("it is there");
    assert!(copy.definition().index("item_1").is_some(), "indexes are kept");
    check(&client, "sales", [doc! { "$out": { "db": "other", "coll": "c" } }], Ok(Vec::new()));
    assert_eq!(
        client.server.node.catalog.collection("other", "c").map(|copied| copied.document_count()),
        Some(3)
    );
    check(&client, "sales", [doc! { "$out": "system.views" }], Err(17385));
    check(&client, "sales", [doc! { "$out": { "db": "admin", "coll": "c" } }], Err(31321));
    client.create("round", doc! { "capped": true, "size": 5000 });
    check(&client, "sales", [doc! { "$out": "round" }], Err(17152));
}

#[test]
fn unfinished_outputs_go_at_the_start() {
    let client = sales();
    client.insert("tmp.agg_out.1", &[doc! { "_id": 1 }]);
    block_on(crate::remove_unfinished_outputs(&client.server.node)).expect("dropped");
    assert_eq!(client.server.node.catalog.state().entries("test").len(), 1);
}

/// Merges `{_id: 1, b: 2}` and `{_id: 2, b: 2}` into a collection with `{_id: 1, a: 1}`.
#[track_caller]
fn check_merge(options: Document, expect: Result<Vec<Value>, i32>) {
    let client = TestClient::new();
    client.insert("target", &[doc! { "_id": 1, "a": 1 }]);
    client.insert("source", &[doc! { "_id": 1, "b": 2 }, doc! { "_id": 2, "b": 2 }]);
    let mut merge = doc! { "into": "target" };
    merge.extend(options);
    let result = client.aggregate("source", stages([doc! { "$merge": merge }]));
    assert_eq!(result.map(|_| client.all("target")), expect);
}

#[test]
fn merge_modes() {
    let two = || doc! { "_id": 2, "b": 2 };
    check_merge(doc! {}, Ok(values([doc! { "_id": 1, "a": 1, "b": 2 }, two()])));
    check_merge(doc! { "whenMatched": "replace" }, Ok(values([doc! { "_id": 1, "b": 2 }, two()])));
    check_merge(doc! { "whenMatched": "keepExisting" }, Ok(values([doc! { "_id": 1, "a": 1 }, two()])));
    check_merge(doc! { "whenMatched": "fail" }, Err(code::DUPLICATE_KEY));
    check_merge(doc! { "whenNotMatched": "discard" }, Ok(values([doc! { "_id": 1, "a": 1, "b": 2 }])));
    check_merge(doc! { "whenNotMatched": "fail" }, Err(13113));
    check_merge(doc! { "whenMatched": "fail", "whenNotMatched": "discard" }, Err(51181));
    check_merge(
        doc! { "whenMatched": [{ "$set": { "a": { "$add": ["$a", "$$new.b"] } } }] },
        Ok(values([doc! { "_id": 1, "a": 3 }, two()])),
    );
    check_merge(
        doc! {
            "let": { "plus": { "$multiply": ["$b", 10] } }, "whenMatched": [{ "$set": { "a": "$$plus" } }]
        },
        Ok(values([doc! { "_id": 1, "a": 20 }, two()])),
    );
    check_merge(doc! { "on": "b" }, Err(51183));
    check_merge(doc! { "whenMatched": [{ "$group": { "_id": 1 } }] }, Err(code::INVALID_OPTIONS));
}

#[test]
fn what_is_merged_into_one_document_is_merged_in_its_order() {
    let client = TestClient::new();
    client.insert("source", &[doc! { "_id": 1, "n": [1, 2, 3] }, doc! { "_id": 2, "n": [4, 5] }]);
    let merge = doc! { "$merge": { "into": "target", "whenMatched": "replace" } };
    check(&client, "source", [doc! { "$unwind": "$n" }, merge], Ok(Vec::new()));
    assert_eq!(client.all("target"), values([doc! { "_id": 1, "n": 3 }, doc! { "_id": 2, "n": 5 }]));
}

#[test]
fn merge_by_other_fields() {
    let client = sales();
    client.insert("totals", &[doc! { "_id": 7, "item": "abc", "total": 0 }]);
    let by_item = || {
        [
            doc! { "$group": { "_id": "$item", "total": { "$sum": "$price" } } },
            doc! { "$sort": { "_id": 1 } },
            doc! {
                "$project": { "item": "$_id", "total": 1,
                    "_id": { "$cond": [{ "$eq": ["$_id", "abc"] }, 7, 8] } }
            },
            doc! { "$merge": { "into": "totals", "on": "item" } },
        ]
    };
    check(&client, "sales", by_item(), Err(51183));
    client.index("totals", doc! { "key": { "item": 1 }, "name": "item_1", "unique": true });
    check(&client, "sales", by_item(), Ok(Vec::new()));
    let expect = values([
        doc! { "_id": 7, "item": "abc", "total": 15 },
        doc! { "_id": 8, "total": 20, "item": "jkl" },
    ]);
    assert_eq!(client.all("totals"), expect);
    let without =
        [doc! { "$project": { "price": 1 } }, doc! { "$merge": { "into": "totals", "on": "item" } }];
    check(&client, "sales", without, Err(51132));
}

#[test]
fn cursors_go_on_after_pauses() {
    let client = TestClient::new();
    let documents: Vec<Document> =
        (0..500).map(|number| doc! { "_id": number, "g": (number % 10) }).collect();
    client.insert("many", &documents);
    let first = client.run(doc! {
        "aggregate": "many", "pipeline": [{ "$match": { "g": 3 } }, { "$project": { "_id": 1 } }],
        "cursor": { "batchSize": 2 },
    });
    assert_eq!(batch_of(&first, "firstBatch"), Ok(values([doc! { "_id": 3 }, doc! { "_id": 13 }])));
    let Some(Value::Int64(id)) = first.get("cursor").and_then(|cursor| match cursor {
        Value::Document(cursor) => cursor.get("id").cloned(),
        _ => None,
    }) else {
        panic!("no cursor: {first:?}")
    };
    assert_ne!(id, 0, "there is more");
    assert_eq!(client.more(id, "test.many", 1), Ok(values([doc! { "_id": 23 }])));
    assert_eq!(client.more(id, "test.many", 1000).map(|batch| batch.len()), Ok(47), "the rest");
    assert_eq!(client.more(id, "test.many", 1000), Ok(Vec::new()));
}

#[test]
fn a_dropped_collection_ends_a_cursor() {
    let client = TestClient::new();
    let documents: Vec<Document> = (0..500).map(|number| doc! { "_id": number }).collect();
    client.insert("many", &documents);
    let first = client.run(doc! { "aggregate": "many", "pipeline": [], "cursor": { "batchSize": 1 } });
    let Some(Value::Document(cursor)) = first.get("cursor") else { panic!("no cursor: {first:?}") };
    let Some(Value::Int64(id)) = cursor.get("id") else { panic!("no cursor id: {first:?}") };
    let namespace = Namespace::new("test", "many");
    let dropped = client.server.node.catalog.drop_collection(testing::writing(&client.server), &namespace);
    block_on(dropped).expect("dropped");
    assert_eq!(client.more(*id, "test.many", 1000), Err(code::QUERY_PLAN_KILLED));
}

/// Kills the command after its first pause.
#[track_caller]
fn check_kill(client: &TestClient, pipeline: Value) {
    let command = doc! { "aggregate": "many", "cursor": {}, "$db": "test", "pipeline": pipeline }.to_buf();
    let mut reply = Vec::new();
    {
        let mut task = Context::from_waker(Waker::noop());
        let request = CommandRequest::new(command.as_raw());
        let mut running = pin!(dispatch::dispatch(&client.server, &client.client, request, &mut reply));
        assert!(running.as_mut().poll(&mut task).is_pending(), "it gives way while it groups");
        assert!(client.client.kill_operation(code::INTERRUPTED, |_, _| true), "it is registered");
        assert!(running.as_mut().poll(&mut task).is_ready(), "it ends at once");
    }
    let reply = RawDocument::trusted(&reply).to_document();
    assert_eq!(reply.get("code"), Some(&Value::Int32(code::INTERRUPTED)), "{reply:?}");
}

#[test]
fn a_kill_reaches_a_blocking_stage() {
    let client = TestClient::new();
    let documents: Vec<Document> =
        (0..5_000).map(|number| doc! { "_id": number, "text": "some text" }).collect();
    client.insert("many", &documents);
    let long = doc! { "$map": { "input": { "$range": [0, 50] }, "in": { "$concat": ["$text", "$text"] } } };
    check_kill(
        &client,
        stages([
            doc! { "$addFields": { "long": long } },
            doc! { "$group": { "_id": "$long", "n": { "$sum": 1 } } },
        ]),
    );
}

#[test]
fn a_kill_reaches_the_work_on_one_document() {
    let client = TestClient::new();
    let numbers: Vec<Value> = (0..300).map(Value::Int32).collect();
    client.insert("many", &[doc! { "_id": 1, "a": (numbers.clone()), "b": (numbers.clone()), "c": numbers }]);
    check_kill(
        &client,
        stages([
            doc! { "$unwind": "$a" },
            doc! { "$unwind": "$b" },
            doc! { "$unwind": "$c" },
            doc! { "$count": "n" },
        ]),
    );
}

#[test]
fn explain_tells_how_the_front_is_read() {
    let client = sales();
    let explain =
        |pipeline: Value| client.run(doc! { "aggregate": "sales", "pipeline": pipeline, "explain": true });
    let plain = explain(stages([doc! { "$match": { "_id": 1 } }]));
    assert!(plain.contains("queryPlanner"), "{plain:?}");
    let staged = explain(stages([doc! { "$match": { "_id": 1 } }, doc! { "$group": { "_id": 1 } }]));
    let Some(Value::Array(list)) = staged.get("stages") else { panic!("no stages: {staged:?}") };
    let names: Vec<_> = list
        .iter()
        .filter_map(|stage| match stage {
            Value::Document(stage) => stage.iter().next().map(|(name, _)| name.to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["$cursor", "$group"]);
}
