//! The executor against brute force: whatever the plan, the answer is that of looking at every document.

use super::{Executor, Pause, Query, Read, Slice, Spill, Verdict};
use crate::server::ServiceContext;
use crate::testing;
use catalog::{Collection, Decision, IndexSpec, Namespace, WriteError};
use document::key::encode_value;
use document::{Document, RawDocument, RawValue, Value, doc};
use pollster::block_on;
use query::matcher::Matcher;
use query::plan::{Access, NeededFields};
use query::sort::SortPattern;
use query::{Environment, checkpoint};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::{ReadSource, ReadTier};

/// A small generator of numbers: the same seed, the same run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn number(&mut self) -> i32 {
        self.below(8) as i32
    }

    fn value(&mut self) -> Value {
        match self.below(12) {
            0 => Value::Null,
            1 => Value::String("x".into()),
            2 => Value::Double(f64::from(self.number()) + 0.5),
            3 => Value::Boolean(true),
            _ => self.number().into(),
        }
    }

    fn document(&mut self, id: i32) -> Document {
        let mut document = doc! { "_id": id };
        for name in ["a", "b", "c"] {
            if self.below(8) > 0 {
                document.push(name, self.value());
            }
        }
        match self.below(4) {
            0 => document.push("t", self.number()),
            1 => {}
            _ => {
                let values: Vec<Value> = (0..self.below(4)).map(|_| self.number().into()).collect();
                document.push("t", values);
            }
        }
        document.push("n", doc! { "x": (self.number()), "y": (self.number()) });
        document
    }

    fn condition(&mut self) -> Document {
        let field = ["a", "b", "c", "t", "n.x", "_id"][self.below(6) as usize];
        let mut document = Document::new();
        let number = if field == "_id" { (self.below(120)) as i32 } else { self.number() };
        let condition: Value = match self.below(9) {
            0 => doc! { "$gt": number }.into(),
            1 => doc! { "$lte": number }.into(),
            2 => doc! { "$gte": number, "$lt": (number + 3) }.into(),
            3 => doc! { "$in": [number, (number + 2), (Value::Null)] }.into(),
            4 => doc! { "$ne": number }.into(),
            5 => Value::Null,
            6 => doc! { "$exists": (self.below(2) == 0) }.into(),
            _ => number.into(),
        };
        document.push(field, condition);
        document
    }

    fn filter(&mut self) -> Document {
        match self.below(6) {
            0 => Document::new(),
            1 => {
                let branches: Vec<Value> = (0..2 + self.below(2)).map(|_| self.condition().into()).collect();
                doc! { "$or": branches }
            }
            2 => self.condition(),
            _ => {
                let branches: Vec<Value> = (0..1 + self.below(3)).map(|_| self.condition().into()).collect();
                doc! { "$and": branches }
            }
        }
    }

    fn sort(&mut self) -> Document {
        let sorts = [
            doc! {},
            doc! {},
            doc! { "a": 1, "_id": 1 },
            doc! { "a": 1, "b": 1, "_id": 1 },
            doc! { "b": -1, "c": 1, "_id": 1 },
            doc! { "b": 1, "c": -1 },
            doc! { "t": 1, "_id": -1 },
            doc! { "_id": -1 },
            doc! { "n.x": -1, "_id": 1 },
        ];
        sorts[self.below(sorts.len() as u64) as usize].clone()
    }
}

const INDEXES: [&str; 6] = ["a", "b,-c", "a,b", "t", "n.x", "c,_id"];

