//! Walks over what has expired: what goes, what stays, and what was changed in between.

use super::*;
use crate::{ExpiryError, ExpiryFigures, ExpiryStep, ExpiryWalk, IndexSelection};
use document::doc;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The moment of all walks, in milliseconds since 1970.
const NOW: i64 = 1_000_000_000_000;

fn date(seconds_before: i64) -> Value {
    Value::DateTime(NOW - 1000 * seconds_before)
}

fn ttl_index(catalog: &Catalog, extra: Document) {
    let mut spec = doc! { "key": { "at": 1 }, "name": "ttl", "expireAfterSeconds": 10 };
    extra.into_iter().for_each(|(name, value)| drop(spec.insert(name, value)));
    index(catalog, "c", spec).expect("an index");
}

fn walk(collection: &Collection) -> ExpiryWalk {
    ExpiryWalk::new(collection.definition().index("ttl").expect("the index").id, NOW)
}

/// Goes on until the end, so many documents at a time.
fn run(
    collection: &Arc<Collection>,
    walk: &mut ExpiryWalk,
    documents: usize,
) -> Result<ExpiryFigures, ExpiryError> {
    while block_on(walk.step(writing(collection), collection, documents))? == ExpiryStep::Continues {}
    Ok(walk.figures())
}

/// Numbers of the documents that are left.
fn left(collection: &Arc<Collection>) -> Vec<i64> {
    all(collection).iter().map(|document| number(document, "_id")).collect()
}

#[test]
fn what_has_a_date_that_has_come_goes() {
    for direction in [1, -1] {
        on_both_engines(|catalog| {
            ttl_index(&catalog, doc! { "key": { "at": direction } });
            let things = collection(&catalog, "c");
            let values: Vec<Value> = vec![
                date(10),
                date(9),
                Value::DateTime(NOW - 9_999),
                Value::DateTime(i64::MIN),
                Value::DateTime(i64::MAX),
                vec![date(0), date(11), date(5)].into(),
                vec![date(0), date(5)].into(),
                vec![Value::from("text"), date(12)].into(),
                Vec::<Value>::new().into(),
                Value::from("1970-01-01"),
                Value::Int64(0),
                Value::Null,
                Value::Timestamp(Default::default()),
                doc! { "at": (date(100)) }.into(),
                Value::Double(f64::NAN),
                Value::MinKey,
                Value::MaxKey,
            ];
            for (id, at) in values.into_iter().enumerate() {
                insert(&things, doc! { "_id": (id as i32), "at": at }).expect("an insert");
            }
            insert(&things, doc! { "_id": 100 }).expect("an insert");
            let figures = run(&things, &mut walk(&things), 2).expect("a walk");
            assert_eq!(left(&things), [1, 2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 100], "{direction}");
            assert_eq!((figures.deleted, figures.documents, figures.keys), (4, 4, 4), "and nothing was met");
            assert_valid(&things);
        });
    }
}

#[test]
fn a_document_with_many_dates_is_deleted_once() {
    on_both_engines(|catalog| {
        ttl_index(&catalog, doc! {});
        let things = collection(&catalog, "c");
        for id in 0..5 {
            let dates: Vec<Value> = (20..320).map(date).collect();
            insert(&things, doc! { "_id": id, "at": dates }).expect("an insert");
        }
        let figures = run(&things, &mut walk(&things), 1000).expect("a walk");
        assert_eq!((figures.deleted, figures.documents, things.document_count()), (5, 5, 0));
        assert_valid(&things);
    });
}

#[test]
fn a_partial_index_expires_what_it_has() {
    on_both_engines(|catalog| {
        ttl_index(&catalog, doc! { "partialFilterExpression": { "gone": { "$gt": 0 } } });
        let things = collection(&catalog, "c");
        for id in 0..6 {
            insert(&things, doc! { "_id": id, "gone": (id % 2), "at": (date(11)) }).expect("an insert");
        }
        run(&things, &mut walk(&things), 10).expect("a walk");
        assert_eq!(left(&things), [0, 2, 4]);
    });
}

