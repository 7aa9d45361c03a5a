//! Random operations on one catalog; what its observer records is applied to others, in part twice.

use super::tests::Recorder;
use super::*;
use crate::retryable::RetryTable;
use catalog::{
    Catalog, CatalogEntry, Collection, CollectionOptions, Decision, FoundDocuments, IndexSelection,
    IndexSpec, Namespace, OperationContext, Receipts, WriteError,
};
use document::{Document, DocumentBuf, RawDocument, RawValue, Value, doc};
use fastrand::Rng;
use pollster::block_on;
use std::collections::HashMap;
use std::sync::Arc;
use storage::{CursorOptions, Direction, Engine, MemoryEngine, ReadTier, StorageOptions, Store};

fn open(engine: &Arc<MemoryEngine>) -> Arc<Catalog> {
    let engine: Arc<dyn Engine> = Arc::clone(engine) as _;
    Catalog::open(Store::with_engine(engine, &StorageOptions::small()).expect("a store")).expect("a catalog")
}

const NAMES: [&str; 4] = ["a", "b", "c", "log"];

fn namespace(random: &mut Rng) -> Namespace {
    let name = NAMES[random.usize(..NAMES.len())];
    Namespace::new(if random.u8(..8) == 0 { "other" } else { "test" }, name)
}

fn random_value(random: &mut Rng, depth: usize) -> Value {
    match random.u8(..if depth == 0 { 4 } else { 7 }) {
        0 | 1 => Value::Int32(random.i32(..6)),
        2 => Value::Double(f64::from(random.i32(..4)) / 2.0),
        3 => Value::String("x".repeat(random.usize(..30))),
        4 => Value::from((0..random.usize(..4)).map(|_| random_value(random, depth - 1)).collect::<Vec<_>>()),
        _ => {
            let names = ["p", "q", "r"];
            let fields = (0..random.usize(..3)).map(|field| (names[field], random_value(random, depth - 1)));
            Value::Document(Document::from_iter(fields))
        }
    }
}

fn random_document(random: &mut Rng, id: i32) -> Document {
    let mut document = doc! { "_id": id, "pad": ("p".repeat(random.usize(..60))) };
    for name in ["a", "b", "d", "e"] {
        if random.bool() {
            document.push(name, random_value(random, 2));
        }
    }
    document
}

/// Another version of a document: fields come, go and change, also within arrays and documents.
fn changed(random: &mut Rng, before: &Document) -> Document {
    let mut after = before.clone();
    for _ in 0..random.usize(1..4) {
        let name = ["a", "b", "d", "e", "f"][random.usize(..5)];
        match (random.u8(..4), after.get_mut(name)) {
            (0, _) => drop(after.remove(name)),
            (1 | 2, Some(Value::Array(values))) => {
                let values = values.as_mut_vec();
                match random.u8(..3) {
                    0 => drop(values.pop()),
                    1 => values.push(random_value(random, 1)),
                    _ => {
                        let last = values.len().saturating_sub(1);
                        if let Some(value) = values.get_mut(random.usize(..=last)) {
                            *value = random_value(random, 1);
                        }
                    }
                }
            }
            (1 | 2, Some(Value::Document(fields))) => drop(fields.insert("q", random_value(random, 0))),
            _ => drop(after.insert(name, random_value(random, 2))),
        }
    }
    after
}

fn random_spec(random: &mut Rng) -> Document {
    let key = match random.u8(..4) {
        0 => doc! { "a": 1 },
        1 => doc! { "b": -1 },
        2 => doc! { "a": 1, "b": 1 },
        _ => doc! { "d": "hashed" },
    };
    let name = ["one", "two", "three"][random.usize(..3)];
    let mut spec = doc! { "key": key, "name": name };
    match random.u8(..5) {
        0 => spec.push("unique", true),
        1 => spec.push("sparse", true),
        _ => {}
    }
    spec
}

