//! Entries are those that a server of version 7.0 writes; whatever bytes come are read or refused.

use super::*;
use crate::OpTime;
use catalog::{
    Catalog, Change, ChangeObserver, Collection, CollectionOptions, Decision, IndexSelection, IndexSpec,
    Namespace, OperationContext, Receipts, WriteError,
};
use document::{Document, DocumentBuf, RawDocument, RawValue, Timestamp, Value, doc};
use pollster::block_on;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use storage::{StorageOptions, Store, WriteUnit};
use uuid::Uuid;

/// Keeps the entries of units, which have no log to go to.
#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<Vec<Vec<u8>>>);

impl Recorder {
    pub(super) fn entries(self) -> Vec<Vec<u8>> {
        self.0.into_inner().expect("no observer panicked")
    }
}

impl ChangeObserver for Recorder {
    fn observe(&self, change: Change<'_>, unit: &mut WriteUnit) {
        OplogObserver.observe(change, unit);
    }

    fn end_unit(&self, unit: &mut WriteUnit) {
        OplogObserver.end_unit(unit);
        self.0.lock().expect("no observer panicked").append(unit.entries_mut());
    }
}

fn catalog() -> Arc<Catalog> {
    Catalog::open(Store::in_memory(&StorageOptions::small()).expect("a store")).expect("an empty catalog")
}

fn entry(operation: Operation) -> OplogEntry {
    OplogEntry { optime: optime(), wall: 1_700_000_000_123, operation, origin: None }
}