fn collection(indexes: &[&str]) -> (Arc<ServiceContext>, Arc<Collection>) {
    // Reads from memory fail now and then, so that walks pause in front of anything.
    let (store, forgetting) = testing::forgetful_store();
    forgetting.set(30);
    let server = testing::server_on(store);
    let namespace = Namespace::new("db", "c");
    let collection = block_on(server.node.catalog.collection_or_create(testing::writing(&server), "db", "c"))
        .expect("a collection");
    for index in indexes {
        let key: Document = index
            .split(',')
            .map(|field| match field.strip_prefix('-') {
                Some(field) => (field, Value::Int32(-1)),
                None => match field.strip_prefix('#') {
                    Some(field) => (field, Value::String("hashed".to_owned())),
                    None => (field, Value::Int32(1)),
                },
            })
            .collect();
        let spec = doc! { "key": key, "name": *index }.to_buf();
        let spec = IndexSpec::parse(spec.as_raw()).expect("a specification");
        let context = testing::writing(&server);
        block_on(server.node.catalog.create_indexes(context, &namespace, &[spec])).expect("an index");
    }
    (server, collection)
}

fn insert(server: &ServiceContext, collection: &Arc<Collection>, document: &Document) {
    let document = document.to_buf();
    block_on(collection.insert(testing::writing(server), document.as_raw())).expect("an insert");
}

fn change(server: &ServiceContext, collection: &Arc<Collection>, id: i32, change: Decision) {
    let key = Collection::document_key_of_id(RawValue::Int32(id));
    let decide = |_: Option<RawDocument<'_>>| Ok::<_, WriteError>(change);
    block_on(collection.update(testing::writing(server), &key, decide)).expect("a change");
}

fn id_of(document: &Document) -> i32 {
    match document.get("_id") {
        Some(Value::Int32(id)) => *id,
        other => panic!("an _id, not {other:?}"),
    }
}

fn query(filter: &Document, sort: &Document, skip: u64, limit: Option<u64>) -> Query {
    let filter = filter.to_buf();
    Query {
        matcher: Matcher::parse(filter.as_raw(), &Environment::default()).expect("a filter"),
        sort: Arc::new(SortPattern::parse(sort.to_buf().as_raw()).expect("a sort")),
        skip,
        limit,
        ..Query::default()
    }
}

/// Runs in batches of `batch` documents, refusing now and then, in slices that end anywhere, and put aside
/// now and then; `between` runs after each pause.
fn run_batches(
    source: &ReadSource,
    collection: &Arc<Collection>,
    query: Query,
    batch: usize,
    dice: &mut Dice,
    between: impl FnMut(&mut Dice),
) -> Vec<Document> {
    let mut executor = Executor::open(source, collection, query).expect("a plan");
    run_executor(&mut executor, (batch, Some(source)), dice, between)
}

fn run_executor(
    executor: &mut Executor,
    (batch, put_aside): (usize, Option<&ReadSource>),
    dice: &mut Dice,
    mut between: impl FnMut(&mut Dice),
) -> Vec<Document> {
    let mut found = Vec::new();
    loop {
        let full = found.len() + batch;
        let tier = if dice.below(3) == 0 { ReadTier::Any } else { ReadTier::BlockCache };
        let mut slice = Slice::of_steps(1 + dice.below(40) as u32, tier);
        let pause = executor
            .run(&mut slice, &mut |located| {
                if dice.below(10) == 0 {
                    return Ok(Verdict::Refuse);
                }
                found.push(located.document.to_document());
                Ok(if found.len() >= full { Verdict::TakeAndStop } else { Verdict::Take })
            })
            .expect("a run");
        if pause == Pause::End {
            return found;
        }
        if let Some(source) = put_aside.filter(|_| dice.below(2) == 0) {
            executor.save();
            executor.read_from(source);
        }
        between(dice);
    }
}