/// Does something; what is refused leaves nothing in the log.
fn step(catalog: &Catalog, context: &OperationContext<'_>, random: &mut Rng) {
    let name = namespace(random);
    let collection = catalog.collection(name.database(), name.collection());
    match (random.u8(..40), collection) {
        (0..=2, None) => {
            let capped = doc! { "capped": true, "size": 4096, "max": 6 };
            let options = match name.collection() {
                "log" => capped,
                _ => doc! { "validator": { "a": { "$ne": 5 } } },
            };
            let options = CollectionOptions::parse(options.to_buf().as_raw()).expect("options");
            let _ = block_on(catalog.create(context, &name, options));
        }
        (3, None) => {
            let options = doc! { "viewOn": "a", "pipeline": [] }.to_buf();
            let options = CollectionOptions::parse(options.as_raw()).expect("options");
            let _ = block_on(catalog.create(context, &name, options));
        }
        (4, _) => drop(block_on(catalog.drop_collection(context, &name))),
        (5, _) => drop(block_on(catalog.rename(context, &name, &namespace(random), random.bool()))),
        (6..=8, _) => {
            if let Ok(spec) = IndexSpec::parse(random_spec(random).to_buf().as_raw()) {
                let _ = block_on(catalog.create_indexes(context, &name, &[spec]));
            }
        }
        (9, _) => {
            let index = ["one", "two", "three"][random.usize(..3)].to_owned();
            let _ = block_on(catalog.drop_indexes(context, &name, &IndexSelection::Names(vec![index])));
        }
        (10 | 11, _) => {
            let fields = match random.u8(..6) {
                0 => doc! { "validator": {} },
                1 => doc! { "validator": { "b": { "$ne": 5 } }, "validationLevel": "moderate" },
                2 => doc! { "viewOn": "b", "pipeline": [] },
                3 => doc! { "cappedMax": (random.i32(3..9)) },
                4 => doc! { "index": { "name": "two", "prepareUnique": true } },
                _ => doc! { "index": { "name": "one", "hidden": (random.bool()) } },
            };
            let _ = block_on(catalog.coll_mod(context, &name, fields.to_buf().as_raw()));
        }
        (12..=19, Some(collection)) => {
            let documents: Vec<_> = (0..random.usize(1..4))
                .map(|_| {
                    let id = random.i32(..12);
                    random_document(random, id).to_buf()
                })
                .collect();
            let documents: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
            block_on(collection.insert_many(context, &documents, false));
        }
        (_, Some(collection)) => write(&collection, context, random),
        _ => {}
    }
}

fn write(collection: &Collection, context: &OperationContext<'_>, random: &mut Rng) {
    let key = |id: i32| {
        let id = RawValue::Int32(id);
        collection.find_document_key(context.view, id, ReadTier::Any).expect("a look-up")
    };
    let first = random.i32(..12);
    let count = random.i32(1..4);
    let keys: Vec<_> = (first..first + count).filter_map(key).collect();
    let mut decide = |found: Option<RawDocument<'_>>| {
        Ok::<_, WriteError>(match (found, random.u8(..5)) {
            (None, _) => Decision::Keep,
            (Some(_), 0) => Decision::Remove,
            (Some(found), 1) => Decision::Replace(changed(random, &found.to_document()).to_buf()),
            (Some(found), _) => Decision::Update(changed(random, &found.to_document()).to_buf()),
        })
    };
    let mut found = FoundDocuments::default();
    keys.iter().for_each(|key| found.push(collection, key, None));
    let (settled, _) = block_on(collection.update_many(context, &found, 0, |found, _| decide(found)));
    if settled == 0
        && let Some(key) = keys.first()
    {
        let _ = block_on(collection.update(context, key, decide));
    }
}

/// Everything that there is to see: definitions, documents in their order, entries of indexes. Record ids of
/// capped collections are told as positions.
fn shown(catalog: &Catalog) -> Vec<String> {
    let mut lines = Vec::new();
    for database in catalog.state().databases() {
        for (name, entry) in catalog.state().entries(&database) {
            let definition = entry.definition();
            let options = definition.options.to_document().quoted();
            match entry {
                CatalogEntry::View(_) => lines.push(format!("view {name} {options}")),
                CatalogEntry::Collection(collection) => {
                    lines.push(format!("collection {name} {} {options}", definition.uuid));
                    show_collection(catalog, &collection, &mut lines);
                }
            }
        }
    }
    lines
}