/// Runs `make` as one unit and compares its entries with `expect`, to which what all of them have is added.
#[track_caller]
fn check(catalog: &Catalog, make: impl Fn(&OperationContext<'_>), expect: &[Document]) {
    let (recorder, receipts) = (Recorder::default(), Receipts::default());
    let observed = OperationContext {
        observer: Some(&recorder),
        ..OperationContext::writing(catalog.store(), &receipts)
    };
    make(&observed);
    let documents: Vec<Document> = recorder.entries().into_iter().map(placed).collect();
    let common = doc! {
        "ts": (Timestamp { time: 1_700_000_000, increment: 3 }), "t": 5i64, "v": 2i64,
    };
    let whole = |fields: &Document| {
        let mut whole = fields.clone();
        whole.extend(common.iter().map(|(name, value)| (name, value.clone())));
        whole
    };
    assert_eq!(documents, expect.iter().map(whole).collect::<Vec<_>>());
}

/// An entry that has got its place, without the time of its making.
fn placed(mut bytes: Vec<u8>) -> Document {
    place(&mut bytes, optime());
    let read = OplogEntry::decode(&bytes).expect("an entry of ours");
    assert_eq!(read.encode().as_bytes(), bytes, "an entry comes back");
    let mut document = RawDocument::trusted(&bytes).to_document();
    document.remove("wall").expect("a time");
    document
}

fn optime() -> OpTime {
    OpTime { timestamp: Timestamp { time: 1_700_000_000, increment: 3 }, term: 5 }
}

fn namespace(name: &str) -> Namespace {
    Namespace::new("test", name)
}

fn create(catalog: &Catalog, context: &OperationContext<'_>, name: &str, options: Document) {
    let options = CollectionOptions::parse(options.to_buf().as_raw()).expect("options");
    block_on(catalog.create(context, &namespace(name), options)).expect("a collection");
}

fn index(catalog: &Catalog, context: &OperationContext<'_>, spec: Document) {
    let spec = IndexSpec::parse(spec.to_buf().as_raw()).expect("a specification");
    block_on(catalog.create_indexes(context, &namespace("c"), &[spec])).expect("an index");
}

fn insert(context: &OperationContext<'_>, collection: &Collection, documents: &[Document]) {
    let documents: Vec<DocumentBuf> = documents.iter().map(Document::to_buf).collect();
    let documents: Vec<RawDocument<'_>> = documents.iter().map(DocumentBuf::as_raw).collect();
    let report = block_on(collection.insert_many(context, &documents, true));
    assert!(report.errors.is_empty(), "{:?}", report.errors);
}

fn replace(context: &OperationContext<'_>, collection: &Collection, decision: Decision) {
    let key = Collection::document_key_of_id(RawValue::Int32(1));
    block_on(collection.update(context, &key, |_| Ok::<_, WriteError>(decision))).expect("a change");
}

fn with_collection(test: impl Fn(&Catalog, &Collection, &OperationContext<'_>, Value)) {
    let (catalog, receipts) = (catalog(), Receipts::default());
    let context = OperationContext::writing(catalog.store(), &receipts);
    create(&catalog, &context, "c", doc! {});
    let collection = catalog.collection("test", "c").expect("the collection");
    test(&catalog, &collection, &context, uuid_value(collection.uuid()));
}

fn uuid_value(uuid: Uuid) -> Value {
    Value::binary(4, uuid.as_bytes().to_vec())
}

#[test]
fn entries_of_documents() {
    with_collection(|catalog, collection, context, ui| {
        let document = doc! { "_id": 1, "name": "a name", "list": [1, 2], "sub": { "a": 1, "b": 2 } };
        let head = |op: &str| doc! { "op": op, "ns": "test.c", "ui": (ui.clone()) };
        let with = |op: &str, o: Document, o2: Option<Document>| {
            let mut entry = head(op);
            entry.push("o", o);
            o2.into_iter().for_each(|o2| entry.push("o2", o2));
            entry
        };
        let inserted = with("i", document.clone(), Some(doc! { "_id": 1 }));
        check(catalog, |context| insert(context, collection, std::slice::from_ref(&document)), &[inserted]);
        let changed = doc! { "_id": 1, "name": "another", "list": [1, 2], "sub": { "a": 1, "b": 2 } };
        let update = |o: Document| with("u", o, Some(doc! { "_id": 1 }));
        let updated = update(doc! { "$v": 2, "diff": { "u": { "name": "another" } } });
        let to = Decision::Update(changed.to_buf());
        check(catalog, |context| replace(context, collection, to.clone()), &[updated]);
        let to = Decision::Replace(document.to_buf());
        check(catalog, |context| replace(context, collection, to.clone()), &[update(document.clone())]);
        let small = doc! { "_id": 1, "x": 1 };
        let to = Decision::Update(small.to_buf());
        check(catalog, |context| replace(context, collection, to.clone()), &[update(small.clone())]);
        let deleted = with("d", doc! { "_id": 1 }, None);
        check(catalog, |context| replace(context, collection, Decision::Remove), &[deleted]);
        let parts = [2, 3].map(|id| with("i", doc! { "_id": id }, Some(doc! { "_id": id })));
        let parts: Vec<Value> = parts.into_iter().map(Value::from).collect();
        let unit = doc! { "op": "c", "ns": "admin.$cmd", "o": { "applyOps": parts } };
        check(
            catalog,
            |context| insert(context, collection, &[doc! { "_id": 2 }, doc! { "_id": 3 }]),
            &[unit],
        );
        let _ = context;
    });
}

#[test]
fn entries_of_collections() {
    let catalog = catalog();
    let uuid_of = |name: &str| uuid_value(catalog.collection("test", name).expect("the collection").uuid());
    let receipts = Receipts::default();
    let context = OperationContext::writing(catalog.store(), &receipts);
    let id_index = doc! { "v": 2, "key": { "_id": 1 }, "name": "_id_" };
    let recorder = Recorder::default();
    let observed = OperationContext { observer: Some(&recorder), ..context };
    create(&catalog, &observed, "log", doc! { "capped": true, "size": 4096 });
    let [created] = recorder.entries().try_into().expect("one entry");
    let encoded = placed(created);
    let object = doc! { "create": "log", "capped": true, "size": 4096i64, "idIndex": (id_index.clone()) };
    assert_eq!(encoded.get("o"), Some(&Value::from(object)));
    assert_eq!(encoded.get("ns"), Some(&Value::from("test.$cmd")));
    assert_eq!(encoded.get("ui"), Some(&uuid_of("log")));

    let command = |ui: &Value, o: Document| {
        doc! { "op": "c", "ns": "test.$cmd", "ui": (ui.clone()), "o": o }
    };
    create(&catalog, &context, "c", doc! {});
    create(&catalog, &context, "d", doc! {});
    let (c, d) = (uuid_of("c"), uuid_of("d"));
    let renamed = command(
        &c,
        doc! { "renameCollection": "test.c", "to": "test.d", "stayTemp": false, "dropTarget": (d.clone()) },
    );
    let rename = |context: &OperationContext<'_>| {
        block_on(catalog.rename(context, &namespace("c"), &namespace("d"), true)).expect("renamed");
    };
    check(&catalog, rename, &[renamed]);
    let drop_it = |context: &OperationContext<'_>| {
        block_on(catalog.drop_collection(context, &namespace("d"))).expect("dropped");
    };
    check(&catalog, drop_it, &[command(&c, doc! { "drop": "d" })]);
    let view = doc! { "_id": "test.v", "viewOn": "log", "pipeline": [] };
    let viewed = doc! { "op": "i", "ns": "test.system.views", "o": view, "o2": { "_id": "test.v" } };
    let create_view = |context: &OperationContext<'_>| {
        create(&catalog, context, "v", doc! { "viewOn": "log", "pipeline": [] });
    };
    check(&catalog, create_view, &[viewed]);
    let drop_view = |context: &OperationContext<'_>| {
        block_on(catalog.drop_collection(context, &namespace("v"))).expect("dropped");
    };
    check(&catalog, drop_view, &[doc! { "op": "d", "ns": "test.system.views", "o": { "_id": "test.v" } }]);
}

