//! Random operations against a model, then `validate`, also after reopening.

use super::*;
use document::doc;
use fastrand::Rng;
use std::collections::BTreeMap;

fn random_document(random: &mut Rng, id: i32) -> Document {
    let mut document = doc! { "_id": id };
    match random.u64(..5) {
        0 => {}
        1 => document.push("a", random.u64(..5) as i32),
        2 => document.push(
            "a",
            Value::Array((0..random.u64(..4)).map(|_| Value::Int32(random.u64(..5) as i32)).collect()),
        ),
        3 => document.push("a", random.u64(..10) as f64 / 2.0),
        _ => document.push("a", doc! { "b": random.u64(..3) as i32 }),
    }
    if random.u64(..3) > 0 {
        document.push("u", random.u64(..40) as i32);
    }
    if random.u64(..2) == 0 {
        document.push("pad", "x".repeat(random.u64(..300) as usize));
    }
    document
}

/// Whether the unique sparse index on `u` lets `document` in.
fn is_free(model: &BTreeMap<i32, Document>, document: &Document) -> bool {
    let id = document.get("_id");
    document
        .get("u")
        .is_none_or(|key| !model.values().any(|other| other.get("u") == Some(key) && other.get("_id") != id))
}

fn run(catalog: &Catalog, random: &mut Rng, model: &mut BTreeMap<i32, Document>, steps: usize) {
    let things = collection(catalog, "c");
    for step in 0..steps {
        let id = random.u64(..60) as i32;
        let document = random_document(random, id);
        match random.u64(..10) {
            0..=3 => {
                let expected = !model.contains_key(&id) && is_free(model, &document);
                assert_eq!(
                    insert(&things, document.clone()).is_ok(),
                    expected,
                    "step {step}: insert of {document:?}"
                );
                if expected {
                    model.insert(id, document);
                }
            }
            4..=7 => {
                let expected = is_free(model, &document);
                let result = update(&things, id, |_| Some(document.clone()));
                assert_eq!(result.is_ok(), expected, "step {step}: update to {document:?}: {result:?}");
                if expected {
                    model.insert(id, document);
                }
            }
            8 => {
                assert_eq!(
                    update(&things, id, |_| None).expect("a delete"),
                    model.remove(&id).is_some(),
                    "step {step}"
                );
            }
            _ if random.u64(..10) == 0 => {
                let selection = crate::IndexSelection::Names(vec!["a".into()]);
                let _ = block_on(catalog.drop_indexes(changing(catalog), &namespace("c"), &selection));
                index(catalog, "c", doc! { "key": { "a": 1, "pad": -1 }, "name": "a" }).expect("an index");
            }
            _ => assert_eq!(get(&things, id).as_ref(), model.get(&id), "step {step}: find of {id}"),
        }
    }
    assert_eq!(all(&things), model.values().cloned().collect::<Vec<_>>());
    assert_valid(&things);
}

fn indexes(catalog: &Catalog) {
    for spec in [
        doc! { "key": { "u": 1 }, "name": "u", "unique": true, "sparse": true },
        doc! { "key": { "a": 1, "pad": -1 }, "name": "a" },
        doc! { "key": { "a.b": 1 }, "name": "ab", "partialFilterExpression": { "u": { "$gt": 10 } } },
        doc! { "key": { "u": "hashed" }, "name": "h" },
    ] {
        index(catalog, "c", spec).expect("an index");
    }
}

#[test]
fn random_operations_agree_with_a_model() {
    on_both_engines(|catalog| {
        for seed in 1..=4 {
            indexes(&catalog);
            let mut random = Rng::with_seed(seed);
            run(&catalog, &mut random, &mut BTreeMap::new(), 500);
            block_on(catalog.drop_collection(changing(&catalog), &namespace("c"))).expect("a drop");
        }
    });
}

#[test]
fn a_reopened_store_agrees_with_the_model() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut random, mut model) = (Rng::with_seed(77), BTreeMap::new());
    for round in 0..4 {
        let store = Store::open(directory.path().join("data"), &StorageOptions::small()).expect("a store");
        let catalog = Catalog::open(store).expect("a catalog");
        if round == 0 {
            indexes(&catalog);
        }
        run(&catalog, &mut random, &mut model, 200);
    }
}
