//! How large values may become, and that what takes long can be ended.

use document::{Value, array, doc};

use super::{check, check_error, evaluate};
use crate::checkpoint::tests::Ends;
use crate::checkpoint::watch;

const MILLION: i32 = 1_000_000;

fn range(count: i32) -> Value {
    doc! { "$range": [0, count] }.into()
}

/// `2^doublings` times what `$$x` is at first, each step naming the last one twice.
fn doubled(first: impl Into<Value>, doublings: i32, join: &str) -> Value {
    let both = array!["$$value", "$$value"];
    let steps = doc! { "input": (range(doublings)), "initialValue": (first.into()), "in": { (join): both } };
    doc! { "$reduce": steps }.into()
}

#[test]
fn arrays_and_objects_stop_at_mongodbs_number_of_values() {
    check(doc! { "$size": (range(6 * MILLION)) }, 6 * MILLION);
    check_error(
        range(7 * MILLION),
        146,
        "$range would use too much memory (112000024 bytes) and cannot spill to disk. Memory limit: \
        104857600 bytes",
    );
    check_error(doubled(array![1], 30, "$concatArrays"), 146, "$concatArrays would use too much memory");
    let wide = array![(range(3 * MILLION)), [], [], []];
    check_error(doc! { "$zip": { "inputs": wide, "useLongestLength": true } }, 146, "$zip would use");
    let rows = doc! { "input": (range(2 * MILLION)), "in": { "a": "$$this", "b": "$$this" } };
    check_error(doc! { "$map": rows }, 146, "$map would use too much memory");
    let shared = doc! { "input": (range(1000)), "in": "$$many" };
    let shared = doc! { "vars": { "many": (range(MILLION)) }, "in": { "$map": shared } };
    check_error(doc! { "$let": shared }, 146, "$map would use too much memory");
}

#[test]
fn operands_count_together() {
    let nested = (0..20).fold(range(1), |inner, _| {
        doc! {
            "$concatArrays": [{ "$slice": [(range(4 * MILLION)), (4 * MILLION)] }, { "$slice": [inner, 1] }]
        }
        .into()
    });
    check_error(nested, 146, "the expression would use too much memory");
}

#[test]
fn strings_stop_at_64_mb() {
    let message = "BufBuilder attempted to grow() to 67108866 bytes, past the 64MB limit.";
    check_error(doubled("ab!", 30, "$concat"), 13548, "past the 64MB limit.");
    let pair = doubled("a", 25, "$concat");
    check(doc! { "$strLenBytes": (pair.clone()) }, 1 << 25);
    check_error(doc! { "$concat": [(pair.clone()), (pair.clone()), "bc"] }, 13548, message);
    let replaced = doc! {
        "input": (doubled("a", 14, "$concat")), "find": "a", "replacement": (doubled("b", 14, "$concat"))
    };
    check_error(doc! { "$replaceAll": replaced.clone() }, 13548, "attempted to grow() to 268435456 bytes");
    check(doc! { "$strLenBytes": { "$replaceOne": replaced } }, (1 << 15) - 1);
    let split = doc! { "$split": [(doubled("a,", 23, "$concat")), ","] };
    check_error(split, 146, "$split would use too much memory");
}

#[test]
fn values_nest_as_deep_as_documents_may() {
    let nest = |levels: i32| {
        let steps = doc! { "input": (range(levels)), "initialValue": 1, "in": ["$$value"] };
        doc! { "$isArray": [{ "$reduce": steps }] }
    };
    check(nest(200), true);
    check_error(nest(300_000), 15, "exceeds the limit of 200 levels of nesting");
}

#[test]
fn an_array_named_within_a_loop_over_it_is_not_copied() {
    let last = doc! { "$arrayElemAt": ["$$many", "$$this"] };
    let sum = doc! { "input": "$$many", "in": last };
    let expression =
        doc! { "$let": { "vars": { "many": (range(20_000)) }, "in": { "$sum": { "$map": sum } } } };
    let began = std::time::Instant::now();
    check(expression, 199_990_000);
    // Copies would be 20,000 * 20,000 values: minutes.
    assert!(began.elapsed().as_secs() < 20, "the loop took {:?}", began.elapsed());
}

#[test]
fn names_are_found_in_large_objects_without_looking_through_all() {
    let pair = doc! { "k": { "$toString": "$$this" }, "v": "$$this" };
    let object = doc! { "$arrayToObject": { "$map": { "input": (range(100_000)), "in": pair } } };
    let twice = doc! { "$size": { "$objectToArray": { "$mergeObjects": [(object.clone()), object] } } };
    let began = std::time::Instant::now();
    check(twice, 100_000);
    assert!(began.elapsed().as_secs() < 30, "it took {:?}", began.elapsed());
}

#[test]
fn loops_can_be_ended() {
    let body = doc! { "$add": ["$$this", 1] };
    let map = doc! { "$map": { "input": (range(MILLION)), "in": (body.clone()) } };
    let filter = doc! { "$filter": { "input": (range(MILLION)), "cond": (body.clone()) } };
    let reduce = doc! { "$reduce": { "input": (range(MILLION)), "initialValue": 0, "in": body } };
    for expression in [map, filter, reduce] {
        let _watched = watch(Ends::after(5));
        let ended = evaluate(Value::from(expression.clone()));
        assert_eq!(ended.map_err(|(code, _)| code), Err(11601), "{expression:?}");
    }
}