#[test]
fn entries_of_indexes() {
    with_collection(|catalog, collection, context, ui| {
        let command = |o: Document| doc! { "op": "c", "ns": "test.$cmd", "ui": (ui.clone()), "o": o };
        let spec = doc! { "v": 2, "key": { "a": 1 }, "name": "a_1" };
        let created = command(doc! { "createIndexes": "c", "v": 2, "key": { "a": 1 }, "name": "a_1" });
        check(catalog, |context| index(catalog, context, spec.clone()), &[created]);
        let modify = |context: &OperationContext<'_>| {
            let fields = doc! { "index": { "name": "a_1", "hidden": true } }.to_buf();
            block_on(catalog.coll_mod(context, &namespace("c"), fields.as_raw())).expect("modified");
        };
        let mut modified = command(doc! { "collMod": "c", "index": { "name": "a_1", "hidden": true } });
        modified.push("o2", doc! { "collectionOptions_old": {} });
        check(catalog, modify, &[modified]);
        let hidden = doc! { "v": 2, "key": { "a": 1 }, "name": "a_1", "hidden": true };
        let mut dropped = command(doc! { "dropIndexes": "c", "index": "a_1" });
        dropped.push("o2", hidden);
        let drop_it = |context: &OperationContext<'_>| {
            let name = IndexSelection::Names(vec!["a_1".to_owned()]);
            block_on(catalog.drop_indexes(context, &namespace("c"), &name)).expect("dropped");
        };
        check(catalog, drop_it, &[dropped]);
        insert(context, collection, &[doc! { "_id": 1, "a": 1 }]);
        let build = uuid_value(Uuid::from_u128(collection.uuid().as_u128() ^ 2));
        let step = |step: &str| {
            let mut o = Document::from_iter([(step, Value::from("c"))]);
            o.push("indexBuildUUID", build.clone());
            o.push("indexes", vec![Value::from(spec.clone())]);
            command(o)
        };
        let built = [step("startIndexBuild"), step("commitIndexBuild")];
        check(catalog, |context| index(catalog, context, spec.clone()), &built);
    });
}

#[test]
fn entries_of_retryable_writes() {
    let lsid = doc! { "id": (uuid_value(Uuid::from_u128(7))), "uid": (Value::binary(0, vec![9; 32])) };
    let read = |operation: &Operation, is_first: bool, statements: &[Option<Statement>]| {
        let lsid = lsid.to_buf();
        let origin = StatementOrigin { lsid, txn_number: 3, is_first, statements: statements.to_vec() };
        let entry = OplogEntry { origin: Some(origin), ..entry(operation.clone()) };
        let encoded = entry.encode();
        assert_eq!(OplogEntry::decode(encoded.as_bytes()), Ok(entry), "an entry comes back");
        encoded.as_raw().to_document()
    };
    let statement = |id: i32| Statement { id, upserts: false, image: None };
    let target = Target { namespace: namespace("c"), uuid: Some(Uuid::from_u128(1)) };
    let removal = Operation::Delete { target, document_key: doc! { "_id": 1 }.to_buf() };
    let imaged = Statement { image: Some(Image::Before), ..statement(0) };
    let ui = uuid_value(Uuid::from_u128(1));
    let of_removal = doc! { "op": "d", "ns": "test.c", "ui": ui, "o": { "_id": 1 } };
    let mut expect = of_removal.clone();
    expect.extend(doc! {
        "stmtId": 0, "needsRetryImage": "preImage", "lsid": (lsid.clone()), "txnNumber": 3i64,
        "prevOpTime": { "ts": (Timestamp { time: 0, increment: 0 }), "t": (-1i64) },
        "ts": (Timestamp { time: 1_700_000_000, increment: 3 }), "t": 5i64, "v": 2i64,
        "wall": (Value::DateTime(1_700_000_000_123)),
    });
    assert_eq!(read(&removal, true, &[Some(imaged)]), expect);
    let several = Operation::Command(OplogCommand::ApplyOps(vec![removal.clone(), removal]));
    let upsert = Statement { upserts: true, ..statement(7) };
    let found = read(&several, false, &[None, Some(upsert)]);
    let mut second = of_removal.clone();
    second.extend(doc! { "stmtId": 7, "b": true });
    assert_eq!(found.get("o"), Some(&Value::from(doc! { "applyOps": [of_removal, second] })));
    assert!(!found.contains("stmtId") && !found.contains("prevOpTime"), "{found:?}");
}