fn brute_force(documents: &BTreeMap<i32, Document>, query: &Query) -> Vec<Document> {
    let mut found: Vec<(Vec<u8>, Document)> = documents
        .values()
        .filter_map(|document| {
            let raw = document.to_buf();
            let matches = query.matcher.matches(raw.as_raw()).expect("a verdict");
            matches.then(|| (query.sort.key(raw.as_raw()).expect("a key"), document.clone()))
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found.into_iter().map(|(_, document)| document).collect()
}

fn sort_keys(query: &Query, documents: &[Document]) -> Vec<Vec<u8>> {
    documents.iter().map(|document| query.sort.key(document.to_buf().as_raw()).expect("a key")).collect()
}

#[test]
fn every_plan_gives_what_brute_force_gives() {
    let mut dice = Dice(20_261_121);
    let (server, collection) = collection(&INDEXES);
    let mut documents = BTreeMap::new();
    for id in 0..120 {
        let document = dice.document(id);
        insert(&server, &collection, &document);
        documents.insert(id, document);
    }
    let mut kinds = BTreeSet::new();
    for round in 0..3_000 {
        let (filter, sort) = (dice.filter(), dice.sort());
        let skip = if dice.below(3) == 0 { dice.below(20) } else { 0 };
        let limit = (dice.below(3) == 0).then(|| 1 + dice.below(20));
        let query = query(&filter, &sort, skip, limit);
        let plan = query.plan(&collection.definition()).expect("a plan");
        kinds.insert((kind(&plan.access), plan.sort_provided));
        let all = brute_force(&documents, &query);
        let end = limit.map_or(all.len(), |limit| (skip + limit) as usize).min(all.len());
        let expect = all.get(skip as usize..end).unwrap_or_default();
        let batch = 1 + dice.below(30) as usize;
        let found = run_batches(&server.node.newest, &collection, query.clone(), batch, &mut dice, |_| {});
        let place =
            format!("round {round}: {filter:?} sort {sort:?} skip {skip} limit {limit:?} by {plan:?}");
        assert_eq!(sort_keys(&query, &found), sort_keys(&query, expect), "{place}");
        let found_ids: BTreeSet<i32> = found.iter().map(id_of).collect();
        assert_eq!(found_ids.len(), found.len(), "a document twice, {place}");
        let all_ids: BTreeSet<i32> = all.iter().map(id_of).collect();
        assert!(found_ids.is_subset(&all_ids), "a document that does not match, {place}");
        if skip == 0 && limit.is_none() {
            assert_eq!(found_ids, all_ids, "{place}");
        }
    }
    for kind in ["look-up", "collection", "index", "union"] {
        assert!(kinds.iter().any(|(known, _)| *known == kind), "no plan was a {kind}: {kinds:?}");
    }
    assert!(kinds.contains(&("index", false)) && kinds.contains(&("index", true)));
}

fn kind(access: &Access) -> &'static str {
    match access {
        Access::Empty => "nothing",
        Access::CollectionScan { .. } => "collection",
        Access::IdLookup { .. } => "look-up",
        Access::IndexScan(_) => "index",
        Access::Union(_) => "union",
    }
}

#[test]
fn what_stands_still_is_met_once_while_the_rest_changes() {
    let mut dice = Dice(7);
    let (server, collection) = collection(&INDEXES);
    for id in 0..100 {
        insert(&server, &collection, &dice.document(id));
    }
    for round in 0..300 {
        // Even numbers stand still, odd ones come, change and go.
        let (filter, sort) = (dice.filter(), dice.sort());
        let query = query(&filter, &sort, 0, None);
        let before = everything(&server, &collection);
        let expect: BTreeSet<i32> =
            brute_force(&before, &query).iter().map(id_of).filter(|id| id % 2 == 0).collect();
        let by_collection = matches!(
            query.plan(&collection.definition()).expect("a plan").access,
            Access::CollectionScan { .. } | Access::IdLookup { .. } | Access::Union(_)
        );
        let batch = 1 + dice.below(9) as usize;
        let found = run_batches(&server.node.newest, &collection, query.clone(), batch, &mut dice, |dice| {
            let id = (dice.below(60) * 2 + 1) as i32;
            let known = everything(&server, &collection).contains_key(&id);
            match (known, dice.below(2)) {
                (false, _) => insert(&server, &collection, &dice.document(id)),
                (true, 0) => change(&server, &collection, id, Decision::Remove),
                (true, _) => change(&server, &collection, id, Decision::Replace(dice.document(id).to_buf())),
            }
        });
        let place = format!("round {round}: {filter:?} sort {sort:?}");
        let still: Vec<i32> = found.iter().map(id_of).filter(|id| id % 2 == 0).collect();
        let still_once: BTreeSet<i32> = still.iter().copied().collect();
        assert_eq!(still.len(), still_once.len(), "a document twice, {place}");
        assert_eq!(still_once, expect, "{place}");
        if by_collection {
            let ids: BTreeSet<i32> = found.iter().map(id_of).collect();
            assert_eq!(ids.len(), found.len(), "a walk in the order of _id met a document twice, {place}");
        }
        for document in &found {
            let raw = document.to_buf();
            assert!(query.matcher.matches(raw.as_raw()).expect("a verdict"), "{document:?} of {place}");
        }
    }
}

fn everything(server: &ServiceContext, collection: &Arc<Collection>) -> BTreeMap<i32, Document> {
    let found = run_batches(&server.node.newest, collection, Query::default(), 1_000, &mut Dice(1), |_| {});
    found.into_iter().map(|document| (id_of(&document), document)).collect()
}

/// Changes a document of [`moving_collection`], or takes it away and back.
fn move_one(server: &ServiceContext, collection: &Arc<Collection>, count: u64, dice: &mut Dice) {
    let id = dice.below(count) as i32;
    if dice.below(4) == 0 {
        change(server, collection, id, Decision::Remove);
        insert(server, collection, &moving_document(id, dice));
    } else {
        change(server, collection, id, Decision::Replace(moving_document(id, dice).to_buf()));
    }
}

fn moving_document(id: i32, dice: &mut Dice) -> Document {
    let tags: Vec<Value> = (0..dice.below(3)).map(|_| dice.number().into()).collect();
    doc! { "_id": id, "a": (dice.number()), "b": (dice.number()), "t": tags }
}

fn moving_collection(count: u64, dice: &mut Dice) -> (Arc<ServiceContext>, Arc<Collection>) {
    let (server, collection) = collection(&["a", "b,-c", "t"]);
    (0..count as i32).for_each(|id| insert(&server, &collection, &moving_document(id, dice)));
    (server, collection)
}

/// A walk by this kind of plan gives what was there when it began: in order, nothing twice, nothing missed.
#[track_caller]
fn check_one_state(filter: Document, sort: Document, limit: Option<u64>, needs: NeededFields, kind: &str) {
    let mut dice = Dice(16);
    let (server, collection) = moving_collection(60, &mut dice);
    for _ in 0..40 {
        let query = Query { needs: needs.clone(), ..query(&filter, &sort, 0, limit) };
        let mut expect = brute_force(&everything(&server, &collection), &query);
        expect.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        let mut executor = Executor::open(&server.node.newest, &collection, query.clone()).expect("a plan");
        assert_eq!(super::tests::kind(&executor.plan().access), kind, "{:?}", executor.plan());
        let found = run_executor(&mut executor, (3, None), &mut dice, |dice| {
            move_one(&server, &collection, 60, dice)
        });
        match &needs {
            NeededFields::Nothing => assert_eq!(found.len(), expect.len()),
            NeededFields::Only(_) => {
                let values = |documents: &[Document]| documents.iter().map(|d| d.get("a").cloned()).collect();
                let (found, mut expect): (Vec<_>, Vec<_>) = (values(&found), values(&expect));
                expect.sort_by(|one, other| {
                    one.clone().unwrap_or_default().compare(&other.clone().unwrap_or_default())
                });
                assert_eq!(found, expect);
            }
            NeededFields::All => {
                assert_eq!(sort_keys(&query, &found), sort_keys(&query, &expect));
                let ids: BTreeSet<i32> = found.iter().map(id_of).collect();
                assert_eq!(ids.len(), found.len(), "a document twice");
                assert!(
                    limit.is_some() || ids == expect.iter().map(id_of).collect(),
                    "others than there were"
                );
            }
        }
    }
}

#[test]
fn a_walk_gives_one_state_while_documents_move_along_its_index() {
    let (all, from_two) = (|| NeededFields::All, || doc! { "a": { "$gte": 2 } });
    check_one_state(doc! {}, doc! { "a": 1 }, Some(3), all(), "index");
    check_one_state(from_two(), doc! { "a": 1 }, None, all(), "index");
    check_one_state(doc! {}, doc! { "a": -1 }, Some(40), all(), "index");
    check_one_state(doc! { "a": { "$in": [1, 5, 7] } }, doc! { "b": 1 }, None, all(), "index");
    check_one_state(doc! { "t": { "$gte": 2 } }, doc! {}, None, all(), "index");
    check_one_state(doc! {}, doc! { "t": 1 }, None, all(), "index");
    check_one_state(doc! { "$or": [{ "a": 1 }, { "t": 5 }] }, doc! {}, None, all(), "union");
    check_one_state(from_two(), doc! {}, None, NeededFields::Only(vec!["a".to_owned()]), "index");
    check_one_state(from_two(), doc! {}, None, NeededFields::Nothing, "index");
    check_one_state(doc! { "t": { "$gte": 2 } }, doc! {}, None, NeededFields::Nothing, "index");
}

#[test]
fn a_distinct_walk_gives_one_state() {
    let mut dice = Dice(17);
    let (server, collection) = moving_collection(6, &mut dice);
    for _ in 0..100 {
        let values = |documents: &mut dyn Iterator<Item = Document>| -> BTreeSet<i64> {
            documents.filter_map(|document| document.to_buf().as_raw().get("a")?.as_i64_exact()).collect()
        };
        let expect = values(&mut everything(&server, &collection).into_values());
        let query = Query { needs: NeededFields::Only(vec!["a".to_owned()]), ..Query::default() };
        let plan = query.plan_distinct(&collection.definition(), "a").expect("an index leads to each value");
        let mut executor =
            Executor::with_plan(&server.node.newest, &collection, query, plan).expect("an index");
        let found =
            run_executor(&mut executor, (1, None), &mut dice, |dice| move_one(&server, &collection, 6, dice));
        assert_eq!(values(&mut found.into_iter()), expect);
    }
}

#[test]
fn an_ordered_walk_stays_in_order_when_it_is_put_aside() {
    let mut dice = Dice(18);
    let (server, collection) = moving_collection(60, &mut dice);
    for round in 0..80 {
        let sort = if round % 2 == 0 {
            doc! { "a": 1 }
        } else {
            doc! { "a": -1 }
        };
        let query = query(&doc! {}, &sort, 0, None);
        let found = run_batches(&server.node.newest, &collection, query.clone(), 5, &mut dice, |dice| {
            move_one(&server, &collection, 60, dice)
        });
        assert!(sort_keys(&query, &found).is_sorted(), "out of order by {sort:?}");
    }
}

/// Runs a query whose keys answer it, and compares documents and figures: documents, keys, documents read.
fn check_covered(
    index: &str,
    documents: &[Document],
    filter: Document,
    needs: &[&str],
    expect: &[Document],
    read: u64,
) {
    let (server, collection) = collection(&[index]);
    documents.iter().for_each(|document| insert(&server, &collection, document));
    let needs = NeededFields::Only(needs.iter().map(|path| (*path).to_owned()).collect());
    let query = Query { needs, ..query(&filter, &Document::new(), 0, None) };
    let mut executor = Executor::open(&server.node.newest, &collection, query).expect("a plan");
    let mut found = Vec::new();
    let pause = executor.run(&mut Slice::begin(), &mut |located| {
        found.push(located.document.to_document());
        Ok(Verdict::Take)
    });
    assert_eq!(pause.expect("a run"), Pause::End);
    assert_eq!(found, expect);
    assert_eq!(executor.figures().documents, read, "documents read");
}

#[test]
fn covered_plans_put_documents_together() {
    let one = &[doc! { "_id": 1, "a": 5, "n": { "x": 1, "y": 2 } }];
    let null = doc! { "_id": 2, "a": (Value::Null) };
    let missing = doc! { "_id": 3 };
    check_covered("a", one, doc! { "a": { "$gt": 1 } }, &["a"], &[doc! { "a": 5 }], 0);
    check_covered("a,n.x", one, doc! { "a": 5 }, &["a", "n.x"], &[doc! { "a": 5, "n": { "x": 1 } }], 0);
    // A hash is no value.
    check_covered("a,#n", one, doc! { "a": 5 }, &["a"], &[doc! { "a": 5 }], 0);
    let below = &[doc! { "_id": 1, "n": { "x": 1 } }];
    let wanted = &[doc! { "n": { "x": 1 } }];
    check_covered("n,#n.x", below, doc! { "n": { "$gt": {} } }, &["n"], wanted, 0);
    // Null and missing have the same key: the documents tell.
    check_covered(
        "a",
        &[null.clone(), missing.clone()],
        doc! { "a": (Value::Null) },
        &["a"],
        &[null, missing],
        2,
    );
}

#[test]
fn a_dropped_index_or_collection_ends_the_walk() {
    let check = |drop: fn(&crate::server::ServiceContext, &Namespace)| {
        let (server, collection) = collection(&["a"]);
        (0..10).for_each(|id| insert(&server, &collection, &doc! { "_id": id, "a": id }));
        let query = query(&doc! { "a": { "$gte": 0 } }, &Document::new(), 0, None);
        let mut executor = Executor::open(&server.node.newest, &collection, query).expect("a plan");
        let pause = executor.run(&mut Slice::begin(), &mut |_| Ok(Verdict::TakeAndStop)).expect("a document");
        assert_eq!(pause, Pause::Stopped);
        executor.save();
        executor.read_from(&server.node.newest);
        drop(&server, &Namespace::new("db", "c"));
        let error =
            executor.run(&mut Slice::begin(), &mut |_| Ok(Verdict::Take)).expect_err("nothing to walk on");
        assert_eq!(error.code, 175);
    };
    check(|server, namespace| {
        block_on(server.node.catalog.drop_collection(testing::writing(server), namespace)).expect("a drop");
    });
    check(|server, namespace| {
        let selection = catalog::IndexSelection::Names(vec!["a".to_owned()]);
        block_on(server.node.catalog.drop_indexes(testing::writing(server), namespace, &selection))
            .expect("a drop");
    });
}

#[test]
fn sorts_spill_and_respect_their_limit() {
    let (server, collection) = collection(&[]);
    let pad = "x".repeat(1_000);
    (0..500).for_each(|id| {
        insert(&server, &collection, &doc! { "_id": id, "a": (id * 7 % 500), "pad": (pad.as_str()) })
    });
    let sorted = |spill: Option<Spill>| {
        let query = Query { sort_memory_bytes: 50_000, spill, ..query(&doc! {}, &doc! { "a": 1 }, 3, None) };
        let mut executor = Executor::open(&server.node.newest, &collection, query).expect("a plan");
        let mut values = Vec::new();
        loop {
            let pause = executor.run(&mut Slice::begin(), &mut |located| {
                values.push(located.document.get("a").and_then(RawValue::as_i64_exact));
                Ok(Verdict::Take)
            })?;
            if pause == Pause::End {
                return Ok::<_, crate::error::CommandError>((values, executor.sort_figures().spilled_runs));
            }
        }
    };
    assert_eq!(sorted(None).expect_err("too much for the memory").code, 292);
    let (values, runs) = sorted(Some(Spill::into_directory(std::env::temp_dir()))).expect("a sorted answer");
    assert_eq!(values, (3..500).map(Some).collect::<Vec<_>>());
    assert!(runs > 1, "{runs} runs");
}

#[test]
fn positions_of_equal_keys_are_kept_apart() {
    let (server, collection) = collection(&["a"]);
    (0..50).for_each(|id| insert(&server, &collection, &doc! { "_id": id, "a": 1 }));
    for sort in [doc! { "a": 1 }, doc! { "a": -1 }] {
        let query = query(&doc! { "a": 1 }, &sort, 0, None);
        let found = run_batches(&server.node.newest, &collection, query, 1, &mut Dice(3), |_| {});
        let ids: BTreeSet<i32> = found.iter().map(id_of).collect();
        assert_eq!((found.len(), ids.len()), (50, 50), "sort {sort:?}");
    }
}

#[test]
fn document_keys_lead_to_documents() {
    let (server, collection) = collection(&["a"]);
    insert(&server, &collection, &doc! { "_id": "x", "a": 1 });
    let query = query(&doc! { "a": 1 }, &Document::new(), 0, None);
    let mut executor = Executor::open(&server.node.newest, &collection, query).expect("a plan");
    let mut key = Vec::new();
    executor
        .run(&mut Slice::begin(), &mut |located| {
            key = located.document_key.to_vec();
            Ok(Verdict::Take)
        })
        .expect("a run");
    let mut expect = Vec::new();
    encode_value(&mut expect, RawValue::String("x"));
    assert_eq!(key, expect);
}

#[test]
fn a_costly_filter_holds_no_event_loop() {
    let (server, collection) = collection(&[]);
    let numbers: Vec<Value> = (0..4_000).map(Value::Int32).collect();
    (0..3).for_each(|id| insert(&server, &collection, &doc! { "_id": id, "a": (numbers.clone()) }));
    // Each condition goes over the whole array.
    let conditions: Vec<Value> = (0..150).map(|n| doc! { "a": { "$ne": (-1 - n) } }.into()).collect();
    let query = query(&doc! { "$and": conditions }, &Document::new(), 0, None);
    let mut executor = Executor::open(&server.node.newest, &collection, query).expect("a plan");
    assert!(!executor.surely_outlasts(), "what is known beforehand does not come here");
    let mut found = 0;
    let mut run = |tier: ReadTier| {
        let before = checkpoint::steps();
        let mut slice = Slice::of_steps(1_000_000, tier);
        let pause = executor.run(&mut slice, &mut |_| {
            found += 1;
            Ok(Verdict::TakeAndStop)
        });
        (pause.expect("a run"), found, checkpoint::steps() - before)
    };
    let (pause, taken, steps) = run(ReadTier::BlockCache);
    assert_eq!((pause, taken), (Pause::Sliced, 0), "it pauses in front of the document");
    assert!(steps < 13_000, "{steps} steps are made on a loop");
    let (pause, taken, steps) = run(ReadTier::Any);
    assert_eq!((pause, taken), (Pause::Stopped, 1), "the document comes where it may take long");
    assert!(steps > 13_000, "a document takes {steps} steps");
}

#[test]
fn a_plan_made_before_the_first_array_proves_nothing_of_it() {
    let (server, collection) = collection(&["t"]);
    insert(&server, &collection, &doc! { "_id": 1, "t": 5 });
    insert(&server, &collection, &doc! { "_id": 2, "t": 6 });
    let query = query(&doc! { "t": { "$gte": 0, "$ne": 5 } }, &Document::new(), 0, None);
    let mut executor = Executor::open(&server.node.newest, &collection, query).expect("a plan");
    assert!(matches!(executor.plan().access, Access::IndexScan(_)) && executor.plan().residual.is_none());
    insert(&server, &collection, &doc! { "_id": 3, "t": [5, 6] });
    let found = run_executor(&mut executor, (10, None), &mut Dice(1), |_| {});
    assert_eq!(found.iter().map(id_of).collect::<Vec<_>>(), [2], "an entry of 6 leads to an array with a 5");
}