fn show_collection(catalog: &Catalog, collection: &Arc<Collection>, lines: &mut Vec<String>) {
    let view = catalog.store().read_view();
    let (forward, options) = (Direction::Forward, CursorOptions::default());
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut documents = collection.documents(&view, Default::default(), forward, options).expect("a cursor");
    while let Some((key, document)) = documents.next().expect("a document") {
        places.insert(key.to_vec(), places.len());
        lines.push(format!("  {:02x?}", document.as_bytes()));
    }
    let definition = collection.definition();
    let mut indexes: Vec<_> = definition.indexes.iter().collect();
    indexes.sort_by_key(|index| index.spec.name.clone());
    for index in indexes {
        lines.push(format!("  index {} {:?}", index.spec.to_document().quoted(), index.state));
        if index.clustered {
            continue;
        }
        let mut entries =
            collection.index_entries(&view, index, Default::default(), forward, options).expect("a cursor");
        while let Some(entry) = entries.next().expect("an entry") {
            let place = places.get(entry.document_key);
            lines.push(format!("    {:02x?} {:02x?} {place:?}", entry.fields, entry.type_bits));
        }
    }
    let report = block_on(collection.validate(|| catalog.store().pinned_view())).expect("a report");
    assert!(report.is_valid(), "{} is not valid: {report:#?}", definition.namespace);
}

fn apply(catalog: &Arc<Catalog>, entries: &[Vec<u8>]) {
    let receipts = Receipts::default();
    let sessions = RetryTable::new(Arc::clone(catalog));
    let applier = Applier::new(catalog, &sessions, OperationContext::writing(catalog.store(), &receipts));
    for entry in entries {
        let read = OplogEntry::decode(entry).expect("an entry of ours");
        block_on(applier.apply(&read)).unwrap_or_else(|error| panic!("{error}: {read:?}"));
    }
}

#[track_caller]
fn assert_same(found: &[String], expect: &[String], seed: u64, what: &str) {
    if let Some(place) = (0..found.len().max(expect.len())).find(|&line| found.get(line) != expect.get(line))
    {
        panic!(
            "seed {seed}, {what}, line {place}: {:?} instead of {:?}",
            found.get(place),
            expect.get(place)
        );
    }
}

fn check(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let (recorder, receipts) = (Recorder::default(), Receipts::default());
    let primary = open(&Arc::default());
    let context = OperationContext {
        observer: Some(&recorder),
        ..OperationContext::writing(primary.store(), &receipts)
    };
    for _ in 0..250 {
        step(&primary, &context, &mut random);
    }
    let log = recorder.entries();
    let expect = shown(&primary);

    let engine = Arc::default();
    let secondary = open(&engine);
    apply(&secondary, &log);
    assert_same(&shown(&secondary), &expect, seed, "once");
    for _ in 0..3 {
        let from = random.usize(..=log.len());
        apply(&secondary, &log[from..]);
        assert_same(&shown(&secondary), &expect, seed, "a part again");
    }
    // It stops anywhere, and begins again at an older place.
    let engine = Arc::default();
    let (stopped, begun) = (random.usize(..=log.len()), random.usize(..=log.len()));
    apply(&open(&engine), &log[..stopped]);
    let restarted = open(&engine);
    apply(&restarted, &log[begun.min(stopped)..]);
    assert_same(&shown(&restarted), &expect, seed, "stopped and begun again");
}

#[test]
fn a_log_applied_again_gives_the_same_data() {
    (0..40).for_each(check);
}

#[test]
fn what_comes_to_a_capped_collection_comes_to_its_end_again() {
    let (recorder, receipts) = (Recorder::default(), Receipts::default());
    let primary = open(&Arc::default());
    let context = OperationContext {
        observer: Some(&recorder),
        ..OperationContext::writing(primary.store(), &receipts)
    };
    let options = CollectionOptions::parse(doc! { "capped": true, "size": 4096 }.to_buf().as_raw());
    let name = Namespace::new("test", "log");
    block_on(primary.create(&context, &name, options.expect("options"))).expect("created");
    let collection = primary.collection("test", "log").expect("the collection");
    let insert = |id: i32| {
        block_on(collection.insert(&context, doc! { "_id": id }.to_buf().as_raw())).expect("inserted");
    };
    insert(1);
    let key = collection.find_document_key(context.view, RawValue::Int32(1), ReadTier::Any);
    block_on(collection.delete(&context, &key.expect("a look-up").expect("a key"))).expect("deleted");
    insert(1);
    insert(2);
    let expect = shown(&primary);
    let log = recorder.entries();
    let secondary = open(&Arc::default());
    apply(&secondary, &log);
    for from in 0..log.len() {
        apply(&secondary, &log[from..]);
        assert_same(&shown(&secondary), &expect, from as u64, "from that entry on again");
    }
}