#[test]
fn the_longest_time_never_passes_and_none_passes_at_once() {
    on_both_engines(|catalog| {
        ttl_index(&catalog, doc! { "expireAfterSeconds": (f64::NAN) });
        let things = collection(&catalog, "c");
        insert(&things, doc! { "_id": 1, "at": (date(0)) }).expect("an insert");
        insert(&things, doc! { "_id": 2, "at": (date(-1)) }).expect("an insert");
        run(&things, &mut walk(&things), 10).expect("a walk");
        assert_eq!(left(&things), [1, 2]);
        let change = doc! { "index": { "name": "ttl", "expireAfterSeconds": 0 } };
        block_on(catalog.coll_mod(changing(&catalog), &namespace("c"), change.to_buf().as_raw()))
            .expect("collMod");
        run(&things, &mut walk(&things), 10).expect("a walk");
        assert_eq!(left(&things), [2]);
    });
}

#[test]
fn a_walk_goes_on_where_it_was() {
    for direction in [1, -1] {
        on_both_engines(|catalog| {
            ttl_index(&catalog, doc! { "key": { "at": direction } });
            let things = collection(&catalog, "c");
            for id in 0..400 {
                insert(&things, doc! { "_id": id, "at": (date(800 - i64::from(id))) }).expect("an insert");
            }
            let mut walk = walk(&things);
            for steps in 1..=3 {
                let step = block_on(walk.step(writing(&things), &things, 100)).expect("a step");
                assert_eq!(step, ExpiryStep::Continues);
                assert_eq!(left(&things).first(), Some(&(100 * steps)), "the oldest go first");
            }
            // What is older than what it has passed is the next walk's.
            insert(&things, doc! { "_id": -1, "at": (date(900)) }).expect("an insert");
            let figures = run(&things, &mut walk, 100).expect("a walk");
            assert_eq!((left(&things), figures.keys), (vec![-1], 400), "each entry is walked over once");
            assert_valid(&things);
        });
    }
}

/// What is changed between the walk and the latches.
fn check_changed_meanwhile(change: impl Fn(&Arc<Collection>), expect: &[i64]) {
    on_both_engines(|catalog| {
        ttl_index(&catalog, doc! {});
        let things = collection(&catalog, "c");
        for id in 0..3 {
            insert(&things, doc! { "_id": id, "at": (date(20)) }).expect("an insert");
        }
        let mut walk = walk(&things);
        {
            let kept_out = block_on(things.begin_change()).expect("nobody ends it");
            let mut step = pin!(walk.step(writing(&things), &things, 10));
            let mut poll = || step.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll().is_pending(), "it waits for its turn to write");
            drop(kept_out);
            change(&things);
            let result = loop {
                if let Poll::Ready(result) = poll() {
                    break result;
                }
            };
            result.expect("a step");
        }
        assert_eq!(left(&things), expect);
        assert_eq!(walk.figures().deleted, 3 - expect.len() as u64);
        assert_valid(&things);
    });
}

#[test]
fn what_was_changed_meanwhile_is_looked_at_again() {
    check_changed_meanwhile(|_| {}, &[]);
    let postpone = |things: &Arc<Collection>| {
        update(things, 1, |_| Some(doc! { "_id": 1, "at": (date(0)) })).expect("an update");
        update(things, 2, |_| Some(doc! { "_id": 2, "at": (date(30)) })).expect("an update");
    };
    check_changed_meanwhile(postpone, &[1]);
    check_changed_meanwhile(|things| _ = update(things, 1, |_| Some(doc! { "_id": 1 })), &[1]);
    let expire_later = |things: &Arc<Collection>| {
        let mut definition = things.definition().copy().expect("a copy");
        let id = definition.index("ttl").expect("the index").id;
        let later = |index: &crate::IndexDefinition| {
            let spec = IndexSpec { expire_after_seconds: Some(21), ..index.spec.clone() };
            (spec, index.state, index.multikey.clone())
        };
        definition.change_index(id, later).expect("a change");
        things.publish(definition);
    };
    check_changed_meanwhile(expire_later, &[0, 1, 2]);
}