#[test]
fn what_is_too_long_for_one_document_becomes_several_entries() {
    with_collection(|_, collection, _, _| {
        let definition = collection.definition();
        let document = doc! { "_id": 1, "long": ("x".repeat(5 << 20)) }.to_buf();
        let change = Change::Insert {
            definition: &definition,
            document_key: &[1],
            document: document.as_raw(),
            position: 0,
        };
        let mut unit = WriteUnit::new();
        (0..4).for_each(|_| OplogObserver.observe(change, &mut unit));
        OplogObserver.end_unit(&mut unit);
        let parts = unit.entries_mut().iter().map(|entry| {
            match OplogEntry::decode(entry).expect("an entry").operation {
                Operation::Command(OplogCommand::ApplyOps(parts)) => parts.len(),
                _ => 1,
            }
        });
        assert_eq!(parts.collect::<Vec<_>>(), [3, 1]);
    });
}

#[test]
fn what_each_member_has_for_itself_is_not_logged() {
    let (catalog, receipts) = (catalog(), Receipts::default());
    let context = OperationContext::writing(catalog.store(), &receipts);
    let recorder = Recorder::default();
    let observed = OperationContext { observer: Some(&recorder), ..context };
    for (database, name) in [("local", "c"), ("test", "system.profile")] {
        let collection =
            block_on(catalog.collection_or_create(&observed, database, name)).expect("a collection");
        insert(&observed, &collection, &[doc! { "_id": 1 }]);
    }
    assert_eq!(recorder.entries().len(), 0);
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut Document), expect: &str) {
    let ns = "test.c";
    let mut document = doc! {
        "op": "u", "ns": ns, "ui": (uuid_value(Uuid::from_u128(1))), "o": { "$v": 2, "diff": {} },
        "o2": { "_id": 1 }, "ts": (Timestamp { time: 1, increment: 1 }), "t": 1i64, "v": 2i64,
        "wall": (Value::DateTime(0)),
    };
    assert!(OplogEntry::decode(document.to_buf().as_bytes()).is_ok());
    change(&mut document);
    let refused = OplogEntry::decode(document.to_buf().as_bytes()).map_err(|error| error.to_string());
    assert_eq!(refused, Err(format!("malformed oplog entry: {expect}")));
}

#[test]
fn malformed_entries_are_refused() {
    check_refused(|entry| drop(entry.insert("op", "x")), "unknown kind of operation 'x'");
    check_refused(|entry| drop(entry.remove("ts")), "'ts' is to be a timestamp");
    check_refused(|entry| drop(entry.insert("t", -2i64)), "'t' is to be a term");
    check_refused(|entry| drop(entry.insert("v", 1i64)), "'v' is to be 2");
    check_refused(|entry| drop(entry.insert("wall", 1i64)), "'wall' is to be a date");
    check_refused(|entry| drop(entry.insert("ui", "x")), "'ui' is to be a UUID");
    check_refused(|entry| drop(entry.insert("ui", Value::binary(4, vec![1]))), "'ui' is to be a UUID");
    check_refused(|entry| drop(entry.insert("ns", "nodot")), "Invalid namespace specified 'nodot'");
    check_refused(|entry| drop(entry.remove("o2")), "'o2' is to be a document");
    check_refused(|entry| drop(entry.insert("o2", doc! { "a": 1 })), "a document without _id");
    check_refused(|entry| drop(entry.insert("o", doc! { "$v": 1 })), "'$v' of an update is to be 2");
    check_refused(|entry| drop(entry.insert("o", doc! { "$v": 2 })), "'diff' is to be a document");
    check_refused(|entry| drop(entry.insert("o", doc! { "a": 2 })), "a document without _id");
    check_refused(|entry| drop(entry.insert("op", "c")), "unknown command '$v'");
}

#[track_caller]
fn check_delta(before: Document, after: Document, expect: Document) {
    let delta = delta::between(before.to_buf().as_raw(), after.to_buf().as_raw());
    let delta = delta.unwrap_or_else(|| panic!("no delta from {before:?} to {after:?}"));
    assert_eq!(delta.as_raw().to_document(), expect);
}

#[test]
fn deltas_are_mongodbs() {
    let padding = "x".repeat(50);
    let of = |fields: Document| {
        let mut document = doc! { "_id": 1, "pad": (padding.clone()) };
        document.extend(fields);
        document
    };
    let check =
        |before: Document, after: Document, expect: Document| check_delta(of(before), of(after), expect);
    check(doc! { "a": 1 }, doc! { "a": 2 }, doc! { "u": { "a": 2 } });
    check(doc! { "a": 1 }, doc! {}, doc! { "d": { "a": false } });
    check(doc! {}, doc! { "a": 1 }, doc! { "i": { "a": 1 } });
    check(
        doc! { "a": 1, "b": 2, "c": 3 },
        doc! { "b": 5, "n": 1 },
        doc! { "d": { "a": false, "c": false }, "u": { "b": 5 }, "i": { "n": 1 } },
    );
    check(doc! { "a": 1, "b": 2 }, doc! { "b": 2, "a": 1 }, doc! { "i": { "a": 1 } });
    let long = "y".repeat(40);
    check(
        doc! { "s": { "k": (long.clone()), "a": 1 } },
        doc! { "s": { "k": (long.clone()), "a": 2 } },
        doc! { "ss": { "u": { "a": 2 } } },
    );
    let list = |more: &[i32]| {
        let mut list = vec![Value::from(long.clone())];
        list.extend(more.iter().map(|number| Value::Int32(*number)));
        doc! { "l": list }
    };
    check(list(&[1, 2]), list(&[1, 3]), doc! { "sl": { "a": true, "u2": 3 } });
    check(list(&[1]), list(&[1, 2]), doc! { "sl": { "a": true, "u2": 2 } });
    check(list(&[1, 2, 3]), list(&[1]), doc! { "sl": { "a": true, "l": 2 } });
    check(
        doc! { "l": [{ "k": (long.clone()), "q": 1 }] },
        doc! { "l": [{ "k": (long.clone()), "q": 2 }] },
        doc! { "sl": { "a": true, "s0": { "u": { "q": 2 } } } },
    );
    check(doc! { "a": { "b": 1 } }, doc! { "a": { "c": 1 } }, doc! { "u": { "a": { "c": 1 } } });
    let (before, after) = (doc! { "_id": 1, "a": 1 }.to_buf(), doc! { "_id": 1, "b": 1 }.to_buf());
    assert_eq!(delta::between(before.as_raw(), after.as_raw()), None, "the document is the shorter one");
}

#[track_caller]
fn check_applied(before: Document, delta: Document, expect: Result<Document, &str>) {
    let made = delta::apply(before.to_buf().as_raw(), delta.to_buf().as_raw());
    let made = made.map(|made| made.as_raw().to_document()).map_err(|error| error.to_string());
    assert_eq!(made, expect.map_err(|error| format!("malformed oplog entry: {error}")));
}