#[test]
fn what_is_gone_or_expires_nothing_ends_a_walk() {
    on_both_engines(|catalog| {
        ttl_index(&catalog, doc! {});
        let things = collection(&catalog, "c");
        for id in 0..10 {
            insert(&things, doc! { "_id": id, "at": (date(20)) }).expect("an insert");
        }
        let plain = doc! { "key": { "b": 1 }, "name": "plain" };
        index(&catalog, "c", plain).expect("an index");
        let hashed = doc! { "key": { "at": "hashed" }, "name": "hashed", "expireAfterSeconds": 10 };
        index(&catalog, "c", hashed).expect("an index");
        let definition = things.definition();
        for (name, is_ttl) in [("plain", false), ("hashed", true), ("_id_", false)] {
            let index = definition.index(name).expect("the index");
            assert_eq!((index.is_ttl(), index.orders_dates()), (is_ttl, name == "plain"), "{name}");
            let figures = run(&things, &mut ExpiryWalk::new(index.id, NOW), 10).expect("a walk");
            assert_eq!(figures, ExpiryFigures::default(), "{name}");
        }
        let mut walk = walk(&things);
        block_on(walk.step(writing(&things), &things, 3)).expect("a step");
        let selection = IndexSelection::Names(vec!["ttl".into()]);
        block_on(catalog.drop_indexes(changing(&catalog), &namespace("c"), &selection)).expect("a drop");
        let step = block_on(walk.step(writing(&things), &things, 3)).expect("a step");
        assert_eq!((step, things.document_count()), (ExpiryStep::Ended, 7));
        ttl_index(&catalog, doc! {});
        let mut walk = self::walk(&things);
        block_on(catalog.drop_collection(changing(&catalog), &namespace("c"))).expect("a drop");
        let refused = run(&things, &mut walk, 3).expect_err("the collection is dropped");
        assert_eq!(refused.code(), 175);
    });
}

#[test]
fn only_one_field_of_a_collection_that_is_not_capped_expires() {
    on_both_engines(|catalog| {
        let refused = |name: &str, key: Document| {
            index(&catalog, name, doc! { "key": key, "name": "refused", "expireAfterSeconds": 1 })
        };
        create(&catalog, "capped", doc! { "capped": true, "size": 5000 }).expect("a collection");
        assert_code(refused("c", doc! { "a": 1, "b": 1 }), 67);
        assert_code(refused("c", doc! { "_id": 1 }), 197);
        assert_code(refused("capped", doc! { "a": 1 }), 67);
        let modify = |name: &str, pattern: Document| {
            let change = doc! { "index": { "keyPattern": pattern, "expireAfterSeconds": 1 } };
            block_on(catalog.coll_mod(changing(&catalog), &namespace(name), change.to_buf().as_raw()))
        };
        for (name, pattern) in
            [("c", doc! { "a": 1, "b": 1 }), ("c", doc! { "a": 1 }), ("capped", doc! { "a": 1 })]
        {
            index(&catalog, name, doc! { "key": (pattern.clone()), "name": "plain" })
                .or_else(|_| index(&catalog, name, doc! { "key": (pattern.clone()), "name": "other" }))
                .expect("an index");
        }
        assert_code(modify("c", doc! { "a": 1, "b": 1 }), 72);
        assert_code(modify("c", doc! { "_id": 1 }), 72);
        assert_code(modify("capped", doc! { "a": 1 }), 72);
        let reply = modify("c", doc! { "a": 1 }).expect("a plain index becomes one");
        assert_eq!(reply, doc! { "expireAfterSeconds_new": 1_i64 });
        let definition = collection(&catalog, "c").definition();
        assert!(definition.indexes_by_pattern(&doc! { "a": 1 }).iter().all(|index| index.is_ttl()));
    });
}