#[test]
fn deltas_meet_newer_documents() {
    check_applied(doc! { "_id": 1 }, doc! { "u": { "a": 1 } }, Ok(doc! { "_id": 1, "a": 1 }));
    check_applied(doc! { "_id": 1 }, doc! { "d": { "a": false } }, Ok(doc! { "_id": 1 }));
    check_applied(doc! { "a": 1, "b": 2 }, doc! { "i": { "a": 3 } }, Ok(doc! { "b": 2, "a": 3 }));
    check_applied(doc! { "s": 1 }, doc! { "ss": { "u": { "a": 1 } } }, Ok(doc! { "s": 1 }));
    check_applied(doc! {}, doc! { "ss": { "u": { "a": 1 } } }, Ok(doc! {}));
    let of_list = |changes: Document| {
        let mut delta = doc! { "a": true };
        delta.extend(changes);
        doc! { "sl": delta }
    };
    check_applied(doc! { "l": { "a": 1 } }, of_list(doc! { "u0": 1 }), Ok(doc! { "l": { "a": 1 } }));
    let padded = doc! { "l": [1, (Value::Null), 5] };
    check_applied(doc! { "l": [1] }, of_list(doc! { "u2": 5 }), Ok(padded));
    check_applied(doc! { "l": [1] }, of_list(doc! { "l": 3, "s2": {} }), Ok(doc! { "l": [1] }));
    check_applied(doc! { "l": [1, 2, 3] }, of_list(doc! { "l": 1, "u0": 7 }), Ok(doc! { "l": [7] }));
    let far = "position 4000000000 is too far behind an array's end";
    check_applied(doc! { "l": [1] }, of_list(doc! { "u4000000000": 1 }), Err(far));
    let order = "the positions in the diff of an array are to ascend";
    check_applied(doc! { "l": [1] }, of_list(doc! { "u1": 1, "u0": 1 }), Err(order));
    check_applied(doc! {}, doc! { "q": {} }, Err("unknown section 'q' in a diff"));
    check_applied(doc! {}, doc! { "u": 1 }, Err("'u' in a diff is to be a document"));
    let twice = doc! { "d": { "a": false }, "u": { "a": 1 } };
    check_applied(doc! {}, twice, Err("a diff changes the field 'a' twice"));
    let unknown = "unknown field 'x1' in the diff of an array";
    check_applied(doc! { "l": [1] }, of_list(doc! { "x1": 1 }), Err(unknown));
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        (0..3i32).prop_map(Value::Int32),
        (0..2i32).prop_map(|number| Value::Double(f64::from(number))),
        "[ab]{0,12}".prop_map(Value::String),
        Just(Value::Null),
    ];
    scalar.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            fields(inner.boxed()).prop_map(Value::Document),
        ]
    })
}

/// Names repeat now and then.
fn fields(values: BoxedStrategy<Value>) -> impl Strategy<Value = Document> {
    prop::collection::vec(("[a-f]", values), 0..6).prop_map(Document::from_iter)
}

proptest! {
    #[test]
    fn a_delta_makes_the_next_version(before in fields(value().boxed()), after in fields(value().boxed())) {
        let (before, after) = (before.to_buf(), after.to_buf());
        if let Some(delta) = delta::between(before.as_raw(), after.as_raw()) {
            prop_assert!(delta.len() < after.len());
            let made = delta::apply(before.as_raw(), delta.as_raw()).expect("a delta of ours");
            prop_assert_eq!(made.as_bytes(), after.as_bytes());
            let again = delta::apply(after.as_raw(), delta.as_raw()).expect("a delta of ours");
            prop_assert_eq!(again.as_bytes(), after.as_bytes(), "applied twice");
        }
    }

    #[test]
    fn any_delta_is_applied_or_refused(before in fields(value().boxed()),
        delta in hostile_delta(value().boxed())) {
        if let Ok(made) = delta::apply(before.to_buf().as_raw(), delta.to_buf().as_raw()) {
            prop_assert!(RawDocument::parse(made.as_bytes()).is_ok());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        object in fields(value().boxed()), op in "[iudcnx]",
        flips in prop::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        let mut entry = doc! { "op": op, "ns": "test.c", "o": object, "o2": { "_id": 1 } };
        entry.extend(doc! { "ts": (Timestamp { time: 1, increment: 1 }), "t": 1i64, "v": 2i64 });
        entry.push("wall", Value::DateTime(0));
        let mut bytes = entry.to_buf().into_bytes();
        for (place, byte) in flips {
            let length = bytes.len();
            bytes[usize::from(place) % length] = byte;
        }
        if let Ok(entry) = OplogEntry::decode(&bytes) {
            let encoded = entry.encode();
            prop_assert_eq!(OplogEntry::decode(encoded.as_bytes()), Ok(entry));
        }
    }
}

fn hostile_delta(values: BoxedStrategy<Value>) -> impl Strategy<Value = Document> {
    let section = |values: BoxedStrategy<Value>| fields(values).prop_map(Value::Document);
    let of_array = prop::collection::vec(("[us][0-9]{0,3}|l", values.clone()), 0..4).prop_map(|changes| {
        let mut delta = doc! { "a": true };
        delta.extend(changes);
        Value::Document(delta)
    });
    let part =
        prop_oneof![("[dui]", section(values.clone())), ("s[a-f]", section(values)), ("s[a-f]", of_array),];
    prop::collection::vec(part, 0..4).prop_map(Document::from_iter)
}
